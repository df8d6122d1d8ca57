// Streams and calls to the peers over gRPC channels.
#pragma once

#include <memory>

#include "orchestrator/peers/connector.h"
#include "tandem/internal/v1/draft.pb.h"
#include "tandem/internal/v1/target.pb.h"

namespace grpc {
class Channel;
}

namespace tandem::orchestrator {

// Each returned function keeps the channel alive.
OpenStream<internal::v1::TargetRequest, internal::v1::TargetReply> TargetStreams(
    std::shared_ptr<grpc::Channel> channel);
OpenStream<internal::v1::DraftRequest, internal::v1::DraftReply> DraftStreams(
    std::shared_ptr<grpc::Channel> channel);
DescribePeer DescribeTarget(std::shared_ptr<grpc::Channel> channel);
DescribePeer DescribeDraft(std::shared_ptr<grpc::Channel> channel);

}  // namespace tandem::orchestrator
