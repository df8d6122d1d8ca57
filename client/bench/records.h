// What a run of many requests left behind: plain values, so that the report can be tested without a
// service.
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

// How a request drafts: not at all (0), so many candidates a round, or as many as pay (absent).
struct BenchMode {
  std::optional<uint32_t> draft_tokens;

  bool off() const { return draft_tokens == 0u; }
  std::string Name() const;  // "off", "K=4", "auto"
  void Apply(v1::GenerateRequest& request) const;
};

// The counters of Load (tokens.proto), summed over targets.
struct DeviceUse {
  uint64_t passes = 0;
  uint64_t pass_rows = 0;
  uint64_t pass_sequences = 0;
  uint64_t busy_us = 0;
  uint64_t idle_us = 0;
};

// Sums what the ready targets say. nullopt: none of them counts anything.
std::optional<DeviceUse> DeviceUseOf(const v1::DescribeReply& reply);

// What happened in between. nullopt: one of them is absent, or a target has been restarted
// meanwhile.
std::optional<DeviceUse> Difference(const std::optional<DeviceUse>& before,
                                    const std::optional<DeviceUse>& after);

// A request that ended well, as its client saw it.
struct RequestRecord {
  double first_token_ms = 0;           // from its start to its first token
  std::optional<double> per_token_ms;  // after the first delta; absent: all came in one
  v1::Last last;                       // its own account
};

struct Failures {
  uint64_t count = 0;
  std::string first_message;
};

// One mode at one concurrency, once.
struct LoadRun {
  double window_s = 0;
  uint64_t window_tokens = 0;                // that came in the window, of whichever request
  std::vector<RequestRecord> requests;       // that started in the window
  std::map<std::string, Failures> failures;  // by the status' name; of the whole run
  std::optional<DeviceUse> device;           // in the window

  double TokensPerSecond() const { return window_s > 0 ? window_tokens / window_s : 0; }
};

}  // namespace tandem::client
