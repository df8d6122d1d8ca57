// The three services in one process for two minutes, under 32 clients of every kind and a bad network:
// requests that are cancelled, readers that are slow, streams that are cut or go silent, a draft that is
// replaced. Every request ends in one clear way, greedy text is exactly the target's, and nothing is left behind.
//
//   TANDEM_SOAK_SECONDS (default 120), TANDEM_SOAK_SEED (default 1)
#include <grpcpp/grpcpp.h>
#include <malloc.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/concurrency/mutex.h"
#include "common/concurrency/notification.h"
#include "common/config/check.h"
#include "gtest/gtest.h"
#include "tandem/v1/generation.grpc.pb.h"
#include "tests/integration/cluster.h"
#include "tests/integration/models.h"
#include "tests/integration/wait.h"
#include "tests/netproxy/netproxy.h"
#include "tests/soak/expected_text.h"
#include "tests/soak/restartable_draft.h"
#include "tests/support/table_model.h"

namespace tandem::testing {
namespace {

constexpr int kClients = 32;
constexpr int64_t kMostGrowthKiB = 48 * 1024;
constexpr int kMostMoreThreads = 8;  // gRPC's own pools breathe

uint64_t Setting(const char* name, uint64_t fallback) {
  const char* text = getenv(name);
  return text == nullptr ? fallback : strtoull(text, nullptr, 10);
}

int64_t ProcessNumber(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(field + ":", 0) == 0) return std::stoll(line.substr(field.size() + 1));
  }
  TANDEM_CHECK(false) << "no " << field << " in /proc/self/status";
  return 0;
}

TableModelOptions TargetOptions() {
  TableModelOptions options;
  options.vocabulary_size = kLetters;
  options.peakedness = 2;
  // A pass takes a moment, so that there is something to cut.
  options.before_step = [](absl::Span<const model::StepPart>) {
    absl::SleepFor(absl::Microseconds(300));
    return absl::OkStatus();
  };
  return options;
}

TableModelOptions DraftOptions() {
  TableModelOptions options = TargetOptions();
  options.noise = 0.7;
  options.noise_seed = 5;
  options.before_step = nullptr;
  return options;
}

// How the requests ended, and what was wrong. Thread-safe.
class Tally {
 public:
  void Ended(const std::string& how) {
    concurrency::MutexLock lock(mutex_);
    ++endings_[how];
  }
  void Wrong(const std::string& what) {
    concurrency::MutexLock lock(mutex_);
    if (++wrong_ <= 10) ADD_FAILURE() << what;
  }
  uint64_t count(const std::string& how) const {
    concurrency::MutexLock lock(mutex_);
    auto it = endings_.find(how);
    return it == endings_.end() ? 0 : it->second;
  }
  std::string Text() const {
    concurrency::MutexLock lock(mutex_);
    std::ostringstream text;
    for (const auto& [how, times] : endings_) text << how << " " << times << "  ";
    return text.str();
  }
  uint64_t replays() const { return replays_; }
  uint64_t reconnections() const { return reconnections_; }
  void Add(const v1::AcceptanceRecord& record) {
    replays_ += record.target_replays();
    reconnections_ += record.draft_reconnections();
  }

 private:
  mutable concurrency::Mutex mutex_;
  std::map<std::string, uint64_t> endings_ TANDEM_GUARDED_BY(mutex_);
  uint64_t wrong_ TANDEM_GUARDED_BY(mutex_) = 0;
  std::atomic<uint64_t> replays_{0}, reconnections_{0};
};

// One client: a request after the other until it is told to stop.
class Client {
 public:
  Client(const InProcessCluster& cluster, const TableModel& table, Tally& tally, uint64_t seed)
      : stub_(v1::Generation::NewStub(cluster.channel())),
        table_(table),
        tally_(tally),
        random_(seed) {}

  void Run(const std::atomic<bool>& stop) {
    while (!stop) One();
  }

 private:
  struct Plan {
    v1::GenerateRequest request;
    int cancel_after = -1;  // deltas; -1: never
    bool slow = false;
    bool deadline = false;
  };

  Plan MakePlan() {
    Plan plan;
    plan.request = MixedRequest(random_);
    if (random_() % 10 < 3) plan.cancel_after = static_cast<int>(random_() % 12);
    plan.slow = random_() % 6 == 0;
    plan.deadline = random_() % 12 == 0;
    return plan;
  }

  void One() {
    const Plan plan = MakePlan();
    grpc::ClientContext context;
    if (plan.deadline) {
      context.set_deadline(std::chrono::system_clock::now() +
                           std::chrono::milliseconds(1 + random_() % 400));
    }
    auto reader = stub_->Generate(&context, plan.request);
    if (plan.cancel_after == 0) context.TryCancel();
    v1::GenerateReply message;
    std::vector<uint32_t> ids;
    std::string text;
    int starts = 0, lasts = 0, deltas = 0;
    v1::Last last;
    while (reader->Read(&message)) {
      if (message.has_started()) ++starts;
      if (message.has_last()) {
        ++lasts;
        last = message.last();
      }
      if (!message.has_delta()) continue;
      ids.insert(ids.end(), message.delta().token_ids().begin(), message.delta().token_ids().end());
      text += message.delta().text();
      if (++deltas == plan.cancel_after) context.TryCancel();
      if (plan.slow) absl::SleepFor(absl::Milliseconds(random_() % 8));
    }
    const grpc::Status status = reader->Finish();
    Judge(plan, status, starts, lasts, last, ids, text);
  }

  void Judge(const Plan& plan, const grpc::Status& status, int starts, int lasts,
             const v1::Last& last, const std::vector<uint32_t>& ids, const std::string& text) {
    const bool greedy = plan.request.sampling().temperature() == 0;
    const ExpectedText expected = greedy ? GreedyText(table_, plan.request) : ExpectedText{};
    auto wrong = [&](const std::string& what) {
      tally_.Wrong(absl::StrCat(what, "; status ", status.error_code(), " ", status.error_message(),
                                "; request ", plan.request.ShortDebugString()));
    };
    if (starts > 1 || lasts > 1) wrong("more than one Started or Last");
    if (greedy && (ids.size() > expected.ids.size() ||
                   !std::equal(ids.begin(), ids.end(), expected.ids.begin()))) {
      wrong("other ids than the target's");
    }
    switch (status.error_code()) {
      case grpc::StatusCode::OK:
        tally_.Ended("ok");
        tally_.Add(last.speculation());
        if (starts != 1 || lasts != 1) wrong("OK without Started or Last");
        if (last.usage().completion_tokens() != ids.size()) wrong("usage is not what was sent");
        if (greedy && (ids != expected.ids || text != expected.text ||
                       last.finish_reason() != expected.finish)) {
          wrong(absl::StrCat("not the target's text: \"", text, "\" for \"", expected.text, "\""));
        }
        return;
      case grpc::StatusCode::CANCELLED:
        tally_.Ended("cancelled");
        if (plan.cancel_after < 0) wrong("cancelled, but not by the client");
        return;
      case grpc::StatusCode::DEADLINE_EXCEEDED:
        tally_.Ended("deadline");
        if (!plan.deadline) wrong("a deadline that was not set");
        return;
      case grpc::StatusCode::RESOURCE_EXHAUSTED:
        tally_.Ended("no slot");
        if (!plan.deadline) wrong("no slot, without a deadline");
        return;
      default:
        wrong("an end that nothing explains");
    }
  }

  const std::unique_ptr<v1::Generation::Stub> stub_;
  const TableModel& table_;
  Tally& tally_;
  std::mt19937_64 random_;
};

// Cuts, silences and mends both links, and replaces the draft, a second or two apart.
class BadNetwork {
 public:
  BadNetwork(netproxy::NetProxy& target, netproxy::NetProxy& draft, RestartableDraft& service,
             uint64_t seed)
      : target_(target), draft_(draft), service_(service), random_(seed), thread_([this] {
          Run();
        }) {}
  // Whole again afterwards.
  ~BadNetwork() {
    over_.Notify();
    thread_.join();
    target_.Resume();
    draft_.Resume();
  }

 private:
  void Run() {
    while (!Pause(500, 2500)) {
      netproxy::NetProxy& link = random_() % 2 == 0 ? target_ : draft_;
      switch (random_() % 5) {
        case 0:
        case 1:
          link.Reset();
          break;
        case 2:
          service_.Restart();
          break;
        case 3:
          link.HalfOpen();
          Pause(100, 1500);
          link.Resume();
          link.Reset();
          break;
        default:
          link.Stall(netproxy::Direction::kBoth);
          Pause(50, 1500);
          link.Resume();
      }
    }
  }

  bool Pause(int least, int most) {  // true: it is over
    const int milliseconds = least + static_cast<int>(random_() % (most - least));
    return over_.WaitFor(absl::Milliseconds(milliseconds));
  }

  netproxy::NetProxy& target_;
  netproxy::NetProxy& draft_;
  RestartableDraft& service_;
  std::mt19937_64 random_;
  concurrency::Notification over_;
  std::thread thread_;
};

struct Footprint {
  int64_t resident_kib = 0;
  int64_t threads = 0;
};

Footprint Measure() {
  malloc_trim(0);
  return {ProcessNumber("VmRSS"), ProcessNumber("Threads")};
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
    options.most_sequences = kClients * 3 / 4;  // somebody always waits for a slot
    options.loop.most_undelivered_tokens = 32;  // slow readers pause their requests
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
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (uint64_t i = 0; i < kClients; ++i) {
      threads.emplace_back(
          [&, i] { Client(*cluster_, table_, tally_, seed * 1000 + i).Run(stop); });
    }
    const absl::Time end = absl::Now() + duration;
    while (absl::Now() < end) {
      absl::SleepFor(std::min(absl::Seconds(10), end - absl::Now()));
      printf("  %s\n", tally_.Text().c_str());
      fflush(stdout);
    }
    stop = true;
    for (std::thread& thread : threads) thread.join();
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
  const Footprint warm = Measure();

  Load(duration * 3 / 4, seed + 1);
  ExpectIdle();
  const Footprint end = Measure();
  printf(
      "  resident %lld KiB, then %lld; threads %lld, then %lld; replays %llu, reconnections "
      "%llu\n",
      static_cast<long long>(warm.resident_kib), static_cast<long long>(end.resident_kib),
      static_cast<long long>(warm.threads), static_cast<long long>(end.threads),
      static_cast<unsigned long long>(tally_.replays()),
      static_cast<unsigned long long>(tally_.reconnections()));
  EXPECT_LE(end.resident_kib, warm.resident_kib + kMostGrowthKiB);
  EXPECT_LE(end.threads, warm.threads + kMostMoreThreads);

  // The faults did happen, and most requests got over them.
  EXPECT_GT(tally_.count("ok"), tally_.count("deadline") + tally_.count("no slot"));
  EXPECT_GT(tally_.count("cancelled"), 0u);
  EXPECT_GT(tally_.replays(), 0u);
  EXPECT_GT(tally_.reconnections(), 0u);
  EXPECT_GT(draft_.restarts(), 0);
}

}  // namespace
}  // namespace tandem::testing
