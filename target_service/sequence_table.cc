#include "target_service/sequence_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/config/check.h"

namespace tandem::target_service {

using rpc::Invalid;
using rpc::Refusal;

std::optional<Refusal> SequenceTable::CheckNew(const CheckedStep& step, bool draining) const {
  if (step.prefix.keep() > 0) return rpc::NeedPrefix(0, "this sequence is not held");
  if (!step.options.has_value()) {
    return Invalid("options", "the first Step of a sequence carries its options");
  }
  if (draining) {
    return rpc::MakeRefusal(v1::STATUS_DRAINING,
                            "the service is shutting down and takes no new sequence");
  }
  if (free_slots() == 0) {
    return rpc::NoSlot(limits_.retry_after,
                       absl::StrCat("all ", limits_.most_sequences, " sequences are taken"));
  }
  return std::nullopt;
}

std::optional<Refusal> SequenceTable::CheckHeld(const Sequence& sequence,
                                                const CheckedStep& step) const {
  if (sequence.busy) {
    return Invalid("sequence", "its last Step is still unanswered: send one at a time");
  }
  if (step.options.has_value() && step.prefix.keep() > 0) {
    return Invalid("options", "they come with the first Step and with a replay (keep = 0) only");
  }
  if (step.options.has_value()) return std::nullopt;
  if (step.prefix.keep() == 0) {
    return Invalid("options", "a replay (keep = 0) carries the sequence's options");
  }
  if (sequence.last_round.has_value() && step.round <= *sequence.last_round) {
    return rpc::MakeRefusal(v1::STATUS_STALE,
                            absl::StrCat("round ", *sequence.last_round, " was answered already"));
  }
  return std::nullopt;
}

// Candidates may run past the text's end, so there is room for a whole block behind it, as far as the
// context allows.
int SequenceTable::RoomFor(const rpc::SequenceSettings& settings) const {
  return static_cast<int>(std::min(uint64_t{model_.info().context_length},
                                   uint64_t{settings.most_tokens} + limits_.most_candidates));
}

absl::StatusOr<std::unique_ptr<model::Cache>> SequenceTable::NewCache(
    const rpc::SequenceSettings& settings) {
  return model_.NewCache(RoomFor(settings));
}

std::variant<StepPlan, Refusal> SequenceTable::Begin(StreamId stream, const CheckedStep& step,
                                                     bool draining) {
  Sequence* sequence = Find(stream, step.sequence);
  std::optional<Refusal> refusal =
      sequence == nullptr ? CheckNew(step, draining) : CheckHeld(*sequence, step);
  if (refusal.has_value()) return *std::move(refusal);

  rpc::PrefixMatch match = sequence == nullptr ? rpc::HeldPrefix().Match(step.prefix)
                                               : sequence->held.Match(step.prefix);
  if (match.refusal.has_value()) return *std::move(match.refusal);
  const rpc::SequenceSettings& settings =
      step.options.has_value() ? *step.options : sequence->settings;
  if (match.committed > settings.most_tokens) {
    return Invalid("prefix", absl::StrCat("keep + size(tokens) is ", match.committed,
                                          ", above options.most_tokens, ", settings.most_tokens));
  }

  if (sequence != nullptr && sequence->cache->most_tokens() < RoomFor(settings)) {
    Erase(stream, step.sequence);  // a replay that needs more room than it had
    sequence = nullptr;
    match.standing = 0;
  }
  if (sequence == nullptr) {
    auto cache = NewCache(settings);
    if (absl::IsResourceExhausted(cache.status())) {
      return rpc::NoSlot(limits_.retry_after, std::string(cache.status().message()));
    }
    if (!cache.ok()) return rpc::MakeRefusal(v1::STATUS_INTERNAL, cache.status().ToString());
    auto& slot = sequences_[Key(stream, step.sequence)];
    slot = std::make_unique<Sequence>();
    slot->cache = *std::move(cache);
    sequence = slot.get();
  }
  sequence->settings = settings;
  return Plan(*sequence, step, match.standing);
}

StepPlan SequenceTable::Plan(Sequence& sequence, const CheckedStep& step, uint32_t standing) const {
  // The row of the last committed token is wanted for its logits, held or not.
  const uint32_t committed = step.committed();
  if (!step.more) standing = std::min(standing, committed - 1);
  const uint32_t keep = step.prefix.keep();
  TANDEM_CHECK(standing + 1 >= keep) << standing << " tokens stand of " << keep << " kept";

  StepPlan plan;
  plan.sequence = &sequence;
  if (standing < keep) plan.tokens.push_back(sequence.held.tokens()[standing]);
  const auto& tokens = step.prefix.tokens();
  const uint32_t skipped = std::max(standing, keep) - keep;
  plan.tokens.insert(plan.tokens.end(), tokens.begin() + static_cast<int>(skipped), tokens.end());
  for (uint32_t candidate : step.candidates) {
    plan.tokens.push_back(candidate < limits_.vocabulary_size ? candidate : 0);
  }
  plan.verify_rows = step.more ? 0 : static_cast<int>(step.candidates.size()) + 1;
  sequence.held.Truncate(standing);
  sequence.cache->Truncate(static_cast<int>(standing));
  sequence.busy = true;
  return plan;
}

Sequence* SequenceTable::Find(StreamId stream, uint64_t id) {
  auto it = sequences_.find(Key(stream, id));
  return it == sequences_.end() ? nullptr : it->second.get();
}

void SequenceTable::Erase(StreamId stream, uint64_t id) { sequences_.erase(Key(stream, id)); }

void SequenceTable::EraseStream(StreamId stream) {
  absl::erase_if(sequences_, [stream](const auto& entry) { return entry.first.first == stream; });
}

}  // namespace tandem::target_service
