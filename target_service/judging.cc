#include "target_service/judging.h"

#include "absl/strings/str_cat.h"
#include "common/config/check.h"
#include "common/sampling/distribution.h"

namespace tandem::target_service {

absl::StatusOr<std::vector<acceptance::Entry>> JudgeRows(const JudgeFunction& judge,
                                                         const rpc::SequenceSettings& settings,
                                                         const CheckedStep& step,
                                                         const model::Logits& logits, int first_row,
                                                         uint32_t vocabulary_size) {
  const size_t rows = step.candidates.size() + 1;
  TANDEM_CHECK(first_row >= 0 && first_row + static_cast<int>(rows) <= logits.rows)
      << "rows " << first_row << " and " << rows - 1 << " more, of " << logits.rows;
  std::vector<sampling::Distribution> p;
  p.reserve(rows);
  for (size_t i = 0; i < rows; ++i) {
    const auto row = logits.row(first_row + static_cast<int>(i));
    p.push_back(sampling::MakeDistribution(row, vocabulary_size, settings.sampling));
    if (p.back().ids.empty()) {
      return absl::InternalError(
          absl::StrCat("the model's logits after ", step.committed() + i,
                       " tokens hold a NaN or an infinity: its weights or its input are broken"));
    }
  }
  std::vector<const sampling::SparseDistribution*> q;
  q.reserve(step.q.size());
  for (const auto& entry : step.q) q.push_back(entry.has_value() ? &*entry : nullptr);

  acceptance::JudgeInput input;
  input.rule = settings.rule;
  input.key = {settings.seed, settings.sample_index, step.committed()};
  input.p = p;
  input.candidates = step.candidates;
  input.q = q;
  std::vector<acceptance::Entry> entries = judge(input);
  TANDEM_CHECK(entries.size() == rows) << entries.size() << " entries for " << rows << " rows";
  return entries;
}

}  // namespace tandem::target_service
