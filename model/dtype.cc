#include "model/dtype.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tandem::model {

const char* DtypeName(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32:
      return "fp32";
    case Dtype::kBfloat16:
      return "bf16";
    case Dtype::kAuto:
      break;
  }
  return "auto";
}

absl::StatusOr<Dtype> ParseDtype(absl::string_view name) {
  for (Dtype dtype : {Dtype::kAuto, Dtype::kFloat32, Dtype::kBfloat16}) {
    if (name == DtypeName(dtype)) return dtype;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("dtype is \"", name, "\"; there are auto (as the file has it), fp32 and bf16"));
}

}  // namespace tandem::model
