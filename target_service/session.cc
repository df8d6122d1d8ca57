#include "target_service/session.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/acceptance/tree.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/base/status_macros.h"
#include "common/messages/handshake.h"
#include "common/messages/limits.h"
#include "common/messages/sampling_options.h"
#include "common/messages/trace_context.h"
#include "common/messages/unknown_fields.h"
#include "common/serving/welcome.h"
#include "google/protobuf/repeated_field.h"

namespace tandem::target_service {
namespace {

// Draft tokens in a tree that are served; a pass has a row for each, and one for the root.
uint32_t ServedNodes(const Options& options, const EngineInfo& engine) {
  if (!engine.trees) return 0;
  return std::min(options.max_nodes, static_cast<uint32_t>(engine.max_rows) - 1);
}

StepLimits MakeLimits(const Options& options, const EngineInfo& engine) {
  return {options.max_draft_tokens,
          engine.model.vocabulary_size,
          engine.model.context_length,
          engine.rules,
          engine.logprobs,
          engine.max_length(),
          ServedNodes(options, engine)};
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
  v1::Welcome welcome = serving::MakeWelcome({.instance_id = options.instance_id,
                                              .tokenizer_id = options.tokenizer_id,
                                              .model_id = info.model_id,
                                              .numerics_id = info.numerics_id,
                                              .vocabulary_size = info.vocabulary_size,
                                              .context_length = info.context_length,
                                              .max_draft_tokens = options.max_draft_tokens,
                                              .max_sequences = options.max_sequences});
  welcome.mutable_limits()->set_max_length(engine.max_length());
  if (const uint32_t nodes = ServedNodes(options, engine); nodes > 0) {
    welcome.add_features(messages::kFeatureTrees);
    welcome.mutable_limits()->set_max_nodes(nodes);
  }
  if (std::any_of(engine.rules.begin(), engine.rules.end(), acceptance::HasTrees)) {
    welcome.mutable_limits()->set_max_unanswered(2);
  }
  welcome.mutable_eos_token_ids()->Add(info.eos_token_ids.begin(), info.eos_token_ids.end());
  AddDefaults(info.sampling_defaults, welcome);
  for (acceptance::Rule rule : engine.rules) welcome.add_rules(messages::ToWire(rule));
  welcome.mutable_switched_off()->Add(engine.switched_off.begin(), engine.switched_off.end());
  return welcome;
}

SessionContext::SessionContext(const Options& options, Executor& device)
    : executor(device),
      welcome(MakeWelcome(options, device.engine_info())),
      limits(MakeLimits(options, device.engine_info())) {}

Session::Session(SessionContext& context, std::shared_ptr<VerdictSink> sink)
    : serving::Session<internal::v1::TargetRequest, Executor>(context.executor, context.welcome,
                                                              std::move(sink)),
      context_(context) {}

absl::Status Session::Check(internal::v1::TargetRequest& message) {
  // A Step with unknown fields hurts only itself, so Steps are looked at one by one.
  google::protobuf::RepeatedPtrField<internal::v1::Step> steps;
  if (message.has_batch()) steps.Swap(message.mutable_batch()->mutable_steps());
  TANDEM_RETURN_IF_ERROR(messages::RefuseUnknown(message));
  if (message.has_batch()) steps.Swap(message.mutable_batch()->mutable_steps());
  if (message.kind_case() == internal::v1::TargetRequest::KIND_NOT_SET) {
    return absl::InvalidArgumentError("a message of the stream has no kind: hello or batch");
  }
  if (message.batch().close_size() > messages::kMaxClosings) {
    return absl::InvalidArgumentError(absl::StrCat("batch.close has ", message.batch().close_size(),
                                                   " sequences, above the ", messages::kMaxClosings,
                                                   " of one message: send more messages"));
  }
  return absl::OkStatus();
}

absl::Status Session::Admit(const internal::v1::Hello& hello, StreamId stream) {
  TANDEM_ASSIGN_OR_RETURN(
      const StreamId fenced,
      context_.clients.Enter(hello.client_id(), base::Incarnation{hello.incarnation()}, stream));
  if (fenced != StreamId()) {
    executor().queue().Push(serving::StreamEnds{fenced, /*may_return=*/true, Overtaken()});
  }
  client_id_ = hello.client_id();
  TANDEM_LOG(kInfo) << base::LogFields("client_up")
                           .Add("client", client_id_)
                           .Add("incarnation", hello.incarnation());
  return absl::OkStatus();
}

void Session::Greet(v1::Welcome& welcome) const {
  *welcome.mutable_cost_curve() = std::move(*executor().load().mutable_cost_curve());
}

void Session::Handle(internal::v1::TargetRequest message) {
  internal::v1::Batch& batch = *message.mutable_batch();
  BatchArrives event;
  event.stream = stream();
  event.arrived = executor().clock().Now();
  event.close.reserve(static_cast<size_t>(batch.close_size()));
  for (uint64_t sequence : batch.close()) event.close.push_back(SequenceId{sequence});
  event.steps.reserve(static_cast<size_t>(batch.steps_size()));
  for (internal::v1::Step& step : *batch.mutable_steps()) {
    const SequenceId sequence{step.sequence()};
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
  PushRequest(std::move(event));
}

void Session::Left(StreamId stream, const absl::Status& end) {
  context_.clients.Leave(client_id_, stream);
  base::LogFields line("client_gone");
  line.Add("client", client_id_).Add("broken", absl::IsCancelled(end));
  if (!end.ok()) line.Add("reason", end.message());
  TANDEM_LOG(kInfo) << line;
}

}  // namespace tandem::target_service
