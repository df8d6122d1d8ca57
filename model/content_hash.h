// The id of a model's content, so that two processes can tell whether they hold the same model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/config.h"
#include "model/files/checkpoint.h"

namespace tandem::model {

// 64 bits of any bytes, at memory speed: four lanes of multiply and rotate over 32-byte blocks,
// little-endian. Tells accidents apart, not attacks.
uint64_t HashBytes(const void* data, size_t bytes, uint64_t seed);

// The family's name, a hyphen, and 32 hexadecimal digits: "llama-…". The digits are over
// config.Canonical() and, in the order of their names, every tensor's name, dtype, shape and bytes.
// How the tensors are spread over files does not matter.
// `check` is asked about each tensor just before it is hashed, so that the file is read once; its
// error is returned.
absl::StatusOr<std::string> ModelId(
    const ModelConfig& config, const Checkpoint& checkpoint,
    absl::FunctionRef<absl::Status(const std::string& name, const TensorView& view)> check);

}  // namespace tandem::model
