// What a model takes in memory, before it is loaded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/process/room.h"
#include "model/cpu/kernels.h"
#include "model/decoder_tensors.h"
#include "model/dtype.h"
#include "model/spec/decoder_spec.h"

namespace tandem::model {

// Weights, cache and activations of a Decoder with these options; what it takes besides is small.
// `pool_tokens`, `max_rows`, `cache_type`: as DecoderOptions'.
std::vector<process::MemoryPart> MemoryNeed(const DecoderSpec& spec, const DecoderTensors& tensors,
                                            Dtype dtype, int64_t pool_tokens, int max_rows,
                                            cpu::WeightType cache_type = cpu::WeightType::kFloat32);

// Of these weights, those of a layer.
int64_t LayerBytes(const LayerTensors& layer, Dtype dtype);

// How many tokens all sequences together may hold where nobody says it (LoadOptions::pool_tokens),
// of `token_bytes` each. `others`: what else takes memory. `free`: what is left for all of it.
int64_t DefaultPoolTokens(int64_t token_bytes, int context_length,
                          const std::vector<process::MemoryPart>& others,
                          const process::FreeMemory& free);

// process::CheckMemory, of a card's memory with `on_card`. Its error tells how many tokens of
// `token_bytes` would fit, if any would; and in place of `max_rows` how many rows of a pass: beside
// the cache, or one of `context_length` where no cache fits. 0: no flag sets them.
absl::Status CheckRoom(const std::string& directory, const std::vector<process::MemoryPart>& need,
                       int64_t token_bytes, int context_length, int max_rows,
                       const process::FreeMemory& free, bool on_card = false);

}  // namespace tandem::model
