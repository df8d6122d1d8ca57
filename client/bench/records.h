// The records of a load run. They are plain values, so the report is tested without a service.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tandem/v1/generation.pb.h"

namespace tandem::client {

// The draft tokens that a request asks for: 0 for none, a fixed number for each round, or absent
// for the length policy `auto`.
struct BenchMode {
  std::optional<uint32_t> draft_tokens;

  bool off() const { return draft_tokens == 0u; }
  std::string Name() const;  // "off", "K=4", "auto"
  void Apply(v1::GenerateRequest& request) const;
};

// The counters of the message Load (describe.proto), summed over targets.
struct DeviceUse {
  uint64_t passes = 0;
  uint64_t pass_rows = 0;
  uint64_t pass_sequences = 0;
  uint64_t busy_us = 0;
  uint64_t idle_us = 0;
};

// Sums the counters of the ready targets. Returns nullopt when none of them reports counters.
std::optional<DeviceUse> DeviceUseOf(const v1::DescribeReply& reply);

// The work between two reports. Returns nullopt when one of them is absent or a target was
// restarted in between.
std::optional<DeviceUse> Difference(const std::optional<DeviceUse>& before,
                                    const std::optional<DeviceUse>& after);

// A request that ended well, as its client saw it.
struct RequestRecord {
  double first_token_ms = 0;           // from the request's start to its first token
  std::optional<double> per_token_ms;  // after the first delta; absent: there was one delta only
  v1::Last last;                       // its last message
};

struct Failures {
  uint64_t count = 0;
  std::string first_message;
};

// One run of one mode at one concurrency.
struct LoadRun {
  double counted_s = 0;                      // window and tail
  uint64_t tokens = 0;                       // received in them, from any request
  std::vector<RequestRecord> requests;       // those that started in the window
  std::map<std::string, Failures> failures;  // of the whole run; key: name of the status
  std::optional<DeviceUse> device;           // work of the devices in window and tail

  double TokensPerSecond() const { return counted_s > 0 ? tokens / counted_s : 0; }
};

}  // namespace tandem::client
