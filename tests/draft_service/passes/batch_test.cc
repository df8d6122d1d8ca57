// Sequences advance together, and nobody's block shows it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tests/draft_service/harness.h"
#include "tests/draft_service/passes/crowd.h"

namespace tandem::draft_service {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<uint32_t> kPrompt = {1, 2, 3, 4, 5};

TEST(DraftBatch, OneStepForATokenOfEach) {
  Harness draft;
  auto stream = draft.Connect();
  for (uint64_t i = 0; i < 5; ++i) {
    stream.Send(MakeOpen(i, kPrompt, "model", SampledOptions(i)));
    stream.Send(MakeAdvance(i, 1, kPrompt, 5, 4));
  }
  draft.RunAll();
  EXPECT_EQ(draft.model.passes(), 4);
  EXPECT_EQ(draft.model.rows(), 5 * (5 + 3));
  EXPECT_EQ(stream.sink->Take().size(), 5u);
}

TEST(DraftBatch, WhoComesJoinsTheNextStepAndWhoIsDoneWaitsForNobody) {
  Harness draft;
  auto stream = draft.Connect();
  auto rounds = [&stream] {
    std::vector<uint64_t> answered;
    for (const internal::v1::Block& block : stream.sink->Take()) {
      EXPECT_EQ(block.status(), internal::v1::STATUS_OK);
      answered.push_back(block.sequence());
    }
    return answered;
  };
  for (uint64_t i = 1; i <= 3; ++i) stream.Send(MakeOpen(i, kPrompt));
  stream.Send(MakeAdvance(1, 1, kPrompt, 5, 2));
  stream.Send(MakeAdvance(2, 1, kPrompt, 5, 6));
  EXPECT_TRUE(draft.executor->RunOnce());
  EXPECT_THAT(rounds(), ElementsAre());
  stream.Send(MakeAdvance(3, 1, kPrompt, 5, 1));  // joins while the others are at their second
  EXPECT_TRUE(draft.executor->RunOnce());
  EXPECT_THAT(rounds(), ElementsAre(1, 3));
  EXPECT_EQ(draft.model.passes(), 2);
  EXPECT_EQ(draft.model.rows(), 10 + 2 + 5);
  draft.RunAll();
  EXPECT_THAT(rounds(), ElementsAre(2));
  EXPECT_EQ(draft.model.passes(), 6);
}

// 17 of them: each among 16 others.
TEST(DraftBatch, ABlockAmongOthersIsTheBlockAlone) {
  const Transcripts alone = RunAlone({}, 17, 12);
  std::mt19937 random(5);
  for (int trial = 0; trial < 30; ++trial) {
    Options options;
    options.pass_rows = static_cast<int>(random() % 3 == 0 ? 0 : 1 + random() % 20);
    testing::TableModelOptions model;
    model.max_rows = static_cast<int>(1 + random() % 40);
    size_t max_parts = 0;
    model.before_pass = [&](absl::Span<const model::ForwardPart> parts) {
      max_parts = std::max(max_parts, parts.size());
      return absl::OkStatus();
    };
    Harness draft(options, model);
    const Transcripts together = RunTogether(draft, 17, 12, random);
    for (uint64_t i = 0; i < 17; ++i) {
      ASSERT_EQ(together.at(i), alone.at(i)) << "trial " << trial << ", sequence " << i;
    }
    const int cap =
        options.pass_rows == 0 ? model.max_rows : std::min(options.pass_rows, model.max_rows);
    EXPECT_GT(max_parts, cap >= 10 ? 3u : 0u) << "they were together";
  }
}

TEST(DraftBatch, ClosingOrLosingTheStreamLeavesTheBatchAtOnce) {
  Harness draft;
  auto stream = draft.Connect();
  auto lost = draft.Connect();
  for (uint64_t i = 1; i <= 2; ++i) {
    stream.Send(MakeOpen(i, kPrompt));
    stream.Send(MakeAdvance(i, 1, kPrompt, 5, 6));
  }
  lost.Send(MakeOpen(1, kPrompt));
  lost.Send(MakeAdvance(1, 1, kPrompt, 5, 6));
  draft.executor->RunOnce();
  EXPECT_EQ(draft.model.rows(), 15);
  stream.Send(MakeClose(1));
  lost.session->OnDone(absl::CancelledError("gone"));
  draft.executor->RunOnce();
  EXPECT_EQ(draft.model.rows(), 16);  // sequence 2's alone
  EXPECT_EQ(draft.model.live_caches(), 1);
  auto blocks = stream.sink->Take();
  ASSERT_EQ(blocks.size(), 1u);
  EXPECT_EQ(blocks[0].status(), internal::v1::STATUS_CLOSED);
  draft.RunAll();
  EXPECT_EQ(stream.sink->Take().size(), 1u);
}

TEST(DraftBatch, AnErrorOfTheModelIsThatOfThoseInTheStep) {
  bool fail = false;
  testing::TableModelOptions model;
  model.before_pass = [&fail](absl::Span<const model::ForwardPart>) {
    return fail ? absl::InternalError("device lost") : absl::OkStatus();
  };
  Options options;
  options.pass_rows = 2;
  Harness draft(options, model);
  auto stream = draft.Connect();
  const std::vector<uint32_t> prompt = {1};
  for (uint64_t i = 1; i <= 3; ++i) {
    stream.Send(MakeOpen(i, prompt));
    stream.Send(MakeAdvance(i, 1, prompt, 1));
  }
  fail = true;
  draft.executor->RunOnce();
  fail = false;
  draft.RunAll();
  std::map<uint64_t, internal::v1::Status> statuses;
  for (const internal::v1::Block& block : stream.sink->Take())
    statuses[block.sequence()] = block.status();
  EXPECT_EQ(statuses.size(), 3u);
  EXPECT_EQ(statuses[1], internal::v1::STATUS_INTERNAL);
  EXPECT_EQ(statuses[2], internal::v1::STATUS_INTERNAL);
  EXPECT_EQ(statuses[3], internal::v1::STATUS_OK);
  EXPECT_EQ(draft.model.live_caches(), 1);
}

// A drafter that wants what its model would refuse: an id out of range, or more than its cache
// holds.
class BadDrafter final : public ForwardDrafter {
 public:
  BadDrafter(model::LanguageModel& model, std::vector<uint32_t> part)
      : model_(model), cache_(*model.NewCache(2)), part_(std::move(part)) {}

  absl::Status Accept(uint32_t, absl::Span<const uint32_t>) override { return absl::OkStatus(); }
  model::LanguageModel& model() override { return model_; }
  void BeginBlock(const BlockShape&) override { begun_ = true; }
  Wanted wanted() const override {
    return {.reading = begun_ ? static_cast<int>(part_.size()) - 1 : 0, .drafting = begun_ ? 1 : 0};
  }
  model::ForwardPart NextPart(int) override {
    return {cache_.get(), part_, static_cast<int>(part_.size()) - 1};
  }
  absl::Status ReadLogits(absl::Span<const float>) override { return absl::OkStatus(); }
  CandidateTree EndBlock() override { return {}; }

 private:
  model::LanguageModel& model_;
  const std::unique_ptr<model::Cache> cache_;
  const std::vector<uint32_t> part_;
  bool begun_ = false;
};

TEST(DraftBatch, ABadPartIsRefusedBeforeTheStep) {
  for (const auto& [part, message] : std::map<std::vector<uint32_t>, std::string>{
           {{1, 99}, "token 99"}, {{1, 2, 3}, "no room"}}) {
    testing::TableModel shared({});
    Options options;
    options.drafters = {
        ModelDrafterFactory(shared, {}),
        {"bad", [&shared, part = part](const speculation::SequenceSettings&, Proposal) {
           return absl::StatusOr<std::unique_ptr<Drafter>>(
               std::make_unique<BadDrafter>(shared, part));
         }}};
    Harness draft(options);
    auto stream = draft.Connect();
    stream.Send(MakeOpen(1, kPrompt));
    stream.Send(MakeOpen(2, kPrompt, "bad"));
    stream.Send(MakeAdvance(1, 1, kPrompt, 5));
    stream.Send(MakeAdvance(2, 1, kPrompt, 5));
    draft.RunAll();
    auto blocks = stream.sink->Take();
    ASSERT_EQ(blocks.size(), 2u);
    EXPECT_EQ(blocks[0].status(), internal::v1::STATUS_INTERNAL);
    EXPECT_EQ(blocks[0].sequence(), 2u);
    EXPECT_THAT(blocks[0].problem().message(), HasSubstr(message));
    EXPECT_EQ(blocks[1].status(), internal::v1::STATUS_OK);
  }
}

TEST(DraftBatch, EachModelHasStepsOfItsOwn) {
  testing::TableModel small({});
  testing::TableModel large({.seed = 2});
  Options options;
  options.drafters = {ModelDrafterFactory(small, {.name = "small"}),
                      ModelDrafterFactory(large, {.name = "large"})};
  Harness draft(options);
  auto stream = draft.Connect();
  for (uint64_t i = 0; i < 4; ++i) {
    stream.Send(MakeOpen(i, kPrompt, i % 2 == 0 ? "small" : "large", SampledOptions(1, 0)));
    stream.Send(MakeAdvance(i, 1, kPrompt, 5, 3));
  }
  draft.RunAll();
  EXPECT_EQ(small.passes(), 3);
  EXPECT_EQ(large.passes(), 3);
  for (const internal::v1::Block& block : stream.sink->Take()) {
    const testing::TableModel& model = block.sequence() % 2 == 0 ? small : large;
    EXPECT_EQ(block.tokens(0), sampling::ArgMax(model.LogitsAfter(kPrompt), 8));
  }
}

}  // namespace
}  // namespace tandem::draft_service
