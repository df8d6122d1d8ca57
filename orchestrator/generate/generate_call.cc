#include "orchestrator/generate/generate_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/base/status_macros.h"
#include "orchestrator/generate/error_details.h"
#include "orchestrator/generate/last_message.h"
#include "orchestrator/generate/reply_bytes.h"
#include "orchestrator/request/ending.h"
#include "orchestrator/verify/target_pool.h"

namespace tandem::orchestrator {
namespace {

size_t MaxCallBytes(const GenerateParts& parts) {
  return (parts.unread != nullptr ? parts.unread->limits() : UnreadLimits()).max_call_bytes;
}

// As the client gets it.
absl::Status Detailed(absl::Status status) {
  return WithDetails(std::move(status), *v1::GenerateRequest::descriptor());
}

}  // namespace

GenerateCall::GenerateCall(const GenerateParts& parts, MakeDetokenizer make_detokenizer,
                           std::shared_ptr<Sink> sink, concurrency::Instant arrived,
                           std::unique_ptr<RequestObserver> observer)
    : parts_(parts),
      sink_(std::move(sink)),
      arrived_(arrived),
      observer_(std::move(observer)),
      make_detokenizer_(std::move(make_detokenizer)),
      unread_(parts.unread, MaxCallBytes(parts)) {}

GenerateCall::~GenerateCall() = default;

void GenerateCall::Post(concurrency::Task task) {
  strand_.Post([self = shared_from_this(), task = std::move(task)]() mutable {
    if (!self->ended_) task();
  });
}

// The strand runs on the worker until it is idle. Events of a round do not come this way, because a
// change of thread costs more than their work does.
void GenerateCall::OnWorker(absl::AnyInvocable<void(GenerateCall&)> work) {
  const auto run = std::make_shared<absl::AnyInvocable<void()>>(
      [self = shared_from_this(), work = std::move(work)]() mutable {
        self->strand_.Post([self, work = std::move(work)]() mutable {
          if (!self->ended_) work(*self);
        });
      });
  if (parts_.workers == nullptr || !parts_.workers->Post([run] { (*run)(); })) (*run)();
}

absl::Status GenerateCall::Prepare(GenerationRequest request, MakeStarted make_started,
                                   std::function<void(bool paused)> on_paused,
                                   std::function<void()> done) {
  TANDEM_CHECK(request.samples >= 1 && request_ == nullptr);
  request_ = std::make_shared<const GenerationRequest>(std::move(request));
  first_sample_.emplace(request_);
  observer_->OnAccepted(parts_.clock->Now(), *request_);
  unread_.WhenOver([weak = weak_from_this()](absl::Status status) {
    if (auto self = weak.lock()) self->OnTooMuchUnread(std::move(status));
  });
  AddSample();  // an output prefix is one sample's alone
  TANDEM_RETURN_IF_ERROR(samples_[0]->Resume());
  make_started_ = std::move(make_started);
  on_paused_ = std::move(on_paused);
  done_ = std::move(done);
  return absl::OkStatus();
}

void GenerateCall::Refuse(absl::Status status) {
  done_ = nullptr;
  EndUnbegun(std::move(status));
}

void GenerateCall::AddSample() {
  SampleOwner& owner = *this;
  const auto index = static_cast<uint32_t>(samples_.size());
  samples_.push_back(std::make_unique<Sample>(index, first_sample_->Sibling(index), parts_,
                                              make_detokenizer_(*request_), arrived_, *observer_,
                                              unread_, owner));
}

void GenerateCall::OnDecided(absl::Status status, absl::Duration waited) {
  OnWorker([status = std::move(status), waited](GenerateCall& call) mutable {
    call.waited_ = waited;
    if (!status.ok()) return call.EndUnbegun(std::move(status));
    absl::StatusOr<v1::Started> started = call.make_started_(*call.request_);
    if (!started.ok()) return call.EndUnbegun(started.status());
    call.Start(*std::move(started));
  });
}

void GenerateCall::Start(v1::Started started) {
  begun_ = true;
  started.set_trace_id(observer_->trace_id());
  observer_->OnAdmitted(parts_.clock->Now(), started);
  const SessionNeeds needs{started.target_model_id(), started.numerics_id(),
                           request_->priority,        request_->client,
                           request_->max_length(),    request_->draft_nodes};
  v1::GenerateReply reply;
  *reply.mutable_started() = std::move(started);
  Send(std::nullopt, std::move(reply));
  const Sample::Post post = [weak = weak_from_this()](std::function<void()> task) {
    auto self = weak.lock();
    if (self == nullptr) return;
    GenerateCall& call = *self;
    call.strand_.Post([self = std::move(self), task = std::move(task)] {
      if (!self->ended_) task();
    });
  };
  // Nothing precedes the first token of a prompt, so of one token nothing comes.
  const bool hold = request_->prompt_logprobs && request_->prompt_tokens() > 1;
  while (samples_.size() < request_->samples) {
    AddSample();
    if (hold) samples_.back()->HoldText();
  }
  for (const auto& sample : samples_) {
    if (ended_) return;  // one has failed at once
    sample->Start(needs, post);
  }
}

void GenerateCall::OnWritten() {
  strand_.Post([self = shared_from_this()] {
    if (self->dropped_) return;  // it was on its way then
    TANDEM_CHECK(!self->unwritten_.empty());
    const Unwritten written = self->unwritten_.front();
    self->unwritten_.pop_front();
    self->unread_.Remove(written.bytes);
    if (self->unwritten_.empty()) self->StopReaderTimer();
    if (self->ended_) return;
    if (written.sample.has_value()) self->samples_[*written.sample]->OnWritten();
    // Any sample may wait for the bytes of any other.
    for (const auto& sample : self->samples_) {
      if (!self->ended_) sample->OnDrained();
    }
  });
}

void GenerateCall::Cancel(absl::Status status) {
  strand_.Post([self = shared_from_this(), status = std::move(status)]() mutable {
    self->EndEarly(std::move(status));
  });
}

void GenerateCall::OnStreamOver(absl::Status status) {
  if (status.ok() || absl::IsCancelled(status)) {
    status = absl::CancelledError("the client went away");
  }
  strand_.Post([self = shared_from_this(), status = std::move(status)]() mutable {
    self->ForgetUnread();
    self->EndEarly(std::move(status));
  });
}

void GenerateCall::EndEarly(absl::Status status) {
  if (ended_) return;
  if (!begun_) return EndUnbegun(std::move(status));
  End(std::move(status));
}

void GenerateCall::EndUnbegun(absl::Status status) {
  ended_ = true;
  TellObserver(status);
  sink_->Close(Detailed(std::move(status)));
  Release();
}

// Called before the client hears of the end, so that whoever asks then finds the request with the
// observers.
void GenerateCall::TellObserver(const absl::Status& status) {
  std::vector<Ending> endings;
  for (const auto& sample : samples_) {
    if (!sample->ending().has_value()) continue;
    endings.push_back(*sample->ending());
    endings.back().times.admission = waited_;
  }
  observer_->OnEnded(
      {arrived_, parts_.clock->Now(), status, observer_->trace_id(), request_.get(), endings});
}

void GenerateCall::SendReply(uint32_t sample, v1::GenerateReply reply) {
  const v1::PromptLogprobs& prompt = reply.prompt_logprobs();
  const bool prompt_ends =
      reply.has_prompt_logprobs() &&
      prompt.first_position() + static_cast<uint32_t>(prompt.token_ids_size()) ==
          request_->prompt_tokens();
  Send(sample, std::move(reply));
  if (prompt_ends) ReleaseTexts();
}

// This is inside the first sample. So the others go on in a task of their own.
void GenerateCall::ReleaseTexts() {
  for (size_t i = 1; i < samples_.size(); ++i) samples_[i]->ReleaseText();
  strand_.Post([self = shared_from_this()] {
    for (const auto& sample : self->samples_) {
      if (!self->ended_) sample->OnReleased();
    }
  });
}

void GenerateCall::SendAside(v1::GenerateReply reply) { Send(std::nullopt, std::move(reply)); }

void GenerateCall::Send(std::optional<uint32_t> sample, v1::GenerateReply reply) {
  if (dropped_) return;
  const size_t bytes = ReplyBytes(reply);
  unwritten_.push_back({sample, bytes});
  sink_->Send(std::move(reply));  // false: the stream is over, and OnStreamOver is on its way
  unread_.Add(bytes);
}

void GenerateCall::OnSamplePaused(bool paused) {
  paused ? ++samples_paused_ : --samples_paused_;
  UpdatePaused();
}

void GenerateCall::UpdatePaused() {
  const bool paused = samples_paused_ > 0 && samples_paused_ + samples_ended_ == request_->samples;
  if (paused != std::exchange(paused_, paused)) on_paused_(paused);
}

void GenerateCall::OnSampleEnded(uint32_t sample) {
  if (ended_) return;
  const absl::Status& status = samples_[sample]->ending()->status;
  if (status.ok() && ++samples_ended_ < request_->samples) return UpdatePaused();
  End(status, absl::IsAborted(status) ? std::optional(UnreadDrop::kPatience) : std::nullopt);
}

// May be called from inside a sample. So another task releases the sample.
void GenerateCall::End(absl::Status status, std::optional<UnreadDrop> drop) {
  ended_ = true;
  if (!status.ok()) {
    for (const auto& sample : samples_) {
      if (!sample->ending().has_value()) sample->Cancel(status);
    }
  }
  TellObserver(status);
  if (status.ok()) {
    std::vector<Ending> endings;
    for (const auto& sample : samples_) {
      endings.push_back(*sample->ending());
      endings.back().times.admission = waited_;
    }
    v1::GenerateReply reply;
    *reply.mutable_last() = MakeLast(*request_, endings);
    Send(std::nullopt, std::move(reply));
  }
  if (drop.has_value()) {
    DropUnread(std::move(status), *drop);
  } else {
    sink_->Close(Detailed(std::move(status)));
    AwaitReader();
  }
  strand_.Post([self = shared_from_this()] { self->Release(); });
}

// ---- what the client has not read ----

void GenerateCall::AwaitReader() {
  if (unwritten_.empty()) return;
  reader_timer_ = parts_.timers->After(parts_.loop.abort_after, [weak = weak_from_this()] {
    auto self = weak.lock();
    if (self == nullptr) return;
    GenerateCall& call = *self;
    call.strand_.Post([self = std::move(self)] { self->OnReaderTimer(); });
  });
}

void GenerateCall::StopReaderTimer() {
  if (reader_timer_ != 0) parts_.timers->Cancel(std::exchange(reader_timer_, 0));
}

void GenerateCall::OnReaderTimer() {
  reader_timer_ = 0;
  if (dropped_ || unwritten_.empty()) return;
  DropUnread(
      absl::AbortedError(absl::StrCat("the client did not read the rest for ",
                                      absl::FormatDuration(parts_.loop.abort_after),
                                      " after the text's end: ", unwritten_.size(), " messages of ",
                                      unread_.bytes(), " bytes are unread")),
      UnreadDrop::kPatience);
}

void GenerateCall::OnTooMuchUnread(absl::Status status) {
  strand_.Post([self = shared_from_this(), status = std::move(status)]() mutable {
    if (self->dropped_) return;
    if (!self->ended_) return self->End(std::move(status), UnreadDrop::kBytes);
    self->DropUnread(std::move(status), UnreadDrop::kBytes);
  });
}

void GenerateCall::DropUnread(absl::Status status, UnreadDrop cause) {
  TANDEM_LOG(kWarning) << base::LogFields("unread_dropped")
                              .Add("id", request_->id)
                              .Add("trace", observer_->trace_id())
                              .Add("status", absl::StatusCodeToString(status.code()))
                              .Add("cause", Name(cause))
                              .Add("messages", unwritten_.size())
                              .Add("bytes", unread_.bytes());
  if (parts_.unread != nullptr) parts_.unread->CountDropped(cause);
  ForgetUnread();
  sink_->Abort(Detailed(std::move(status)));
}

void GenerateCall::ForgetUnread() {
  StopReaderTimer();
  dropped_ = true;
  unwritten_.clear();
  unread_.Clear();
}

void GenerateCall::Release() {
  samples_.clear();
  // Text that they had not sent yet is gone with them.
  size_t sent = 0;
  for (const Unwritten& message : unwritten_) sent += message.bytes;
  unread_.Remove(unread_.bytes() - sent);
  make_detokenizer_ = nullptr;
  make_started_ = nullptr;
  on_paused_ = nullptr;
  if (auto done = std::exchange(done_, nullptr)) done();
}

}  // namespace tandem::orchestrator
