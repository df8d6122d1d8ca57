// Several samples of one request: each its own text, sequences that are freed one by one, and one
// end.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/call_fixture.h"

namespace tandem::orchestrator::samples_test {
namespace {

using ::testing::HasSubstr;
using TargetDo = WireTarget::Do;

GenerationRequest Request(uint32_t samples) {
  GenerationRequest request = SmallRequest(0u, 1.0);
  request.rule = acceptance::Rule::kCoupled;
  request.samples = samples;
  request.sample_index = 5;
  return request;
}

TEST(Samples, EachIsTheTextOfItsOwnIndexAndTheLastMessageAddsThemUp) {
  CallFixture f(Request(3));
  f.Begin();
  EXPECT_EQ(f.harness.pool().waiting_sessions(), 0u);
  f.Run();
  EXPECT_EQ(f.done, 1);
  EXPECT_TRUE(f.sink->closed->ok()) << *f.sink->closed;
  std::set<std::vector<uint32_t>> texts;
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(f.Ids(i), f.Alone(i)) << i;
    texts.insert(f.Ids(i));
  }
  EXPECT_EQ(texts.size(), 3u) << "their noise is independent";
  ASSERT_TRUE(f.sink->sent.front().has_started());
  ASSERT_TRUE(f.sink->sent.back().has_last());
  const v1::Last& last = f.sink->sent.back().last();
  EXPECT_EQ(last.usage().prompt_tokens(), 5u);
  EXPECT_EQ(last.usage().completion_tokens(), 96u);
  EXPECT_EQ(last.speculation().rounds(), 96u);
  EXPECT_EQ(last.finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(last.timing().admission_us(), 3000u);
  ASSERT_EQ(last.samples_size(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(last.samples(i).sample_index(), static_cast<uint32_t>(i));
    EXPECT_EQ(last.samples(i).completion_tokens(), 32u);
    EXPECT_EQ(last.samples(i).speculation().rounds(), 32u);
    EXPECT_EQ(last.samples(i).finish_reason(), v1::FINISH_REASON_LENGTH);
  }
  f.harness.DeliverAll();
  EXPECT_EQ(f.open_sequences(), 0u);
}

TEST(Samples, BytesComeWithTheIdsOfWhoAsked) {
  for (const bool wanted : {false, true}) {
    GenerationRequest request = Request(2);
    request.token_bytes = wanted;
    CallFixture f(request);
    f.Begin();
    f.Run();
    ASSERT_TRUE(f.sink->closed->ok()) << *f.sink->closed;
    int ids = 0;
    for (const v1::GenerateReply& reply : f.sink->sent) {
      const v1::Delta& delta = reply.delta();
      ASSERT_EQ(delta.token_bytes_size(), wanted ? delta.token_ids_size() : 0);
      for (int i = 0; i < delta.token_bytes_size(); ++i, ++ids) {
        EXPECT_EQ(delta.token_bytes(i), "<" + std::to_string(delta.token_ids(i)) + ">");
      }
    }
    EXPECT_EQ(ids, wanted ? 64 : 0);
  }
}

// Samples with the log probabilities of their prompt, which come with the first one's Steps.
struct PromptFixture {
  static GenerationRequest WithPrompt() {
    GenerationRequest request = Request(3);
    request.logprobs = sampling::LogprobOptions{2, false};
    request.prompt_logprobs = true;
    return request;
  }

  explicit PromptFixture(LoopOptions loop = {}) : f(WithPrompt(), PieceByPiece(loop)) {
    WireTarget& target = f.harness.target(0);
    target.on_step = [this, &target](const internal::v1::Step& step, internal::v1::Verdict&) {
      if (!step.prompt_logprobs()) return TargetDo::kAnswer;
      const bool late = f.harness.clock.Now() - f.arrived < silence;
      if (!late && steps_before == 0) {
        steps_before = target.steps;
        answered = f.harness.clock.Now();
      }
      return late ? TargetDo::kDrop : TargetDo::kAnswer;
    };
  }

  // The prompt of five tokens needs three Steps.
  static LoopOptions PieceByPiece(LoopOptions loop) {
    loop.max_prefix_tokens = 2;
    return loop;
  }

  void ExpectThePromptFirst() const {
    ASSERT_TRUE(f.sink->closed.has_value() && f.sink->closed->ok());
    uint32_t position = 1;
    bool text = false;
    for (const v1::GenerateReply& reply : f.sink->sent) {
      text |= reply.has_delta();
      if (!reply.has_prompt_logprobs()) continue;
      EXPECT_FALSE(text) << "a delta came before position " << position;
      EXPECT_EQ(reply.prompt_logprobs().first_position(), position);
      position += static_cast<uint32_t>(reply.prompt_logprobs().token_ids_size());
    }
    EXPECT_EQ(position, f.request.prompt_tokens());
    for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(f.Ids(i), f.Alone(i)) << i;
  }

  CallFixture f;
  absl::Duration silence;  // how long the target answers no Step of the first sample's prompt
  int steps_before = 0;    // until it did
  concurrency::Instant answered;
};

TEST(Samples, ThePromptsLogProbabilitiesComeBeforeTheTextOfEverySample) {
  PromptFixture fixture;
  fixture.silence = absl::Milliseconds(1);
  fixture.f.Begin();
  fixture.f.Run();
  EXPECT_GE(fixture.steps_before, 64) << "the others were done";
  fixture.ExpectThePromptFirst();
}

TEST(Samples, WhoeverWaitsForThePromptIsNoSlowReader) {
  LoopOptions loop;
  loop.max_undelivered_tokens = 4;
  loop.close_after = absl::Seconds(1);
  loop.abort_after = absl::Seconds(2);
  PromptFixture fixture(loop);
  fixture.silence = absl::Seconds(10);
  fixture.f.Begin();
  CallFixture& f = fixture.f;
  f.Run([&] { return f.harness.clock.Now() - f.arrived > absl::Seconds(6); });
  EXPECT_LE(f.open_sequences(), 1u) << "their places are free meanwhile";
  f.Run();
  fixture.ExpectThePromptFirst();
}

TEST(Samples, AReadersPatienceBeginsWhenTheTextIsSent) {
  LoopOptions loop;
  loop.max_undelivered_tokens = 4;
  loop.close_after = absl::Seconds(1);
  loop.abort_after = absl::Seconds(5);
  PromptFixture fixture(loop);
  fixture.silence = absl::Seconds(10);
  CallFixture& f = fixture.f;
  f.reads = false;
  f.Begin();
  f.Run();
  ASSERT_TRUE(f.sink->closed.has_value());
  EXPECT_EQ(f.sink->closed->code(), absl::StatusCode::kAborted) << *f.sink->closed;
  EXPECT_GT(fixture.answered, f.arrived + absl::Seconds(10));
  const absl::Duration patience = f.harness.clock.Now() - fixture.answered;
  EXPECT_GE(patience, absl::Seconds(5));
  EXPECT_LE(patience, absl::Seconds(6));
}

TEST(Samples, OneThatEndsEarlyFreesItsSequenceAndTheOthersGoOn) {
  GenerationRequest request = Request(3);
  request.sampling.stop_token_ids = {3};
  CallFixture f(request);
  std::vector<size_t> lengths;
  for (uint32_t i = 0; i < 3; ++i) lengths.push_back(f.Alone(i).size());
  std::sort(lengths.begin(), lengths.end());
  ASSERT_LT(lengths[0], lengths[2]) << "they end apart";
  f.Begin();
  std::set<size_t> open;
  f.Run([&] {
    if (f.harness.target(0).opened == 3) open.insert(f.open_sequences());
    return false;
  });
  EXPECT_TRUE(open.contains(3) && open.contains(1)) << "one after another";
  const v1::Last& last = f.sink->sent.back().last();
  uint32_t completion = 0;
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(f.Ids(i), f.Alone(i));
    EXPECT_EQ(last.samples(static_cast<int>(i)).completion_tokens(), f.Alone(i).size());
    const bool stopped = f.Ids(i).back() == 3;
    EXPECT_EQ(last.samples(static_cast<int>(i)).finish_reason(),
              stopped ? v1::FINISH_REASON_STOP : v1::FINISH_REASON_LENGTH);
    completion += last.samples(static_cast<int>(i)).completion_tokens();
  }
  EXPECT_EQ(last.usage().completion_tokens(), completion);
  EXPECT_EQ(last.finish_reason(), last.samples(0).finish_reason());
}

TEST(Samples, ACancellationEndsThemAll) {
  CallFixture f(Request(3));
  f.Begin();
  f.Run([&] { return f.Ids(2).size() >= 5; });
  EXPECT_EQ(f.open_sequences(), 3u);
  f.call->Cancel(absl::CancelledError("the client went away"));
  EXPECT_EQ(f.done, 1);
  EXPECT_EQ(f.sink->closed->code(), absl::StatusCode::kCancelled);
  const size_t sent = f.sink->sent.size();
  f.harness.DeliverAll();
  EXPECT_EQ(f.open_sequences(), 0u);
  EXPECT_EQ(f.sink->sent.size(), sent) << "nothing comes after it";
  f.call->Cancel(absl::CancelledError("again"));
  EXPECT_EQ(f.done, 1);
}

TEST(Samples, TheFailureOfOneEndsTheRequestWithItsStatus) {
  CallFixture f(Request(3));
  std::optional<uint64_t> bad;  // the sequence of sample 1
  f.harness.target(0).on_step = [&](const internal::v1::Step& step,
                                    internal::v1::Verdict& verdict) {
    if (step.has_options() && step.options().sample_index() == 6) bad = step.sequence();
    if (step.sequence() == bad && step.prefix().keep() > 12) {
      verdict.Clear();
      verdict.set_sequence(step.sequence());
      verdict.set_round(step.round());
      verdict.set_status(internal::v1::STATUS_INVALID);
      verdict.mutable_problem()->set_field("prefix");
    }
    return TargetDo::kAnswer;
  };
  f.Begin();
  f.Run();
  EXPECT_EQ(f.done, 1);
  EXPECT_EQ(f.sink->closed->code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(f.sink->closed->message()), HasSubstr("prefix"));
  for (const v1::GenerateReply& reply : f.sink->sent) EXPECT_FALSE(reply.has_last());
  f.harness.DeliverAll();
  EXPECT_EQ(f.open_sequences(), 0u);
}

// A target with room for one sequence serves them one after another.
TEST(Samples, TheyWaitForSlotsOneByOne) {
  CallFixture f(Request(3));
  f.harness.target(0).slots = 1;
  f.Begin();
  f.Run();
  EXPECT_TRUE(f.sink->closed->ok()) << *f.sink->closed;
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(f.Ids(i), f.Alone(i)) << i;
}

TEST(Samples, WithoutAlternativesTheirListIsLeftOut) {
  GenerationRequest request = Request(1);
  request.logprobs = sampling::LogprobOptions{0, false};
  CallFixture f(request);
  f.Begin();
  f.Run();
  for (const v1::GenerateReply& reply : f.sink->sent) {
    if (!reply.has_delta()) continue;
    EXPECT_EQ(reply.delta().logprobs_size(), reply.delta().token_ids_size());
    EXPECT_EQ(reply.delta().top_logprobs_size(), 0);
  }
}

}  // namespace
}  // namespace tandem::orchestrator::samples_test
