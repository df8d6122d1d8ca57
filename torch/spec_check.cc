#include "torch/spec_check.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "model/decoder.h"

namespace tandem::torch {
namespace {

// The fields that the step reads (aten/), or that are in the tensors and rotations it is given.
constexpr absl::string_view kRead[] = {"vocabulary",
                                       "context",
                                       "hidden",
                                       "ffn",
                                       "layers",
                                       "heads",
                                       "kv",
                                       "head",
                                       "epsilon",
                                       "tied",
                                       "attention_bias",
                                       "mlp_bias",
                                       "o_bias",
                                       "theta",
                                       "linear",
                                       "llama3",
                                       "yarn",
                                       "longrope",
                                       "rotary",
                                       "sliding_theta",
                                       "sliding_rotary",
                                       "positions",
                                       "norm",
                                       "plus_one",
                                       "pre_norm",
                                       "post_norm",
                                       "parallel",
                                       "qk_norm",
                                       "activation",
                                       "gated",
                                       "window",
                                       "kinds",
                                       "embedding_scale",
                                       "residual_scale",
                                       "attention_scale",
                                       "logit_scale"};

}  // namespace

absl::Status CheckFields(absl::string_view canonical) {
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

absl::Status CheckSpec(const model::DecoderSpec& spec) {
  TANDEM_RETURN_IF_ERROR(model::Decoder::CheckSpec(spec));
  return CheckFields(spec.Canonical());
}

}  // namespace tandem::torch
