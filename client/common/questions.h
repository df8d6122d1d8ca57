// Calls of an orchestrator that have one answer, and have it at once.
//
// Each waits for ten seconds at most. Its error is the call's.
//
// Thread safety: pure functions; a stub may be shared.
#pragma once

#include "absl/status/statusor.h"
#include "tandem/v1/generation.grpc.pb.h"

namespace tandem::client {

absl::StatusOr<v1::DescribeReply> Describe(v1::Generation::StubInterface& stub);
absl::StatusOr<v1::ListModelsReply> ListModels(v1::Generation::StubInterface& stub);
absl::StatusOr<v1::TokenizeReply> Tokenize(v1::Generation::StubInterface& stub,
                                           const v1::TokenizeRequest& request);
absl::StatusOr<v1::DetokenizeReply> Detokenize(v1::Generation::StubInterface& stub,
                                               const v1::DetokenizeRequest& request);

}  // namespace tandem::client
