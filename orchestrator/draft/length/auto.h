// The policy "auto": the length, or the tree, with the most tokens a time, as the requests of its group find it
// together (length_group.h). Not thread-safe; the group is shared.
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
  // `common` outlives this object. `context`: tokens of the text at its beginning.
  AutoLength(CommonLength& common, std::shared_ptr<LengthGroup> group, uint32_t context = 0)
      : common_(common), group_(std::move(group)), context_(context) {}

  ~AutoLength() override { group_->Ended(sequence_); }
  AutoLength(const AutoLength&) = delete;
  AutoLength& operator=(const AutoLength&) = delete;

  bool WantsDraft() const override { return group_->Drafts(common_.sequences(), context_); }
  LengthChoice Next(const LengthInputs& inputs) override {
    context_ = inputs.context;
    return group_->Next(common_.sequences(), inputs, sequence_);
  }
  void Observe(const RoundRecord& round) override { group_->Observe(round, sequence_); }

 private:
  CommonLength& common_;
  const std::shared_ptr<LengthGroup> group_;
  uint32_t context_;
  LengthGroup::Sequence sequence_;
};

}  // namespace tandem::orchestrator
