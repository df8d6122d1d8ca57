#include "torch/path_choice.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace tandem::torch {

const char* AttentionName(Attention attention) {
  return attention == Attention::kFlash ? "flash" : "gather";
}

absl::StatusOr<PathChoice> ChoosePath(
    absl::Span<const Attention> fastest_first,
    const std::function<absl::StatusOr<std::vector<CheckResult>>(Attention)>& check) {
  PathChoice choice;
  std::string failures;
  for (const Attention attention : fastest_first) {
    CheckedPath path;
    path.attention = attention;
    TANDEM_ASSIGN_OR_RETURN(path.results, check(attention));
    const absl::Status status = FirstFailures(path.results);
    if (status.ok()) {
      choice.chosen = std::move(path);
      return choice;
    }
    absl::StrAppend(&failures, failures.empty() ? "" : "\n  ", AttentionName(attention), ": ",
                    status.message());
    choice.switched_off.push_back(std::move(path));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the self-check failed, so this device cannot serve:\n  ", failures,
                   "\n  hint: --device=cpu computes without LibTorch (docs/gpu.md)"));
}

}  // namespace tandem::torch
