// What many requests of several orchestrators get of one device: fair passes and fair slots.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "tests/target_service/harness.h"

namespace tandem::target_service {
namespace {

const std::vector<uint32_t> kPrompt = {1, 2, 3, 4, 5};

// A client with sequences that each go on by a block of four as soon as the last verdict has come.
class LoadedClient {
 public:
  LoadedClient(Harness& target, const std::string& name, uint64_t sequences)
      : stream_(target.Connect(name)) {
    std::vector<internal::v1::Step> steps;
    for (uint64_t sequence = 1; sequence <= sequences; ++sequence) {
      texts_[sequence] = kPrompt;
      internal::v1::SequenceOptions options = SampledOptions(sequence);
      options.set_max_length(250);
      steps.push_back(FirstStep(sequence, kPrompt, kBlock, options));
    }
    Harness::Send(stream_, steps);
  }

  // Reads what was answered; the next rounds of these sequences are sent at once where `go_on`.
  std::vector<internal::v1::Verdict> Answer(bool go_on = true) {
    std::vector<internal::v1::Verdict> verdicts = stream_.sink->Take();
    std::vector<internal::v1::Step> steps;
    for (const internal::v1::Verdict& verdict : verdicts) {
      EXPECT_EQ(verdict.status(), internal::v1::STATUS_OK) << verdict.ShortDebugString();
      rows_ += (verdict.round() == 1 ? kPrompt.size() : 1) + kBlock.size();
      std::vector<uint32_t>& text = texts_[verdict.sequence()];
      const uint32_t held = static_cast<uint32_t>(text.size());
      text.push_back(verdict.entries(0).next_token());
      ready_.push_back(MakeStep(verdict.sequence(), verdict.round() + 1, text, held, kBlock));
    }
    if (go_on) GoOn();
    return verdicts;
  }
  void GoOn() { Harness::Send(stream_, std::exchange(ready_, {})); }

  uint64_t rows() const { return rows_; }
  v1::Load load() const { return stream_.sink->load(); }
  int curves() const { return stream_.sink->curves(); }

 private:
  inline static const std::vector<uint32_t> kBlock = {1, 2, 3, 4};

  Harness::Stream stream_;
  std::map<uint64_t, std::vector<uint32_t>> texts_;
  std::vector<internal::v1::Step> ready_;
  uint64_t rows_ = 0;
};

// A device that takes `base` and `each` for a row, on a clock that stands still otherwise.
struct Device {
  explicit Device(absl::Duration base, absl::Duration each, Options options = {}) {
    testing::TableModelOptions model;
    model.before_pass = [this, base, each](absl::Span<const model::ForwardPart> parts) {
      size_t rows = 0;
      for (const model::ForwardPart& part : parts) rows += part.tokens.size();
      target->clock.Advance(slower * (base + static_cast<int64_t>(rows) * each));
      return absl::OkStatus();
    };
    options.max_sequences = std::max(options.max_sequences, 128u);
    target = std::make_unique<Harness>(options, model);
  }

  std::unique_ptr<Harness> target;
  double slower = 1;
};

// An orchestrator that waits hears that the device works, whatever it works on.
TEST(TargetScheduling, AStreamThatIsOwedVerdictsIsToldOfPasses) {
  std::vector<uint32_t> prompt(200);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<uint32_t>(i % 5);
  internal::v1::SequenceOptions long_text = SampledOptions();
  long_text.set_max_length(250);
  Options options;
  options.pass_rows = 20;
  for (const int64_t pass : {30, 60, 250}) {  // milliseconds
    SCOPED_TRACE(pass);
    Device device(absl::Milliseconds(pass), absl::ZeroDuration(), options);
    Harness& target = *device.target;
    auto waiting = target.Connect("a");
    auto idle = target.Connect("b");
    for (int text = 1; text <= 2; ++text) {
      target.clock.Advance(absl::Minutes(1));  // it was idle
      const int before = waiting.sink->reports();
      const v1::Load load = target.device->load();
      Harness::Send(waiting, {FirstStep(static_cast<uint64_t>(text), prompt, {}, long_text)});
      target.RunAll();
      EXPECT_EQ(waiting.sink->Take().size(), 1u);
      const auto passes = static_cast<int>(target.device->load().passes() - load.passes());
      ASSERT_GE(passes, 8);
      const auto every = static_cast<int>((100 + pass - 1) / pass);  // passes
      EXPECT_EQ(waiting.sink->reports() - before, (passes - 1) / every);
    }
    EXPECT_EQ(idle.sink->reports(), 0) << "nothing is owed to it";
  }
}

// Even where a row costs the same in any batch, a few rounds go together.
TEST(TargetScheduling, BatchesWhereTheyGainNothing) {
  Device device(absl::ZeroDuration(), absl::Milliseconds(2));
  device.target->device->MeasurePasses();
  LoadedClient client(*device.target, "a", 16);
  for (int pass = 0; pass < 100; ++pass) {
    device.target->device->RunOnce();
    client.Answer();
  }
  const v1::Load load = device.target->device->load();
  EXPECT_GE(load.pass_sequences(), 3 * load.passes());
  EXPECT_LE(load.pass_rows(), 40 * load.passes());
}

// Where a pass takes the same time whatever is in it, those that were just answered are waited for,
// a twentieth of a pass at most, so that requests do not fall into halves that take turns.
TEST(TargetScheduling, ThoseJustAnsweredAreWaitedForAMoment) {
  Device device(absl::Milliseconds(8), absl::Microseconds(1));
  Executor& executor = *device.target->device;
  executor.MeasurePasses();
  auto sequences_of_next_pass = [&executor] {
    const uint64_t before = executor.load().pass_sequences();
    executor.RunOnce();
    return executor.load().pass_sequences() - before;
  };
  LoadedClient a(*device.target, "a", 4);
  LoadedClient b(*device.target, "b", 4);
  ASSERT_EQ(sequences_of_next_pass(), 8u);
  a.Answer(false);
  b.Answer(false);
  device.target->clock.Advance(absl::Microseconds(200));
  a.GoOn();
  b.GoOn();
  ASSERT_EQ(sequences_of_next_pass(), 8u) << "all came back within 0.2 ms";

  b.Answer();
  EXPECT_EQ(sequences_of_next_pass(), 0u) << "the others are as quick as a rule";
  device.target->clock.Advance(absl::Microseconds(200));
  a.Answer();
  EXPECT_EQ(sequences_of_next_pass(), 8u);

  // What arrives while a pass runs is as quick, though the device looks at it later.
  b.Answer();
  EXPECT_EQ(sequences_of_next_pass(), 0u);
  device.target->clock.Advance(absl::Microseconds(200));
  a.Answer();
  EXPECT_EQ(sequences_of_next_pass(), 8u);

  // Nobody waits longer than that.
  b.Answer();
  EXPECT_EQ(sequences_of_next_pass(), 0u);
  device.target->clock.Advance(absl::Microseconds(1650));
  EXPECT_EQ(sequences_of_next_pass(), 4u);

  // And not for those that took long the last time, since they drafted, say.
  a.Answer();
  b.Answer(false);
  device.target->clock.Advance(absl::Milliseconds(3));
  EXPECT_EQ(sequences_of_next_pass(), 4u);
  b.GoOn();
  EXPECT_EQ(sequences_of_next_pass(), 4u) << "the first ones were away for a whole pass";
}

TEST(TargetScheduling, NobodyIsWaitedForWhereAPassHasNoRoomForThem) {
  Device device(absl::ZeroDuration(), absl::Milliseconds(1));
  device.target->device->MeasurePasses();
  LoadedClient client(*device.target, "a", 16);
  for (int pass = 0; pass < 20; ++pass) {
    const uint64_t before = device.target->device->load().passes();
    device.target->device->RunOnce();
    EXPECT_EQ(device.target->device->load().passes(), before + 1) << pass;
    client.Answer(pass % 2 == 0);
    if (pass % 2 == 1) client.GoOn();
  }
}

// A stream with one sequence, beside one with 64 that are always ready: its Step is in the very
// next pass, and that pass is a short one.
TEST(TargetScheduling, OneSequenceBesideSixtyFour) {
  for (int base_us : {0, 200, 2000}) {
    const absl::Duration base = absl::Microseconds(base_us);
    const absl::Duration each = absl::Microseconds(40);
    Device device(base, each);
    device.target->device->MeasurePasses();
    LoadedClient many(*device.target, "many", 64);
    LoadedClient one(*device.target, "one", 1);
    for (int i = 0; i < 60; ++i) {  // prompts are read, and all are under way
      device.target->device->RunOnce();
      many.Answer();
      one.Answer(false);
    }
    const absl::Duration alone = base + 6 * each;
    absl::Duration longest;
    for (int i = 0; i < 60; ++i) {
      // It comes while a pass of the others runs: just after that began.
      const concurrency::Instant sent = device.target->clock.Now();
      device.target->device->RunOnce();
      many.Answer();
      EXPECT_TRUE(one.Answer(false).empty());
      one.GoOn();
      device.target->device->RunOnce();
      many.Answer();
      EXPECT_EQ(one.Answer(false).size(), 1u) << "round " << i;
      longest = std::max(longest, device.target->clock.Now() - sent);
    }
    // Two passes, each of which costs half more a row than the best, or has two rounds.
    EXPECT_LE(longest, 2 * (base + std::max(2.2 * base, 12 * each))) << absl::FormatDuration(alone);
    const v1::Load load = device.target->device->load();
    EXPECT_GE(load.pass_sequences(), 2 * load.passes());
  }
}

TEST(TargetScheduling, StreamsThatAlwaysHaveWorkGetTheSameRows) {
  Device device(absl::Microseconds(100), absl::Microseconds(40));
  device.target->device->MeasurePasses();
  LoadedClient many(*device.target, "many", 48);
  LoadedClient few(*device.target, "few", 12);
  for (int pass = 0; pass < 200; ++pass) {
    device.target->device->RunOnce();
    many.Answer();
    few.Answer();
  }
  EXPECT_NEAR(static_cast<double>(many.rows()), static_cast<double>(few.rows()),
              0.1 * static_cast<double>(few.rows()));
}

TEST(TargetScheduling, CurveIsToldFirstAndWhenItHasChanged) {
  Device device(absl::Microseconds(500), absl::Microseconds(20));
  device.target->device->MeasurePasses();
  EXPECT_EQ(device.target->model->live_caches(), 0) << "what was used to measure is freed";
  const v1::Load described = device.target->device->load();
  ASSERT_EQ(described.cost_curve_size(), 10);  // 1, 2, 4, … 512
  EXPECT_EQ(described.cost_curve(0).rows(), 1u);
  EXPECT_NEAR(described.cost_curve(0).microseconds(), 520, 1);
  EXPECT_EQ(described.cost_curve(9).rows(), 512u);
  EXPECT_NEAR(described.cost_curve(9).microseconds(), 500 + 512 * 20, 1);
  EXPECT_EQ(described.passes(), 0u) << "measuring is no pass";

  LoadedClient client(*device.target, "a", 4);
  auto run = [&](int passes) {
    for (int pass = 0; pass < passes; ++pass) {
      device.target->device->RunOnce();
      client.Answer();
    }
  };
  run(20);
  EXPECT_EQ(client.curves(), 1);
  device.slower = 2;
  run(80);
  const int told = client.curves();
  EXPECT_GT(told, 1);
  device.slower = 1;
  run(80);
  EXPECT_GT(client.curves(), told);
  // Another stream is told all of it at once.
  LoadedClient other(*device.target, "b", 1);
  device.target->device->RunOnce();
  other.Answer();
  EXPECT_EQ(other.curves(), 1);
  EXPECT_EQ(other.load().cost_curve_size(), 10);
}

TEST(TargetScheduling, LoadCountsPassesAndTime) {
  Device device(absl::Microseconds(500), absl::Microseconds(20));
  device.target->clock.Advance(absl::Microseconds(300));
  auto stream = device.target->Connect();
  device.target->Ask(stream, FirstStep(1, kPrompt, {1, 2}));
  const v1::Load load = stream.sink->load();
  EXPECT_EQ(load.passes(), 1u);
  EXPECT_EQ(load.pass_rows(), 7u);
  EXPECT_EQ(load.pass_sequences(), 1u);
  EXPECT_EQ(load.busy_us(), 640u);
  EXPECT_EQ(load.idle_us(), 300u);
  EXPECT_EQ(load.queued_rows(), 0u);
  EXPECT_EQ(load.free_slots(), 127u);
  device.target->clock.Advance(absl::Milliseconds(1));
  EXPECT_EQ(device.target->device->load().idle_us(), 1300u);
}

// What orchestrators price their blocks by is of the sequences of all streams.
TEST(TargetScheduling, LoadTellsWhatIsDecodedForAllStreams) {
  Device device(absl::Microseconds(500), absl::Microseconds(20));
  auto one = device.target->Connect();
  auto other = device.target->Connect("another");
  EXPECT_EQ(device.target->device->load().decoding().sequences(), 0u);
  device.target->Ask(one, FirstStep(1, kPrompt, {1, 2}));
  device.target->Ask(other, FirstStep(1, kPrompt, {1, 2}));
  const v1::Decoding both = other.sink->load().decoding();
  EXPECT_EQ(both.sequences(), 2u);
  EXPECT_EQ(both.pass_sequences(), 2u) << "streams compete";
  EXPECT_GT(both.pass_rows(), 0u);
  EXPECT_GT(both.draft_tokens(), 0);
  EXPECT_LE(both.draft_tokens(), 2);
  device.target->clock.Advance(absl::Seconds(2));
  device.target->Ask(one, FirstStep(2, kPrompt, {1, 2}));
  EXPECT_EQ(one.sink->load().decoding().sequences(), 1u) << "the others are idle";
}

// A prompt of another text shares the pass of a round, or holds it up: the verdict tells by how
// much, and nothing of prompts that were read before it came.
TEST(TargetScheduling, VerdictsTellWhatPromptsTook) {
  absl::Duration into_pass;
  std::function<void()> meanwhile;
  testing::TableModelOptions model;
  std::unique_ptr<Harness> target;
  model.before_pass = [&](absl::Span<const model::ForwardPart> parts) {
    size_t rows = 0;
    for (const model::ForwardPart& part : parts) rows += part.tokens.size();
    const absl::Duration took = absl::Milliseconds(50 + static_cast<int64_t>(rows));
    target->clock.Advance(into_pass);
    if (meanwhile) std::exchange(meanwhile, nullptr)();
    target->clock.Advance(took - std::exchange(into_pass, absl::ZeroDuration()));
    return absl::OkStatus();
  };
  Options options;
  options.measure = absl::Minutes(1);
  target = std::make_unique<Harness>(options, model);
  target->device->MeasurePasses();
  Harness::Stream stream = target->Connect();
  const std::vector<uint32_t> prompt(65, 1);
  const auto prefill = [&](uint64_t sequence) {
    for (int i = 0; i < 4; ++i) {
      target->RunAll();
      for (const internal::v1::Verdict& verdict : stream.sink->Take()) {
        EXPECT_EQ(verdict.status(), internal::v1::STATUS_OK) << verdict.ShortDebugString();
        if (verdict.sequence() == sequence) return static_cast<double>(verdict.prefill_us());
      }
      target->clock.Advance(absl::Milliseconds(10));  // nobody else is waited for
    }
    ADD_FAILURE() << "no verdict";
    return -1.0;
  };
  std::vector<uint32_t> text = kPrompt;
  Harness::Send(stream, {FirstStep(1, text)});
  prefill(1);
  uint64_t round = 1;
  const auto next = [&] {
    text.push_back(1);
    const auto held = static_cast<uint32_t>(text.size() - 1);
    return MakeStep(1, ++round, text, held);
  };
  Harness::Send(stream, {next()});
  EXPECT_EQ(prefill(1), 0) << "alone";
  // 64 rows of a prompt, and one of it that is judged.
  Harness::Send(stream, {FirstStep(2, prompt), next()});
  EXPECT_NEAR(prefill(1), 64e3, 3e3) << "in its pass";
  Harness::Send(stream, {FirstStep(3, prompt)});
  into_pass = absl::Milliseconds(95);
  meanwhile = [&] { Harness::Send(stream, {next()}); };
  EXPECT_NEAR(prefill(1), 20e3 * 64 / 115, 1e3) << "20 ms of its pass were left";
  Harness::Send(stream, {next()});
  EXPECT_EQ(prefill(1), 0) << "alone again";
}

TEST(TargetScheduling, FreedSlotsGoToTheStreamBelowItsShare) {
  Options options;
  options.max_sequences = 4;
  Harness target(options);
  auto many = target.Connect("many");
  auto one = target.Connect("one");
  for (uint64_t sequence = 1; sequence <= 4; ++sequence) {
    ASSERT_EQ(target.Ask(many, FirstStep(sequence, kPrompt)).status(), internal::v1::STATUS_OK);
  }
  internal::v1::Verdict refused = target.Ask(one, FirstStep(1, kPrompt));
  EXPECT_EQ(refused.status(), internal::v1::STATUS_NO_SLOT);
  EXPECT_EQ(refused.problem().retry_after_us(), 50000u);

  Harness::Send(many, {}, {1});
  EXPECT_EQ(target.Ask(many, FirstStep(5, kPrompt)).status(), internal::v1::STATUS_NO_SLOT);
  EXPECT_EQ(many.sink->load().free_slots(), 0u);
  EXPECT_EQ(target.Ask(many, MakeStep(2, 2, kPrompt, 5)).status(), internal::v1::STATUS_OK)
      << "goes on";
  EXPECT_EQ(target.Ask(one, FirstStep(1, kPrompt)).status(), internal::v1::STATUS_OK);

  // Who stopped asking is not waited for.
  EXPECT_EQ(target.Ask(one, FirstStep(2, kPrompt)).status(), internal::v1::STATUS_NO_SLOT);
  target.clock.Advance(absl::Seconds(1));
  Harness::Send(many, {}, {2});
  EXPECT_EQ(target.Ask(many, FirstStep(5, kPrompt)).status(), internal::v1::STATUS_OK);
}

// What is asked for can never be had: said so, instead of for ever NO_SLOT.
TEST(TargetScheduling, MoreRoomThanThePoolHas) {
  testing::TableModelOptions model;
  model.max_caches = 0;
  Harness target({}, model);
  auto stream = target.Connect();
  internal::v1::Verdict verdict = target.Ask(stream, FirstStep(1, kPrompt));
  EXPECT_EQ(verdict.status(), internal::v1::STATUS_INVALID);
  EXPECT_EQ(verdict.problem().field(), "options.max_length");
}

}  // namespace
}  // namespace tandem::target_service
