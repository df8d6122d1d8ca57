// What sessions tell the thread of a service: the life of each stream, and the requests on it.
// Plain values.
//
//   StreamBegins ──▶ requests … ──▶ StreamFinishes ──▶ (its last answers) ──▶ it ends with OK
//                        └────────────────┴──▶ StreamEnds: it broke, or it is ended
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "common/base/ids.h"
#include "common/serving/stream_id.h"
#include "common/transport/stream.h"

namespace tandem::serving {

template <typename Reply>
struct StreamBegins {
  StreamId stream{};
  std::string client_id;
  base::Incarnation incarnation{};  // as in Hello
  std::shared_ptr<transport::Sink<Reply>> sink;
};
// The client sends nothing more: answer what waits, free all, then close with OK.
struct StreamFinishes {
  StreamId stream{};
};
// The stream is gone, or is to go with `status`: drop what waits, and free all. A service may keep
// what a client that may return will ask for again.
struct StreamEnds {
  StreamId stream{};
  bool may_return = false;
  absl::Status status;  // not OK: the sink is closed with it
};
// The service drains. Wakes the thread.
struct DrainBegins {};
// The service has ended: all streams go with UNAVAILABLE, and what waits is dropped.
struct AllEnd {};

// `Request`: what a service makes of its client's messages.
template <typename Reply, typename Request>
using StreamEvent =
    std::variant<StreamBegins<Reply>, StreamFinishes, StreamEnds, DrainBegins, AllEnd, Request>;

}  // namespace tandem::serving
