// Runs the judge's kernels on the host, in memory of exactly the size that they may use.
//
// Thread safety: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "torch/kernels/judge_distribution.h"
#include "torch/kernels/judge_prepare.h"
#include "torch/kernels/judge_tables.h"
#include "torch/kernels/judge_verdict.h"

namespace tandem::kernels {

// In the order of launch.cc.
inline constexpr const char* kJudgeKernels[] = {
    "tandem_judge_prepare", "tandem_judge_largest",      "tandem_judge_weights",
    "tandem_judge_sums",    "tandem_judge_distribution", "tandem_judge_probabilities",
    "tandem_judge_verdict"};

// One of the judge's kernels, over so many rows of a launch.
template <typename Traits>
void RunJudgeKernel(const std::string& name, uint32_t rows, const JudgeArguments& a,
                    ThreadOrder order) {
  const auto shared = std::make_unique<JudgeShared<Traits>>();
  const auto run = [&](uint32_t blocks, auto kernel) {
    for (uint32_t x = 0; x < rows; ++x) {
      for (uint32_t y = 0; y < blocks; ++y) kernel(Block(x, y, Traits::kThreads, order));
    }
  };
  const uint32_t columns = (a.vocabulary_size + Traits::kColumn - 1) / Traits::kColumn;
  if (name == "tandem_judge_prepare") {
    run(1, [&](const Block& block) { JudgePrepare<Traits>(block, a); });
  } else if (name == "tandem_judge_largest") {
    run(columns, [&](const Block& block) { JudgeLargest<Traits>(block, *shared, a); });
  } else if (name == "tandem_judge_weights") {
    run(columns, [&](const Block& block) { JudgeWeights<Traits>(block, a); });
  } else if (name == "tandem_judge_sums") {
    run(kSumWays, [&](const Block& block) { JudgeSums<Traits>(block, *shared, a); });
  } else if (name == "tandem_judge_distribution") {
    run(1, [&](const Block& block) { JudgeDistribution<Traits>(block, *shared, a); });
  } else if (name == "tandem_judge_probabilities") {
    run(columns, [&](const Block& block) { JudgeProbabilities<Traits>(block, *shared, a); });
  } else if (name == "tandem_judge_verdict") {
    run(1, [&](const Block& block) { JudgeVerdict<Traits>(block, *shared, a); });
  }
}

// logits: rows of `stride`, as many as the tables name. `rows_a_launch`: room in the workspace.
template <typename Traits>
std::vector<JudgedPart> JudgeOnHost(const JudgeTables& tables, const std::vector<float>& logits,
                                    uint32_t stride, uint32_t vocabulary_size,
                                    uint32_t rows_a_launch, ThreadOrder order) {
  const uint32_t rows = static_cast<uint32_t>(tables.rows().size());
  // What was never written must not matter.
  const uint32_t workspace_stride = (vocabulary_size + kMinColumn - 1) / kMinColumn * kMinColumn;
  const size_t room = size_t{rows_a_launch} * workspace_stride;
  std::vector<float> processed(room, std::numeric_limits<float>::quiet_NaN());
  std::vector<double> weights(room, std::numeric_limits<double>::quiet_NaN());
  std::vector<uint32_t> workspace_ids(room, 0xdead'beef);
  std::vector<RowPart> parts(room / kMinColumn);
  std::memset(static_cast<void*>(parts.data()), 0xa5, parts.size() * sizeof(RowPart));
  std::vector<RowState> states(rows);
  std::vector<RowVerdict> verdicts(rows);
  std::vector<TopLogprob> top(size_t{rows} * tables.top_stride());
  JudgeArguments a;
  a.sequences = tables.sequences().data();
  a.rows = tables.rows().data();
  a.ids = tables.ids().data();
  a.numbers = tables.numbers().data();
  a.logits = logits.data();
  a.logits_stride = stride;
  a.vocabulary_size = vocabulary_size;
  a.workspace_stride = workspace_stride;
  a.processed = processed.data();
  a.weights = weights.data();
  a.workspace_ids = workspace_ids.data();
  a.parts = parts.data();
  a.states = states.data();
  a.verdicts = verdicts.data();
  a.top = top.data();
  a.top_stride = tables.top_stride();
  for (a.first_row = 0; a.first_row < rows; a.first_row += rows_a_launch) {
    const uint32_t some = std::min(rows_a_launch, rows - a.first_row);
    for (const char* kernel : kJudgeKernels) RunJudgeKernel<Traits>(kernel, some, a, order);
  }
  return tables.Read(verdicts, top);
}

}  // namespace tandem::kernels
