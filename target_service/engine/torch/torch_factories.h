// The engines of a model that LibTorch computes: on a processor, and on a card.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "target_service/engine/cpu/cpu_engine.h"
#include "target_service/engine/engine_factory.h"
#include "torch/kernels/device_judge.h"
#include "torch/torch_model.h"

namespace tandem::target_service {

// "torch-cpu": rows are judged by cpu_engine.h.
EngineFactory TorchCpuFactory();

// "cuda": torch_engine.h, if the judge's kernels are there, run, and pass their check (CheckJudge).
// Else logits are copied and judged by cpu_engine.h; the log says why (device_path_switched_off),
// and so do EngineInfo::switched_off and numerics_id.
EngineFactory CudaFactory();

// Loads the judge's kernels, for passes of `max_rows`; JudgeOnCard: on CUDA device `card`.
using JudgeSource = std::function<absl::StatusOr<std::unique_ptr<kernels::DeviceJudge>>(
    uint32_t vocabulary_size, int max_rows)>;
JudgeSource JudgeOnCard(int card);

// What both open. INVALID_ARGUMENT as CpuEngine::Create.
absl::StatusOr<std::unique_ptr<Engine>> MakeTorchEngine(const CpuEngineOptions& options,
                                                        std::unique_ptr<torch::TorchModel> model,
                                                        const JudgeSource& judge_source);

}  // namespace tandem::target_service
