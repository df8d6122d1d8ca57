#include "target_service/session.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/messages/handshake.h"
#include "common/messages/sampling_options.h"
#include "common/messages/trace_context.h"
#include "common/messages/unknown_fields.h"
#include "common/sampling/sparse.h"

namespace tandem::target_service {
namespace {

StepLimits MakeLimits(const Options& options, const EngineInfo& engine) {
  return {options.max_draft_tokens, engine.model.vocabulary_size, engine.model.context_length,
          engine.rules, engine.logprobs};
}

void AddDefaults(const model::SamplingDefaults& defaults, v1::Welcome& welcome) {
  if (defaults == model::SamplingDefaults()) return;
  v1::SamplingOptions& sent = *welcome.mutable_default_sampling();
  if (defaults.temperature) sent.set_temperature(static_cast<float>(*defaults.temperature));
  if (defaults.top_k) sent.set_top_k(*defaults.top_k);
  if (defaults.top_p) sent.set_top_p(static_cast<float>(*defaults.top_p));
  if (defaults.min_p) sent.set_min_p(static_cast<float>(*defaults.min_p));
  if (defaults.repetition_penalty) {
    sent.set_repetition_penalty(static_cast<float>(*defaults.repetition_penalty));
  }
}

}  // namespace

v1::Welcome MakeWelcome(const Options& options, const EngineInfo& engine) {
  const model::ModelInfo& info = engine.model;
  v1::Welcome welcome;
  welcome.set_protocol_revision(messages::kProtocolRevision);
  v1::Limits& limits = *welcome.mutable_limits();
  limits.set_max_message_bytes(messages::kMaxMessageBytes);
  limits.set_max_draft_tokens(options.max_draft_tokens);
  limits.set_max_q_entries(sampling::kMaxSparseEntries);
  limits.set_max_unanswered(1);
  limits.set_max_sequences(options.max_sequences);
  limits.set_context_length(info.context_length);
  welcome.set_instance_id(options.instance_id);
  welcome.set_tokenizer_id(options.tokenizer_id);
  welcome.set_model_id(info.model_id);
  welcome.set_numerics_id(info.numerics_id);
  welcome.set_vocabulary_size(info.vocabulary_size);
  welcome.mutable_eos_token_ids()->Add(info.eos_token_ids.begin(), info.eos_token_ids.end());
  AddDefaults(info.sampling_defaults, welcome);
  for (acceptance::Rule rule : engine.rules) welcome.add_rules(messages::ToWire(rule));
  return welcome;
}

SessionContext::SessionContext(const Options& options, DeviceExecutor& device_executor)
    : device(device_executor),
      welcome(MakeWelcome(options, device_executor.engine_info())),
      limits(MakeLimits(options, device_executor.engine_info())) {}

Session::Session(SessionContext& context, std::shared_ptr<VerdictSink> sink)
    : context_(context), sink_(std::move(sink)) {}

Session::~Session() = default;

void Session::OnMessage(v1::TargetRequest request) {
  if (state_ == State::kEnded) return;
  // A Step with unknown fields hurts only itself, so Steps are looked at one by one.
  google::protobuf::RepeatedPtrField<v1::Step> steps;
  if (request.has_batch()) steps.Swap(request.mutable_batch()->mutable_steps());
  if (absl::Status status = messages::RefuseUnknown(request); !status.ok()) {
    End(std::move(status));
    return;
  }
  switch (request.kind_case()) {
    case v1::TargetRequest::kHello:
      OnHello(request.hello());
      return;
    case v1::TargetRequest::kBatch:
      OnBatch(std::move(steps), request.batch());
      return;
    case v1::TargetRequest::KIND_NOT_SET:
      End(absl::InvalidArgumentError("a message of the stream has no kind: hello or batch"));
      return;
  }
}

void Session::OnHello(const v1::Hello& hello) {
  if (state_ != State::kNew) {
    End(absl::FailedPreconditionError("Hello is the first message of a stream, and comes once"));
    return;
  }
  if (absl::Status status = messages::CheckHello(hello, context_.welcome); !status.ok()) {
    End(std::move(status));
    return;
  }
  const StreamId stream = context_.device.NewStreamId();
  auto fenced = context_.clients.Enter(hello.client_id(), hello.incarnation(), stream);
  if (!fenced.ok()) {
    End(fenced.status());
    return;
  }
  if (*fenced != 0) {
    context_.device.queue().Push(StreamEnds{
        *fenced, true,
        absl::AbortedError("a newer stream of this client took over (its incarnation)")});
  }
  client_id_ = hello.client_id();
  stream_ = stream;
  state_ = State::kOpen;
  v1::TargetReply reply;
  *reply.mutable_welcome() = context_.welcome;
  sink_->Send(std::move(reply));  // before the device can send a verdict
  context_.device.queue().Push(StreamBegins{stream_, client_id_, hello.incarnation(), sink_});
  TANDEM_LOG(kInfo) << base::LogFields("client_up")
                           .Add("client", client_id_)
                           .Add("incarnation", hello.incarnation());
}

void Session::OnBatch(google::protobuf::RepeatedPtrField<v1::Step> steps, const v1::Batch& rest) {
  if (state_ != State::kOpen) {
    End(absl::FailedPreconditionError("the first message of a stream must be Hello"));
    return;
  }
  BatchArrives event;
  event.stream = stream_;
  event.arrived = context_.device.clock().Now();
  event.close.assign(rest.close().begin(), rest.close().end());
  event.steps.reserve(static_cast<size_t>(steps.size()));
  for (v1::Step& step : steps) {
    const uint64_t sequence = step.sequence();
    const uint64_t round = step.round();
    const auto trace = step.has_trace() ? messages::FromWire(step.trace()) : std::nullopt;
    if (absl::Status status = messages::RefuseUnknown(step); !status.ok()) {
      event.steps.push_back(
          RefusedStep{sequence, round,
                      messages::Invalid("unknown field", std::string(status.message())), trace});
      continue;
    }
    auto checked = CheckStep(std::move(step), context_.limits);
    if (auto* refusal = std::get_if<messages::Refusal>(&checked)) {
      event.steps.push_back(RefusedStep{sequence, round, std::move(*refusal), trace});
    } else {
      event.steps.push_back(std::move(std::get<CheckedStep>(checked)));
    }
  }
  if (absl::Status status = context_.device.queue().PushBatch(std::move(event)); !status.ok()) {
    End(std::move(status));
  }
}

void Session::OnHalfClose() {
  if (state_ == State::kNew) {
    End(absl::OkStatus());
  } else if (state_ == State::kOpen) {
    state_ = State::kEnded;
    context_.device.queue().Push(StreamFinishes{stream_});
  }
}

void Session::OnDone(absl::Status status) {
  state_ = State::kEnded;
  Forget(!status.ok());
}

void Session::End(absl::Status status) {
  state_ = State::kEnded;
  Forget(false);  // it broke the protocol: nothing is kept for it
  sink_->Close(std::move(status));
}

void Session::Forget(bool lingers) {
  if (stream_ == 0) return;
  context_.device.queue().Push(StreamEnds{stream_, lingers, absl::OkStatus()});
  context_.clients.Leave(client_id_, stream_);
  TANDEM_LOG(kInfo)
      << base::LogFields("client_gone").Add("client", client_id_).Add("broken", lingers);
  stream_ = 0;
}

}  // namespace tandem::target_service
