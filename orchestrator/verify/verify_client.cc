#include "orchestrator/verify/verify_client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config/check.h"
#include "common/config/log.h"
#include "orchestrator/verify/verify_wire.h"

namespace tandem::orchestrator {

// What the transport sees of one stream.
class VerifyClient::Handler final : public rpc::StreamHandler<v1::TargetReply> {
 public:
  Handler(std::shared_ptr<VerifyClient> client, uint64_t incarnation)
      : client_(std::move(client)), incarnation_(incarnation) {}

  void OnMessage(v1::TargetReply reply) override {
    client_->OnReply(incarnation_, std::move(reply));
  }
  void OnWritten(size_t /*queued*/) override { client_->OnWritten(incarnation_); }
  void OnDone(absl::Status status) override { client_->OnDone(incarnation_, std::move(status)); }

 private:
  const std::shared_ptr<VerifyClient> client_;
  const uint64_t incarnation_;
};

class VerifyClient::Session final : public VerifySession {
 public:
  Session(std::shared_ptr<VerifyClient> client, uint64_t id)
      : client_(std::move(client)), id_(id) {}
  ~Session() override { client_->Remove(id_); }

  void Submit(uint64_t incarnation, VerifyStep step) override {
    client_->Submit(incarnation, id_, std::move(step));
  }
  void Close() override { client_->CloseSequence(id_); }
  void GiveUp(uint64_t incarnation, const std::string& reason) override {
    client_->GiveUp(incarnation, reason);
  }
  absl::Duration last_heard() const override {
    return absl::Nanoseconds(client_->last_heard_ns_.load(std::memory_order_relaxed));
  }

 private:
  const std::shared_ptr<VerifyClient> client_;
  const uint64_t id_;
};

VerifyClient::VerifyClient(VerifyClientOptions options,
                           OpenStream<v1::TargetRequest, v1::TargetReply> open, CheckWelcome check,
                           concurrency::Timers& timers, const concurrency::Clock& clock)
    : options_(std::move(options)),
      open_(std::move(open)),
      check_(std::move(check)),
      timers_(timers),
      clock_(clock),
      incarnation_(options_.hello.incarnation()),
      not_ready_(absl::UnavailableError(
          absl::StrCat("the target ", options_.target_name, " was not reached yet"))),
      backoff_(options_.backoff_least, options_.backoff_most, options_.jitter_seed) {}

// ---- the stream's life ----

void VerifyClient::Start() { Open(); }

void VerifyClient::Open() {
  uint64_t incarnation;
  {
    concurrency::MutexLock lock(mutex_);
    if (state_ != State::kDown) return;
    state_ = State::kGreeting;
    incarnation = ++incarnation_;
    unwritten_ = 1;  // the Hello
    stream_open_ = true;
  }
  std::shared_ptr<rpc::Sink<v1::TargetRequest>> sink =
      open_(std::make_unique<Handler>(shared_from_this(), incarnation));
  bool stopped;
  {
    concurrency::MutexLock lock(mutex_);
    stopped = state_ == State::kStopped;
    if (!stopped && incarnation == incarnation_) sink_ = sink;
    if (!stopped) {
      timers_.After(options_.welcome_within, [weak = weak_from_this(), incarnation] {
        if (auto self = weak.lock()) self->OnWelcomeTimeout(incarnation);
      });
    }
  }
  if (stopped) return sink->Close(absl::CancelledError("stopped"));
  v1::TargetRequest request;
  *request.mutable_hello() = options_.hello;
  request.mutable_hello()->set_incarnation(incarnation);
  sink->Send(std::move(request));
}

void VerifyClient::Stop() {
  std::shared_ptr<rpc::Sink<v1::TargetRequest>> sink;
  {
    concurrency::MutexLock lock(mutex_);
    state_ = State::kStopped;
    not_ready_ = absl::UnavailableError("the orchestrator is stopping");
    sink = std::move(sink_);
  }
  if (sink != nullptr) sink->Close(absl::CancelledError("the orchestrator is stopping"));
  concurrency::MutexLock lock(mutex_);
  while (stream_open_) stream_ended_.Wait(mutex_);
}

void VerifyClient::OnReply(uint64_t incarnation, v1::TargetReply reply) {
  switch (reply.kind_case()) {
    case v1::TargetReply::kWelcome:
      return OnWelcome(incarnation, reply.welcome());
    case v1::TargetReply::kVerdicts:
      return OnVerdicts(incarnation, reply.verdicts());
    case v1::TargetReply::KIND_NOT_SET:
      return GiveUp(incarnation, "it sent a message of no known kind");
  }
}

void VerifyClient::OnWelcome(uint64_t incarnation, const v1::Welcome& welcome) {
  check_(welcome, [weak = weak_from_this(), incarnation, welcome](absl::Status fits) {
    if (auto self = weak.lock()) self->OnChecked(incarnation, welcome, std::move(fits));
  });
}

void VerifyClient::OnChecked(uint64_t incarnation, const v1::Welcome& welcome, absl::Status fits) {
  EventsList told;
  TargetInfo info;
  {
    concurrency::MutexLock lock(mutex_);
    if (state_ != State::kGreeting || incarnation != incarnation_) return;
    if (fits.ok()) {
      state_ = State::kUp;
      welcome_ = welcome;
      backoff_.Reset();
      told = AllEvents();
      info = Info();
    } else {
      NotReady(fits);
    }
  }
  if (!fits.ok()) return GiveUp(incarnation, std::string(fits.message()));
  TANDEM_LOG(kInfo) << "target " << options_.target_name << " is connected: model "
                    << welcome.model_id() << ", " << welcome.numerics_id();
  for (const auto& events : told) events->OnVerifyReady(info);
  Flush();
}

void VerifyClient::OnWelcomeTimeout(uint64_t incarnation) {
  {
    concurrency::MutexLock lock(mutex_);
    if (state_ != State::kGreeting || incarnation != incarnation_) return;
  }
  GiveUp(incarnation,
         absl::StrCat("no Welcome within ", absl::FormatDuration(options_.welcome_within)));
}

void VerifyClient::GiveUp(uint64_t incarnation, const std::string& reason) {
  std::shared_ptr<rpc::Sink<v1::TargetRequest>> sink;
  {
    concurrency::MutexLock lock(mutex_);
    if (state_ == State::kStopped || incarnation != incarnation_) return;
    sink = sink_;
    given_up_ = reason;
  }
  if (sink != nullptr) sink->Close(absl::CancelledError(reason));
}

void VerifyClient::OnDone(uint64_t incarnation, absl::Status status) {
  std::string reason = absl::StrCat("the stream to target ", options_.target_name, " ended: ");
  EventsList told;
  {
    concurrency::MutexLock lock(mutex_);
    const std::string given_up = std::exchange(given_up_, {});
    if (!given_up.empty()) {
      absl::StrAppend(&reason, given_up);
    } else {
      absl::StrAppend(&reason, status.ok() ? "it closed the stream" : status.ToString());
    }
    stream_open_ = false;
    stream_ended_.NotifyAll();
    if (state_ == State::kStopped || incarnation != incarnation_) return;
    if (state_ == State::kUp) told = AllEvents();
    state_ = State::kDown;
    sink_.reset();
    steps_.clear();
    closings_.clear();
    if (not_ready_.code() != absl::StatusCode::kFailedPrecondition || !told.empty()) {
      NotReady(absl::UnavailableError(reason));
    }
    timers_.After(backoff_.Next(), [weak = weak_from_this()] {
      if (auto self = weak.lock()) self->Open();
    });
  }
  for (const auto& events : told) events->OnVerifyLost(incarnation, reason);
}

// One line each time that something else is the matter.
void VerifyClient::NotReady(absl::Status why) {
  if (why != not_ready_) TANDEM_LOG(kWarning) << why.message();
  not_ready_ = std::move(why);
}

// ---- Steps out, verdicts in ----

std::unique_ptr<VerifySession> VerifyClient::NewSession(std::shared_ptr<VerifyEvents> events) {
  uint64_t id;
  std::optional<TargetInfo> info;
  {
    concurrency::MutexLock lock(mutex_);
    id = ++last_id_;
    sessions_[id].events = events;
    if (state_ == State::kUp) info = Info();
  }
  if (info.has_value()) events->OnVerifyReady(*info);
  return std::make_unique<Session>(shared_from_this(), id);
}

void VerifyClient::Submit(uint64_t incarnation, uint64_t session, VerifyStep step) {
  {
    concurrency::MutexLock lock(mutex_);
    // The stream that the Step was meant for is gone; the session has been told, or is being told.
    if (state_ != State::kUp || incarnation != incarnation_) return;
    SessionState& state = sessions_.at(session);
    if (state.sequence == 0) {
      state.sequence = ++last_id_;
      session_of_[state.sequence] = session;
    }
    steps_.push_back(ToWire(state.sequence, std::move(step)));
  }
  Flush();
}

void VerifyClient::CloseSequence(uint64_t session) {
  {
    concurrency::MutexLock lock(mutex_);
    SessionState& state = sessions_.at(session);
    if (state.sequence == 0) return;
    const uint64_t sequence = std::exchange(state.sequence, 0);
    session_of_.erase(sequence);
    steps_.erase(
        std::remove_if(steps_.begin(), steps_.end(),
                       [sequence](const v1::Step& step) { return step.sequence() == sequence; }),
        steps_.end());
    if (state_ == State::kUp) closings_.push_back(sequence);
  }
  Flush();
}

void VerifyClient::Remove(uint64_t session) {
  CloseSequence(session);
  std::shared_ptr<VerifyEvents> released;  // after the lock
  concurrency::MutexLock lock(mutex_);
  auto it = sessions_.find(session);
  released = std::move(it->second.events);
  sessions_.erase(it);
  lock.Unlock();
}

// One message at a time is under way. So batches keep their order (a sequence's end follows its
// Steps), and what gets ready meanwhile goes together.
void VerifyClient::Flush() {
  v1::TargetRequest request;
  std::shared_ptr<rpc::Sink<v1::TargetRequest>> sink;
  {
    concurrency::MutexLock lock(mutex_);
    if (state_ != State::kUp || unwritten_ > 0) return;
    if (steps_.empty() && closings_.empty()) return;
    request = NextBatch();
    ++unwritten_;
    sink = sink_;
  }
  sink->Send(std::move(request));  // false: the stream is over, and OnDone tells
}

v1::TargetRequest VerifyClient::NextBatch() {
  v1::TargetRequest request;
  v1::Batch& batch = *request.mutable_batch();
  batch.mutable_close()->Add(closings_.begin(), closings_.end());
  closings_.clear();
  size_t bytes = batch.ByteSizeLong();
  size_t taken = 0;
  for (v1::Step& step : steps_) {
    bytes += step.ByteSizeLong() + 8;
    if (taken > 0 && bytes > options_.most_batch_bytes) break;
    batch.mutable_steps()->Add(std::move(step));
    ++taken;
  }
  steps_.erase(steps_.begin(), steps_.begin() + static_cast<ptrdiff_t>(taken));
  return request;
}

void VerifyClient::OnWritten(uint64_t incarnation) {
  {
    concurrency::MutexLock lock(mutex_);
    if (incarnation != incarnation_) return;
    --unwritten_;
  }
  Flush();
}

void VerifyClient::OnVerdicts(uint64_t incarnation, const v1::Verdicts& verdicts) {
  last_heard_ns_.store(absl::ToInt64Nanoseconds(clock_.Now()), std::memory_order_relaxed);
  for (const v1::Verdict& verdict : verdicts.verdicts()) {
    std::shared_ptr<VerifyEvents> events;
    {
      concurrency::MutexLock lock(mutex_);
      if (incarnation != incarnation_) return;
      auto it = session_of_.find(verdict.sequence());
      if (it == session_of_.end()) continue;  // closed meanwhile
      events = sessions_.at(it->second).events;
    }
    events->OnVerdict(incarnation, FromWire(verdict));
  }
}

absl::Status VerifyClient::Ready() const {
  concurrency::MutexLock lock(mutex_);
  return state_ == State::kUp ? absl::OkStatus() : not_ready_;
}

std::optional<v1::Welcome> VerifyClient::welcome() const {
  concurrency::MutexLock lock(mutex_);
  return welcome_;
}

VerifyClient::EventsList VerifyClient::AllEvents() const {
  EventsList all;
  all.reserve(sessions_.size());
  for (const auto& [id, session] : sessions_) all.push_back(session.events);
  return all;
}

TargetInfo VerifyClient::Info() const {
  return {incarnation_, welcome_->model_id(), welcome_->vocabulary_size(),
          welcome_->limits().most_candidates()};
}

}  // namespace tandem::orchestrator
