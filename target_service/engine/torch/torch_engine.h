// The engine of a model that LibTorch computes on a card: rows are judged there by our kernels,
// with the bits of cpu_engine.h, and no logits come back.
//
//   Launch: roll caches back ▶ model step ▶ judge, all put on the card's stream; the host goes on
//   Await:  wait for the oldest ▶ read its verdicts
//
// While the card computes a pass the next one is put behind it, so what the host does with the one
// before costs the card nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "target_service/engine/engine.h"
#include "target_service/engine/model_engine.h"
#include "torch/kernels/device_judge.h"
#include "torch/torch_model.h"

namespace tandem::target_service {

// The part of the self-check that needs no model (judge_check.cc). Has the card judge random rows
// under every rule and with every kind of option, and compares every bit with the judge of
// cpu_engine.h. DATA_LOSS: they differ; the message says where. Else an error of the card. On the
// thread that calls; nothing else uses `judge` then.
absl::Status CheckJudge(kernels::DeviceJudge& judge);

// Thread safety: as Engine.
class TorchEngine final : public ModelEngine {
 public:
  static constexpr int kMaxPassesInFlight = 2;

  // The model's device has a stream, and `judge` is for the same card; its vocabulary is the
  // engine's.
  TorchEngine(std::unique_ptr<torch::TorchModel> model,
              std::unique_ptr<kernels::DeviceJudge> judge);
  ~TorchEngine() override;

  void Launch(std::vector<PassPart> parts) override;
  PassResult Await() override;

 private:
  // What a part has in the tables of its pass; absent: nothing is judged.
  struct Places {
    std::optional<size_t> prompt;
    std::optional<size_t> block;
  };
  struct Flight {
    std::unique_ptr<kernels::JudgeFlight> judge;
    std::vector<PassPart> parts;
    std::vector<Places> places;
    absl::Status status;  // of what was put on the stream
  };

  Flight NewFlight();
  absl::Status Put(Flight& flight);
  static Places AddPart(const PassPart& part, int first_row, int block_row,
                        kernels::JudgeTables& tables);
  static PartResult ResultOf(const Places& places, absl::Span<kernels::JudgedPart> judged);
  absl::StatusOr<absl::Duration> TimePass(absl::Span<const model::ForwardPart> parts) override;
  bool in_flight() const override { return !flights_.empty(); }

  torch::TorchModel& torch_;
  const std::unique_ptr<kernels::DeviceJudge> judge_;
  std::deque<Flight> flights_;
  std::vector<std::unique_ptr<kernels::JudgeFlight>> unused_;
};

}  // namespace tandem::target_service
