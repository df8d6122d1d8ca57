#include "orchestrator/draft/draft_stream.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/messages/handshake.h"
#include "orchestrator/draft/draft_wire.h"
#include "orchestrator/peers/stream_end.h"

namespace tandem::orchestrator {
namespace {

constexpr base::SequenceId kSequence{1};  // a stream carries one

bool Offers(const v1::Welcome& welcome, absl::string_view feature) {
  return std::find(welcome.features().begin(), welcome.features().end(), feature) !=
         welcome.features().end();
}

// Candidates of the trees that this drafter makes there; `drafter` empty: the default one. 0: chains
// alone.
uint32_t ServedNodes(const v1::Welcome& welcome, const std::string& drafter) {
  const auto& trees = welcome.tree_drafters();
  const std::string& name =
      drafter.empty() && welcome.drafters_size() > 0 ? welcome.drafters(0) : drafter;
  const bool makes_trees = std::find(trees.begin(), trees.end(), name) != trees.end();
  return makes_trees ? welcome.limits().max_nodes() : 0;
}

// Whether only a draft that works answers so.
bool Works(DraftReplyBlock::Status status) {
  using Status = DraftReplyBlock::Status;
  return status == Status::kOk || status == Status::kNeedPrefix || status == Status::kStale ||
         status == Status::kExpired;
}

}  // namespace

class DraftClient::Stream::Handler final
    : public transport::StreamHandler<internal::v1::DraftReply> {
 public:
  explicit Handler(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}

  void OnMessage(internal::v1::DraftReply reply) override { stream_->OnReply(reply); }
  void OnDone(absl::Status status) override { stream_->OnDone(status); }

 private:
  const std::shared_ptr<Stream> stream_;
};

DraftClient::Stream::Stream(std::shared_ptr<DraftClient> client,
                            std::shared_ptr<DraftEvents> events, const DraftOpen& open)
    : client_(std::move(client)), attempt_(open.attempt), events_(std::move(events)), open_(open) {}

void DraftClient::Stream::Begin(const internal::v1::Hello& hello) {
  auto sink = client_->open_(std::make_unique<Handler>(shared_from_this()));
  {
    concurrency::MutexLock lock(mutex_);
    sink_ = sink;
  }
  internal::v1::DraftRequest request;
  *request.mutable_hello() = hello;
  sink->Send(std::move(request));
}

// ---- what the session says ----

void DraftClient::Stream::Advance(const DraftAdvance& advance) {
  internal::v1::DraftRequest request;
  *request.mutable_advance() = ToWire(kSequence, advance);
  {
    concurrency::MutexLock lock(mutex_);
    unanswered_ = true;
  }
  Send(std::move(request));
}

void DraftClient::Stream::Submitted(base::BlockId block_id, uint32_t nodes) {
  {
    concurrency::MutexLock lock(mutex_);
    if (!wants_submitted_) return;
  }
  internal::v1::DraftRequest request;
  *request.mutable_submitted() = SubmittedToWire(kSequence, block_id, nodes);
  Send(std::move(request));
}

void DraftClient::Stream::Abandon() {
  std::shared_ptr<transport::Sink<internal::v1::DraftRequest>> sink;
  std::shared_ptr<DraftEvents> released;  // after the lock
  bool orderly;
  {
    concurrency::MutexLock lock(mutex_);
    sink = std::move(sink_);
    released = std::move(events_);
    orderly = opened_ && !unanswered_;
  }
  if (sink == nullptr) return;
  if (!orderly) return sink->Close(absl::CancelledError("the request needs the draft no more"));
  internal::v1::DraftRequest request;
  request.mutable_close()->set_sequence(base::Number(kSequence));
  sink->Send(std::move(request));
  sink->Close(absl::OkStatus());
}

void DraftClient::Stream::Send(internal::v1::DraftRequest request) {
  std::shared_ptr<transport::Sink<internal::v1::DraftRequest>> sink;
  {
    concurrency::MutexLock lock(mutex_);
    sink = sink_;
  }
  if (sink != nullptr) sink->Send(std::move(request));
}

// ---- what the draft says ----

void DraftClient::Stream::OnReply(const internal::v1::DraftReply& reply) {
  switch (reply.kind_case()) {
    case internal::v1::DraftReply::kWelcome:
      client_->check_(reply.welcome(),
                      [self = shared_from_this(), welcome = reply.welcome()](absl::Status fits) {
                        self->OnChecked(welcome, std::move(fits));
                      });
      return;
    case internal::v1::DraftReply::kBlock:
      return OnBlock(reply.block());
    case internal::v1::DraftReply::KIND_NOT_SET:
      return Lost(DraftLoss::kRefused, "it sent a message of no known kind");
  }
}

void DraftClient::Stream::OnChecked(const v1::Welcome& welcome, absl::Status fits) {
  auto events = Events();
  if (events == nullptr) return;
  if (!fits.ok()) return Lost(DraftLoss::kRefused, std::string(fits.message()));
  client_->Fits(welcome);
  const v1::Limits& limits = welcome.limits();
  // A draft with a shorter context serves as long as the text fits into it.
  if (limits.context_length() > 0) {
    open_.settings.max_length = std::min(open_.settings.max_length, limits.context_length());
  }
  const uint32_t max_nodes =
      std::min(open_.settings.max_nodes, ServedNodes(welcome, open_.drafter));
  if (max_nodes == 0 && open_.needs_trees) {  // no fault of the draft
    Abandon();
    events->OnDraftLost(attempt_, DraftLoss::kRefused,
                        "it makes no trees with the drafter that was asked for");
    return;
  }
  open_.settings.max_nodes = max_nodes;
  internal::v1::DraftRequest request;
  *request.mutable_open() = ToWire(kSequence, open_);
  open_ = {};
  Send(std::move(request));
  const bool prepares = Offers(welcome, messages::kFeatureOutcomes);
  {
    concurrency::MutexLock lock(mutex_);
    opened_ = true;
    wants_submitted_ = prepares;
  }
  events->OnDraftOpened(attempt_,
                        {limits.max_draft_tokens(), limits.context_length(), client_->peer_.address,
                         max_nodes, Offers(welcome, messages::kFeatureConfidence), prepares});
}

void DraftClient::Stream::OnBlock(const internal::v1::Block& block) {
  if (IsPrepared(block)) {
    if (auto events = Events()) events->OnPrepared(attempt_, PreparedFromWire(block));
    return;
  }
  {
    concurrency::MutexLock lock(mutex_);
    unanswered_ = false;
  }
  DraftReplyBlock reply = FromWire(block);
  client_->Reported(block, Works(reply.status));
  if (auto events = Events()) events->OnBlock(attempt_, std::move(reply));
}

void DraftClient::Stream::OnDone(const absl::Status& status) {
  Lost(status.code() == absl::StatusCode::kFailedPrecondition ? DraftLoss::kRefused
                                                              : DraftLoss::kLost,
       StreamEndReason(status, "tandem.internal.v1.Draft"));
}

void DraftClient::Stream::Lost(DraftLoss loss, const std::string& reason) {
  auto events = Events();
  if (events == nullptr) return;
  {
    concurrency::MutexLock lock(mutex_);
    opened_ = false;
  }
  Abandon();
  client_->Failed(loss, reason);
  events->OnDraftLost(attempt_, loss, reason);
}

std::shared_ptr<DraftEvents> DraftClient::Stream::Events() {
  concurrency::MutexLock lock(mutex_);
  return events_;
}

}  // namespace tandem::orchestrator
