// What a target service starts an engine by: a name, and the functions behind it. An engine has a
// folder of its own; target_service/engines.cc lists those that there are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/concurrency/clock.h"
#include "model/load.h"
#include "target_service/engine/engine.h"

namespace tandem::target_service {

struct EngineOptions {
  model::LoadOptions model;
  // Of a card's free memory, the share that weights, passes and the cache fill where
  // model.pool_tokens is 0. Engines on a processor ignore it.
  double gpu_memory_utilization = 0.9;
  // On a card rows attend on tensor cores, where type and heads allow it and the self-check passes.
  bool mma_attention = false;
  // Its number among those that CUDA shows; engines on a processor ignore it.
  int card = 0;
  // Of the tokenizer. It may have more ids than the model, or fewer: the lower number counts. 0:
  // the model's.
  uint32_t vocabulary_size = 0;
  const concurrency::Clock* clock = nullptr;  // not owned; null: the steady clock

  // What the engine of a model takes for CpuEngineOptions::vocabulary_size and its like.
  uint32_t VocabularyOf(const model::LanguageModel& loaded) const {
    const uint32_t models = loaded.info().vocabulary_size;
    return vocabulary_size == 0 ? models : std::min(vocabulary_size, models);
  }
};

struct SelfCheck {
  bool passed = false;
  std::string text;  // for people: what was checked, with its outcome
};

// Errors name the model's or the device's fault; what the flags of EngineOptions cannot mean for
// this engine is INVALID_ARGUMENT.
struct EngineFactory {
  std::string name;      // as --device has it
  std::string summary;   // in that flag's help
  bool on_card = false;  // --device takes NAME:N, too: EngineOptions::card
  std::function<absl::StatusOr<std::unique_ptr<Engine>>(const EngineOptions& options)> open;
  // All that `open` checks before it reads weights, which takes milliseconds. Returns the bytes of
  // this process that the engine will take. Errors as open's.
  std::function<absl::StatusOr<int64_t>(const EngineOptions& options)> check;
  // For --check-device; empty: it has none. An error: it could not be made.
  std::function<absl::StatusOr<SelfCheck>(const EngineOptions& options)> self_check;
};

}  // namespace tandem::target_service
