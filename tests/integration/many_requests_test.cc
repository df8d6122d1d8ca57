// Many requests at one orchestrator: they share the target's passes and change nothing in each other; what
// ends in mid-stream leaves nothing behind; those that cannot run yet wait in order; one that does not read
// stalls nobody.
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/counted_model.h"
#include "tests/integration/held_call.h"
#include "tests/integration/requests.h"
#include "tests/support/wait.h"

namespace tandem::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The demo pair, with its caches counted.
struct CountedCluster {
  explicit CountedCluster(ClusterOptions options = DemoOptions()) {
    options.target_model =
        std::make_unique<CountedModel>(std::move(options.target_model), target_caches);
    options.draft_model =
        std::make_unique<CountedModel>(std::move(options.draft_model), draft_caches);
    cluster.emplace(std::move(options));
    // What the services measured of their models at the start does not count.
    for (CacheCounts* counts : {&target_caches, &draft_caches}) {
      TANDEM_CHECK(WaitUntil([&] { return counts->live == 0; }));
      counts->most_live = 0;
      counts->made = 0;
    }
  }

  // Everything that requests held is given back; waits for it, since the services learn of a stream's end
  // after the client does.
  void ExpectNothingHeld() {
    EXPECT_TRUE(cluster->AllFreed());
    EXPECT_TRUE(WaitUntil([&] { return cluster->orchestrator().active_requests() == 0; }));
    EXPECT_EQ(cluster->orchestrator().waiting_requests(), 0u);
    EXPECT_TRUE(WaitUntil([&] { return target_caches.live == 0 && draft_caches.live == 0; }));
    EXPECT_EQ(target_caches.taken_spans, 0);
    EXPECT_EQ(draft_caches.taken_spans, 0);
  }

  CacheCounts target_caches;
  CacheCounts draft_caches;
  std::optional<InProcessCluster> cluster;
};

// Prompts of different beginnings and lengths, 16 to 48 tokens each, and drafts of all kinds.
std::vector<v1::GenerateRequest> MixedRequests(const tokenizer::Tokenizer& tokenizer,
                                               size_t count) {
  const std::vector<std::string> prompts = TenPrompts();
  std::vector<v1::GenerateRequest> requests;
  for (size_t i = 0; i < count; ++i) {
    auto ids = tokenizer.Encode(prompts[i % prompts.size()]);
    TANDEM_CHECK_OK(ids);
    ids->resize(ids->size() - (i / prompts.size()) % 3);  // another prompt
    const uint32_t draft_tokens[] = {0, 0, 2, 4};
    v1::GenerateRequest request =
        GreedyRequest(*ids, static_cast<uint32_t>(16 + 11 * i % 33), draft_tokens[i % 4]);
    if (i % 4 == 0) request.mutable_speculation()->set_auto_(true);
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<uint32_t> PromptOf(const v1::GenerateRequest& request) {
  return {request.ids().ids().begin(), request.ids().ids().end()};
}

TEST(ManyRequests, SixtyFourAtOnceGiveTheIdsThatEachGivesAlone) {
  CountedCluster many;
  InProcessCluster& cluster = *many.cluster;
  const std::vector<v1::GenerateRequest> requests = MixedRequests(cluster.tokenizer(), 64);
  const std::vector<Reply> replies = SendAll(cluster.channel(), requests, 64);

  const std::unique_ptr<model::LanguageModel> alone = LoadModel(kDemoTarget);
  uint64_t rounds = 0;
  uint64_t sequences = 0;
  uint64_t rows = 0;
  uint64_t accepted = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_TRUE(replies[i].status.ok()) << replies[i].status;
    EXPECT_EQ(replies[i].ids, GreedyAlone(*alone, PromptOf(requests[i]), requests[i].max_tokens(),
                                          cluster.tokenizer().vocabulary_size()));
    const v1::AcceptanceRecord& record = replies[i].record();
    rounds += record.rounds();
    sequences += record.batch_sequences();
    rows += record.batch_rows();
    accepted += record.accepted();
    EXPECT_GE(record.batch_sequences(), record.rounds());
    EXPECT_GE(record.batch_rows(), record.batch_sequences());
  }
  EXPECT_GT(accepted, 0u) << "no draft took part: this would show nothing";
  const double mean_batch = static_cast<double>(sequences) / static_cast<double>(rounds);
  EXPECT_GT(mean_batch, 2.0);
  RecordProperty("mean_batch", absl::StrCat(mean_batch));
  std::printf("mean batch %.1f sequences, %.1f rows; %d target caches at once\n", mean_batch,
              static_cast<double>(rows) / static_cast<double>(rounds),
              many.target_caches.most_live.load());
  many.ExpectNothingHeld();
}

// Half of them are cancelled in mid-stream, each after another number of deltas.
void SendAndCancelHalf(const InProcessCluster& cluster, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::unique_ptr<HeldCall>> calls;
  for (v1::GenerateRequest& request : MixedRequests(cluster.tokenizer(), 64)) {
    HeldCallOptions options;
    if (calls.size() % 2 == 0) {
      request.set_max_tokens(400);  // so that it is surely in mid-stream
      options.cancel_after_deltas = 1 + random() % 12;
    }
    calls.push_back(std::make_unique<HeldCall>(cluster.channel(), std::move(request), options));
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    const Reply& reply = calls[i]->Wait();
    const absl::StatusCode code = reply.status.code();
    EXPECT_EQ(code, i % 2 == 0 ? absl::StatusCode::kCancelled : absl::StatusCode::kOk) << i;
    EXPECT_LT(reply.ids.size(), 400u) << i;
  }
}

TEST(ManyRequests, ThoseThatAreCancelledInMidStreamLeaveNothingBehind) {
  CountedCluster many;
  // Pools, caches and arenas fill to what they will hold.
  for (uint32_t round = 0; round < 2; ++round) SendAndCancelHalf(*many.cluster, round);
  many.ExpectNothingHeld();
  // What stays behind grows the heap every time; what a thread's cache happens to hold does not.
  int64_t least_growth = std::numeric_limits<int64_t>::max();
  int64_t before = static_cast<int64_t>(mallinfo2().uordblks);
  for (uint32_t round = 2; round < 6; ++round) {
    SendAndCancelHalf(*many.cluster, round);
    many.ExpectNothingHeld();
    const auto now = static_cast<int64_t>(mallinfo2().uordblks);
    std::printf("live heap: %lld bytes, %+lld\n", static_cast<long long>(now),
                static_cast<long long>(now - before));
    least_growth = std::min(least_growth, now - before);
    before = now;
  }
  EXPECT_LT(least_growth, 64 * 1024) << "bytes; that is 1 KiB a request, less than any one holds";
  EXPECT_GE(many.target_caches.made, 4 * 64);
}

// A request that holds its place, and reads no more than its beginning, until told.
class Holder {
 public:
  explicit Holder(const InProcessCluster& cluster)
      : call_(NarrowChannel(cluster.port(), 64), GreedyRequest({263, 793, 286}, 900, 0),
              {.read_first = 1}) {
    TANDEM_CHECK(WaitUntil([&] { return call_.started(); }));
  }
  void End() { call_.Cancel(); }

 private:
  HeldCall call_;
};

ClusterOptions OnePlace(uint32_t most_waiting) {
  ClusterOptions options = DemoOptions();
  options.most_active_requests = 1;
  options.most_waiting_requests = most_waiting;
  options.loop.most_undelivered_tokens = 16;  // so the holder stands still
  return options;
}

TEST(ManyRequests, HigherPrioritiesAreAdmittedFirstThenTheOrderOfArrival) {
  InProcessCluster cluster(OnePlace(16));
  Holder holder(cluster);
  concurrency::Mutex mutex;
  std::vector<int> admitted;
  std::vector<std::unique_ptr<HeldCall>> calls;
  for (uint32_t priority : {0, 5, 10, 0, 5, 10}) {
    const int index = static_cast<int>(calls.size());
    v1::GenerateRequest request = GreedyRequest({263, 793, 286}, 8, 2);
    request.set_priority(priority);
    HeldCallOptions options;
    options.on_started = [&, index] {
      concurrency::MutexLock lock(mutex);
      admitted.push_back(index);
    };
    calls.push_back(std::make_unique<HeldCall>(cluster.channel(), request, options));
    ASSERT_TRUE(
        WaitUntil([&] { return cluster.orchestrator().waiting_requests() == calls.size(); }));
  }
  holder.End();
  for (const auto& call : calls) {
    const Reply& reply = call->Wait();
    EXPECT_TRUE(reply.status.ok()) << reply.status;
    EXPECT_EQ(reply.ids.size(), 8u);
    EXPECT_GT(reply.last.timing().admission_us(), 0u);
    EXPECT_LE(reply.last.timing().admission_us(), reply.last.timing().first_token_us());
  }
  EXPECT_THAT(admitted, ElementsAre(2, 5, 1, 4, 0, 3));
}

TEST(ManyRequests, AShortDeadlineAFullLineAndBadInputAreAnsweredInTheirWays) {
  InProcessCluster cluster(OnePlace(2));
  Holder holder(cluster);
  const v1::GenerateRequest request = GreedyRequest({263, 793, 286}, 8, 2);
  HeldCall first(cluster.channel(), request);
  ASSERT_TRUE(WaitUntil([&] { return cluster.orchestrator().waiting_requests() == 1; }));
  HeldCall second(cluster.channel(), request, {.timeout = absl::Seconds(2)});
  ASSERT_TRUE(WaitUntil([&] { return cluster.orchestrator().waiting_requests() == 2; }));

  const Reply refused = Send(cluster.channel(), request);
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.status.message(), HasSubstr("2 wait: the line is full"));
  v1::GenerateRequest bad = request;
  bad.set_priority(11);
  EXPECT_EQ(Send(cluster.channel(), bad).status.code(), absl::StatusCode::kInvalidArgument)
      << "bad input is told at once, line or no line";

  EXPECT_EQ(second.Wait().status.code(), absl::StatusCode::kResourceExhausted)
      << second.Wait().status;
  EXPECT_THAT(second.Wait().status.message(),
              AllOf(HasSubstr("waited"), HasSubstr("requests ahead of it: 1")));
  EXPECT_FALSE(second.started());

  HeldCall third(cluster.channel(), request);
  ASSERT_TRUE(WaitUntil([&] { return cluster.orchestrator().waiting_requests() == 2; }));
  third.Cancel();
  EXPECT_TRUE(WaitUntil([&] { return cluster.orchestrator().waiting_requests() == 1; }))
      << "a cancelled one leaves the line at once";
  EXPECT_EQ(third.Wait().status.code(), absl::StatusCode::kCancelled);
  holder.End();
  EXPECT_TRUE(first.Wait().status.ok()) << first.Wait().status;
}

TEST(ManyRequests, ADrainSendsThoseThatWaitElsewhereAtOnce) {
  InProcessCluster cluster(OnePlace(4));
  Holder holder(cluster);
  HeldCall waiting(cluster.channel(), GreedyRequest({263, 793, 286}, 8, 2));
  ASSERT_TRUE(WaitUntil([&] { return cluster.orchestrator().waiting_requests() == 1; }));
  std::thread drain([&] { cluster.orchestrator().Drain(absl::Minutes(5)); });
  EXPECT_EQ(waiting.Wait().status.code(), absl::StatusCode::kUnavailable)
      << "and not only when the grace for those that run is over";
  EXPECT_THAT(waiting.Wait().status.message(), HasSubstr("ask another one"));
  EXPECT_EQ(cluster.orchestrator().active_requests(), 1u);
  holder.End();
  drain.join();
}

TEST(ManyRequests, MoreThanThePlacesAndTheSlotsAllFinish) {
  ClusterOptions options = DemoOptions();
  options.most_active_requests = 6;
  options.most_sequences = 3;
  CountedCluster many(std::move(options));
  const std::vector<v1::GenerateRequest> requests = MixedRequests(many.cluster->tokenizer(), 24);
  const std::vector<Reply> replies = SendAll(many.cluster->channel(), requests, 24);
  const std::unique_ptr<model::LanguageModel> alone = LoadModel(kDemoTarget);
  int waited = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(replies[i].status.ok()) << replies[i].status;
    EXPECT_EQ(replies[i].ids, GreedyAlone(*alone, PromptOf(requests[i]), requests[i].max_tokens(),
                                          many.cluster->tokenizer().vocabulary_size()))
        << i;
    waited += replies[i].last.timing().admission_us() > 1000 ? 1 : 0;
  }
  EXPECT_GE(waited, 10);
  EXPECT_LE(many.target_caches.most_live, 3);
  many.ExpectNothingHeld();
}

TEST(ManyRequests, AClientThatDoesNotReadStallsNobodyAndGetsItsTextLater) {
  ClusterOptions options = DemoOptions();
  options.loop.most_undelivered_tokens = 32;
  options.loop.close_after = absl::Milliseconds(50);
  CountedCluster many(std::move(options));
  InProcessCluster& cluster = *many.cluster;
  const v1::GenerateRequest long_one = GreedyRequest({263, 793, 286}, 900, 4);
  HeldCall slow(NarrowChannel(cluster.port(), 512), long_one, {.read_first = 2});
  ASSERT_TRUE(WaitUntil([&] { return slow.started(); }));

  const std::vector<v1::GenerateRequest> requests = MixedRequests(cluster.tokenizer(), 8);
  const std::vector<Reply> others = SendAll(cluster.channel(), requests, 8);
  const std::unique_ptr<model::LanguageModel> alone = LoadModel(kDemoTarget);
  const uint32_t vocabulary_size = cluster.tokenizer().vocabulary_size();
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(others[i].status.ok()) << others[i].status;
    EXPECT_EQ(others[i].ids, GreedyAlone(*alone, PromptOf(requests[i]), requests[i].max_tokens(),
                                         vocabulary_size));
  }
  // It stands still in mid-text, and holds nothing at the services meanwhile.
  EXPECT_TRUE(cluster.AllFreed());
  EXPECT_EQ(cluster.orchestrator().active_requests(), 1u);
  EXPECT_FALSE(slow.done());

  const Reply& reply = slow.Wait();  // reads on
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  const std::vector<uint32_t> whole =
      GreedyAlone(*alone, PromptOf(long_one), long_one.max_tokens(), vocabulary_size);
  EXPECT_EQ(reply.ids, whole);
  auto text = cluster.tokenizer().Decode(whole);
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text, HasSubstr(reply.text));
  EXPECT_GT(reply.text.size(), text->size() / 2);
  EXPECT_GE(reply.record().target_replays(), 1u) << "its sequences were filled again";
  many.ExpectNothingHeld();
}

TEST(ManyRequests, OneThatNeverReadsIsAbortedAndFreesItsPlace) {
  ClusterOptions options = OnePlace(4);
  options.loop.close_after = absl::Milliseconds(20);
  options.loop.abort_after = absl::Milliseconds(200);
  CountedCluster many(std::move(options));
  InProcessCluster& cluster = *many.cluster;
  HeldCall deaf(NarrowChannel(cluster.port(), 64), GreedyRequest({263, 793, 286}, 900, 4),
                {.read_first = 1});
  ASSERT_TRUE(WaitUntil([&] { return deaf.started(); }));
  const Reply next = Send(cluster.channel(), GreedyRequest({263, 793, 286}, 8, 2));
  EXPECT_TRUE(next.status.ok()) << next.status;
  many.ExpectNothingHeld();
  const Reply& reply = deaf.Wait();
  EXPECT_EQ(reply.status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(reply.status.message(), HasSubstr("the client did not read for 200ms"));
  EXPECT_LT(reply.ids.size(), 900u);
}

}  // namespace
}  // namespace tandem::testing
