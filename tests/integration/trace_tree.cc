#include "tests/integration/trace_tree.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/telemetry/attributes.h"

namespace tandem::testing {
namespace {

using telemetry::SpanKind;

constexpr char kOrchestrator[] = "tandem-orchestrator";
constexpr char kDraft[] = "tandem-draft";
constexpr char kTarget[] = "tandem-target";

// A stage's attribute, and where it is in a record.
constexpr std::pair<const char*, uint64_t (v1::Stages::*)() const> kStages[] = {
    {telemetry::kStageDraft, &v1::Stages::draft_us},
    {telemetry::kStageNetwork, &v1::Stages::network_us},
    {telemetry::kStageSlot, &v1::Stages::slot_us},
    {telemetry::kStageQueue, &v1::Stages::queue_us},
    {telemetry::kStageDevice, &v1::Stages::device_us},
    {telemetry::kStageOwn, &v1::Stages::own_us}};

class Problems {
 public:
  void Check(bool good, const std::string& what) {
    if (!good && text_.size() < 2000) absl::StrAppend(&text_, what, "\n");
  }
  // Give or take `off` microseconds.
  void Near(int64_t a, int64_t b, int64_t off, const std::string& what) {
    Check(a - b <= off && b - a <= off, absl::StrCat(what, ": ", a, " and ", b));
  }
  void Is(const FinishedSpan& span, const char* service, SpanKind kind) {
    Check(span.service == service, absl::StrCat(span.name, " of ", span.service));
    Check(span.kind == kind, absl::StrCat(span.name, ": kind"));
    Check(!span.error.has_value(), absl::StrCat(span.name, ": ", span.error.value_or("")));
  }
  std::string text() && { return std::move(text_); }

 private:
  std::string text_;
};

int64_t Micros(absl::Duration duration) { return absl::ToInt64Microseconds(duration); }

int64_t Order(const FinishedSpan& round) {
  return round.Int(telemetry::kSampleIndex) * 1'000'000 + round.Int(telemetry::kRound);
}

// Of what the orchestrator waited for a peer, what the peer says that it had it.
int64_t Reported(const FinishedSpan& peer, int64_t waited) {
  return std::min(waited, peer.Int(telemetry::kQueued) + peer.Int(telemetry::kComputed));
}

void CheckRound(const RoundNode& round, const v1::RoundRecord& record, Problems& problems) {
  const FinishedSpan& span = round.span;
  problems.Is(span, kOrchestrator, SpanKind::kInternal);
  int64_t network = 0;
  problems.Check(round.propose.size() <= 1, "two proposals");
  for (const ProposeNode& node : round.propose) {
    problems.Is(node.span, kOrchestrator, SpanKind::kClient);
    problems.Check(node.at_draft.size() == 1, "an Advance without its one span at the draft");
    if (node.at_draft.size() != 1) continue;
    problems.Is(node.at_draft[0], kDraft, SpanKind::kServer);
    const int64_t waited = Micros(node.span.duration);
    network += waited - Reported(node.at_draft[0], waited);
  }
  problems.Check(!round.verify.empty(), "a round without a Step");
  for (const VerifyNode& node : round.verify) {
    if (node.answered()) problems.Is(node.span, kOrchestrator, SpanKind::kClient);
    if (!node.answered()) {  // it may never have arrived
      problems.Check(node.at_target.size() <= 1, "a Step with two spans at the target");
      continue;
    }
    problems.Check(node.at_target.size() == 1, "a Step without its one span at the target");
    if (node.at_target.size() != 1) continue;
    const FinishedSpan& step = node.at_target[0];
    problems.Is(step, kTarget, SpanKind::kServer);
    for (const char* same : {telemetry::kQueued, telemetry::kComputed, telemetry::kPassId}) {
      problems.Check(step.Int(same) == node.span.Int(same), absl::StrCat(same, " at both ends"));
    }
    const int64_t waited = Micros(node.span.duration);
    network += waited - Reported(step, waited);
  }
  int64_t sum = 0;
  for (const auto& [name, of] : kStages) {
    problems.Check(span.Int(name) == static_cast<int64_t>((record.stages().*of)()), name);
    problems.Check(span.Int(name) >= 0, absl::StrCat(name, " is negative"));
    sum += span.Int(name);
  }
  problems.Near(sum, Micros(span.duration), std::size(kStages), "sum of stages and duration");
  const auto parts = static_cast<int64_t>(2 * (round.propose.size() + round.verify.size()) + 1);
  problems.Near(span.Int(telemetry::kStageNetwork), network, parts,
                "network and what was waited less what peers report");
  problems.Check(span.Int(telemetry::kDrafted) == record.draft_tokens(), "draft_tokens");
  problems.Check(span.Int(telemetry::kAccepted) == record.accepted_tokens(), "accepted_tokens");
  problems.Check(span.Int(telemetry::kTokens) == record.tokens(), "tokens");
  problems.Check(span.Has(telemetry::kCause) == !record.cause().empty(), "cause");
  problems.Check(span.Int(telemetry::kPassId) == static_cast<int64_t>(record.pass_id()), "pass");
  problems.Check(!round.verify.empty() && round.verify.back().span.Int(telemetry::kPassId) ==
                                              span.Int(telemetry::kPassId),
                 "the pass that decided it");
}

// The records and Last tell the same; a record's stages are cut to whole microseconds each.
void CheckSums(const v1::Last& last, const std::vector<v1::RoundRecord>& records,
               Problems& problems) {
  uint64_t drafted = 0;
  uint64_t accepted = 0;
  uint64_t tokens = 0;
  std::map<std::string, uint64_t> sums;  // by stage
  for (const v1::RoundRecord& record : records) {
    drafted += record.draft_tokens();
    accepted += record.accepted_tokens();
    tokens += record.tokens();
    for (const auto& [name, of] : kStages) sums[name] += (record.stages().*of)();
  }
  problems.Check(drafted == last.speculation().draft_tokens(), "sum of drafted");
  problems.Check(accepted == last.speculation().accepted_tokens(), "sum of accepted");
  problems.Check(tokens == last.usage().completion_tokens(), "sum of tokens");
  const auto off = static_cast<int64_t>(records.size());
  for (const auto& [name, of] : kStages) {
    problems.Near(static_cast<int64_t>(sums[name]),
                  static_cast<int64_t>((last.timing().stages().*of)()), off,
                  absl::StrCat("sum of ", name));
  }
}

}  // namespace

size_t Unanswered(const TraceTree& tree) {
  size_t count = 0;
  for (const RoundNode& round : tree.rounds) {
    for (const VerifyNode& node : round.verify) count += node.answered() ? 0 : 1;
  }
  return count;
}

bool VerifyNode::answered() const {
  return span.Has(telemetry::kStatus) && span.Text(telemetry::kStatus) == "OK";
}

std::map<std::string, TraceTree> TreesOf(const std::vector<FinishedSpan>& spans) {
  std::map<std::string, TraceTree> trees;
  for (const FinishedSpan& span : spans) {
    if (span.name == telemetry::kGenerateSpan) trees[span.trace_id].generate = span;
  }
  std::map<std::string, std::vector<FinishedSpan>> children;  // by parent
  for (const FinishedSpan& span : spans) {
    const auto tree = trees.find(span.trace_id);
    if (tree == trees.end() || span.name == telemetry::kGenerateSpan) continue;
    children[span.parent_id].push_back(span);
    tree->second.strangers[span.span_id] = span;
  }
  for (auto& [trace_id, tree] : trees) {
    const auto take = [&children, &strangers = tree.strangers](const FinishedSpan& parent,
                                                               const char* name) {
      std::vector<FinishedSpan> taken;
      for (const FinishedSpan& span : children[parent.span_id]) {
        if (span.name != name) continue;
        taken.push_back(span);
        strangers.erase(span.span_id);
      }
      std::stable_sort(taken.begin(), taken.end(),
                       [](const auto& a, const auto& b) { return a.start < b.start; });
      return taken;
    };
    for (FinishedSpan& round : take(tree.generate, telemetry::kRoundSpan)) {
      RoundNode node{std::move(round), {}, {}};
      for (FinishedSpan& propose : take(node.span, telemetry::kProposeSpan)) {
        node.propose.push_back({propose, take(propose, telemetry::kDraftServiceSpan)});
      }
      for (FinishedSpan& verify : take(node.span, telemetry::kVerifySpan)) {
        node.verify.push_back({verify, take(verify, telemetry::kStepSpan)});
      }
      tree.rounds.push_back(std::move(node));
    }
    std::sort(tree.rounds.begin(), tree.rounds.end(),
              [](const auto& a, const auto& b) { return Order(a.span) < Order(b.span); });
  }
  return trees;
}

std::map<std::string, FinishedSpan> PassesOf(const std::vector<FinishedSpan>& spans) {
  std::map<std::string, FinishedSpan> passes;
  for (const FinishedSpan& span : spans) {
    if (span.name == telemetry::kPassSpan) passes[span.span_id] = span;
  }
  return passes;
}

bool IsWhole(const std::vector<FinishedSpan>& spans, size_t requests) {
  const auto trees = TreesOf(spans);
  const auto passes = PassesOf(spans);
  if (trees.size() != requests) return false;
  for (const auto& [trace_id, tree] : trees) {
    for (const RoundNode& round : tree.rounds) {
      for (const ProposeNode& node : round.propose) {
        if (node.at_draft.empty()) return false;
      }
      for (const VerifyNode& node : round.verify) {
        if (!node.answered()) continue;
        if (node.at_target.empty()) return false;
        for (const auto& link : node.at_target[0].links) {
          if (!passes.contains(telemetry::SpanIdHex(link))) return false;
        }
      }
    }
  }
  return true;
}

std::string ProblemsOf(const TraceTree& tree, const v1::Last& last,
                       const std::vector<v1::RoundRecord>& records) {
  Problems problems;
  problems.Is(tree.generate, kOrchestrator, SpanKind::kServer);
  for (const auto& [id, span] : tree.strangers) {
    problems.Check(false, absl::StrCat(span.name, " hangs nowhere"));
  }
  problems.Check(tree.generate.Int(telemetry::kOutputTokens) == last.usage().completion_tokens(),
                 "output tokens");
  problems.Check(tree.generate.Int(telemetry::kPromptTokens) == last.usage().prompt_tokens(),
                 "prompt tokens");
  problems.Check(tree.rounds.size() == last.speculation().rounds(),
                 absl::StrCat(tree.rounds.size(), " rounds in the trace, ",
                              last.speculation().rounds(), " in the record"));
  CheckSums(last, records, problems);
  std::map<std::pair<uint32_t, uint32_t>, const v1::RoundRecord*> by_number;
  for (const v1::RoundRecord& record : records) {
    by_number[{record.sample_index(), record.number()}] = &record;
  }
  for (const RoundNode& round : tree.rounds) {
    const auto it = by_number.find({static_cast<uint32_t>(round.span.Int(telemetry::kSampleIndex)),
                                    static_cast<uint32_t>(round.span.Int(telemetry::kRound))});
    if (it == by_number.end()) {
      problems.Check(false, "a round without a record");
      continue;
    }
    CheckRound(round, *it->second, problems);
  }
  return std::move(problems).text();
}

std::string ProblemsOfPasses(const std::map<std::string, TraceTree>& trees,
                             const std::map<std::string, FinishedSpan>& passes) {
  Problems problems;
  std::set<std::string> verifies;                        // all of them
  std::map<std::string, std::set<std::string>> decided;  // verifies by pass
  for (const auto& [trace_id, tree] : trees) {
    for (const RoundNode& round : tree.rounds) {
      for (const VerifyNode& node : round.verify) {
        verifies.insert(node.span.span_id);
        if (!node.answered() || node.at_target.size() != 1) continue;
        const FinishedSpan& step = node.at_target[0];
        problems.Check(step.links.size() == 1, absl::StrCat("links: ", step.links.size()));
        if (step.links.size() != 1) continue;
        const std::string id = telemetry::SpanIdHex(step.links[0]);
        const auto pass = passes.find(id);
        problems.Check(pass != passes.end(), "a link to no pass");
        if (pass == passes.end()) continue;
        problems.Check(pass->second.trace_id == telemetry::TraceIdHex(step.links[0]),
                       "a link to another trace");
        problems.Check(pass->second.Int(telemetry::kPassId) == step.Int(telemetry::kPassId),
                       "a link to another pass");
        decided[id].insert(node.span.span_id);
      }
    }
  }
  for (const auto& [id, pass] : passes) {
    problems.Is(pass, kTarget, SpanKind::kInternal);
    problems.Check(pass.parent_id.empty(), "a pass under something");
    problems.Check(!trees.contains(pass.trace_id), "a pass in a request's trace");
    std::set<std::string> served;
    for (const auto& link : pass.links) {
      problems.Check(verifies.contains(telemetry::SpanIdHex(link)), "a link to no verify");
      served.insert(telemetry::SpanIdHex(link));
    }
    problems.Check(served.size() == pass.links.size(), "a verify linked twice");
    problems.Near(static_cast<int64_t>(served.size()), pass.Int(telemetry::kPassSequences), 0,
                  "links and sequences of a pass");
    for (const std::string& verify : decided[id]) {
      problems.Check(served.contains(verify), "a Step's pass does not link to it");
    }
  }
  return std::move(problems).text();
}

}  // namespace tandem::testing
