// From a Hugging Face directory to a model that runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/dtype.h"
#include "model/language_model.h"

namespace tandem::model {

namespace cpu {
class ComputePool;
}  // namespace cpu

struct ModelConfig;

// The cores that this process may use (common/process/machine.h), at most `max`; at least 1.
int DefaultThreads(int max);

// What a load gave, for the log.
struct LoadReport {
  Dtype dtype = Dtype::kAuto;   // as asked for
  int64_t file_bytes = 0;       // of the weights in the file
  int64_t weight_bytes = 0;     // held in memory
  int64_t offloaded_bytes = 0;  // of weights that each pass reads from the file
  bool exact = true;            // every weight has the file's value
  int64_t cache_tokens = 0;     // that keys and values have room for, of all sequences together
  int64_t cache_bytes = 0;      // reserved for them; paid for where it is first written
  double seconds = 0;
  std::vector<std::pair<std::string, double>>
      phases;  // their seconds; empty: nobody told them apart

  // "loaded in 0.12 s (files 0.01, weights 0.11): weights 14.9 MB (14.8 MB in the file, dtype
  // auto), cache of 65536 tokens up to 1073.7 MB"
  std::string Text() const;
};

struct LoadOptions {
  // With config.json and *.safetensors; generation_config.json is read where it is. Or a model's
  // folder in the hub's cache, whose snapshot is taken (common/hub/snapshot_directory.h).
  std::string directory;
  int threads = 1;     // that a pass runs on, the caller's included; 1 to 256
  int max_rows = 256;  // of a pass; 1 to 65536
  // Tokens of all sequences together. 0: 65,536, or as many as a quarter of the memory that this
  // process may use holds, but at least one whole context; and no more than fit beside the weights.
  int64_t pool_tokens = 0;
  // Cores shared with other models of this process (cpu/compute_pool.h); null: none are shared.
  std::shared_ptr<cpu::ComputePool> compute;
  Dtype dtype = Dtype::kAuto;  // what the weights are held as
  // What keys and values are held as: kFloat32, or kBfloat16, which rounds them. kAuto: fp32 here;
  // LibTorch takes no other, and holds them as it computes (docs/gpu.md).
  Dtype cache_dtype = Dtype::kAuto;
  // Whether ModelInfo has the sampling defaults of generation_config.json; false: they are not
  // looked at. Its end tokens count in any case. A warning is logged that names the file's fields
  // that are not followed.
  bool sampling_defaults = true;
  // A model whose output has some tokens alone (DecoderSpec::draft_vocabulary_size) is taken.
  // False: it is refused, since its distribution is not that of the model which it was made from.
  bool draft = false;
  // Weights that do not fit into memory stay in the file, and each pass reads them there
  // (offload.h). The files must stay as they are while the model lives. False: what does not fit is
  // refused.
  bool offload = false;
  // Memory that others of this process have reserved and not used yet.
  int64_t reserved_bytes = 0;
  LoadReport* report = nullptr;  // written on success; may be null
  // Called now and then with (bytes of weights packed, of how many), from the loading thread. May
  // be empty.
  std::function<void(int64_t, int64_t)> progress;

  absl::Status Validate() const;  // INVALID_ARGUMENT naming every bad value
};

// INVALID_ARGUMENT: its output was pruned, which is for drafts alone.
absl::Status CheckWholeOutput(const ModelConfig& config);

// INVALID_ARGUMENT: the weights of such a model are not held as `dtype`.
absl::Status CheckDtype(const ModelConfig& config, Dtype dtype);

// All that Load checks before it reads weights, which takes milliseconds. Returns the bytes that
// the model will take, for `reserved_bytes` of another one. Errors as Load's.
absl::StatusOr<int64_t> CheckLoad(const LoadOptions& options);

// Checks everything before the weights are packed. The files may be changed or removed once this
// has returned, if no weights stay in them. NOT_FOUND, INVALID_ARGUMENT or DATA_LOSS (a truncated
// file), with all that is wrong in one message: of the options, of what config.h (a directory that
// is not a model included), generation_config.h and files/checkpoint.h read, of the values of a
// specification that Decoder does not compute, of the tensors (decoder_tensors.h), or of their
// values (ModelFiles::Info). RESOURCE_EXHAUSTED: the memory for it is not there
// (common/process/room.h); the whole cache counts.
absl::StatusOr<std::unique_ptr<LanguageModel>> Load(const LoadOptions& options);

}  // namespace tandem::model
