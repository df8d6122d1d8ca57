#include "draft_service/sequences/sequences.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "common/acceptance/tree.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"

namespace tandem::draft_service {

using messages::Invalid;
using messages::Refusal;

namespace {

// Sequences that could not be opened are kept to tell why; beyond so many the client is told that
// they are not open.
constexpr size_t kMaxRemembered = 65536;
constexpr size_t kMaxRememberedOfOne = 4096;  // client
constexpr absl::Duration kRetryAfter = absl::Milliseconds(50);

}  // namespace

Sequence* Sequences::GivesWayTo(const OpenArrives& event, uint64_t group) {
  if (table_.live() < max_live_ || std::holds_alternative<Refusal>(event.open)) return nullptr;
  const Sequence* held = table_.Find(event.stream, event.sequence);
  if (held != nullptr && !held->problem.has_value()) return nullptr;  // it is open already
  const size_t own = table_.live(group);
  const size_t groups = table_.live_groups() + (own == 0 ? 1 : 0);
  const size_t share = std::max<size_t>(1, max_live_ / groups);
  const uint64_t largest = table_.largest_group();
  if (own >= share || table_.live(largest) <= share) return nullptr;
  return table_.OldestIdle(largest);
}

void Sequences::GiveWay(Sequence& sequence) {
  table_.SetProblem(sequence, messages::NoSlot(kRetryAfter,
                                               "it gave way to another client's: its client had "
                                               "more than its fair share of the sequences"));
}

Sequence* Sequences::Open(OpenArrives event, uint64_t group, bool draining) {
  if (Sequence* held = table_.Find(event.stream, event.sequence)) {
    if (!held->problem.has_value()) {
      held->notice = Invalid("open.sequence", "this sequence is open already: close it first");
      return nullptr;
    }
    table_.Erase(*held);
  }
  if (table_.size() >= kMaxRemembered + max_live_) return nullptr;
  if (table_.size(group) >= kMaxRememberedOfOne + max_live_) return nullptr;
  const size_t live = table_.live();
  Sequence& sequence = table_.Add(event.stream, event.sequence, group);
  if (auto* refusal = std::get_if<Refusal>(&event.open)) {
    refusal->problem.set_field(absl::StrCat("open.", refusal->problem.field()));
    table_.SetProblem(sequence, std::move(*refusal));
  } else if (draining) {
    table_.SetProblem(
        sequence, messages::MakeRefusal(internal::v1::STATUS_DRAINING,
                                        "the service is shutting down and takes no new sequence"));
  } else if (live >= max_live_) {
    table_.SetProblem(
        sequence,
        messages::NoSlot(kRetryAfter, absl::StrCat("all ", max_live_, " sequences are taken")));
  } else {
    Begin(sequence, std::get<CheckedOpen>(event.open));
  }
  return &sequence;
}

void Sequences::Begin(Sequence& sequence, const CheckedOpen& open) {
  sequence.weight = 1 + static_cast<int>(open.settings.priority);
  if (auto problem = MakeDrafter(sequence, open)) {
    table_.SetProblem(sequence, *std::move(problem));
    return;
  }
  if (open.prefix.keep() == 0 && open.prefix.tokens().empty()) return;
  // A prefix that does not fit is left unread: the first Advance is told so by its own. One that
  // the drafter fails over is the sequence's problem.
  Accept(sequence, open.prefix);
}

std::optional<Refusal> Sequences::MakeDrafter(Sequence& sequence, const CheckedOpen& open) {
  const DrafterFactory* factory = drafters_.Find(open.drafter);
  if (factory == nullptr) {
    return Invalid("open.drafter", absl::StrCat("\"", open.drafter, "\" is none of: ",
                                                absl::StrJoin(drafters_.names(), ", ")));
  }
  sequence.drafter_name = factory->name;
  if (open.proposal == Proposal::kSampled && !factory->samples) {
    return Invalid("open.proposal",
                   absl::StrCat("drafter \"", factory->name,
                                "\" cannot send a q that it draws from: ask for "
                                "PROPOSAL_GREEDY, for none, or for a drafter with a model"));
  }
  if (open.settings.max_nodes > 0 && !factory->trees) {
    return Invalid(
        "open.options.max_nodes",
        absl::StrCat("drafter \"", factory->name, "\" makes only chains: send 0, or ask ",
                     "for one of: ", absl::StrJoin(drafters_.tree_names(), ", ")));
  }
  sequence.max_nodes = open.settings.max_nodes;
  sequence.values_may_decide = acceptance::HasTrees(open.settings.rule);
  auto drafter = factory->make(open.settings, open.proposal);
  if (drafter.ok()) {
    sequence.drafter = *std::move(drafter);
    return std::nullopt;
  }
  std::string message(drafter.status().message());
  if (absl::IsResourceExhausted(drafter.status())) return messages::NoSlot(kRetryAfter, message);
  if (absl::IsInvalidArgument(drafter.status())) return Invalid("open.options", message);
  return Fail(sequence, drafter.status());
}

std::optional<Refusal> Sequences::Accept(Sequence& sequence, const internal::v1::Prefix& prefix) {
  speculation::PrefixMatch match = sequence.committed.Match(prefix);
  if (match.refusal.has_value()) return std::move(match.refusal);
  // What stands beyond `keep` is not told again: the drafter keeps what it computed for it.
  const uint32_t skipped = match.standing - prefix.keep();
  const absl::Span<const uint32_t> tokens = absl::MakeConstSpan(prefix.tokens()).subspan(skipped);
  sequence.committed.Truncate(match.standing);
  sequence.committed.Append(tokens);
  const absl::Status status = sequence.drafter->Accept(match.standing, tokens);
  if (!status.ok()) return Fail(sequence, status);
  return std::nullopt;
}

Refusal Sequences::Fail(Sequence& sequence, const absl::Status& status) {
  TANDEM_LOG(kError) << base::LogFields("drafter_failed")
                            .Add("drafter", sequence.drafter_name)
                            .Add("status", status.ToString());
  Refusal refusal = messages::MakeRefusal(internal::v1::STATUS_INTERNAL, status.ToString());
  table_.SetProblem(sequence, refusal);
  return refusal;
}

}  // namespace tandem::draft_service
