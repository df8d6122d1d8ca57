// Any bytes as a GenerateRequest: not a message, refused by INVALID_ARGUMENT, or found good and within
// every limit that the rest of the orchestrator relies on.
#include <google/protobuf/stubs/logging.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/config/check.h"
#include "common/rpc/unknown_fields.h"
#include "orchestrator/draft/length/policy.h"
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
  facts.eos_tokens = {2};
  facts.encode = [](const std::string& text) -> absl::StatusOr<std::vector<uint32_t>> {
    if (text[0] == '!') return absl::InvalidArgumentError("not UTF-8");
    if (text[0] == '?') return std::vector<uint32_t>();
    return std::vector<uint32_t>(text.begin(), text.end());
  };
  return facts;
}

void CheckBelow(absl::Span<const uint32_t> ids) {
  for (uint32_t id : ids) TANDEM_CHECK(id < kVocabulary) << id;
}

void CheckGood(const orchestrator::GenerationRequest& good, const v1::GenerateRequest& request) {
  TANDEM_CHECK(!good.prompt.empty() && good.max_tokens >= 1);
  TANDEM_CHECK(uint64_t{good.prompt_tokens()} + good.max_tokens <= kContext);
  TANDEM_CHECK(good.output_prefix.size() < good.max_tokens);
  if (request.has_ids()) CheckBelow(good.prompt);
  CheckBelow(good.output_prefix);
  CheckBelow(good.sampling.end_tokens);
  TANDEM_CHECK_OK(sampling::Validate(good.sampling));
  TANDEM_CHECK((good.rule == acceptance::Rule::kGreedy) == good.sampling.greedy());
  TANDEM_CHECK(good.draft_tokens.value_or(0) <= orchestrator::kMostDraftTokens);
  TANDEM_CHECK(good.stop_strings.size() <= 16);
  for (const std::string& stop : good.stop_strings) {
    TANDEM_CHECK(!stop.empty() && stop.size() <= 1024);
  }
  // What is not served would be an empty promise.
  const v1::SamplingOptions& sampling = request.sampling();
  TANDEM_CHECK(sampling.min_p() == 0 && sampling.logit_bias().empty() &&
               sampling.banned_tokens().empty() && sampling.minimum_tokens() == 0);
  TANDEM_CHECK(sampling.presence_penalty() == 0 && sampling.frequency_penalty() == 0);
  TANDEM_CHECK(request.samples() <= 1 && !request.has_logprobs() && request.priority() <= 10);
  TANDEM_CHECK(!request.speculation().has_leniency() && request.cache_scope().empty());
  TANDEM_CHECK(request.speculation().rule() <= v1::RULE_SPECULATIVE);
}

void Run(const uint8_t* bytes, size_t size) {
  v1::GenerateRequest request;
  if (!request.ParseFromArray(bytes, static_cast<int>(size))) return;
  const absl::Status known = rpc::RefuseUnknown(request);
  TANDEM_CHECK(known.ok() || absl::IsInvalidArgument(known)) << known;
  if (!known.ok()) return;
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
  v1::GenerateRequest refused = ids;
  refused.set_samples(2);
  refused.set_logprobs(1);
  refused.set_cache_scope("team");
  refused.mutable_sampling()->set_min_p(0.1f);
  refused.mutable_sampling()->add_banned_tokens(3);
  refused.mutable_sampling()->add_logit_bias()->set_token(3);
  refused.mutable_speculation()->set_leniency(0.5f);
  return {text.SerializeAsString(), ids.SerializeAsString(), refused.SerializeAsString()};
}

}  // namespace tandem::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  google::protobuf::SetLogHandler(nullptr);  // it writes a line about each text that is not UTF-8
  tandem::fuzz::Run(bytes, size);
  return 0;
}
