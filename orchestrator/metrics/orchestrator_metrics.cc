#include "orchestrator/metrics/orchestrator_metrics.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "common/base/check.h"
#include "common/concurrency/instant.h"
#include "orchestrator/metrics/families.h"
#include "orchestrator/request/ending.h"

namespace tandem::orchestrator {
namespace {

using concurrency::MutexLock;

void AddStages(const RoundStages& stages, std::array<Histogram, kStages>& to) {
  to[0].Observe(stages.draft);
  to[1].Observe(stages.network);
  to[2].Observe(stages.slot);
  to[3].Observe(stages.queue);
  to[4].Observe(stages.device);
  to[5].Observe(stages.own);
}

void AddRound(const RoundRecord& round, Totals& to) {
  TANDEM_CHECK(round.accepted_tokens <= round.draft_tokens &&
               round.accepted_tokens <= kMaxDraftTokens);
  TANDEM_CHECK(round.tokens <= round.accepted_tokens + 1);
  ++to.rounds;
  if (round.cause.has_value()) {
    ++to.rounds_without_draft[static_cast<size_t>(*round.cause)];
  } else {
    ++to.drafts;
  }
  if (round.tree) ++to.tree_drafts;
  ++to.prepared_rounds[static_cast<size_t>(round.prepared)];
  if (round.choice.has_value()) {
    ++to.chosen_lengths[std::min(round.choice->tokens, kMaxDraftTokens)];
    if (round.choice->zero.has_value()) ++to.zero_rounds[static_cast<size_t>(*round.choice->zero)];
    if (round.choice->estimates.alpha.has_value()) to.estimates = round.choice->estimates;
  }
  to.draft_tokens += round.draft_tokens;
  to.accepted_tokens += round.accepted_tokens;
  for (uint32_t i = 0; i < round.accepted_tokens; ++i) ++to.accepted_at[i];
  if (round.rejected) ++to.rejected_rounds;
  to.generation_tokens += round.tokens;
  to.cut_tokens += round.accepted_tokens + 1 - round.tokens;
  to.round_seconds.Observe(round.decided - round.began);
  AddStages(round.stages, to.stage_seconds);
  to.round_draft_queue.Observe(round.draft_queue);
}

void AddDrafter(const RoundRecord& round, DrafterCounts& to) {
  ++to.rounds;
  if (!round.cause.has_value()) ++to.drafted_rounds;
  to.draft_tokens += round.draft_tokens;
  to.accepted_tokens += round.accepted_tokens;
  to.tokens += round.tokens;
  ++to.reasons[static_cast<size_t>(round.drafter->reason)];
}

// The place of a drafter's counts. Names beyond the bound share the last one.
size_t SlotOf(const std::string& name, Totals& totals) {
  std::vector<std::string>& names = totals.drafter_names;
  const auto known = std::find(names.begin(), names.end(), name);
  if (known == names.end() && names.size() < kMaxDrafters) names.push_back(name);
  return std::min<size_t>(std::find(names.begin(), names.end(), name) - names.begin(),
                          kMaxDrafters);
}

void AddSuccess(const RequestEnd& end, Totals& to) {
  const GenerationRequest& request = *end.request;
  ++to.succeeded[static_cast<size_t>(end.endings.front().finish)];
  uint64_t tokens = 0;
  for (const Ending& ending : end.endings) {
    tokens += ending.output_tokens - request.output_prefix.size();
  }
  to.e2e_request_latency.Observe(end.at - end.arrived);
  to.request_prompt_tokens.Observe(int64_t{request.prompt_tokens()});
  to.request_generation_tokens.Observe(static_cast<int64_t>(tokens));
  to.request_params_n.Observe(int64_t{request.samples});
  to.request_params_max_tokens.Observe(int64_t{request.max_tokens});
}

}  // namespace

class OrchestratorMetrics::Request final : public RequestObserver {
 public:
  Request(OrchestratorMetrics& metrics, concurrency::Instant arrived)
      : metrics_(metrics), arrived_(arrived) {}

  void OnAccepted(concurrency::Instant /*at*/, const GenerationRequest& request) override {
    prompt_tokens_ = request.prompt_tokens();
    state_ = State::kWaiting;
    MutexLock lock(metrics_.mutex_);
    ++metrics_.totals_.waiting;
    for (const std::string& name : request.drafters) {
      slots_.push_back(SlotOf(name, metrics_.totals_));
    }
    if (!request.ignored.empty()) ++metrics_.totals_.requests_with_ignored_fields;
  }

  void OnAdmitted(concurrency::Instant at, const v1::Started& /*started*/) override {
    state_ = State::kRunning;
    admitted_ = at;
    MutexLock lock(metrics_.mutex_);
    --metrics_.totals_.waiting;
    ++metrics_.totals_.running;
    metrics_.totals_.request_queue_time.Observe(at - arrived_);
  }

  // Where the counts of the request's drafter `index` are.
  size_t DrafterSlot(uint32_t index) const { return slots_[index]; }

  std::unique_ptr<RoundObserver> WatchSample(uint32_t sample_index) override;

  void OnEnded(const RequestEnd& end) override {
    MutexLock lock(metrics_.mutex_);
    Totals& totals = metrics_.totals_;
    if (state_ == State::kWaiting) --totals.waiting;
    if (state_ == State::kRunning) --totals.running;
    if (end.status.ok()) {
      AddSuccess(end, totals);
      if (first_token_ == concurrency::Instant()) return;
      totals.request_prefill_time.Observe(first_token_ - admitted_);
      totals.request_decode_time.Observe(end.at - first_token_);
    } else {
      ++totals.failed[static_cast<size_t>(end.status.code())];
    }
  }

 private:
  friend class OrchestratorMetrics::Sample;
  enum class State : uint8_t { kNew, kWaiting, kRunning };

  OrchestratorMetrics& metrics_;
  const concurrency::Instant arrived_;
  uint32_t prompt_tokens_ = 0;
  std::vector<size_t> slots_;  // by the request's drafters
  State state_ = State::kNew;
  concurrency::Instant admitted_;
  concurrency::Instant first_token_;  // of any sample; the beginning of time: there is none yet
};

class OrchestratorMetrics::Sample final : public RoundObserver {
 public:
  explicit Sample(Request& request) : request_(request), metrics_(request.metrics_) {}

  void OnDecided(const RoundRecord& round) override {
    MutexLock lock(metrics_.mutex_);
    Totals& totals = metrics_.totals_;
    AddRound(round, totals);
    if (round.drafter.has_value()) {
      AddDrafter(round, totals.drafters[request_.DrafterSlot(round.drafter->index)]);
    }
    if (decided_.has_value()) {
      totals.inter_token_latency.ObserveShares(round.decided - *decided_, round.tokens);
    }
    decided_ = round.decided;
    if (request_.first_token_ != concurrency::Instant()) return;
    request_.first_token_ = round.decided;
    totals.prompt_tokens += request_.prompt_tokens_;
    totals.time_to_first_token.Observe(round.decided - request_.arrived_);
  }

  void OnEnded(concurrency::Instant /*at*/, const Ending& ending) override {
    MutexLock lock(metrics_.mutex_);
    Totals& totals = metrics_.totals_;
    totals.target_replays += ending.counts.target_replays;
    totals.cached_tokens += ending.counts.cached_tokens;
    totals.draft_reconnections += ending.counts.draft_reconnections;
    totals.one_hot_blocks += ending.counts.one_hot_blocks;
  }

 private:
  Request& request_;
  OrchestratorMetrics& metrics_;
  std::optional<concurrency::Instant> decided_;  // the round before
};

std::unique_ptr<RoundObserver> OrchestratorMetrics::Request::WatchSample(
    uint32_t /*sample_index*/) {
  return std::make_unique<Sample>(*this);
}

WatchRequest OrchestratorMetrics::Watcher() {
  return [this](const Arrival& arrival) { return std::make_unique<Request>(*this, arrival.at); };
}

Totals OrchestratorMetrics::totals() const {
  MutexLock lock(mutex_);
  return totals_;
}

v1::SpeculationTotals OrchestratorMetrics::Speculation() const {
  MutexLock lock(mutex_);
  v1::SpeculationTotals speculation;
  speculation.set_draft_tokens(totals_.draft_tokens);
  speculation.set_accepted_tokens(totals_.accepted_tokens);
  speculation.set_rejected_rounds(totals_.rejected_rounds);
  speculation.set_draft_us(static_cast<uint64_t>(totals_.stage_seconds[0].sum() / 1000));
  return speculation;
}

std::vector<prometheus::MetricFamily> OrchestratorMetrics::Collect() const {
  return Families(totals());
}

}  // namespace tandem::orchestrator
