#include "draft_service/drafters/model_drafter.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "common/base/check.h"
#include "tests/support/chi_square.h"
#include "tests/support/table_model.h"

namespace tandem::draft_service::model_drafter_test {
namespace {

using speculation::SequenceSettings;
using testing::TableModel;
using testing::TableModelOptions;

std::unique_ptr<Drafter> Make(TableModel& model, const ModelDrafterOptions& options,
                              const SequenceSettings& sequence) {
  auto drafter = ModelDrafterFactory(model, options).make(sequence, Proposal::kDefault);
  TANDEM_CHECK_OK(drafter);
  return *std::move(drafter);
}

SequenceSettings Sampled(uint64_t seed) {
  SequenceSettings sequence;
  sequence.rule = acceptance::Rule::kSpeculative;
  sequence.seed = seed;
  sequence.max_length = 150;
  return sequence;
}

// After a whole block was accepted only the token that was never fed and the one that follows are
// read.
TEST(ModelDrafter, FullAcceptanceReadsTwoTokens) {
  TableModel model({});
  auto drafter = Make(model, {}, Sampled(1));
  std::vector<uint32_t> prompt = {1, 2, 3};
  ASSERT_TRUE(drafter->Accept(0, prompt).ok());
  auto block = drafter->Propose(4);
  ASSERT_TRUE(block.ok());
  EXPECT_EQ(model.rows(), 3 + 3);
  std::vector<uint32_t> next = block->tokens;
  next.push_back(5);
  ASSERT_TRUE(drafter->Accept(3, next).ok());
  ASSERT_TRUE(drafter->Propose(1).ok());
  EXPECT_EQ(model.rows(), 6 + 2);
}

// What is sent as q is what was drawn from: over many seeds the tokens follow the weights, and the
// weights are those of the model's own distribution, cut to top_m.
TEST(ModelDrafter, DrawsFromTheQThatItSends) {
  TableModel model({});
  for (int top_m : {3, 64}) {
    ModelDrafterOptions options;
    options.top_m = top_m;
    const std::vector<uint32_t> prompt = {4, 1};
    sampling::SparseDistribution expected =
        sampling::Sparsify(sampling::MakeDistribution(model.LogitsAfter(prompt), 8, {}), top_m);
    std::vector<int64_t> counts(8);
    for (uint64_t seed = 0; seed < 8000; ++seed) {
      auto drafter = Make(model, options, Sampled(seed));
      ASSERT_TRUE(drafter->Accept(0, prompt).ok());
      auto block = drafter->Propose(1);
      ASSERT_TRUE(block.ok());
      ASSERT_EQ(block->q.size(), 1u);
      ASSERT_EQ(block->q[0].ids, expected.ids);
      ASSERT_EQ(block->q[0].weights, expected.weights);
      ++counts[block->tokens[0]];
    }
    std::vector<double> probabilities;
    for (uint32_t token = 0; token < 8; ++token) probabilities.push_back(expected(token));
    testing::ChiSquare fit = testing::GoodnessOfFit(probabilities, counts);
    EXPECT_TRUE(fit.Passes()) << fit.ToString();
  }
}

TEST(ModelDrafter, NothingPastTheContextAndNoTokenFromThePadding) {
  TableModelOptions model_options;
  model_options.context_length = 12;
  TableModel model(model_options);
  ModelDrafterOptions options;
  options.vocabulary_size = 3;
  auto drafter = Make(model, options, Sampled(2));
  std::vector<uint32_t> text(10, 1);
  ASSERT_TRUE(drafter->Accept(0, text).ok());
  auto block = drafter->Propose(8);
  ASSERT_TRUE(block.ok());
  EXPECT_EQ(block->tokens.size(), 3u);  // positions 10 and 11, and the one that is not fed
  for (uint32_t token : block->tokens) EXPECT_LT(token, 3u);
  ASSERT_TRUE(drafter->Accept(10, std::vector<uint32_t>(5, 1)).ok());
  block = drafter->Propose(8);
  ASSERT_TRUE(block.ok());
  EXPECT_TRUE(block->tokens.empty());
  ASSERT_TRUE(drafter->Accept(9, {}).ok());
  EXPECT_EQ(drafter->Propose(2)->tokens.size(), 2u);
}

TEST(ModelDrafter, OptionsAreChecked) {
  ModelDrafterOptions options;
  options.top_m = 65;
  EXPECT_EQ(options.Validate().code(), absl::StatusCode::kInvalidArgument);
  options.top_m = 64;
  EXPECT_TRUE(options.Validate().ok());
  options.proposal = Proposal::kDefault;
  EXPECT_EQ(options.Validate().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(ParseProposal("best").ok());
  EXPECT_EQ(*ParseProposal("greedy"), Proposal::kGreedy);
}

// A draw belongs to its round: the same position after the same tokens is drawn anew in the next
// round. (Under block verification a number used twice would shift the output.)
TEST(ModelDrafter, ARoundHasDrawsOfItsOwn) {
  TableModel model({});
  int same = 0;
  constexpr int kSeeds = 200;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const auto early = Make(model, {}, Sampled(seed));
    ASSERT_TRUE(early->Accept(0, {1, 2, 3}).ok());
    const auto block = early->Propose(2);
    ASSERT_TRUE(block.ok()) << block.status();
    const auto late = Make(model, {}, Sampled(seed));
    ASSERT_TRUE(late->Accept(0, {1, 2, 3, block->tokens[0]}).ok());
    const auto next = late->Propose(1);
    ASSERT_TRUE(next.ok()) << next.status();
    ASSERT_EQ(block->q[1].weights, next->q[0].weights);
    same += block->tokens[1] == next->tokens[0] ? 1 : 0;
  }
  EXPECT_GT(same, 0);
  EXPECT_LT(same, kSeeds * 9 / 10);
}

SequenceSettings InScope(const std::string& scope, uint64_t seed = 1) {
  SequenceSettings sequence = Sampled(seed);
  sequence.cache_scope = scope;
  return sequence;
}

TableModelOptions Pages() {
  TableModelOptions model;
  model.page_tokens = 4;
  return model;
}

TEST(ModelDrafter, TheSecondOfAScopeReadsWhatIsNotShared) {
  TableModel model(Pages());
  const std::vector<uint32_t> prompt = {1, 2, 3, 4, 5, 6, 7, 1, 2, 3};
  auto first = Make(model, {}, InScope("a"));
  ASSERT_TRUE(first->Accept(0, prompt).ok());
  ASSERT_TRUE(first->Propose(1).ok());
  EXPECT_EQ(model.rows(), 10);
  ASSERT_TRUE(first->Accept(10, {4}).ok());  // now its prompt is shared
  EXPECT_EQ(first->TakeRecalled().found, 0u);
  auto second = Make(model, {}, InScope("a", 2));
  ASSERT_TRUE(second->Accept(0, prompt).ok());
  const auto block = second->Propose(3);
  ASSERT_TRUE(block.ok());
  EXPECT_EQ(model.rows(), 10 + 2 + 2);
  const Drafter::Recalled recalled = second->TakeRecalled();
  EXPECT_EQ(recalled.looked_for, 10u);
  EXPECT_EQ(recalled.found, 8u);
  EXPECT_EQ(second->TakeRecalled().looked_for, 0u) << "counted once";
  auto alone = Make(model, {}, Sampled(2));
  ASSERT_TRUE(alone->Accept(0, prompt).ok());
  EXPECT_EQ(alone->Propose(3)->tokens, block->tokens);
  EXPECT_EQ(alone->TakeRecalled().looked_for, 0u);
  for (const char* scope : {"b", "aa"}) {
    auto other = Make(model, {}, InScope(scope));
    ASSERT_TRUE(other->Accept(0, prompt).ok());
    EXPECT_EQ(other->TakeRecalled().found, 0u) << scope;
  }
}

// Texts of two scopes grow at random, and now and then go back: each block is that of a drafter
// that shares nothing.
TEST(ModelDrafter, BlocksAreThoseOfDraftersThatShareNothing) {
  std::mt19937 random(3);
  TableModel model(Pages());
  uint64_t found = 0;
  for (uint64_t trial = 0; trial < 200; ++trial) {
    auto drafter = Make(model, {}, InScope(random() % 3 == 0 ? "b" : "a", trial));
    std::vector<uint32_t> committed;
    for (size_t length = 1 + random() % 14; committed.size() < length;) {
      committed.push_back(random() % 2);
    }
    ASSERT_TRUE(drafter->Accept(0, committed).ok());
    for (int round = 0; round < 5; ++round) {
      const auto block = drafter->Propose(3);
      ASSERT_TRUE(block.ok()) << block.status();
      auto alone = Make(model, {}, Sampled(trial));
      ASSERT_TRUE(alone->Accept(0, committed).ok());
      ASSERT_EQ(block->tokens, alone->Propose(3)->tokens) << trial << " " << round;
      size_t keep = committed.size();
      if (random() % 6 == 0) keep -= random() % (committed.size() + 1);
      std::vector<uint32_t> next(block->tokens.begin(),
                                 block->tokens.begin() + static_cast<int>(random() % 4));
      if (keep + next.size() == 0 || random() % 2 == 0) next.push_back(random() % 2);
      committed.resize(keep);
      committed.insert(committed.end(), next.begin(), next.end());
      ASSERT_TRUE(drafter->Accept(static_cast<uint32_t>(keep), next).ok());
      found += drafter->TakeRecalled().found;
    }
  }
  EXPECT_GT(found, 100u);
  EXPECT_EQ(model.live_caches(), 0);
}

// A model whose logits are `value`, from token `first` on.
class BrokenModel final : public model::LanguageModel {
 public:
  explicit BrokenModel(float value = std::numeric_limits<float>::quiet_NaN(), size_t first = 0)
      : value_(value), first_(first) {}

  const model::ModelInfo& info() const override { return inner_.info(); }
  absl::StatusOr<std::unique_ptr<model::Cache>> NewCache(int max_length) override {
    return inner_.NewCache(max_length);
  }
  absl::StatusOr<model::Logits> Forward(absl::Span<const model::ForwardPart> parts) override {
    absl::StatusOr<model::Logits> logits = inner_.Forward(parts);
    if (!logits.ok()) return logits;
    const auto width = static_cast<size_t>(logits->vocabulary_size);
    row_.assign(logits->data, logits->data + static_cast<size_t>(logits->rows) * width);
    for (size_t i = 0; i < row_.size(); ++i) row_[i] = i % width < first_ ? row_[i] : value_;
    return model::Logits{row_.data(), logits->rows, logits->vocabulary_size};
  }
  int max_rows() const override { return inner_.max_rows(); }

 private:
  const float value_;
  const size_t first_;
  TableModel inner_{TableModelOptions()};
  std::vector<float> row_;
};

// Options may leave none of the tokens that a draft with a pruned output has. It proposes nothing
// then, and is no worse for it.
TEST(ModelDrafter, ProposesNothingWhereTheOptionsLeaveNothing) {
  BrokenModel model(-std::numeric_limits<float>::infinity(), 4);
  for (const auto rule : {acceptance::Rule::kSpeculative, acceptance::Rule::kCoupled}) {
    SequenceSettings sequence = Sampled(1);
    sequence.rule = rule;
    sequence.sampling.allowed = {5, 6};
    auto drafter = *ModelDrafterFactory(model, {}).make(sequence, Proposal::kDefault);
    ASSERT_TRUE(drafter->Accept(0, {1, 2, 3}).ok());
    const auto block = drafter->Propose(4);
    ASSERT_TRUE(block.ok()) << block.status();
    EXPECT_TRUE(block->empty() && block->q.empty());
    if (rule == acceptance::Rule::kCoupled) {
      const auto tree = drafter->ProposeTree({4, 8});
      ASSERT_TRUE(tree.ok()) << tree.status();
      EXPECT_TRUE(tree->empty());
    }
    sequence.sampling.allowed = {};
    drafter = *ModelDrafterFactory(model, {}).make(sequence, Proposal::kDefault);
    ASSERT_TRUE(drafter->Accept(0, {1, 2, 3}).ok());
    const auto unbounded = drafter->Propose(8);
    for (const uint32_t token : unbounded->tokens) EXPECT_LT(token, 4u);
  }
}

TEST(ModelDrafter, LogitsThatAreNoNumbersAreAnErrorNotACrash) {
  BrokenModel model;
  auto drafter = ModelDrafterFactory(model, {}).make(Sampled(1), Proposal::kDefault);
  ASSERT_TRUE(drafter.ok()) << drafter.status();
  ASSERT_TRUE((*drafter)->Accept(0, {1, 2, 3}).ok());
  EXPECT_EQ((*drafter)->Propose(4).status().code(), absl::StatusCode::kInternal);
  // Nor is a most likely one made of them.
  SequenceSettings greedy = Sampled(1);
  greedy.sampling.temperature = 0;
  drafter = ModelDrafterFactory(model, {}).make(greedy, Proposal::kDefault);
  ASSERT_TRUE(drafter.ok()) << drafter.status();
  ASSERT_TRUE((*drafter)->Accept(0, {1, 2, 3}).ok());
  EXPECT_EQ((*drafter)->Propose(4).status().code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace tandem::draft_service::model_drafter_test
