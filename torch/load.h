// From a Hugging Face directory to a model that LibTorch computes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/language_model.h"
#include "model/load.h"
#include "torch/load_options.h"
#include "torch/torch_model.h"

namespace tandem::torch {

// Before anything is served the self-check runs on the model's first layers. A way of computing
// that fails it is switched off for the next slower one: the log and numerics_id say so.
//
// Errors as model::Load's, of the library (library/library.h), and of the device
// (library/interface.h); their messages begin with the --device. FAILED_PRECONDITION: no way of
// computing passes.
absl::StatusOr<std::unique_ptr<TorchModel>> Load(const LoadOptions& options);

// The same with a library that is loaded: a fake, in tests. `options.library` is not looked at, and
// errors do not name the device.
absl::StatusOr<std::unique_ptr<TorchModel>> Load(const LoadOptions& options,
                                                 const Library& library);

// As model::CheckLoad: all that Load checks before it reads weights or computes. A model on a card
// takes 0 bytes of this process.
absl::StatusOr<int64_t> CheckLoad(const LoadOptions& options);

// What the self-check (self_check.h) says of a device and a model.
struct DeviceReport {
  bool all_passed = true;        // every way of computing, not only the one that would serve
  std::string numerics_id;       // of what would serve; empty: nothing would
  std::string table;             // for people: each way's checks, and what passes cost
  uint32_t vocabulary_size = 0;  // of the model, where something would serve
};

// Errors as Load's, but for what the self-check finds. It loads the whole model for the cost.
absl::StatusOr<DeviceReport> CheckDevice(const LoadOptions& options);

// A draft's model by its --device flag: the decoder of model/ for kCpu, else Load and CheckLoad
// above.
absl::StatusOr<std::unique_ptr<model::LanguageModel>> LoadFor(absl::string_view device,
                                                              const model::LoadOptions& options);
absl::StatusOr<int64_t> CheckLoadFor(absl::string_view device, const model::LoadOptions& options);

}  // namespace tandem::torch
