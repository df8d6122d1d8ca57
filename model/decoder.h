// A decoder-only transformer on the CPU: computes what a DecoderSpec says, in fp32 arithmetic, with
// packed weights and our own kernels (cpu/kernels.h).
//
// Row invariance: a row's logits are the same bits whatever the other rows are, however the tokens
// were cut into passes, whatever was rolled back, and for any number of threads and any instruction
// set.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "model/activations.h"
#include "model/cpu/compute_pool.h"
#include "model/cpu/kernels.h"
#include "model/cpu/thread_team.h"
#include "model/decoder_weights.h"
#include "model/language_model.h"
#include "model/page_pool.h"
#include "model/pass_layout.h"
#include "model/prefix_cache.h"
#include "model/rope_table.h"
#include "model/spec/decoder_spec.h"

namespace tandem::model {

struct DecoderOptions {
  int threads = 1;          // that a pass runs on, the caller's included
  int max_rows = 256;       // of a pass
  int64_t pool_tokens = 0;  // of all sequences together; rounded up to whole pages
  // What keys and values are held as: kFloat32, or kBfloat16, rounded.
  cpu::WeightType cache_type = cpu::WeightType::kFloat32;
  // Shared with other models of the process; null: passes run on `threads` threads at any time.
  std::shared_ptr<cpu::ComputePool> compute;
  const cpu::Kernels* kernels = nullptr;  // null: the machine's best; for tests
};

// Thread safety and errors: as LanguageModel says.
class Decoder final : public LanguageModel {
 public:
  // Whether this decoder computes the specification. INVALID_ARGUMENT: one message that names every
  // value that it does not compute, and what it computes in its place. It computes every value by
  // itself; what it does not compute are some together.
  static absl::Status CheckSpec(const DecoderSpec& spec);

  // CheckSpec accepts `spec`, or a TANDEM_CHECK ends the process. `weights` were made for it. Of
  // `info` the caller sets what files say (end tokens, sampling defaults, model_id); sizes and
  // numerics_id are set here.
  Decoder(const DecoderSpec& spec, DecoderWeights weights, const DecoderOptions& options,
          ModelInfo info);

  const ModelInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<Cache>> NewCache(int max_length) override;
  std::optional<CacheRoom> room() const override;
  int Recall(Cache& cache, const CachePrefix& prefix) override;
  void Share(Cache& cache, const CachePrefix& prefix) override;
  absl::StatusOr<Logits> Forward(absl::Span<const ForwardPart> parts) override;
  int max_rows() const override { return options_.max_rows; }
  void DropPages() override { weights_.DropPages(); }
  // On as many of the pass's threads as have a core now; it never waits for one.
  void ForEach(int count, absl::FunctionRef<void(int i)> work) override;

 private:
  class Pass;
  // A pass of `layout_`, as each member of the team runs it (decoder_pass.cc).
  void RunMember(int member);

  // Of a layer; null: its queries and keys are not rotated.
  const RopeTable* layer_rope(int layer) const;

  const DecoderSpec spec_;
  const DecoderOptions options_;
  const cpu::Kernels& kernels_;
  const DecoderWeights weights_;
  const cpu::AttentionShape attention_shape_;
  ModelInfo info_;
  cpu::ThreadTeam team_;
  std::shared_ptr<PagePool> pool_;
  PrefixCache prefixes_;
  const float attention_scale_;  // of q·k
  // Of DecoderSpec::rope and, where there is one, sliding_rope; as long as the longest cache
  // needed.
  std::vector<RopeTable> ropes_;
  uint64_t step_ = 0;

  // Of the pass under way.
  PassLayout layout_;
  Activations activations_;
};

}  // namespace tandem::model
