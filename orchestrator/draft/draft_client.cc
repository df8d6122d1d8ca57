#include "orchestrator/draft/draft_client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config/log.h"
#include "common/config/log_fields.h"
#include "common/rpc/handshake.h"
#include "common/rpc/stream.h"
#include "orchestrator/draft/draft_wire.h"

namespace tandem::orchestrator {
namespace {

constexpr uint64_t kSequence = 1;  // a stream carries one

bool Offers(const v1::Welcome& welcome, absl::string_view feature) {
  return std::find(welcome.features().begin(), welcome.features().end(), feature) !=
         welcome.features().end();
}

}  // namespace

// One attempt: shared by the session, which may abandon it, and the transport's handler.
class DraftClient::Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(std::shared_ptr<DraftClient> client, std::shared_ptr<DraftEvents> events,
         const DraftOpen& open)
      : client_(std::move(client)),
        attempt_(open.attempt),
        most_tokens_(open.most_tokens),
        events_(std::move(events)),
        open_(ToWire(kSequence, open)) {}

  void Begin(std::shared_ptr<rpc::Sink<v1::DraftRequest>> sink, const v1::Hello& hello) {
    {
      concurrency::MutexLock lock(mutex_);
      sink_ = sink;
    }
    v1::DraftRequest request;
    *request.mutable_hello() = hello;
    sink->Send(std::move(request));
  }

  void Send(v1::DraftRequest request) {
    if (auto sink = Sink()) sink->Send(std::move(request));
  }

  void Advance(v1::DraftRequest request) {
    {
      concurrency::MutexLock lock(mutex_);
      unanswered_ = true;
    }
    Send(std::move(request));
  }

  // A draft that does not build on it need not hear of it.
  void Submitted(uint64_t block_id, uint32_t nodes) {
    {
      concurrency::MutexLock lock(mutex_);
      if (!wants_submitted_) return;
    }
    v1::DraftRequest request;
    *request.mutable_submitted() = SubmittedToWire(kSequence, block_id, nodes);
    Send(std::move(request));
  }

  // No event comes after it. A draft that owes nothing ends the stream itself, in order; one that
  // does may be stopped, and is not waited for.
  void Abandon() {
    std::shared_ptr<rpc::Sink<v1::DraftRequest>> sink;
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
    v1::DraftRequest request;
    request.mutable_close()->set_sequence(kSequence);
    sink->Send(std::move(request));
    sink->Close(absl::OkStatus());
  }

  void OnReply(const v1::DraftReply& reply) {
    switch (reply.kind_case()) {
      case v1::DraftReply::kWelcome:
        client_->check_(reply.welcome(),
                        [self = this->shared_from_this(), welcome = reply.welcome()](
                            absl::Status fits) { self->OnChecked(welcome, std::move(fits)); });
        return;
      case v1::DraftReply::kBlock:
        Answered();
        if (reply.block().has_load()) client_->Reported(reply.block().load());
        if (auto events = Events()) events->OnBlock(attempt_, FromWire(reply.block()));
        return;
      case v1::DraftReply::KIND_NOT_SET:
        return Lost(DraftLoss::kRefused, "it sent a message of no known kind");
    }
  }

  void OnDone(const absl::Status& status) {
    Lost(status.code() == absl::StatusCode::kFailedPrecondition ? DraftLoss::kRefused
                                                                : DraftLoss::kLost,
         status.ok() ? "it closed the stream" : status.ToString());
  }

 private:
  void Answered() {
    concurrency::MutexLock lock(mutex_);
    unanswered_ = false;
  }
  std::shared_ptr<DraftEvents> Events() {
    concurrency::MutexLock lock(mutex_);
    return events_;
  }
  std::shared_ptr<rpc::Sink<v1::DraftRequest>> Sink() {
    concurrency::MutexLock lock(mutex_);
    return sink_;
  }

  void OnChecked(const v1::Welcome& welcome, absl::Status fits) {
    auto events = Events();
    if (events == nullptr) return;
    if (!fits.ok()) return Lost(DraftLoss::kRefused, std::string(fits.message()));
    client_->Fits(welcome);
    const v1::Limits& limits = welcome.limits();
    // A draft with a shorter context serves as long as the text fits into it.
    if (limits.most_tokens() > 0) {
      open_.mutable_options()->set_most_tokens(std::min(most_tokens_, limits.most_tokens()));
    }
    v1::DraftRequest request;
    *request.mutable_open() = std::move(open_);
    Send(std::move(request));
    {
      concurrency::MutexLock lock(mutex_);
      opened_ = true;
      wants_submitted_ = Offers(welcome, rpc::kFeatureOutcomes);
    }
    events->OnDraftOpened(attempt_, {limits.most_candidates(), limits.most_tokens()});
  }

  void Disregard() {
    {
      concurrency::MutexLock lock(mutex_);
      opened_ = false;
    }
    Abandon();
  }

  void Lost(DraftLoss loss, const std::string& reason) {
    auto events = Events();
    if (events == nullptr) return;
    Disregard();
    client_->Failed(loss, reason);
    events->OnDraftLost(attempt_, loss, reason);
  }

  const std::shared_ptr<DraftClient> client_;
  const uint64_t attempt_;
  const uint32_t most_tokens_;

  concurrency::Mutex mutex_;
  std::shared_ptr<rpc::Sink<v1::DraftRequest>> sink_ TANDEM_GUARDED_BY(mutex_);
  std::shared_ptr<DraftEvents> events_ TANDEM_GUARDED_BY(mutex_);
  bool opened_ TANDEM_GUARDED_BY(mutex_) = false;
  bool unanswered_ TANDEM_GUARDED_BY(mutex_) = false;  // an Advance
  bool wants_submitted_ TANDEM_GUARDED_BY(mutex_) = false;
  v1::Open open_;  // until it is sent, on the transport's calls
};

class DraftClient::Handler final : public rpc::StreamHandler<v1::DraftReply> {
 public:
  explicit Handler(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}

  void OnMessage(v1::DraftReply reply) override { stream_->OnReply(reply); }
  void OnDone(absl::Status status) override { stream_->OnDone(status); }

 private:
  const std::shared_ptr<Stream> stream_;
};

class DraftClient::Session final : public DraftSession {
 public:
  Session(std::shared_ptr<DraftClient> client, std::shared_ptr<DraftEvents> events)
      : client_(std::move(client)), events_(std::move(events)) {}
  ~Session() override { Close(); }

  void Open(const DraftOpen& open) override {
    Close();
    client_->Count(1);
    stream_ = std::make_shared<Stream>(client_, events_, open);
    // One client for all requests: together they have one client's share of the draft.
    v1::Hello hello = client_->hello_;
    hello.set_incarnation(client_->NextIncarnation());
    stream_->Begin(client_->open_(std::make_unique<Handler>(stream_)), hello);
  }

  void Advance(const DraftAdvance& advance) override {
    v1::DraftRequest request;
    *request.mutable_advance() = ToWire(kSequence, advance);
    if (stream_ != nullptr) stream_->Advance(std::move(request));
  }

  void Submitted(uint64_t block_id, uint32_t nodes) override {
    if (stream_ != nullptr) stream_->Submitted(block_id, nodes);
  }

  void Close() override {
    if (stream_ == nullptr) return;
    stream_->Abandon();
    stream_.reset();
    client_->Count(-1);
  }

  NextDraft GiveUp(DraftLoss loss, absl::Duration /*at_least*/) override {
    Close();
    return loss == DraftLoss::kRefused ? NextDraft::kNever : NextDraft::kLater;
  }

 private:
  const std::shared_ptr<DraftClient> client_;
  const std::shared_ptr<DraftEvents> events_;
  std::shared_ptr<Stream> stream_;
};

DraftClient::DraftClient(std::string draft_name, v1::Hello hello,
                         OpenStream<v1::DraftRequest, v1::DraftReply> open, CheckWelcome check)
    : draft_name_(std::move(draft_name)),
      hello_(std::move(hello)),
      open_(std::move(open)),
      check_(std::move(check)) {}

std::unique_ptr<DraftSession> DraftClient::NewSession(std::shared_ptr<DraftEvents> events) {
  return std::make_unique<Session>(shared_from_this(), std::move(events));
}

uint64_t DraftClient::NextIncarnation() {
  concurrency::MutexLock lock(mutex_);
  return hello_.incarnation() + ++streams_;
}

std::string DraftClient::model_id() const {
  concurrency::MutexLock lock(mutex_);
  return welcome_.has_value() ? welcome_->model_id() : std::string();
}

DraftClient::Status DraftClient::status() const {
  concurrency::MutexLock lock(mutex_);
  const uint32_t queued_rows = sequences_ > 0 && load_.has_value() ? load_->queued_rows() : 0;
  return {welcomes_, sequences_, queued_rows, problem_.empty()};
}

v1::Peer DraftClient::Describe() const {
  concurrency::MutexLock lock(mutex_);
  v1::Peer peer;
  peer.set_role(v1::Peer::ROLE_DRAFT);
  peer.set_address(draft_name_);
  peer.set_ready(welcome_.has_value() && problem_.empty());
  peer.set_problem(!welcome_.has_value() && problem_.empty() ? "no request has used it yet"
                                                             : problem_);
  if (welcome_.has_value()) *peer.mutable_welcome() = *welcome_;
  if (load_.has_value()) *peer.mutable_load() = *load_;
  peer.set_sequences(sequences_);
  return peer;
}

void DraftClient::Failed(DraftLoss loss, const std::string& reason) {
  const bool refused = loss == DraftLoss::kRefused;
  const std::string problem =
      absl::StrCat("draft ", draft_name_, refused ? " is not used: " : " is lost: ", reason);
  {
    concurrency::MutexLock lock(mutex_);
    if (problem == problem_) return;
    problem_ = problem;
  }
  TANDEM_LOG(kWarning) << config::LogFields(refused ? "peer_refused" : "peer_lost")
                              .Add("peer", draft_name_)
                              .Add("kind", "draft")
                              .Add("reason", reason);
}

void DraftClient::Fits(const v1::Welcome& welcome) {
  {
    concurrency::MutexLock lock(mutex_);
    ++welcomes_;
    const bool was_up = welcome_.has_value() && problem_.empty();
    welcome_ = welcome;
    problem_.clear();
    if (was_up) return;
  }
  TANDEM_LOG(kInfo) << config::LogFields("peer_up")
                           .Add("peer", draft_name_)
                           .Add("kind", "draft")
                           .Add("model_id", welcome.model_id())
                           .Add("numerics_id", welcome.numerics_id());
}

void DraftClient::Reported(const v1::Load& load) {
  concurrency::MutexLock lock(mutex_);
  load_ = load;
}

void DraftClient::Count(int more) {
  concurrency::MutexLock lock(mutex_);
  sequences_ += static_cast<uint32_t>(more);
}

}  // namespace tandem::orchestrator
