// Requests as a client may have seen them.
#pragma once

#include <cmath>

#include "client/common/outcome.h"
#include "client/generate/stages.h"
#include "tests/client/example_rounds.h"

namespace tandem::client {

// 10 tokens: a first round without a draft, two rounds that end by a rejection, one that stands.
inline Outcome Example() {
  Outcome outcome;
  outcome.started.set_rule(v1::RULE_GREEDY);
  outcome.samples[0].text = "a \"b\"\n";
  outcome.samples[0].token_ids = {5, 6, 7};
  outcome.started.set_seed(UINT64_MAX);
  outcome.last.set_finish_reason(v1::FINISH_REASON_LENGTH);
  outcome.last.mutable_usage()->set_prompt_tokens(4);
  outcome.last.mutable_usage()->set_completion_tokens(10);
  v1::AcceptanceRecord& record = *outcome.last.mutable_speculation();
  record.set_rule(v1::RULE_GREEDY);
  record.set_exact(true);
  record.set_rounds(4);
  record.set_draft_tokens(12);
  record.set_accepted_tokens(6);
  record.set_rejected_rounds(2);
  for (uint32_t rounds : {1, 2, 0, 0, 1}) record.add_accepted_histogram(rounds);
  v1::CausedRounds& caused = *record.add_rounds_without_draft();
  caused.set_cause("first-round");
  caused.set_rounds(1);
  v1::Timing& timing = *outcome.last.mutable_timing();
  timing.set_total_us(10'500);
  timing.set_first_token_us(1'500);
  return outcome;
}

// Waited for its turn, then shared passes with others.
inline Outcome Busy() {
  Outcome outcome = Example();
  outcome.last.mutable_speculation()->set_batch_rows(90);
  outcome.last.mutable_speculation()->set_batch_sequences(26);
  outcome.last.mutable_timing()->set_admission_us(12'340);
  outcome.last.mutable_timing()->set_queue_us(2'500);
  outcome.last.mutable_timing()->set_slot_us(900);
  return outcome;
}

// Traced, with the time of its rounds, and the rounds themselves.
inline Outcome Traced() {
  Outcome outcome = Example();
  outcome.started.set_trace_id("4bf92f3577b34da6a3ce929d0e0e4736");
  outcome.rounds = FiveRounds();
  *outcome.last.mutable_timing()->mutable_stages() = SumStages(outcome.rounds);
  outcome.last.mutable_speculation()->set_rounds(5);
  return outcome;
}

// Two samples: the second has log probabilities, one of them of a token that could not come.
inline Outcome TwoSamples() {
  Outcome outcome = Example();
  outcome.started.set_rule(v1::RULE_COUPLED);
  outcome.last.mutable_speculation()->set_rule(v1::RULE_COUPLED);
  SampleOutput& second = outcome.samples.emplace_back();
  second.text = "zwei";
  second.token_ids = {9, 10};
  second.logprobs = {-0.125F, -INFINITY};
  second.top_logprobs.resize(2);
  v1::TokenLogprob& best = *second.top_logprobs[0].add_tokens();
  best.set_token(9);
  best.set_logprob(-0.125F);
  v1::SampleEnd& first_end = *outcome.last.add_samples();
  first_end.set_finish_reason(v1::FINISH_REASON_LENGTH);
  first_end.set_completion_tokens(8);
  v1::SampleEnd& second_end = *outcome.last.add_samples();
  second_end.set_sample_index(1);
  second_end.set_finish_reason(v1::FINISH_REASON_STOP);
  second_end.set_stop_string("!");
  second_end.set_completion_tokens(2);
  second_end.mutable_speculation()->set_rounds(1);
  return outcome;
}

}  // namespace tandem::client
