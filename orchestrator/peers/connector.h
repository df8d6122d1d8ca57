// How clients reach peers, without gRPC in the interface. wiring.cc makes these functions of a
// channel; a test makes them of nothing.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/transport/stream.h"
#include "tandem/v1/describe.pb.h"

namespace tandem::orchestrator {

// Opens a stream. The transport owns the handler, and calls it only after this function has
// returned. A failure to connect comes as OnDone.
template <typename Out, typename In>
using OpenStream = std::function<std::shared_ptr<transport::Sink<Out>>(
    std::unique_ptr<transport::StreamHandler<In>> handler)>;

// Asks a peer to describe itself. The answer comes once, on any thread.
using DescribePeer =
    std::function<void(const v1::DescribeRequest& request,
                       std::function<void(absl::StatusOr<v1::DescribeReply>)> answer)>;

// Says whether a peer's Welcome fits: OK, or FAILED_PRECONDITION with both values. `done` is called
// once, inside the call or later, on any thread, with no lock held.
using CheckWelcome =
    std::function<void(const v1::Welcome& welcome, std::function<void(absl::Status)> done)>;

}  // namespace tandem::orchestrator
