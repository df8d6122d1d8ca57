// A model's files on their way to a LibTorch device: whole, or their first layers for the
// self-check.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "model/language_model.h"
#include "model/model_files.h"
#include "torch/library/interface.h"
#include "torch/load.h"
#include "torch/self_check.h"

namespace tandem::torch {

// Thread safety: none. Options and library outlive it.
class Loading {
 public:
  // Reads and checks the files. Errors as Load's.
  static absl::StatusOr<Loading> Begin(const LoadOptions& options, const Library& library);

  // The ways in which the device may compute this model, fastest first.
  std::vector<Attention> Paths() const;

  // The self-check, on the model's first layers. Errors as make_step's (library/interface.h).
  absl::StatusOr<std::vector<CheckResult>> Check(Attention attention) const;

  // The whole model. `report` may be null.
  absl::StatusOr<std::unique_ptr<model::LanguageModel>> Finish(Attention attention,
                                                               model::LoadReport* report) const;

 private:
  Loading(const LoadOptions& options, const Library& library, model::ModelFiles files);

  absl::StatusOr<std::unique_ptr<model::LanguageModel>> Make(const model::DecoderSpec& spec,
                                                             const model::DecoderTensors& tensors,
                                                             const StepOptions& options,
                                                             model::LoadReport* report) const;
  StepOptions OptionsFor(Attention attention) const;
  int64_t TokenBytes() const;  // of keys and values
  absl::Status CheckRoom(int64_t cache_bytes) const;

  const LoadOptions* options_;
  const Library* library_;
  model::ModelFiles files_;
  ComputeType type_;
};

}  // namespace tandem::torch
