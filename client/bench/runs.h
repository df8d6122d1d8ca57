// Runs the requests that `tandem bench` compares. The modes take turns, so that other work of the
// machine slows all of them alike.
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

// `prompts` everywhere: requests with a prompt and nothing else, at least one.

// Runs each prompt without a draft and then with one. Returns the first failure.
absl::StatusOr<BenchReport> RunPairs(const BenchOptions& options,
                                     const std::vector<v1::GenerateRequest>& prompts,
                                     v1::Generation::StubInterface& stub);

// Adds a table for each concurrency to `tables`. After an error the tables hold the runs until
// then. Failed requests are counted in the tables and are not errors. It is an error when no
// request of a run ended well; CANCELLED follows a signal.
absl::Status RunLoad(const BenchOptions& options, const std::vector<v1::GenerateRequest>& prompts,
                     std::vector<LoadTable>& tables);

absl::StatusOr<std::vector<IdlePair>> RunIdle(const BenchOptions& options,
                                              const std::vector<v1::GenerateRequest>& prompts,
                                              v1::Generation::StubInterface& stub);

}  // namespace tandem::client
