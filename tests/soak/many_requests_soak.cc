// A thousand requests at once for ten minutes: more than may run, so that some wait to be admitted,
// some for a slot, and some are refused. Every request ends in one clear way and is counted, greedy
// and coupled text is exactly the target's, nothing is left behind, and memory stays what it was.
//
//   TANDEM_MANY_SECONDS (default 600), TANDEM_MANY_CLIENTS (1000), TANDEM_SOAK_SEED (1)
#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/models.h"
#include "tests/soak/expected_text.h"
#include "tests/soak/many_clients.h"
#include "tests/soak/memory_watch.h"
#include "tests/soak/tally.h"
#include "tests/support/table_model.h"
#include "tests/support/wait.h"

namespace tandem::testing {
namespace {

// Of the straight line through the second half, over that half. Five minutes start some 150,000
// requests: 60 bytes that each of them leaves behind are too much.
constexpr double kMaxAllocatedGrowthMib = 8;
constexpr double kMaxResidentGrowthMib = 32;

uint64_t Setting(const char* name, uint64_t fallback) {
  const char* text = getenv(name);
  return text == nullptr ? fallback : strtoull(text, nullptr, 10);
}

TableModelOptions TargetOptions(uint64_t clients) {
  TableModelOptions options;
  options.vocabulary_size = kLetters;
  options.peakedness = 2;
  options.context_length = 2048;
  options.max_caches = static_cast<int>(clients) + 64;
  return options;
}

TEST(ManyRequestsSoak, EveryOneIsAccountedForAndMemoryIsFlat) {
  const uint64_t clients = Setting("TANDEM_MANY_CLIENTS", 1000);
  const absl::Duration duration =
      absl::Seconds(static_cast<int64_t>(Setting("TANDEM_MANY_SECONDS", 600)));
  const TableModel table(TargetOptions(clients));
  TableModelOptions draft_options = TargetOptions(clients);
  draft_options.noise = 0.7;
  draft_options.noise_seed = 5;
  ClusterOptions options;
  auto target = std::make_unique<TableModel>(TargetOptions(clients));
  auto draft = std::make_unique<TableModel>(draft_options);
  const TableModel& target_model = *target;
  const TableModel& draft_model = *draft;
  options.target_model = std::move(target);
  options.draft_model = std::move(draft);
  options.tokenizer = LettersTokenizer(kLetters);
  // Of 1000, 600 run, 350 wait to be admitted, and the rest is refused; of those that run, 400 have
  // a slot.
  options.max_active_requests = static_cast<uint32_t>(clients * 6 / 10);
  options.max_waiting_requests = static_cast<uint32_t>(clients * 35 / 100);
  options.max_sequences = static_cast<uint32_t>(clients * 4 / 10);
  options.loop.max_undelivered_tokens = 64;
  options.loop.close_after = absl::Milliseconds(200);
  options.loop.abort_after = absl::Seconds(2);
  InProcessCluster cluster(std::move(options));

  Tally tally;
  ManyClientsOptions client_options;
  client_options.address = absl::StrCat("127.0.0.1:", cluster.port());
  client_options.clients = static_cast<int>(clients);
  client_options.seed = Setting("TANDEM_SOAK_SEED", 1);
  client_options.stuck = absl::Seconds(6);
  client_options.may_be_refused = true;
  ManyClients many(client_options, table, tally);
  std::printf("  %llu clients, %s, TANDEM_SOAK_SEED=%llu\n",
              static_cast<unsigned long long>(clients), absl::FormatDuration(duration).c_str(),
              static_cast<unsigned long long>(client_options.seed));
  MemoryWatch watch(std::clamp(duration / 120, absl::Milliseconds(250), absl::Seconds(5)), [&] {
    return absl::StrCat("running ", many.running(), ", ", tally.Text(), "tokens ", many.tokens());
  });
  many.Start();
  absl::SleepFor(duration);
  const std::vector<MemorySample> samples = watch.Stop();
  ASSERT_TRUE(many.Stop(absl::Minutes(3))) << many.running() << " requests did not end";

  // Everyone is accounted for.
  uint64_t ended = 0;
  for (const char* how : {"ok", "cancelled", "deadline", "refused", "aborted"}) {
    EXPECT_GT(tally.count(how), 0u) << how;  // each of them did happen
    ended += tally.count(how);
  }
  EXPECT_EQ(ended, many.started());
  EXPECT_GT(tally.count("ok"), many.started() / 4);
  std::printf("  %llu started: %s; tokens %llu\n", static_cast<unsigned long long>(many.started()),
              tally.Text().c_str(), static_cast<unsigned long long>(many.tokens()));

  // Nothing is left.
  EXPECT_TRUE(cluster.AllFreed()) << cluster.target_sequences() << " " << cluster.draft_sequences();
  EXPECT_TRUE(WaitUntil([&] { return target_model.live_caches() == 0; }));
  EXPECT_TRUE(WaitUntil([&] { return draft_model.live_caches() == 0; }));
  EXPECT_EQ(target_model.reserved_tokens(), 0);
  EXPECT_EQ(draft_model.reserved_tokens(), 0);

  // Memory is flat.
  std::printf("%s", ToTable(samples, 12).c_str());
  const std::vector<MemorySample> half(samples.begin() + samples.size() / 2, samples.end());
  const double minutes = absl::ToDoubleMinutes(duration) / 2;
  const double allocated = SlopePerMinute(half, &MemorySample::allocated_mib) * minutes;
  const double resident = SlopePerMinute(half, &MemorySample::resident_mib) * minutes;
  std::printf(
      "  growth over the second half, by its slope: allocated %.2f MiB, resident %.1f MiB\n",
      allocated, resident);
  EXPECT_LE(allocated, kMaxAllocatedGrowthMib);
  EXPECT_LE(resident, kMaxResidentGrowthMib);
}

}  // namespace
}  // namespace tandem::testing
