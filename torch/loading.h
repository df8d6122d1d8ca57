// A model's files on their way to a LibTorch device: whole, or their first layers for the
// self-check.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/process/room.h"
#include "model/language_model.h"
#include "model/model_files.h"
#include "torch/kernels/cuda_driver.h"
#include "torch/library/interface.h"
#include "torch/load_options.h"
#include "torch/path_choice.h"
#include "torch/self_check.h"
#include "torch/torch_model.h"

namespace tandem::torch {

// Thread safety: none. Options and library outlive it.
class Loading {
 public:
  // Reads and checks the files. Errors as Load's (load.h).
  static absl::StatusOr<Loading> Begin(const LoadOptions& options, const Library& library);

  // RESOURCE_EXHAUSTED: weights, cache and a pass do not fit the device. Returns what they take of
  // this process's memory, in bytes.
  absl::StatusOr<int64_t> CheckRoom() const;

  // On a card, where nobody gave a tile: measures all (card.h), on the model's first layers,
  // and takes the best from then on. Errors as make_step's.
  absl::Status ChooseTile();

  // The ways in which the device may compute this model, fastest first.
  std::vector<Path> Paths() const;

  // The self-check, on the model's first layers. Graphs that cannot be captured are a result
  // ("capture"), and so are kernels that do not get to the card ("kernels"). Errors as make_step's
  // (library/interface.h).
  absl::StatusOr<std::vector<CheckResult>> Check(const Path& path) const;

  // Whether a pass has more than a tile, so that its products may be whole. Not on a processor up
  // to 256 rows: comparing takes longer there than whole products save.
  bool HasLongPasses() const;

  // OK: in passes of any size rows have the same bits with StepOptions::whole_products, on the
  // model's first layers. Else what differs. `path` has passed its check.
  absl::Status CheckProducts(const Path& path) const;

  // The whole model. Once loaded its weights stay, for another way.
  absl::StatusOr<std::unique_ptr<TorchModel>> Finish(const Path& path,
                                                     model::LoadReport& report) const;

 private:
  Loading(const LoadOptions& options, const Library& library, model::ModelFiles files);

  // What is checked: the model's first layers, on the device and for the reference.
  struct Small;

  std::unique_ptr<TorchModel> ModelOf(const model::DecoderSpec& spec, const StepOptions& options,
                                      std::unique_ptr<Step> step, model::ModelInfo info) const;
  Small& Checked() const;
  CheckSize Size() const;  // of the self-check
  bool TakesMma() const;   // --mma-attention is for this model
  // With a small cache. It is loaded once, for all ways and tiles.
  absl::StatusOr<std::unique_ptr<TorchModel>> MakeSmall(const Path& path, int max_rows) const;
  absl::StatusOr<absl::Duration> TileCostOf() const;
  absl::StatusOr<int> Pages() const;  // of the cache
  absl::StatusOr<StepOptions> OptionsFor(const Path& path) const;
  int64_t TokenBytes() const;  // of keys and values
  // As MemoryNeed, of passes of at most `max_rows` rows.
  std::vector<process::MemoryPart> Need(int64_t cache_bytes, int max_rows) const;
  process::FreeMemory FreeMemory() const;  // of the device

  const LoadOptions* options_;
  const Library* library_;
  model::ModelFiles files_;
  ComputeType type_;
  std::optional<ComputeType> others_;  // as StepOptions has it
  int tile_;
  kernels::CardFacts card_;  // before anything was loaded; without a driver empty
  mutable std::shared_ptr<kernels::PassKernels> kernels_;  // null: no path has asked for them
  mutable std::shared_ptr<Small> small_;                   // null: nothing is checked, or no longer
  mutable std::shared_ptr<const StepWeights> weights_;     // of the whole model; null: not loaded
  mutable model::ModelInfo info_;                          // with weights_
};

}  // namespace tandem::torch
