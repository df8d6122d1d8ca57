// libtandem_torch.so as it is, until the file that TANDEM_TEST_LOST names is there: from then on
// its device is lost, as a card is that fell off the bus.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <utility>

#include "torch/library/interface.h"

namespace tandem::torch {
namespace {

const Library& Real() {
  static const Library& real = *[] {
    void* const library = dlopen(REAL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<EntryPoint>(dlsym(library, kEntryPoint))();
  }();
  return real;
}

class LosesItsDevice final : public Step {
 public:
  explicit LosesItsDevice(std::unique_ptr<Step> step) : step_(std::move(step)) {}

  const StepInfo& info() const override { return step_->info(); }
  absl::Status Run(const PassRows& pass) override {
    const absl::Status status = DeviceStatus();
    return status.ok() ? step_->Run(pass) : status;
  }
  DeviceLogits logits() const override { return step_->logits(); }
  absl::Status ReadLogits(float* logits) override { return step_->ReadLogits(logits); }
  absl::Status MoveCells(absl::Span<const CellMove> moves) override {
    return step_->MoveCells(moves);
  }
  absl::Status DeviceStatus() override {
    const char* const lost = std::getenv("TANDEM_TEST_LOST");
    if (lost == nullptr || access(lost, F_OK) != 0) return step_->DeviceStatus();
    return absl::InternalError("an illegal memory access was encountered (700)");
  }

 private:
  const std::unique_ptr<Step> step_;
};

absl::StatusOr<std::unique_ptr<Step>> MakeStep(const StepOptions& options,
                                               const model::DecoderSpec& spec,
                                               std::shared_ptr<const StepWeights> weights) {
  auto step = Real().make_step(options, spec, std::move(weights));
  if (!step.ok()) return step;
  return std::make_unique<LosesItsDevice>(*std::move(step));
}

}  // namespace
}  // namespace tandem::torch

extern "C" const tandem::torch::Library* tandem_torch_library() {
  static const tandem::torch::Library library = [] {
    tandem::torch::Library losing = tandem::torch::Real();
    losing.make_step = tandem::torch::MakeStep;
    return losing;
  }();
  return &library;
}
