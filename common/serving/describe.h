// The call Describe of a service.
#pragma once

#include <cstdint>
#include <functional>

#include "common/transport/raw_service.h"
#include "tandem/v1/describe.pb.h"

namespace tandem::serving {

// Answers it at once. The status and what is refused: messages::FillDescription. `welcome` and
// `token_hash` outlive the call. `load`: as of now. Thread-safe.
transport::RawService::Reactor<v1::DescribeReply>* Describe(
    grpc::CallbackServerContext* call, const v1::Welcome& welcome,
    const std::function<uint32_t(uint32_t token)>& token_hash, std::function<v1::Load()> load);

}  // namespace tandem::serving
