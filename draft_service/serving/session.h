// One Propose stream: Hello, then Open, Advance, Submitted and Close of any number of sequences
// (the states: common/serving/session.h). Checks each message and hands it to the drafting thread,
// which answers. No gRPC in here.
//
// Streams of one client are independent of each other: one that is given up may live beside the
// next one for a while, so a higher incarnation fences nothing here.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "common/serving/session.h"
#include "draft_service/sequences/events.h"
#include "draft_service/sequences/request_check.h"
#include "draft_service/serving/executor.h"
#include "draft_service/serving/options.h"
#include "draft_service/serving/streams.h"
#include "tandem/internal/v1/draft.pb.h"

namespace tandem::draft_service {

// What all streams of a service share.
struct SessionContext {
  SessionContext(const Options& options, Executor& executor);

  Executor& executor;
  v1::Welcome welcome;
  RequestLimits limits;
};

// What a draft says of itself. `options` are valid.
v1::Welcome MakeWelcome(const Options& options);

class Session final : public serving::Session<internal::v1::DraftRequest, Executor> {
 public:
  // `context` must outlive the session.
  Session(SessionContext& context, std::shared_ptr<BlockSink> sink);

 private:
  absl::Status Check(internal::v1::DraftRequest& message) override;
  absl::Status Admit(const internal::v1::Hello& hello, StreamId stream) override;
  void Handle(internal::v1::DraftRequest message) override;

  void HandleOne(internal::v1::DraftRequest& request);
  void OnOpen(internal::v1::Open open);
  void OnAdvance(internal::v1::Advance advance);

  SessionContext& context_;
};

}  // namespace tandem::draft_service
