// A reply whose bytes wait for the thread of the port to send them.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/concurrency/mutex.h"
#include "common/http/mailbox.h"
#include "common/http/reply.h"

namespace tandem::http {

// Thread-safe. The functions under "of the port" are called on its thread.
class QueuedReply final : public Reply {
 public:
  struct Framing {
    bool without_body = false;  // the answer to HEAD
    bool http_1_0 = false;      // no chunks: the end of the connection ends a stream
    bool keep_alive = true;     // the connection may go on after the answer
  };
  struct Piece {
    std::string bytes;
    bool counted = false;  // the listener hears of it
  };
  struct Batch {
    std::deque<Piece> pieces;  // what was added since the last one
    bool ended = false;        // nothing follows
    bool aborted = false;
    bool keep_alive = true;  // once it has ended
    std::shared_ptr<ReplyListener> listener;
  };

  QueuedReply(std::shared_ptr<Mailbox> mailbox, uint64_t connection, Framing framing)
      : mailbox_(std::move(mailbox)), connection_(connection), framing_(framing) {}

  void Listen(std::shared_ptr<ReplyListener> listener) override TANDEM_EXCLUDES(mutex_);
  void Respond(Response response) override TANDEM_EXCLUDES(mutex_);
  void Begin(Response response) override TANDEM_EXCLUDES(mutex_);
  void Write(std::string piece) override TANDEM_EXCLUDES(mutex_);
  void End() override TANDEM_EXCLUDES(mutex_);
  void Abort() override TANDEM_EXCLUDES(mutex_);

  // Of the port. What was added since the last call.
  Batch Take() TANDEM_EXCLUDES(mutex_);
  // Of the port: the connection ends with this answer.
  void CloseAfter() TANDEM_EXCLUDES(mutex_);
  // Of the port: nothing is sent any more. Returns the listener, which is to be told `complete`;
  // one that comes later is told inside Listen.
  std::shared_ptr<ReplyListener> Forget(bool complete) TANDEM_EXCLUDES(mutex_);

 private:
  enum class State { kNew, kStreaming, kOver };

  void Add(Piece piece) TANDEM_REQUIRES(mutex_);
  void Tell() TANDEM_REQUIRES(mutex_);

  const std::shared_ptr<Mailbox> mailbox_;
  const uint64_t connection_;
  concurrency::Mutex mutex_;
  Framing framing_ TANDEM_GUARDED_BY(mutex_);
  State state_ TANDEM_GUARDED_BY(mutex_) = State::kNew;
  bool aborted_ TANDEM_GUARDED_BY(mutex_) = false;
  std::optional<bool> forgotten_ TANDEM_GUARDED_BY(mutex_);  // whether it was complete
  bool told_ TANDEM_GUARDED_BY(mutex_) = false;  // the port, since it took the last batch
  std::deque<Piece> pieces_ TANDEM_GUARDED_BY(mutex_);
  std::shared_ptr<ReplyListener> listener_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::http
