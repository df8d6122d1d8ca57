#include "model/finite_check.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "model/files/tensor_type.h"

namespace tandem::model {
namespace {

// A type of floating point: its words, and what their exponent's bits are.
struct Format {
  size_t bytes = 0;        // of a word; 0: not floating point
  uint64_t exponent = 0;   // all ones: NaN or infinite
  uint64_t too_large = 0;  // as fp16, from this word on, without its sign
};

Format FormatOf(const std::string& dtype) {
  if (dtype == "F32") return {4, 0x7f800000, 0x477ff000};
  if (dtype == "BF16") return {2, 0x7f80, 0x4780};
  if (dtype == "F16") return {2, 0x7c00, 0x7c00};
  return {};
}

uint64_t WordAt(const char* data, size_t bytes) {
  uint64_t word = 0;  // little-endian
  std::memcpy(&word, data, bytes);
  return word;
}

// Whether any word's exponent is all ones. Looks at 8 bytes at once: adding the lowest bit of an
// exponent that is all ones, and of no other, carries into the place of the sign.
bool AnyNotFinite(const char* data, size_t bytes, const Format& format) {
  uint64_t exponents = format.exponent;
  for (size_t bits = 8 * format.bytes; bits < 64; bits *= 2) exponents |= exponents << bits;
  const uint64_t ones = exponents & ~(exponents << 1);
  uint64_t carried = 0;
  size_t at = 0;
  for (; at + 8 <= bytes; at += 8) carried |= (WordAt(data + at, 8) & exponents) + ones;
  for (; at < bytes; at += format.bytes) {
    carried |= (WordAt(data + at, format.bytes) & format.exponent) + (ones & format.exponent);
  }
  return (carried & (exponents + ones)) != 0;
}

}  // namespace

absl::Status CheckFinite(const std::string& name, const TensorView& view, Dtype dtype) {
  if (const cpu::SourceType type = SourceTypeOf(view); cpu::IsBlocks(type)) {
    if (cpu::BlocksAreFinite(type, view.data, Elements(view))) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "a weight is not a finite number: a scale of ", base::Excerpt(name), " ",
        ShapeText(view.shape), "; download the model again, or give another checkpoint"));
  }
  const Format format = FormatOf(view.dtype);
  if (format.bytes == 0) return absl::OkStatus();
  const char* const data = static_cast<const char*>(view.data);
  // Norms and biases are held as fp32 always.
  // Scales and minimums by group are fp16.
  const bool to_fp16 = dtype == Dtype::kFloat16 || dtype == Dtype::kInt4 || dtype == Dtype::kInt8;
  const bool narrows = to_fp16 && view.shape.size() > 1 && view.dtype != "F16";
  if (!narrows && !AnyNotFinite(data, view.bytes, format)) return absl::OkStatus();
  const uint64_t sign = uint64_t{1} << (8 * format.bytes - 1);
  for (size_t i = 0; i < view.bytes / format.bytes; ++i) {
    const uint64_t word = WordAt(data + i * format.bytes, format.bytes) & ~sign;
    const bool finite = (word & format.exponent) != format.exponent;
    if (finite && !(narrows && word >= format.too_large)) continue;
    const std::string what =
        finite ? absl::StrCat("too large for ", DtypeName(dtype), ": give another --dtype")
               : (word == format.exponent ? "infinite" : "NaN");
    return absl::InvalidArgumentError(
        absl::StrCat("a weight is not a finite number: element ", i, " of ", base::Excerpt(name),
                     " ", ShapeText(view.shape), " is ", what,
                     finite ? "" : "; download the model again, or give another checkpoint"));
  }
  return absl::OkStatus();
}

}  // namespace tandem::model
