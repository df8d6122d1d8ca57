// What a Hugging Face directory says of its model besides the weights and the tokenizer:
// config.json, and the end tokens of generation_config.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/families/family.h"
#include "model/files/packed_tensor.h"
#include "model/spec/decoder_spec.h"

namespace tandem::model {

// Thread safety: a plain value.
struct ModelConfig {
  const Family* family = nullptr;  // one of Families(); ReadConfig never leaves it null
  DecoderSpec spec;
  bool int8_weights = false;  // quantization_config says so: compressed-tensors' int-quantized
  PackedScheme packed;        // so does it of 4-bit integers
  // Of config.json and generation_config.json, each once and below vocabulary_size: all of them end
  // a text.
  std::vector<uint32_t> eos_token_ids;

  // Everything that a logit depends on besides the weights, in a fixed spelling; for content ids.
  std::string Canonical() const;
};

// NOT_FOUND: there is no such directory, or no config.json in it. INVALID_ARGUMENT: it is something
// else than a model (files/directory_check.h), which is said and nothing else; or one message with
// all fields that are missing, out of range or not supported, each with its value and what is
// supported; fields that change the arithmetic and that the family's reader does not read are among
// them. Of a family that is not served it has the names of those that are, and nothing else.
// Whether Decoder computes the specification is not asked here (Decoder::CheckSpec).
absl::StatusOr<ModelConfig> ReadConfig(const std::string& directory);

}  // namespace tandem::model
