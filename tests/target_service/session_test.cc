#include "target_service/session.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "common/messages/handshake.h"
#include "common/messages/limits.h"
#include "tests/target_service/harness.h"

namespace tandem::target_service::session_test {
namespace {

const std::vector<uint32_t> kPrompt = {1, 2, 3, 4, 5};

std::vector<uint32_t> Counting(size_t size) {
  std::vector<uint32_t> tokens(size);
  for (size_t i = 0; i < size; ++i) tokens[i] = static_cast<uint32_t>(i * 5 % 8);
  return tokens;
}

// An orchestrator has nothing else to tell a slow first pass from a lost one.
TEST(TargetSession, WelcomeTellsWhatAPassTakes) {
  Harness target;
  target.device->MeasurePasses();
  auto stream = target.Connect();
  const auto welcome = stream.sink->welcome();
  ASSERT_TRUE(welcome.has_value());
  const auto& curve = welcome->cost_curve();
  ASSERT_EQ(curve.size(), 10);  // 1, 2, 4, … 512 rows
  const auto load = target.device->load();
  ASSERT_EQ(curve.size(), load.cost_curve_size());
  EXPECT_EQ(curve[0].rows(), load.cost_curve(0).rows());
}

TEST(TargetSession, WelcomeTellsTheModelsSamplingDefaults) {
  EngineInfo engine;
  model::ModelInfo& info = engine.model;
  info.vocabulary_size = 8;
  EXPECT_FALSE(MakeWelcome({}, engine).has_default_sampling());
  info.sampling_defaults.temperature = 0;
  info.sampling_defaults.min_p = 0.25;
  v1::SamplingOptions said = MakeWelcome({}, engine).default_sampling();
  EXPECT_TRUE(said.has_temperature());
  EXPECT_EQ(said.temperature(), 0);
  EXPECT_EQ(said.min_p(), 0.25f);
  EXPECT_FALSE(said.has_top_k() || said.has_top_p() || said.has_repetition_penalty());
  info.sampling_defaults = {};
  info.sampling_defaults.top_k = 0;
  info.sampling_defaults.top_p = 0.5;
  info.sampling_defaults.repetition_penalty = 1.5;
  said = MakeWelcome({}, engine).default_sampling();
  EXPECT_TRUE(said.has_top_k());
  EXPECT_EQ(said.top_k(), 0u);
  EXPECT_EQ(said.top_p(), 0.5f);
  EXPECT_EQ(said.repetition_penalty(), 1.5f);
  EXPECT_FALSE(said.has_temperature() || said.has_min_p());
}

TEST(TargetSession, WelcomeTellsWhatItsDeviceSwitchedOff) {
  EngineInfo engine;
  engine.model.vocabulary_size = 8;
  EXPECT_EQ(MakeWelcome({}, engine).switched_off_size(), 0);
  engine.switched_off = {"spans-graphs", "judge-kernel"};
  const v1::Welcome welcome = MakeWelcome({}, engine);
  ASSERT_EQ(welcome.switched_off_size(), 2);
  EXPECT_EQ(welcome.switched_off(0), "spans-graphs");
  EXPECT_EQ(welcome.switched_off(1), "judge-kernel");
}

TEST(TargetSession, SentQIsJudgedAndABadOneIsOneHot) {
  Harness target;
  auto stream = target.Connect();
  const internal::v1::SequenceOptions options = SampledOptions();
  internal::v1::Step step = FirstStep(1, kPrompt, {3, 6}, options);
  for (int i = 0; i < 2; ++i) {
    internal::v1::SparseDistribution* q = step.add_q();
    for (uint32_t id : {3u, 5u}) {
      q->add_ids(id);
      q->add_weights(id);
    }
  }  // the second gives its own draft token, 6, nothing
  internal::v1::Verdict verdict = target.Ask(stream, step);
  ASSERT_EQ(verdict.status(), internal::v1::STATUS_OK);
  EXPECT_EQ(verdict.one_hot_candidates(), 1u);
  const double p = sampling::MakeDistribution(target.model->LogitsAfter(kPrompt), 8, {})(3);
  EXPECT_DOUBLE_EQ(verdict.entries(1).accept_probability(), std::min(1.0, p / (3.0 / 8)));
  EXPECT_EQ(verdict.entries(2).accept_probability(),
            target.Expected(options, kPrompt, {3, 6})[2].accept_probability);
}

TEST(TargetSession, EveryStatusOfARefusal) {
  Options options;
  options.max_sequences = 2;
  Harness target(options);
  auto stream = target.Connect();
  auto status = [&](const internal::v1::Step& step) { return target.Ask(stream, step); };

  ASSERT_EQ(status(FirstStep(1, kPrompt)).status(), internal::v1::STATUS_OK);
  // NEED_PREFIX: beyond what is held, a wrong hash, an unknown sequence.
  internal::v1::Verdict verdict = status(MakeStep(1, 2, Counting(9), 8));
  EXPECT_EQ(verdict.status(), internal::v1::STATUS_NEED_PREFIX);
  EXPECT_EQ(verdict.problem().held(), 5u);
  internal::v1::Step wrong = MakeStep(1, 2, kPrompt, 4);
  wrong.mutable_prefix()->set_hash(1);
  verdict = status(wrong);
  EXPECT_EQ(verdict.status(), internal::v1::STATUS_NEED_PREFIX);
  EXPECT_EQ(verdict.problem().held(), 0u);
  EXPECT_EQ(status(MakeStep(9, 1, kPrompt, 3)).status(), internal::v1::STATUS_NEED_PREFIX);
  // STALE: a round that was answered; not so a replay of it.
  EXPECT_EQ(status(MakeStep(1, 1, kPrompt, 5)).status(), internal::v1::STATUS_STALE);
  EXPECT_EQ(status(FirstStep(1, kPrompt)).status(), internal::v1::STATUS_OK);
  // NO_SLOT, with the time to wait.
  ASSERT_EQ(status(FirstStep(2, kPrompt)).status(), internal::v1::STATUS_OK);
  EXPECT_EQ(stream.sink->load().free_slots(), 0u);
  verdict = status(FirstStep(3, kPrompt));
  EXPECT_EQ(verdict.status(), internal::v1::STATUS_NO_SLOT);
  EXPECT_GT(verdict.problem().retry_after_us(), 0u);
  // DRAINING: for new ones only.
  Harness::Send(stream, {}, {2});
  target.device->Drain();
  EXPECT_EQ(status(FirstStep(3, kPrompt)).status(), internal::v1::STATUS_DRAINING);
  EXPECT_EQ(status(MakeStep(1, 2, kPrompt, 5)).status(), internal::v1::STATUS_OK);
  // The end of the service: what waits is dropped, and its stream says why.
  Harness::Send(stream, {MakeStep(1, 3, kPrompt, 5)});
  target.device->End();
  target.RunAll();
  EXPECT_TRUE(stream.sink->Take().empty());
  ASSERT_TRUE(stream.sink->closed().has_value());
  EXPECT_EQ(stream.sink->closed()->code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(target.device->active_sequences(), 0u);
}

TEST(TargetSession, ExpiredBehindOthers) {
  Options service;
  service.pass_rows = 8;
  Harness target(service, {.max_rows = 24});
  auto stream = target.Connect();
  std::vector<internal::v1::Step> steps;
  for (uint64_t sequence = 1; sequence <= 6; ++sequence) {
    steps.push_back(FirstStep(sequence, kPrompt, {{1, 2, 3}}));
    steps.back().set_remaining_us(1000);
  }
  Harness::Send(stream, steps);
  target.device->RunOnce();  // takes all of them in, and computes some
  const int64_t computed = target.model->rows();
  EXPECT_GT(computed, 0);
  target.clock.Advance(absl::Milliseconds(1));
  target.RunAll();
  EXPECT_EQ(target.model->rows(), computed);
  std::map<internal::v1::Status, int> statuses;
  for (const internal::v1::Verdict& verdict : stream.sink->Take()) ++statuses[verdict.status()];
  EXPECT_GT(statuses[internal::v1::STATUS_OK], 0);
  EXPECT_GT(statuses[internal::v1::STATUS_EXPIRED], 0);
  EXPECT_EQ(statuses[internal::v1::STATUS_OK] + statuses[internal::v1::STATUS_EXPIRED], 6);
}

TEST(TargetSession, AMessageClosesSoManyAndNoMore) {
  Harness target;
  auto stream = target.Connect();
  ASSERT_EQ(target.Ask(stream, FirstStep(1, kPrompt)).status(), internal::v1::STATUS_OK);
  std::vector<uint64_t> close;
  while (close.size() < messages::kMaxClosings) close.push_back(close.size() + 1);
  Harness::Send(stream, {}, close);
  target.RunAll();
  EXPECT_EQ(target.model->live_caches(), 0);
  ASSERT_EQ(target.Ask(stream, FirstStep(1, kPrompt)).status(), internal::v1::STATUS_OK);
  close.push_back(close.size() + 1);
  Harness::Send(stream, {}, close);
  target.RunAll();
  ASSERT_TRUE(stream.sink->closed().has_value());
  EXPECT_EQ(stream.sink->closed()->code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(target.model->live_caches(), 0) << "as after every breach of the protocol";
}

TEST(TargetSession, SecondUnansweredStepIsInvalidTheFirstIsServed) {
  Harness target;
  auto stream = target.Connect();
  Harness::Send(stream, {FirstStep(1, kPrompt), MakeStep(1, 2, kPrompt, 5)});
  target.RunAll();
  auto verdicts = stream.sink->Take();
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_EQ(verdicts[0].status(), internal::v1::STATUS_INVALID);
  EXPECT_EQ(verdicts[0].problem().field(), "sequence");
  EXPECT_EQ(verdicts[1].status(), internal::v1::STATUS_OK);
}

TEST(TargetSession, ReplayMayAskForMoreRoom) {
  Harness target;
  auto stream = target.Connect();
  internal::v1::SequenceOptions small = SampledOptions();
  small.set_max_length(8);
  EXPECT_EQ(target.Ask(stream, FirstStep(1, kPrompt, {}, small)).status(), internal::v1::STATUS_OK);
  EXPECT_EQ(target.Ask(stream, MakeStep(1, 2, Counting(9), 0)).problem().field(), "options");
  const std::vector<uint32_t> longer = Counting(100);
  internal::v1::Verdict verdict = target.Ask(stream, FirstStep(1, longer));
  EXPECT_TRUE(SameEntries(verdict, target.Expected(SampledOptions(), longer, {})));
  EXPECT_EQ(target.model->live_caches(), 1);
}

TEST(TargetSession, FailedPassEndsItsSequencesOnly) {
  bool fail = false;
  testing::TableModelOptions model;
  model.before_pass = [&fail](absl::Span<const model::ForwardPart>) {
    return fail ? absl::InternalError("device lost") : absl::OkStatus();
  };
  Harness target({}, model);
  auto stream = target.Connect();
  target.Ask(stream, FirstStep(1, kPrompt));
  fail = true;
  EXPECT_EQ(target.Ask(stream, FirstStep(2, kPrompt)).status(), internal::v1::STATUS_INTERNAL);
  fail = false;
  EXPECT_EQ(target.device->active_sequences(), 1u);
  EXPECT_EQ(target.Ask(stream, MakeStep(1, 2, kPrompt, 5)).status(), internal::v1::STATUS_OK);
  EXPECT_EQ(target.Ask(stream, MakeStep(2, 2, kPrompt, 5)).status(),
            internal::v1::STATUS_NEED_PREFIX);
}

TEST(TargetSession, NoSlotIsLeftTakenHoweverAStreamEnds) {
  Harness target;
  auto orderly = target.Connect("a");
  Harness::Send(orderly, {FirstStep(1, kPrompt), FirstStep(2, kPrompt)});
  orderly.session->OnHalfClose();
  target.RunAll();
  EXPECT_EQ(orderly.sink->Take().size(), 2u);  // answered before the end
  ASSERT_TRUE(orderly.sink->closed().has_value());
  EXPECT_TRUE(orderly.sink->closed()->ok());
  orderly.session->OnDone(absl::OkStatus());

  auto broken = target.Connect("b");
  Harness::Send(broken, {FirstStep(1, kPrompt)});
  target.RunAll();
  Harness::Send(broken, {FirstStep(2, kPrompt), MakeStep(1, 2, kPrompt, 5)});
  broken.session->OnDone(absl::CancelledError("gone"));
  target.RunAll();

  auto refused = target.Connect("c");
  Harness::Send(refused, {FirstStep(1, kPrompt)});
  target.RunAll();
  refused.session->OnMessage({});
  target.RunAll();

  auto old = target.Connect("d", 1);
  Harness::Send(old, {FirstStep(1, kPrompt)});
  target.RunAll();
  EXPECT_EQ(target.model->live_caches(), 3);  // two of them linger
  EXPECT_EQ(target.device->lingering_sequences(), 2u);
  auto late = target.Connect("d", 1);  // no rise
  EXPECT_TRUE(messages::IsOvertaken(*late.sink->closed()));
  auto next = target.Connect("d", 2);
  target.RunAll();
  ASSERT_TRUE(old.sink->closed().has_value());
  EXPECT_EQ(old.sink->closed()->code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(messages::IsOvertaken(*old.sink->closed()));
  target.WaitForLingering();
  EXPECT_EQ(target.model->live_caches(), 0);
  EXPECT_EQ(target.device->active_sequences(), 0u);
  EXPECT_EQ(target.Ask(next, FirstStep(1, kPrompt)).status(), internal::v1::STATUS_OK);
}

}  // namespace
}  // namespace tandem::target_service::session_test
