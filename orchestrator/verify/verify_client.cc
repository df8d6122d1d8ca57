#include "orchestrator/verify/verify_client.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/messages/handshake.h"
#include "orchestrator/peers/stream_end.h"
#include "orchestrator/verify/verify_wire.h"

namespace tandem::orchestrator {
namespace {

// For the target to answer what it has and to end a stream that was closed in order.
constexpr absl::Duration kOrderlyEnd = absl::Milliseconds(500);

std::vector<TargetPace::CostPoint> Curve(
    const google::protobuf::RepeatedPtrField<v1::CostPoint>& points) {
  std::vector<TargetPace::CostPoint> curve;
  for (const v1::CostPoint& point : points) {
    curve.push_back({point.rows(), absl::Microseconds(point.microseconds())});
  }
  return curve;
}

}  // namespace

// What the transport sees of one stream.
class VerifyClient::Handler final : public transport::StreamHandler<internal::v1::TargetReply> {
 public:
  Handler(std::shared_ptr<VerifyClient> client, std::shared_ptr<SequenceMux> mux)
      : client_(std::move(client)), mux_(std::move(mux)) {}

  void OnMessage(internal::v1::TargetReply reply) override {
    client_->OnReply(mux_, std::move(reply));
  }
  void OnWritten(size_t /*queued*/) override { mux_->OnWritten(); }
  void OnDone(absl::Status status) override {
    client_->OnDone(mux_->incarnation(), std::move(status));
  }

 private:
  const std::shared_ptr<VerifyClient> client_;
  const std::shared_ptr<SequenceMux> mux_;
};

VerifyClient::VerifyClient(VerifyClientOptions options,
                           OpenStream<internal::v1::TargetRequest, internal::v1::TargetReply> open,
                           CheckWelcome check, concurrency::Timers& timers,
                           const concurrency::Clock& clock)
    : options_(std::move(options)),
      open_(std::move(open)),
      check_(std::move(check)),
      timers_(timers),
      clock_(clock),
      client_id_(options_.hello.client_id()),
      not_ready_(absl::UnavailableError(
          absl::StrCat("the target ", Called(options_.target), " was not reached yet"))),
      backoff_(options_.backoff_min, options_.backoff_max, options_.jitter_seed) {}

void VerifyClient::Start(std::weak_ptr<TargetListener> listener) {
  listener_ = std::move(listener);
  OpenStreamAgain();
}

void VerifyClient::OpenStreamAgain() {
  base::Incarnation incarnation;
  std::shared_ptr<SequenceMux> mux;
  internal::v1::TargetRequest request;
  *request.mutable_hello() = options_.hello;
  {
    concurrency::MutexLock lock(mutex_);
    if (state_ != State::kDown) return;
    state_ = State::kGreeting;
    request.mutable_hello()->set_client_id(client_id_);
    // One count for all targets, so that a verdict of one stream is never taken for another's.
    incarnation = incarnation_ = base::Incarnation{messages::NextIncarnation()};
    mux = mux_ = std::make_shared<SequenceMux>(incarnation, options_.max_batch_bytes);
    stream_open_ = true;
  }
  std::shared_ptr<SequenceMux::Sink> sink =
      open_(std::make_unique<Handler>(shared_from_this(), mux));
  bool stopped;
  {
    concurrency::MutexLock lock(mutex_);
    stopped = state_ == State::kStopped;
    if (!stopped && incarnation == incarnation_) {
      sink_ = sink;
      mux->Begin(sink);
    }
    if (!stopped) {
      timers_.After(options_.welcome_within, [weak = weak_from_this(), incarnation] {
        if (auto self = weak.lock()) self->OnWelcomeTimeout(incarnation);
      });
    }
  }
  if (stopped) return sink->Close(absl::CancelledError("stopped"));
  request.mutable_hello()->set_incarnation(base::Number(incarnation));
  sink->Send(std::move(request));
}

void VerifyClient::Stop() {
  Close("the orchestrator is stopping");
  concurrency::MutexLock lock(mutex_);
  while (stream_open_) stream_ended_.Wait(mutex_);
}

void VerifyClient::Close(const std::string& reason) {
  std::shared_ptr<SequenceMux::Sink> sink;
  {
    concurrency::MutexLock lock(mutex_);
    state_ = State::kStopped;
    not_ready_ = absl::UnavailableError(reason);
    sink = std::move(sink_);
    if (mux_ != nullptr) mux_->End();
  }
  if (sink == nullptr) return;
  // In order, so that the target keeps nothing for it to come back. A target that does not answer
  // is not waited for.
  sink->Close(absl::OkStatus());
  timers_.After(kOrderlyEnd, [sink, reason] { sink->Close(absl::CancelledError(reason)); });
}

bool VerifyClient::Reopen(bool reopen) {
  concurrency::MutexLock lock(mutex_);
  reopen_ = reopen;
  return state_ != State::kStopped;
}

bool VerifyClient::ended() const {
  concurrency::MutexLock lock(mutex_);
  return state_ == State::kStopped && !stream_open_;
}

std::unique_ptr<SequenceMux::Link> VerifyClient::Open(base::Incarnation incarnation,
                                                      base::SequenceId sequence,
                                                      std::shared_ptr<VerifyEvents> events) {
  concurrency::MutexLock lock(mutex_);
  if (!IsUp() || incarnation != incarnation_) return nullptr;
  return mux_->Open(sequence, std::move(events));
}

uint32_t VerifyClient::sequences() const {
  concurrency::MutexLock lock(mutex_);
  return state_ == State::kUp ? mux_->sequences() : 0;
}

// ---- what the stream says ----

void VerifyClient::OnReply(const std::shared_ptr<SequenceMux>& mux,
                           internal::v1::TargetReply reply) {
  switch (reply.kind_case()) {
    case internal::v1::TargetReply::kWelcome:
      return OnWelcome(mux->incarnation(), reply.welcome());
    case internal::v1::TargetReply::kVerdicts:
      return OnVerdicts(mux, reply.verdicts());
    case internal::v1::TargetReply::KIND_NOT_SET:
      return GiveUp(mux->incarnation(), "it sent a message of no known kind");
  }
}

void VerifyClient::OnWelcome(base::Incarnation incarnation, const v1::Welcome& welcome) {
  check_(welcome, [weak = weak_from_this(), incarnation, welcome](absl::Status fits) {
    if (auto self = weak.lock()) self->OnChecked(incarnation, welcome, std::move(fits));
  });
}

void VerifyClient::OnChecked(base::Incarnation incarnation, const v1::Welcome& welcome,
                             absl::Status fits) {
  TargetInfo info;
  {
    concurrency::MutexLock lock(mutex_);
    if (state_ != State::kGreeting || incarnation != incarnation_) return;
    if (fits.ok()) {
      state_ = State::kUp;
      mux_->Up();
      welcome_ = welcome;
      load_.reset();
      backoff_.Reset();
      pace_->StreamBegan(welcome.instance_id(), Curve(welcome.cost_curve()));
      info = Info();
    } else {
      NotReady(fits);
    }
  }
  if (!fits.ok()) return GiveUp(incarnation, std::string(fits.message()));
  TANDEM_LOG(kInfo) << base::LogFields("peer_up")
                           .Add("peer", options_.target.address)
                           .Add("kind", "target")
                           .Add("model_id", welcome.model_id())
                           .Add("numerics_id", welcome.numerics_id());
  if (auto listener = listener_.lock()) listener->OnTargetUp(info);
}

void VerifyClient::OnWelcomeTimeout(base::Incarnation incarnation) {
  {
    concurrency::MutexLock lock(mutex_);
    if (state_ != State::kGreeting || incarnation != incarnation_) return;
  }
  GiveUp(incarnation,
         absl::StrCat("no Welcome within ", absl::FormatDuration(options_.welcome_within)));
}

void VerifyClient::GiveUp(base::Incarnation incarnation, const std::string& reason) {
  std::shared_ptr<SequenceMux::Sink> sink;
  {
    concurrency::MutexLock lock(mutex_);
    if (state_ == State::kStopped || state_ == State::kDown || incarnation != incarnation_) return;
    sink = sink_;
    given_up_ = reason;
    mux_->GivenUp();
  }
  if (sink != nullptr) sink->Close(absl::CancelledError(reason));
}

void VerifyClient::OnDone(base::Incarnation incarnation, absl::Status status) {
  std::string reason = absl::StrCat("the stream to target ", Called(options_.target), " ended: ");
  SequenceMux::EventsList told;
  bool was_up;
  {
    concurrency::MutexLock lock(mutex_);
    const std::string given_up = std::exchange(given_up_, {});
    if (!given_up.empty()) {
      absl::StrAppend(&reason, given_up);
    } else {
      absl::StrAppend(&reason, StreamEndReason(status, "tandem.internal.v1.Target"));
    }
    stream_open_ = false;
    stream_ended_.NotifyAll();
    if (state_ == State::kStopped || incarnation != incarnation_) return;
    if (given_up.empty() && messages::IsOvertaken(status)) TakeUniqueClientId();
    was_up = state_ == State::kUp;
    state_ = reopen_ ? State::kDown : State::kStopped;
    sink_.reset();
    told = mux_->End();
    if (not_ready_.code() != absl::StatusCode::kFailedPrecondition || was_up) {
      NotReady(absl::UnavailableError(reason));
    }
    if (reopen_) {
      timers_.After(backoff_.Next(), [weak = weak_from_this()] {
        if (auto self = weak.lock()) self->OpenStreamAgain();
      });
    }
  }
  for (const auto& events : told) events->OnVerifyLost(incarnation, reason);
  auto listener = listener_.lock();
  if (was_up && listener != nullptr) listener->OnTargetDown(incarnation);
}

void VerifyClient::OnVerdicts(const std::shared_ptr<SequenceMux>& mux,
                              const internal::v1::Verdicts& verdicts) {
  mux->Heard(clock_.Now());
  if (verdicts.has_load()) OnLoad(mux->incarnation(), verdicts.load());
  mux->OnVerdicts(verdicts);
}

void VerifyClient::OnLoad(base::Incarnation incarnation, const v1::Load& load) {
  {
    concurrency::MutexLock lock(mutex_);
    if (state_ != State::kUp || incarnation != incarnation_) return;
    v1::Load kept = load;
    if (kept.cost_curve().empty() && load_.has_value()) {
      *kept.mutable_cost_curve() = load_->cost_curve();
    }
    load_ = std::move(kept);
    pace_->Reported(load.queued_rows(), Curve(load.cost_curve()), clock_.Now());
    if (load.has_decoding()) {
      const v1::Decoding& decoding = load.decoding();
      pace_->Decodes({decoding.sequences(), decoding.pass_rows(), decoding.pass_sequences(),
                      decoding.draft_tokens()});
    }
  }
  if (auto listener = listener_.lock()) {
    FreeRoom free{load.free_slots(), std::nullopt};
    if (load.has_free_tokens()) free.tokens = static_cast<int64_t>(load.free_tokens());
    listener->OnTargetLoad(incarnation, free);
  }
}

// ---- what it is ----

// Logs a line each time that the problem is another one.
void VerifyClient::NotReady(absl::Status why) {
  if (why != not_ready_) {
    const bool refused = why.code() == absl::StatusCode::kFailedPrecondition;
    TANDEM_LOG(kWarning) << base::LogFields(refused ? "peer_refused" : "peer_lost")
                                .Add("peer", options_.target.address)
                                .Add("kind", "target")
                                .Add("reason", why.message());
  }
  not_ready_ = std::move(why);
}

void VerifyClient::TakeUniqueClientId() {
  std::string unique =
      messages::UniqueClientId(options_.hello.client_id(), base::Number(incarnation_));
  TANDEM_LOG(kWarning) << base::LogFields("client_id_shared")
                              .Add("peer", options_.target.address)
                              .Add("kind", "target")
                              .Add("client", client_id_)
                              .Add("now", unique)
                              .Add("hint",
                                   "another process has the same --client-id, or two addresses are "
                                   "one target: give each process its own id, or none");
  client_id_ = std::move(unique);
}

bool VerifyClient::IsUp() const { return state_ == State::kUp && given_up_.empty(); }

absl::Status VerifyClient::Ready() const {
  concurrency::MutexLock lock(mutex_);
  if (IsUp()) return absl::OkStatus();
  if (state_ == State::kUp) {
    return absl::UnavailableError(
        absl::StrCat("the target ", Called(options_.target), " was given up: ", given_up_));
  }
  // Makes a copy of its own. Copies share their text by a count that is decremented in Abseil's
  // library. That library is not instrumented, so ThreadSanitizer would report a race that does not
  // exist.
  return absl::Status(not_ready_.code(), not_ready_.message());
}

std::optional<TargetInfo> VerifyClient::info() const {
  concurrency::MutexLock lock(mutex_);
  if (!IsUp()) return std::nullopt;
  return Info();
}

std::optional<v1::Welcome> VerifyClient::welcome() const {
  concurrency::MutexLock lock(mutex_);
  return welcome_;
}

v1::Peer VerifyClient::Describe() const {
  v1::Peer peer;
  const absl::Status ready = Ready();
  peer.set_role(v1::Peer::ROLE_TARGET);
  peer.set_address(options_.target.address);
  peer.set_name(options_.target.name);
  peer.set_ready(ready.ok());
  peer.set_problem(std::string(ready.message()));
  peer.set_sequences(sequences());
  concurrency::MutexLock lock(mutex_);
  if (welcome_.has_value()) *peer.mutable_welcome() = *welcome_;
  if (load_.has_value()) *peer.mutable_load() = *load_;
  return peer;
}

TargetInfo VerifyClient::Info() const {
  return {incarnation_,
          options_.target.address,
          welcome_->model_id(),
          welcome_->numerics_id(),
          welcome_->vocabulary_size(),
          welcome_->limits().max_draft_tokens(),
          MaxSequenceLength(welcome_->limits()),
          pace_,
          welcome_->limits().max_nodes(),
          welcome_->limits().max_unanswered() > 1};
}

}  // namespace tandem::orchestrator
