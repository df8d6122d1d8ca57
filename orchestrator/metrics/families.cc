#include "orchestrator/metrics/families.h"

#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/theory/acceptance.h"
#include "orchestrator/request/failure_cause.h"

namespace tandem::orchestrator {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr absl::string_view kStageNames[kStages] = {"draft", "network", "slot",
                                                    "queue", "device",  "own"};

MetricFamily Family(absl::string_view name, MetricType type, absl::string_view help) {
  MetricFamily family;
  family.name = absl::StrCat("tandem:", name);
  family.help = std::string(help);
  family.type = type;
  return family;
}

ClientMetric& AddSeries(MetricFamily& family, absl::string_view label = {},
                        absl::string_view value = {}) {
  ClientMetric& series = family.metric.emplace_back();
  if (!label.empty()) series.label.push_back({std::string(label), std::string(value)});
  return series;
}

// One after another, each with what it says.
class Builder {
 public:
  void Gauge(absl::string_view name, double value, absl::string_view help) {
    MetricFamily& family = Begin(name, MetricType::Gauge, help);
    AddSeries(family).gauge.value = value;
  }
  void Counter(absl::string_view name, uint64_t value, absl::string_view help) {
    MetricFamily& family = Begin(name, MetricType::Counter, help);
    AddSeries(family).counter.value = static_cast<double>(value);
  }
  // One series per element; `name_of(i)` is its label's value.
  template <typename NameOf>
  void Counters(absl::string_view name, absl::Span<const uint64_t> values, absl::string_view label,
                NameOf name_of, absl::string_view help) {
    MetricFamily& family = Begin(name, MetricType::Counter, help);
    for (size_t i = 0; i < values.size(); ++i) {
      AddSeries(family, label, name_of(i)).counter.value = static_cast<double>(values[i]);
    }
  }
  // `failed`: by status code; that of OK is left out.
  void Failures(absl::Span<const uint64_t> failed) {
    MetricFamily& family = Begin(
        "request_failure_total", MetricType::Counter,
        "Requests that did not end OK, by gRPC status and by the side that must act: client: "
        "refused for its content, or cancelled; load: no capacity, or not in time; server: failed "
        "here.");
    for (size_t i = 1; i < failed.size(); ++i) {
      const auto code = static_cast<absl::StatusCode>(i);
      ClientMetric& series = AddSeries(family, "code", absl::StatusCodeToString(code));
      series.label.push_back({"cause", Name(CauseOf(code))});
      series.counter.value = static_cast<double>(failed[i]);
    }
  }
  void Distribution(absl::string_view name, const Histogram& values, absl::string_view help) {
    MetricFamily& family = Begin(name, MetricType::Histogram, help);
    AddSeries(family).histogram = values.Export();
  }
  void Stages(absl::string_view name, absl::Span<const Histogram> stages, absl::string_view help) {
    MetricFamily& family = Begin(name, MetricType::Histogram, help);
    for (size_t i = 0; i < stages.size(); ++i) {
      AddSeries(family, "stage", kStageNames[i]).histogram = stages[i].Export();
    }
  }

  std::vector<MetricFamily> Take() { return std::move(families_); }

 private:
  MetricFamily& Begin(absl::string_view name, MetricType type, absl::string_view help) {
    return families_.emplace_back(Family(name, type, help));
  }

  std::vector<MetricFamily> families_;
};

void AddRequests(const Totals& totals, Builder& to) {
  to.Gauge("num_requests_running", static_cast<double>(totals.running),
           "Running requests: admitted, not ended.");
  to.Gauge("num_requests_waiting", static_cast<double>(totals.waiting),
           "Valid requests waiting for admission.");
  to.Counter("prompt_tokens_total", totals.prompt_tokens,
             "Prompt tokens, counted with a request's first token, once for all of its samples.");
  to.Counter("generation_tokens_total", totals.generation_tokens,
             "Generated tokens, including those of requests that failed later.");
  to.Counters(
      "request_success_total", totals.succeeded, "finished_reason",
      [](size_t i) { return static_cast<Finish>(i) == Finish::kStop ? "stop" : "length"; },
      "Requests that ended OK, by the finish reason of their first sample.");
  to.Failures(totals.failed);
  to.Counter("requests_with_ignored_fields_total", totals.requests_with_ignored_fields,
             "Requests with unknown fields that do not change the text: their clients are newer.");
  to.Distribution("time_to_first_token_seconds", totals.time_to_first_token,
                  "From a request's arrival to its first decided round, admission included.");
  to.Distribution(
      "inter_token_latency_seconds", totals.inter_token_latency,
      "Time per token: of each round except a text's first, the time since the previous round "
      "divided by its tokens, observed once per token. (vLLM observes the undivided time once per "
      "step.)");
  to.Distribution("e2e_request_latency_seconds", totals.e2e_request_latency,
                  "From arrival to the end, of requests that ended OK.");
  to.Distribution("request_queue_time_seconds", totals.request_queue_time,
                  "From arrival to admission, of requests that were admitted.");
  to.Distribution("request_prefill_time_seconds", totals.request_prefill_time,
                  "From admission to the first decided round, of requests that ended OK.");
  to.Distribution("request_decode_time_seconds", totals.request_decode_time,
                  "From the first decided round to the end, of requests that ended OK.");
  to.Distribution("request_prompt_tokens", totals.request_prompt_tokens,
                  "Tokens of a request's prompt, of requests that ended OK.");
  to.Distribution("request_generation_tokens", totals.request_generation_tokens,
                  "Tokens of a request's text, all samples together, of requests that ended OK.");
  to.Distribution("request_params_n", totals.request_params_n,
                  "Samples a request asked for, of requests that ended OK.");
  to.Distribution("request_params_max_tokens", totals.request_params_max_tokens,
                  "max_tokens in force, of requests that ended OK.");
}

// Of requests that allow several drafters.
void AddDrafters(const Totals& totals, Builder& to) {
  const auto name_of = [&](size_t i) {
    return i < totals.drafter_names.size() ? totals.drafter_names[i] : std::string("other");
  };
  const auto add = [&](absl::string_view name, uint64_t DrafterCounts::*count,
                       absl::string_view help) {
    std::vector<uint64_t> values(totals.drafter_names.size());
    for (size_t i = 0; i < values.size(); ++i) values[i] = totals.drafters[i].*count;
    // Always there: no family without a sample.
    values.push_back(totals.drafters[kMaxDrafters].*count);
    to.Counters(name, values, "drafter", name_of, help);
  };
  add("drafter_rounds_total", &DrafterCounts::rounds,
      "Rounds for which a drafter was chosen, where the request allows several.");
  add("drafter_draft_tokens_total", &DrafterCounts::draft_tokens,
      "Verified draft tokens of each drafter, where the request allows several.");
  add("drafter_accepted_tokens_total", &DrafterCounts::accepted_tokens,
      "Accepted draft tokens of each drafter, where the request allows several.");
  add("drafter_generation_tokens_total", &DrafterCounts::tokens,
      "Tokens that texts got in the rounds of each drafter, where the request allows several.");
  std::array<uint64_t, kDrafterReasons> reasons = {};
  for (const DrafterCounts& one : totals.drafters) {
    for (int i = 0; i < kDrafterReasons; ++i) reasons[i] += one.reasons[i];
  }
  to.Counters(
      "drafter_chosen_rounds_total", reasons, "reason",
      [](size_t i) { return Name(static_cast<DrafterReason>(i)); },
      "The same rounds, by the reason of the choice.");
}

void AddSpeculation(const Totals& totals, Builder& to) {
  to.Counter("spec_decode_num_drafts_total", totals.drafts,
             "Verified blocks of draft tokens: rounds with a draft.");
  to.Counter("spec_decode_num_draft_tokens_total", totals.draft_tokens,
             "Verified draft tokens; of trees all nodes.");
  to.Counter(
      "tree_drafts_total", totals.tree_drafts,
      "Verified trees of draft tokens: at most the tokens of one path are accepted of each.");
  to.Counter("spec_decode_num_accepted_tokens_total", totals.accepted_tokens,
             "Accepted draft tokens, including those past the end of a text.");
  to.Counters(
      "spec_decode_num_accepted_tokens_per_pos_total", totals.accepted_at, "position",
      [](size_t i) { return absl::StrCat(i); },
      "Accepted draft tokens by their position in the block.");
  to.Counter("rejected_rounds_total", totals.rejected_rounds,
             "Rounds in which a draft token was rejected.");
  to.Gauge(
      "alpha_hat", theory::EstimateAlpha(totals.accepted_tokens, totals.rejected_rounds),
      "Estimated probability that a tested draft token is accepted (in a tree: one of a node's "
      "children), since the start: accepted / (accepted + rejected rounds).");
  to.Counters(
      "length_chosen_rounds_total", totals.chosen_lengths, "length",
      [](size_t i) { return absl::StrCat(i); },
      "Rounds by the number of draft tokens that the length policy chose.");
  to.Counters(
      "length_zero_rounds_total", totals.zero_rounds, "cause",
      [](size_t i) { return Name(static_cast<ZeroCause>(i)); },
      "Rounds for which the length policy chose no draft, by its reason.");
  to.Gauge(
      "length_alpha", totals.estimates.alpha.value_or(0),
      "The length policy's last estimate of the probability that a draft token is accepted; 0 = "
      "no estimate.");
  to.Gauge("length_draft_token_seconds",
           absl::ToDoubleSeconds(totals.estimates.draft_token.value_or(absl::ZeroDuration())),
           "The length policy's last estimate of the time of one more draft token; 0 = no "
           "estimate.");
  to.Gauge(
      "length_min_confidence", totals.estimates.min_confidence.value_or(0),
      "The length policy's last choice of the confidence below which a block ends; 0 = no such "
      "choice.");
  AddDrafters(totals, to);
  to.Counter("one_hot_blocks_total", totals.one_hot_blocks,
             "Blocks whose probabilities the target refused, so they were verified as one-hot; "
             "counted when a text ends.");
}

void AddRounds(const Totals& totals, Builder& to) {
  to.Counter("rounds_total", totals.rounds, "Decided rounds: passes of the target for a text.");
  to.Counters(
      "rounds_without_draft_total", totals.rounds_without_draft, "cause",
      [](size_t i) { return Name(static_cast<PlainCause>(i)); },
      "Rounds without a draft, by cause.");
  to.Counters(
      "prepared_rounds_total", absl::MakeConstSpan(totals.prepared_rounds).subspan(1), "use",
      [](size_t i) { return Name(static_cast<PreparedUse>(i + 1)); },
      "Rounds for which the draft was to prepare blocks: hit, one was for the verdict; chained, "
      "the "
      "target had it, too; miss; late, none had come.");
  to.Counter("cut_tokens_total", totals.cut_tokens,
             "Accepted or drawn tokens past the end of a text: generation_tokens = accepted + "
             "rounds - cut.");
  to.Counter("stale_blocks_total",
             totals.rounds_without_draft[static_cast<size_t>(PlainCause::kDraftStale)],
             "Blocks that could not be used, since the draft did not hold the prefix to build on.");
  to.Counter("cached_tokens_total", totals.cached_tokens,
             "Prompt tokens that targets took from other texts of a cache_scope");
  to.Counter("target_replays_total", totals.target_replays,
             "Replays: a text's whole prefix was sent to a target again; counted when the text "
             "ends.");
  to.Counter("draft_reconnections_total", totals.draft_reconnections,
             "Reconnections to a draft of a text that had lost one; counted when the text ends.");
  to.Distribution("round_seconds", totals.round_seconds,
                  "Time of a round, from its beginning to its decision.");
  to.Distribution("round_draft_queue_seconds", totals.round_draft_queue,
                  "Part of a round's stage draft: waiting for the draft's thread, as the draft "
                  "reports it; observed once per round.");
  to.Stages("round_stage_seconds", totals.stage_seconds,
            "A round's time by stage, each observed once per round; they add up to round_seconds. "
            "draft: waiting for the block; network: waiting, less what the peers report; slot: "
            "waiting for a target or a slot there, or for a Step that failed; queue: waiting for "
            "the target's device; device: the target's passes; own: the orchestrator.");
}

}  // namespace

std::vector<MetricFamily> Families(const Totals& totals) {
  Builder builder;
  AddRequests(totals, builder);
  AddSpeculation(totals, builder);
  AddRounds(totals, builder);
  return builder.Take();
}

std::vector<MetricFamily> UnreadFamilies(const UnreadCounts& counts) {
  Builder builder;
  builder.Gauge(
      "open_calls", static_cast<double>(counts.calls),
      "Calls of Generate, Tokenize and Detokenize whose end has not reached their clients.");
  builder.Gauge("unread_bytes", static_cast<double>(counts.bytes),
                "Bytes of replies that clients have not read yet.");
  builder.Counter("calls_refused_total", counts.refused,
                  "Calls refused because too many were open.");
  builder.Counters(
      "unread_dropped_total", counts.dropped, "cause",
      [](size_t i) { return Name(static_cast<UnreadDrop>(i)); },
      "Calls that ended with replies that their clients had not read. patience: they did not read "
      "for too long; bytes: all calls together held too much, and these the most.");
  return builder.Take();
}

std::vector<MetricFamily> PeerFamilies(absl::Span<const v1::Peer> peers,
                                       const std::map<RefusalKey, uint64_t>& refusals) {
  MetricFamily up = Family("peer_up", MetricType::Gauge,
                           "1: the target or draft answers and is compatible; 0: it does not.");
  MetricFamily refused = Family("peer_refused_total", MetricType::Counter,
                                "How often the target or draft was incompatible: another "
                                "tokenizer or protocol. Such a peer is not used.");
  std::set<std::pair<std::string, int>> seen;
  for (const v1::Peer& peer : peers) {
    // A peer may leave under one name and stay under another.
    if (!seen.emplace(peer.address(), peer.role()).second) continue;
    const bool target = peer.role() == v1::Peer::ROLE_TARGET;
    const auto add = [&](MetricFamily& family) -> ClientMetric& {
      ClientMetric& series = AddSeries(family, "peer", peer.address());
      series.label.push_back({"kind", target ? "target" : "draft"});
      return series;
    };
    add(up).gauge.value = peer.ready() ? 1 : 0;
    const auto count = refusals.find({peer.role(), peer.address()});
    add(refused).counter.value = count == refusals.end() ? 0 : static_cast<double>(count->second);
  }
  return {std::move(up), std::move(refused)};
}

}  // namespace tandem::orchestrator
