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
    case Dtype::kFloat16:
      return "fp16";
    case Dtype::kInt8:
      return "int8";
    case Dtype::kInt4:
      return "int4";
    case Dtype::kInt8ByRow:
      return "int8-by-row";
    case Dtype::kAuto:
      break;
  }
  return "auto";
}

std::vector<std::string> DtypeNames() {
  return {"auto", "fp32", "float32", "bf16", "bfloat16", "fp16", "float16", "half", "int8", "int4"};
}

std::vector<std::string> CacheDtypeNames() {
  return {"auto", "fp32", "float32", "bf16", "bfloat16"};
}

const char* CacheDtypeHelp() {
  return "what keys and values are held as: auto (fp32; with LibTorch what it computes in), fp32, "
         "or bf16 (rounded, in half the memory)";
}

absl::StatusOr<Dtype> ParseDtype(absl::string_view name) {
  for (Dtype dtype : {Dtype::kAuto, Dtype::kFloat32, Dtype::kBfloat16, Dtype::kFloat16,
                      Dtype::kInt8, Dtype::kInt4}) {
    if (name == DtypeName(dtype)) return dtype;
  }
  if (name == "float32") return Dtype::kFloat32;
  if (name == "bfloat16") return Dtype::kBfloat16;
  if (name == "float16" || name == "half") return Dtype::kFloat16;
  return absl::InvalidArgumentError(
      absl::StrCat("dtype is \"", name,
                   "\"; there are auto (as the file has it), fp32 or float32, bf16 or bfloat16, "
                   "fp16, float16 or half, int8, and int4"));
}

}  // namespace tandem::model
