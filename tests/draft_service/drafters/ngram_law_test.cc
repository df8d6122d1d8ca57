// Texts drafted by n-grams follow the target: the joint distribution of the first tokens of many
// texts, through the real drafters, the real rules and the real keys of randomness, against exact
// enumeration.
//
// Most drafters do not draw, so their q is one-hot. What is controlled is what would break that: a
// q that says that the drafter draws by its counts, and a block that is cut by looking at what will
// stand. Those that draw from a table send its weights. What is controlled there: other weights
// than those, and a drawn token that is dropped because it is unlikely.
//
// A cascade draws from its model and tests what was guessed for it. What is controlled there: a q
// that says what a guess was drawn from and not what the token was, and tests with the numbers of
// the target's own.
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "common/acceptance/rule.h"
#include "common/random/random.h"
#include "common/sampling/distribution.h"
#include "draft_service/drafters/cascade.h"
#include "draft_service/drafters/context_ngram.h"
#include "draft_service/drafters/lookup_first.h"
#include "draft_service/drafters/mixed.h"
#include "draft_service/drafters/recall.h"
#include "draft_service/drafters/successor_drafter.h"
#include "draft_service/ngrams/corpus_ngrams.h"
#include "gtest/gtest.h"
#include "tests/draft_service/drafters/ngram_drafters.h"
#include "tests/support/chi_square.h"
#include "tests/support/table_model.h"

namespace tandem::draft_service::ngram_law_test {
namespace {

using acceptance::Rule;
using sampling::Distribution;
using sampling::SparseDistribution;
using Tokens = std::vector<uint32_t>;

constexpr uint32_t kVocabulary = 4;
constexpr size_t kJoint = 4;  // tokens of a text
constexpr int kTexts = 4'000;
const Tokens kPrompt = {0, 1, 2, 3, 1, 0, 2, 1, 3, 0, 3, 2, 0, 1};

enum class Way : uint8_t {
  kRight,
  kSaysItDraws,       // q: the token and another one, two to one
  kKeepsWhatStands,   // cuts the block where it will be rejected
  kDropsTheUnlikely,  // cuts the block before a token that q gives less than a third
  kSaysItIsFlat,      // q: all tokens alike
  kIgnoresSeeds,      // recalls what the same random numbers have made
  kCutByTime,   // ends the block after one pass: how long it is, depends on what was guessed right
  kHasTheSeed,  // the draft has the request's own seed
  kSharesTheTests,  // and tests its guesses by the target's numbers
  kSaysTheTable     // q: what guesses are drawn from
};

enum class Kind : uint8_t {
  kContext,
  kUnigram,
  kBigram,
  kExtended,
  kMixed,
  kCascade,
  kLookupFirst,
  kRecall
};

std::shared_ptr<const SuccessorTable> Unigrams() {
  NgramCounter counter(kVocabulary, 100);
  counter.Add({0, 1, 2, 1, 1, 3, 1, 0, 2, 1, 2, 2, 1, 0});
  return UnigramTable(counter);
}

std::shared_ptr<const SuccessorTable> Bigrams() {
  NgramCounter counter(kVocabulary, 100);
  counter.Add({0, 1, 2, 3, 1, 0, 2, 1, 3, 0, 3, 2, 0, 1, 0, 1, 2, 2, 1, 1, 2, 0, 0, 1, 2});
  return BigramTable(counter, Unigrams());
}

model::LanguageModel& CascadeModel() {
  static auto* const model = new testing::TableModel({.vocabulary_size = kVocabulary,
                                                      .seed = 3,
                                                      .peakedness = 1.2,
                                                      .noise = 0.7,
                                                      .noise_seed = 5});
  return *model;
}

// Guesses of the text, and of a table that the model below hardly agrees with.
DrafterFactory Cascade(uint8_t level) {
  return CascadeFactory(CascadeModel(), {},
                        {.context = {.query = 3}, .table = Bigrams(), .level = level});
}

// Made once: a test makes thousands of drafters.
const DrafterFactory& FactoryOf(Kind kind) {
  static const auto* const factories = new std::vector<DrafterFactory>{
      ContextNgramFactory(),
      SuccessorFactory("unigram", Unigrams()),
      SuccessorFactory("bigram", Bigrams()),
      SuccessorFactory(
          "extended", std::make_shared<FixedTable>(
                          std::map<uint32_t, std::vector<Successor>>{{0, {{1, 3}, {2, 2}}},
                                                                     {1, {{3, 2}, {0, 1}}},
                                                                     {2, {{1, 5}, {3, 4}, {2, 1}}},
                                                                     {3, {{2, 1}}}},
                          std::map<std::pair<uint32_t, size_t>, std::vector<uint32_t>>{
                              {{0, 0}, {2}}, {{0, 1}, {1}}, {{1, 0}, {3}}, {{2, 1}, {0}}})),
      MixedFactory({}, Bigrams()),
      Cascade(1),
      LookupFirstFactory(CascadeModel(), {})};
  return (*factories)[static_cast<size_t>(kind)];
}

struct Case {
  std::string name;
  Rule rule = Rule::kSpeculative;
  Way way = Way::kRight;
  uint32_t draft_tokens = 3;
  Kind kind = Kind::kContext;
  Proposal proposal = Proposal::kDefault;
  int times = 1;  // that a text is written with its seed; the last one counts
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class Texts {
 public:
  explicit Texts(const Case& of) : case_(of) {}

  testing::ChiSquare Measure() {
    std::vector<int64_t> counts(Cells());
    for (uint64_t seed = 1; seed <= kTexts; ++seed) {
      for (int i = 1; i < case_.times; ++i) Write(seed);
      ++counts[CellOf(Write(seed))];
    }
    return testing::GoodnessOfFit(Exact(), counts);
  }
  int64_t accepted() const { return accepted_; }
  int64_t rejected_rounds() const { return rejected_rounds_; }

 private:
  static size_t Cells() { return static_cast<size_t>(std::pow(kVocabulary, kJoint)); }
  static size_t CellOf(const Tokens& output) {
    size_t cell = 0;
    for (size_t i = 0; i < kJoint; ++i) cell = cell * kVocabulary + output[i];
    return cell;
  }

  // The table's logits follow from the last two tokens.
  const Distribution& P(const Tokens& text) {
    Distribution& p = p_[text[text.size() - 2] * kVocabulary + text.back()];
    if (p.ids.empty()) {
      p = sampling::MakeDistribution(target_.LogitsAfter(text), kVocabulary, {});
    }
    return p;
  }

  std::vector<double> Exact() {
    std::vector<double> exact(Cells());
    for (size_t cell = 0; cell < exact.size(); ++cell) {
      Tokens text = kPrompt;
      exact[cell] = 1;
      size_t rest = cell, place = exact.size();
      for (size_t i = 0; i < kJoint; ++i) {
        place /= kVocabulary;
        const uint32_t token = static_cast<uint32_t>(rest / place);
        rest %= place;
        exact[cell] *= P(text)(token);
        text.push_back(token);
      }
    }
    return exact;
  }

  Tokens Write(uint64_t seed) {
    speculation::SequenceSettings settings;
    settings.rule = case_.rule;
    const bool has_the_seed = case_.rule == Rule::kCoupled || case_.way == Way::kHasTheSeed ||
                              case_.way == Way::kSharesTheTests;
    settings.seed = has_the_seed ? seed : random::DeriveDraftSeed(seed);
    settings.prompt_tokens = static_cast<uint32_t>(kPrompt.size());
    settings.cache_scope = "one";
    static const auto* const shares = new DrafterFactory(Cascade(0));
    const DrafterFactory& factory = case_.kind == Kind::kRecall         ? recall_
                                    : case_.way == Way::kSharesTheTests ? *shares
                                                                        : FactoryOf(case_.kind);
    auto drafter = *factory.make(settings, case_.proposal);
    Tokens text = kPrompt;
    EXPECT_TRUE(drafter->Accept(0, text).ok());
    while (text.size() < kPrompt.size() + kJoint) {
      const Tokens committed = Round(seed, text, BlockOf(*drafter));
      EXPECT_TRUE(drafter->Accept(static_cast<uint32_t>(text.size()), committed).ok());
      text.insert(text.end(), committed.begin(), committed.end());
    }
    return {text.begin() + static_cast<ptrdiff_t>(kPrompt.size()), text.end()};
  }

  CandidateTree BlockOf(Drafter& drafter) const {
    if (case_.way != Way::kCutByTime) return *drafter.Propose(case_.draft_tokens);
    ForwardDrafter& cut = *drafter.forward_drafter();
    cut.BeginBlock({case_.draft_tokens});
    const model::ForwardPart part = cut.NextPart(64);
    const model::Logits logits = *cut.model().Forward({&part, 1});
    EXPECT_TRUE(cut.ReadLogits({logits.data, static_cast<size_t>(logits.rows) * kVocabulary}).ok());
    return cut.EndBlock();
  }

  // What the round commits.
  Tokens Round(uint64_t seed, const Tokens& text, CandidateTree block) {
    const random::RoundKey key{seed, 0, static_cast<uint32_t>(text.size())};
    if (case_.way == Way::kDropsTheUnlikely) DropTheUnlikely(block);
    acceptance::Decision decision = Decide(key, text, block);
    if (case_.way == Way::kKeepsWhatStands && decision.accepted < block.size()) {
      block.Truncate(decision.accepted);
      decision = Decide(key, text, block);
    }
    accepted_ += decision.accepted;
    rejected_rounds_ += decision.rejected ? 1 : 0;
    block.tokens.resize(decision.accepted);
    block.tokens.push_back(decision.next_token);
    return block.tokens;
  }

  static void DropTheUnlikely(CandidateTree& block) {
    for (size_t i = 0; i < block.q.size(); ++i) {
      if (block.q[i](block.tokens[i]) < 1.0 / 3) return block.Truncate(i);
    }
  }

  // What the target is told of the block's q; null: the token is one-hot.
  const SparseDistribution* Sent(const CandidateTree& block, size_t i) {
    switch (case_.way) {
      case Way::kSaysItDraws:
        said_[i] = {{block.tokens[i], (block.tokens[i] + 1) % kVocabulary}, {2, 1}};
        return &said_[i];
      case Way::kSaysItIsFlat:
        said_[i] = {{0, 1, 2, 3}, {1, 1, 1, 1}};
        return &said_[i];
      case Way::kSaysTheTable:
        said_[i] = TableQ(i == 0 ? last_ : block.tokens[i - 1]);
        if (said_[i](block.tokens[i]) == 0) return &block.q[i];
        return &said_[i];
      default:
        return block.q.empty() || block.q[i].ids.empty() ? nullptr : &block.q[i];
    }
  }

  static SparseDistribution TableQ(uint32_t token) {
    static const auto* const table = new std::shared_ptr<const SuccessorTable>(Bigrams());
    SparseDistribution q;
    for (const Successor& one : (*table)->After(token)) {
      q.ids.push_back(one.token);
      q.weights.push_back(one.weight);
    }
    return q;
  }

  acceptance::Decision Decide(const random::RoundKey& key, Tokens text,
                              const CandidateTree& block) {
    last_ = text.back();
    std::vector<Distribution> p = {P(text)};
    for (uint32_t token : block.tokens) {
      text.push_back(token);
      p.push_back(P(text));
    }
    said_.resize(block.size());
    std::vector<const SparseDistribution*> sent;
    for (size_t i = 0; i < block.size(); ++i) sent.push_back(Sent(block, i));
    const auto entries = acceptance::Judge({case_.rule, key, p, block.tokens, sent});
    return acceptance::Decide(case_.rule, entries,
                              acceptance::AcceptUniforms(key, static_cast<int>(block.size())));
  }

  const Case case_;
  testing::TableModel target_{{.vocabulary_size = kVocabulary, .seed = 3, .peakedness = 1.2}};
  std::array<Distribution, kVocabulary * kVocabulary> p_;
  std::vector<SparseDistribution> said_;
  uint32_t last_ = 0;  // committed
  DrafterFactory recall_ =
      RecallFactory({.max_tokens = 1000, .ignore_seeds = case_.way == Way::kIgnoresSeeds});
  int64_t accepted_ = 0, rejected_rounds_ = 0;
};

class ExactTest : public ::testing::TestWithParam<Case> {};

TEST_P(ExactTest, FollowsTheTarget) {
  Texts texts(GetParam());
  const testing::ChiSquare fit = texts.Measure();
  EXPECT_TRUE(fit.Passes()) << fit.ToString();
  EXPECT_GT(texts.accepted(), kTexts / 5);
  if (GetParam().way == Way::kRight) {
    EXPECT_GT(texts.rejected_rounds(), kTexts / 5);
  }
}

const std::string& NameOf(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }

// Under coupled a block may be chosen by looking at the target's draws.
INSTANTIATE_TEST_SUITE_P(
    ContextNgram, ExactTest,
    ::testing::Values(Case{"Speculative"}, Case{"Block", Rule::kBlock},
                      Case{"Coupled", Rule::kCoupled},
                      Case{"SpeculativeOne", Rule::kSpeculative, Way::kRight, 1},
                      Case{"CoupledMayLook", Rule::kCoupled, Way::kKeepsWhatStands}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Tables, ExactTest,
    ::testing::Values(
        Case{"Unigram", Rule::kSpeculative, Way::kRight, 2, Kind::kUnigram, Proposal::kGreedy},
        Case{"UnigramSampled", Rule::kSpeculative, Way::kRight, 2, Kind::kUnigram,
             Proposal::kSampled},
        Case{"Bigram", Rule::kBlock, Way::kRight, 3, Kind::kBigram, Proposal::kGreedy},
        Case{"BigramSampled", Rule::kSpeculative, Way::kRight, 3, Kind::kBigram,
             Proposal::kSampled},
        Case{"BigramSampledBlock", Rule::kBlock, Way::kRight, 3, Kind::kBigram, Proposal::kSampled},
        Case{"BigramSampledCoupled", Rule::kCoupled, Way::kRight, 3, Kind::kBigram,
             Proposal::kSampled},
        Case{"Extended", Rule::kSpeculative, Way::kRight, 3, Kind::kExtended, Proposal::kGreedy},
        Case{"ExtendedSampled", Rule::kSpeculative, Way::kRight, 3, Kind::kExtended,
             Proposal::kSampled},
        Case{"ExtendedSampledBlock", Rule::kBlock, Way::kRight, 3, Kind::kExtended,
             Proposal::kSampled},
        Case{"Mixed", Rule::kSpeculative, Way::kRight, 3, Kind::kMixed, Proposal::kGreedy},
        Case{"MixedSampled", Rule::kSpeculative, Way::kRight, 4, Kind::kMixed},
        Case{"MixedSampledBlock", Rule::kBlock, Way::kRight, 4, Kind::kMixed}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Recall, ExactTest,
    ::testing::Values(Case{"OfOtherSeeds", Rule::kSpeculative, Way::kRight, 3, Kind::kRecall},
                      Case{"OfOtherSeedsBlock", Rule::kBlock, Way::kRight, 3, Kind::kRecall},
                      Case{"SameSeedAgain", Rule::kSpeculative, Way::kRight, 3, Kind::kRecall,
                           Proposal::kDefault, 3},
                      Case{"SameSeedAgainCoupled", Rule::kCoupled, Way::kRight, 3, Kind::kRecall,
                           Proposal::kDefault, 2}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Cascade, ExactTest,
    ::testing::Values(Case{"Speculative", Rule::kSpeculative, Way::kRight, 3, Kind::kCascade},
                      Case{"Block", Rule::kBlock, Way::kRight, 4, Kind::kCascade},
                      Case{"CutByTime", Rule::kSpeculative, Way::kCutByTime, 4, Kind::kCascade},
                      Case{"BlockCutByTime", Rule::kBlock, Way::kCutByTime, 4, Kind::kCascade},
                      Case{"HasTheSeed", Rule::kSpeculative, Way::kHasTheSeed, 3, Kind::kCascade}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    LookupFirst, ExactTest,
    ::testing::Values(Case{"Speculative", Rule::kSpeculative, Way::kRight, 3, Kind::kLookupFirst},
                      Case{"Block", Rule::kBlock, Way::kRight, 4, Kind::kLookupFirst}),
    NameOf);

class ControlTest : public ::testing::TestWithParam<Case> {};

TEST_P(ControlTest, IsCaught) {
  const testing::ChiSquare fit = Texts(GetParam()).Measure();
  EXPECT_TRUE(fit.ControlIsCaught()) << fit.ToString();
}

INSTANTIATE_TEST_SUITE_P(
    ContextNgram, ControlTest,
    ::testing::Values(Case{"SpeculativeSaysItDraws", Rule::kSpeculative, Way::kSaysItDraws},
                      Case{"BlockSaysItDraws", Rule::kBlock, Way::kSaysItDraws},
                      Case{"SpeculativeKeepsWhatStands", Rule::kSpeculative, Way::kKeepsWhatStands},
                      Case{"BlockKeepsWhatStands", Rule::kBlock, Way::kKeepsWhatStands}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Tables, ControlTest,
    ::testing::Values(Case{"BigramIsFlat", Rule::kSpeculative, Way::kSaysItIsFlat, 3, Kind::kBigram,
                           Proposal::kSampled},
                      Case{"BigramDropsTheUnlikely", Rule::kSpeculative, Way::kDropsTheUnlikely, 3,
                           Kind::kBigram, Proposal::kSampled},
                      Case{"BigramBlockDropsTheUnlikely", Rule::kBlock, Way::kDropsTheUnlikely, 3,
                           Kind::kBigram, Proposal::kSampled},
                      Case{"MixedSaysItDraws", Rule::kSpeculative, Way::kSaysItDraws, 3,
                           Kind::kMixed},
                      Case{"RecallIgnoresSeeds", Rule::kSpeculative, Way::kIgnoresSeeds, 3,
                           Kind::kRecall, Proposal::kDefault, 3}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(Cascade, ControlTest,
                         ::testing::Values(Case{"SharesTheTests", Rule::kSpeculative,
                                                Way::kSharesTheTests, 3, Kind::kCascade},
                                           Case{"SaysTheTable", Rule::kSpeculative,
                                                Way::kSaysTheTable, 3, Kind::kCascade}),
                         NameOf);

}  // namespace
}  // namespace tandem::draft_service::ngram_law_test
