#include "orchestrator/generate/generate_call.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "orchestrator/generate/last_message.h"
#include "orchestrator/request/ending.h"
#include "orchestrator/verify/target_pool.h"

namespace tandem::orchestrator {

GenerateCall::GenerateCall(const GenerateParts& parts, MakeDetokenizer make_detokenizer,
                           std::shared_ptr<Sink> sink, concurrency::Instant arrived,
                           std::unique_ptr<RequestObserver> observer)
    : parts_(parts),
      sink_(std::move(sink)),
      arrived_(arrived),
      observer_(std::move(observer)),
      make_detokenizer_(std::move(make_detokenizer)) {}

GenerateCall::~GenerateCall() = default;

void GenerateCall::Post(concurrency::Task task) {
  OnWorker([task = std::move(task)](GenerateCall&) mutable { task(); });
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
                                   std::function<void()> done) {
  TANDEM_CHECK(request.samples >= 1 && request_ == nullptr);
  request_ = std::make_shared<const GenerationRequest>(std::move(request));
  first_sample_.emplace(request_);
  observer_->OnAccepted(parts_.clock->Now(), *request_);
  AddSample();  // an output prefix is one sample's alone
  TANDEM_RETURN_IF_ERROR(samples_[0]->Resume());
  make_started_ = std::move(make_started);
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
                                              owner));
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
  const SessionNeeds needs{started.target_model_id(), started.numerics_id(), request_->priority,
                           request_->max_length()};
  v1::GenerateReply reply;
  *reply.mutable_started() = std::move(started);
  unwritten_.emplace_back();
  sink_->Send(std::move(reply));
  const Sample::Post post = [weak = weak_from_this()](std::function<void()> task) {
    auto self = weak.lock();
    if (self == nullptr) return;
    GenerateCall& call = *self;
    call.strand_.Post([self = std::move(self), task = std::move(task)] {
      if (!self->ended_) task();
    });
  };
  while (samples_.size() < request_->samples) AddSample();
  for (const auto& sample : samples_) {
    if (ended_) return;  // one has failed at once
    sample->Start(needs, post);
  }
}

void GenerateCall::OnWritten() {
  strand_.Post([self = shared_from_this()] {
    if (self->ended_) return;
    TANDEM_CHECK(!self->unwritten_.empty());
    const std::optional<uint32_t> sample = self->unwritten_.front();
    self->unwritten_.pop_front();
    if (sample.has_value()) self->samples_[*sample]->OnWritten();
  });
}

void GenerateCall::Cancel(absl::Status status) {
  strand_.Post([self = shared_from_this(), status = std::move(status)]() mutable {
    if (self->ended_) return;
    if (!self->begun_) return self->EndUnbegun(std::move(status));
    self->End(std::move(status));
  });
}

void GenerateCall::EndUnbegun(absl::Status status) {
  ended_ = true;
  TellObserver(status);
  sink_->Close(std::move(status));
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
  unwritten_.emplace_back(sample);
  sink_->Send(std::move(reply));  // false: the client is gone, and a cancellation is on its way
}

void GenerateCall::SendAside(v1::GenerateReply reply) {
  unwritten_.emplace_back();
  sink_->Send(std::move(reply));
}

void GenerateCall::OnSampleEnded(uint32_t sample) {
  if (ended_) return;
  const absl::Status& status = samples_[sample]->ending()->status;
  if (status.ok() && ++samples_ended_ < request_->samples) return;
  End(status);
}

// May be called from inside a sample. So another task releases the sample.
void GenerateCall::End(absl::Status status) {
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
    sink_->Send(std::move(reply));
  }
  // A client that did not read for so long gets the status ahead of the messages that it has not
  // read.
  if (absl::IsAborted(status)) {
    sink_->Abort(std::move(status));
  } else {
    sink_->Close(std::move(status));
  }
  strand_.Post([self = shared_from_this()] { self->Release(); });
}

void GenerateCall::Release() {
  samples_.clear();
  make_detokenizer_ = nullptr;
  make_started_ = nullptr;
  if (auto done = std::exchange(done_, nullptr)) done();
}

}  // namespace tandem::orchestrator
