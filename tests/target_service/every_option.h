// Sequences under every rule, with every option that changes p.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/acceptance/rule.h"
#include "common/sampling/logprobs.h"
#include "tests/target_service/harness.h"

namespace tandem::target_service {

struct RuleCase {
  const char* name;
  v1::Rule rule;
  float temperature;
};

inline const std::vector<RuleCase>& EveryRule() {
  static const std::vector<RuleCase> rules = {
      {"greedy", v1::RULE_GREEDY, 0},      {"speculative", v1::RULE_SPECULATIVE, 0.8f},
      {"block", v1::RULE_BLOCK, 0.8f},     {"coupled", v1::RULE_COUPLED, 0.8f},
      {"lenient", v1::RULE_LENIENT, 0.8f}, {"lenient at 0", v1::RULE_LENIENT, 0},
  };
  return rules;
}

inline internal::v1::SequenceOptions OptionsOf(const RuleCase& rule, uint64_t seed = 5) {
  internal::v1::SequenceOptions options = SampledOptions(seed, rule.temperature);
  options.set_rule(rule.rule);
  if (rule.rule == v1::RULE_LENIENT) options.set_leniency(0.5f);
  return options;
}

// All that acts on a vocabulary of 8: token 7 is banned, token 2 ends a text of 4 tokens at least.
inline internal::v1::SequenceOptions EveryOption(const RuleCase& rule, uint32_t prompt_tokens,
                                                 uint64_t seed = 5) {
  internal::v1::SequenceOptions options = OptionsOf(rule, seed);
  options.set_prompt_tokens(prompt_tokens);
  v1::SamplingOptions& sampling = *options.mutable_sampling();
  sampling.set_top_k(6);
  sampling.set_top_p(0.98f);
  sampling.set_min_p(0.01f);
  sampling.set_repetition_penalty(1.3f);
  sampling.set_presence_penalty(0.4f);
  sampling.set_frequency_penalty(0.3f);
  sampling.add_banned_token_ids(7);
  sampling.set_min_tokens(4);
  options.add_stop_token_ids(2);
  v1::LogitBias& bias = *sampling.add_logit_bias();
  bias.set_token(1);
  bias.set_bias(0.5f);
  return options;
}

inline std::vector<acceptance::Entry> EntriesOf(const internal::v1::Verdict& verdict) {
  std::vector<acceptance::Entry> entries;
  for (const internal::v1::Entry& entry : verdict.entries()) {
    entries.push_back({entry.accept_probability(), {}});
    if (entry.has_next_token()) entries.back().next_token = entry.next_token();
  }
  return entries;
}

// What the orchestrator decides of a verdict.
inline acceptance::Decision DecideOf(const internal::v1::SequenceOptions& options,
                                     const internal::v1::Verdict& verdict, uint32_t committed,
                                     acceptance::Rule rule) {
  return acceptance::Decide(
      rule, EntriesOf(verdict),
      acceptance::AcceptUniforms({options.seed(), options.sample_index(), committed},
                                 verdict.entries_size() - 1));
}

// What all log probabilities of a verdict must be: bit for bit those of one-token decoding. Empty
// when they are, else what is wrong.
inline std::string WrongLogprobs(const Harness& target,
                                 const internal::v1::SequenceOptions& options,
                                 const internal::v1::Step& step, std::vector<uint32_t> committed,
                                 const internal::v1::Verdict& verdict) {
  auto wrong = [&](const std::vector<uint32_t>& context, const internal::v1::NodeLogprobs& told,
                   std::optional<uint32_t> candidate, std::optional<uint32_t> next_token) {
    const std::vector<float> logits = target.LogitsAfter(context);
    const sampling::Distribution p = target.P(options, context);
    const auto logprobs =
        options.logprobs().processed()
            ? sampling::Logprobs::OfDistribution(p)
            : sampling::Logprobs::OfModel(logits, target.model->info().vocabulary_size);
    if (told.has_candidate() != candidate.has_value()) return true;
    if (told.has_next_token() != next_token.has_value()) return true;
    if (candidate.has_value() && told.candidate() != logprobs(*candidate)) return true;
    if (next_token.has_value() && told.next_token() != logprobs(*next_token)) return true;
    const std::vector<sampling::TokenLogprob> top = logprobs.Top(options.logprobs().top());
    if (static_cast<size_t>(told.top().tokens_size()) != top.size()) return true;
    for (size_t i = 0; i < top.size(); ++i) {
      const v1::TokenLogprob& entry = told.top().tokens(static_cast<int>(i));
      if (entry.token() != top[i].token || entry.logprob() != top[i].logprob) return true;
    }
    return false;
  };
  const uint32_t first = std::max(step.prefix().keep(), 1u);
  const uint32_t size = static_cast<uint32_t>(committed.size());
  const uint32_t wanted = step.prompt_logprobs() && size > first ? size - first : 0;
  if (static_cast<uint32_t>(verdict.prompt_logprobs_size()) != wanted) {
    return absl::StrCat(verdict.prompt_logprobs_size(), " of the prompt, not ", wanted);
  }
  for (uint32_t i = 0; i < wanted; ++i) {
    const std::vector<uint32_t> context(committed.begin(), committed.begin() + first + i);
    if (wrong(context, verdict.prompt_logprobs(static_cast<int>(i)), committed[first + i], {})) {
      return absl::StrCat("of prompt token ", first + i);
    }
  }
  for (int i = 0; i < verdict.entries_size(); ++i) {
    const internal::v1::Entry& entry = verdict.entries(i);
    if (entry.has_logprobs() != options.has_logprobs()) return "asked for or not";
    std::optional<uint32_t> candidate;
    if (i < step.candidates_size()) candidate = step.candidates(i);
    std::optional<uint32_t> next;
    if (entry.has_next_token()) next = entry.next_token();
    if (entry.has_logprobs() && wrong(committed, entry.logprobs(), candidate, next)) {
      return absl::StrCat("of entry ", i);
    }
    if (candidate.has_value()) committed.push_back(*candidate);
  }
  return "";
}

// A verdict without what depends on when it was made and beside whom.
inline std::string WhatItSays(internal::v1::Verdict verdict) {
  verdict.clear_sequence();
  verdict.clear_queued_us();
  verdict.clear_computed_us();
  verdict.clear_pass_id();
  verdict.clear_pass_rows();
  verdict.clear_pass_sequences();
  return verdict.SerializeAsString();
}

}  // namespace tandem::target_service
