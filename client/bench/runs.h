// Runs what `tandem bench` compares, modes in turn, so that what else the machine does falls on all
// alike.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/bench/load_report.h"
#include "client/bench/options.h"
#include "client/bench/report.h"
#include "tandem/v1/generation.grpc.pb.h"

namespace tandem::client {

// A prompt without a draft and with one, one after the other. Ends at the first failure.
absl::StatusOr<BenchReport> RunPairs(const BenchOptions& options,
                                     const std::vector<std::string>& prompts,
                                     v1::Generation::StubInterface& stub);

// Adds a table for each concurrency to `tables`; also when it fails, with the runs up to then.
// Requests that fail are counted in them; an error only when a run has no request that ended well,
// or after a signal (CANCELLED).
absl::Status RunLoad(const BenchOptions& options, const std::vector<std::string>& prompts,
                     std::vector<LoadTable>& tables);

absl::StatusOr<std::vector<IdlePair>> RunIdle(const BenchOptions& options,
                                              const std::vector<std::string>& prompts,
                                              v1::Generation::StubInterface& stub);

}  // namespace tandem::client
