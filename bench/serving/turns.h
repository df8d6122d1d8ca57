// Variants of the same services beside each other: measured in turn, compared within a turn.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "grpcpp/channel.h"
#include "tandem/v1/generation.grpc.pb.h"

namespace tandem::testing {

// Processes that this one has started, and that run.
std::set<int> Children();
// Seconds that the processes' threads have computed; those that have ended are left out.
double ProcessorTime(const std::set<int>& processes);

// One variant's services, and what was measured of them. The channel is the caller's to keep.
struct Measured {
  std::string name;
  std::shared_ptr<grpc::Channel> channel;
  std::set<int> processes;  // of the services
  // One a turn.
  std::vector<double> tokens_per_second;
  std::vector<double> tokens_per_processor_second;
};

// Ten requests for that many tokens, with four candidates a round.
std::vector<v1::GenerateRequest> TenRequests(uint32_t tokens);

// One turn that counts for nothing, then `turns` of them, in an order that changes with every turn.
void MeasureInTurn(absl::Span<Measured* const> variants,
                   const std::vector<v1::GenerateRequest>& requests, int turns, int at_once);

// For tokens a second and tokens a second of processor time: each of the others' ratio to `base`,
// least, median and most, and the median's 95 % interval: that of the order statistics which hold
// it (a sign test's), whatever the times' distribution.
void Report(const Measured& base, absl::Span<const Measured* const> others);

// The main function of such a benchmark: run(turns, at_once, tokens) by the program's arguments,
// which are those three, or are absent; its exit code. 2, with the usage, for others.
int RunTurns(int argc, char** argv, int (*run)(int turns, int at_once, uint32_t tokens));

}  // namespace tandem::testing
