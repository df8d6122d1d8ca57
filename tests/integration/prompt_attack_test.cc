// Clients with long prompts, over gRPC and over HTTP: the workers for long prompts, which stand
// back, do their work, and not those that serve others. And what is too long is refused by name.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/transport/channel.h"
#include "tests/common/admin/http_client.h"
#include "tests/integration/attack.h"

namespace tandem::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kInARow = 6;
// Prompts that are refused beside each measurement.
constexpr int kPrompts = 100;

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
  Attack(int attackers, const std::function<Ask()>& attacker, const std::string& refusal) {
    for (int i = 0; i < attackers; ++i) {
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
 public:
  struct Work {
    absl::Duration short_workers, long_workers;  // processor time
  };

 protected:
  // Short requests, one after the other.
  void Serve() {
    const auto channel = transport::MakeChannel(orchestrator_->address());
    for (int i = 0; i < kInARow; ++i) {
      v1::GenerateRequest request;
      request.set_text("The city was");
      request.set_max_tokens(16);
      request.mutable_sampling()->set_temperature(0);
      const Reply reply = Send(channel, request);
      EXPECT_TRUE(reply.status.ok()) << reply.status;
    }
  }

  // What an attack takes of each, while others are served.
  Work Beside(const std::string& what, int attackers, const std::function<Ask()>& attacker,
              const std::string& refusal) {
    const Work before = Taken();
    {
      Attack attack(attackers, attacker, refusal);
      Serve();
      EXPECT_TRUE(WaitUntil([&] { return attack.refused() >= kPrompts || attack.failed(); },
                            absl::Minutes(2)));
    }
    const Work after = Taken();
    const Work work = {after.short_workers - before.short_workers,
                       after.long_workers - before.long_workers};
    std::printf("%s: short workers %s, long workers %s\n", what.c_str(),
                absl::FormatDuration(work.short_workers).c_str(),
                absl::FormatDuration(work.long_workers).c_str());
    return work;
  }
  Work WithGrpc(int attackers, size_t bytes, const std::string& refusal) {
    return Beside(
        absl::StrCat(attackers, " of gRPC, ", bytes, " bytes"), attackers,
        [&] { return OverGrpc(orchestrator_->address(), bytes); }, refusal);
  }
  Work WithHttp(int attackers, int port, size_t bytes, const std::string& refusal) {
    return Beside(
        absl::StrCat(attackers, " of HTTP, ", bytes, " bytes"), attackers,
        [&] { return OverHttp(port, bytes); }, refusal);
  }

 private:
  Work Taken() const {
    return {orchestrator_->process().ThreadCpu("requests"),
            orchestrator_->process().ThreadCpu("long-prompts")};
  }
};

// Takes longer, so it has a name of its own.
class HttpPromptAttackTest : public PromptAttackTest {};

// Of a prompt that is long the long workers do all the work: it was none.
void ExpectLongWork(const PromptAttackTest::Work& work) {
  EXPECT_LT(2 * work.short_workers, work.long_workers);
}

TEST_F(PromptAttackTest, OthersDoNotShareTheirWorkers) {
  Start({});
  ASSERT_TRUE(ServesSoon()) << orchestrator_->Output();
  ExpectLongWork(WithGrpc(2, (1 << 20) - 100, "can fit"));
  // As far as their bytes tell, these may fit, so they are tokenised.
  ExpectLongWork(WithGrpc(2, 17'000, "the prompt has 3812 tokens"));
  // Each of these is short by itself. How much goes where: work_turns_test.
  EXPECT_GT(WithGrpc(8, 8'192, "tokens").long_workers, absl::Milliseconds(20));
  EXPECT_LT(PeakBytes("orchestrator", *orchestrator_), int64_t{800} << 20);
}

TEST_F(HttpPromptAttackTest, OthersDoNotShareTheirWorkers) {
  const std::string file = ::testing::TempDir() + "/http-port";
  Start({"--http-listen=127.0.0.1:0", "--http-port-file=" + file});
  ASSERT_TRUE(ServesSoon()) << orchestrator_->Output();
  int port = 0;
  ASSERT_TRUE(WaitUntil([&] { return static_cast<bool>(std::ifstream(file) >> port); }));
  ExpectLongWork(WithHttp(2, port, (1 << 20) - 100, "can fit"));
  ExpectLongWork(WithHttp(2, port, 17'000, "the prompt has 3812 tokens"));
  EXPECT_GT(WithHttp(8, port, 8'192, "tokens").long_workers, absl::Milliseconds(20));
  EXPECT_LT(PeakBytes("orchestrator", *orchestrator_), int64_t{800} << 20);
}

// As large as HTTP takes, and never a status that clients take for "try again".
TEST_F(PromptAttackTest, WhatIsTooLongIsRefusedByName) {
  Start({});
  ASSERT_TRUE(ServesSoon()) << orchestrator_->Output();
  EXPECT_THAT(OverGrpc(orchestrator_->address(), 3 << 19)(),
              AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("can fit")));
  for (const size_t bytes : {(8 << 20) + 1, 20 << 20}) {
    EXPECT_THAT(OverGrpc(orchestrator_->address(), bytes)(),
                AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("at most 8388608")));
  }
}

}  // namespace
}  // namespace tandem::testing
