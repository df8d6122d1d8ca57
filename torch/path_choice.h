// Of the ways in which a device may compute a model the fastest one that computes it rightly here.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "torch/library/interface.h"
#include "torch/self_check.h"

namespace tandem::torch {

struct Path {
  Attention attention = Attention::kGather;
  bool graphs = false;
  // StepOptions::whole_products. Rows have the same bits without, so it is not in the name.
  bool whole_products = false;

  bool operator==(const Path&) const = default;
};

// "gather", "spans", "spans-graphs", "mma", "mma-graphs".
std::string PathName(const Path& path);

struct CheckedPath {
  Path path;
  std::vector<CheckResult> results;
};

struct PathChoice {
  CheckedPath chosen;                     // all of its results are OK
  std::vector<CheckedPath> switched_off;  // those that were tried before it and failed
};

// Checks each of `fastest_first` until one passes. FAILED_PRECONDITION: none does; the message has
// what failed of each. An error of `check` itself ends the choice: the device is not there, say.
absl::StatusOr<PathChoice> ChoosePath(
    absl::Span<const Path> fastest_first,
    const std::function<absl::StatusOr<std::vector<CheckResult>>(const Path&)>& check);

}  // namespace tandem::torch
