#include "target_service/passes/passes.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "target_service/passes/cost_probe.h"

namespace tandem::target_service {
namespace {

WaitingRows RowsOf(const Work& work) {
  WaitingRows rows{work.stream, work.step.sequence, work.prefill_left(), work.plan.verify_rows,
                   work.plan.sequence->settings->priority};
  if (work.step.prompt_logprobs) rows.max_prefill = kMaxPromptLogprobRows;
  return rows;
}

// The next `rows` rows of a Step.
PassPart MakePart(const Work& work, int rows) {
  const StepPlan& plan = work.plan;
  const auto tokens = absl::MakeConstSpan(plan.tokens);
  PassPart part;
  part.sequence = plan.sequence->in_engine.get();
  part.settings = plan.sequence->settings;
  part.start = plan.start + static_cast<int>(work.done);
  part.tokens = tokens.subspan(work.done, static_cast<size_t>(rows));
  if (rows == work.left() && plan.verify_rows > 0) {
    part.block = &work.step.block;
  }
  if (work.step.prompt_logprobs) {
    // The last committed token is followed by what is to be judged, not told.
    const int targets = static_cast<int>(work.step.committed()) - 1 - part.start;
    part.prompt_targets =
        tokens.subspan(work.done + 1, static_cast<size_t>(std::clamp(targets, 0, rows)));
  }
  return part;
}

// What the sequence holds after the next `rows` rows of a Step. `path`: of a tree, which nodes
// stand.
void Hold(Work& work, size_t rows, absl::Span<const uint32_t> path) {
  const auto tokens = absl::MakeConstSpan(work.plan.tokens).subspan(work.done, rows);
  speculation::HeldPrefix& held = work.plan.sequence->held;
  const speculation::CandidateTree& block = work.step.block;
  const bool whole = work.done + rows == work.plan.tokens.size();
  if (!whole || block.parents.empty()) return held.Append(tokens);
  held.Append(tokens.first(tokens.size() - block.size()));
  for (const uint32_t node : path) held.Append({&block.tokens[node - 1], 1});
}

}  // namespace

Passes::Passes(const PassLimits& limits, Engine& engine, WaitingSteps& waiting, Streams& streams,
               Gathering& gathering, Answers& answers, const concurrency::Clock& clock,
               serving::LoadMeter& meter, PassObserver& observer)
    : engine_(engine),
      waiting_(waiting),
      streams_(streams),
      gathering_(gathering),
      answers_(answers),
      clock_(clock),
      meter_(meter),
      observer_(observer),
      policy_(limits),
      curve_(limits.max_rows) {}

void Passes::Measure(absl::Duration time) {
  TANDEM_CHECK(flights_.empty());
  if (!MeasureCosts(engine_, clock_, time, curve_).ok()) device_status_ = engine_.DeviceStatus();
}

bool Passes::Advance() {
  const auto max = static_cast<size_t>(engine_.info().max_passes_in_flight);
  const bool launched = flights_.size() < max && !Gathers() && Launch();
  if (flights_.empty()) return false;
  if (!launched || flights_.size() == max) Await();
  return true;
}

void Passes::AwaitAll() {
  while (!flights_.empty()) Await();
}

// Not where the pass would have no room for those who come.
bool Passes::Gathers() const {
  const concurrency::Instant now = clock_.Now();
  const int rows = waiting_.rows();
  if (rows == 0 || now >= gathering_.until()) return false;
  return rows < RowsAimedAt();
}

bool Passes::Launch() {
  std::vector<Work*> works;
  std::vector<WaitingRows> rows;
  for (const auto& work : waiting_.all()) {
    if (work->in_flight > 0 || work->waits_for_outcome()) continue;
    works.push_back(work.get());
    rows.push_back(RowsOf(*work));
  }
  if (works.empty()) return false;
  const std::vector<Grant> grants =
      policy_.FormPass(rows, curve_, ActiveStreams(streams_, clock_.Now()));
  TANDEM_CHECK(!grants.empty()) << works.size() << " Steps wait";

  Flight flight;
  flight.began = clock_.Now();
  flight.behind = !flights_.empty();
  meter_.BeginPass();
  std::vector<PassPart> parts;
  parts.reserve(grants.size());
  flight.works.reserve(grants.size());
  for (const Grant& grant : grants) {
    Work& work = *works[grant.index];
    if (!work.started()) work.began = flight.began;
    work.in_flight = grant.rows;
    flight.prefill += static_cast<uint32_t>(std::min(grant.rows, work.prefill_left()));
    parts.push_back(MakePart(work, grant.rows));
    flight.rows += static_cast<uint32_t>(grant.rows);
    flight.works.push_back(&work);
  }
  engine_.Launch(std::move(parts));
  flights_.push_back(std::move(flight));
  return true;
}

void Passes::Await() {
  const PassResult result = engine_.Await();
  Flight flight = std::move(flights_.front());
  flights_.pop_front();
  if (flight.behind) flight.began = std::max(flight.began, last_end_);
  last_begin_ = flight.began;
  last_end_ = flight.began + result.computed;
  prefill_share_ = 0;
  ++last_id_;
  meter_.CountPass(flight.rows, flight.works.size());
  for (Work* work : flight.works) {
    if (work->done == 0) work->began = flight.began;
  }
  observer_.PassEnds(
      {last_id_, flight.began, result.computed, flight.rows, result.status, flight.works});
  if (result.status.ok()) {
    TANDEM_CHECK(result.parts.size() == flight.works.size());
    curve_.Observe(static_cast<int>(flight.rows), result.computed);
    CountPrefill(flight);
    gathering_.PassEnds(last_end_, result.computed);
    for (size_t i = 0; i < flight.works.size(); ++i) {
      Work& work = *flight.works[i];
      const auto rows = static_cast<size_t>(std::exchange(work.in_flight, 0));
      Hold(work, rows, result.parts[i].path);
      work.done += rows;
      work.computed += result.computed;
      work.verdict.set_pass_id(last_id_);
      work.verdict.set_pass_rows(flight.rows);
      work.verdict.set_pass_sequences(static_cast<uint32_t>(flight.works.size()));
      if (answers_.AddResult(work, result.parts[i])) {
        AverageDraftTokens(work.step.block.size(), static_cast<uint32_t>(flight.works.size()),
                           draft_tokens_);
        gathering_.Answered(work.stream, work.step.sequence, work.plan.sequence->turnaround);
      }
    }
  } else {
    Fail(flight, result.status);
  }
  observer_.PassAnswered();
  waiting_.RemoveAnswered();
  meter_.EndPass(result.computed);
  if (!flights_.empty()) meter_.BeginPass();
}

// The rows of rounds would have taken what the curve says of them alone.
void Passes::CountPrefill(const Flight& flight) {
  if (flight.prefill == 0) return;
  const auto rounds = static_cast<int>(flight.rows - flight.prefill);
  const absl::Duration whole = curve_.Estimate(static_cast<int>(flight.rows));
  if (whole <= absl::ZeroDuration()) return;
  const double alone = rounds == 0 ? 0 : absl::FDivDuration(curve_.Estimate(rounds), whole);
  prefill_share_ = std::clamp(1 - alone, 0.0, 1.0);
  for (const auto& work : waiting_.all()) work->prefill += PrefillSince(work->arrived);
}

absl::Duration Passes::PrefillSince(concurrency::Instant arrived) const {
  const concurrency::Instant from = std::max(arrived, last_begin_);
  return from >= last_end_ ? absl::ZeroDuration() : prefill_share_ * (last_end_ - from);
}

// What the sequences of a failed pass hold is not known, so they end with it.
void Passes::Fail(const Flight& flight, const absl::Status& status) {
  TANDEM_LOG(kError) << base::LogFields("pass_failed")
                            .Add("pass", last_id_)
                            .Add("sequences", flight.works.size())
                            .Add("status", status.ToString());
  if (device_status_.ok()) device_status_ = engine_.DeviceStatus();
  for (Work* work : flight.works) {
    work->in_flight = 0;
    answers_.Fail(*work, status.ToString());
  }
}

}  // namespace tandem::target_service
