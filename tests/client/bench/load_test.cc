// Many requests at once against a service of the test's own that knows what it was asked and what
// it did.
#include "client/bench/load.h"

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/concurrency/mutex.h"
#include "common/transport/server_host.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/wait.h"

namespace tandem::client {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint32_t kTokens = 4;  // of a request, one a delta

// Answers by the prompt: "ok"; "fail" (no token), "break" (no last message), "silent" (nothing,
// ever). Every reaction takes the mutex first: ThreadSanitizer does not see what gRPC orders.
class ScriptedService final : public v1::Generation::CallbackService {
 public:
  struct Counts {
    int living = 0;      // calls that gRPC knows
    int active = 0;      // that have not been ended
    int max_active = 0;  // at a time
    int ok = 0, failed = 0, broken = 0, described = 0;
  };

  ~ScriptedService() override { counts(); }

  // The first so many calls are answered when all of them have come.
  void HoldUntil(int calls) TANDEM_EXCLUDES(mutex_) {
    concurrency::MutexLock lock(mutex_);
    hold_until_ = calls;
  }

  // A delta is written so long after the one before it.
  void WaitBetween(std::chrono::milliseconds wait) TANDEM_EXCLUDES(mutex_) {
    concurrency::MutexLock lock(mutex_);
    wait_ = wait;
  }

  Counts counts() TANDEM_EXCLUDES(mutex_) {
    concurrency::MutexLock lock(mutex_);
    return counts_;
  }

  grpc::ServerWriteReactor<v1::GenerateReply>* Generate(
      grpc::CallbackServerContext*, const v1::GenerateRequest* request) override {
    return new Call(*this, request->text());
  }

  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const v1::DescribeRequest*, v1::DescribeReply* reply) override
      TANDEM_EXCLUDES(mutex_) {
    v1::Peer& peer = *reply->add_peers();
    peer.set_role(v1::Peer::ROLE_TARGET);
    {
      concurrency::MutexLock lock(mutex_);
      peer.mutable_load()->set_passes(10 + 7 * counts_.described++);
    }
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  class Call final : public grpc::ServerWriteReactor<v1::GenerateReply> {
   public:
    Call(ScriptedService& service, const std::string& what) : service_(service) {
      Order();
      {
        concurrency::MutexLock lock(service_.mutex_);
        what_ = what;
        Counts& counts = service_.counts_;
        ++counts.living;
        counts.max_active = std::max(counts.max_active, ++counts.active);
      }
      if (what == "silent") return;  // until it is cancelled
      if (service_.Held(this)) return;
      if (what == "fail") {
        // Not UNAVAILABLE: that is sent again before anybody hears of it.
        End({grpc::StatusCode::RESOURCE_EXHAUSTED, "not today"}, &Counts::failed);
      } else {
        Next();
      }
    }

    void OnWriteDone(bool written) override {
      if (!written) return End({grpc::StatusCode::CANCELLED, "gone"}, nullptr);
      std::chrono::milliseconds wait;
      {
        concurrency::MutexLock lock(service_.mutex_);
        wait = service_.wait_;
      }
      if (wait.count() == 0) return Next();
      alarm_.Set(std::chrono::system_clock::now() + wait, [this](bool) { Next(); });
    }
    void OnCancel() override {
      Order();
      bool silent = false;
      {
        concurrency::MutexLock lock(service_.mutex_);
        silent = what_ == "silent";
      }
      if (silent) End({grpc::StatusCode::CANCELLED, "gone"}, nullptr);
    }
    void OnDone() override {
      ScriptedService& service = service_;
      concurrency::MutexLock lock(service.mutex_);
      delete this;
      --service.counts_.living;
    }

    void Next() {
      int Counts::*counter = nullptr;
      {
        concurrency::MutexLock lock(service_.mutex_);
        reply_.Clear();
        if (sent_ < kTokens) {
          reply_.mutable_delta()->add_token_ids(sent_);
        } else if (sent_ == kTokens && what_ != "break") {
          reply_.mutable_last()->mutable_usage()->set_completion_tokens(kTokens);
        } else {
          counter = what_ == "break" ? &Counts::broken : &Counts::ok;
        }
        ++sent_;
      }
      if (counter != nullptr) return End(grpc::Status::OK, counter);
      StartWrite(&reply_);
    }

   private:
    // What is done before is seen by whoever calls this later.
    void Order() { concurrency::MutexLock lock(mutex_); }

    void End(const grpc::Status& status, int Counts::*counter) {
      {
        concurrency::MutexLock lock(service_.mutex_);
        --service_.counts_.active;  // before its client can know
        if (counter != nullptr) ++(service_.counts_.*counter);
      }
      Finish(status);
    }

    concurrency::Mutex mutex_;
    ScriptedService& service_;
    std::string what_;
    v1::GenerateReply reply_;
    grpc::Alarm alarm_;
    uint32_t sent_ = 0;
  };

  // Whether `call` must wait for others. The last one that comes answers those that waited.
  bool Held(Call* call) TANDEM_EXCLUDES(mutex_) {
    std::vector<Call*> calls;
    {
      concurrency::MutexLock lock(mutex_);
      if (counts_.max_active < hold_until_) {
        held_.push_back(call);
        return true;
      }
      calls.swap(held_);
    }
    for (Call* held : calls) held->Next();
    return false;
  }

  concurrency::Mutex mutex_;
  int hold_until_ TANDEM_GUARDED_BY(mutex_) = 0;
  std::chrono::milliseconds wait_ TANDEM_GUARDED_BY(mutex_){0};
  std::vector<Call*> held_ TANDEM_GUARDED_BY(mutex_);
  Counts counts_ TANDEM_GUARDED_BY(mutex_);
};

// Without this all texts of a run without a draft would begin and end in the same passes.
TEST(StaggeredTokens, SpreadsTheFirstRequestsOverALength) {
  constexpr uint32_t kConcurrency = 64, kMaxTokens = 64;
  std::vector<int> tenths(10);
  for (uint32_t i = 0; i + 1 < kConcurrency; ++i) {
    const uint32_t tokens = StaggeredTokens(i, kConcurrency, kMaxTokens);
    ASSERT_GE(tokens, 2u);
    ASSERT_LE(tokens, kMaxTokens);
    ++tenths[std::min(9u, tokens * 10 / kMaxTokens)];
  }
  EXPECT_THAT(tenths, ::testing::Each(::testing::AllOf(::testing::Ge(4), ::testing::Le(9))));
  for (const uint64_t later : {kConcurrency - 1, kConcurrency, 10 * kConcurrency}) {
    EXPECT_EQ(StaggeredTokens(later, kConcurrency, kMaxTokens), kMaxTokens);
  }
  EXPECT_EQ(StaggeredTokens(0, /*concurrency=*/1, kMaxTokens), kMaxTokens);
}

class LoadSourceTest : public ::testing::Test {
 protected:
  LoadSourceTest() {
    transport::ServerHostOptions options;
    options.listen_address = "127.0.0.1:0";
    options.services = {&service_};
    auto host = transport::ServerHost::Start(std::move(options));
    TANDEM_CHECK_OK(host);
    host_ = *std::move(host);
    source_ = std::make_unique<LoadSource>(absl::StrCat("127.0.0.1:", host_->port()), /*most=*/100);
  }
  ~LoadSourceTest() override {
    EXPECT_TRUE(testing::WaitUntil([&] { return service_.counts().living == 0; }));
  }

  // Every `nth` request asks for `what`, the others for "ok".
  LoadRun Run(uint32_t concurrency, uint64_t nth, const std::string& what) {
    LoadPlan plan;
    plan.concurrency = concurrency;
    plan.window = absl::Milliseconds(200);
    plan.min_ended = concurrency;
    plan.request = [nth, what](uint64_t index) {
      v1::GenerateRequest request;
      request.set_text(nth > 0 && index % nth == nth - 1 ? what : "ok");
      return request;
    };
    plan.cancelled = [this] { return cancelled_.load(); };
    return source_->Run(plan);
  }

  // All but those that were on their way when the run was cut.
  static void ExpectAllCounted(uint64_t counted, int happened, int concurrency) {
    EXPECT_LE(counted, static_cast<uint64_t>(happened));
    EXPECT_GE(counted + concurrency, static_cast<uint64_t>(happened));
  }

  ScriptedService service_;
  std::unique_ptr<transport::ServerHost> host_;
  std::unique_ptr<LoadSource> source_;
  std::atomic<bool> cancelled_{false};
};

TEST_F(LoadSourceTest, KeepsSoManyRunning) {
  service_.HoldUntil(7);
  const LoadRun run = Run(7, 0, "");
  EXPECT_THAT(run.failures, IsEmpty());
  EXPECT_GE(run.requests.size(), 7u);
  EXPECT_LE(run.requests.size(), static_cast<size_t>(service_.counts().ok));
  EXPECT_GE(run.counted_s, 0.2);
  EXPECT_GT(run.tokens, 0u);
  for (const RequestRecord& request : run.requests) {
    EXPECT_GT(request.first_token_ms, 0);
    EXPECT_EQ(request.last.usage().completion_tokens(), kTokens);
  }
  EXPECT_EQ(service_.counts().max_active, 7);
}

// With long requests most of a run is its tail. All records end there, so their tokens are counted,
// and the time is that of these tokens.
TEST_F(LoadSourceTest, CountsTheTokensOfTheTail) {
  service_.WaitBetween(std::chrono::milliseconds(60));
  const LoadRun run = Run(1, 0, "");
  ASSERT_GE(run.requests.size(), 1u);
  EXPECT_GE(run.tokens, kTokens * run.requests.size());
  EXPECT_GE(run.counted_s, (kTokens - 1) * 0.060 * run.requests.size());
}

TEST_F(LoadSourceTest, CountsTheDeviceInWindowAndTail) {
  const LoadRun run = Run(1, 0, "");
  ASSERT_TRUE(run.device.has_value());
  EXPECT_EQ(run.device->passes, 7u);  // asked once before and once after
}

TEST_F(LoadSourceTest, EveryFailureIsCounted) {
  const LoadRun run = Run(4, 3, "fail");
  EXPECT_GT(run.requests.size(), 0u);
  ASSERT_EQ(run.failures.size(), 1u);
  ExpectAllCounted(run.failures.at("RESOURCE_EXHAUSTED").count, service_.counts().failed, 4);
  EXPECT_EQ(run.failures.at("RESOURCE_EXHAUSTED").first_message, "not today");
}

TEST_F(LoadSourceTest, AStreamWithoutItsLastMessageIsAFailure) {
  const LoadRun run = Run(3, 2, "break");
  ExpectAllCounted(run.failures.at("INTERNAL").count, service_.counts().broken, 3);
  EXPECT_THAT(run.failures.at("INTERNAL").first_message, HasSubstr("without its last message"));
}

TEST_F(LoadSourceTest, AServiceThatRefusesEverythingIsNotStormed) {
  const LoadRun run = Run(5, 1, "fail");
  EXPECT_THAT(run.requests, IsEmpty());
  ExpectAllCounted(run.failures.at("RESOURCE_EXHAUSTED").count, service_.counts().failed, 5);
  // At most five every 20 ms of 600; a storm would be tens of thousands.
  EXPECT_LE(service_.counts().failed, 1000);
}

TEST_F(LoadSourceTest, ASignalCutsWhatWouldNeverEnd) {
  cancelled_ = true;
  const LoadRun run = Run(5, 1, "silent");
  EXPECT_THAT(run.requests, IsEmpty());
  EXPECT_THAT(run.failures, IsEmpty());  // cut by us
}

}  // namespace
}  // namespace tandem::client
