// What the logic of a service sees of a gRPC stream: messages in, a sink for messages out. No gRPC
// type appears here, so a session is tested with plain calls.
//
//            transport (server_stream.h, client_stream.h)
//   wire ──▶ read loop ──▶ StreamHandler::OnMessage      one call at a time
//   wire ◀── write pump ◀── Sink::Send                    any thread
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"

namespace tandem::transport {

// The way out. Thread-safe. May outlive the stream: after its end Send returns false and Close does
// nothing, so late results need no care.
template <typename Out>
class Sink {
 public:
  virtual ~Sink() = default;

  // Queues a message. False when the stream is over or closing. A queue beyond its limit ends the
  // stream with RESOURCE_EXHAUSTED: a message is never dropped silently.
  virtual bool Send(Out message) = 0;

  // Ends our side once all queued messages are written. Server: the call's status. Client: OK
  // half-closes (the server then ends the call); anything else cancels at once.
  virtual void Close(absl::Status status) = 0;

  // Ends the stream with this status, which is not OK, now: what is queued is dropped, and a peer
  // that does not read learns of it all the same. After Close too. Client: as Close.
  virtual void Abort(absl::Status status) { Close(std::move(status)); }

  // Messages that were sent here and are not yet written.
  virtual size_t queued() const = 0;
};

// The logic's side. Calls come one at a time, with no lock of the transport held; they must not
// block. The transport owns the handler and destroys it after OnDone.
template <typename In>
class StreamHandler {
 public:
  virtual ~StreamHandler() = default;

  virtual void OnMessage(In message) = 0;
  // The peer will send nothing more; it still reads.
  virtual void OnHalfClose() {}
  // A message left the queue; `queued` are still in it. For back-pressure.
  virtual void OnWritten(size_t queued) { (void)queued; }
  // The stream is over. The last call. Server: CANCELLED when the client went away or cancelled,
  // else the status given to Close. Client: the call's status.
  virtual void OnDone(absl::Status status) = 0;
};

// Makes the handler of a stream that has just begun. Called once, before any message; may Send.
template <typename In, typename Out>
using HandlerFactory =
    std::function<std::unique_ptr<StreamHandler<In>>(std::shared_ptr<Sink<Out>>)>;

// What may wait to be written; one message more ends the stream.
struct StreamOptions {
  size_t max_queued = 4096;  // messages
  // Bytes of these, as they are on the wire: Protobuf's objects take a few times as much.
  size_t max_queued_bytes = size_t{16} << 20;
};

}  // namespace tandem::transport
