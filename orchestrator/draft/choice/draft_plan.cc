#include "orchestrator/draft/choice/draft_plan.h"

#include <algorithm>

#include "orchestrator/draft/length/auto.h"
#include "orchestrator/draft/length/fixed.h"
#include "orchestrator/draft/length/heuristic.h"

namespace tandem::orchestrator {
namespace {

std::unique_ptr<LengthPolicy> MakePolicy(const GenerationRequest& request,
                                         const std::string& drafter, CommonLength& lengths) {
  if (request.draft_tokens.has_value()) return std::make_unique<FixedLength>(*request.draft_tokens);
  switch (request.length_mode) {
    case LengthMode::kAuto:
      return std::make_unique<AutoLength>(
          lengths,
          lengths.Group(drafter, request.rule,
                        request.auto_nodes ? std::nullopt : std::optional(request.draft_nodes),
                        request.shapes_blocks() ? request.draft_min_confidence : 0,
                        request.prepare > 0));
    case LengthMode::kHeuristic:
      break;
  }
  return std::make_unique<HeuristicLength>();
}

}  // namespace

DraftPlan::DraftPlan(const GenerationRequest& request, CommonLength& lengths,
                     CommonDrafters& drafters)
    : request_(request), lengths_(lengths) {
  policies_.resize(std::max<size_t>(request.drafters.size(), 1));
  if (request.drafters.empty()) {
    policies_[0] = MakePolicy(request, request.drafter, lengths);
  } else {
    chooser_.emplace(request.drafters, request.rule, request.draft_nodes, drafters);
  }
}

const std::string& DraftPlan::drafter() const {
  return chooser_.has_value() ? request_.drafters[used_] : request_.drafter;
}

std::optional<DrafterChoice> DraftPlan::Choose(uint32_t tokens_left) {
  if (!chooser_.has_value()) return std::nullopt;
  const DrafterChoice choice = chooser_->Next(lengths_.sequences(), tokens_left);
  used_ = choice.index;
  if (policies_[used_] == nullptr) policies_[used_] = MakePolicy(request_, drafter(), lengths_);
  return choice;
}

bool DraftPlan::Begin(uint32_t tokens_left) {
  Choose(tokens_left);
  return WantsDraft();
}

DraftPlan::Choice DraftPlan::Next(const LengthInputs& inputs, uint32_t tokens_left) {
  Choice choice;
  choice.drafter = Choose(tokens_left);
  if (choice.drafter.has_value()) choice.drafter->name = drafter();
  choice.length = policies_[used_]->Next(inputs);
  return choice;
}

// The first round after a switch is the draft's reading of the text, and no measure of a length.
void DraftPlan::Observe(const RoundRecord& round) {
  const bool reads = chooser_.has_value() && chooser_->opening() && round.asked_tokens > 0;
  if (!reads) policies_[used_]->Observe(round);
  if (chooser_.has_value()) chooser_->Observe(round);
}

}  // namespace tandem::orchestrator
