// Random faults in random order: whatever happens, a greedy or coupled request that ends well has
// the target's own ids and log probabilities, each once; every request ends exactly once and frees
// everything; its trace has each round's time, to the nanosecond, and a span for each Step.
#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <set>

#include "gtest/gtest.h"
#include "tests/orchestrator/harness/traced_loop.h"
#include "tests/support/fuzz_seeds.h"

namespace tandem::orchestrator {
namespace {

class Chaos {
 public:
  Chaos(TracedLoop& loop, uint32_t seed) : harness_(loop.harness()), random_(seed) {
    loop.on_step = [this](const VerifyStep& step, VerifyReply& reply) {
      return OnStep(step, reply);
    };
    loop.on_advance = [this](const DraftAdvance&, DraftReplyBlock& reply) {
      return OnAdvance(reply);
    };
  }

  void Run() {
    harness_.Start();
    for (int i = 0; i < 20000 && !harness_.ending.has_value(); ++i) Act();
  }

 private:
  bool Chance(int one_in) { return random_() % static_cast<uint32_t>(one_in) == 0; }

  void Act() {
    if (Chance(40)) harness_.target.Disconnect();
    if (!harness_.target.connected() && Chance(4)) harness_.target.Connect();
    if (Chance(30)) harness_.draft.Break();
    if (Chance(6)) harness_.draft.ReleaseHeld();
    if (Chance(20)) harness_.target.ReleaseHeld();
    if (Chance(15)) harness_.reader.reads = !harness_.reader.reads;
    if (Chance(10)) harness_.Read();
    harness_.draft.unreachable = Chance(5);
    harness_.clock.Advance(absl::Milliseconds(random_() % 20));
    // Sometimes an alarm goes before an event, due or not: the loop may not depend on it.
    const bool alarm = Chance(12) && !harness_.timers.is_set(LoopTimer::kTargetPatience);
    if (alarm && harness_.FireNextTimer()) return;
    if (DeliverEither()) return;
    if (!harness_.target.connected()) harness_.target.Connect();
    harness_.reader.reads = true;
    harness_.Read();
    if (!harness_.target.queue.empty() || harness_.ending.has_value()) return;
    harness_.FireNextTimer();
  }

  bool DeliverEither() {
    auto& first = Chance(2) ? harness_.target.queue : harness_.draft.queue;
    if (first.empty()) return harness_.DeliverOne();
    Event event = std::move(first.front());
    first.pop_front();
    event();
    if (harness_.reader.reads) harness_.Read();
    return true;
  }

  FakeTarget::Do OnStep(const VerifyStep& step, VerifyReply& reply) {
    using Status = VerifyReply::Status;
    reply.queued = absl::Milliseconds(random_() % 30) - absl::Milliseconds(5);
    reply.computed = absl::Milliseconds(random_() % 30) - absl::Milliseconds(5);
    if (Chance(60)) return FakeTarget::Do::kHold;
    if (Chance(80)) return FakeTarget::Do::kDrop;
    if (Chance(25)) {
      const Status statuses[] = {Status::kStale, Status::kClosed, Status::kDraining,
                                 Status::kInternal, Status::kNoSlot};
      reply.status = statuses[random_() % 5];
    } else if (Chance(25) && step.prefix.keep > 0) {
      reply.status = Status::kNeedPrefix;
      reply.held = random_() % step.prefix.keep;
    } else if (Chance(40)) {
      reply.entries.clear();
    } else if (Chance(40)) {
      reply.logprobs.clear();
    } else if (Chance(40)) {
      reply.prompt_logprobs.clear();
    }
    if (reply.status == Status::kNoSlot) reply.retry_after = absl::Milliseconds(5);
    if (Chance(10)) {  // twice
      harness_.target.Push(reply);
      harness_.target.Push(reply);
      return FakeTarget::Do::kDrop;
    }
    return FakeTarget::Do::kAnswer;
  }

  FakeDraft::Do OnAdvance(DraftReplyBlock& reply) {
    reply.at_draft = absl::Milliseconds(random_() % 30) - absl::Milliseconds(5);
    if (Chance(10)) return FakeDraft::Do::kDrop;
    if (Chance(8)) return FakeDraft::Do::kHold;
    if (Chance(15)) reply.block.tokens.resize(random_() % 24, 5);
    if (Chance(20)) reply.round += random_() % 3;
    if (Chance(20)) reply.status = static_cast<DraftReplyBlock::Status>(random_() % 7);
    if (reply.status == DraftReplyBlock::Status::kRefused && !Chance(4)) {
      reply.status = DraftReplyBlock::Status::kOk;
    }
    return FakeDraft::Do::kAnswer;
  }

  LoopHarness& harness_;
  std::mt19937 random_;
};

// In order, from the second token on; all of it when there is a text.
void ExpectPromptOnce(const LoopHarness& harness) {
  std::vector<uint32_t> prompt = {harness.request.prompt[0]};
  for (const PromptLogprobs& piece : harness.reader.prompt) {
    EXPECT_EQ(piece.first_position, prompt.size());
    prompt.insert(prompt.end(), piece.ids.begin(), piece.ids.end());
  }
  ASSERT_LE(prompt.size(), harness.request.prompt.size());
  EXPECT_TRUE(std::equal(prompt.begin(), prompt.end(), harness.request.prompt.begin()));
  if (harness.request.prompt_logprobs && !harness.output().empty()) {
    EXPECT_EQ(prompt, harness.request.prompt);
  }
}

// What arrived anywhere came with a span of its own; what was sent into a broken stream has one,
// too.
void ExpectTraced(TracedLoop& loop) {
  loop.ExpectSound();
  std::set<std::array<uint8_t, 8>> verify;
  std::set<std::array<uint8_t, 8>> propose;
  for (const RoundSpans& round : loop.Rounds()) {
    for (const testing::FakeSpan& span : round.verify) verify.insert(span.context.span_id);
    for (const testing::FakeSpan& span : round.propose) propose.insert(span.context.span_id);
  }
  for (const auto& context : loop.sent_steps) EXPECT_EQ(verify.erase(context.span_id), 1u);
  for (const auto& context : loop.sent_advances) EXPECT_EQ(propose.erase(context.span_id), 1u);
}

TEST(LoopFuzz, AnyOrderOfEventsGivesTheTargetsIds) {
  const uint32_t seeds = testing::FuzzSeeds(300);
  uint32_t ended_well = 0;
  uint64_t replays = 0;
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(seed);
    GenerationRequest request =
        SmallRequest(seed % 3 == 0 ? std::nullopt : std::optional<uint32_t>(seed % 7));
    request.max_tokens = 20 + seed % 50;
    request.prompt[0] = seed % 8;
    if (seed % 5 == 0) request.sampling.stop_token_ids = {seed % 8};
    if (seed % 2 == 0) {
      request.sampling.temperature = 1;
      request.sampling.presence_penalty = 0.4;
      request.rule = acceptance::Rule::kCoupled;
      request.seed = seed;
    }
    request.sampling.min_tokens = seed % 11;
    if (seed % 3 > 0) request.logprobs = sampling::LogprobOptions{seed % 3, seed % 2 == 0};
    request.prompt_logprobs = seed % 3 == 1;
    HarnessOptions options;
    options.loop.max_undelivered_tokens = 16;
    if (seed % 4 == 0) options.loop.max_prefix_tokens = 9;
    if (seed % 7 == 0) options.loop.max_prefix_tokens = 2;
    TracedLoop loop(request, options);
    const LoopHarness& harness = loop.harness();
    Chaos(loop, seed).Run();
    ASSERT_TRUE(harness.ending.has_value());
    EXPECT_EQ(harness.endings, 1);
    EXPECT_EQ(harness.timers.size(), 0u);
    EXPECT_EQ(harness.target.open_sequences(), 0);
    EXPECT_FALSE(harness.draft.is_open);
    ExpectTraced(loop);
    const std::vector<uint32_t> plain = harness.PlainIds();
    ASSERT_LE(harness.output().size(), plain.size());
    const std::vector<uint32_t> same(plain.begin(), plain.begin() + harness.output().size());
    EXPECT_EQ(harness.output(), same) << "every token once, in order, also before a failure";
    EXPECT_EQ(harness.reader.logprobs.size(),
              request.logprobs.has_value() ? harness.output().size() : 0);
    ExpectPromptOnce(harness);
    if (!harness.ending->status.ok()) continue;
    EXPECT_EQ(harness.output(), plain);
    ++ended_well;
    replays += harness.ending->counts.target_replays;
  }
  EXPECT_GT(ended_well, seeds * 4 / 5);
  EXPECT_GT(replays, seeds * 2 / 3);
}

}  // namespace
}  // namespace tandem::orchestrator
