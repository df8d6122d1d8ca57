// What blocks that are prepared in advance win (docs/theory.md): plain decoding, lockstep and
// prepared blocks, interleaved, beside what the formula computes. Target and draft sleep for as
// long as their passes take, so neither disturbs the other, and the machine's speed plays no part.
// The draft is its target with noise, as much of it as gives the wanted share of right tokens.
// Usage: prepared [turns] [requests at once] [alpha] [cell: its number; else all]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/model/timing.h"
#include "common/base/check.h"
#include "common/theory/prepared.h"
#include "common/theory/round_time.h"
#include "common/theory/speedup.h"
#include "tests/integration/cluster.h"
#include "tests/integration/models.h"
#include "tests/integration/requests.h"
#include "tests/netproxy/netproxy.h"
#include "tests/support/table_model.h"
#include "tests/support/timed_model.h"

namespace tandem::testing {
namespace {

constexpr uint32_t kVocabulary = 4096;  // the tokenizer's
constexpr uint32_t kOutput = 96;        // tokens
constexpr int kMaxDraft = 8;

// Milliseconds.
struct Cell {
  double target, draft, round_trip, target_round_trip;
};
constexpr Cell kCells[] = {{7, 5, 0.5, 0},   {7, 3, 0.5, 0},  {7, 1, 0.5, 0},
                           {7, 0.5, 0.5, 0}, {25, 5, 0.5, 0}, {25, 3, 0.5, 0},
                           {25, 5, 10, 0},   {25, 3, 10, 10}, {25, 1, 40, 40}};
// A pass of so many rows, as a factor on one row: int8 on a processor.
const theory::PassTime& DraftRows() {
  static const theory::PassTime rows =
      *theory::PassTime::Create({{1, 1}, {2, 1.05}, {4, 1.25}, {8, 1.9}, {16, 3.7}});
  return rows;
}
double TargetRows(int rows) { return 1 + 0.02 * (rows - 1); }

TableModelOptions Table(double noise) {
  TableModelOptions options;
  options.vocabulary_size = kVocabulary;
  options.context_length = 2048;
  options.noise = noise;
  options.noise_seed = noise > 0 ? 5 : 0;
  return options;
}

// Where the target's likeliest token is in the draft's ranking, by how often; the last: further
// behind.
std::vector<double> Ranks(double noise, int contexts) {
  const TableModel target(Table(0)), draft(Table(noise));
  std::vector<double> ranks(18);
  for (uint32_t i = 0; i < static_cast<uint32_t>(contexts); ++i) {
    const uint32_t context[] = {i * 37 % kVocabulary, i * 101 % kVocabulary};
    const std::vector<float> p = target.LogitsAfter(context), q = draft.LogitsAfter(context);
    const float of_best = q[std::max_element(p.begin(), p.end()) - p.begin()];
    const auto before = std::count_if(q.begin(), q.end(), [&](float x) { return x > of_best; });
    ranks[std::min<size_t>(before, ranks.size() - 1)] += 1.0 / contexts;
  }
  return ranks;
}

double NoiseFor(double alpha) {
  double low = 0, high = 2;
  for (int i = 0; i < 12; ++i) {
    const double middle = (low + high) / 2;
    (Ranks(middle, 500)[0] > alpha ? low : high) = middle;
  }
  return low;
}

struct Way {
  std::optional<uint32_t> draft_tokens = 0;  // absent: auto
  uint32_t prepare = 0;
  double predicted = 1;  // of plain decoding
};
constexpr int kWays = 4;

double RowShare(int outcomes) {
  return outcomes < 2 ? 0 : (DraftRows()(outcomes) - 1) / (outcomes - 1);
}

// What passes take beyond their sleep and messages beyond their proxy here, as `auto` learns them.
Cell AsMeasured(const Cell& cell) {
  return {cell.target + 0.1, cell.draft + 0.1, cell.round_trip + 0.4, cell.target_round_trip + 0.2};
}

// The best by the formula. `outcomes`: 0 for lockstep.
Way Best(const Cell& nominal, double alpha, const std::vector<double>& ranks,
         const std::vector<uint32_t>& outcomes) {
  const Cell cell = AsMeasured(nominal);
  Way best{.predicted = 0};
  std::vector<double> wrong(ranks.begin() + 1, ranks.end() - 1);
  for (double& rank : wrong) rank /= 1 - ranks[0];
  for (int k = 1; k <= kMaxDraft; ++k) {
    for (const uint32_t b : outcomes) {
      const double verify = cell.target * TargetRows(k + 1) + cell.target_round_trip;
      const theory::Preparing draft{cell.round_trip, cell.draft, RowShare(b),
                                    cell.target_round_trip};
      const double hits = theory::HitChance(alpha, k, b, wrong);
      const double round = verify + theory::WaitForBlock(draft, k, b, hits, verify);
      const double rate = theory::ExpectedTokens(alpha, k) / round;
      const double speed = rate * (cell.target + cell.target_round_trip);
      if (speed > best.predicted) best = {static_cast<uint32_t>(k), b, speed};
    }
  }
  return best;
}

std::unique_ptr<netproxy::NetProxy> Proxy(const std::string& address, double round_trip) {
  auto proxy = netproxy::NetProxy::Start(address);
  TANDEM_CHECK_OK(proxy.status());
  (*proxy)->SetDelay(absl::Milliseconds(round_trip / 2));
  return *std::move(proxy);
}

struct Counts {
  uint64_t hit = 0, chained = 0, miss = 0, late = 0, accepted = 0, rejected = 0;
  double wait_us = 0, rounds = 0;  // for blocks
};

void Measure(const Cell& cell, double noise, double alpha, const std::vector<double>& ranks,
             int turns, int at_once) {
  std::unique_ptr<netproxy::NetProxy> draft_proxy, target_proxy;
  ClusterOptions options;
  options.tokenizer = LoadTokenizer(DemoTarget());
  options.target_model = std::make_unique<TimedModel>(
      std::make_unique<TableModel>(Table(0)),
      [cell](int rows) { return absl::Milliseconds(cell.target * TargetRows(rows)); });
  options.draft_model = std::make_unique<TimedModel>(
      std::make_unique<TableModel>(Table(noise)),
      [cell](int rows) { return absl::Milliseconds(cell.draft * DraftRows()(rows)); });
  options.loop.draft_wait = options.loop.draft_wait_floor = absl::Seconds(1);
  options.draft_proxy = [&](const std::string& address) {
    draft_proxy = Proxy(address, cell.round_trip);
    return draft_proxy->address();
  };
  if (cell.target_round_trip > 0) {
    options.target_proxy = [&](const std::string& address) {
      target_proxy = Proxy(address, cell.target_round_trip);
      return target_proxy->address();
    };
  }
  InProcessCluster cluster(std::move(options));
  const Way lockstep = Best(cell, alpha, ranks, {0});
  const Way prepared = Best(cell, alpha, ranks, {1, 2, 4, 8, 16});
  const Way ways[kWays] = {Way{}, lockstep, prepared, Way{std::nullopt, 16, prepared.predicted}};
  std::vector<double> ratios[kWays];
  Counts counts;
  for (int turn = -1; turn < turns; ++turn) {
    double rates[kWays];
    std::vector<std::vector<uint32_t>> ids;
    for (int w = 0; w < kWays; ++w) {
      std::vector<v1::GenerateRequest> requests;
      for (int i = 0; i < at_once; ++i) {
        const uint32_t seed = (turn + 2) * 1000 + i * 10;
        v1::GenerateRequest& request = requests.emplace_back(GreedyRequest(
            {seed % 4000, seed % 3989, seed % 3967}, kOutput, ways[w].draft_tokens.value_or(0)));
        if (!ways[w].draft_tokens.has_value()) request.mutable_speculation()->set_auto_(true);
        request.mutable_stop()->set_ignore_eos(true);
        request.mutable_speculation()->set_prepare(ways[w].prepare);
      }
      double tokens = 0;
      for (const Reply& reply : SendAll(cluster.channel(), requests, at_once)) {
        TANDEM_CHECK_OK(reply.status);
        if (w == 0) {
          ids.push_back(reply.ids);
        } else {
          TANDEM_CHECK(std::count(ids.begin(), ids.end(), reply.ids) == 1);
        }
        const v1::Timing& timing = reply.last.timing();
        tokens +=
            (kOutput - 1) * 1e3 / static_cast<double>(timing.total_us() - timing.first_token_us());
        if (w != 2 || turn < 0) continue;
        for (const v1::CausedRounds& one : reply.record().prepared_rounds()) {
          if (one.cause() == "hit") counts.hit += one.rounds();
          if (one.cause() == "chained") counts.chained += one.rounds();
          if (one.cause() == "miss") counts.miss += one.rounds();
          if (one.cause() == "late") counts.late += one.rounds();
        }
        counts.wait_us += static_cast<double>(timing.draft_us());
        counts.rounds += reply.record().rounds();
        counts.accepted += reply.record().accepted_tokens();
        counts.rejected += reply.record().rejected_rounds();
      }
      rates[w] = tokens;
    }
    for (int w = 1; w < kWays && turn >= 0; ++w) ratios[w].push_back(rates[w] / rates[0]);
  }
  std::printf("%4g %4g %4g %4g  %.2f", cell.target, cell.draft, cell.round_trip,
              cell.target_round_trip,
              static_cast<double>(counts.accepted) /
                  static_cast<double>(std::max<uint64_t>(counts.accepted + counts.rejected, 1)));
  for (int w = 1; w < kWays; ++w) {
    const bench::Spread spread = bench::SpreadOf(ratios[w]);
    if (ways[w].draft_tokens.has_value()) {
      std::printf("  | K %u B %2u  %.2f", *ways[w].draft_tokens, ways[w].prepare,
                  ways[w].predicted);
    } else {
      std::printf("  | auto");
    }
    std::printf(" %.2f / %.2f / %.2f", spread.min, spread.median, spread.max);
  }
  const double verdicts =
      std::max<double>(counts.hit + counts.chained + counts.miss + counts.late, 1);
  std::printf("  | hit %.2f chained %.2f miss %.2f late %.2f  wait %.1f ms\n",
              counts.hit / verdicts, counts.chained / verdicts, counts.miss / verdicts,
              counts.late / verdicts, counts.wait_us / std::max(counts.rounds, 1.0) / 1e3);
  std::fflush(stdout);
}

}  // namespace
}  // namespace tandem::testing

int main(int argc, char** argv) {
  const int turns = argc > 1 ? std::atoi(argv[1]) : 3;
  const int at_once = argc > 2 ? std::atoi(argv[2]) : 1;
  const double alpha = argc > 3 ? std::atof(argv[3]) : 0.75;
  const int only = argc > 4 ? std::atoi(argv[4]) : -1;
  if (turns < 1 || at_once < 1 || alpha <= 0 || alpha >= 1) return 2;
  const double noise = tandem::testing::NoiseFor(alpha);
  const std::vector<double> ranks = tandem::testing::Ranks(noise, 2000);
  std::printf(
      "alpha %.2f, %d requests at once, %d turns; ms: target, draft, round trips; alpha as "
      "measured;\nlockstep and prepared: predicted speed, minimum / median / maximum; the "
      "target alone is 1\n",
      ranks[0], at_once, turns);
  int number = 0;
  for (const auto& cell : tandem::testing::kCells) {
    if (only < 0 || only == number)
      tandem::testing::Measure(cell, noise, ranks[0], ranks, turns, at_once);
    ++number;
  }
  return 0;
}
