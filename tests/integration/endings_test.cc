// How targets and drafts end, and all three services while they start.
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/listen.h"
#include "common/speculation/prefix.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/endings.h"
#include "tests/integration/raw_stream.h"

namespace tandem::testing::endings_test {
namespace {

using ::testing::HasSubstr;
using Flags = std::vector<std::string>;

const std::vector<uint32_t> kPrompt = {263, 793, 286, 300, 410};

// What the target answers to a Step of a new sequence.
internal::v1::Status Begin(TargetStream& stream, uint64_t sequence) {
  internal::v1::TargetRequest request;
  *request.mutable_batch()->add_steps() = FirstStep(sequence, kPrompt);
  return stream.Ask(request).verdicts().verdicts(0).status();
}

class Target {
 public:
  explicit Target(const std::string& grace)
      : process("tandem-target",
                {"--listen=127.0.0.1:0", absl::StrCat("--model=", DemoTarget()), "--measure=0s",
                 "--grace=" + grace},
                "port_file"),
        stream(At(process.WaitForPort())) {
    stream.SayHello();
    EXPECT_EQ(Begin(stream, 1), internal::v1::STATUS_OK);
    process.Signal(SIGTERM);
    EXPECT_TRUE(WaitUntilItSays(process, "draining sequences=1"));
    // Its clients stay connected, and hear in their streams that there is nothing new to have.
    EXPECT_EQ(Begin(stream, 2), internal::v1::STATUS_DRAINING);
  }

  Process process;
  TargetStream stream;
};

TEST(TargetEnds, WhenItsLastSequenceDoes) {
  Target target("1h");
  internal::v1::TargetRequest close;
  close.mutable_batch()->add_close(1);
  target.stream.Tell(close);
  EXPECT_LT(TimeToEnd(target.process), kSoon);
  EXPECT_TRUE(Says(target.process, "stopped waiting_ended=finished sequences_ended=0"))
      << target.process.Output();
  const grpc::Status status = target.stream.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("ask another one"));
}

TEST(TargetEnds, AfterItsGrace) {
  Target target("1s");
  EXPECT_LT(TimeToEnd(target.process), kSoon);
  EXPECT_TRUE(Says(target.process, "stopped waiting_ended=grace_over sequences_ended=1"))
      << target.process.Output();
  EXPECT_EQ(target.stream.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(TargetEnds, AtASecondSignal) {
  Target target("1h");
  target.process.Signal(SIGTERM);
  EXPECT_LT(TimeToEnd(target.process), kSoon);
  EXPECT_TRUE(Says(target.process, "stopped waiting_ended=second_signal sequences_ended=1"))
      << target.process.Output();
}

// A sequence whose stream broke lingers; nobody may ever come for it.
TEST(TargetEnds, WithoutWaitingForThoseThatLinger) {
  Process process("tandem-target",
                  {"--listen=127.0.0.1:0", absl::StrCat("--model=", DemoTarget()), "--measure=0s",
                   "--linger=1h", "--grace=1h"},
                  "port_file");
  {
    TargetStream stream(At(process.WaitForPort()));
    stream.SayHello();
    EXPECT_EQ(Begin(stream, 1), internal::v1::STATUS_OK);
  }
  ASSERT_TRUE(WaitUntilItSays(process, "client_gone"));
  process.Signal(SIGTERM);
  EXPECT_LT(TimeToEnd(process), kSoon);
}

// Sequences are handed over: nobody waits for their ends.
TEST(DraftEnds, AtOnce) {
  Process process("tandem-draft",
                  {"--listen=127.0.0.1:0", absl::StrCat("--model=", DemoDraft()), "--grace=1h"},
                  "port_file");
  DraftStream stream(At(process.WaitForPort()));
  stream.SayHello();
  internal::v1::DraftRequest open;
  open.mutable_open()->set_sequence(1);
  const internal::v1::Step step = FirstStep(1, kPrompt);
  *open.mutable_open()->mutable_options() = step.options();
  *open.mutable_open()->mutable_prefix() = step.prefix();
  stream.Tell(open);
  internal::v1::DraftRequest advance;
  advance.mutable_advance()->set_sequence(1);
  advance.mutable_advance()->set_round(1);
  advance.mutable_advance()->mutable_prefix()->set_keep(static_cast<uint32_t>(kPrompt.size()));
  advance.mutable_advance()->mutable_prefix()->set_hash(speculation::PrefixHash(kPrompt));
  advance.mutable_advance()->mutable_shape()->set_max_draft_tokens(4);
  EXPECT_EQ(stream.Ask(advance).block().status(), internal::v1::STATUS_OK);
  process.Signal(SIGTERM);
  const grpc::Status status = stream.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("open at another one"));
  EXPECT_LT(TimeToEnd(process), kSoon);
  EXPECT_TRUE(Says(process, "draining sequences=1")) << process.Output();
  EXPECT_TRUE(Says(process, "stopped waiting_ended=finished sequences_ended=0"));
}

// The model is one of a hub that accepts a connection and says nothing.
TEST(AnyServiceEnds, AtOnceWhileItStarts) {
  const struct {
    const char* binary;
    std::string model_flag;
    Flags flags;
  } services[] = {{"tandem-target", "--model=", {"--grace=1h", "--listen=127.0.0.1:0"}},
                  {"tandem-draft", "--model=", {"--grace=1h", "--listen=127.0.0.1:0"}},
                  {"tandem-orchestrator",
                   "--tokenizer=",
                   {"--grace=1h", "--listen=127.0.0.1:0", "--target=127.0.0.1:1"}}};
  const auto hub = base::Listen({"127.0.0.1", 0});
  ASSERT_TRUE(hub.ok()) << hub.status();
  const base::Socket& listener = hub->front();
  const ScratchFolder cache;
  setenv("HF_HOME", cache.path().c_str(), 1);
  setenv("HF_ENDPOINT",
         absl::StrCat("http://127.0.0.1:", base::PortOf(base::BoundAddress(listener))).c_str(), 1);
  for (const auto& service : services) {
    Flags flags = service.flags;
    flags.push_back(service.model_flag + "owner/name");
    Process process(service.binary, flags, "port_file");
    int connection = -1;
    ASSERT_TRUE(WaitUntil([&] {
      return (connection = accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC)) >= 0;
    })) << process.Output();
    const base::Socket owned(connection);
    process.Signal(SIGTERM);
    EXPECT_LT(TimeToEnd(process), kSoon) << service.binary;
    EXPECT_TRUE(Says(process, "stopped during=start")) << process.Output();
  }
}

}  // namespace
}  // namespace tandem::testing::endings_test
