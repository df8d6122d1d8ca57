// A target over an engine that is not a model: what it offers is told and served, what it does not
// is refused by name, and two passes are in flight where it takes two.
#include "target_service/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/log.h"
#include "tests/target_service/engine/table_engine.h"
#include "tests/target_service/every_option.h"

namespace tandem::target_service {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<uint32_t> kPrompt = {1, 2, 3};
constexpr uint32_t kVocabulary = 5;

TableEngine::Table MakeTable() {
  TableEngine::Table table(kVocabulary, std::vector<float>(kVocabulary));
  for (uint32_t before = 0; before < kVocabulary; ++before) {
    for (uint32_t token = 0; token < kVocabulary; ++token) {
      table[before][token] = static_cast<float>(std::log(1.0 + (before * 3 + token * 2) % 5));
    }
  }
  return table;
}

internal::v1::SequenceOptions CoupledOptions(uint64_t seed = 3) {
  internal::v1::SequenceOptions options = SampledOptions(seed, 0.9f);
  options.set_rule(v1::RULE_COUPLED);
  options.mutable_sampling()->set_frequency_penalty(0.5f);
  return options;
}

class TargetEngine : public ::testing::Test {
 protected:
  TargetEngine() {
    auto owned = std::make_unique<TableEngine>(MakeTable());
    engine_ = owned.get();
    target_ = std::make_unique<Harness>(Options(), std::move(owned));
    stream_ = target_->Connect();
  }

  void Send(uint64_t sequence, const std::vector<uint64_t>& close = {}) {
    Harness::Send(stream_, {FirstStep(sequence, kPrompt, {4, 4}, CoupledOptions())}, close);
  }
  std::vector<uint64_t> Answered() {
    std::vector<uint64_t> sequences;
    for (const internal::v1::Verdict& verdict : stream_.sink->Take()) {
      EXPECT_EQ(verdict.status(), internal::v1::STATUS_OK) << verdict.ShortDebugString();
      EXPECT_EQ(verdict.entries_size(), 3);
      sequences.push_back(verdict.sequence());
    }
    return sequences;
  }

  TableEngine* engine_ = nullptr;  // owned by the device
  std::unique_ptr<Harness> target_;
  Harness::Stream stream_;
};

// A text under the coupled rule is that of plain decoding, whatever was drafted.
TEST_F(TargetEngine, ServesWholeTexts) {
  const internal::v1::SequenceOptions options = CoupledOptions();
  const auto checked = speculation::CheckSequenceOptions(options, 256, kVocabulary);
  const auto& settings = std::get<speculation::SequenceSettings>(checked);
  std::vector<uint32_t> plain = kPrompt;
  while (plain.size() < 60) {
    plain.push_back(sampling::DrawRace(TableEngine::P(MakeTable(), plain, settings), settings.seed,
                                       settings.sample_index, static_cast<uint32_t>(plain.size())));
  }
  std::vector<uint32_t> committed = kPrompt;
  int accepted = 0;
  for (uint64_t round = 1; committed.size() < 50; ++round) {
    // What plain decoding would say, with a mistake now and then; 9 is not a token.
    std::vector<uint32_t> candidates(plain.begin() + static_cast<std::ptrdiff_t>(committed.size()),
                                     plain.begin() + static_cast<std::ptrdiff_t>(committed.size()) +
                                         static_cast<std::ptrdiff_t>(round % 4));
    if (round % 3 == 0 && !candidates.empty()) candidates.back() = 9;
    internal::v1::Step step =
        MakeStep(1, round, committed, round == 1 ? 0 : static_cast<uint32_t>(committed.size()) - 1,
                 candidates);
    if (round == 1) *step.mutable_options() = options;
    const internal::v1::Verdict verdict = target_->Ask(stream_, step);
    ASSERT_EQ(verdict.status(), internal::v1::STATUS_OK) << verdict.ShortDebugString();
    ASSERT_EQ(verdict.entries_size(), static_cast<int>(candidates.size()) + 1);
    const acceptance::Decision decision =
        DecideOf(options, verdict, static_cast<uint32_t>(committed.size()), settings.rule);
    accepted += static_cast<int>(decision.accepted);
    committed.insert(committed.end(), candidates.begin(), candidates.begin() + decision.accepted);
    committed.push_back(decision.next_token);
    ASSERT_TRUE(std::equal(committed.begin(), committed.end(), plain.begin())) << round;
  }
  EXPECT_GT(accepted, 10);
}

TEST_F(TargetEngine, WhatItDoesNotOfferIsRefusedByName) {
  EXPECT_THAT(stream_.sink->welcome()->rules(), ElementsAre(v1::RULE_GREEDY, v1::RULE_COUPLED));
  for (v1::Rule rule : {v1::RULE_SPECULATIVE, v1::RULE_BLOCK, v1::RULE_LENIENT}) {
    internal::v1::SequenceOptions options = SampledOptions();
    options.set_rule(rule);
    if (rule == v1::RULE_LENIENT) options.set_leniency(0.5f);
    const internal::v1::Verdict verdict = target_->Ask(stream_, FirstStep(1, kPrompt, {}, options));
    EXPECT_EQ(verdict.status(), internal::v1::STATUS_INVALID);
    EXPECT_EQ(verdict.problem().field(), "options.rule");
    EXPECT_THAT(verdict.problem().message(), HasSubstr("is not served here, but greedy, coupled"));
  }
  internal::v1::SequenceOptions options = CoupledOptions();
  options.mutable_logprobs();
  const internal::v1::Verdict verdict = target_->Ask(stream_, FirstStep(1, kPrompt, {}, options));
  EXPECT_EQ(verdict.status(), internal::v1::STATUS_INVALID);
  EXPECT_EQ(verdict.problem().field(), "options.logprobs");
  EXPECT_EQ(target_->device->active_sequences(), 0u);
  // The others of a Batch are served; at temperature 0 these rules are greedy.
  EXPECT_EQ(target_->Ask(stream_, FirstStep(1, kPrompt, {}, SampledOptions(1, 0))).status(),
            internal::v1::STATUS_OK);
}

TEST_F(TargetEngine, TheNextPassIsLaunchedWhileOneIsComputed) {
  Send(1);
  EXPECT_TRUE(target_->device->RunOnce());
  EXPECT_EQ(engine_->in_flight(), 1u);
  target_->clock.Advance(absl::Milliseconds(2));
  EXPECT_EQ(target_->device->busy_for(), absl::Milliseconds(2));
  EXPECT_THAT(Answered(), ElementsAre());
  Send(2);
  EXPECT_TRUE(target_->device->RunOnce());
  EXPECT_EQ(engine_->in_flight(), 1u) << "the second is in flight, the first has come";
  EXPECT_THAT(Answered(), ElementsAre(1));
  EXPECT_TRUE(target_->device->RunOnce());
  EXPECT_EQ(engine_->in_flight(), 0u);
  EXPECT_THAT(Answered(), ElementsAre(2));
  EXPECT_EQ(target_->device->busy_for(), absl::ZeroDuration());
  EXPECT_FALSE(target_->device->RunOnce());
  const v1::Load load = target_->device->load();
  EXPECT_EQ(load.passes(), 2u);
  EXPECT_EQ(load.pass_rows(), 10u);
  EXPECT_EQ(load.queued_rows(), 0u);
}

// Whatever ends a sequence waits for the pass that has it.
TEST_F(TargetEngine, ASequenceInFlightEndsAfterItsPass) {
  Send(1);
  target_->device->RunOnce();
  ASSERT_EQ(engine_->in_flight(), 1u);
  Harness::Send(stream_, {}, {1});
  target_->RunAll();
  EXPECT_THAT(Answered(), ElementsAre(1));
  EXPECT_EQ(target_->device->active_sequences(), 0u);

  Send(2);
  target_->device->RunOnce();
  ASSERT_EQ(engine_->in_flight(), 1u);
  stream_.session->OnDone(absl::CancelledError("cut"));
  target_->device->RunOnce();
  EXPECT_EQ(engine_->in_flight(), 0u);
  EXPECT_EQ(target_->device->lingering_sequences(), 1u);
  auto again = target_->Connect("orchestrator", 2);
  std::vector<uint32_t> committed = kPrompt;
  committed.push_back(0);
  EXPECT_EQ(target_->Ask(again, MakeStep(2, 2, committed, 3)).status(), internal::v1::STATUS_OK)
      << "it is held still";

  // What is in flight when the device goes is awaited.
  Harness::Send(again, {MakeStep(2, 3, committed, 3)});
  target_->device->RunOnce();
  EXPECT_EQ(engine_->in_flight(), 1u);
}

TEST_F(TargetEngine, AFailedPassLeavesTheOneBehindItAlone) {
  const base::ScopedLogSink quiet([](const base::LogEntry&) {});
  Send(1);
  target_->device->RunOnce();
  Send(2);
  engine_->failure = absl::InternalError("out of order");
  target_->device->RunOnce();
  const std::vector<internal::v1::Verdict> failed = stream_.sink->Take();
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].sequence(), 1u);
  EXPECT_EQ(failed[0].status(), internal::v1::STATUS_INTERNAL);
  target_->RunAll();
  EXPECT_THAT(Answered(), ElementsAre(2));
  EXPECT_EQ(target_->device->active_sequences(), 1u);
  EXPECT_TRUE(target_->device->failure().ok());
}

// No verdict tells of it: streams that end send clients elsewhere at once.
TEST_F(TargetEngine, ALostDeviceEndsEveryStream) {
  const base::ScopedLogSink quiet([](const base::LogEntry&) {});
  auto other = target_->Connect("another");
  Send(1);
  target_->device->RunOnce();
  Send(2);
  target_->device->RunOnce();
  ASSERT_EQ(engine_->in_flight(), 1u);
  EXPECT_THAT(Answered(), ElementsAre(1));
  engine_->failure = absl::InternalError("launch failed");
  engine_->device = absl::InternalError("an illegal memory access (700)");
  target_->RunAll();
  auto late = target_->Connect("late");
  target_->RunAll();
  EXPECT_THAT(stream_.sink->Take(), ElementsAre());
  for (const auto* stream : {&stream_, &other, &late}) {
    ASSERT_TRUE(stream->sink->closed().has_value());
    EXPECT_EQ(stream->sink->closed()->code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_THAT(target_->device->failure().message(), HasSubstr("(700)"));
  EXPECT_EQ(target_->device->active_sequences(), 0u);
}

}  // namespace
}  // namespace tandem::target_service
