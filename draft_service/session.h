// One Propose stream: Hello, then Open, Advance, Submitted and Close of any number of sequences.
// Checks each message and hands it to the drafting thread, which answers. No gRPC in here.
//
// Streams of one client are independent of each other: a client has one a request, so a higher
// incarnation fences nothing here.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/transport/stream.h"
#include "draft_service/draft_executor.h"
#include "draft_service/options.h"
#include "draft_service/request_check.h"
#include "tandem/v1/draft.pb.h"

namespace tandem::draft_service {

// What all streams of a service share.
struct SessionContext {
  SessionContext(const Options& options, DraftExecutor& executor);

  DraftExecutor& executor;
  v1::Welcome welcome;
  RequestLimits limits;
};

// What a draft says of itself. `options` are valid.
v1::Welcome MakeWelcome(const Options& options);

// | state    | Hello                  | other messages        | half-close                     |
// |----------|------------------------|-----------------------|--------------------------------|
// | new      | Welcome → open         | FAILED_PRECONDITION   | the stream ends with OK        |
// | open     | FAILED_PRECONDITION    | to the drafting thread | all answered, then OK → ended |
// | ended    | ignored                | ignored               | ignored                        |
class Session final : public transport::StreamHandler<v1::DraftRequest> {
 public:
  // `context` must outlive the session.
  Session(SessionContext& context, std::shared_ptr<BlockSink> sink);
  ~Session() override;

  void OnMessage(v1::DraftRequest request) override;
  void OnHalfClose() override;
  void OnDone(absl::Status status) override;

 private:
  enum class State { kNew, kOpen, kEnded };

  void OnHello(const v1::Hello& hello);
  void OnOpen(v1::Open open);
  void OnAdvance(v1::Advance advance);
  void Push(DraftEvent event);
  void End(absl::Status status);  // closes the stream
  void Forget();                  // the drafting thread drops what it holds of it

  SessionContext& context_;
  const std::shared_ptr<BlockSink> sink_;
  State state_ = State::kNew;
  StreamId stream_ = 0;  // 0: the drafting thread does not know it
};

}  // namespace tandem::draft_service
