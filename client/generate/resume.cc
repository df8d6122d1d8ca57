#include "client/generate/resume.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tandem::client {
namespace {

// What the seed promises under the rule in force.
std::string Promise(v1::Rule rule) {
  if (rule == v1::RULE_GREEDY || rule == v1::RULE_COUPLED) {
    return absl::StrCat("rule ", RuleName(rule), ": the same tokens follow");
  }
  return absl::StrCat("rule ", RuleName(rule), ": other tokens may follow");
}

}  // namespace

std::vector<uint32_t> PrefixIds(const Outcome& outcome, const v1::GenerateRequest& request,
                                size_t index) {
  std::vector<uint32_t> ids(request.output_prefix_ids().begin(), request.output_prefix_ids().end());
  const std::vector<uint32_t>& more = outcome.samples[index].token_ids;
  ids.insert(ids.end(), more.begin(), more.end());
  return ids;
}

std::string ResumeHint(const Outcome& outcome, const v1::GenerateRequest& request) {
  if (!outcome.has_started()) return "";
  const v1::Rule rule = outcome.started.rule();
  std::string text = absl::StrCat("to go on from here, repeat the command with what follows (",
                                  Promise(rule), "):\n");
  // A seed would make another rule the default.
  const bool name_rule =
      request.speculation().rule() == v1::RULE_UNSPECIFIED && rule != v1::RULE_GREEDY;
  for (size_t i = 0; i < outcome.samples.size(); ++i) {
    absl::StrAppend(&text, "  --seed=", outcome.started.seed());
    if (name_rule) absl::StrAppend(&text, " --rule=", RuleName(rule));
    const uint64_t index = request.first_sample() + i;
    if (outcome.samples.size() > 1) absl::StrAppend(&text, " --samples=1");
    if (index > 0) absl::StrAppend(&text, " --first-sample=", index);
    const std::vector<uint32_t> ids = PrefixIds(outcome, request, i);
    if (ids.size() > kMaxHintedIds) {
      absl::StrAppend(&text, " and its ", ids.size(),
                      " ids as --output-prefix-ids (--record=FILE and --format=json tell them)");
    } else if (!ids.empty()) {
      absl::StrAppend(&text, " --output-prefix-ids=", absl::StrJoin(ids, ","));
    }
    text += "\n";
  }
  return text;
}

}  // namespace tandem::client
