#include "orchestrator/generate/speculation_validation.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/flags/nearest_name.h"
#include "common/speculation/proposal_codec.h"
#include "orchestrator/draft/length/draft_shapes.h"
#include "orchestrator/generate/invalid.h"

namespace tandem::orchestrator {
namespace {

using acceptance::Rule;

// At temperature 0 every rule but lenient is greedy.
absl::Status FillRule(const v1::GenerateRequest& request, GenerationRequest& to) {
  const v1::SpeculationOptions& options = request.speculation();
  const bool greedy = to.sampling.greedy();
  switch (options.rule()) {
    case v1::RULE_UNSPECIFIED:
      to.rule = request.has_seed() ? Rule::kCoupled : Rule::kSpeculative;
      break;
    case v1::RULE_GREEDY:
      if (!greedy) {
        return Invalid("speculation.rule is RULE_GREEDY at temperature ", to.sampling.temperature,
                       "; it needs temperature 0");
      }
      break;
    case v1::RULE_SPECULATIVE:
      to.rule = Rule::kSpeculative;
      break;
    case v1::RULE_BLOCK:
      to.rule = Rule::kBlock;
      break;
    case v1::RULE_COUPLED:
      to.rule = Rule::kCoupled;
      break;
    case v1::RULE_LENIENT:
      to.rule = Rule::kLenient;
      return absl::OkStatus();
    default:
      return Invalid("speculation.rule is ", static_cast<int>(options.rule()),
                     ", which is not known; it must be 0 to ", v1::Rule_MAX);
  }
  if (greedy) to.rule = Rule::kGreedy;
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

absl::Status FillLeniency(const v1::SpeculationOptions& options, GenerationRequest& to) {
  const bool lenient = to.rule == Rule::kLenient;
  if (!lenient && options.has_leniency()) {
    return Invalid("speculation.leniency is ", options.leniency(),
                   ", but speculation.rule is not RULE_LENIENT: leave leniency out, or take that "
                   "rule");
  }
  if (!lenient) return absl::OkStatus();
  if (!options.has_leniency()) {
    return Invalid("speculation.leniency is missing: RULE_LENIENT needs it, above 0 and at most 1");
  }
  if (!(options.leniency() > 0 && options.leniency() <= 1)) {
    return Invalid("speculation.leniency is ", options.leniency(),
                   "; it must be above 0 and at most 1");
  }
  to.leniency = options.leniency();
  return absl::OkStatus();
}

absl::Status FillLength(const v1::SpeculationOptions& options, LengthMode by_default,
                        GenerationRequest& to) {
  to.length_mode = by_default;
  switch (options.length_policy()) {
    case v1::LENGTH_POLICY_UNSPECIFIED:
      break;
    case v1::LENGTH_POLICY_AUTO:
      to.length_mode = LengthMode::kAuto;
      break;
    case v1::LENGTH_POLICY_HEURISTIC:
      to.length_mode = LengthMode::kHeuristic;
      break;
    default:
      return Invalid("speculation.length_policy is ", static_cast<int>(options.length_policy()),
                     ", which is not known; it must be 0 to ", v1::LengthPolicy_MAX);
  }
  if (options.draft_tokens_case() == v1::SpeculationOptions::kFixed &&
      options.length_policy() != v1::LENGTH_POLICY_UNSPECIFIED) {
    return Invalid("speculation.length_policy is ", v1::LengthPolicy_Name(options.length_policy()),
                   ", but speculation.fixed is ", options.fixed(), ": leave one of them out");
  }
  if (options.draft_tokens_case() == v1::SpeculationOptions::kFixed) {
    if (options.fixed() > kMaxDraftTokens) {
      return Invalid("speculation.fixed is ", options.fixed(), "; it must be 0 to ",
                     kMaxDraftTokens);
    }
    to.draft_tokens = options.fixed();
  } else if (options.draft_tokens_case() == v1::SpeculationOptions::kAuto && !options.auto_()) {
    return Invalid("speculation.auto is false; give speculation.fixed, 0 for no draft");
  }
  return absl::OkStatus();
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

// Whether the drafts have this drafter in a list of those that can do something. While nobody has said which
// drafters there are, any may.
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

// One drafter, or those among which the chooser chooses. "auto" alone is all that are offered; while
// no draft has said what it offers, it is a draft's default one.
absl::Status FillDrafters(const v1::SpeculationOptions& options, const ModelFacts& model,
                          GenerationRequest& to) {
  if (!options.drafter().empty() && options.drafters_size() > 0) {
    return Invalid("speculation.drafter is \"", options.drafter(),
                   "\", and speculation.drafters is given too: leave one of them out");
  }
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

// Each of the request's drafters has to be among `able`, those that `can`. `field` asks for it, with its value;
// any other drafter `lacks` it.
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
  const std::optional<Proposal> proposal = speculation::FromWire(options.proposal());
  if (!proposal.has_value()) {
    return Invalid("speculation.proposal is ", static_cast<int>(options.proposal()),
                   ", which is not known; it must be 0 to ", v1::Proposal_MAX);
  }
  to.proposal = *proposal;
  if (to.proposal == Proposal::kSampled) {
    TANDEM_RETURN_IF_ERROR(CheckAble(model.sampling_drafters,
                                     "speculation.proposal is PROPOSAL_SAMPLED",
                                     "has no q to draw from", "sample", model, to));
  }
  if (!options.has_draft_temperature()) return absl::OkStatus();
  const double temperature = options.draft_temperature();
  if (!(temperature >= 0 && temperature <= sampling::kMaxTemperature)) {
    return Invalid("speculation.draft_temperature is ", temperature, "; it must be from 0 to ",
                   sampling::kMaxTemperature);
  }
  if (options.draft_tokens_case() == v1::SpeculationOptions::kFixed && options.fixed() == 0) {
    return Invalid("speculation.draft_temperature is ", temperature,
                   ", but speculation.fixed is 0: there is no draft; leave one of them out");
  }
  to.draft_temperature = temperature;
  return absl::OkStatus();
}

// The length policy may choose trees where they are served, and nothing in the request is of chains alone.
void LeaveNodesToPolicy(const v1::SpeculationOptions& options, const ModelFacts& model,
                        GenerationRequest& to) {
  const bool by_times = !to.draft_tokens.has_value() && to.length_mode == LengthMode::kAuto;
  if (!by_times || !to.shapes_blocks()) return;
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
                 ", which would be in force, draws candidates from a q, so ", what,
                 " is not exact; leave it 0, or take rule greedy or coupled");
}

// Trees need a rule that is exact whatever the draft was, a target and a drafter that have them.
absl::Status FillNodes(const v1::SpeculationOptions& options, const ModelFacts& model,
                       GenerationRequest& to) {
  const uint32_t nodes = options.draft_nodes();
  if (!options.has_draft_nodes()) LeaveNodesToPolicy(options, model, to);
  if (nodes == 0) return absl::OkStatus();
  if (nodes > speculation::kMaxTreeNodes) {
    return Invalid("speculation.draft_nodes is ", nodes, "; it must be 0 to ",
                   speculation::kMaxTreeNodes);
  }
  if (to.draft_tokens == 0u) {
    return Invalid("speculation.draft_nodes is ", nodes,
                   ", but speculation.fixed is 0: there is no draft; leave one of them out");
  }
  TANDEM_RETURN_IF_ERROR(CheckShapesBlocks("speculation.draft_nodes", nodes, "a tree", to));
  if (model.max_nodes < nodes) {
    return Invalid("speculation.draft_nodes is ", nodes,
                   model.max_nodes == 0
                       ? std::string(", and the target takes no trees: leave it 0")
                       : absl::StrCat("; the target takes trees of at most ", model.max_nodes));
  }
  TANDEM_RETURN_IF_ERROR(CheckAble(model.tree_drafters,
                                   absl::StrCat("speculation.draft_nodes is ", nodes),
                                   "makes chains alone", "make trees", model, to));
  to.draft_nodes = nodes;
  return absl::OkStatus();
}

// What a drafter thinks of its candidates may end a block only where the text does not depend on them.
absl::Status FillMinConfidence(const v1::SpeculationOptions& options, GenerationRequest& to) {
  if (!options.has_draft_min_confidence()) return absl::OkStatus();
  const float least = options.draft_min_confidence();
  if (!(least >= 0 && least <= 1)) {
    return Invalid("speculation.draft_min_confidence is ", least, "; it must be 0 to 1");
  }
  to.draft_min_confidence = least;
  if (least == 0) return absl::OkStatus();
  if (to.draft_tokens == 0u) {
    return Invalid("speculation.draft_min_confidence is ", least,
                   ", but speculation.fixed is 0: there is no draft; leave one of them out");
  }
  TANDEM_RETURN_IF_ERROR(CheckShapesBlocks("speculation.draft_min_confidence", least,
                                           "a block that ends by confidence", to));
  if (options.draft_nodes() > 0) {
    return Invalid("speculation.draft_min_confidence is ", least,
                   ", and speculation.draft_nodes is ", to.draft_nodes,
                   ": it ends chains; leave one of them out");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FillSpeculation(const v1::GenerateRequest& request, const ModelFacts& model,
                             GenerationRequest& to) {
  TANDEM_RETURN_IF_ERROR(FillRule(request, to));
  TANDEM_RETURN_IF_ERROR(CheckServed(to.rule, model.rules));
  TANDEM_RETURN_IF_ERROR(FillLeniency(request.speculation(), to));
  TANDEM_RETURN_IF_ERROR(FillLength(request.speculation(), model.length_mode, to));
  TANDEM_RETURN_IF_ERROR(FillDrafter(request.speculation(), model, to));
  TANDEM_RETURN_IF_ERROR(FillNodes(request.speculation(), model, to));
  return FillMinConfidence(request.speculation(), to);
}

}  // namespace tandem::orchestrator
