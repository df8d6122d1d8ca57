#include "target_service/passes/pass_policy.h"

#include <algorithm>

namespace tandem::target_service {
namespace {

using Item = scheduling::FairShare::Item;

// Of one class: what FairShare is asked, and where it stands among all that waits.
struct Class {
  std::vector<Item> items;
  std::vector<size_t> index;

  void Add(size_t i, const WaitingRows& work, int indivisible, int divisible) {
    items.push_back({base::Number(work.stream), base::Number(work.sequence), indivisible, divisible,
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
  return work.total() <= std::min(limits_.short_rows, limits_.max_rows);
}

int PassPolicy::RowsAimedAt(const scheduling::CostCurve& curve, bool compete) const {
  if (limits_.pass_rows > 0) return std::min(limits_.pass_rows, limits_.max_rows);
  // And what takes hardly longer than these.
  const int rows =
      compete ? curve.EfficientRows(kSharedLoss) : curve.EfficientRows(kOneStreamLoss, kOverhead);
  return FillBucket(std::min(std::max(rows, curve.RowsWithin(kHardlyLonger * curve.Estimate(rows))),
                             limits_.max_rows));
}

int PassPolicy::FillBucket(int rows) const {
  const auto bucket =
      std::lower_bound(limits_.row_buckets.begin(), limits_.row_buckets.end(), rows);
  return bucket == limits_.row_buckets.end() ? rows : *bucket;
}

std::vector<Grant> PassPolicy::FormPass(absl::Span<const WaitingRows> waiting,
                                        const scheduling::CostCurve& curve, int streams) {
  Class rounds;
  Class long_work;
  for (size_t i = 0; i < waiting.size(); ++i) {
    if (IsRound(waiting[i])) {
      rounds.Add(i, waiting[i], waiting[i].total(), 0);
    } else if (waiting[i].prefill > waiting[i].max_prefill) {
      long_work.Add(i, waiting[i], 0, waiting[i].max_prefill);
    } else {
      long_work.Add(i, waiting[i], waiting[i].verify, waiting[i].prefill);
    }
  }
  passes_without_round_ =
      rounds.items.empty() ? std::min(passes_without_round_ + 1, kRoundsCome) : 0;
  const bool rounds_come = passes_without_round_ < kRoundsCome;
  const bool compete = streams > 1;
  const bool as_told = limits_.pass_rows > 0;

  const int max = limits_.max_rows;
  const int for_rounds = RowsAimedAt(curve, compete);
  const size_t sure_rounds = as_told ? 1 : static_cast<size_t>(MinRounds(compete));

  // Of long work: what a pass of it aims at, what it may take at most, and what it is sure of.
  const int for_long = std::max(RowsAimedAt(curve, rounds_come || compete),
                                std::min(as_told ? 1 : kMinLongPass, max));
  const int max_long = rounds_come ? std::min(limits_.prefill_rows, for_long) : for_long;
  const int sure =
      long_work.items.empty() ? 0 : std::max(1, std::min(max_long, for_long / (compete ? 4 : 2)));

  std::vector<Grant> grants;
  int used = 0;
  // A round may be as large as a pass; not twice in succession while long work stands.
  const bool long_first = long_work_stood_ && !long_work.items.empty();
  if (long_first) used += Append(long_work, long_work_.Pick(long_work.items, sure), grants);
  used += Append(rounds,
                 rounds_.Pick(rounds.items, std::max(1, for_rounds - sure),
                              long_first ? sure_rounds - 1 : sure_rounds, max - used),
                 grants);
  long_work_stood_ = false;
  if (!long_first) {
    const int left = std::min(std::clamp(for_long - used, sure, max_long), max - used);
    const int long_rows =
        Append(long_work, long_work_.Pick(long_work.items, left, grants.empty() ? 1 : 0), grants);
    long_work_stood_ = long_rows == 0 && !long_work.items.empty();
  }
  return grants;
}

}  // namespace tandem::target_service
