// What a request says before it runs and when it is over. The work itself:
// speculation_loop_test.cc.
#include "orchestrator/generate/generate_call.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/messages/status_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/generate/last_message.h"
#include "tests/support/fake_clock.h"

namespace tandem::orchestrator {
namespace {

using ::testing::HasSubstr;

class FakeSink final : public transport::Sink<v1::GenerateReply> {
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
    request.sampling.stop_token_ids = {7};
    request.output_prefix = std::move(output_prefix);
    call = std::make_shared<GenerateCall>(
        parts, [](const GenerationRequest&) { return std::make_unique<Letters>(); }, sink,
        concurrency::Instant(), std::make_unique<RequestObserver>());
    prepared = call->Prepare(
        std::move(request),
        [this](const GenerationRequest& checked) -> absl::StatusOr<v1::Started> {
          ++started_made;
          EXPECT_EQ(checked.prompt_tokens(), 2u);
          return may_start;
        },
        [](bool) {}, [this] { ++done; });
  }

  const ::tandem::testing::FakeClock clock;
  const GenerateParts parts{.clock = &clock};
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
  ASSERT_TRUE(request.sink->closed.has_value());
  EXPECT_EQ(request.sink->closed->code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(request.sink->closed->message(), "the line is full");
  EXPECT_TRUE(request.sink->closed->GetPayload(messages::kRetryInfoType).has_value());
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

// Work adds up; time that passed for all of them at once does not.
TEST(GenerateCall, TheLastMessageAddsSamplesUp) {
  GenerationRequest request;
  request.prompt = {1, 2, 3};
  request.rule = acceptance::Rule::kLenient;
  Ending first;
  first.finish = Finish::kLength;
  first.output_tokens = 6;
  first.counts.rounds = 4;
  first.counts.draft_tokens = 9;
  first.counts.accepted_tokens = 2;
  first.counts.accepted_histogram = {2, 2};
  first.counts.plain_rounds[0] = 1;
  first.counts.target_replays = 1;
  first.counts.batch_rows = 40;
  first.counts.batch_sequences = 12;
  first.times.total = absl::Milliseconds(90);
  first.times.first_token = absl::Milliseconds(40);
  first.times.admission = absl::Milliseconds(30);
  first.times.verify = absl::Milliseconds(50);
  first.times.cpu = absl::Milliseconds(1);
  first.times.queue = absl::Microseconds(1500);
  first.times.slot = absl::Microseconds(700);
  Ending second = first;
  second.finish = Finish::kStop;
  second.stop_string = "x";
  second.output_tokens = 2;
  second.counts.accepted_histogram = {1, 0, 0, 3};
  second.times.total = absl::Milliseconds(120);
  second.times.first_token = absl::Milliseconds(35);
  const v1::Last last = MakeLast(request, {first, second});
  EXPECT_EQ(last.finish_reason(), v1::FINISH_REASON_LENGTH) << "of the first";
  EXPECT_EQ(last.stop_string(), "");
  EXPECT_EQ(last.usage().prompt_tokens(), 3u);
  EXPECT_EQ(last.usage().completion_tokens(), 8u);
  const v1::AcceptanceRecord& sum = last.speculation();
  EXPECT_EQ(sum.rule(), v1::RULE_LENIENT);
  EXPECT_FALSE(sum.exact());
  EXPECT_EQ(sum.rounds(), 8u);
  EXPECT_EQ(sum.draft_tokens(), 18u);
  EXPECT_EQ(sum.accepted_tokens(), 4u);
  EXPECT_THAT(sum.accepted_histogram(), ::testing::ElementsAre(3, 2, 0, 3));
  ASSERT_EQ(sum.rounds_without_draft_size(), 1);
  EXPECT_EQ(sum.rounds_without_draft(0).rounds(), 2u);
  EXPECT_EQ(sum.target_replays(), 2u);
  EXPECT_EQ(sum.batch_rows(), 80u);
  EXPECT_EQ(sum.batch_sequences(), 24u);
  EXPECT_EQ(last.timing().total_us(), 120'000u);
  EXPECT_EQ(last.timing().first_token_us(), 35'000u);
  EXPECT_EQ(last.timing().admission_us(), 30'000u);
  EXPECT_EQ(last.timing().verify_us(), 100'000u);
  EXPECT_EQ(last.timing().cpu_us(), 2000u);
  EXPECT_EQ(last.timing().queue_us(), 3000u);
  EXPECT_EQ(last.timing().slot_us(), 1400u);
  ASSERT_EQ(last.samples_size(), 2);
  EXPECT_EQ(last.samples(1).sample_index(), 1u);
  EXPECT_EQ(last.samples(1).finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(last.samples(1).stop_string(), "x");
  EXPECT_EQ(last.samples(1).completion_tokens(), 2u);
  EXPECT_THAT(last.samples(1).speculation().accepted_histogram(),
              ::testing::ElementsAre(1, 0, 0, 3));
  request.output_prefix = {4};
  EXPECT_EQ(MakeLast(request, {first}).usage().completion_tokens(), 5u) << "what is new alone";
}

}  // namespace
}  // namespace tandem::orchestrator
