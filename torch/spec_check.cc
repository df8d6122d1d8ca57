#include "torch/spec_check.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace tandem::torch {
namespace {

// The fields that aten/decoder_step.cc reads, or that are in the tensors and rotations it is given.
constexpr absl::string_view kRead[] = {"vocabulary",     "context",  "hidden", "ffn",     "layers",
                                       "heads",          "kv",       "head",   "epsilon", "tied",
                                       "attention_bias", "mlp_bias", "o_bias", "theta",   "llama3"};

}  // namespace

absl::Status CheckSpec(const model::DecoderSpec& spec) {
  const std::string canonical = spec.Canonical();
  std::vector<absl::string_view> problems;
  for (absl::string_view field : absl::StrSplit(canonical, ' ')) {
    const absl::string_view name = field.substr(0, field.find('='));
    if (std::find(std::begin(kRead), std::end(kRead), name) == std::end(kRead)) {
      problems.push_back(field);
    }
  }
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the LibTorch engine does not compute this model: ", absl::StrJoin(problems, ", "),
      "\n  hint: --device=cpu computes more kinds of models"));
}

}  // namespace tandem::torch
