// Many requests at once against a service of the test's own that knows what it was asked and what it did.
#include "client/bench_load.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config/check.h"
#include "common/rpc/server_host.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/wait.h"

namespace tandem::client {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint32_t kTokens = 4;  // of a request, one a delta

// Answers by the prompt: "ok"; "fail" (no token), "break" (no last message), "silent" (nothing, ever).
class ScriptedService final : public v1::Generation::CallbackService {
 public:
  std::atomic<int> living{0}, active{0}, most_active{0}, ok{0}, failed{0}, broken{0}, described{0};

  grpc::ServerWriteReactor<v1::GenerateReply>* Generate(
      grpc::CallbackServerContext*, const v1::GenerateRequest* request) override {
    return new Call(*this, request->text());
  }

  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const v1::DescribeRequest*,
                                     v1::DescribeReply* reply) override {
    v1::Peer& peer = *reply->add_peers();
    peer.set_role(v1::Peer::ROLE_TARGET);
    peer.mutable_load()->set_passes(10 + 7 * described++);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  class Call final : public grpc::ServerWriteReactor<v1::GenerateReply> {
   public:
    Call(ScriptedService& service, std::string what) : service_(service), what_(std::move(what)) {
      ++service_.living;
      const int now = ++service_.active;
      int most = service_.most_active;
      while (now > most && !service_.most_active.compare_exchange_weak(most, now)) {
      }
      if (what_ == "silent") return;  // until it is cancelled
      if (what_ == "fail") {
        ++service_.failed;
        End({grpc::StatusCode::UNAVAILABLE, "not today"});
      } else {
        Next();
      }
    }

    void OnWriteDone(bool written) override {
      if (!written) return End({grpc::StatusCode::CANCELLED, "gone"});
      Next();
    }
    void OnCancel() override {
      if (what_ == "silent") End({grpc::StatusCode::CANCELLED, "gone"});
    }
    void OnDone() override {
      --service_.living;
      delete this;
    }

   private:
    void End(const grpc::Status& status) {
      --service_.active;  // before its client can know
      Finish(status);
    }

    void Next() {
      reply_.Clear();
      if (sent_ == kTokens) {
        if (what_ == "break") {
          ++service_.broken;
          return End(grpc::Status::OK);
        }
        ++sent_;
        reply_.mutable_last()->mutable_usage()->set_completion_tokens(kTokens);
        return StartWrite(&reply_);
      }
      if (sent_ > kTokens) {
        ++service_.ok;
        return End(grpc::Status::OK);
      }
      ++sent_;
      reply_.mutable_delta()->add_token_ids(sent_);
      StartWrite(&reply_);
    }

    ScriptedService& service_;
    const std::string what_;
    v1::GenerateReply reply_;
    uint32_t sent_ = 0;
  };
};

class LoadSourceTest : public ::testing::Test {
 protected:
  LoadSourceTest() {
    rpc::ServerHostOptions options;
    options.listen_address = "127.0.0.1:0";
    options.services = {&service_};
    auto host = rpc::ServerHost::Start(std::move(options));
    TANDEM_CHECK_OK(host);
    host_ = *std::move(host);
    source_ = std::make_unique<LoadSource>(absl::StrCat("127.0.0.1:", host_->port()), /*most=*/100);
  }
  ~LoadSourceTest() override {
    EXPECT_TRUE(testing::WaitUntil([&] { return service_.living == 0; }));
  }

  // Every `nth` request asks for `what`, the others for "ok".
  LoadRun Run(uint32_t concurrency, uint64_t nth, const std::string& what) {
    LoadPlan plan;
    plan.concurrency = concurrency;
    plan.window = absl::Milliseconds(200);
    plan.least_ended = concurrency;
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
  std::unique_ptr<rpc::ServerHost> host_;
  std::unique_ptr<LoadSource> source_;
  std::atomic<bool> cancelled_{false};
};

TEST_F(LoadSourceTest, KeepsSoManyRunning) {
  const LoadRun run = Run(7, 0, "");
  EXPECT_THAT(run.failures, IsEmpty());
  EXPECT_GE(run.requests.size(), 7u);
  EXPECT_LE(run.requests.size(), static_cast<size_t>(service_.ok));
  EXPECT_GE(run.window_s, 0.2);
  EXPECT_GT(run.window_tokens, 0u);
  for (const RequestRecord& request : run.requests) {
    EXPECT_GT(request.first_token_ms, 0);
    EXPECT_EQ(request.last.usage().completion_tokens(), kTokens);
  }
  EXPECT_EQ(service_.most_active, 7);
}

TEST_F(LoadSourceTest, CountsTheDeviceInTheWindow) {
  const LoadRun run = Run(1, 0, "");
  ASSERT_TRUE(run.device.has_value());
  EXPECT_EQ(run.device->passes, 7u);  // asked once before and once after
}

TEST_F(LoadSourceTest, EveryFailureIsCounted) {
  const LoadRun run = Run(4, 3, "fail");
  EXPECT_GT(run.requests.size(), 0u);
  ASSERT_EQ(run.failures.size(), 1u);
  ExpectAllCounted(run.failures.at("UNAVAILABLE").count, service_.failed, 4);
  EXPECT_EQ(run.failures.at("UNAVAILABLE").first_message, "not today");
}

TEST_F(LoadSourceTest, AStreamWithoutItsLastMessageIsAFailure) {
  const LoadRun run = Run(3, 2, "break");
  ExpectAllCounted(run.failures.at("INTERNAL").count, service_.broken, 3);
  EXPECT_THAT(run.failures.at("INTERNAL").first_message, HasSubstr("without its last message"));
}

TEST_F(LoadSourceTest, AServiceThatRefusesEverythingIsNotStormed) {
  const LoadRun run = Run(5, 1, "fail");
  EXPECT_THAT(run.requests, IsEmpty());
  ExpectAllCounted(run.failures.at("UNAVAILABLE").count, service_.failed, 5);
  // At most five every 20 ms of 600; a storm would be tens of thousands.
  EXPECT_LE(service_.failed, 1000);
}

TEST_F(LoadSourceTest, ASignalCutsWhatWouldNeverEnd) {
  cancelled_ = true;
  const LoadRun run = Run(5, 1, "silent");
  EXPECT_THAT(run.requests, IsEmpty());
  EXPECT_THAT(run.failures, IsEmpty());  // cut by us
}

}  // namespace
}  // namespace tandem::client
