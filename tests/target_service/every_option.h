// Sequences under every rule, with every option that changes p.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/acceptance/rule.h"
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

inline v1::SequenceOptions OptionsOf(const RuleCase& rule, uint64_t seed = 5) {
  v1::SequenceOptions options = SampledOptions(seed, rule.temperature);
  options.set_rule(rule.rule);
  if (rule.rule == v1::RULE_LENIENT) options.set_leniency(0.5f);
  return options;
}

// All that acts on a vocabulary of 8: token 7 is banned, token 2 ends a text of 4 tokens at least.
inline v1::SequenceOptions EveryOption(const RuleCase& rule, uint32_t prompt_tokens,
                                       uint64_t seed = 5) {
  v1::SequenceOptions options = OptionsOf(rule, seed);
  options.set_prompt_tokens(prompt_tokens);
  v1::SamplingOptions& sampling = *options.mutable_sampling();
  sampling.set_top_k(6);
  sampling.set_top_p(0.98f);
  sampling.set_min_p(0.01f);
  sampling.set_repetition_penalty(1.3f);
  sampling.set_presence_penalty(0.4f);
  sampling.set_frequency_penalty(0.3f);
  sampling.add_banned_tokens(7);
  sampling.set_minimum_tokens(4);
  options.add_end_tokens(2);
  v1::LogitBias& bias = *sampling.add_logit_bias();
  bias.set_token(1);
  bias.set_bias(0.5f);
  return options;
}

inline std::vector<acceptance::Entry> EntriesOf(const v1::Verdict& verdict) {
  std::vector<acceptance::Entry> entries;
  for (const v1::Entry& entry : verdict.entries()) {
    entries.push_back({entry.accept_probability(), {}});
    if (entry.has_next_token()) entries.back().next_token = entry.next_token();
  }
  return entries;
}

// What the orchestrator decides of a verdict.
inline acceptance::Decision DecideOf(const v1::SequenceOptions& options, const v1::Verdict& verdict,
                                     uint32_t committed, acceptance::Rule rule) {
  return acceptance::Decide(
      rule, EntriesOf(verdict),
      acceptance::AcceptUniforms({options.seed(), options.sample_index(), committed},
                                 verdict.entries_size() - 1));
}

// A verdict without what depends on when it was made and beside whom.
inline std::string WhatItSays(v1::Verdict verdict) {
  verdict.clear_sequence();
  verdict.clear_queued_us();
  verdict.clear_computed_us();
  verdict.clear_pass_id();
  verdict.clear_pass_rows();
  verdict.clear_pass_sequences();
  return verdict.SerializeAsString();
}

}  // namespace tandem::target_service
