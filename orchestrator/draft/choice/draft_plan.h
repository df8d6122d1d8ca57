// What a sample asks its draft for, round by round: which drafter, where the request leaves that
// open (drafter_chooser.h), and how many draft tokens (length/policy.h). Each drafter has a length
// policy of its own, which may choose none. Not thread-safe: used on the request's strand.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/draft/choice/common_drafters.h"
#include "orchestrator/draft/choice/drafter_chooser.h"
#include "orchestrator/draft/length/common_length.h"
#include "orchestrator/draft/length/policy.h"
#include "orchestrator/request/request.h"
#include "orchestrator/request/round_record.h"

namespace tandem::orchestrator {

class DraftPlan {
 public:
  // All of them outlive this object.
  DraftPlan(const GenerationRequest& request, CommonLength& lengths, CommonDrafters& drafters);

  // The text begins. Returns true if the draft is to read the prompt at once, by drafter().
  bool Begin(uint32_t tokens_left);
  bool WantsDraft() const { return policies_[used_]->WantsDraft(); }

  struct Choice {
    std::optional<DrafterChoice> drafter;  // absent: the request leaves no choice
    LengthChoice length;
  };
  // For the round that begins now; the text may get `tokens_left` more tokens.
  Choice Next(const LengthInputs& inputs, uint32_t tokens_left);
  // The name of the drafter of the last choice; empty: the draft service's default.
  const std::string& drafter() const;
  void Observe(const RoundRecord& round);

 private:
  std::optional<DrafterChoice> Choose(uint32_t tokens_left);

  const GenerationRequest& request_;
  CommonLength& lengths_;
  std::optional<DrafterChooser> chooser_;                // absent: there is no choice
  std::vector<std::unique_ptr<LengthPolicy>> policies_;  // by drafter; null: it was not used yet
  uint32_t used_ = 0;
};

}  // namespace tandem::orchestrator
