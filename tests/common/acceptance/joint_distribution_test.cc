// Many tokens through whole rounds with the real keys of randomness: the joint distribution of the
// first four tokens against exact enumeration, and every later transition against p. Then the same
// with rounds that are wrong in known ways, which the test must catch.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/acceptance/rule.h"
#include "common/acceptance/speculative.h"
#include "gtest/gtest.h"
#include "tests/support/address_sanitizer.h"
#include "tests/support/chi_square.h"
#include "tests/support/table_model.h"

namespace tandem::acceptance {
namespace {

using random::Purpose;
using random::RoundKey;
using sampling::Distribution;
using sampling::SparseDistribution;
using testing::ChiSquare;

constexpr int kTokens = 12;  // a request
constexpr int kJoint = 4;    // of them judged jointly
constexpr int kRequests = testing::kAddressSanitizer ? 4'000 : 8'000;

enum class Wrong {
  kNothing,
  kQBeforeTruncation,       // draws from the top-m, sends the whole q
  kResidualOnlyDropsToken,  // replaces from p without the draft token
  kOneUniform,              // the accepting uniform draws the recovered token, too
  kDropsUnlikelyToken,      // a drawn token with a low q does not reach the target
};

struct Setup {
  Rule rule = Rule::kSpeculative;
  uint32_t vocabulary = 5;
  int top_m = 3;
  int block = 3;  // draft tokens per round; 0: plain
  double target_temperature = 0.9;
  double noise = 1;
  bool one_hot = false;  // the draft's argmax, without q
  Wrong wrong = Wrong::kNothing;
};

// p and q after each context, which is the last two tokens.
class Tables {
 public:
  explicit Tables(const Setup& setup)
      : setup_(setup),
        target_({.vocabulary_size = setup.vocabulary, .seed = 3, .peakedness = 1.2}),
        draft_({.vocabulary_size = setup.vocabulary,
                .seed = 3,
                .peakedness = 1.2,
                .noise = setup.noise,
                .noise_seed = 4}) {}

  struct Row {
    Distribution p;
    SparseDistribution q;       // what is drawn from
    SparseDistribution sent_q;  // what the target is told
  };

  const Row& After(const std::vector<uint32_t>& tokens) {
    std::vector<uint32_t> context(tokens.end() - std::min<size_t>(2, tokens.size()), tokens.end());
    auto [it, is_new] = rows_.try_emplace(context);
    if (is_new) {
      Row& row = it->second;
      row.p = sampling::MakeDistribution(target_.LogitsAfter(context), setup_.vocabulary,
                                         {setup_.target_temperature, 0, 1});
      Distribution q =
          sampling::MakeDistribution(draft_.LogitsAfter(context), setup_.vocabulary, {});
      row.q = sampling::Sparsify(q, setup_.top_m);
      row.sent_q = setup_.wrong == Wrong::kQBeforeTruncation
                       ? sampling::Sparsify(q, static_cast<int>(setup_.vocabulary))
                       : row.q;
    }
    return it->second;
  }

 private:
  const Setup setup_;
  testing::TableModel target_, draft_;
  std::map<std::vector<uint32_t>, Row> rows_;
};

struct Outcome {
  ChiSquare joint, transitions;
  int64_t whole_blocks = 0, broken_blocks = 0;
};

class Generator {
 public:
  explicit Generator(const Setup& setup) : setup_(setup), tables_(setup) {}

  Outcome Run(int requests) {
    const uint32_t v = setup_.vocabulary;
    std::vector<int64_t> joint(static_cast<size_t>(std::pow(v, kJoint)));
    std::map<std::pair<uint32_t, uint32_t>, std::vector<int64_t>> transitions;
    Outcome outcome;
    for (int request = 0; request < requests; ++request) {
      std::vector<uint32_t> tokens;
      while (tokens.size() < kTokens) Round(request, tokens, outcome);
      size_t cell = 0;
      for (int i = 0; i < kJoint; ++i) cell = cell * v + tokens[i];
      ++joint[cell];
      for (int i = kJoint; i < kTokens; ++i) {
        auto& counts = transitions[{tokens[i - 2], tokens[i - 1]}];
        counts.resize(v);
        ++counts[tokens[i]];
      }
    }
    outcome.joint = testing::GoodnessOfFit(ExactJoint(), joint);
    std::vector<ChiSquare> parts;
    for (auto& [context, counts] : transitions) {
      int64_t seen = 0;
      for (int64_t count : counts) seen += count;
      if (seen < 200) continue;
      parts.push_back(testing::GoodnessOfFit(P({context.first, context.second}), counts));
    }
    outcome.transitions = testing::Combine(parts);
    return outcome;
  }

 private:
  std::vector<double> P(const std::vector<uint32_t>& tokens) {
    std::vector<double> dense(setup_.vocabulary);
    const Distribution& p = tables_.After(tokens).p;
    for (size_t i = 0; i < p.ids.size(); ++i) dense[p.ids[i]] = p.probabilities[i];
    return dense;
  }

  std::vector<double> ExactJoint() {
    std::vector<std::pair<std::vector<uint32_t>, double>> level = {{{}, 1}};
    for (int i = 0; i < kJoint; ++i) {
      std::vector<std::pair<std::vector<uint32_t>, double>> next;
      for (const auto& [tokens, probability] : level) {
        const std::vector<double> p = P(tokens);
        for (uint32_t token = 0; token < p.size(); ++token) {
          next.emplace_back(tokens, probability * p[token]);
          next.back().first.push_back(token);
        }
      }
      level = std::move(next);
    }
    std::vector<double> joint;
    for (const auto& entry : level) joint.push_back(entry.second);
    return joint;
  }

  // The draft's part: draft tokens that follow `tokens`.
  std::vector<uint32_t> Draft(uint64_t seed, const std::vector<uint32_t>& tokens) {
    const RoundKey key{random::DeriveDraftSeed(seed), 0, static_cast<uint32_t>(tokens.size())};
    std::vector<uint32_t> context = tokens, candidates;
    for (int i = 0; i < setup_.block; ++i) {
      const SparseDistribution& q = tables_.After(context).q;
      const double u = random::Uniform(key, key.committed + i, Purpose::kDraft);
      const uint32_t token = setup_.one_hot ? q.ids[0] : sampling::Draw(q, u);
      if (setup_.wrong == Wrong::kDropsUnlikelyToken && q(token) < 0.3) break;
      candidates.push_back(token);
      context.push_back(token);
    }
    return candidates;
  }

  void Round(uint64_t seed, std::vector<uint32_t>& tokens, Outcome& outcome) {
    const RoundKey key{seed, 0, static_cast<uint32_t>(tokens.size())};
    const std::vector<uint32_t> candidates = Draft(seed, tokens);
    std::vector<Distribution> p;
    std::vector<const SparseDistribution*> q;
    std::vector<uint32_t> context = tokens;
    for (size_t i = 0; i <= candidates.size(); ++i) {
      const Tables::Row& row = tables_.After(context);
      p.push_back(row.p);
      if (i == candidates.size()) break;
      q.push_back(setup_.one_hot ? nullptr : &row.sent_q);
      context.push_back(candidates[i]);
    }
    std::vector<Entry> entries = Judge({setup_.rule, key, p, candidates, q});
    std::vector<double> uniforms = AcceptUniforms(key, static_cast<int>(candidates.size()));
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (!entries[i].next_token.has_value()) continue;
      if (setup_.wrong == Wrong::kResidualOnlyDropsToken) {
        const double u = random::Uniform(key, key.committed + i, Purpose::kRecovered);
        entries[i].next_token = DrawResidual(p[i], candidates[i], nullptr, u);
      } else if (setup_.wrong == Wrong::kOneUniform) {
        entries[i].next_token = DrawResidual(p[i], candidates[i], q[i], uniforms[i]);
      }
    }
    ASSERT_TRUE(ValidateEntries(setup_.rule, entries, static_cast<int>(candidates.size()),
                                setup_.vocabulary)
                    .ok());
    const Decision decision = Decide(setup_.rule, entries, uniforms);
    ++(decision.rejected ? outcome.broken_blocks : outcome.whole_blocks);
    tokens.insert(tokens.end(), candidates.begin(), candidates.begin() + decision.accepted);
    tokens.push_back(decision.next_token);
  }

  const Setup setup_;
  Tables tables_;
};

void ExpectExact(const Setup& setup) {
  Outcome outcome = Generator(setup).Run(kRequests);
  EXPECT_TRUE(outcome.joint.Passes()) << outcome.joint.ToString();
  EXPECT_TRUE(outcome.transitions.Passes()) << outcome.transitions.ToString();
  EXPECT_GT(outcome.whole_blocks, 500);
  EXPECT_GT(outcome.broken_blocks, setup.block > 0 ? 500 : -1);
}

TEST(JointDistributionTest, SpeculativeIsExact) {
  ExpectExact({});
  ExpectExact({.vocabulary = 4, .top_m = 2, .block = 4});
  ExpectExact({.vocabulary = 8, .top_m = 4, .block = 2, .noise = 0.5});
}

TEST(JointDistributionTest, BlockIsExact) {
  ExpectExact({.rule = Rule::kBlock});
  ExpectExact({.rule = Rule::kBlock, .vocabulary = 4, .top_m = 2, .block = 4});
  ExpectExact({.rule = Rule::kBlock, .vocabulary = 6, .top_m = 1, .block = 3, .one_hot = true});
}

TEST(JointDistributionTest, CoupledIsExact) {
  ExpectExact({.rule = Rule::kCoupled});
  ExpectExact({.rule = Rule::kCoupled, .vocabulary = 4, .top_m = 2, .block = 4});
}

TEST(JointDistributionTest, OneHotDraftIsExact) {
  ExpectExact({.vocabulary = 6, .top_m = 1, .block = 3, .one_hot = true});
}

TEST(JointDistributionTest, PlainDecodingIsExact) { ExpectExact({.block = 0}); }

class ControlTest : public ::testing::TestWithParam<std::pair<Wrong, std::string>> {};

TEST_P(ControlTest, IsCaught) {
  Outcome outcome = Generator({.wrong = GetParam().first}).Run(kRequests);
  EXPECT_TRUE(outcome.joint.ControlIsCaught()) << outcome.joint.ToString();
  EXPECT_TRUE(outcome.transitions.ControlIsCaught()) << outcome.transitions.ToString();
}

INSTANTIATE_TEST_SUITE_P(
    Wrongs, ControlTest,
    ::testing::Values(std::pair(Wrong::kQBeforeTruncation, "QBeforeTruncation"),
                      std::pair(Wrong::kResidualOnlyDropsToken, "ResidualOnlyDropsToken"),
                      std::pair(Wrong::kOneUniform, "OneUniform"),
                      std::pair(Wrong::kDropsUnlikelyToken, "DropsUnlikelyToken")),
    [](const auto& info) { return info.param.second; });

}  // namespace
}  // namespace tandem::acceptance
