#include "model/memory_need.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "model/activations.h"
#include "model/cpu/grouped.h"
#include "model/cpu/pack_groups.h"
#include "model/files/tensor_type.h"
#include "model/packed_linear.h"
#include "model/page_pool.h"

namespace tandem::model {
namespace {

constexpr int64_t kDefaultPoolTokens = 65536;
// Rows of a pass, as an error proposes them: whole tiles of LibTorch's, and more than the minimum
// of --max-rows.
constexpr int64_t kRowStep = 64;
constexpr int64_t kFewestRows = 128;

// An integer a weight; a scale and what a panel's header has for each column.
int64_t Int8Bytes(int64_t elements, int64_t columns) { return elements + 8 * columns; }

// Of a matrix [columns, k] by group, without what fills up its last panel.
int64_t GroupedBytes(const cpu::GroupLayout& layout, int64_t columns, int64_t k) {
  return columns * static_cast<int64_t>(layout.panel_bytes(static_cast<int>(k))) /
         cpu::kPanelColumns;
}

int64_t Bytes(const TensorView* view, cpu::WeightType held) {
  if (view == nullptr) return 0;
  const int64_t elements = Elements(*view);
  switch (held) {
    case cpu::WeightType::kFloat32:
      return 4 * elements;
    case cpu::WeightType::kBfloat16:
    case cpu::WeightType::kFloat16:
      return 2 * elements;
    case cpu::WeightType::kInt8:
      return Int8Bytes(elements, view->shape[0]);
    case cpu::WeightType::kInt4:
    case cpu::WeightType::kInt8Grouped:
      break;
  }
  return GroupedBytes(cpu::RowLayout(SourceTypeOf(*view), held), view->shape[0], view->shape[1]);
}

// Of parts that are one matrix, so that the type of one may widen the others.
int64_t MatrixBytes(Dtype dtype, std::vector<LinearView> parts) {
  std::erase_if(parts, [](const LinearView& part) { return part.weight == nullptr; });
  if (parts.empty()) return 0;
  const cpu::WeightType held = HeldAs(dtype, parts);
  int64_t bytes = 0;
  for (const LinearView& part : parts) {
    bytes += Bytes(part.weight, held) + Bytes(part.bias, cpu::WeightType::kFloat32);
  }
  return bytes;
}

// What packed parts of one matrix are unpacked to while it is made.
int64_t UnpackedBytes(const std::vector<LinearView>& parts) {
  int64_t bytes = 0;
  for (const LinearView& part : parts) {
    const bool packed = part.weight != nullptr && part.weight->packed != nullptr;
    bytes += packed ? static_cast<int64_t>(part.weight->bytes) : 0;
  }
  return bytes;
}

int64_t LargestUnpacked(const DecoderTensors& tensors) {
  int64_t largest = UnpackedBytes({LinearView{tensors.output}});
  for (const LayerTensors& layer : tensors.layers) {
    largest = std::max({largest, UnpackedBytes({layer.q, layer.k, layer.v}),
                        UnpackedBytes({layer.gate, layer.up}), UnpackedBytes({layer.down})});
  }
  return largest;
}

}  // namespace

int64_t LayerBytes(const LayerTensors& layer, Dtype dtype) {
  int64_t bytes = MatrixBytes(dtype, {layer.q, layer.k, layer.v}) + MatrixBytes(dtype, {layer.o}) +
                  MatrixBytes(dtype, {layer.gate, layer.up}) + MatrixBytes(dtype, {layer.down});
  for (const TensorView* norm :
       {layer.attention_norm, layer.attention_norm_bias, layer.q_norm, layer.k_norm,
        layer.post_attention_norm, layer.mlp_norm, layer.mlp_norm_bias, layer.post_mlp_norm}) {
    bytes += Bytes(norm, cpu::WeightType::kFloat32);
  }
  return bytes;
}

std::vector<process::MemoryPart> MemoryNeed(const DecoderSpec& spec, const DecoderTensors& tensors,
                                            Dtype dtype, int64_t pool_tokens, int max_rows,
                                            cpu::WeightType cache_type) {
  int64_t weights =
      MatrixBytes(OutputDtype(dtype), {LinearView{tensors.output, nullptr, tensors.output_scale}});
  if (!spec.tied_embeddings) {
    const bool as_filed = IsInteger(dtype) || dtype == Dtype::kAuto;
    weights += as_filed ? static_cast<int64_t>(tensors.embedding->bytes)
                        : MatrixBytes(dtype, {LinearView{tensors.embedding}});
  }
  for (const LayerTensors& layer : tensors.layers) weights += LayerBytes(layer, dtype);
  weights += Bytes(tensors.positions, cpu::WeightType::kFloat32);
  // What a checkpoint mixes or transposes is there twice while it is packed.
  weights += tensors.owned_bytes + LargestUnpacked(tensors);
  // As Activations has them, without the gaps between rows.
  const int64_t extra = (AddsAtOnce(spec) ? 0 : spec.hidden_size) +
                        (spec.gated_mlp && !HasSwiGlu(spec) ? 2 * spec.intermediate_size : 0);
  const int64_t row = extra + int64_t{2} * spec.hidden_size + spec.q_size() + 2 * spec.kv_size() +
                      spec.q_size() + spec.intermediate_size + spec.vocabulary_size;
  int64_t row_bytes = row * static_cast<int64_t>(sizeof(float));
  const int64_t widest = std::max(
      {int64_t{spec.hidden_size}, int64_t{spec.q_size()}, int64_t{spec.intermediate_size}});
  // In int8: the inputs of the widest product, their scale and their sum; or those of each group.
  if (dtype == Dtype::kInt8ByRow || tensors.int8) {
    row_bytes += widest + static_cast<int64_t>(sizeof(float) + sizeof(int32_t));
  }
  const bool blocks = dtype == Dtype::kAuto && HasBlocks(tensors);
  if (dtype == Dtype::kInt8 || dtype == Dtype::kInt4 || blocks) {
    row_bytes += widest / cpu::kGroupInputs * static_cast<int64_t>(sizeof(cpu::RowGroup));
  }
  const int64_t token =
      PagePool::TokenBytes(spec.layers, spec.kv_heads, {spec.head_size, cache_type});
  return {
      {"weights", weights}, {"cache", pool_tokens * token}, {"activations", row_bytes * max_rows}};
}

int64_t DefaultPoolTokens(int64_t token_bytes, int context_length,
                          const std::vector<process::MemoryPart>& others,
                          const process::FreeMemory& free) {
  const int64_t memory = std::min(free.memory_bytes, free.address_bytes);
  int64_t left = memory;
  for (const process::MemoryPart& part : others) left -= part.bytes;
  const int64_t wanted =
      std::max<int64_t>(context_length, std::min(kDefaultPoolTokens, memory / 4 / token_bytes));
  return std::max<int64_t>(1, std::min(wanted, left / token_bytes));
}

absl::Status CheckRoom(const std::string& directory, const std::vector<process::MemoryPart>& need,
                       int64_t token_bytes, int context_length, int max_rows,
                       const process::FreeMemory& free, bool on_card) {
  const absl::Status status = on_card
                                  ? process::CheckMemory(directory, need, free, "free on the card")
                                  : process::CheckMemory(directory, need, free);
  if (status.ok()) return status;
  int64_t left = std::min(free.memory_bytes, free.address_bytes);
  int64_t cache = 0;
  int64_t row_bytes = 0;
  for (const process::MemoryPart& part : need) {
    if (part.name == "cache") {
      cache = part.bytes;
    } else {
      left -= part.bytes;
    }
    if (part.name == "activations" && max_rows > 0) row_bytes = part.bytes / max_rows;
  }
  std::vector<std::string> fits;
  if (left >= token_bytes) {
    fits.push_back(absl::StrCat("a cache of ", left / token_bytes, " tokens (--pool-tokens)"));
  } else {
    cache = token_bytes * context_length;
  }
  if (row_bytes > 0) {
    const int64_t rows = max_rows + (left - cache) / row_bytes - 1;  // divisions round
    if (rows >= kFewestRows) {
      fits.push_back(absl::StrCat("passes of ", rows / kRowStep * kRowStep, " rows (--max-rows)"));
    }
  }
  if (fits.empty()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), "\n  hint: the rest leaves room for ",
                                   absl::StrJoin(fits, ", or for ")));
}

}  // namespace tandem::model
