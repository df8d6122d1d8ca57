#include "orchestrator/openai/completion_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "orchestrator/openai/record_json.h"

namespace tandem::orchestrator {
namespace {

using base::JsonObject;
using base::JsonText;

void AddEnd(const v1::SampleEnd& end, JsonObject& choice) {
  const bool stopped = end.finish_reason() == v1::FINISH_REASON_STOP;
  choice.Set("finish_reason", stopped ? "stop" : "length");
  // vLLM's: which of `stop` it was.
  choice.Set("stop_reason",
             end.stop_string().empty() ? JsonText(nullptr) : JsonText(end.stop_string()));
}

// The runs of a text, each with its text; those of one origin that follow each other are one.
JsonText RunsJson(const v1::Delta& tokens, absl::string_view text) {
  std::vector<JsonText> runs;
  size_t bytes = 0;
  for (int i = 0; i < tokens.text_runs_size(); ++i) {
    const bool accepted = tokens.text_runs(i).accepted();
    bytes += tokens.text_runs(i).bytes();
    if (i + 1 < tokens.text_runs_size() && tokens.text_runs(i + 1).accepted() == accepted) continue;
    runs.emplace_back(JsonObject({{"text", text.substr(0, bytes)}, {"accepted", accepted}}));
    text.remove_prefix(std::exchange(bytes, 0));
  }
  return runs;
}

}  // namespace

CompletionWriter::CompletionWriter(WriterOptions options, std::unique_ptr<ChoiceForm> form)
    : options_(std::move(options)), form_(std::move(form)), choices_(options_.samples) {}

std::string CompletionWriter::Events(const v1::GenerateReply& reply) {
  switch (reply.kind_case()) {
    case v1::GenerateReply::kStarted:
      started_ = reply.started();
      return FirstEvents();
    case v1::GenerateReply::kDelta:
      return DeltaEvent(reply.delta());
    case v1::GenerateReply::kLast:
      return LastEvents(reply.last());
    default:
      return {};
  }
}

std::string CompletionWriter::ErrorEvent(const std::string& error_json) {
  return absl::StrCat("data: ", error_json, "\n\n");
}

void CompletionWriter::Keep(const v1::GenerateReply& reply) {
  if (reply.has_started()) started_ = reply.started();
  if (reply.has_last()) last_ = reply.last();
  if (!reply.has_delta()) return;
  const v1::Delta& delta = reply.delta();
  TANDEM_CHECK(delta.sample_index() < choices_.size());
  Choice& choice = choices_[delta.sample_index()];
  choice.text += delta.text();
  if (options_.return_token_ids || options_.logprobs) {
    choice.tokens.mutable_token_ids()->MergeFrom(delta.token_ids());
  }
  choice.tokens.mutable_logprobs()->MergeFrom(delta.logprobs());
  choice.tokens.mutable_top_logprobs()->MergeFrom(delta.top_logprobs());
  choice.tokens.mutable_text_runs()->MergeFrom(delta.text_runs());
  // Twice what is there, for it grows, and is there once more as JSON.
  size_t alternatives = 0;
  for (const v1::TopLogprobs& top : delta.top_logprobs()) {
    alternatives += static_cast<size_t>(top.tokens_size()) + 2;
  }
  kept_bytes_ += 2 * (delta.text().size() + 64 * static_cast<size_t>(delta.logprobs_size()) +
                      8 * static_cast<size_t>(delta.token_ids_size()) + 96 * alternatives);
  if (options_.text_runs) {  // the text once more
    kept_bytes_ += delta.text().size() + 96 * static_cast<size_t>(delta.text_runs_size());
  }
}

std::string CompletionWriter::Whole() const {
  std::vector<JsonText> choices;
  for (size_t i = 0; i < choices_.size(); ++i) {
    const Choice& kept = choices_[i];
    JsonObject choice({{"index", i}});
    for (auto& [name, value] : form_->Whole(absl::StrCat(options_.echo, kept.text))) {
      choice.Set(name, std::move(value));
    }
    size_t offset = 0;
    AddTokens(kept.tokens, kept.text, offset, choice);
    AddEnd(last_.samples(static_cast<int>(i)), choice);
    choices.emplace_back(choice);
  }
  JsonObject answer = Head(form_->whole_object());
  answer.Set("choices", choices);
  AddRecord(last_, answer);
  return answer.text();
}

JsonObject CompletionWriter::Head(absl::string_view object) const {
  return JsonObject(
      {{"id", absl::StrCat(form_->id_prefix(), started_.request_id())},
       {"object", object},
       {"created", options_.created},
       {"model", options_.model},
       {"system_fingerprint", Fingerprint(started_.target_model_id(), started_.numerics_id())}});
}

std::string CompletionWriter::Event(const JsonObject& object) const {
  return absl::StrCat("data: ", object.text(), "\n\n");
}

std::string CompletionWriter::ChoiceEvent(uint32_t index, std::vector<JsonObject::Member> members,
                                          const v1::Delta* tokens, const v1::SampleEnd* end) {
  JsonObject choice({{"index", index}});
  for (auto& [name, value] : members) choice.Set(name, std::move(value));
  if (tokens != nullptr) {
    AddTokens(*tokens, tokens->text(), choices_[index].offset, choice);
  } else {
    choice.Set("logprobs", nullptr);
  }
  if (end != nullptr) {
    AddEnd(*end, choice);
  } else {
    choice.Set("finish_reason", nullptr);
  }
  JsonObject event = Head(form_->stream_object());
  event.Set("choices", std::vector<JsonText>{choice});
  if (!std::exchange(told_, true)) event.Set("tandem", StartedJson(started_));
  return Event(event);
}

void CompletionWriter::AddTokens(const v1::Delta& tokens, absl::string_view text, size_t& offset,
                                 JsonObject& choice) const {
  choice.Set("logprobs", options_.logprobs ? form_->Logprobs(tokens, offset) : nullptr);
  if (options_.return_token_ids) choice.Set("token_ids", JsonText::Array(tokens.token_ids()));
  if (options_.text_runs) choice.Set("text_runs", RunsJson(tokens, text));
}

std::string CompletionWriter::FirstEvents() {
  std::string events;
  for (uint32_t i = 0; i < choices_.size(); ++i) {
    std::vector<JsonObject::Member> first = form_->FirstEvent();
    if (!options_.echo.empty()) first = form_->Part(options_.echo);
    if (!first.empty()) events += ChoiceEvent(i, std::move(first), nullptr, nullptr);
  }
  return events;
}

// Ids whose text comes later are an event only for who asked for ids.
std::string CompletionWriter::DeltaEvent(const v1::Delta& delta) {
  TANDEM_CHECK(delta.sample_index() < choices_.size());
  const bool shows_tokens = options_.return_token_ids || options_.logprobs;
  if (delta.text().empty() && (!shows_tokens || delta.token_ids().empty())) return {};
  return ChoiceEvent(delta.sample_index(), form_->Part(delta.text()), &delta, nullptr);
}

std::string CompletionWriter::LastEvents(const v1::Last& last) {
  std::string events;
  for (const v1::SampleEnd& end : last.samples()) {
    events += ChoiceEvent(end.sample_index(), form_->Part(""), nullptr, &end);
  }
  if (options_.include_usage) {
    JsonObject event = Head(form_->stream_object());
    event.Set("choices", std::vector<JsonText>{});
    AddRecord(last, event);
    events += Event(event);
  }
  return events + "data: [DONE]\n\n";
}

void CompletionWriter::AddRecord(const v1::Last& last, JsonObject& to) const {
  to.Set("usage", UsageJson(last));
  to.Set("metrics", MetricsJson(last.speculation(), options_.draft_tokens));
  JsonObject ours = StartedJson(started_);
  ours.Set("timing", TimingJson(last.timing()));
  to.Set("tandem", ours);
}

}  // namespace tandem::orchestrator
