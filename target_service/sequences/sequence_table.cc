#include "target_service/sequences/sequence_table.h"

#include <algorithm>
#include <iterator>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/acceptance/tree.h"
#include "common/base/check.h"

namespace tandem::target_service {

using messages::Invalid;
using messages::Refusal;

namespace {

// A sequence that was refused waits for so many times what it was told to wait: long enough for it
// to ask again, which is how it keeps its place. One that waits for room may wait for long, and
// loses more with its place.
constexpr int kSlotRetries = 3;
constexpr int kRoomRetries = 10;
// So long after its last verdict a sequence without a Step counts as one that is decoded.
constexpr absl::Duration kDecodesFor = absl::Seconds(1);

// What the sequence's options allow of a tree.
std::optional<Refusal> CheckTree(const speculation::CandidateTree& block,
                                 const speculation::SequenceSettings& settings) {
  if (block.parents.empty() || block.size() <= settings.max_nodes) return std::nullopt;
  if (!acceptance::HasTrees(settings.rule)) {
    return Invalid("parents", absl::StrCat("rule ", acceptance::Name(settings.rule),
                                           " has no trees: greedy and coupled have; leave it empty "
                                           "for a chain"));
  }
  return Invalid("candidates",
                 absl::StrCat("a tree of ", block.size(),
                              " draft tokens is above options.max_nodes, ", settings.max_nodes));
}

}  // namespace

std::optional<Refusal> SequenceTable::CheckNew(StreamId stream, const CheckedStep& step,
                                               bool draining, concurrency::Instant now) {
  if (step.prefix.keep() > 0) return messages::NeedPrefix(0, "this sequence is not held");
  if (!step.options.has_value()) {
    return Invalid("options", "the first Step of a sequence carries its options");
  }
  if (draining) {
    return messages::MakeRefusal(internal::v1::STATUS_DRAINING,
                                 "the service is shutting down and takes no new sequence");
  }
  if (shares_.Free(stream, now) > 0) return std::nullopt;
  const absl::Duration retry_after = RetryAfter();
  shares_.Want(stream, step.sequence, now + kSlotRetries * retry_after);
  room_.Extend(stream, step.sequence, now + kRoomRetries * retry_after);
  return messages::NoSlot(
      retry_after,
      free_slots() == 0
          ? absl::StrCat("all ", limits_.max_sequences, " sequences are taken")
          : "this stream has its fair share of the sequences, and others wait for the free ones");
}

// What lingers gives way, so its room is free.
std::optional<int64_t> SequenceTable::free_tokens() const {
  std::optional<int64_t> free = engine_.free_tokens();
  if (!free.has_value() || lingering() == 0) return free;
  for (const auto& [key, sequence] : sequences_) {
    if (sequence->lingers()) *free += sequence->in_engine->max_length();
  }
  return free;
}

std::optional<int64_t> SequenceTable::free_tokens(StreamId stream, concurrency::Instant now) {
  const std::optional<int64_t> free = free_tokens();
  if (!free.has_value()) return std::nullopt;
  return std::max<int64_t>(0, *free - room_.KeptFrom(stream, now));
}

std::optional<Refusal> SequenceTable::CheckKeptRoom(StreamId stream, SequenceId sequence,
                                                    const speculation::SequenceSettings& settings,
                                                    concurrency::Instant now) {
  const int64_t kept = room_.KeptFrom(stream, sequence, settings.priority, now);
  if (kept == 0) return std::nullopt;
  const int64_t asked = PagesFor(settings);
  const std::optional<int64_t> free = free_tokens();
  if (free.has_value() && *free - kept >= asked) return std::nullopt;
  std::string message = absl::StrCat("room for ", kept,
                                     " tokens is kept for sequences that came before; this one "
                                     "asks for ",
                                     asked);
  if (free.has_value()) absl::StrAppend(&message, ", and ", *free, " are free");
  return RefuseRoom(stream, sequence, settings, std::move(message), now);
}

Refusal SequenceTable::RefuseRoom(StreamId stream, SequenceId sequence,
                                  const speculation::SequenceSettings& settings,
                                  std::string message, concurrency::Instant now) {
  const absl::Duration retry_after = RetryAfter();
  shares_.Want(stream, sequence, now + kSlotRetries * retry_after);
  room_.Want(stream, sequence, settings.priority, PagesFor(settings),
             now + kRoomRetries * retry_after);
  return messages::NoSlot(retry_after, std::move(message));
}

// Many that wait ask less often each, so that asking stays cheap.
absl::Duration SequenceTable::RetryAfter() const {
  return limits_.retry_after *
         std::clamp<int64_t>(static_cast<int64_t>(shares_.waiting() / 16), 1, 20);
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
    return messages::MakeRefusal(
        internal::v1::STATUS_STALE,
        absl::StrCat("round ", *sequence.last_round, " was answered already"));
  }
  return std::nullopt;
}

// Draft tokens may run past the text's end, so there is room for a whole block behind it, as far as
// context and pool allow.
int SequenceTable::RoomFor(const speculation::SequenceSettings& settings) const {
  return static_cast<int>(std::min(
      uint64_t{engine_.info().max_length()},
      uint64_t{settings.max_length} + std::max(limits_.max_draft_tokens, settings.max_nodes)));
}

int64_t SequenceTable::PagesFor(const speculation::SequenceSettings& settings) const {
  const int64_t page = engine_.info().page_tokens;
  return (RoomFor(settings) + page - 1) / page * page;
}

absl::StatusOr<std::unique_ptr<EngineSequence>> SequenceTable::OpenInEngine(
    const speculation::SequenceSettings& settings) {
  while (true) {
    auto opened = engine_.Open(RoomFor(settings));
    if (!absl::IsResourceExhausted(opened.status()) || !EndOldestLingering()) return opened;
  }
}

std::variant<StepPlan, Refusal> SequenceTable::Begin(StreamId stream, const CheckedStep& step,
                                                     bool draining, concurrency::Instant now) {
  Sequence* sequence = Find(stream, step.sequence);
  std::optional<Refusal> refusal =
      sequence == nullptr ? CheckNew(stream, step, draining, now) : CheckHeld(*sequence, step);
  if (refusal.has_value()) return *std::move(refusal);

  speculation::PrefixMatch match = sequence == nullptr
                                       ? speculation::HeldPrefix().Match(step.prefix)
                                       : sequence->held.Match(step.prefix);
  if (match.refusal.has_value()) return *std::move(match.refusal);
  const std::shared_ptr<const speculation::SequenceSettings> settings =
      step.options.has_value()
          ? std::make_shared<const speculation::SequenceSettings>(*step.options)
          : sequence->settings;
  if (match.committed > settings->max_length) {
    return Invalid("prefix", absl::StrCat("keep + size(tokens) is ", match.committed,
                                          ", above options.max_length, ", settings->max_length));
  }
  if (step.prompt_logprobs && !settings->logprobs.has_value()) {
    return Invalid("prompt_logprobs",
                   "they need options.logprobs, which this sequence does not have");
  }

  if (auto tree = CheckTree(step.block, *settings)) return *std::move(tree);

  const bool drops_shared =
      sequence != nullptr &&
      Start(step, match.standing) < static_cast<uint32_t>(sequence->in_engine->shared());
  if (drops_shared && step.prefix.keep() > 0) {
    return messages::NeedPrefix(0, "what would be dropped is shared with other sequences");
  }
  if (sequence != nullptr &&
      (drops_shared || sequence->in_engine->max_length() < RoomFor(*settings))) {
    Erase(stream, step.sequence);  // a replay of another text, or that needs more room than it had
    sequence = nullptr;
    match.standing = 0;
  }
  uint32_t cached = 0;
  if (sequence == nullptr) {
    if (auto kept = CheckKeptRoom(stream, step.sequence, *settings, now)) return *std::move(kept);
    // Something lingers in the slot that was found free.
    if (size() == limits_.max_sequences) TANDEM_CHECK(EndOldestLingering());
    auto opened = OpenInEngine(*settings);
    if (absl::IsResourceExhausted(opened.status())) {
      if (sequences_.empty()) {
        return Invalid("options.max_length", absl::StrCat("it is more than there is room for: ",
                                                          opened.status().message()));
      }
      return RefuseRoom(stream, step.sequence, *settings, std::string(opened.status().message()),
                        now);
    }
    if (!opened.ok())
      return messages::MakeRefusal(internal::v1::STATUS_INTERNAL, opened.status().ToString());
    auto& slot = sequences_[Key(stream, step.sequence)];
    slot = std::make_unique<Sequence>();
    slot->in_engine = *std::move(opened);
    sequence = slot.get();
    Forget(stream, step.sequence);
    Count(stream, *sequence);
    match.standing = cached = Recall(*sequence, settings->cache_scope, step);
  } else if (sequence->lingers()) {
    sequence->lingers_until = concurrency::Instant::InfiniteFuture();
    Count(stream, *sequence);
  }
  sequence->settings = settings;
  sequence->round = step.round;
  sequence->outcome.reset();
  // A replay keeps the number of its round, which may have been answered on a stream that broke.
  if (step.options.has_value()) sequence->last_round.reset();
  StepPlan plan = Plan(*sequence, step, match.standing);
  plan.cached_tokens = cached;
  Share(*sequence, static_cast<uint32_t>(plan.start));
  return plan;
}

uint32_t SequenceTable::Recall(Sequence& sequence, const std::string& scope,
                               const CheckedStep& step) {
  // For log probabilities of the prompt every row of it is required.
  if (scope.empty() || step.prompt_logprobs) return 0;
  const auto& sent = step.prefix.tokens();
  // The row of the last committed token is computed in any case.
  const absl::Span<const uint32_t> tokens(sent.data(), step.committed() - 1);
  const int recalled = engine_.Recall(*sequence.in_engine, {scope, tokens});
  sequence.held.Append(tokens.first(static_cast<size_t>(recalled)));
  return static_cast<uint32_t>(recalled);
}

void SequenceTable::Share(Sequence& sequence, uint32_t tokens) {
  const std::string& scope = sequence.settings->cache_scope;
  const uint32_t whole = tokens / static_cast<uint32_t>(engine_.info().page_tokens) *
                         static_cast<uint32_t>(engine_.info().page_tokens);
  if (scope.empty() || whole <= static_cast<uint32_t>(sequence.in_engine->shared())) return;
  engine_.Share(*sequence.in_engine, {scope, sequence.held.tokens().first(whole)});
}

uint32_t SequenceTable::Start(const CheckedStep& step, uint32_t standing) {
  // The row of the last committed token is wanted for its logits, held or not.
  const uint32_t committed = step.committed();
  if (!step.more) standing = std::min(standing, committed - 1);
  const uint32_t keep = step.prefix.keep();
  // What a token's log probability is read from is the row of the token before it.
  if (step.prompt_logprobs && keep < committed) standing = std::max(keep, 1u) - 1;
  return standing;
}

StepPlan SequenceTable::Plan(Sequence& sequence, const CheckedStep& step, uint32_t standing) const {
  standing = Start(step, standing);
  const uint32_t keep = step.prefix.keep();
  TANDEM_CHECK(standing + 1 >= keep) << standing << " tokens stand of " << keep << " kept";

  StepPlan plan;
  plan.sequence = &sequence;
  plan.start = static_cast<int>(standing);
  if (standing < keep) plan.tokens.push_back(sequence.held.tokens()[standing]);
  const auto& tokens = step.prefix.tokens();
  const uint32_t skipped = std::max(standing, keep) - keep;
  plan.tokens.insert(plan.tokens.end(), tokens.begin() + static_cast<int>(skipped), tokens.end());
  for (uint32_t candidate : step.block.tokens) {
    plan.tokens.push_back(candidate < engine_.info().model.vocabulary_size ? candidate : 0);
  }
  plan.verify_rows = step.more ? 0 : static_cast<int>(step.block.size()) + 1;
  // Where nothing is fed, the engine keeps what it holds, and the next Step may tell of it.
  if (!plan.tokens.empty()) sequence.held.Truncate(standing);
  sequence.busy = true;
  return plan;
}

uint32_t SequenceTable::decoding(concurrency::Instant now) const {
  return static_cast<uint32_t>(
      std::count_if(sequences_.begin(), sequences_.end(), [now](const auto& entry) {
        const Sequence& sequence = *entry.second;
        const bool decodes = sequence.answered_at != concurrency::Instant::InfinitePast();
        const bool lately = now - sequence.answered_at < kDecodesFor;
        return decodes && !sequence.lingers() && (sequence.busy || lately);
      }));
}

Sequence* SequenceTable::Find(StreamId stream, SequenceId id) {
  auto it = sequences_.find(Key(stream, id));
  return it == sequences_.end() ? nullptr : it->second.get();
}

void SequenceTable::Count(StreamId stream, const Sequence& sequence) {
  shares_.Add(stream);
  room_.Add(stream, sequence.in_engine->max_length());
}

void SequenceTable::Discount(StreamId stream, const Sequence& sequence) {
  shares_.Remove(stream);
  room_.Remove(stream, sequence.in_engine->max_length());
}

void SequenceTable::Forget(StreamId stream, SequenceId id) {
  shares_.Forget(stream, id);
  room_.Forget(stream, id);
}

void SequenceTable::Forget(StreamId stream) {
  shares_.Forget(stream);
  room_.Forget(stream);
}

void SequenceTable::Remove(Sequences::iterator it) {
  if (!it->second->lingers()) Discount(it->first.first, *it->second);
  sequences_.erase(it);
}

void SequenceTable::Erase(StreamId stream, SequenceId id) {
  Forget(stream, id);
  if (auto it = sequences_.find(Key(stream, id)); it != sequences_.end()) Remove(it);
}

void SequenceTable::EraseStream(StreamId stream) {
  Forget(stream);
  absl::erase_if(lingering_clients_, [stream](const auto& e) { return e.second == stream; });
  for (auto it = sequences_.begin(); it != sequences_.end();) {
    auto next = std::next(it);
    if (it->first.first == stream) Remove(it);
    it = next;
  }
}

void SequenceTable::Linger(StreamId stream, const std::string& client, concurrency::Instant until) {
  Forget(stream);
  bool any = false;
  for (auto& [key, sequence] : sequences_) {
    if (key.first != stream) continue;
    any = true;
    if (sequence->lingers()) continue;
    sequence->lingers_until = until;
    sequence->busy = false;
    Discount(stream, *sequence);
  }
  if (any) lingering_clients_[client] = stream;
}

void SequenceTable::Adopt(const std::string& client, StreamId stream) {
  auto client_it = lingering_clients_.find(client);
  if (client_it == lingering_clients_.end()) return;
  const StreamId old = client_it->second;
  std::vector<std::pair<SequenceId, std::unique_ptr<Sequence>>> moved;
  for (auto& [key, sequence] : sequences_) {
    if (key.first == old) moved.emplace_back(key.second, std::move(sequence));
  }
  absl::erase_if(sequences_, [](const auto& entry) { return entry.second == nullptr; });
  for (auto& [id, sequence] : moved) sequences_[Key(stream, id)] = std::move(sequence);
  lingering_clients_.erase(client_it);
  if (!moved.empty()) lingering_clients_[client] = stream;
}

void SequenceTable::ExpireLingering(concurrency::Instant now) {
  if (lingering() == 0) lingering_clients_.clear();
  if (next_expiry() > now) return;
  absl::erase_if(sequences_, [now](const auto& e) { return e.second->lingers_until <= now; });
  absl::flat_hash_set<StreamId> left;
  for (const auto& [key, sequence] : sequences_) {
    if (sequence->lingers()) left.insert(key.first);
  }
  absl::erase_if(lingering_clients_, [&left](const auto& e) { return !left.contains(e.second); });
}

concurrency::Instant SequenceTable::next_expiry() const {
  concurrency::Instant next = concurrency::Instant::InfiniteFuture();
  if (lingering() == 0) return next;
  for (const auto& [key, sequence] : sequences_) next = std::min(next, sequence->lingers_until);
  return next;
}

bool SequenceTable::EndOldestLingering() {
  auto oldest = sequences_.end();
  for (auto it = sequences_.begin(); it != sequences_.end(); ++it) {
    if (!it->second->lingers()) continue;
    if (oldest == sequences_.end() || it->second->lingers_until < oldest->second->lingers_until) {
      oldest = it;
    }
  }
  if (oldest == sequences_.end()) return false;
  Remove(oldest);
  return true;
}

}  // namespace tandem::target_service
