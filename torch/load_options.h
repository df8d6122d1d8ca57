// What a model of LibTorch is loaded by.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "model/load.h"
#include "torch/library/interface.h"

namespace tandem::torch {

// What a --device flag takes: "cpu" is the decoder of model/, the others are LibTorch's.
inline constexpr char kCpu[] = "cpu";
inline constexpr char kTorchCpu[] = "torch-cpu";
inline constexpr char kCuda[] = "cuda";

// What a --device flag says: "cuda:1" is kCuda and its card 1, "cuda" the first card.
struct DeviceChoice {
  std::string device;
  int card = 0;
};
inline DeviceChoice ParseDevice(absl::string_view text) {
  const size_t colon = text.find(':');
  DeviceChoice choice{std::string(text.substr(0, colon)), 0};
  if (colon != text.npos && !absl::SimpleAtoi(text.substr(colon + 1), &choice.card)) {
    choice.device = std::string(text);  // which flags have refused
  }
  return choice;
}

struct LoadOptions {
  // As model::Load takes them, but for `compute`: LibTorch's threads are its own. `dtype` is what
  // products are computed in: kAuto is fp32 on a processor, and the file's type on a CUDA device.
  model::LoadOptions model;
  std::string device = kTorchCpu;  // or kCuda
  int card = 0;                    // of kCuda: its number among those that CUDA shows
  std::string library;             // path of libtandem_torch.so; empty: library/library.h finds it
  int tile = 0;                    // StepOptions::tile; 0 on a card: the one that suits it best
  // Of a card's free memory, the share that weights, passes and the cache fill where pool_tokens is
  // 0. 0: the cache is as large as on a processor.
  double gpu_memory_utilization = 0;
  // Attention on tensor cores is tried first on a card, where type and heads allow it. No card has
  // run it, so nobody gets it who did not ask.
  bool mma_attention = false;
  // How the kernels of `spans` get to a card.
  absl::StatusOr<std::unique_ptr<kernels::PassKernels>> (*pass_kernels)(int card) =
      kernels::LoadPassKernels;
  std::optional<ComputeType> type;  // what products are computed in; absent: as `dtype` says
};

}  // namespace tandem::torch
