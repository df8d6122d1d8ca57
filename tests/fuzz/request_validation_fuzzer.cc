// Any bytes as a GenerateRequest: not a message, refused by INVALID_ARGUMENT, or found good and
// within every limit that the rest of the orchestrator relies on.
#include <google/protobuf/stubs/logging.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/messages/unknown_fields.h"
#include "common/speculation/sequence_options.h"
#include "common/speculation/sequence_settings.h"
#include "orchestrator/draft/length/policy.h"
#include "orchestrator/generate/request_names.h"
#include "orchestrator/generate/request_validation.h"
#include "tandem/v1/generation.pb.h"
#include "tests/fuzz/fuzz.h"

namespace tandem::fuzz {
namespace {

constexpr uint32_t kVocabulary = 300;
constexpr uint32_t kContext = 64;

orchestrator::ModelFacts Facts() {
  orchestrator::ModelFacts facts;
  facts.context_length = kContext;
  facts.vocabulary_size = kVocabulary;
  facts.eos_token_ids = {2};
  facts.encode = [](const std::string& text,
                    const orchestrator::TextOptions&) -> absl::StatusOr<std::vector<uint32_t>> {
    if (text[0] == '!') return absl::InvalidArgumentError("not UTF-8");
    if (text[0] == '?') return std::vector<uint32_t>();
    return std::vector<uint32_t>(text.begin(), text.end());
  };
  return facts;
}

void CheckBelow(absl::Span<const uint32_t> ids) {
  for (uint32_t id : ids) TANDEM_CHECK(id < kVocabulary) << id;
}

// What the services are told of a good request, they take: each sample, at target and draft.
void CheckServices(const orchestrator::GenerationRequest& good) {
  for (uint32_t index : {good.sample_index, good.sample_index + good.samples - 1}) {
    const speculation::SequenceSettings setup{.sampling = good.sampling,
                                              .rule = good.rule,
                                              .leniency = good.leniency,
                                              .seed = good.seed,
                                              .sample_index = index,
                                              .prompt_tokens = good.prompt_tokens(),
                                              .max_length = good.max_length(),
                                              .priority = good.priority,
                                              .logprobs = good.logprobs};
    const auto checked =
        speculation::CheckSequenceOptions(speculation::ToWire(setup), kContext, kVocabulary);
    const auto* refusal = std::get_if<messages::Refusal>(&checked);
    TANDEM_CHECK(refusal == nullptr) << refusal->problem.DebugString();
    TANDEM_CHECK(std::get<speculation::SequenceSettings>(checked).rule == good.rule);
  }
}

void CheckGood(const orchestrator::GenerationRequest& good, const v1::GenerateRequest& request) {
  TANDEM_CHECK(!good.prompt.empty() && good.max_tokens >= 1);
  TANDEM_CHECK(uint64_t{good.prompt_tokens()} + good.max_tokens <= kContext);
  TANDEM_CHECK(good.output_prefix.size() < good.max_tokens);
  if (request.has_ids()) CheckBelow(good.prompt);
  CheckBelow(good.output_prefix);
  CheckBelow(good.sampling.stop_token_ids);
  CheckBelow(good.sampling.banned);
  CheckBelow(good.sampling.allowed);
  TANDEM_CHECK_OK(sampling::Validate(good.sampling, kVocabulary));
  TANDEM_CHECK(good.sampling.min_tokens <= good.max_tokens);
  // The rules that a service takes: greedy at temperature 0, and there no other one but lenient.
  const bool lenient = good.rule == acceptance::Rule::kLenient;
  TANDEM_CHECK(lenient || (good.rule == acceptance::Rule::kGreedy) == good.sampling.greedy());
  TANDEM_CHECK(good.leniency.has_value() == lenient);
  TANDEM_CHECK(!lenient || (*good.leniency > 0 && *good.leniency <= 1));
  const double draft_temperature = good.draft_temperature.value_or(0);
  TANDEM_CHECK(draft_temperature >= 0 && draft_temperature <= sampling::kMaxTemperature);
  TANDEM_CHECK(good.draft_tokens.value_or(0) <= orchestrator::kMaxDraftTokens);
  TANDEM_CHECK(good.stop_strings.size() <= 16);
  for (const std::string& stop : good.stop_strings) {
    TANDEM_CHECK(!stop.empty() && stop.size() <= 1024);
  }
  TANDEM_CHECK(good.samples >= 1 && good.samples <= 16);
  TANDEM_CHECK(uint64_t{good.sample_index} + good.samples <= 65536);
  TANDEM_CHECK(good.samples == 1 || good.output_prefix.empty());
  TANDEM_CHECK(good.logprobs.has_value() == request.has_logprobs());
  TANDEM_CHECK(!good.prompt_logprobs || good.logprobs.has_value());
  TANDEM_CHECK(!good.logprobs.has_value() || good.logprobs->top <= sampling::kMaxTopLogprobs);
  CheckServices(good);
  // What is not served would be an empty promise.
  TANDEM_CHECK(request.priority() <= 10 && request.cache_scope().size() <= 64);
  TANDEM_CHECK(!request.has_structured());
}

void Run(const uint8_t* bytes, size_t size) {
  v1::GenerateRequest request;
  if (!request.ParseFromArray(bytes, static_cast<int>(size))) return;
  std::vector<std::string> ignored;
  const absl::Status known = messages::RefuseUnknownOfClient(request, ignored);
  TANDEM_CHECK(known.ok() || absl::IsInvalidArgument(known)) << known;
  if (!known.ok()) return;
  orchestrator::GenerationRequest names;
  const absl::Status named = orchestrator::FillNames(request, "", names);
  TANDEM_CHECK(named.ok() || absl::IsInvalidArgument(named)) << named;
  TANDEM_CHECK(names.id.size() <= 128 && names.user.size() <= 256);
  auto good = orchestrator::ValidateRequest(request, Facts());
  if (good.ok()) {
    CheckGood(*good, request);
  } else {
    TANDEM_CHECK(absl::IsInvalidArgument(good.status())) << good.status();
    TANDEM_CHECK(!good.status().message().empty());
  }
}

}  // namespace

std::vector<std::string> Seeds() {
  v1::GenerateRequest text;
  text.set_text("hello");
  text.mutable_sampling()->set_temperature(0.7f);
  text.mutable_sampling()->set_top_k(40);
  text.mutable_sampling()->set_top_p(0.9f);
  text.set_seed(7);
  text.mutable_stop()->add_strings("\n\n");
  text.mutable_stop()->add_token_ids(5);
  text.set_max_tokens(20);
  text.mutable_speculation()->set_auto_(true);
  text.mutable_speculation()->set_drafter("model");
  v1::GenerateRequest ids;
  for (uint32_t id : {1u, 2u, 299u}) ids.mutable_ids()->add_ids(id);
  ids.mutable_sampling()->set_temperature(0);
  ids.add_output_prefix_ids(9);
  ids.mutable_speculation()->set_rule(v1::RULE_GREEDY);
  ids.mutable_speculation()->set_fixed(4);
  v1::GenerateRequest all = text;
  all.set_samples(3);
  all.set_first_sample(2);
  all.mutable_logprobs()->set_top(5);
  all.mutable_logprobs()->set_prompt(true);
  all.mutable_stop()->set_ignore_eos(true);
  v1::SamplingOptions& sampling = *all.mutable_sampling();
  sampling.set_min_p(0.1f);
  sampling.add_banned_token_ids(3);
  sampling.add_allowed_token_ids(4);
  sampling.add_allowed_token_ids(9);
  sampling.add_logit_bias()->set_token(3);
  sampling.mutable_logit_bias(0)->set_bias(-1.5f);
  sampling.set_min_tokens(4);
  sampling.set_repetition_penalty(1.2f);
  sampling.set_presence_penalty(0.5f);
  sampling.set_frequency_penalty(-0.5f);
  all.mutable_speculation()->set_rule(v1::RULE_LENIENT);
  all.mutable_speculation()->set_leniency(0.5f);
  all.mutable_speculation()->set_proposal(v1::PROPOSAL_GREEDY);
  all.mutable_speculation()->set_draft_temperature(0.3f);
  v1::GenerateRequest refused = ids;
  refused.set_cache_scope(std::string(65, 'x'));
  refused.mutable_structured()->set_json_schema("{}");
  return {text.SerializeAsString(), ids.SerializeAsString(), all.SerializeAsString(),
          refused.SerializeAsString()};
}

}  // namespace tandem::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  google::protobuf::SetLogHandler(nullptr);  // it writes a line about each text that is not UTF-8
  tandem::fuzz::Run(bytes, size);
  return 0;
}
