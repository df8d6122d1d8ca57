#include "client/common/sampling_flags.h"

#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/speculation/candidate_tree.h"

namespace tandem::client {
namespace {

constexpr std::pair<const char*, v1::Rule> kRules[] = {{"greedy", v1::RULE_GREEDY},
                                                       {"speculative", v1::RULE_SPECULATIVE},
                                                       {"block", v1::RULE_BLOCK},
                                                       {"coupled", v1::RULE_COUPLED},
                                                       {"lenient", v1::RULE_LENIENT}};

// "12:1.5,7:-100", added to `biases`.
absl::Status AddBiases(absl::string_view text, std::vector<sampling::TokenBias>& biases) {
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> halves =
        absl::StrSplit(part, absl::MaxSplits(':', 1));
    const std::optional<uint64_t> token = flags::ParseWhole(halves.first, 0, UINT32_MAX);
    double bias = 0;
    const flags::Range range{-sampling::kMaxBias, sampling::kMaxBias};
    if (!token.has_value() || !absl::SimpleAtod(halves.second, &bias) || !range.Contains(bias)) {
      return flags::BadFlag("logit-bias", part,
                            absl::StrCat("must be a token's id and what is added to its logit, ",
                                         range.ToString(), ": 12:1.5"));
    }
    for (const sampling::TokenBias& other : biases) {
      if (other.token == *token) {
        return flags::BadFlag("logit-bias", part,
                              absl::StrCat("token ", *token, " has a bias already; give each one"));
      }
    }
    biases.push_back({static_cast<uint32_t>(*token), bias});
    if (biases.size() > sampling::kMaxListedTokens) {
      return flags::BadFlag("logit-bias", part,
                            absl::StrCat("is one too many; at most ", sampling::kMaxListedTokens));
    }
  }
  return absl::OkStatus();
}

void AddSampling(SamplingFlags& values, flags::FlagSet& flags) {
  flags.Group("Sampling");
  flags.Real("temperature", &values.temperature, {0, sampling::kMaxTemperature},
             "0 = greedy; the model's own, or 1, when absent");
  flags.Number("top-k", &values.top_k, 0, UINT32_MAX, "keep the k most likely tokens; 0 = all");
  flags.Real("top-p", &values.top_p, {0, 1, /*exclusive_min=*/true},
             "keep the most likely tokens that make up p; 1 = all");
  flags.Real("min-p", &values.min_p, {0, 1},
             "keep tokens of at least this share of the largest probability; 0 = all");
  flags.Real("repetition-penalty", &values.repetition_penalty,
             {0, sampling::kMaxRepetitionPenalty, /*exclusive_min=*/true},
             "of tokens of prompt and output; 1 = off");
  flags.Real("presence-penalty", &values.presence_penalty,
             {-sampling::kMaxPenalty, sampling::kMaxPenalty}, "of tokens of the output; 0 = off");
  flags.Real("frequency-penalty", &values.frequency_penalty,
             {-sampling::kMaxPenalty, sampling::kMaxPenalty},
             "the same, times how often the token came");
  flags.CustomList(
      "logit-bias",
      [&values](absl::string_view text) { return AddBiases(text, values.logit_bias); },
      "ID:BIAS[,ID:BIAS...]: added to the token's logit, -100 to 100; may be repeated");
  flags.NumberList("banned-tokens", &values.banned_token_ids, sampling::kMaxListedTokens,
                   "ID[,ID...]: tokens that must not come; may be repeated");
  flags.NumberList("allowed-tokens", &values.allowed_token_ids, sampling::kMaxListedTokens,
                   "ID[,ID...]: no others may come; may be repeated");
  flags.Number("min-tokens", &values.min_tokens, 0, UINT32_MAX,
               "output tokens before the text may end; 0 = none");
  flags.Number("seed", &values.seed, 0, UINT64_MAX, "of all randomness; drawn when absent");
}

}  // namespace

void SamplingFlags::AddTo(flags::FlagSet& flags) {
  flags.Group("Speculation");
  flags.Custom(
      "draft-tokens",
      [this](absl::string_view text) {
        const std::optional<uint64_t> number = flags::ParseWhole(text, 0, kMaxDraftTokens);
        if (text != "auto" && !number.has_value()) {
          return flags::BadFlag(
              "draft-tokens", text,
              absl::StrCat("must be auto, or a whole number, 0 (the target alone) to ",
                           kMaxDraftTokens));
        }
        draft_tokens.reset();
        if (number.has_value()) draft_tokens = static_cast<uint32_t>(*number);
        return absl::OkStatus();
      },
      "candidates a round: auto (the default: --length-policy decides), or 1 to 16; 0 = the target "
      "alone");
  flags.Choice(
      "length-policy", &length_policy, {"auto", "heuristic"},
      "who decides the candidates of a round: auto, by measured times, or heuristic, by what "
      "was accepted; the orchestrator's default when absent");
  flags.Number(
      "draft-nodes", &draft_nodes, 0, speculation::kMaxTreeNodes,
      "candidates of a tree a round, whose paths have --draft-tokens at most; 0 = a chain; "
      "rules greedy and coupled, drafters that make trees; when absent --draft-tokens=auto chooses "
      "it");
  flags.Real(
      "draft-min-confidence", &draft_min_confidence, {0, 1},
      "a chain ends behind the candidate at which the chance that all so far are accepted is "
      "below it; 0 = none does; rules greedy and coupled; when absent --draft-tokens=auto "
      "chooses it");
  flags.Text("drafter", &drafter,
             "one that the drafts offer (`tandem describe` tells): model, cascade, prompt-lookup, "
             "context-ngram, corpus-bigram, mixed, …; several, separated by commas, or auto, all "
             "of them: then the one "
             "with the most tokens a time for each text; the orchestrator's default when absent");
  flags.Choice("proposal", &proposal, {"sampled", "greedy"},
               "how the drafter proposes: sampled or greedy; its default when absent");
  flags.Real("draft-temperature", &draft_temperature, {0, sampling::kMaxTemperature},
             "of the drafter; the text's own when absent");
  flags.Choice("rule", &rule, {"greedy", "speculative", "block", "coupled", "lenient"},
               "greedy, speculative, block, coupled or lenient; when absent greedy at "
               "temperature 0, above it coupled with --seed, else speculative");
  flags.Real("leniency", &leniency, {0, 1, /*exclusive_min=*/true},
             "with --rule=lenient: the lower, the more is accepted; not exact");
  AddSampling(*this, flags);
}

absl::Status SamplingFlags::Validate() const {
  if (rule == "greedy" && temperature.value_or(1) != 0) {
    return flags::BadFlag(
        "rule", rule,
        absl::StrCat("needs --temperature=0; the temperature is ", temperature.value_or(1)));
  }
  if (rule == "lenient" && !leniency.has_value()) {
    return flags::BadFlag("rule", rule, "needs --leniency=L, above 0, to 1");
  }
  if (rule != "lenient" && leniency.has_value()) {
    return flags::BadFlag("leniency", absl::StrCat(*leniency), "needs --rule=lenient");
  }
  if (draft_nodes.value_or(0) > 0 && draft_tokens == 0u) {
    return flags::BadFlag("draft-nodes", absl::StrCat(*draft_nodes),
                          "needs a draft: --draft-tokens must be auto, or 1 to 16");
  }
  if (draft_min_confidence.value_or(0) > 0 && (draft_tokens == 0u || draft_nodes.value_or(0) > 0)) {
    return flags::BadFlag("draft-min-confidence", absl::StrCat(*draft_min_confidence),
                          "needs chains of a draft: --draft-tokens must be auto, or 1 to 16, and "
                          "--draft-nodes 0");
  }
  if (!length_policy.empty() && draft_tokens.has_value()) {
    return flags::BadFlag("length-policy", length_policy,
                          absl::StrCat("decides nothing with --draft-tokens=", *draft_tokens,
                                       "; leave one of them out"));
  }
  if (draft_temperature.has_value() && draft_tokens == 0u) {
    return flags::BadFlag("draft-temperature", absl::StrCat(*draft_temperature),
                          "needs a draft: --draft-tokens must be auto, or 1 to 16");
  }
  return absl::OkStatus();
}

void SamplingFlags::Apply(v1::GenerateRequest& request) const {
  v1::SamplingOptions& sampling = *request.mutable_sampling();
  if (temperature) sampling.set_temperature(static_cast<float>(*temperature));
  if (top_k) sampling.set_top_k(static_cast<uint32_t>(*top_k));
  if (top_p) sampling.set_top_p(static_cast<float>(*top_p));
  if (min_p) sampling.set_min_p(static_cast<float>(*min_p));
  if (repetition_penalty) {
    sampling.set_repetition_penalty(static_cast<float>(*repetition_penalty));
  }
  if (presence_penalty) sampling.set_presence_penalty(static_cast<float>(*presence_penalty));
  if (frequency_penalty) sampling.set_frequency_penalty(static_cast<float>(*frequency_penalty));
  for (const auto& [token, bias] : logit_bias) {
    v1::LogitBias& entry = *sampling.add_logit_bias();
    entry.set_token(token);
    entry.set_bias(static_cast<float>(bias));
  }
  sampling.mutable_banned_token_ids()->Add(banned_token_ids.begin(), banned_token_ids.end());
  sampling.mutable_allowed_token_ids()->Add(allowed_token_ids.begin(), allowed_token_ids.end());
  sampling.set_min_tokens(static_cast<uint32_t>(min_tokens));
  if (seed) request.set_seed(*seed);

  v1::SpeculationOptions& speculation = *request.mutable_speculation();
  for (const auto& [name, value] : kRules) {
    if (rule == name) speculation.set_rule(value);
  }
  if (leniency) speculation.set_leniency(static_cast<float>(*leniency));
  if (draft_tokens) {
    speculation.set_fixed(*draft_tokens);
  } else {
    speculation.set_auto_(true);
  }
  if (draft_nodes) speculation.set_draft_nodes(*draft_nodes);
  if (draft_min_confidence) {
    speculation.set_draft_min_confidence(static_cast<float>(*draft_min_confidence));
  }
  if (length_policy == "auto") speculation.set_length_policy(v1::LENGTH_POLICY_AUTO);
  if (length_policy == "heuristic") speculation.set_length_policy(v1::LENGTH_POLICY_HEURISTIC);
  const std::vector<std::string> drafters = absl::StrSplit(drafter, ',');
  if (drafters.size() > 1 || drafter == "auto") {
    speculation.mutable_drafters()->Add(drafters.begin(), drafters.end());
  } else {
    speculation.set_drafter(drafter);
  }
  if (proposal == "sampled") speculation.set_proposal(v1::PROPOSAL_SAMPLED);
  if (proposal == "greedy") speculation.set_proposal(v1::PROPOSAL_GREEDY);
  if (draft_temperature) speculation.set_draft_temperature(static_cast<float>(*draft_temperature));
}

}  // namespace tandem::client
