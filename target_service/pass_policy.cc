#include "target_service/pass_policy.h"

#include <algorithm>

namespace tandem::target_service {
namespace {

using Item = scheduling::FairShare::Item;

// Of one class: what FairShare is asked, and where it stands among all that waits.
struct Class {
  std::vector<Item> items;
  std::vector<size_t> index;

  void Add(size_t i, const WaitingRows& work, int divisible) {
    items.push_back({work.stream, work.sequence, work.total() - divisible, divisible,
                     1 + static_cast<int>(work.priority)});
    index.push_back(i);
  }
};

int Append(const Class& from, const std::vector<Grant>& picked, std::vector<Grant>& grants) {
  int rows = 0;
  for (const Grant& grant : picked) {
    grants.push_back({from.index[grant.index], grant.rows});
    rows += grant.rows;
  }
  return rows;
}

}  // namespace

PassPolicy::PassPolicy(const PassLimits& limits)
    : limits_(limits), rounds_(1), long_work_(kPromptPiece) {}

bool PassPolicy::IsRound(const WaitingRows& work) const {
  return work.total() <= std::min(limits_.short_rows, limits_.most_rows);
}

void PassPolicy::NoteRounds(const std::vector<Item>& rounds) {
  if (rounds.empty()) {
    passes_without_round_ = std::min(passes_without_round_ + 1, kRoundsCome);
    return;
  }
  passes_without_round_ = 0;
  int rows = 0;
  for (const Item& item : rounds) rows += item.total();
  const int count = static_cast<int>(rounds.size());
  rows_of_a_round_ = (rows + count - 1) / count;
}

int PassPolicy::RowsAimedAt(const scheduling::CostCurve& curve, double loss, int least) const {
  const int rows =
      limits_.pass_rows > 0 ? limits_.pass_rows : std::max(least, curve.EfficientRows(loss));
  return std::min(rows, limits_.most_rows);
}

std::vector<Grant> PassPolicy::FormPass(absl::Span<const WaitingRows> waiting,
                                        const scheduling::CostCurve& curve, int streams) {
  Class rounds;
  Class long_work;
  for (size_t i = 0; i < waiting.size(); ++i) {
    if (IsRound(waiting[i])) {
      rounds.Add(i, waiting[i], 0);
    } else {
      long_work.Add(i, waiting[i], waiting[i].prefill);
    }
  }
  const bool compete = streams > 1;
  NoteRounds(rounds.items);
  const bool rounds_come = passes_without_round_ < kRoundsCome;

  const int most = limits_.most_rows;
  const double loss = compete ? kSharedLoss : kOneStreamLoss;
  const int few_rounds = (compete ? kLeastRoundsShared : kLeastRounds) * rows_of_a_round_;
  const int least = limits_.pass_rows > 0 ? 1 : few_rounds;
  const int for_rounds = RowsAimedAt(curve, loss, least);
  const int shared = rounds_come ? RowsAimedAt(curve, kSharedLoss, least)
                                 : RowsAimedAt(curve, loss, kLeastLongPass);

  // What long work may take at most, and what it is sure of.
  const int most_long = rounds_come ? std::min(limits_.prefill_rows, shared) : shared;
  const int sure =
      long_work.items.empty() ? 0 : std::max(1, std::min(most_long, shared / (compete ? 3 : 2)));

  std::vector<Grant> grants;
  int used = 0;
  // A round may be as large as a pass; not twice in succession while long work stands.
  const bool long_first = long_work_stood_ && !long_work.items.empty();
  if (long_first) used += Append(long_work, long_work_.Pick(long_work.items, sure), grants);

  const int left_for_rounds =
      long_first ? most - used : std::max({for_rounds - sure, std::min(least, most - sure), 1});
  used += Append(rounds, rounds_.Pick(rounds.items, left_for_rounds, grants.empty()), grants);
  if (!long_first) {
    const int left = std::min(std::clamp(shared - used, sure, most_long), most - used);
    const int long_rows =
        Append(long_work, long_work_.Pick(long_work.items, left, grants.empty()), grants);
    long_work_stood_ = long_rows == 0 && !long_work.items.empty();
  } else {
    long_work_stood_ = false;
  }
  return grants;
}

}  // namespace tandem::target_service
