#include "target_service/engine/cpu/cpu_engine.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/concurrency/system_clock.h"

namespace tandem::target_service {
namespace {

const concurrency::Clock& ClockOf(const CpuEngineOptions& options) {
  return options.clock != nullptr ? *options.clock : concurrency::SteadyClock::Default();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CpuEngine>> CpuEngine::Create(
    const CpuEngineOptions& options, std::unique_ptr<model::LanguageModel> model) {
  TANDEM_CHECK(model != nullptr);
  TANDEM_RETURN_IF_ERROR(CheckVocabulary(options.vocabulary_size, *model));
  return std::unique_ptr<CpuEngine>(new CpuEngine(options, std::move(model)));
}

CpuEngine::CpuEngine(const CpuEngineOptions& options, std::unique_ptr<model::LanguageModel> model)
    : ModelEngine(std::move(model), options.vocabulary_size),
      judge_(options.judge ? options.judge : acceptance::Judge),
      clock_(ClockOf(options)) {
  mutable_info().trees = true;
}

void CpuEngine::Launch(std::vector<PassPart> parts) {
  TANDEM_CHECK(launched_.empty()) << "a pass is in flight";
  TANDEM_CHECK(!parts.empty());
  launched_ = std::move(parts);
}

PassResult CpuEngine::Await() {
  TANDEM_CHECK(!launched_.empty()) << "no pass is in flight";
  const std::vector<PassPart> parts = std::exchange(launched_, {});
  const concurrency::Instant began = clock_.Now();
  const ModelPass pass = Take(parts);
  const absl::StatusOr<model::Logits> logits = model().Forward(pass.forward);
  PassResult result;
  result.status = logits.status();
  if (!logits.ok()) {
    result.computed = clock_.Now() - began;
    return result;
  }
  result.parts.resize(parts.size());
  std::vector<size_t> judged;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].block != nullptr || !parts[i].prompt_targets.empty()) judged.push_back(i);
  }
  model().ForEach(static_cast<int>(judged.size()), [&](int j) {
    const size_t i = judged[static_cast<size_t>(j)];
    JudgePart(parts[i], *logits, pass.first_rows[i], pass.block_rows[i], result.parts[i]);
  });
  // With the judging, whose time grows with the rows as that of the products does.
  result.computed = clock_.Now() - began;
  for (size_t i = 0; i < parts.size(); ++i) KeepPath(parts[i], result.parts[i]);
  return result;
}

void CpuEngine::JudgePart(const PassPart& part, const model::Logits& logits, int first_row,
                          int block_row, PartResult& result) const {
  const speculation::SequenceSettings& settings = *part.settings;
  const uint32_t vocabulary_size = info().model.vocabulary_size;
  const uint32_t start = static_cast<uint32_t>(part.start);
  ModelSequence& sequence = SequenceOf(part);
  for (size_t i = 0; i < part.prompt_targets.size(); ++i) {
    const uint32_t position = start + static_cast<uint32_t>(i) + 1;
    auto logprobs = JudgePromptRow(settings, sequence.HistoryOf(settings, position),
                                   logits.row(first_row + static_cast<int>(i)), position,
                                   part.prompt_targets[i], vocabulary_size);
    if (!logprobs.ok()) {
      result.status = logprobs.status();
      return;
    }
    result.prompt_logprobs.push_back(*std::move(logprobs));
  }
  if (part.block == nullptr) return;
  const uint32_t committed = part.committed();
  auto judgement =
      JudgeRows(judge_, settings, *part.block, committed, sequence.HistoryOf(settings, committed),
                logits, block_row, vocabulary_size);
  if (!judgement.ok()) {
    result.status = judgement.status();
    return;
  }
  result.entries = std::move(judgement->entries);
  result.logprobs = std::move(judgement->logprobs);
}

absl::StatusOr<absl::Duration> CpuEngine::TimePass(absl::Span<const model::ForwardPart> parts) {
  const concurrency::Instant began = clock_.Now();
  TANDEM_RETURN_IF_ERROR(model().Forward(parts).status());
  return clock_.Now() - began;
}

EngineFactory CpuEngineFactory() {
  const auto open = [](const EngineOptions& options) -> absl::StatusOr<std::unique_ptr<Engine>> {
    TANDEM_ASSIGN_OR_RETURN(auto model, model::Load(options.model));
    CpuEngineOptions engine;
    engine.vocabulary_size = options.VocabularyOf(*model);
    engine.clock = options.clock;
    return CpuEngine::Create(engine, std::move(model));
  };
  return {.name = "cpu",
          .summary = "own kernels",
          .open = open,
          .check = [](const EngineOptions& options) { return model::CheckLoad(options.model); },
          .self_check = {}};
}

}  // namespace tandem::target_service
