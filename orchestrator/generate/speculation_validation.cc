#include "orchestrator/generate/speculation_validation.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/flags/nearest_name.h"
#include "common/messages/sampling_options.h"
#include "common/speculation/proposal_codec.h"
#include "orchestrator/draft/length/draft_shapes.h"
#include "orchestrator/generate/invalid.h"

namespace tandem::orchestrator {
namespace {

using acceptance::Rule;

// At temperature 0 every rule but lenient is greedy.
absl::Status FillRule(const v1::GenerateRequest& request, GenerationRequest& to) {
  const bool greedy = to.sampling.greedy();
  if (request.speculation().rule() == v1::RULE_GREEDY && !greedy) {
    return Invalid("speculation.rule is RULE_GREEDY at temperature ", to.sampling.temperature,
                   "; it requires temperature 0");
  }
  to.rule = messages::FromWire(request.speculation().rule())
                .value_or(request.has_seed() ? Rule::kCoupled : Rule::kSpeculative);
  if (greedy && to.rule != Rule::kLenient) to.rule = Rule::kGreedy;
  return absl::OkStatus();
}

absl::Status CheckServed(Rule rule, const std::vector<Rule>& served) {
  if (served.empty() || std::find(served.begin(), served.end(), rule) != served.end()) {
    return absl::OkStatus();
  }
  return Invalid("speculation.rule: ", acceptance::Name(rule),
                 " would be in force, and the target does not serve it; it serves ",
                 absl::StrJoin(served, ", ", [](std::string* out, Rule one) {
                   out->append(acceptance::Name(one));
                 }));
}

void FillLength(const v1::SpeculationOptions& options, LengthMode by_default,
                GenerationRequest& to) {
  to.length_mode = by_default;
  if (options.length_policy() == v1::LENGTH_POLICY_AUTO) to.length_mode = LengthMode::kAuto;
  if (options.length_policy() == v1::LENGTH_POLICY_HEURISTIC) {
    to.length_mode = LengthMode::kHeuristic;
  }
  if (options.draft_tokens_case() == v1::SpeculationOptions::kFixed) {
    to.draft_tokens = options.fixed();
  }
}

// The drafts say which drafters there are. A name that none of them offers would make every round
// plain.
absl::Status CheckOffered(absl::string_view field, const std::string& name,
                          const std::vector<std::string>& offered) {
  if (offered.empty() || std::find(offered.begin(), offered.end(), name) != offered.end()) {
    return absl::OkStatus();
  }
  return Invalid(field, " is \"", name, "\"; the drafts there are offer ",
                 absl::StrJoin(offered, ", "), ": take one of these, or leave it empty",
                 flags::DidYouMean(name, offered));
}

// Whether the drafts have this drafter in a list of those that can do something. While nobody has
// said which drafters there are, any may.
bool Can(const std::vector<std::string>& able, const std::string& drafter,
         const ModelFacts& model) {
  return model.drafters.empty() || std::find(able.begin(), able.end(), drafter) != able.end();
}

// Every drafter that the drafts offer, as far as it can make what the request asks for.
std::vector<std::string> AllDrafters(const v1::SpeculationOptions& options,
                                     const ModelFacts& model) {
  std::vector<std::string> all;
  for (const std::string& name : model.drafters) {
    if (options.draft_nodes() > 0 && !Can(model.tree_drafters, name, model)) continue;
    if (options.proposal() == v1::PROPOSAL_SAMPLED && !Can(model.sampling_drafters, name, model)) {
      continue;
    }
    if (all.size() < kMaxDrafters) all.push_back(name);
  }
  return all;
}

absl::Status CheckList(const std::vector<std::string>& names, const ModelFacts& model) {
  if (names.size() > kMaxDrafters) {
    return Invalid("speculation.drafters has ", names.size(), " names; it may have ", kMaxDrafters);
  }
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string field = absl::StrCat("speculation.drafters[", i, "]");
    if (names[i].empty()) return Invalid(field, " is empty; it must be a drafter's name");
    if (names[i] == kAnyDrafter) {
      return Invalid(field, " is \"", kAnyDrafter, "\", which stands alone: it means all drafters");
    }
    if (std::find(names.begin(), names.begin() + i, names[i]) != names.begin() + i) {
      return Invalid(field, " is \"", names[i], "\" again; name each drafter once");
    }
    TANDEM_RETURN_IF_ERROR(CheckOffered(field, names[i], model.drafters));
  }
  return absl::OkStatus();
}

// One drafter, or those among which the chooser chooses. "auto" alone is all that are offered;
// while no draft has said what it offers, it is a draft's default one.
absl::Status FillDrafters(const v1::SpeculationOptions& options, const ModelFacts& model,
                          GenerationRequest& to) {
  std::vector<std::string> names(options.drafters().begin(), options.drafters().end());
  if (!options.drafter().empty()) names.push_back(options.drafter());
  const bool is_default = names.empty();
  if (is_default) names = model.default_drafters;
  if (names.size() == 1 && names[0] == kAnyDrafter) {
    names = AllDrafters(options, model);
  } else if (!options.drafter().empty()) {
    TANDEM_RETURN_IF_ERROR(CheckOffered("speculation.drafter", names[0], model.drafters));
  } else {
    TANDEM_RETURN_IF_ERROR(CheckList(names, model));
  }
  if (names.size() == 1) to.drafter = std::move(names[0]);
  if (names.size() > 1) to.drafters = std::move(names);
  return absl::OkStatus();
}

std::vector<std::string> DraftersOf(const GenerationRequest& request) {
  return request.drafters.empty() ? std::vector<std::string>{request.drafter} : request.drafters;
}

// Each of the request's drafters has to be among `able`, those that `can`. `field` asks for it,
// with its value; any other drafter `lacks` it.
absl::Status CheckAble(const std::vector<std::string>& able, const std::string& field,
                       absl::string_view lacks, absl::string_view can, const ModelFacts& model,
                       const GenerationRequest& request) {
  for (const std::string& name : DraftersOf(request)) {
    if (Can(able, name, model)) continue;
    std::vector<std::string> names = able;
    names.erase(std::remove(names.begin(), names.end(), std::string()), names.end());
    return Invalid(
        field, ", and ",
        name.empty() ? "the drafts' default drafter" : absl::StrCat("drafter \"", name, "\""), " ",
        lacks, "; ",
        names.empty() ? "no drafter there can"
                      : absl::StrCat("those that ", can, " are ", absl::StrJoin(names, ", ")));
  }
  return absl::OkStatus();
}

absl::Status FillDrafter(const v1::SpeculationOptions& options, const ModelFacts& model,
                         GenerationRequest& to) {
  TANDEM_RETURN_IF_ERROR(FillDrafters(options, model, to));
  to.proposal = speculation::FromWire(options.proposal()).value_or(Proposal::kDefault);
  if (to.proposal == Proposal::kSampled) {
    TANDEM_RETURN_IF_ERROR(CheckAble(model.sampling_drafters,
                                     "speculation.proposal is PROPOSAL_SAMPLED",
                                     "has no q to draw from", "sample", model, to));
  }
  if (options.has_draft_temperature()) to.draft_temperature = options.draft_temperature();
  return absl::OkStatus();
}

// Whether the length policy chooses by measured times, and no text depends on the shape of a block.
bool ChoosesByTimes(const GenerationRequest& to) {
  return !to.draft_tokens.has_value() && to.length_mode == LengthMode::kAuto && to.shapes_blocks();
}

// The length policy may choose trees where they are served, and nothing in the request is of chains
// alone.
void LeaveNodesToPolicy(const v1::SpeculationOptions& options, const ModelFacts& model,
                        GenerationRequest& to) {
  if (!ChoosesByTimes(to)) return;
  if (options.draft_min_confidence() > 0) return;
  const uint32_t nodes = std::min(model.max_nodes, speculation::kMaxTreeNodes);
  if (nodes < kMinPolicyNodes) return;
  const std::vector<std::string> drafters = DraftersOf(to);
  to.auto_nodes = std::any_of(drafters.begin(), drafters.end(), [&](const std::string& drafter) {
    return Can(model.tree_drafters, drafter, model);
  });
  if (to.auto_nodes) to.draft_nodes = nodes;
}

// `field` of this value asks for `what`, which the draft's computed values shape.
absl::Status CheckShapesBlocks(absl::string_view field, double value, absl::string_view what,
                               const GenerationRequest& to) {
  if (to.shapes_blocks()) return absl::OkStatus();
  if (to.rule == Rule::kGreedy) {
    return Invalid(field, " is ", value, ", and speculation.draft_temperature is ",
                   *to.draft_temperature, ": under rule greedy ", what,
                   " needs a draft at temperature 0; leave one of them out");
  }
  return Invalid(field, " is ", value, ", and rule ", acceptance::Name(to.rule),
                 ", which would be in force, draws draft tokens from a q, so ", what,
                 " is not exact; leave it 0, or take rule greedy or coupled");
}

// Trees need a rule that is exact whatever the draft was, a target and a drafter that have them.
absl::Status FillNodes(const v1::SpeculationOptions& options, const ModelFacts& model,
                       GenerationRequest& to) {
  const uint32_t nodes = options.draft_nodes();
  if (!options.has_draft_nodes()) LeaveNodesToPolicy(options, model, to);
  if (nodes == 0) return absl::OkStatus();
  TANDEM_RETURN_IF_ERROR(CheckShapesBlocks("speculation.draft_nodes", nodes, "a tree", to));
  if (model.max_nodes < nodes) {
    return Invalid("speculation.draft_nodes is ", nodes,
                   model.max_nodes == 0
                       ? std::string(", and the target takes no trees: leave it 0")
                       : absl::StrCat("; the target takes trees of at most ", model.max_nodes));
  }
  TANDEM_RETURN_IF_ERROR(CheckAble(model.tree_drafters,
                                   absl::StrCat("speculation.draft_nodes is ", nodes),
                                   "makes only chains", "make trees", model, to));
  to.draft_nodes = nodes;
  return absl::OkStatus();
}

// What a drafter thinks of its draft tokens may end a block only where the text does not depend on
// them.
absl::Status FillMinConfidence(const v1::SpeculationOptions& options, GenerationRequest& to) {
  if (!options.has_draft_min_confidence()) return absl::OkStatus();
  to.draft_min_confidence = options.draft_min_confidence();
  if (options.draft_min_confidence() == 0) return absl::OkStatus();
  return CheckShapesBlocks("speculation.draft_min_confidence", options.draft_min_confidence(),
                           "a block that ends by confidence", to);
}

// Which prepared block is used depends on the target's token.
absl::Status FillPrepare(const v1::SpeculationOptions& options, const ModelFacts& model,
                         GenerationRequest& to) {
  const bool of_chains = options.draft_nodes() == 0 && options.draft_min_confidence() == 0;
  if (!options.has_prepare() && ChoosesByTimes(to) && of_chains) to.prepare = model.prepare;
  if (options.prepare() == 0) return absl::OkStatus();
  to.prepare = options.prepare();
  return CheckShapesBlocks("speculation.prepare", options.prepare(), "a block prepared in advance",
                           to);
}

}  // namespace

absl::Status FillSpeculation(const v1::GenerateRequest& request, const ModelFacts& model,
                             GenerationRequest& to) {
  TANDEM_RETURN_IF_ERROR(FillRule(request, to));
  TANDEM_RETURN_IF_ERROR(CheckServed(to.rule, model.rules));
  if (request.speculation().has_leniency()) to.leniency = request.speculation().leniency();
  FillLength(request.speculation(), model.length_mode, to);
  TANDEM_RETURN_IF_ERROR(FillDrafter(request.speculation(), model, to));
  TANDEM_RETURN_IF_ERROR(FillNodes(request.speculation(), model, to));
  TANDEM_RETURN_IF_ERROR(FillMinConfidence(request.speculation(), to));
  return FillPrepare(request.speculation(), model, to);
}

}  // namespace tandem::orchestrator
