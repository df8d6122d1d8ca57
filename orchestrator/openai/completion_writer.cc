#include "orchestrator/openai/completion_writer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/check.h"
#include "orchestrator/openai/record_json.h"
#include "orchestrator/openai/sum_last.h"

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

size_t Alternatives(const google::protobuf::RepeatedPtrField<v1::TopLogprobs>& tops) {
  size_t alternatives = 0;
  for (const v1::TopLogprobs& top : tops) {
    alternatives += static_cast<size_t>(top.tokens_size()) + 2;
  }
  return alternatives;
}

}  // namespace

CompletionWriter::CompletionWriter(WriterOptions options, std::unique_ptr<ChoiceForm> form)
    : options_(std::move(options)),
      form_(std::move(form)),
      choices_(options_.prompts.size() * options_.samples),
      prompt_tokens_(options_.prompts.size()) {}

std::string CompletionWriter::Events(const v1::GenerateReply& reply, uint32_t prompt) {
  switch (reply.kind_case()) {
    case v1::GenerateReply::kStarted:
      Start(reply.started(), prompt);
      return FirstEvents(prompt);
    case v1::GenerateReply::kPromptLogprobs:
      return PromptEvents(reply.prompt_logprobs(), prompt);
    case v1::GenerateReply::kDelta:
      return DeltaEvent(reply.delta(), IndexOf(prompt, reply.delta().sample_index()));
    case v1::GenerateReply::kLast:
      End(reply.last(), prompt);
      return LastEvents(prompt);
    default:
      return {};
  }
}

std::string CompletionWriter::ErrorEvent(const std::string& error_json) {
  return absl::StrCat("data: ", error_json, "\n\n");
}

void CompletionWriter::Keep(const v1::GenerateReply& reply, uint32_t prompt) {
  if (reply.has_started()) {
    Start(reply.started(), prompt);
    prompt_tokens_[prompt] = FirstOfPrompt(prompt);
  }
  if (reply.has_last()) End(reply.last(), prompt);
  if (reply.has_prompt_logprobs()) {
    const Tokens tokens = OfPrompt(reply.prompt_logprobs(), prompt);
    Tokens& kept = prompt_tokens_[prompt];
    kept.delta.MergeFrom(tokens.delta);
    kept.offsets.insert(kept.offsets.end(), tokens.offsets.begin(), tokens.offsets.end());
    kept_bytes_ += 2 * options_.samples *
                   (80 * tokens.offsets.size() + 96 * Alternatives(tokens.delta.top_logprobs()));
  }
  if (!reply.has_delta() || options_.echo_alone) return;
  const v1::Delta& delta = reply.delta();
  Choice& choice = choices_[IndexOf(prompt, delta.sample_index())];
  choice.text += delta.text();
  Append(delta, choice);
  choice.tokens.delta.mutable_text_runs()->MergeFrom(delta.text_runs());
  // Twice what is there, for it grows, and is there once more as JSON.
  kept_bytes_ += 2 * (delta.text().size() + 64 * static_cast<size_t>(delta.logprobs_size()) +
                      16 * static_cast<size_t>(delta.token_ids_size()) +
                      96 * Alternatives(delta.top_logprobs()));
  if (options_.text_runs) {  // the text once more
    kept_bytes_ += delta.text().size() + 96 * static_cast<size_t>(delta.text_runs_size());
  }
}

std::string CompletionWriter::Whole() const {
  std::vector<JsonText> choices;
  for (size_t i = 0; i < choices_.size(); ++i) {
    const size_t prompt = i / options_.samples;
    const Choice& kept = choices_[i];
    const std::string text = absl::StrCat(options_.prompts[prompt].echo, kept.text);
    Members members = form_->Whole(text);
    // Those of the prompt precede them.
    Tokens tokens = prompt_tokens_[prompt];
    tokens.delta.MergeFrom(kept.tokens.delta);
    tokens.offsets.insert(tokens.offsets.end(), kept.tokens.offsets.begin(),
                          kept.tokens.offsets.end());
    const size_t end = Characters(text);
    for (size_t& offset : tokens.offsets) offset = std::min(offset, end);
    members.emplace_back("logprobs", LogprobsJson(tokens));
    if (options_.return_token_ids) {
      members.emplace_back("token_ids", JsonText::Array(kept.tokens.delta.token_ids()));
    }
    if (options_.text_runs) {
      members.emplace_back("text_runs", RunsJson(kept.tokens.delta, kept.text));
    }
    JsonObject choice({{"index", i}});
    for (auto& [name, value] : members) choice.Set(name, std::move(value));
    AddEnd(kept.end, choice);
    choices.emplace_back(choice);
  }
  JsonObject answer = Head(form_->whole_object());
  answer.Set("choices", choices);
  AddRecord(answer);
  return answer.text();
}

// ---- what comes ----

CompletionWriter::Tokens CompletionWriter::TakeFront(Tokens& from, int count) {
  Tokens front;
  for (int i = 0; i < count; ++i) {
    front.delta.add_token_ids(from.delta.token_ids(i));
    if (i < from.delta.logprobs_size()) front.delta.add_logprobs(from.delta.logprobs(i));
    if (i < from.delta.top_logprobs_size()) {
      front.delta.add_top_logprobs()->Swap(from.delta.mutable_top_logprobs(i));
    }
  }
  const auto drop = [count](auto& list) {
    list.erase(list.begin(), list.begin() + std::min<int>(count, static_cast<int>(list.size())));
  };
  drop(*from.delta.mutable_token_ids());
  drop(*from.delta.mutable_logprobs());
  drop(*from.delta.mutable_top_logprobs());
  const size_t offsets = std::min(static_cast<size_t>(count), from.offsets.size());
  front.offsets.assign(from.offsets.begin(), from.offsets.begin() + offsets);
  from.offsets.erase(from.offsets.begin(), from.offsets.begin() + offsets);
  return front;
}

size_t CompletionWriter::IndexOf(uint32_t prompt, uint32_t sample) const {
  TANDEM_CHECK(prompt < options_.prompts.size() && sample < options_.samples);
  return FirstChoice(prompt) + sample;
}

void CompletionWriter::Start(const v1::Started& started, uint32_t prompt) {
  if (started_.request_id().empty()) started_ = started;
  const size_t echoed = Characters(options_.prompts[prompt].echo);
  for (uint32_t i = 0; i < options_.samples; ++i) {
    Choice& choice = choices_[IndexOf(prompt, i)];
    choice.sent = echoed;
    if (!options_.detokenizer) continue;
    choice.offsets.emplace([&] { return options_.detokenizer(prompt); }, echoed);
  }
}

void CompletionWriter::Append(const v1::Delta& delta, Choice& choice) const {
  if (!options_.return_token_ids && !options_.logprobs) return;
  Tokens& tokens = choice.tokens;
  tokens.delta.mutable_token_ids()->MergeFrom(delta.token_ids());
  tokens.delta.mutable_logprobs()->MergeFrom(delta.logprobs());
  tokens.delta.mutable_top_logprobs()->MergeFrom(delta.top_logprobs());
  if (!choice.offsets.has_value()) return;
  for (const uint32_t id : delta.token_ids()) tokens.offsets.push_back(choice.offsets->Next(id));
}

// Nothing precedes it, so it has no probability.
CompletionWriter::Tokens CompletionWriter::FirstOfPrompt(uint32_t prompt) const {
  Tokens tokens;
  if (options_.prompts[prompt].ids.empty()) return tokens;
  tokens.delta.add_token_ids(options_.prompts[prompt].ids[0]);
  tokens.delta.add_logprobs(std::numeric_limits<float>::quiet_NaN());
  tokens.delta.add_top_logprobs();
  tokens.offsets.push_back(options_.prompts[prompt].offsets[0]);
  return tokens;
}

CompletionWriter::Tokens CompletionWriter::OfPrompt(const v1::PromptLogprobs& logprobs,
                                                    uint32_t prompt) const {
  Tokens tokens;
  *tokens.delta.mutable_token_ids() = logprobs.token_ids();
  *tokens.delta.mutable_logprobs() = logprobs.logprobs();
  *tokens.delta.mutable_top_logprobs() = logprobs.top();
  const std::vector<size_t>& offsets = options_.prompts[prompt].offsets;
  for (int i = 0; i < logprobs.token_ids_size(); ++i) {
    tokens.offsets.push_back(offsets[logprobs.first_position() + static_cast<size_t>(i)]);
  }
  return tokens;
}

void CompletionWriter::End(const v1::Last& last, uint32_t prompt) {
  AddLast(last, sum_);
  if (options_.echo_alone) sum_.mutable_usage()->set_completion_tokens(0);
  for (const v1::SampleEnd& end : last.samples()) {
    v1::SampleEnd& kept = choices_[IndexOf(prompt, end.sample_index())].end;
    kept.set_finish_reason(options_.echo_alone ? v1::FINISH_REASON_LENGTH : end.finish_reason());
    if (!options_.echo_alone) kept.set_stop_string(end.stop_string());
  }
  ++ended_;
}

// ---- what goes out ----

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

std::string CompletionWriter::ChoiceEvent(size_t index, Members members, const v1::SampleEnd* end) {
  JsonObject choice({{"index", index}});
  for (auto& [name, value] : members) choice.Set(name, std::move(value));
  if (end != nullptr) {
    AddEnd(*end, choice);
  } else {
    choice.Set("finish_reason", nullptr);
  }
  JsonObject event = Head(form_->stream_object());
  event.Set("choices", std::vector<JsonText>{choice});
  if (!std::exchange(told_, true)) event.Set("tandem", OursJson());
  return Event(event);
}

JsonText CompletionWriter::LogprobsJson(const Tokens& tokens) const {
  return options_.logprobs ? form_->Logprobs(tokens.delta, tokens.offsets) : nullptr;
}

void CompletionWriter::AddTokens(const Tokens& tokens, Members& to) const {
  to.emplace_back("logprobs", LogprobsJson(tokens));
  if (options_.return_token_ids) {
    to.emplace_back("token_ids", JsonText::Array(tokens.delta.token_ids()));
  }
}

std::string CompletionWriter::FirstEvents(uint32_t prompt) {
  std::string events;
  const Tokens first = FirstOfPrompt(prompt);
  const std::string& echo = options_.prompts[prompt].echo;
  for (uint32_t i = 0; i < options_.samples; ++i) {
    const bool echoes = !echo.empty() || !first.offsets.empty();
    Members members = echoes ? form_->Part(echo) : form_->FirstEvent();
    if (members.empty()) continue;
    members.emplace_back("logprobs",
                         first.offsets.empty() ? JsonText(nullptr) : LogprobsJson(first));
    events += ChoiceEvent(IndexOf(prompt, i), std::move(members), nullptr);
  }
  return events;
}

std::string CompletionWriter::PromptEvents(const v1::PromptLogprobs& logprobs, uint32_t prompt) {
  std::string events;
  const Tokens tokens = OfPrompt(logprobs, prompt);
  for (uint32_t i = 0; i < options_.samples; ++i) {
    Members members = form_->Part("");
    members.emplace_back("logprobs", LogprobsJson(tokens));
    events += ChoiceEvent(IndexOf(prompt, i), std::move(members), nullptr);
  }
  return events;
}

// A token waits for the text before it, which may be held back: so where it begins is known by what
// was sent. Ids whose text comes later are an event only for clients that asked for ids.
std::string CompletionWriter::DeltaEvent(const v1::Delta& delta, size_t index) {
  if (options_.echo_alone) return {};
  Choice& choice = choices_[index];
  choice.sent += Characters(delta.text());
  Append(delta, choice);
  Tokens& waiting = choice.tokens;
  const auto behind = std::find_if(waiting.offsets.begin(), waiting.offsets.end(),
                                   [&](size_t offset) { return offset > choice.sent; });
  const int left = static_cast<int>(waiting.offsets.end() - behind);
  Tokens ready = TakeFront(waiting, waiting.delta.token_ids_size() - left);
  if (delta.text().empty() && ready.delta.token_ids().empty()) return {};
  Members members = form_->Part(delta.text());
  AddTokens(ready, members);
  if (options_.text_runs) members.emplace_back("text_runs", RunsJson(delta, delta.text()));
  return ChoiceEvent(index, std::move(members), nullptr);
}

std::string CompletionWriter::LastEvents(uint32_t prompt) {
  std::string events;
  for (uint32_t i = 0; i < options_.samples; ++i) {
    const size_t index = IndexOf(prompt, i);
    Choice& choice = choices_[index];
    Members members = form_->Part("");
    // Of a stop string, which is not sent.
    for (size_t& offset : choice.tokens.offsets) offset = std::min(offset, choice.sent);
    if (choice.tokens.delta.token_ids().empty()) {
      members.emplace_back("logprobs", nullptr);
    } else {
      AddTokens(choice.tokens, members);
    }
    events += ChoiceEvent(index, std::move(members), &choice.end);
  }
  if (ended_ < options_.prompts.size()) return events;
  if (options_.include_usage) {
    JsonObject event = Head(form_->stream_object());
    event.Set("choices", std::vector<JsonText>{});
    AddRecord(event);
    events += Event(event);
  }
  return events + "data: [DONE]\n\n";
}

JsonObject CompletionWriter::OursJson() const {
  JsonObject ours = StartedJson(started_);
  if (!options_.ignored.empty()) ours.Set("ignored", JsonText::Array(options_.ignored));
  return ours;
}

void CompletionWriter::AddRecord(JsonObject& to) const {
  to.Set("usage", UsageJson(sum_));
  to.Set("metrics", MetricsJson(sum_.speculation(), options_.draft_tokens));
  JsonObject ours = OursJson();
  ours.Set("timing", TimingJson(sum_.timing()));
  to.Set("tandem", ours);
}

}  // namespace tandem::orchestrator
