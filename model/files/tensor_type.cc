#include "model/files/tensor_type.h"

#include <utility>

namespace tandem::model {

using cpu::SourceType;

namespace {

constexpr std::pair<const char*, SourceType> kTypes[] = {
    {"BF16", SourceType::kBfloat16}, {"F16", SourceType::kFloat16}, {"I8", SourceType::kInt8},
    {"Q4_0", SourceType::kQ4_0},     {"Q4_1", SourceType::kQ4_1},   {"Q5_0", SourceType::kQ5_0},
    {"Q5_1", SourceType::kQ5_1},     {"Q8_0", SourceType::kQ8_0},   {"Q4_K", SourceType::kQ4_K},
    {"Q5_K", SourceType::kQ5_K},     {"Q6_K", SourceType::kQ6_K},   {"Q4_0F", SourceType::kQ4_0F},
    {"Q4_1F", SourceType::kQ4_1F}};

}  // namespace

SourceType SourceTypeOf(const TensorView& view) {
  for (const auto& [name, type] : kTypes) {
    if (view.dtype == name) return type;
  }
  return SourceType::kFloat32;
}

std::string BlockName(SourceType type) {
  for (const auto& [name, known] : kTypes) {
    if (known == type) return name;
  }
  return "";
}

}  // namespace tandem::model
