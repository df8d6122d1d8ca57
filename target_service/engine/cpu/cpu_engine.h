// The engine of a LanguageModel whose logits lie in this process's memory: the CPU's model, a
// test's table. The reference for every other engine.
//
//   Await: roll caches back ▶ model step ▶ judge the parts, on the threads that steps run on ▶ of
//          trees keep the path that stands
//
// A part is judged by one thread, in the order of its rows, and touches its own sequence alone;
// so the results do not depend on how many threads there are.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/concurrency/clock.h"
#include "model/language_model.h"
#include "target_service/engine/engine.h"
#include "target_service/engine/engine_factory.h"
#include "target_service/engine/judging.h"
#include "target_service/engine/model_engine.h"

namespace tandem::target_service {

struct CpuEngineOptions {
  // Ids below it are tokens; 1 to the model's vocabulary, which may be padded; 0: the model's.
  uint32_t vocabulary_size = 0;
  // For negative controls in tests; empty: acceptance::Judge. Called by several threads at once
  // where the model has some.
  JudgeFunction judge;
  const concurrency::Clock* clock = nullptr;  // not owned; null: the steady clock
};

// Thread safety: as Engine. A pass is computed inside Await, by the caller and the model's threads.
class CpuEngine final : public ModelEngine {
 public:
  // INVALID_ARGUMENT: vocabulary_size is above the model's.
  static absl::StatusOr<std::unique_ptr<CpuEngine>> Create(
      const CpuEngineOptions& options, std::unique_ptr<model::LanguageModel> model);

  void Launch(std::vector<PassPart> parts) override;
  PassResult Await() override;

 private:
  CpuEngine(const CpuEngineOptions& options, std::unique_ptr<model::LanguageModel> model);

  void JudgePart(const PassPart& part, const model::Logits& logits, int first_row, int block_row,
                 PartResult& result) const;
  absl::StatusOr<absl::Duration> TimePass(absl::Span<const model::ForwardPart> parts) override;
  bool in_flight() const override { return !launched_.empty(); }

  const JudgeFunction judge_;
  const concurrency::Clock& clock_;
  std::vector<PassPart> launched_;  // empty: no pass is in flight
};

// "cpu": the decoder of model/, by model::Load.
EngineFactory CpuEngineFactory();

}  // namespace tandem::target_service
