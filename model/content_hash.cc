#include "model/content_hash.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace tandem::model {
namespace {

constexpr uint64_t kOdd[4] = {0x9e3779b97f4a7c15u, 0xc2b2ae3d27d4eb4fu, 0x165667b19e3779f9u,
                              0xd6e8feb86659fd93u};

uint64_t Rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

uint64_t Mix(uint64_t x) {
  x = (x ^ x >> 32) * kOdd[0];
  x = (x ^ x >> 29) * kOdd[1];
  return x ^ x >> 32;
}

}  // namespace

uint64_t HashBytes(const void* data, size_t bytes, uint64_t seed) {
  const char* at = static_cast<const char*>(data);
  uint64_t lanes[4];
  for (int i = 0; i < 4; ++i) lanes[i] = Mix(seed + kOdd[i]);
  size_t left = bytes;
  for (; left >= 32; left -= 32, at += 32) {
    uint64_t block[4];
    std::memcpy(block, at, 32);
    for (int i = 0; i < 4; ++i) lanes[i] = Rotate((lanes[i] ^ block[i]) * kOdd[i], 29);
  }
  uint64_t last[4] = {};
  std::memcpy(last, at, left);
  uint64_t hash = Mix(seed ^ bytes);
  for (int i = 0; i < 4; ++i) hash = Mix(hash + Mix(lanes[i] ^ Mix(last[i] + kOdd[i])));
  return hash;
}

absl::StatusOr<std::string> ModelId(
    const ModelConfig& config, const Checkpoint& checkpoint,
    absl::FunctionRef<absl::Status(const std::string& name, const TensorView& view)> check) {
  const std::string canonical = config.Canonical();
  uint64_t first = HashBytes(canonical.data(), canonical.size(), 1);
  uint64_t second = HashBytes(canonical.data(), canonical.size(), 2);
  for (const auto& [name, view] : checkpoint.tensors()) {
    TANDEM_RETURN_IF_ERROR(check(name, view));
    const std::string entry = absl::StrCat(name, " ", view.dtype, " ", ShapeText(view.shape));
    const uint64_t content = HashBytes(view.data, view.bytes, 3);
    first = Mix(HashBytes(entry.data(), entry.size(), first) + content);
    second = Mix(HashBytes(entry.data(), entry.size(), second) ^ Rotate(content, 32));
  }
  return absl::StrCat(config.family->name, "-", absl::Hex(first, absl::kZeroPad16),
                      absl::Hex(second, absl::kZeroPad16));
}

}  // namespace tandem::model
