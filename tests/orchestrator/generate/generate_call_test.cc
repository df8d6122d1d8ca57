// What a request says before it runs and when it is over. The work itself: speculation_loop_test.cc.
#include "orchestrator/generate/generate_call.h"

#include "orchestrator/generate/last_message.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::orchestrator {
namespace {

using ::testing::HasSubstr;

class FakeSink final : public rpc::Sink<v1::GenerateReply> {
 public:
  bool Send(v1::GenerateReply message) override {
    sent.push_back(std::move(message));
    return true;
  }
  void Close(absl::Status status) override {
    if (!closed.has_value()) closed = std::move(status);
  }
  size_t queued() const override { return 0; }
  std::vector<v1::GenerateReply> sent;
  std::optional<absl::Status> closed;
};

class Letters final : public Detokenizer {
 public:
  absl::StatusOr<std::string> Feed(uint32_t id) override {
    return std::string(1, static_cast<char>('a' + id % 26));
  }
  std::string Finish() override { return {}; }
};

// A request that never gets to run: nothing here has a target.
struct Fixture {
  explicit Fixture(std::vector<uint32_t> output_prefix = {}) {
    GenerationRequest request;
    request.prompt = {1, 2};
    request.max_tokens = 8;
    request.sampling.end_tokens = {7};
    request.output_prefix = std::move(output_prefix);
    call = std::make_shared<GenerateCall>(
        std::move(request), parts,
        [](const GenerationRequest&) { return std::make_unique<Letters>(); }, sink,
        absl::ZeroDuration());
    prepared = call->Prepare(
        [this](const GenerationRequest& checked) -> absl::StatusOr<v1::Started> {
          ++started_made;
          EXPECT_EQ(checked.prompt_tokens(), 2u);
          return may_start;
        },
        [this] { ++done; });
  }

  const GenerateParts parts;
  const std::shared_ptr<FakeSink> sink = std::make_shared<FakeSink>();
  absl::Status may_start = absl::FailedPreconditionError("the target's model changed");
  int started_made = 0;
  int done = 0;
  std::shared_ptr<GenerateCall> call;
  absl::Status prepared;
};

TEST(GenerateCall, OneThatIsTurnedAwayHasSaidNothingAndIsDone) {
  Fixture request;
  ASSERT_TRUE(request.prepared.ok());
  EXPECT_EQ(request.done, 0);
  request.call->OnDecided(absl::ResourceExhaustedError("the line is full"), absl::Seconds(1));
  EXPECT_EQ(request.done, 1);
  EXPECT_EQ(request.started_made, 0);
  EXPECT_TRUE(request.sink->sent.empty());
  EXPECT_EQ(request.sink->closed, absl::ResourceExhaustedError("the line is full"));
}

TEST(GenerateCall, OneThatIsCancelledWhileItWaitsIsDoneAtOnceAndNeverBegins) {
  Fixture request;
  request.call->Cancel(absl::CancelledError("the client went away"));
  EXPECT_EQ(request.done, 1);
  EXPECT_EQ(request.sink->closed->code(), absl::StatusCode::kCancelled);
  request.call->OnDecided(absl::OkStatus(), absl::Seconds(1));  // was under way
  request.call->Cancel(absl::CancelledError("again"));
  EXPECT_EQ(request.done, 1);
  EXPECT_EQ(request.started_made, 0);
}

TEST(GenerateCall, WhatCannotBeginAfterItsWaitSaysWhy) {
  Fixture request;
  request.call->OnDecided(absl::OkStatus(), absl::Seconds(1));
  EXPECT_EQ(request.started_made, 1);
  EXPECT_EQ(request.done, 1);
  EXPECT_EQ(request.sink->closed->code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(request.sink->closed->message()), HasSubstr("model changed"));
}

TEST(GenerateCall, AnOutputPrefixThatEndsTheTextIsRefusedBeforeItWaits) {
  Fixture request({3, 7});
  EXPECT_EQ(request.prepared.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(request.done, 0);
  EXPECT_EQ(request.started_made, 0);
}

TEST(GenerateCall, TheLastMessageHoldsWaitsAndBatches) {
  GenerationRequest request;
  request.prompt = {1, 2, 3};
  request.output_prefix = {4};
  Ending ending;
  ending.finish = Finish::kStop;
  ending.output_tokens = 6;
  ending.counts.rounds = 4;
  ending.counts.batch_rows = 40;
  ending.counts.batch_sequences = 12;
  ending.times.total = absl::Milliseconds(90);
  ending.times.admission = absl::Milliseconds(30);
  ending.times.queue = absl::Microseconds(1500);
  ending.times.slot = absl::Microseconds(700);
  const v1::Last last = MakeLast(request, {ending});
  EXPECT_EQ(last.usage().completion_tokens(), 5u);
  EXPECT_EQ(last.speculation().batch_rows(), 40u);
  EXPECT_EQ(last.speculation().batch_sequences(), 12u);
  EXPECT_EQ(last.timing().total_us(), 90'000u);
  EXPECT_EQ(last.timing().admission_us(), 30'000u);
  EXPECT_EQ(last.timing().queue_us(), 1500u);
  EXPECT_EQ(last.timing().slot_us(), 700u);
}

}  // namespace
}  // namespace tandem::orchestrator
