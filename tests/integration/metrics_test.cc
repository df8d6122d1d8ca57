// /metrics under load: every scrape is well formed and agrees with itself, counters never go down,
// and at the end the sums are what the clients were told, and what the log says.
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/many_requests.h"
#include "tests/integration/requests.h"
#include "tests/integration/scraper.h"
#include "tests/orchestrator/metrics/identities.h"
#include "tests/support/log_lines.h"

namespace tandem::testing {
namespace {

using ::testing::IsEmpty;

constexpr int kClients = 8;
constexpr int kRequestsEach = 12;

// Where a busy machine's hiccups are not lost peers.
ClusterOptions Steady() {
  ClusterOptions options = DemoOptions();
  options.loop.watchdog_min = absl::Minutes(5);
  return options;
}

// Of all rules, numbers of samples, lengths of drafts; some end by a stop string.
v1::GenerateRequest RandomRequest(std::mt19937& random) {
  v1::GenerateRequest request;
  request.set_text(TenPrompts()[random() % 10]);
  request.set_max_tokens(1 + random() % 48);
  request.set_samples(1 + random() % 3);
  request.set_seed(random());
  v1::SpeculationOptions& speculation = *request.mutable_speculation();
  constexpr v1::Rule kRules[] = {v1::RULE_GREEDY, v1::RULE_SPECULATIVE, v1::RULE_BLOCK,
                                 v1::RULE_COUPLED, v1::RULE_LENIENT};
  const v1::Rule rule = kRules[random() % 5];
  speculation.set_rule(rule);
  request.mutable_sampling()->set_temperature(rule == v1::RULE_GREEDY ? 0.0f : 0.8f);
  if (rule == v1::RULE_LENIENT) speculation.set_leniency(0.5f);
  if (random() % 3 > 0) speculation.set_fixed(random() % 9);
  if (random() % 3 == 0) request.mutable_stop()->add_strings(random() % 2 == 0 ? "e" : ", ");
  if (random() % 4 == 0) {
    speculation.set_drafter("prompt-lookup");
  } else if ((rule == v1::RULE_GREEDY || rule == v1::RULE_COUPLED) &&
             !(speculation.draft_tokens_case() == v1::SpeculationOptions::kFixed &&
               speculation.fixed() == 0)) {
    speculation.set_drafter(random() % 2 == 0 ? "model" : "context-ngram");
    speculation.set_draft_nodes(random() % 2 * 12);
  }
  return request;
}

std::vector<std::string> Judge(const Scrape& scrape) {
  return orchestrator::BrokenIdentities(scrape);
}

// Runs `work(client, random)` for all clients at once.
template <typename Work>
void RunClients(Work work) {
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([i, &work] {
      std::mt19937 random(static_cast<uint32_t>(1000 + i));
      work(i, random);
    });
  }
  for (std::thread& client : clients) client.join();
}

// What clients were told, added up under the metrics' names.
class Told {
 public:
  void Add(const Reply& reply) {
    const v1::AcceptanceRecord& record = reply.record();
    const v1::Usage& usage = reply.last.usage();
    Add("prompt_tokens_total", usage.prompt_tokens());
    Add("generation_tokens_total", usage.completion_tokens());
    Add("rounds_total", record.rounds());
    Add("spec_decode_num_draft_tokens_total", record.draft_tokens());
    Add("spec_decode_num_accepted_tokens_total", record.accepted_tokens());
    Add("rejected_rounds_total", record.rejected_rounds());
    Add("target_replays_total", record.target_replays());
    Add("draft_reconnections_total", record.draft_reconnections());
    Add("one_hot_blocks_total", record.one_hot_blocks());
    Add("tree_drafts_total", record.tree_rounds());
    Add("cut_tokens_total", record.accepted_tokens() + record.rounds() - usage.completion_tokens());
    for (const v1::CausedRounds& plain : record.rounds_without_draft()) {
      sums_[{"rounds_without_draft_total", {{"cause", plain.cause()}}}] += plain.rounds();
    }
    for (int k = 0; k < record.accepted_histogram_size(); ++k) {
      for (int i = 0; i < k; ++i) {
        sums_[{"spec_decode_num_accepted_tokens_per_pos_total", {{"position", absl::StrCat(i)}}}] +=
            record.accepted_histogram(k);
      }
    }
    const bool stopped = reply.last.finish_reason() == v1::FINISH_REASON_STOP;
    sums_[{"request_success_total", {{"finished_reason", stopped ? "stop" : "length"}}}] += 1;
    Add("request_params_n_sum", reply.last.samples_size());
    Add("request_generation_tokens_sum", usage.completion_tokens());
    Add("request_prompt_tokens_sum", usage.prompt_tokens());
    Add("time_to_first_token_seconds_count", 1);
    const v1::Stages& stages = reply.last.timing().stages();
    device_seconds_ += 1e-6 * static_cast<double>(stages.device_us());
    draft_seconds_ += 1e-6 * static_cast<double>(stages.draft_us());
    ++requests_;
  }

  void ExpectIn(const Scrape& scrape) const {
    for (const auto& [series, sum] : sums_) {
      EXPECT_EQ(scrape.Value(absl::StrCat("tandem:", series.first), series.second), sum)
          << series.first << ::testing::PrintToString(series.second);
    }
    // Microseconds are told, a sample's less than one off.
    const double slack = 3e-6 * requests_ + 1e-9;
    const auto seconds = [&](const char* stage) {
      return scrape.Value("tandem:round_stage_seconds_sum", {{"stage", stage}});
    };
    EXPECT_NEAR(seconds("device"), device_seconds_, slack);
    EXPECT_NEAR(seconds("draft"), draft_seconds_, slack);
  }

  double operator[](const std::string& name) const { return sums_.at({name, {}}); }

 private:
  void Add(const std::string& name, double value) { sums_[{name, {}}] += value; }

  std::map<std::pair<std::string, MetricLabels>, double> sums_;
  double device_seconds_ = 0;
  double draft_seconds_ = 0;
  int requests_ = 0;
};

TEST(Metrics, SumsAreWhatClientsWereTold) {
  const LogRecorder log;  // a hundred lines less to look at
  InProcessCluster cluster(Steady());
  const AdminOf admin([&] { return cluster.orchestrator().MetricsText(); });
  Scraper scraper(admin.port(), Judge);
  std::array<std::vector<Reply>, kClients> replies;
  RunClients([&](int client, std::mt19937& random) {
    for (int i = 0; i < kRequestsEach; ++i) {
      replies[client].push_back(Send(cluster.channel(), RandomRequest(random)));
    }
    v1::GenerateRequest bad = RandomRequest(random);
    bad.set_samples(99);
    replies[client].push_back(Send(cluster.channel(), bad));
  });
  // The last message comes after the numbers were added: no waiting here.
  const absl::StatusOr<Scrape> after = ScrapePort(admin.port());
  EXPECT_THAT(scraper.Stop(), IsEmpty());
  EXPECT_GT(scraper.scrapes(), 20) << "this would show little";
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_THAT(Judge(*after), IsEmpty());

  Told told;
  for (const std::vector<Reply>& client : replies) {
    for (size_t i = 0; i < client.size(); ++i) {
      if (i + 1 == client.size()) {
        EXPECT_EQ(client[i].status.code(), absl::StatusCode::kInvalidArgument);
        continue;
      }
      ASSERT_TRUE(client[i].status.ok()) << client[i].status;
      told.Add(client[i]);
    }
  }
  told.ExpectIn(*after);
  EXPECT_GT(told["spec_decode_num_accepted_tokens_total"], 0);
  EXPECT_GT(told["tree_drafts_total"], 0);
  EXPECT_GT(told["cut_tokens_total"], 0) << "no block was cut: this would show less";
  EXPECT_EQ(after->Value("tandem:request_failure_total",
                         {{"code", "INVALID_ARGUMENT"}, {"cause", "client"}}),
            kClients);
  EXPECT_EQ(after->Sum("tandem:request_failure_total"), kClients);
  EXPECT_EQ(after->Value("tandem:num_requests_running"), 0);
  EXPECT_EQ(after->Value("tandem:num_requests_waiting"), 0);
  EXPECT_EQ(after->Sum("tandem:peer_up"), 2);
  EXPECT_EQ(after->families.at("tandem:build_info").samples[0].labels.at("service"),
            "orchestrator");
}

}  // namespace
}  // namespace tandem::testing
