// One request between HTTP and the generator, which has a call for each of its prompts: the
// generator's replies become an answer, and what the client reads, or that it has gone, becomes
// known to the generator. If one call fails, the others are cancelled, and the answer is its error.
//
// A stream's head goes out with the first Started, so a request that is refused before has a status
// of its own. Each reply of a stream is one piece of the answer (http/reply.h): the generator hears
// of it when its bytes have left. An answer in one piece is kept as it grows, and what is kept has
// bounds.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
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
  size_t prompts = 1;
  FieldNames names;  // for errors
  std::string client;
  transport::ByteBudget* answers = nullptr;   // of answers that are kept; outlives the call
  std::atomic<size_t>* open_calls = nullptr;  // one less when this is over; outlives the call
};

// Thread-safe. Made by std::make_shared.
class CompletionCall final : public http::ReplyListener,
                             public std::enable_shared_from_this<CompletionCall> {
 public:
  // `writer` null: the request is refused, and its one call only ends.
  CompletionCall(CompletionCallOptions options, std::unique_ptr<CompletionWriter> writer,
                 std::shared_ptr<http::Reply> reply);

  // Where the generator's call for this prompt sends to.
  std::shared_ptr<GenerateCall::Sink> SinkOf(uint32_t prompt);
  // The call that has that sink. Before it, events wait. False: the request is over already, so no
  // further call is of use.
  bool Begin(uint32_t prompt, std::shared_ptr<GenerateCall> call) TANDEM_EXCLUDES(mutex_);

  void OnWritten() override TANDEM_EXCLUDES(mutex_);
  void OnOver(bool complete) override TANDEM_EXCLUDES(mutex_);

 private:
  class PromptSink;
  struct Call {
    std::shared_ptr<GenerateCall> running;  // null: not begun, or over
    size_t unwritten = 0;
    size_t early = 0;  // written before Begin
  };

  void Send(uint32_t prompt, const v1::GenerateReply& reply) TANDEM_EXCLUDES(mutex_);
  void Close(uint32_t prompt, const absl::Status& status) TANDEM_EXCLUDES(mutex_);
  void Abort(const absl::Status& status) TANDEM_EXCLUDES(mutex_);
  size_t queued(uint32_t prompt) const TANDEM_EXCLUDES(mutex_);

  void SendStream(uint32_t prompt, const v1::GenerateReply& reply) TANDEM_REQUIRES(mutex_);
  absl::Status Keep(uint32_t prompt, const v1::GenerateReply& reply) TANDEM_REQUIRES(mutex_);
  void Finish() TANDEM_REQUIRES(mutex_);
  void Respond(const absl::Status& error) TANDEM_REQUIRES(mutex_);
  // After Respond: what still runs is of no use.
  void CancelOthers(uint32_t prompt) TANDEM_EXCLUDES(mutex_);

  const CompletionCallOptions options_;
  const std::shared_ptr<http::Reply> reply_;

  mutable concurrency::Mutex mutex_;
  const std::unique_ptr<CompletionWriter> writer_;  // what it points to is under the mutex
  bool begun_ TANDEM_GUARDED_BY(mutex_) = false;    // a stream
  bool answered_ TANDEM_GUARDED_BY(mutex_) = false;
  size_t held_ TANDEM_GUARDED_BY(mutex_) = 0;  // bytes of holds_
  std::vector<transport::ByteBudget::Hold> holds_ TANDEM_GUARDED_BY(mutex_);
  std::vector<Call> calls_ TANDEM_GUARDED_BY(mutex_);      // by prompt
  size_t open_ TANDEM_GUARDED_BY(mutex_);                  // calls that have not ended
  std::deque<uint32_t> pieces_ TANDEM_GUARDED_BY(mutex_);  // whose pieces wait to be written
  std::optional<bool> over_ TANDEM_GUARDED_BY(mutex_);     // whether the answer was complete
};

}  // namespace tandem::orchestrator
