// The Llama family on the CPU, in fp32 arithmetic; packed weights and our own kernels
// (cpu/kernels.h).
//
// Row invariance: a row's logits are the same bits whatever the other rows, the cut into steps,
// roll-backs, the number of threads and the instruction set.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "model/config.h"
#include "model/cpu/attention.h"
#include "model/cpu/compute_pool.h"
#include "model/cpu/kernels.h"
#include "model/cpu/thread_team.h"
#include "model/kv_cache.h"
#include "model/language_model.h"
#include "model/llama_weights.h"

namespace tandem::model {

struct LlamaOptions {
  int threads = 1;          // that a step runs on, the caller's included
  int max_rows = 256;       // of a step
  int64_t pool_tokens = 0;  // of all sequences together; 0: see load.h
  // Shared with other models of the process; null: steps run on `threads` threads at any time.
  std::shared_ptr<cpu::ComputePool> compute;
  const cpu::Kernels* kernels = nullptr;  // null: the machine's best; for tests
};

class Llama final : public LanguageModel {
 public:
  Llama(const LlamaConfig& config, LlamaWeights weights, const LlamaOptions& options,
        std::string model_id);

  const ModelInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<Cache>> NewCache(int max_length) override;
  absl::StatusOr<Logits> Step(absl::Span<const StepPart> parts) override;
  int max_rows() const override { return options_.max_rows; }
  // On as many of the step's threads as have a core now; it never waits for one.
  void ForEach(int count, absl::FunctionRef<void(int i)> work) override;

 private:
  struct Part {
    SpanCache* cache;
    int first_row;
    int rows;
    int position;  // of its first row
    absl::Span<const int> parents;
  };
  // Where a row of a tree stands and what it sees (cpu::Sight).
  struct TreeRow {
    int position;
    int straight;
    int first_rest;  // in tree_slots_
  };
  struct Range {
    int begin;
    int end;
  };
  class Pass;  // one step, as each member of the team runs it

  absl::Status Check(absl::Span<const StepPart> parts);
  void Lay(absl::Span<const StepPart> parts);  // fills the step's tables
  void LayTree(const Part& part);
  void GrowRopeTable(int positions);

  const LlamaConfig config_;
  const LlamaOptions options_;
  const cpu::Kernels& kernels_;
  const LlamaWeights weights_;
  const cpu::AttentionShape attention_shape_;
  ModelInfo info_;
  cpu::ThreadTeam team_;
  std::shared_ptr<SpanPool> pool_;
  uint64_t step_ = 0;

  // [positions, head_size / 2]; as long as the longest cache needed.
  std::vector<float> rope_frequencies_;
  std::vector<float> cosines_;
  std::vector<float> sines_;

  // Tables and activations of a step, made for max_rows and narrowed.
  std::vector<Part> parts_;
  std::vector<uint32_t> tokens_;    // of all rows
  std::vector<int> logits_rows_;    // rows that get logits
  std::vector<TreeRow> tree_rows_;  // of all rows, those of chains unused; empty: no part is a tree
  std::vector<int> tree_slots_;     // the `rest` of all rows
  int hidden_stride_;
  int qkv_stride_;
  int attended_stride_;
  int inner_stride_;
  cpu::Buffer residual_;                        // [max_rows, hidden]
  cpu::Buffer normed_;                          // [max_rows, hidden]
  std::vector<cpu::Buffer> normed_of_member_;   // [16, hidden] each
  cpu::Buffer qkv_;                             // [max_rows, (heads + 2 kv_heads) · head_size]
  cpu::Buffer attended_;                        // [max_rows, heads · head_size]
  cpu::Buffer inner_;                           // [max_rows, feed_forward_size]
  cpu::Buffer logits_;                          // [max_rows, vocabulary]
  std::vector<cpu::AttentionScratch> scratch_;  // a member's
};

}  // namespace tandem::model
