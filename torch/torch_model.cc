#include "torch/torch_model.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "model/cpu/attention.h"
#include "model/paged_cache.h"

namespace tandem::torch {

static_assert(kPageTokens == model::cpu::kPageTokens);

void TorchModel::Pages::Copy(const uint32_t* pages, int from, int to) {
  const auto cell = [pages](int number) {
    return int64_t{pages[number / kPageTokens]} * kPageTokens + number % kPageTokens;
  };
  moves_.push_back({cell(from), cell(to)});
}

// The moves of one sequence ascend, and none reads a cell that an earlier one has written.
absl::Status TorchModel::Pages::MoveCells() {
  if (moves_.empty()) return status_;
  status_.Update(step_->MoveCells(moves_));
  moves_.clear();
  return status_;
}

TorchModel::TorchModel(std::unique_ptr<Step> step, int max_rows, int pages, model::ModelInfo info)
    : step_(std::move(step)),
      pages_(std::make_shared<Pages>(step_, pages)),
      prefixes_(*pages_),
      max_rows_(max_rows),
      info_(std::move(info)),
      layout_(max_rows) {}

absl::StatusOr<std::unique_ptr<model::Cache>> TorchModel::NewCache(int max_length) {
  if (max_length < 1 || max_length > static_cast<int>(info_.context_length)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_length is ", max_length, "; the model takes 1 to ", info_.context_length));
  }
  const int pages = (max_length + kPageTokens - 1) / kPageTokens;
  TANDEM_ASSIGN_OR_RETURN(std::vector<uint32_t> taken, prefixes_.Allocate(pages));
  return std::make_unique<model::PagedCache>(pages_, std::move(taken), max_length);
}

absl::Status TorchModel::Compute(absl::Span<const model::ForwardPart> parts) {
  TANDEM_RETURN_IF_ERROR(
      model::CheckPass(parts, *pages_, info_.vocabulary_size, max_rows_, ++passes_));
  TANDEM_RETURN_IF_ERROR(pages_->MoveCells());
  layout_.Lay(parts);
  rows_.clear();
  std::vector<const uint32_t*> pages;
  for (const model::PassLayout::Part& part : layout_.parts()) {
    for (int i = 0; i < part.rows; ++i) {
      const model::cpu::Sight sight = layout_.Sight(part, i);
      Row row;
      row.token = layout_.token(part.first_row + i);
      row.position = layout_.Position(part, i);
      row.cell = part.position + i;
      row.part = static_cast<int>(pages.size());
      row.visible = sight.visible;
      row.straight = sight.straight;
      row.rest = sight.rest;
      rows_.push_back(row);
    }
    pages.push_back(part.cache->pages());
  }
  if (rows_.empty()) return absl::OkStatus();
  TANDEM_RETURN_IF_ERROR(step_->Run({rows_, pages, layout_.logits_rows()}));
  for (const model::PassLayout::Part& part : layout_.parts()) {
    part.cache->Grow(part.rows, part.parents, part.grows);
  }
  return absl::OkStatus();
}

absl::StatusOr<model::Logits> TorchModel::Forward(absl::Span<const model::ForwardPart> parts) {
  TANDEM_RETURN_IF_ERROR(Compute(parts));
  model::Logits result;
  result.rows = static_cast<int>(layout_.logits_rows().size());
  result.vocabulary_size = static_cast<int>(info_.vocabulary_size);
  if (rows_.empty() || result.rows == 0) return result;
  const DeviceLogits logits = step_->logits();
  if (!step_->info().stream.has_value() && logits.stride == result.vocabulary_size) {
    result.data = logits.data;  // the host reads them where they are
    return result;
  }
  logits_.resize(static_cast<size_t>(result.rows) * info_.vocabulary_size);
  TANDEM_RETURN_IF_ERROR(step_->ReadLogits(logits_.data()));
  result.data = logits_.data();
  return result;
}

}  // namespace tandem::torch
