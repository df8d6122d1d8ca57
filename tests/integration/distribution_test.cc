// The distribution of whole texts through the three services, over TCP: exact for every sampling
// option and drafter; and four faults that are planted to show that this test would see them.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/acceptance/speculative.h"
#include "common/random/random.h"
#include "gtest/gtest.h"
#include "tests/integration/distribution.h"
#include "tests/support/table_model.h"

namespace tandem::testing {
namespace {

using acceptance::Entry;
using acceptance::JudgeInput;
using random::Purpose;

// A pair whose p and q depend on the last two tokens.
struct Pair {
  uint32_t vocabulary = 5;
  int top_m = 3;
  double noise = 1;  // of the draft
};

TableModelOptions TargetTable(const Pair& pair) {
  return {.vocabulary_size = pair.vocabulary, .seed = 3, .peakedness = 1.2};
}

TableModelOptions DraftTable(const Pair& pair) {
  TableModelOptions options = TargetTable(pair);
  options.noise = pair.noise;
  options.noise_seed = 4;
  return options;
}

ClusterOptions TableOptions(const Pair& pair) {
  ClusterOptions options;
  options.target_model = std::make_unique<TableModel>(TargetTable(pair));
  options.draft_model = std::make_unique<TableModel>(DraftTable(pair));
  options.tokenizer = LettersTokenizer(pair.vocabulary);
  options.model_drafter.top_m = pair.top_m;
  // A block that is late would be left out, which is exact as well, but shows less.
  options.loop.draft_wait = absl::Seconds(20);
  options.loop.draft_wait_floor = absl::Seconds(20);
  return options;
}

TargetDistribution TableDistribution(const Pair& pair,
                                     const sampling::SamplingParameters& sampling) {
  auto table = std::make_shared<TableModel>(TargetTable(pair));
  auto rows = std::make_shared<std::map<std::vector<uint32_t>, sampling::Distribution>>();
  return [table, rows, sampling, vocabulary = pair.vocabulary](absl::Span<const uint32_t> context) {
    const auto last = context.last(std::min<size_t>(2, context.size()));
    auto [row, is_new] = rows->try_emplace(std::vector<uint32_t>(last.begin(), last.end()));
    if (is_new) {
      row->second = sampling::MakeDistribution(table->LogitsAfter(last), vocabulary, sampling);
    }
    return row->second;
  };
}

Judgement Measure(const Pair& pair, ClusterOptions options, const TextsOptions& texts) {
  InProcessCluster cluster(std::move(options));
  Judgement judgement = Judge(SampleTexts(cluster, texts), texts, pair.vocabulary,
                              TableDistribution(pair, texts.sampling));
  EXPECT_TRUE(cluster.AllFreed());
  return judgement;
}

struct Case {
  std::string name;
  Pair pair;
  TextsOptions texts;
};

class ExactTest : public ::testing::TestWithParam<Case> {};

TEST_P(ExactTest, FollowsTheTarget) {
  const Case& test = GetParam();
  const Judgement judgement = Measure(test.pair, TableOptions(test.pair), test.texts);
  RecordProperty("judgement", judgement.ToString());
  SCOPED_TRACE(judgement.ToString());
  EXPECT_TRUE(judgement.joint.Passes());
  EXPECT_TRUE(judgement.transitions.Passes());
  if (test.texts.draft_tokens == 0) return;
  EXPECT_GT(judgement.accepted, test.texts.requests);
  EXPECT_GT(judgement.rejected_rounds, test.texts.requests / 2);
  EXPECT_GT(judgement.whole_blocks, 100);
}

INSTANTIATE_TEST_SUITE_P(
    Tables, ExactTest,
    ::testing::Values(
        Case{"Plain", {}, {.draft_tokens = 0}}, Case{"ThreeOfFive", {}, {}},
        Case{"TwoOfFour", {.vocabulary = 4, .top_m = 2}, {.draft_tokens = 4}},
        Case{"FourOfEight", {.vocabulary = 8, .top_m = 4, .noise = 0.5}, {.draft_tokens = 2}},
        Case{"Cold", {.vocabulary = 6}, {.sampling = {.temperature = 0.6}}},
        Case{"TopK", {.vocabulary = 8, .top_m = 4, .noise = 0.7}, {.sampling = {1.2, 3, 1}}},
        Case{"TopP", {.vocabulary = 6, .noise = 0.7}, {.sampling = {1, 0, 0.8}}},
        Case{"PromptLookup", {.vocabulary = 4}, {.draft_tokens = 2, .drafter = "prompt-lookup"}},
        Case{"Random", {.vocabulary = 4}, {.draft_tokens = 2, .drafter = "random"}}),
    [](const auto& info) { return info.param.name; });

enum class Fault {
  kNone,
  kQBeforeTruncation,       // draws from the top-m, sends the whole q
  kDropsUnlikelyToken,      // a drawn token of low q does not reach the target
  kResidualOnlyDropsToken,  // replaces from p without the candidate
  kOneUniform,              // the accepting uniform draws the replacement, too
};

// Drafts from the table as the model drafter does, but for its fault.
class PlantedDrafter final : public draft_service::Drafter {
 public:
  PlantedDrafter(const Pair& pair, Fault fault, const draft_service::DraftSequence& sequence)
      : pair_(pair), fault_(fault), sequence_(sequence), table_(DraftTable(pair)) {}

  absl::Status Accept(uint32_t keep, absl::Span<const uint32_t> tokens) override {
    committed_.resize(keep);
    committed_.insert(committed_.end(), tokens.begin(), tokens.end());
    return absl::OkStatus();
  }

  absl::StatusOr<draft_service::DraftedBlock> Propose(uint32_t most_tokens) override {
    draft_service::DraftedBlock block;
    std::vector<uint32_t> context = committed_;
    const random::RoundKey key{sequence_.seed, 0, static_cast<uint32_t>(committed_.size())};
    while (block.tokens.size() < most_tokens) {
      const sampling::Distribution whole = sampling::MakeDistribution(
          table_.LogitsAfter(context), pair_.vocabulary, sequence_.sampling);
      const sampling::SparseDistribution q = sampling::Sparsify(whole, pair_.top_m);
      const uint32_t position = static_cast<uint32_t>(context.size());
      const uint32_t token = sampling::Draw(q, random::Uniform(key, position, Purpose::kDraft));
      if (fault_ == Fault::kDropsUnlikelyToken && q(token) < 0.3) break;
      block.tokens.push_back(token);
      block.q.push_back(fault_ == Fault::kQBeforeTruncation
                            ? sampling::Sparsify(whole, static_cast<int>(pair_.vocabulary))
                            : q);
      context.push_back(token);
    }
    return block;
  }

 private:
  const Pair pair_;
  const Fault fault_;
  const draft_service::DraftSequence sequence_;
  const TableModel table_;
  std::vector<uint32_t> committed_;
};

std::vector<Entry> PlantedJudge(Fault fault, const JudgeInput& input) {
  std::vector<Entry> entries = acceptance::Judge(input);
  for (size_t i = 0; i < input.candidates.size(); ++i) {
    if (!entries[i].next_token.has_value()) continue;
    const uint32_t position = input.key.committed + static_cast<uint32_t>(i);
    if (fault == Fault::kResidualOnlyDropsToken) {
      entries[i].next_token =
          acceptance::DrawResidual(input.p[i], input.candidates[i], nullptr,
                                   random::Uniform(input.key, position, Purpose::kReplace));
    } else if (fault == Fault::kOneUniform) {
      entries[i].next_token = acceptance::DrawResidual(
          input.p[i], input.candidates[i], input.q.empty() ? nullptr : input.q[i],
          random::Uniform(input.key, position, Purpose::kAccept));
    }
  }
  return entries;
}

Judgement RunWith(Fault fault) {
  const Pair pair;
  ClusterOptions options = TableOptions(pair);
  options.instead_of_model.make = [pair, fault](const draft_service::DraftSequence& sequence) {
    return absl::StatusOr<std::unique_ptr<draft_service::Drafter>>(
        std::make_unique<PlantedDrafter>(pair, fault, sequence));
  };
  options.judge = [fault](const JudgeInput& input) { return PlantedJudge(fault, input); };
  return Measure(pair, std::move(options), {});
}

TEST(ControlTest, HooksWithoutAFaultAreExact) {
  const Judgement judgement = RunWith(Fault::kNone);
  RecordProperty("judgement", judgement.ToString());
  SCOPED_TRACE(judgement.ToString());
  EXPECT_TRUE(judgement.joint.Passes());
  EXPECT_TRUE(judgement.transitions.Passes());
}

class FaultTest : public ::testing::TestWithParam<std::pair<Fault, std::string>> {};

TEST_P(FaultTest, IsCaught) {
  const Judgement judgement = RunWith(GetParam().first);
  RecordProperty("judgement", judgement.ToString());
  SCOPED_TRACE(judgement.ToString());
  EXPECT_TRUE(judgement.joint.ControlIsCaught());
  EXPECT_TRUE(judgement.transitions.ControlIsCaught());
}

INSTANTIATE_TEST_SUITE_P(
    Faults, FaultTest,
    ::testing::Values(std::pair(Fault::kQBeforeTruncation, "QBeforeTruncation"),
                      std::pair(Fault::kDropsUnlikelyToken, "DropsUnlikelyToken"),
                      std::pair(Fault::kResidualOnlyDropsToken, "ResidualOnlyDropsToken"),
                      std::pair(Fault::kOneUniform, "OneUniform")),
    [](const auto& info) { return info.param.second; });

}  // namespace
}  // namespace tandem::testing
