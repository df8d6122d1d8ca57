// One attempt of a request at a draft: a Propose stream from Hello to its end.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/concurrency/mutex.h"
#include "common/transport/stream.h"
#include "orchestrator/draft/draft_client.h"
#include "orchestrator/draft/draft_session.h"
#include "tandem/internal/v1/draft.pb.h"

namespace tandem::orchestrator {

// Thread-safe. The session, which may abandon it, and the transport's handler share it.
class DraftClient::Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(std::shared_ptr<DraftClient> client, std::shared_ptr<DraftEvents> events,
         const DraftOpen& open);

  // Call once, before any other function.
  void Begin(const internal::v1::Hello& hello);

  void Advance(const DraftAdvance& advance);
  // Does nothing for a draft that does not build on unverified blocks.
  void Submitted(base::BlockId block_id, uint32_t nodes);
  // No event comes after it. A draft that owes no answer ends the stream itself, in order. One that
  // owes an answer may hang, so it is not waited for.
  void Abandon();

 private:
  class Handler;

  void Send(internal::v1::DraftRequest request);
  void OnReply(const internal::v1::DraftReply& reply);
  void OnChecked(const v1::Welcome& welcome, absl::Status fits);
  void OnBlock(const internal::v1::Block& block);
  void OnDone(const absl::Status& status);
  void Lost(DraftLoss loss, const std::string& reason);
  std::shared_ptr<DraftEvents> Events();

  const std::shared_ptr<DraftClient> client_;
  const base::DraftAttempt attempt_;

  concurrency::Mutex mutex_;
  std::shared_ptr<transport::Sink<internal::v1::DraftRequest>> sink_ TANDEM_GUARDED_BY(mutex_);
  std::shared_ptr<DraftEvents> events_ TANDEM_GUARDED_BY(mutex_);
  bool opened_ TANDEM_GUARDED_BY(mutex_) = false;
  bool unanswered_ TANDEM_GUARDED_BY(mutex_) = false;  // an Advance
  bool wants_submitted_ TANDEM_GUARDED_BY(mutex_) = false;
  DraftOpen open_;  // until it is sent, on the transport's calls: no message of a long prompt waits
};

}  // namespace tandem::orchestrator
