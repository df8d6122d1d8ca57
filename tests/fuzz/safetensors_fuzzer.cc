// Any bytes as a safetensors file: refused with a message, or every tensor lies inside the file.
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "model/files/checkpoint.h"
#include "model/files/safetensors.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/scratch.h"

namespace tandem::fuzz {
namespace {

// The bytes of a tensor, read through its view: ASan or the kernel objects to what lies outside.
uint64_t Sum(const model::TensorView& tensor) {
  uint64_t sum = 0;
  const auto* bytes = static_cast<const unsigned char*>(tensor.data);
  for (size_t i = 0; i < tensor.bytes; ++i) sum += bytes[i];
  return sum;
}

void Run(std::string_view bytes) {
  static const Scratch scratch;
  scratch.Write("model.safetensors", bytes);
  auto file = model::SafetensorsFile::Open(scratch.path() + "/model.safetensors");
  auto checkpoint = model::Checkpoint::Open(scratch.path());
  TANDEM_CHECK(file.ok() == checkpoint.ok()) << file.status() << checkpoint.status();
  if (!file.ok()) {
    TANDEM_CHECK(!file.status().message().empty());
    return;
  }
  std::map<const void*, size_t> extents;  // of tensors that have bytes
  volatile uint64_t sum = 0;
  for (const auto& [name, tensor] : (*file)->tensors()) {
    TANDEM_CHECK(tensor.data != nullptr) << name;
    if (tensor.bytes > 0) {
      TANDEM_CHECK(extents.emplace(tensor.data, tensor.bytes).second) << name << " overlaps";
    }
    sum = sum + Sum(tensor);
    TANDEM_CHECK(model::ShapeText(tensor.shape).size() >= 2);
  }
  const char* end = nullptr;
  for (const auto& [data, size] : extents) {
    TANDEM_CHECK(static_cast<const char*>(data) >= end) << "tensors overlap";
    end = static_cast<const char*>(data) + size;
  }
}

std::string File(std::string header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes + header + std::string(data_bytes, '\x3f');
}

}  // namespace

std::vector<std::string> Seeds() {
  return {
      File(R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", 24),
      File(R"({"__metadata__":{"format":"pt"},)"
           R"("x":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]},)"
           R"("y":{"dtype":"I64","shape":[],"data_offsets":[8,16]}}  )",
           16),
      File(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", 0),
      File(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
           R"("b":{"dtype":"U8","shape":[4],"data_offsets":[6,10]}})",
           10),
      File(R"({"a":{"dtype":"F16","shape":[1099511627776,8388608],)"
           R"("data_offsets":[0,18446744073709551615]}})",
           8),
      File(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[18446744073709551615,)"
           R"(18446744073709551615]}})",
           0),
  };
}

}  // namespace tandem::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  tandem::fuzz::Run({reinterpret_cast<const char*>(bytes), size});
  return 0;
}
