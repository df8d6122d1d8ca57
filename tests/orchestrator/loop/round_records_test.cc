// What is told of each round adds up to what is told at the end.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/concurrency/instant.h"
#include "gtest/gtest.h"
#include "orchestrator/generate/last_message.h"
#include "tests/orchestrator/call_fixture.h"
#include "tests/orchestrator/harness/loop_harness.h"

namespace tandem::orchestrator {
namespace {

// ---- to observers ----

struct Recorded {
  std::vector<RoundRecord> records;
  Ending ending;
  uint32_t prompt = 0;
  std::string accepted;  // of each character of the text: '+' for an accepted token, else '.'
};

Recorded RunOf(GenerationRequest request, HarnessOptions options = {},
               const std::function<void(LoopHarness&)>& script = {}) {
  Recorded run;
  options.watch = [&](const testing::FakeClock&) {
    return std::make_unique<RoundRecorder>(run.records);
  };
  LoopHarness harness(std::move(request), options);
  if (script) script(harness);
  harness.Start();
  harness.Run();
  run.ending = *harness.ending;
  run.prompt = harness.request.prompt_tokens();
  for (const TextRun& run_of_text : harness.reader.runs) {
    run.accepted.append(run_of_text.bytes, run_of_text.accepted ? '+' : '.');
  }
  return run;
}

void ExpectAddsUp(const Recorded& run) {
  ASSERT_TRUE(run.ending.status.ok()) << run.ending.status;
  const AcceptanceCounts& counts = run.ending.counts;
  AcceptanceCounts sum;
  RoundStages stages;
  uint32_t tokens = 0;
  concurrency::Instant until;
  for (const RoundRecord& round : run.records) {
    EXPECT_EQ(round.number, sum.rounds++) << "in order, none left out";
    EXPECT_EQ(round.committed, run.prompt + tokens);
    EXPECT_GE(round.began, until) << "one after another";
    until = round.decided;
    EXPECT_EQ(round.stages.total(), round.decided - round.began);
    EXPECT_EQ(round.cause.has_value(), round.draft_tokens == 0);
    EXPECT_LE(round.accepted_tokens, round.draft_tokens);
    EXPECT_LE(round.tokens, round.accepted_tokens + 1);
    EXPECT_GE(round.tokens, 1u);
    sum.draft_tokens += round.draft_tokens;
    sum.accepted_tokens += round.accepted_tokens;
    sum.rejected_rounds += round.rejected ? 1 : 0;
    if (round.cause.has_value()) ++sum.plain_rounds[static_cast<int>(*round.cause)];
    sum.batch_rows += round.pass_rows;
    sum.batch_sequences += round.pass_sequences;
    tokens += round.tokens;
    stages += round.stages;
  }
  EXPECT_EQ(sum.rounds, counts.rounds);
  EXPECT_EQ(sum.draft_tokens, counts.draft_tokens);
  EXPECT_EQ(sum.accepted_tokens, counts.accepted_tokens);
  EXPECT_EQ(sum.rejected_rounds, counts.rejected_rounds);
  EXPECT_EQ(sum.batch_rows, counts.batch_rows);
  EXPECT_EQ(sum.batch_sequences, counts.batch_sequences);
  for (int i = 0; i < kPlainCauses; ++i) EXPECT_EQ(sum.plain_rounds[i], counts.plain_rounds[i]);
  EXPECT_EQ(tokens, run.ending.output_tokens);
  EXPECT_EQ(stages.total(), run.ending.times.stages.total());
  EXPECT_LE(stages.total(), run.ending.times.total);
}

TEST(RoundRecords, AddUpForEveryRuleAndLength) {
  for (uint32_t draft_tokens : {0u, 1u, 4u, 8u}) {
    for (double temperature : {0.0, 1.0}) {
      ExpectAddsUp(RunOf(SmallRequest(draft_tokens, temperature)));
    }
  }
}

// A token is a character here.
TEST(RoundRecords, TextRunsTellTheSameOfEachToken) {
  for (double temperature : {0.0, 1.0}) {
    GenerationRequest request = SmallRequest(4, temperature);
    EXPECT_EQ(RunOf(request).accepted, "");
    request.text_runs = true;
    const Recorded run = RunOf(request);
    std::string accepted;
    for (const RoundRecord& round : run.records) {
      for (uint32_t i = 0; i < round.tokens; ++i) accepted += i < round.accepted_tokens ? '+' : '.';
    }
    EXPECT_EQ(run.accepted, accepted);
    EXPECT_NE(accepted.find('+'), std::string::npos);
  }
}

TEST(RoundRecords, TheTextsEndCutsTheLastRound) {
  HarnessOptions options;
  options.draft_noise = 0;
  GenerationRequest request = SmallRequest(4);
  const Recorded whole = RunOf(request, options);
  // What the text's seventh token is ends it; the block went on.
  LoopHarness plain(request, options);
  const std::vector<uint32_t> ids = plain.PlainIds();
  bool cut = false;
  for (uint32_t end : ids) {
    request.sampling.stop_token_ids = {end};
    const Recorded run = RunOf(request, options);
    ExpectAddsUp(run);
    const RoundRecord& last = run.records.back();
    cut = cut || last.tokens < last.accepted_tokens + 1;
  }
  EXPECT_TRUE(cut);
  ExpectAddsUp(whole);
}

TEST(RoundRecords, AResumedTextCountsFromWhereItGoesOn) {
  GenerationRequest request = SmallRequest(4);
  request.output_prefix = {1, 2, 3};
  const Recorded run = RunOf(request);
  ASSERT_FALSE(run.records.empty());
  EXPECT_EQ(run.records[0].committed, 8u);
  uint32_t tokens = 0;
  for (const RoundRecord& round : run.records) tokens += round.tokens;
  EXPECT_EQ(tokens + 3, run.ending.output_tokens);
}

// A failed request says nothing of the round that it ended in, and its stages are those of the
// others.
TEST(RoundRecords, AnUndecidedRoundIsNotTold) {
  const Recorded run = RunOf(SmallRequest(4), {}, [](LoopHarness& harness) {
    harness.target.on_step = [&harness](const VerifyStep&, VerifyReply&) {
      if (harness.target.steps < 4) return FakeTarget::Do::kAnswer;
      harness.target.Disconnect("gone");
      return FakeTarget::Do::kDrop;
    };
  });
  EXPECT_EQ(run.ending.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(run.records.size(), 3u);
  RoundStages stages;
  for (const RoundRecord& round : run.records) stages += round.stages;
  EXPECT_EQ(stages.total(), run.ending.times.stages.total());
  EXPECT_LT(stages.total(), run.ending.times.total - absl::Seconds(29));
}

// It fails once its verdict has come, and is not told as decided: the text did not get it.
TEST(RoundRecords, ATextThatBreaksIsTheEndAndTimeIsCountedOnce) {
  class Broken final : public Detokenizer {
   public:
    absl::StatusOr<std::string> Feed(uint32_t /*id*/) override {
      if (++fed_ == 5) return absl::InternalError("no such id");
      return std::string("x");
    }
    std::string Finish() override { return {}; }

   private:
    int fed_ = 0;
  };
  HarnessOptions options;
  options.detokenizer = [] { return std::make_unique<Broken>(); };
  const Recorded run = RunOf(SmallRequest(0), options);
  EXPECT_EQ(run.ending.status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(run.records.size(), 4u);
  EXPECT_EQ(run.ending.times.verify, absl::Milliseconds(50)) << "five Steps of 10 ms";
  EXPECT_EQ(run.ending.times.total, absl::Milliseconds(50));
}

// ---- to clients ----

GenerationRequest Request(uint32_t samples, bool round_records = true) {
  GenerationRequest request = SmallRequest(0u, 1.0);
  request.rule = acceptance::Rule::kCoupled;
  request.samples = samples;
  request.round_records = round_records;
  return request;
}

std::vector<v1::RoundRecord> RoundsSent(const CallFixture& f) {
  std::vector<v1::RoundRecord> rounds;
  for (const v1::GenerateReply& reply : f.sink->sent) {
    if (reply.has_round()) rounds.push_back(reply.round());
  }
  return rounds;
}

uint64_t Total(const v1::Stages& stages) {
  return stages.draft_us() + stages.network_us() + stages.slot_us() + stages.queue_us() +
         stages.device_us() + stages.own_us();
}

TEST(RoundRecords, AClientThatAsksGetsEveryRoundOfEverySample) {
  for (uint32_t samples : {1u, 3u}) {
    CallFixture f(Request(samples));
    f.harness.target(0).on_step = [](const internal::v1::Step&, internal::v1::Verdict& verdict) {
      verdict.set_queued_us(2000);
      verdict.set_computed_us(3000);
      verdict.set_pass_id(9);
      verdict.set_pass_rows(4);
      verdict.set_pass_sequences(2);
      verdict.set_prefill_us(5001);  // more than there is
      return WireTarget::Do::kAnswer;
    };
    f.Begin();
    f.Run();
    ASSERT_TRUE(f.sink->closed->ok()) << *f.sink->closed;
    const std::vector<v1::RoundRecord> rounds = RoundsSent(f);
    const v1::Last& last = f.last();
    EXPECT_EQ(rounds.size(), last.speculation().rounds());
    std::map<uint32_t, uint32_t> next;   // number, by sample
    std::map<uint32_t, uint64_t> until;  // by sample
    std::map<uint32_t, uint32_t> tokens;
    uint64_t total = 0;
    uint64_t device = 0;
    uint64_t queue = 0;
    for (const v1::RoundRecord& round : rounds) {
      EXPECT_EQ(round.number(), next[round.sample_index()]++);
      EXPECT_GE(round.began_us(), until[round.sample_index()]);
      until[round.sample_index()] = round.began_us() + Total(round.stages());
      EXPECT_EQ(round.cause(), round.number() == 0 ? "first-round" : "off");
      EXPECT_EQ(round.pass_id(), 9u);
      EXPECT_EQ(round.pass_rows(), 4u);
      EXPECT_EQ(round.pass_sequences(), 2u);
      EXPECT_EQ(round.prefill_us(), 5000u);
      tokens[round.sample_index()] += round.tokens();
      total += Total(round.stages());
      device += round.stages().device_us();
      queue += round.stages().queue_us();
    }
    const v1::Stages& stages = last.timing().stages();
    EXPECT_EQ(Total(stages), total);
    EXPECT_EQ(stages.device_us(), device);
    EXPECT_EQ(stages.queue_us(), queue);
    EXPECT_EQ(device, 3000 * rounds.size());
    for (uint32_t i = 0; i < samples; ++i) {
      EXPECT_EQ(tokens[i], f.Ids(i).size());
      EXPECT_EQ(next[i], last.samples(static_cast<int>(i)).speculation().rounds());
    }
  }
}

TEST(RoundRecords, WhoDoesNotAskGetsNoneAndTheSameText) {
  CallFixture with(Request(2));
  with.Begin();
  with.Run();
  CallFixture without(Request(2, /*round_records=*/false));
  without.Begin();
  without.Run();
  EXPECT_TRUE(RoundsSent(without).empty());
  EXPECT_FALSE(RoundsSent(with).empty());
  for (uint32_t i = 0; i < 2; ++i) EXPECT_EQ(with.Ids(i), without.Ids(i));
  EXPECT_EQ(Total(with.last().timing().stages()), Total(without.last().timing().stages()));
}

TEST(RoundRecords, BeginSinceTheRequestsArrival) {
  CallFixture f(Request(1));
  f.Prepare();
  f.harness.clock.Advance(absl::Milliseconds(7));  // to be admitted
  f.call->OnDecided(absl::OkStatus(), absl::Milliseconds(7));
  f.Run();
  EXPECT_EQ(RoundsSent(f)[0].began_us(), 7000u);
}

}  // namespace
}  // namespace tandem::orchestrator
