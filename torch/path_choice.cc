#include "torch/path_choice.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace tandem::torch {

std::string PathName(const Path& path) {
  const char* name = path.attention == Attention::kMma     ? "mma"
                     : path.attention == Attention::kSpans ? "spans"
                                                           : "gather";
  return absl::StrCat(name, path.graphs ? "-graphs" : "");
}

absl::StatusOr<PathChoice> ChoosePath(
    absl::Span<const Path> fastest_first,
    const std::function<absl::StatusOr<std::vector<CheckResult>>(const Path&)>& check) {
  PathChoice choice;
  std::string failures;
  for (const Path& path : fastest_first) {
    CheckedPath checked;
    checked.path = path;
    TANDEM_ASSIGN_OR_RETURN(checked.results, check(path));
    const absl::Status status = FirstFailures(checked.results);
    if (status.ok()) {
      choice.chosen = std::move(checked);
      return choice;
    }
    absl::StrAppend(&failures, failures.empty() ? "" : "\n  ", PathName(path), ": ",
                    status.message());
    choice.switched_off.push_back(std::move(checked));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the self-check failed, so this device cannot serve:\n  ", failures,
                   "\n  hint: --device=cpu computes without LibTorch (docs/gpu.md)"));
}

}  // namespace tandem::torch
