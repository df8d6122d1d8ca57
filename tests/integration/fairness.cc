#include "tests/integration/fairness.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "client/bench/load.h"
#include "client/common/stats.h"
#include "common/base/check.h"
#include "tests/support/table_model.h"
#include "tests/support/timed_model.h"
#include "tests/support/wait.h"

namespace tandem::testing {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr uint32_t kLetters = 12;
constexpr PassCost kTargetCost = {absl::Milliseconds(8), absl::Microseconds(20)};
constexpr absl::Duration kDraftRow = absl::Microseconds(2);

// Keeps so many requests running as long as it lives.
class Crowd {
 public:
  Crowd(InProcessCluster& cluster, uint32_t size, const v1::GenerateRequest& member)
      : source_(absl::StrCat("127.0.0.1:", cluster.port()), size) {
    plan_.concurrency = size;
    plan_.window = absl::Hours(1);
    plan_.request = [member](uint64_t) { return member; };
    plan_.cancelled = [this] { return stop_.load(); };
    thread_ = std::thread([this] { run_ = source_.Run(plan_); });
    const bool there = WaitUntil([&] { return cluster.target_sequences() >= size; });
    TANDEM_CHECK(there) << "the crowd has " << cluster.target_sequences() << " sequences";
  }
  ~Crowd() { Stop(); }

  const client::LoadRun& Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return run_;
  }

 private:
  client::LoadPlan plan_;
  client::LoadSource source_;
  client::LoadRun run_;  // of thread_ until it has ended
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

Rounds Means(absl::Span<const Reply> replies) {
  Rounds means;
  double rounds = 0;
  for (const Reply& reply : replies) {
    const v1::AcceptanceRecord& record = reply.record();
    const v1::Timing& timing = reply.last.timing();
    rounds += record.rounds();
    means.draft_ms += static_cast<double>(timing.draft_us()) / 1000;
    means.queue_ms += static_cast<double>(timing.queue_us()) / 1000;
    means.target_ms += static_cast<double>(timing.target_us()) / 1000;
    means.sequences += static_cast<double>(record.batch_sequences());
    means.rows += static_cast<double>(record.batch_rows());
    for (const auto& caused : record.rounds_without_draft()) means.undrafted += caused.rounds();
  }
  for (double* sum : {&means.draft_ms, &means.queue_ms, &means.target_ms, &means.sequences,
                      &means.rows, &means.undrafted}) {
    *sum /= rounds;
  }
  return means;
}

// A round is what comes between two deltas; the first one, with the prompt, does not count.
Rounds RunLone(Front& front, const FairnessOptions& options, std::vector<Reply>& replies) {
  std::vector<double> gaps;
  double sum = 0;
  for (int i = 0; i < options.lone_requests; ++i) {
    std::vector<SteadyClock::time_point> times;
    replies.push_back(Send(front.channel(), options.lone,
                           [&](const Reply&) { times.push_back(SteadyClock::now()); }));
    TANDEM_CHECK(replies.back().status.ok()) << replies.back().status;
    TANDEM_CHECK(times.size() > 2) << "a request of " << times.size() << " rounds";
    for (size_t n = 1; n < times.size(); ++n) {
      gaps.push_back(std::chrono::duration<double, std::milli>(times[n] - times[n - 1]).count());
      sum += gaps.back();
    }
  }
  Rounds rounds = Means(absl::MakeSpan(replies).last(options.lone_requests));
  rounds.mean_ms = sum / static_cast<double>(gaps.size());
  rounds.median_ms = client::SpreadOf(std::move(gaps)).median;
  return rounds;
}

}  // namespace

FairnessReport MeasureFairness(InProcessCluster& cluster, Front& front,
                               const FairnessOptions& options) {
  FairnessReport report;
  std::vector<Reply> warm_up;
  RunLone(front, options, warm_up);
  for (int i = 0; i < options.alternations; ++i) {
    Alternation& both = report.alternations.emplace_back();
    both.alone = RunLone(front, options, report.lone);
    Crowd crowd(cluster, options.crowd, options.member);
    both.beside = RunLone(front, options, report.lone);
    const client::LoadRun& run = crowd.Stop();
    both.crowd_tokens_per_second = run.TokensPerSecond();
    for (const auto& [name, failures] : run.failures) both.crowd_failures += failures.count;
    TANDEM_CHECK(cluster.AllFreed());  // so that the next one really is alone
  }
  return report;
}

std::string ToString(const FairnessReport& report) {
  std::string text =
      "  lone round, ms: alone mean median | beside the crowd mean median | ratio mean median | "
      "crowd tokens/s\n";
  std::vector<double> means, medians;
  for (const Alternation& one : report.alternations) {
    absl::StrAppendFormat(&text, "  %27.2f %6.2f | %21.2f %6.2f | %10.2f %6.2f | %14.0f\n",
                          one.alone.mean_ms, one.alone.median_ms, one.beside.mean_ms,
                          one.beside.median_ms, one.mean_ratio(), one.median_ratio(),
                          one.crowd_tokens_per_second);
    absl::StrAppendFormat(
        &text,
        "    a round beside: draft %.2f ms, queue %.2f, target %.2f; pass of %.1f "
        "sequences, %.1f rows; no draft %.0f %%\n",
        one.beside.draft_ms, one.beside.queue_ms, one.beside.target_ms, one.beside.sequences,
        one.beside.rows, one.beside.undrafted * 100);
    means.push_back(one.mean_ratio());
    medians.push_back(one.median_ratio());
  }
  const client::Spread mean = client::SpreadOf(std::move(means));
  const client::Spread median = client::SpreadOf(std::move(medians));
  absl::StrAppendFormat(&text,
                        "  ratio, min median max: of means %.2f %.2f %.2f, of medians %.2f %.2f "
                        "%.2f\n",
                        mean.min, mean.median, mean.max, median.min, median.median, median.max);
  return text;
}

ClusterOptions DeviceLikePair(absl::Duration draft_pass) {
  TableModelOptions table;
  table.vocabulary_size = kLetters;
  table.peakedness = 2;
  table.context_length = 2048;
  TableModelOptions draft = table;
  draft.noise = 0.7;
  draft.noise_seed = 5;
  ClusterOptions options;
  options.target_model =
      std::make_unique<TimedModel>(std::make_unique<TableModel>(table), kTargetCost);
  options.draft_model = std::make_unique<TimedModel>(std::make_unique<TableModel>(draft),
                                                     PassCost{draft_pass, kDraftRow});
  options.tokenizer = LettersTokenizer(kLetters);
  return options;
}

}  // namespace tandem::testing
