// What a Hugging Face directory holds of a model, read and checked: what every kind of model is
// made of, whatever computes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/config.h"
#include "model/decoder_tensors.h"
#include "model/dtype.h"
#include "model/files/checkpoint.h"
#include "model/language_model.h"

namespace tandem::model {

// Owns the mapped files; moving it keeps every tensor in place.
struct ModelFiles {
  ModelConfig config;
  Checkpoint checkpoint;
  DecoderTensors tensors;  // in `checkpoint`
  SamplingDefaults sampling_defaults;
  std::vector<std::string> unused_fields;  // of generation_config.json (ReadSamplingDefaults)

  // Of the weights.
  int64_t bytes() const;
  // What files say: end tokens, sampling defaults, model_id. It reads all weights. INVALID_ARGUMENT
  // names a tensor with a value that is not finite, or is not once it is held as `dtype`: nothing
  // that such a model computes is a number. Warns of `unused_fields`.
  absl::StatusOr<ModelInfo> Info(Dtype dtype) const;
};

// Errors as LoadOptions tells of the files (load.h); `check` is asked about the configuration
// before any weight is looked at, and its error names the directory. `sampling_defaults` as in
// LoadOptions.
absl::StatusOr<ModelFiles> ReadModelFiles(
    const std::string& directory, bool sampling_defaults,
    absl::FunctionRef<absl::Status(const ModelConfig&)> check);

}  // namespace tandem::model
