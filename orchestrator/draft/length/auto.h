// The policy "auto": the length, or the tree, with the most expected tokens per time, as the
// requests of its group find it together (length_group.h). Not thread-safe; the group is shared.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "orchestrator/draft/length/common_length.h"
#include "orchestrator/draft/length/length_group.h"
#include "orchestrator/draft/length/policy.h"

namespace tandem::orchestrator {

class AutoLength final : public LengthPolicy {
 public:
  // `common` outlives this object.
  AutoLength(CommonLength& common, std::shared_ptr<LengthGroup> group)
      : common_(common), group_(std::move(group)) {}

  bool WantsDraft() const override { return group_->Drafts(); }
  LengthChoice Next(const LengthInputs& inputs) override {
    LengthInputs known = inputs;
    // Ours alone, where the target says nothing of them.
    const uint32_t own = common_.sequences();
    if (known.decoding.sequences == 0) known.decoding.sequences = own;
    known.alone_at_target = 4 * known.decoding.sequences <= 5 * own;
    return group_->Next(known, sequence_);
  }
  void Observe(const RoundRecord& round) override { group_->Observe(round, sequence_); }

 private:
  CommonLength& common_;
  const std::shared_ptr<LengthGroup> group_;
  LengthGroup::Sequence sequence_;
};

}  // namespace tandem::orchestrator
