// The three services in one process for two minutes, under 32 clients of every kind and a bad
// network: requests that are cancelled, readers that are slow, streams that are cut or go silent, a
// draft that is replaced. Every request ends in one clear way, greedy and coupled text is exactly
// the target's, and nothing is left behind.
//
//   TANDEM_SOAK_SECONDS (default 120), TANDEM_SOAK_SEED (default 1)
#include <malloc.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/models.h"
#include "tests/netproxy/netproxy.h"
#include "tests/soak/bad_network.h"
#include "tests/soak/expected_text.h"
#include "tests/soak/many_clients.h"
#include "tests/soak/memory_watch.h"
#include "tests/soak/restartable_draft.h"
#include "tests/soak/tally.h"
#include "tests/support/table_model.h"
#include "tests/support/wait.h"

namespace tandem::testing::soak_test {
namespace {

constexpr int kClients = 32;
constexpr double kMaxGrowthMib = 48;
constexpr int kMaxMoreThreads = 8;  // gRPC's own pools breathe

uint64_t Setting(const char* name, uint64_t fallback) {
  const char* text = getenv(name);
  return text == nullptr ? fallback : strtoull(text, nullptr, 10);
}

TableModelOptions TargetOptions() {
  TableModelOptions options;
  options.vocabulary_size = kLetters;
  options.peakedness = 2;
  // A pass takes a moment, so that there is something to cut.
  options.before_pass = [](absl::Span<const model::ForwardPart>) {
    absl::SleepFor(absl::Microseconds(300));
    return absl::OkStatus();
  };
  return options;
}

TableModelOptions DraftOptions() {
  TableModelOptions options = TargetOptions();
  options.noise = 0.7;
  options.noise_seed = 5;
  options.before_pass = nullptr;
  return options;
}

MemorySample Footprint() {
  malloc_trim(0);
  return SampleMemory();
}

class SoakTest : public ::testing::Test {
 protected:
  SoakTest()
      : table_(TargetOptions()),
        tokenizer_(LettersTokenizer(kLetters)),
        draft_model_(DraftOptions()),
        draft_(draft_model_, tokenizer_) {
    auto target = std::make_unique<TableModel>(TargetOptions());
    target_model_ = target.get();
    ClusterOptions options;
    options.target_model = std::move(target);
    options.tokenizer = tokenizer_;
    options.max_sequences = kClients * 3 / 4;  // somebody always waits for a slot
    options.loop.max_undelivered_tokens = 32;  // slow readers pause their requests
    options.loop.close_after = absl::Milliseconds(20);
    options.target_proxy = [this](const std::string& address) {
      return Through(address, target_link_);
    };
    options.draft_proxy = [this](const std::string&) {  // in place of the cluster's own draft
      return Through(draft_.address(), draft_link_);
    };
    cluster_ = std::make_unique<InProcessCluster>(std::move(options));
  }

  static std::string Through(const std::string& address,
                             std::unique_ptr<netproxy::NetProxy>& link) {
    auto proxy = netproxy::NetProxy::Start(address);
    TANDEM_CHECK_OK(proxy);
    link = *std::move(proxy);
    return link->address();
  }

  void Load(absl::Duration duration, uint64_t seed) {
    BadNetwork network(*target_link_, *draft_link_, draft_, seed);
    ManyClientsOptions options;
    options.address = absl::StrCat("127.0.0.1:", cluster_->port());
    options.clients = kClients;
    options.channels = 1;
    options.seed = seed;
    ManyClients clients(options, table_, tally_);
    clients.Start();
    const absl::Time end = absl::Now() + duration;
    while (absl::Now() < end) {
      absl::SleepFor(std::min(absl::Seconds(10), end - absl::Now()));
      printf("  %s\n", tally_.Text().c_str());
      fflush(stdout);
    }
    ASSERT_TRUE(clients.Stop(absl::Minutes(3))) << clients.running() << " requests did not end";
  }

  // Nothing is held any more.
  void ExpectIdle() {
    EXPECT_TRUE(cluster_->AllFreed()) << cluster_->target_sequences();
    EXPECT_TRUE(WaitUntil([&] { return draft_.active_sequences() == 0; }))
        << draft_.active_sequences();
    EXPECT_TRUE(WaitUntil([&] { return target_model_->live_caches() == 0; }))
        << target_model_->live_caches();
    EXPECT_TRUE(WaitUntil([&] { return draft_model_.live_caches() == 0; }))
        << draft_model_.live_caches();
    EXPECT_EQ(target_model_->reserved_tokens(), 0);
  }

  const TableModel table_;  // for what is expected
  const std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  TableModel* target_model_ = nullptr;  // the cluster's
  TableModel draft_model_;
  RestartableDraft draft_;
  std::unique_ptr<netproxy::NetProxy> target_link_;
  std::unique_ptr<netproxy::NetProxy> draft_link_;
  std::unique_ptr<InProcessCluster> cluster_;
  Tally tally_;
};

TEST_F(SoakTest, EveryRequestEndsClearlyAndNothingIsLeft) {
  const absl::Duration duration =
      absl::Seconds(static_cast<int64_t>(Setting("TANDEM_SOAK_SECONDS", 120)));
  const uint64_t seed = Setting("TANDEM_SOAK_SEED", 1);
  printf("  TANDEM_SOAK_SEED=%llu\n", static_cast<unsigned long long>(seed));

  Load(duration / 4, seed);
  ExpectIdle();
  const MemorySample warm = Footprint();

  Load(duration * 3 / 4, seed + 1);
  ExpectIdle();
  const MemorySample end = Footprint();
  printf("  resident %.1f MiB, then %.1f; threads %d, then %d; replays %llu, reconnections %llu\n",
         warm.resident_mib, end.resident_mib, warm.threads, end.threads,
         static_cast<unsigned long long>(tally_.replays()),
         static_cast<unsigned long long>(tally_.reconnections()));
  EXPECT_LE(end.resident_mib, warm.resident_mib + kMaxGrowthMib);
  EXPECT_LE(end.threads, warm.threads + kMaxMoreThreads);

  // The faults did happen, and most requests got over them.
  EXPECT_GT(tally_.count("ok"), tally_.count("deadline") + tally_.count("refused"));
  EXPECT_GT(tally_.count("cancelled"), 0u);
  EXPECT_GT(tally_.replays(), 0u);
  EXPECT_GT(tally_.reconnections(), 0u);
  EXPECT_GT(draft_.restarts(), 0);
}

}  // namespace
}  // namespace tandem::testing::soak_test
