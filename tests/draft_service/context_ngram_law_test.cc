// Texts drafted by context n-grams follow the target: the joint distribution of the first tokens of
// many texts, through the real drafter, the real rules and the real keys of randomness, against
// exact enumeration. The drafter does not sample. So its q is one-hot, and what is controlled is
// what would break that: a q that says that the drafter draws by its counts, and a block that is cut
// by looking at what will stand.
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "common/acceptance/rule.h"
#include "common/sampling/distribution.h"
#include "draft_service/context_ngram.h"
#include "gtest/gtest.h"
#include "tests/support/chi_square.h"
#include "tests/support/table_model.h"

namespace tandem::draft_service::context_ngram_law_test {
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
  kSaysItDraws,     // q: the token and another one, two to one
  kKeepsWhatStands  // cuts the block where it will be rejected
};

struct Case {
  std::string name;
  Rule rule = Rule::kSpeculative;
  Way way = Way::kRight;
  uint32_t draft_tokens = 3;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class Texts {
 public:
  explicit Texts(const Case& of) : case_(of) {}

  testing::ChiSquare Measure() {
    std::vector<int64_t> counts(Cells());
    for (uint64_t seed = 1; seed <= kTexts; ++seed) ++counts[CellOf(Write(seed))];
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
    auto drafter = *ContextNgramFactory().make({}, Proposal::kDefault);
    Tokens text = kPrompt;
    EXPECT_TRUE(drafter->Accept(0, text).ok());
    while (text.size() < kPrompt.size() + kJoint) {
      const Tokens committed = Round(seed, text, drafter->Propose(case_.draft_tokens)->tokens);
      EXPECT_TRUE(drafter->Accept(static_cast<uint32_t>(text.size()), committed).ok());
      text.insert(text.end(), committed.begin(), committed.end());
    }
    return {text.begin() + static_cast<ptrdiff_t>(kPrompt.size()), text.end()};
  }

  // What the round commits.
  Tokens Round(uint64_t seed, const Tokens& text, Tokens block) {
    const random::RoundKey key{seed, 0, static_cast<uint32_t>(text.size())};
    acceptance::Decision decision = Decide(key, text, block);
    if (case_.way == Way::kKeepsWhatStands && decision.accepted < block.size()) {
      block.resize(decision.accepted);
      decision = Decide(key, text, block);
    }
    accepted_ += decision.accepted;
    rejected_rounds_ += decision.rejected ? 1 : 0;
    block.resize(decision.accepted);
    block.push_back(decision.next_token);
    return block;
  }

  acceptance::Decision Decide(const random::RoundKey& key, Tokens text, const Tokens& block) {
    std::vector<Distribution> p = {P(text)};
    std::vector<SparseDistribution> q;
    for (uint32_t token : block) {
      text.push_back(token);
      p.push_back(P(text));
      q.push_back({{token, (token + 1) % kVocabulary}, {2, 1}});
    }
    std::vector<const SparseDistribution*> sent;
    for (const SparseDistribution& one : q) {
      sent.push_back(case_.way == Way::kSaysItDraws ? &one : nullptr);
    }
    const auto entries = acceptance::Judge({case_.rule, key, p, block, sent});
    return acceptance::Decide(case_.rule, entries,
                              acceptance::AcceptUniforms(key, static_cast<int>(block.size())));
  }

  const Case case_;
  testing::TableModel target_{{.vocabulary_size = kVocabulary, .seed = 3, .peakedness = 1.2}};
  std::array<Distribution, kVocabulary * kVocabulary> p_;
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

// Under coupled a block may be chosen by looking at the target's draws.
INSTANTIATE_TEST_SUITE_P(
    ContextNgram, ExactTest,
    ::testing::Values(Case{"Speculative"}, Case{"Block", Rule::kBlock},
                      Case{"Coupled", Rule::kCoupled},
                      Case{"SpeculativeOne", Rule::kSpeculative, Way::kRight, 1},
                      Case{"CoupledMayLook", Rule::kCoupled, Way::kKeepsWhatStands}),
    [](const auto& info) { return info.param.name; });

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
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tandem::draft_service::context_ngram_law_test
