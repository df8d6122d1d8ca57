// Clients with long prompts, over gRPC and over HTTP: others are served as fast as before.
//
// The attackers are threads of this process, so what they take of the machine by themselves counts,
// too.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/transport/channel.h"
#include "tests/common/admin/http_client.h"
#include "tests/integration/attack.h"

namespace tandem::testing {
namespace {

constexpr int kTurns = 8;
constexpr int kInARow = 6;
constexpr int kAttackers = 2;
constexpr double kMaxTimes = 1.5;
constexpr int kTries = 3;  // something else may want the machine, too

std::string Words(size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += "the old captain looked at the sea and said nothing of it; ";
  return text.substr(0, bytes);
}

// Sends a prompt, and returns what was answered.
using Ask = std::function<std::string()>;

// Each attacker has a connection of its own.
Ask OverGrpc(const std::string& address, size_t bytes) {
  v1::GenerateRequest request;
  request.set_text(Words(bytes));
  request.set_max_tokens(1);
  return [request, channel = transport::MakeChannel(address)] {
    return Send(channel, request).status.ToString();
  };
}

// One answer after another over a connection that is kept.
class HttpClient {
 public:
  explicit HttpClient(int port) : connection_(port) {}

  // The whole answer; what came before the end if the connection was closed.
  std::string Ask(const std::string& request) {
    connection_.Send(request);
    std::string answer;
    while (!IsWhole(answer)) {
      const std::string more = connection_.Read();
      if (more.empty()) break;
      answer += more;
    }
    return answer;
  }

 private:
  static bool IsWhole(absl::string_view answer) {
    const size_t head = answer.find("\r\n\r\n");
    if (head == absl::string_view::npos) return false;
    constexpr absl::string_view kLength = "Content-Length: ";
    absl::string_view length = answer.substr(answer.find(kLength) + kLength.size());
    size_t body = 0;
    return absl::SimpleAtoi(length.substr(0, length.find('\r')), &body) &&
           answer.size() >= head + 4 + body;
  }

  admin::PlainConnection connection_;
};

Ask OverHttp(int port, size_t bytes) {
  const std::string body = absl::StrCat(R"({"prompt": ")", Words(bytes), R"(", "max_tokens": 1})");
  const std::string request = absl::StrCat(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
      "Content-Type: application/json\r\nContent-Length: ",
      body.size(), "\r\n\r\n", body);
  return [client = std::make_shared<HttpClient>(port), request] { return client->Ask(request); };
}

// Prompts again and again, while it lives. Each attacker sends the next one as soon as one was
// refused. `refusal`: what the answer says then.
class Attack {
 public:
  Attack(const std::function<Ask()>& attacker, const std::string& refusal) {
    for (int i = 0; i < kAttackers; ++i) {
      threads_.emplace_back([this, refusal, ask = attacker()] {
        while (!over_) {
          const std::string answer = ask();
          if (!absl::StrContains(answer, refusal)) {
            ADD_FAILURE() << answer;
            failed_ = true;
            return;
          }
          ++refused_;
        }
      });
    }
  }
  ~Attack() {
    over_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  int refused() const { return refused_; }
  bool failed() const { return failed_; }  // something else was answered

 private:
  std::atomic<bool> over_{false};
  std::atomic<int> refused_{0};
  std::atomic<bool> failed_{false};
  std::vector<std::thread> threads_;
};

class PromptAttackTest : public AttackTest {
 protected:
  using Times = std::vector<absl::Duration>;

  // Of short requests, one after the other.
  void Serve(Times& took) {
    const auto channel = transport::MakeChannel(orchestrator_->address());
    for (int i = 0; i < kInARow; ++i) {
      v1::GenerateRequest request;
      request.set_text("The city was");
      request.set_max_tokens(16);
      request.mutable_sampling()->set_temperature(0);
      const absl::Time begin = absl::Now();
      EXPECT_TRUE(Send(channel, request).status.ok());
      took.push_back(absl::Now() - begin);
    }
  }

  static absl::Duration Median(Times took) {
    std::nth_element(took.begin(), took.begin() + took.size() / 2, took.end());
    return took[took.size() / 2];
  }

  // The median beside such prompts, in times of the median without them; infinite if a prompt was
  // not refused as it should be. Both are measured in turn, so that a machine which slows down for a
  // while slows both.
  double TimesOfAlone(const std::string& what, const std::function<Ask()>& attacker,
                      const std::string& refusal) {
    Times alone, attacked;
    double prompts = 0;
    absl::Duration beside;
    for (int turn = 0; turn < kTurns; ++turn) {
      Serve(alone);
      Attack attack(attacker, refusal);
      EXPECT_TRUE(WaitUntil([&] { return attack.refused() > kAttackers || attack.failed(); }));
      if (attack.failed()) return std::numeric_limits<double>::infinity();
      const int before = attack.refused();
      const absl::Time begin = absl::Now();
      Serve(attacked);
      prompts += attack.refused() - before;
      beside += absl::Now() - begin;
    }
    const double times = absl::FDivDuration(Median(attacked), Median(alone));
    std::printf("%s, %.0f a second: median %s, alone %s: %.2f times\n", what.c_str(),
                prompts / absl::ToDoubleSeconds(beside),
                absl::FormatDuration(Median(attacked)).c_str(),
                absl::FormatDuration(Median(alone)).c_str(), times);
    EXPECT_GT(prompts, 0);  // else nothing was measured
    return times;
  }

  double LeastTimesOfAlone(const std::string& what, const std::function<Ask()>& attacker,
                           const std::string& refusal) {
    double least = TimesOfAlone(what, attacker, refusal);
    for (int i = 1; i < kTries && least >= kMaxTimes; ++i) {
      least = std::min(least, TimesOfAlone(what, attacker, refusal));
    }
    return least;
  }

  double TimesWithGrpc(size_t bytes, const std::string& refusal) {
    return LeastTimesOfAlone(
        absl::StrCat("gRPC, ", bytes, " bytes"),
        [&] { return OverGrpc(orchestrator_->address(), bytes); }, refusal);
  }
  double TimesWithHttp(int port, size_t bytes, const std::string& refusal) {
    return LeastTimesOfAlone(
        absl::StrCat("HTTP, ", bytes, " bytes"), [&] { return OverHttp(port, bytes); }, refusal);
  }
};

// Takes longer, so it has a name of its own.
class HttpPromptAttackTest : public PromptAttackTest {};

TEST_F(PromptAttackTest, OthersAreServedAsBefore) {
  Start({});
  ASSERT_TRUE(ServesSoon()) << orchestrator_->Output();
  Times warm;
  Serve(warm);
  // It was 30 to 100 times.
  EXPECT_LT(TimesWithGrpc((1 << 20) - 100, "can fit"), kMaxTimes);
  // As far as their bytes tell, these may fit, so they are tokenised.
  EXPECT_LT(TimesWithGrpc(17'000, "the prompt has 3812 tokens"), kMaxTimes);
  EXPECT_LT(PeakBytes("orchestrator", *orchestrator_), int64_t{800} << 20);
}

TEST_F(HttpPromptAttackTest, OthersAreServedAsBefore) {
  const std::string file = ::testing::TempDir() + "/http-port";
  Start({"--http-listen=127.0.0.1:0", "--http-port-file=" + file});
  ASSERT_TRUE(ServesSoon()) << orchestrator_->Output();
  int port = 0;
  ASSERT_TRUE(WaitUntil([&] { return static_cast<bool>(std::ifstream(file) >> port); }));
  Times warm;
  Serve(warm);
  EXPECT_LT(TimesWithHttp(port, (1 << 20) - 100, "can fit"), kMaxTimes);
  EXPECT_LT(TimesWithHttp(port, 17'000, "the prompt has 3812 tokens"), kMaxTimes);
  EXPECT_LT(PeakBytes("orchestrator", *orchestrator_), int64_t{800} << 20);
}

}  // namespace
}  // namespace tandem::testing
