// One request between HTTP and the generator: the generator's replies become an answer, and what the
// client reads, or that it has gone, becomes known to the generator.
//
// A stream's head goes out with Started, so a request that is refused before has a status of its own.
// Each reply of a stream is one piece of the answer (http/reply.h): the generator hears of it when
// its bytes have left. An answer in one piece is kept as it grows, and what is kept has bounds.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/concurrency/mutex.h"
#include "common/http/reply.h"
#include "common/transport/byte_budget.h"
#include "orchestrator/generate/generate_call.h"
#include "orchestrator/openai/completion_writer.h"
#include "orchestrator/openai/error.h"

namespace tandem::orchestrator {

struct CompletionCallOptions {
  bool stream = false;
  FieldNames names;  // for errors
  std::string client;
  transport::ByteBudget* answers = nullptr;   // of answers that are kept; outlives the call
  std::atomic<size_t>* open_calls = nullptr;  // one less when this is over; outlives the call
};

// Thread-safe. Made by std::make_shared. Send, Close and Abort come on the call's strand, one at a
// time.
class CompletionCall final : public GenerateCall::Sink,
                             public http::ReplyListener,
                             public std::enable_shared_from_this<CompletionCall> {
 public:
  // `writer` null: the request is refused, and only Close comes.
  CompletionCall(CompletionCallOptions options, std::unique_ptr<CompletionWriter> writer,
                 std::shared_ptr<http::Reply> reply);

  // The call that this is the sink of. Before it, events wait.
  void Begin(std::shared_ptr<GenerateCall> call) TANDEM_EXCLUDES(mutex_);

  bool Send(v1::GenerateReply reply) override;
  void Close(absl::Status status) override;
  void Abort(absl::Status status) override;
  size_t queued() const override TANDEM_EXCLUDES(mutex_);

  void OnWritten() override TANDEM_EXCLUDES(mutex_);
  void OnOver(bool complete) override TANDEM_EXCLUDES(mutex_);

 private:
  void SendStream(const v1::GenerateReply& reply);
  void Keep(const v1::GenerateReply& reply);
  void Respond(const absl::Status& error);
  std::shared_ptr<GenerateCall> call() TANDEM_EXCLUDES(mutex_);

  const CompletionCallOptions options_;
  const std::unique_ptr<CompletionWriter> writer_;
  const std::shared_ptr<http::Reply> reply_;

  // The strand's.
  bool begun_ = false;  // a stream
  size_t held_ = 0;     // bytes of holds_
  std::vector<transport::ByteBudget::Hold> holds_;

  mutable concurrency::Mutex mutex_;
  std::shared_ptr<GenerateCall> call_ TANDEM_GUARDED_BY(mutex_);  // null: not begun, or over
  size_t unwritten_ TANDEM_GUARDED_BY(mutex_) = 0;
  size_t early_ TANDEM_GUARDED_BY(mutex_) = 0;                // written before Begin
  std::optional<bool> early_over_ TANDEM_GUARDED_BY(mutex_);  // OnOver came before Begin
};

}  // namespace tandem::orchestrator
