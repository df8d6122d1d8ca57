#include "orchestrator/generate/last_message.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "common/base/check.h"
#include "common/messages/sampling_options.h"

namespace tandem::orchestrator {
namespace {

v1::FinishReason ToWire(Finish finish) {
  return finish == Finish::kStop ? v1::FINISH_REASON_STOP : v1::FINISH_REASON_LENGTH;
}

void Add(const AcceptanceCounts& counts, AcceptanceCounts& sum) {
  sum.rounds += counts.rounds;
  sum.draft_tokens += counts.draft_tokens;
  sum.accepted_tokens += counts.accepted_tokens;
  if (sum.accepted_histogram.size() < counts.accepted_histogram.size()) {
    sum.accepted_histogram.resize(counts.accepted_histogram.size());
  }
  for (size_t i = 0; i < counts.accepted_histogram.size(); ++i) {
    sum.accepted_histogram[i] += counts.accepted_histogram[i];
  }
  if (sum.chosen_histogram.size() < counts.chosen_histogram.size()) {
    sum.chosen_histogram.resize(counts.chosen_histogram.size());
  }
  for (size_t i = 0; i < counts.chosen_histogram.size(); ++i) {
    sum.chosen_histogram[i] += counts.chosen_histogram[i];
  }
  for (int i = 0; i < kZeroCauses; ++i) sum.zero_rounds[i] += counts.zero_rounds[i];
  if (counts.estimates.alpha.has_value()) sum.estimates = counts.estimates;
  if (sum.drafters.size() < counts.drafters.size()) sum.drafters.resize(counts.drafters.size());
  for (size_t i = 0; i < counts.drafters.size(); ++i) sum.drafters[i] += counts.drafters[i];
  sum.rejected_rounds += counts.rejected_rounds;
  for (int i = 0; i < kPlainCauses; ++i) sum.plain_rounds[i] += counts.plain_rounds[i];
  for (int i = 0; i < kPreparedUses; ++i) sum.prepared_rounds[i] += counts.prepared_rounds[i];
  sum.draft_reconnections += counts.draft_reconnections;
  sum.target_replays += counts.target_replays;
  sum.one_hot_blocks += counts.one_hot_blocks;
  sum.batch_rows += counts.batch_rows;
  sum.batch_sequences += counts.batch_sequences;
  sum.cached_tokens += counts.cached_tokens;
  sum.tree_rounds += counts.tree_rounds;
}

// The request's time is not the sum of its samples' times, because they ran together.
void Add(const StageTimes& times, StageTimes& sum) {
  const bool first = sum.first_token == absl::ZeroDuration();
  sum.total = std::max(sum.total, times.total);
  sum.first_token = first ? times.first_token : std::min(sum.first_token, times.first_token);
  sum.admission = std::max(sum.admission, times.admission);
  sum.draft += times.draft;
  sum.verify += times.verify;
  sum.target += times.target;
  sum.queue += times.queue;
  sum.slot += times.slot;
  sum.cpu += times.cpu;
  sum.stages += times.stages;
}

// Of `counts`, which are by cause, those from `first` on that are not 0.
template <typename Cause, typename Counts>
void AddCauses(const Counts& counts, google::protobuf::RepeatedPtrField<v1::CausedRounds>& to,
               Cause first = Cause{}) {
  for (size_t i = static_cast<size_t>(first); i < std::size(counts); ++i) {
    if (counts[i] == 0) continue;
    v1::CausedRounds& rounds = *to.Add();
    rounds.set_cause(Name(static_cast<Cause>(i)));
    rounds.set_rounds(static_cast<uint32_t>(counts[i]));
  }
}

void FillLength(const AcceptanceCounts& counts, v1::AcceptanceRecord& record) {
  if (counts.chosen_histogram.empty()) return;
  v1::LengthRecord& length = *record.mutable_length();
  length.mutable_chosen_histogram()->Add(counts.chosen_histogram.begin(),
                                         counts.chosen_histogram.end());
  AddCauses<ZeroCause>(counts.zero_rounds, *length.mutable_zero_rounds());
  if (counts.estimates.alpha.has_value()) length.set_alpha(*counts.estimates.alpha);
  if (counts.estimates.draft_token.has_value()) {
    length.set_draft_token_us(absl::ToInt64Microseconds(*counts.estimates.draft_token));
  }
  if (counts.estimates.min_confidence.has_value()) {
    length.set_min_confidence(*counts.estimates.min_confidence);
  }
}

void FillDrafters(const AcceptanceCounts& counts, const GenerationRequest& request,
                  v1::AcceptanceRecord& record) {
  for (size_t i = 0; i < counts.drafters.size(); ++i) {
    const DrafterCounts& one = counts.drafters[i];
    v1::DrafterRecord& wire = *record.add_drafters();
    wire.set_drafter(request.drafters[i]);
    wire.set_rounds(static_cast<uint32_t>(one.rounds));
    wire.set_drafted_rounds(static_cast<uint32_t>(one.drafted_rounds));
    wire.set_draft_tokens(static_cast<uint32_t>(one.draft_tokens));
    wire.set_accepted_tokens(static_cast<uint32_t>(one.accepted_tokens));
    wire.set_tokens(static_cast<uint32_t>(one.tokens));
    AddCauses<DrafterReason>(one.reasons, *wire.mutable_reasons());
  }
}

void Fill(const AcceptanceCounts& counts, const GenerationRequest& request,
          v1::AcceptanceRecord& record) {
  const acceptance::Rule rule = request.rule;
  record.set_rule(messages::ToWire(rule));
  record.set_exact(acceptance::IsExact(rule));
  record.set_rounds(counts.rounds);
  record.set_draft_tokens(counts.draft_tokens);
  record.set_accepted_tokens(counts.accepted_tokens);
  record.mutable_accepted_histogram()->Add(counts.accepted_histogram.begin(),
                                           counts.accepted_histogram.end());
  record.set_rejected_rounds(counts.rejected_rounds);
  AddCauses<PlainCause>(counts.plain_rounds, *record.mutable_rounds_without_draft());
  AddCauses<PreparedUse>(counts.prepared_rounds, *record.mutable_prepared_rounds(),
                         PreparedUse::kHit);
  FillLength(counts, record);
  FillDrafters(counts, request, record);
  record.set_draft_reconnections(counts.draft_reconnections);
  record.set_target_replays(counts.target_replays);
  record.set_one_hot_blocks(counts.one_hot_blocks);
  record.set_batch_rows(counts.batch_rows);
  record.set_batch_sequences(counts.batch_sequences);
  record.set_cached_tokens(static_cast<uint32_t>(counts.cached_tokens));
  record.set_tree_rounds(counts.tree_rounds);
}

void Fill(const StageTimes& times, v1::Timing& timing) {
  timing.set_total_us(absl::ToInt64Microseconds(times.total));
  timing.set_first_token_us(absl::ToInt64Microseconds(times.first_token));
  timing.set_draft_us(absl::ToInt64Microseconds(times.draft));
  timing.set_verify_us(absl::ToInt64Microseconds(times.verify));
  timing.set_target_us(absl::ToInt64Microseconds(times.target));
  timing.set_cpu_us(absl::ToInt64Microseconds(times.cpu));
  timing.set_admission_us(absl::ToInt64Microseconds(times.admission));
  timing.set_queue_us(absl::ToInt64Microseconds(times.queue));
  timing.set_slot_us(absl::ToInt64Microseconds(times.slot));
  *timing.mutable_stages() = ToWire(times.stages);
}

}  // namespace

v1::Stages ToWire(const RoundStages& stages) {
  v1::Stages wire;
  wire.set_draft_us(absl::ToInt64Microseconds(stages.draft));
  wire.set_network_us(absl::ToInt64Microseconds(stages.network));
  wire.set_slot_us(absl::ToInt64Microseconds(stages.slot));
  wire.set_queue_us(absl::ToInt64Microseconds(stages.queue));
  wire.set_device_us(absl::ToInt64Microseconds(stages.device));
  wire.set_own_us(absl::ToInt64Microseconds(stages.own));
  return wire;
}

v1::RoundRecord ToWire(const RoundRecord& round, uint32_t sample, concurrency::Instant arrived) {
  v1::RoundRecord wire;
  wire.set_sample_index(sample);
  wire.set_number(round.number);
  wire.set_began_us(absl::ToInt64Microseconds(round.began - arrived));
  *wire.mutable_stages() = ToWire(round.stages);
  wire.set_draft_tokens(round.draft_tokens);
  wire.set_draft_depth(round.draft_depth);
  wire.set_node(round.node);
  wire.set_accepted_tokens(round.accepted_tokens);
  wire.set_tokens(round.tokens);
  if (round.cause.has_value()) wire.set_cause(Name(*round.cause));
  if (round.choice.has_value()) {
    wire.set_chosen_draft_tokens(round.choice->tokens);
    wire.set_chosen_draft_nodes(round.choice->nodes);
  }
  if (round.choice.has_value() && round.choice->zero.has_value()) {
    wire.set_zero_cause(Name(*round.choice->zero));
  }
  if (round.drafter.has_value()) {
    wire.set_drafter(std::string(round.drafter->name));
    wire.set_drafter_reason(Name(round.drafter->reason));
  }
  wire.set_prepared(Name(round.prepared));
  wire.set_pass_id(round.pass_id);
  wire.set_pass_rows(round.pass_rows);
  wire.set_pass_sequences(round.pass_sequences);
  wire.set_prefill_us(static_cast<uint64_t>(absl::ToInt64Microseconds(round.prefill)));
  return wire;
}

v1::Last MakeLast(const GenerationRequest& request, absl::Span<const Ending> endings) {
  TANDEM_CHECK(!endings.empty());
  v1::Last last;
  AcceptanceCounts counts;
  StageTimes times;
  uint32_t completion_tokens = 0;
  for (size_t i = 0; i < endings.size(); ++i) {
    const Ending& ending = endings[i];
    v1::SampleEnd& sample = *last.add_samples();
    sample.set_sample_index(static_cast<uint32_t>(i));
    sample.set_finish_reason(ToWire(ending.finish));
    sample.set_stop_string(ending.stop_string);
    sample.set_completion_tokens(ending.output_tokens -
                                 static_cast<uint32_t>(request.output_prefix.size()));
    Fill(ending.counts, request, *sample.mutable_speculation());
    completion_tokens += sample.completion_tokens();
    Add(ending.counts, counts);
    Add(ending.times, times);
  }
  last.set_finish_reason(ToWire(endings[0].finish));
  last.set_stop_string(endings[0].stop_string);
  last.mutable_usage()->set_prompt_tokens(request.prompt_tokens());
  last.mutable_usage()->set_completion_tokens(completion_tokens);
  Fill(counts, request, *last.mutable_speculation());
  Fill(times, *last.mutable_timing());
  return last;
}

}  // namespace tandem::orchestrator
