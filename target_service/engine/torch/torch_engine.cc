#include "target_service/engine/torch/torch_engine.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "target_service/engine/judging.h"
#include "torch/graphs/pass_inputs.h"

namespace tandem::target_service {
namespace {

// Every size of a pass that is computed as one shape.
std::vector<int> Buckets(int tile, int max_rows) {
  if (tile == 0) return {max_rows};
  std::vector<int> buckets = torch::RowSizes(tile, max_rows);
  buckets.back() = max_rows;
  return buckets;
}

}  // namespace

TorchEngine::TorchEngine(std::unique_ptr<torch::TorchModel> model,
                         std::unique_ptr<kernels::DeviceJudge> judge)
    : ModelEngine(std::move(model), judge->vocabulary_size()),
      torch_(static_cast<torch::TorchModel&>(this->model())),
      judge_(std::move(judge)) {
  TANDEM_CHECK(torch_.step().info().stream.has_value());
  mutable_info().row_buckets = Buckets(torch_.step().info().tile, info().max_rows);
  mutable_info().max_passes_in_flight = kMaxPassesInFlight;
  mutable_info().trees = true;
}

// What is in flight reads and writes memory of this.
TorchEngine::~TorchEngine() {
  while (!flights_.empty()) Await();
}

TorchEngine::Flight TorchEngine::NewFlight() {
  Flight flight;
  if (unused_.empty()) {
    flight.judge = std::make_unique<kernels::JudgeFlight>(*judge_);
  } else {
    flight.judge = std::move(unused_.back());
    unused_.pop_back();
  }
  return flight;
}

void TorchEngine::Launch(std::vector<PassPart> parts) {
  TANDEM_CHECK(flights_.size() < kMaxPassesInFlight) << flights_.size() << " are in flight";
  TANDEM_CHECK(!parts.empty());
  Flight flight = NewFlight();
  flight.parts = std::move(parts);
  flight.status = Put(flight);
  flights_.push_back(std::move(flight));
}

absl::Status TorchEngine::Put(Flight& flight) {
  TANDEM_RETURN_IF_ERROR(flight.judge->Begin(*torch_.step().info().stream));
  const ModelPass pass = Take(flight.parts);
  TANDEM_RETURN_IF_ERROR(torch_.Compute(pass.forward));
  for (size_t i = 0; i < flight.parts.size(); ++i) {
    flight.places.push_back(
        AddPart(flight.parts[i], pass.first_rows[i], pass.block_rows[i], flight.judge->tables()));
  }
  const torch::DeviceLogits logits = torch_.step().logits();
  return flight.judge->Judge(logits.data, static_cast<uint64_t>(logits.stride));
}

TorchEngine::Places TorchEngine::AddPart(const PassPart& part, int first_row, int block_row,
                                         kernels::JudgeTables& tables) {
  const speculation::SequenceSettings& settings = *part.settings;
  ModelSequence& sequence = SequenceOf(part);
  Places places;
  if (!part.prompt_targets.empty()) {
    const uint32_t position = static_cast<uint32_t>(part.start) + 1;
    places.prompt = tables.size();
    tables.AddPromptRows(settings, part.prompt_targets, position,
                         sequence.HistoryOf(settings, position), static_cast<uint32_t>(first_row));
  }
  if (part.block != nullptr) {
    const uint32_t committed = part.committed();
    places.block = tables.size();
    tables.AddBlock(settings, *part.block, committed, sequence.HistoryOf(settings, committed),
                    static_cast<uint32_t>(block_row));
  }
  return places;
}

PassResult TorchEngine::Await() {
  TANDEM_CHECK(!flights_.empty()) << "no pass is in flight";
  Flight flight = std::move(flights_.front());
  flights_.pop_front();
  PassResult result;
  result.status = flight.status;
  if (result.status.ok()) {
    absl::StatusOr<kernels::JudgedPass> judged = flight.judge->Await();
    result.status = judged.status();
    if (judged.ok()) {
      result.computed = judged->computed;
      for (size_t i = 0; i < flight.parts.size(); ++i) {
        result.parts.push_back(ResultOf(flight.places[i], absl::MakeSpan(judged->parts)));
        KeepPath(flight.parts[i], result.parts.back());
      }
    }
  }
  // What a failed one has put on the stream may read its memory still, until that is given back.
  if (result.status.ok()) unused_.push_back(std::move(flight.judge));
  return result;
}

PartResult TorchEngine::ResultOf(const Places& places, absl::Span<kernels::JudgedPart> judged) {
  PartResult result;
  if (places.prompt.has_value()) {
    kernels::JudgedPart& prompt = judged[*places.prompt];
    if (prompt.broken_after.has_value()) result.status = BrokenRow(*prompt.broken_after);
    result.prompt_logprobs = std::move(prompt.logprobs);
  }
  if (!result.status.ok() || !places.block.has_value()) return result;
  kernels::JudgedPart& block = judged[*places.block];
  if (block.broken_after.has_value()) result.status = BrokenRow(*block.broken_after);
  result.entries = std::move(block.entries);
  result.logprobs = std::move(block.logprobs);
  return result;
}

absl::StatusOr<absl::Duration> TorchEngine::TimePass(absl::Span<const model::ForwardPart> parts) {
  Flight flight = NewFlight();
  TANDEM_RETURN_IF_ERROR(flight.judge->Begin(*torch_.step().info().stream));
  TANDEM_RETURN_IF_ERROR(torch_.Compute(parts));
  // Blocks as long as the parts: each row is judged, as after a draft.
  const speculation::SequenceSettings greedy = [] {
    speculation::SequenceSettings settings;
    settings.sampling.temperature = 0;
    return settings;
  }();
  uint32_t row = 0;
  for (const model::ForwardPart& part : parts) {
    speculation::CandidateTree block;
    block.tokens.assign(part.tokens.begin() + 1, part.tokens.end());
    flight.judge->tables().AddBlock(greedy, block, /*committed=*/1, nullptr, row);
    row += static_cast<uint32_t>(part.tokens.size());
  }
  const torch::DeviceLogits logits = torch_.step().logits();
  TANDEM_RETURN_IF_ERROR(flight.judge->Judge(logits.data, static_cast<uint64_t>(logits.stride)));
  TANDEM_ASSIGN_OR_RETURN(const kernels::JudgedPass judged, flight.judge->Await());
  unused_.push_back(std::move(flight.judge));
  return judged.computed;
}

}  // namespace tandem::target_service
