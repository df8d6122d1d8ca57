// The speculative rule by exact enumeration: over all draft tokens, both outcomes and all recovered
// tokens, the token that comes out follows p within 1e-12 in total variation. The probabilities of
// recovered tokens are found by bisection over the uniform, so it is the rule's own drawing that is
// enumerated.
#include "common/acceptance/speculative.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/chi_square.h"
#include "tests/support/table_model.h"

namespace tandem::acceptance::speculative_test {
namespace {

using sampling::Distribution;
using sampling::SparseDistribution;
using ::testing::ElementsAre;
using testing::TotalVariation;

constexpr double kExact = 1e-12;
const double kLast = std::nextafter(1.0, 0);

// The distribution of draw(u) for uniform u; draw never falls as u grows.
std::vector<double> Enumerate(uint32_t vocabulary, const std::function<uint32_t(double)>& draw) {
  std::vector<double> probabilities(vocabulary);
  double from = 0;
  while (from < 1) {
    const uint32_t token = draw(from);
    double low = from, high = 1;  // draws token at low; no more at high, or high is 1
    if (draw(kLast) != token) {
      high = kLast;
      while (std::nextafter(low, 1) < high) {
        double middle = low + (high - low) / 2;
        (draw(middle) == token ? low : high) = middle;
      }
    }
    probabilities[token] += high - from;
    from = high;
  }
  return probabilities;
}

std::vector<double> Dense(const Distribution& p, uint32_t vocabulary) {
  std::vector<double> dense(vocabulary);
  for (size_t i = 0; i < p.ids.size(); ++i) dense[p.ids[i]] = p.probabilities[i];
  return dense;
}

// What one draft token from q, or the fixed draft token x (q null), turns into.
std::vector<double> FirstToken(const Distribution& p, const SparseDistribution* q, uint32_t x,
                               uint32_t vocabulary) {
  std::vector<double> out(vocabulary);
  const std::vector<Distribution> ps = {p, p};
  auto add = [&](uint32_t candidate, double weight) {
    const std::vector<uint32_t> candidates = {candidate};
    const std::vector<const SparseDistribution*> qs = {q};
    auto judge = [&](double u) {
      return JudgeSpeculative(ps, candidates, qs, std::vector<double>{u}, 0.5);
    };
    const std::vector<Entry> entries = judge(0.5);
    const double accept = entries[1].accept_probability;
    // Decide accepts exactly the uniforms below it.
    if (accept > 0) {
      EXPECT_EQ(Decide(Rule::kSpeculative, entries, std::vector<double>{std::nextafter(accept, 0)})
                    .accepted,
                1u);
      out.at(candidate) += weight * accept;
    }
    if (!entries[0].next_token.has_value()) {
      EXPECT_EQ(accept, 1);
      return;
    }
    Decision rejected =
        Decide(Rule::kSpeculative, entries, std::vector<double>{std::max(accept, 0.0)});
    EXPECT_EQ(rejected.accepted, 0u);
    EXPECT_TRUE(rejected.rejected);
    EXPECT_EQ(rejected.next_token, *entries[0].next_token);
    std::vector<double> replacements =
        Enumerate(vocabulary, [&](double u) { return *judge(u)[0].next_token; });
    for (uint32_t y = 0; y < vocabulary; ++y) out[y] += weight * (1 - accept) * replacements[y];
  };
  if (q == nullptr) {
    add(x, 1);
  } else {
    for (uint32_t candidate : q->ids) add(candidate, (*q)(candidate));
  }
  return out;
}

struct Shapes {
  std::mt19937 generator{11};

  Distribution P(uint32_t vocabulary, double spread, uint32_t top_k) {
    std::vector<float> logits(vocabulary);
    std::normal_distribution<float> normal(0, static_cast<float>(spread));
    for (float& logit : logits) logit = normal(generator);
    return sampling::MakeDistribution(logits, vocabulary, {1, top_k, 1});
  }
};

Distribution Exactly(const SparseDistribution& q) {
  std::vector<std::pair<uint32_t, double>> entries;
  for (uint32_t id : q.ids) entries.emplace_back(id, q(id));
  std::sort(entries.begin(), entries.end());
  Distribution p;
  for (auto& [id, probability] : entries) {
    p.ids.push_back(id);
    p.probabilities.push_back(probability);
  }
  return p;
}

TEST(SpeculativeExactTest, RandomPairsTruncatedOnBothSides) {
  Shapes shapes;
  for (int round = 0; round < 2000; ++round) {
    const uint32_t vocabulary = 2 + round % 9;
    Distribution p = shapes.P(vocabulary, 0.2 + round % 4, round % 3 == 0 ? 1 + round % 4 : 0);
    SparseDistribution q =
        Sparsify(shapes.P(vocabulary, 0.2 + round / 4 % 4, 0), 1 + round % (vocabulary + 1));
    EXPECT_LE(TotalVariation(FirstToken(p, &q, 0, vocabulary), Dense(p, vocabulary)), kExact);
  }
}

TEST(SpeculativeExactTest, DraftNearItsTarget) {
  Shapes shapes;
  for (int round = 0; round < 200; ++round) {
    Distribution p = shapes.P(8, 1, 0);
    SparseDistribution q = Sparsify(p, 8);  // p but for the rounding to 16 bits
    EXPECT_LE(TotalVariation(FirstToken(p, &q, 0, 8), Dense(p, 8)), kExact);
    Distribution same = Exactly(q);  // p = q: never rejected
    EXPECT_LE(TotalVariation(FirstToken(same, &q, 0, 8), Dense(same, 8)), kExact);
    for (uint32_t x : q.ids) {
      std::vector<Entry> entries =
          JudgeSpeculative({{same, same}}, std::vector<uint32_t>{x},
                           std::vector<const SparseDistribution*>{&q}, std::vector<double>{0}, 0);
      EXPECT_NEAR(entries[1].accept_probability, 1, 1e-15);
    }
  }
}

TEST(SpeculativeExactTest, DisjointSupport) {
  Distribution p{{0, 2, 4}, {0.5, 0.25, 0.25}};
  SparseDistribution q{{1, 3}, {5, 4}};
  EXPECT_LE(TotalVariation(FirstToken(p, &q, 0, 5), Dense(p, 5)), kExact);
  EXPECT_EQ(AcceptProbability(p, 1, &q), 0);
}

TEST(SpeculativeExactTest, OneHotCandidatesWhateverTheyAre) {
  Shapes shapes;
  for (int round = 0; round < 200; ++round) {
    Distribution p = shapes.P(7, 2, round % 8);
    for (uint32_t x = 0; x < 7; ++x) {
      SparseDistribution q{{x}, {77}};
      EXPECT_LE(TotalVariation(FirstToken(p, nullptr, x, 7), Dense(p, 7)), kExact);
      EXPECT_LE(TotalVariation(FirstToken(p, &q, x, 7), Dense(p, 7)), kExact);
    }
  }
}

TEST(SpeculativeExactTest, OneHotTarget) {
  Distribution p{{3}, {1}};
  SparseDistribution q{{3, 1}, {2, 6}};
  EXPECT_LE(TotalVariation(FirstToken(p, &q, 0, 4), Dense(p, 4)), kExact);
  EXPECT_EQ(AcceptProbability(p, 3, &q), 1);
}

// Two tokens, p and q depending on the first one; blocks of one (its bonus is the second token) and
// of two. A round that gives one token is followed by p itself.
TEST(SpeculativeExactTest, TwoTokensJointly) {
  constexpr uint32_t kVocabulary = 4;
  testing::TableModel target({.vocabulary_size = kVocabulary, .seed = 5, .peakedness = 1.3});
  testing::TableModel draft(
      {.vocabulary_size = kVocabulary, .seed = 5, .peakedness = 1.3, .noise = 1, .noise_seed = 2});
  auto p_after = [&](std::vector<uint32_t> context) {
    return sampling::MakeDistribution(target.LogitsAfter(context), kVocabulary, {0.9, 0, 1});
  };
  auto q_after = [&](std::vector<uint32_t> context) {
    return Sparsify(sampling::MakeDistribution(draft.LogitsAfter(context), kVocabulary, {}), 3);
  };
  std::vector<double> expected(kVocabulary * kVocabulary);
  const Distribution p0 = p_after({});
  for (uint32_t a = 0; a < kVocabulary; ++a) {
    for (uint32_t b = 0; b < kVocabulary; ++b)
      expected[a * kVocabulary + b] = p0(a) * p_after({a})(b);
  }
  const SparseDistribution q0 = q_after({});
  for (int length : {1, 2}) {
    std::vector<double> joint(kVocabulary * kVocabulary);
    auto then_p = [&](uint32_t a, double weight) {
      for (uint32_t b = 0; b < kVocabulary; ++b) {
        joint[a * kVocabulary + b] += weight * p_after({a})(b);
      }
    };
    for (uint32_t x : q0.ids) {
      const SparseDistribution q1 = q_after({x});
      for (uint32_t y : length == 1 ? std::vector<uint32_t>{0} : q1.ids) {
        const double weight = q0(x) * (length == 1 ? 1 : q1(y));
        std::vector<Distribution> ps = {p0, p_after({x}), p_after({x, y})};
        std::vector<uint32_t> candidates = {x, y};
        std::vector<const SparseDistribution*> qs = {&q0, &q1};
        ps.resize(length + 1);
        candidates.resize(length);
        qs.resize(length);
        auto judge = [&](double u) {
          return JudgeSpeculative(ps, candidates, qs, std::vector<double>(length, u), u);
        };
        const std::vector<Entry> entries = judge(0);
        auto next = [&](int i) {
          if (!entries[i].next_token.has_value()) return std::vector<double>(kVocabulary);
          return Enumerate(kVocabulary, [&](double u) { return *judge(u)[i].next_token; });
        };
        const double first = entries[1].accept_probability;
        const std::vector<double> replaced = next(0), second = next(1);
        const double second_accepted = length == 1 ? 0 : entries[2].accept_probability;
        for (uint32_t t = 0; t < kVocabulary; ++t) {
          then_p(t, weight * (1 - first) * replaced[t]);
          joint[x * kVocabulary + t] += weight * first * (1 - second_accepted) * second[t];
        }
        joint[x * kVocabulary + y] += weight * first * second_accepted;
      }
    }
    EXPECT_LE(TotalVariation(joint, expected), kExact) << length;
  }
}

TEST(SpeculativeTest, AcceptProbability) {
  Distribution p{{1, 2, 5}, {0.5, 0.3, 0.2}};
  SparseDistribution q{{2, 1, 0}, {3, 1, 1}};
  EXPECT_DOUBLE_EQ(AcceptProbability(p, 2, &q), 0.5);
  EXPECT_EQ(AcceptProbability(p, 1, &q), 1);  // p > q
  EXPECT_EQ(AcceptProbability(p, 0, &q), 0);  // p = 0: banned
  EXPECT_EQ(AcceptProbability(p, 1, nullptr), 0.5);
  EXPECT_EQ(AcceptProbability(p, 0xffffffff, nullptr), 0);  // outside the vocabulary
}

TEST(SpeculativeTest, ResidualOfP) {
  Distribution p{{1, 2, 5}, {0.5, 0.3, 0.2}};
  SparseDistribution q{{2, 1, 0}, {3, 1, 1}};
  // (p - q)+ = {1: 0.3, 5: 0.2}
  EXPECT_EQ(DrawResidual(p, 2, &q, 0), 1u);
  EXPECT_EQ(DrawResidual(p, 2, &q, 0.599999), 1u);
  EXPECT_EQ(DrawResidual(p, 2, &q, 0.600001), 5u);
  EXPECT_EQ(DrawResidual(p, 2, &q, kLast), 5u);
  EXPECT_EQ(DrawResidual(p, 2, nullptr, 0.72), 5u);  // p without 2
  EXPECT_EQ(DrawResidual(p, 77, nullptr, 0.6), 2u);  // p itself
  Distribution one_hot{{4}, {1}};
  EXPECT_EQ(DrawResidual(one_hot, 4, nullptr, 0.5), std::nullopt);
  // The last token has nothing left: a uniform next to 1 must not choose it.
  SparseDistribution last{{5}, {1}};
  EXPECT_EQ(DrawResidual(p, 5, &last, kLast), 2u);
}

TEST(SpeculativeTest, ACertainCandidateLeavesNoNextToken) {
  Distribution one_hot{{4}, {1}}, p{{1, 2}, {0.5, 0.5}};
  std::vector<Entry> entries = JudgeSpeculative({{one_hot, p, p}}, std::vector<uint32_t>{4, 3}, {},
                                                std::vector<double>{0, 0.7}, 0.2);
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].accept_probability, 1);
  EXPECT_FALSE(entries[0].next_token.has_value());
  EXPECT_EQ(entries[1].accept_probability, 1);
  EXPECT_EQ(entries[1].next_token, 2u);
  EXPECT_EQ(entries[2].accept_probability, 0);
  EXPECT_EQ(entries[2].next_token, 1u);
  EXPECT_TRUE(ValidateEntries(Rule::kSpeculative, entries, 2, 5).ok());
}

// Sums that fall short of 1 by rounding leave no residual: then there is nothing to replace x with.
TEST(SpeculativeTest, NoResidualMeansNoRejection) {
  Distribution p{{0, 1}, {0.5 - 1e-13, 0.5}};
  SparseDistribution q{{0, 1}, {1, 1}};
  EXPECT_LT(AcceptProbability(p, 0, &q), 1);
  std::vector<Entry> entries =
      JudgeSpeculative({{p, p}}, std::vector<uint32_t>{0},
                       std::vector<const SparseDistribution*>{&q}, std::vector<double>{0.5}, 0.5);
  EXPECT_EQ(entries[1].accept_probability, 1);
  EXPECT_FALSE(entries[0].next_token.has_value());
}

}  // namespace
}  // namespace tandem::acceptance::speculative_test
