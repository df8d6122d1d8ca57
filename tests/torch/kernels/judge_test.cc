// The judge's kernels on the host against the CPU engine's judge: the same bits, over random parts
// of random passes with all options.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/acceptance/rule.h"
#include "common/acceptance/tree.h"
#include "common/sampling/distribution.h"
#include "target_service/engine/judging.h"
#include "tests/torch/kernels/judge_on_host.h"
#include "tests/torch/kernels/random_rounds.h"

namespace tandem::kernels::judge_test {
namespace {

using acceptance::Rule;
using speculation::CandidateTree;
using speculation::SequenceSettings;

// What is judged in one part, and where its rows lie.
struct Part {
  SequenceSettings settings;
  CandidateTree block;
  std::vector<uint32_t> prompt_targets;  // not empty: prompt rows instead of a block
  sampling::TokenHistory history;
  uint32_t before = 0;
  uint32_t first_row = 0;
  uint32_t rows() const {
    return prompt_targets.empty() ? static_cast<uint32_t>(block.size()) + 1
                                  : static_cast<uint32_t>(prompt_targets.size());
  }
};

struct Pass {
  uint32_t vocabulary = 0;
  uint32_t stride = 0;
  std::vector<float> logits;
  std::vector<Part> parts;
  uint32_t rows = 0;
};

float RandomLogit(Source& random, int kind) {
  const double normal = std::sqrt(-2 * std::log(1 - random.Uniform())) *
                        std::cos(6.283185307179586 * random.Uniform());
  switch (kind) {
    case 0:
      return static_cast<float>(3 * normal);
    case 1:  // ties
      return static_cast<float>(std::round(2 * normal) / 2);
    case 2:
      return random.OneIn(3) ? -std::numeric_limits<float>::infinity()
                             : static_cast<float>(8 * normal);
    case 3:
      return static_cast<float>(normal * (random.OneIn(4) ? 1e30 : 300));
    case 4:
      return random.OneIn(2) ? 0.0f : -0.0f;
    default:
      return static_cast<float>(0.01 * normal);
  }
}

Part RandomPart(Source& random, const Pass& pass) {
  Part part;
  part.settings = RandomSettings(random, pass.vocabulary);
  const SequenceSettings& s = part.settings;
  part.before = 1 + random.Below(30);
  part.history = sampling::TokenHistory(s.prompt_tokens);
  for (uint32_t i = 0; i < part.before; ++i) part.history.Append(random.Below(pass.vocabulary));
  part.first_row = pass.rows;
  if (s.logprobs.has_value() && random.OneIn(4)) {
    part.prompt_targets = random.Tokens(1 + random.Below(4), pass.vocabulary);
    return part;
  }
  // Few tokens, so that draft tokens come twice, and often ones that are likely.
  part.block.tokens = random.Tokens(random.Below(7), pass.vocabulary + (random.OneIn(8) ? 2 : 0));
  for (uint32_t i = 0; i < part.block.size(); ++i) {
    const auto row = absl::MakeConstSpan(pass.logits)
                         .subspan(size_t{pass.rows + i} * pass.stride, pass.vocabulary);
    if (!random.OneIn(3)) part.block.tokens[i] = sampling::ArgMax(row, pass.vocabulary);
    if (random.OneIn(20)) part.block.tokens[i] = 0xffff'ffff;
  }
  if (acceptance::HasTrees(s.rule) && !part.block.empty() && random.OneIn(2)) {
    part.block.parents = RandomParents(random, part.block.tokens);
  }
  if (random.OneIn(2)) {
    for (uint32_t token : part.block.tokens) {
      part.block.q.push_back(RandomQ(random, token, pass.vocabulary));
    }
  }
  return part;
}

Pass RandomPass(Source& random, uint32_t max_vocabulary) {
  Pass pass;
  pass.vocabulary = 1 + random.Below(random.OneIn(5) ? 8 : max_vocabulary);
  pass.stride = pass.vocabulary + random.Below(3);
  const uint32_t parts = 1 + random.Below(4);
  pass.logits.resize(size_t{parts} * 8 * pass.stride);
  for (size_t row = 0; row * pass.stride < pass.logits.size(); ++row) {
    const int kind = static_cast<int>(random.Below(6));
    for (uint32_t i = 0; i < pass.stride; ++i) {
      pass.logits[row * pass.stride + i] = RandomLogit(random, kind);
    }
    if (random.OneIn(80)) {
      pass.logits[row * pass.stride + random.Below(pass.stride)] = random.Of(
          {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()});
    }
  }
  for (uint32_t i = 0; i < parts; ++i) {
    pass.parts.push_back(RandomPart(random, pass));
    pass.rows += pass.parts.back().rows();
  }
  return pass;
}

// What the CPU engine makes of a part (cpu_engine.cc).
JudgedPart Expected(const Pass& pass, Part part) {
  const bool looks_back = part.settings.sampling.looks_back();
  sampling::TokenHistory* history = looks_back ? &part.history : nullptr;
  const model::Logits logits = {pass.logits.data(), static_cast<int>(pass.rows),
                                static_cast<int>(pass.stride)};
  const auto broken = [&](const absl::Status& status) {
    JudgedPart judged;
    for (uint32_t i = 0; i < part.rows(); ++i) {
      const uint32_t after = part.before + i;
      if (absl::StrContains(status.message(), absl::StrCat("after ", after, " tokens"))) {
        judged.broken_after = after;
      }
    }
    return judged;
  };
  JudgedPart judged;
  if (part.prompt_targets.empty()) {
    auto judgement = target_service::JudgeRows(acceptance::Judge, part.settings, part.block,
                                               part.before, history, logits,
                                               static_cast<int>(part.first_row), pass.vocabulary);
    if (!judgement.ok()) return broken(judgement.status());
    judged.entries = judgement->entries;
    judged.logprobs = judgement->logprobs;
    return judged;
  }
  for (uint32_t i = 0; i < part.prompt_targets.size(); ++i) {
    auto row = target_service::JudgePromptRow(
        part.settings, history, logits.row(static_cast<int>(part.first_row + i)), part.before + i,
        part.prompt_targets[i], pass.vocabulary);
    if (!row.ok()) return broken(row.status());
    judged.logprobs.push_back(*row);
    part.history.Append(part.prompt_targets[i]);
  }
  return judged;
}

// Empty: they are equal, bit for bit.
std::string Difference(const JudgedPart& judged, const JudgedPart& expected) {
  if (judged.broken_after != expected.broken_after) {
    return absl::StrCat("broken after ", judged.broken_after.value_or(0), ", expected ",
                        expected.broken_after.value_or(0));
  }
  if (judged.entries.size() != expected.entries.size()) return "number of entries";
  for (size_t i = 0; i < judged.entries.size(); ++i) {
    const acceptance::Entry& a = judged.entries[i];
    const acceptance::Entry& b = expected.entries[i];
    if (!SameBits(a.accept_probability, b.accept_probability)) {
      return absl::StrCat("entry ", i, ": accept probability ", a.accept_probability, ", expected ",
                          b.accept_probability);
    }
    if (a.next_token != b.next_token) {
      return absl::StrCat("entry ", i, ": next token ", a.next_token.value_or(kNoToken),
                          ", expected ", b.next_token.value_or(kNoToken));
    }
  }
  if (judged.logprobs.size() != expected.logprobs.size()) return "number of log probabilities";
  for (size_t i = 0; i < judged.logprobs.size(); ++i) {
    const sampling::NodeLogprobs& a = judged.logprobs[i];
    const sampling::NodeLogprobs& b = expected.logprobs[i];
    if (!SameLogprob(a.candidate, b.candidate)) return absl::StrCat("candidate's logprob ", i);
    if (!SameLogprob(a.next_token, b.next_token)) return absl::StrCat("next token's logprob ", i);
    if (a.top.size() != b.top.size()) {
      return absl::StrCat(a.top.size(), " top logprobs ", i, ", expected ", b.top.size());
    }
    for (size_t j = 0; j < a.top.size(); ++j) {
      if (a.top[j].token != b.top[j].token || !SameBits(a.top[j].logprob, b.top[j].logprob)) {
        return absl::StrCat("top logprob ", j, " of row ", i);
      }
    }
  }
  return "";
}

std::string Describe(const Part& part) {
  const sampling::SamplingParameters& p = part.settings.sampling;
  return absl::StrCat(acceptance::Name(part.settings.rule), " temperature ", p.temperature,
                      " top_k ", p.top_k, " top_p ", p.top_p, " min_p ", p.min_p, " candidates ",
                      part.block.size(), part.block.parents.empty() ? "" : " in a tree",
                      " prompt rows ", part.prompt_targets.size(), " looks back ", p.looks_back(),
                      " bias ", p.bias.size(), " banned ", p.banned.size(), " allowed ",
                      p.allowed.size());
}

// The first difference of a pass, empty if there is none.
template <typename Traits>
std::string JudgePass(const Pass& pass, uint32_t rows_a_launch, ThreadOrder order) {
  JudgeTables tables;
  for (const Part& part : pass.parts) {
    const sampling::TokenHistory* history =
        part.settings.sampling.looks_back() ? &part.history : nullptr;
    if (part.prompt_targets.empty()) {
      tables.AddBlock(part.settings, part.block, part.before, history, part.first_row);
    } else {
      tables.AddPromptRows(part.settings, part.prompt_targets, part.before, history,
                           part.first_row);
    }
  }
  const std::vector<JudgedPart> judged =
      JudgeOnHost<Traits>(tables, pass.logits, pass.stride, pass.vocabulary, rows_a_launch, order);
  for (size_t i = 0; i < judged.size(); ++i) {
    const std::string difference = Difference(judged[i], Expected(pass, pass.parts[i]));
    if (!difference.empty()) {
      return absl::StrCat(Describe(pass.parts[i]), ", vocabulary ", pass.vocabulary, ": ",
                          difference);
    }
  }
  return "";
}

constexpr ThreadOrder kOrders[] = {ThreadOrder::kAscending, ThreadOrder::kDescending,
                                   ThreadOrder::kOddFirst};

// So many rows; gives the first difference.
template <typename Traits>
std::string JudgeRandomRows(uint64_t seed, uint32_t rows, uint32_t max_vocabulary) {
  Source random(seed);
  for (uint32_t done = 0, passes = 0; done < rows; ++passes) {
    const Pass pass = RandomPass(random, max_vocabulary);
    const uint32_t rows_a_launch = 1 + random.Below(pass.rows);
    const std::string difference = JudgePass<Traits>(pass, rows_a_launch, kOrders[passes % 3]);
    if (!difference.empty()) return difference;
    done += pass.rows;
  }
  return "";
}

TEST(JudgeKernels, HaveTheBitsOfTheCpusJudge) {
  EXPECT_EQ(JudgeRandomRows<SmallTraits>(1, 10'000, 150), "");
}

TEST(JudgeKernels, HaveThemInBlocksOfTheSizeOfACards) {
  EXPECT_EQ(JudgeRandomRows<JudgeTraits>(2, 40, 2 * JudgeTraits::kColumn), "");
}

// 64 sequences with four draft tokens each, at once, and as many rows at a time as the
// workspace of a card has room for at 152k tokens.
TEST(JudgeKernels, HaveThemWhere320RowsAreJudgedAtOnce) {
  constexpr uint32_t kSequences = 64, kRows = 5;
  Source random(4);
  Pass pass;
  pass.vocabulary = pass.stride = 5 * SmallTraits::kColumn + 1;
  for (uint32_t i = 0; i < (kSequences * kRows + 2) * pass.stride; ++i) {
    pass.logits.push_back(RandomLogit(random, static_cast<int>(i / pass.stride % 6)));
  }
  while (pass.rows < kSequences * kRows) {
    Part part = RandomPart(random, pass);
    if (part.rows() != kRows) continue;
    pass.rows += kRows;
    pass.parts.push_back(std::move(part));
  }
  EXPECT_EQ(JudgePass<SmallTraits>(pass, pass.rows, ThreadOrder::kAscending), "");
  EXPECT_EQ(JudgePass<SmallTraits>(pass, 110, ThreadOrder::kDescending), "");
}

TEST(JudgeKernels, RaceInTheOrderOfTheHostWhereTimesAreNearEqual) {
  SmallTraits::kNearTie = 3;
  EXPECT_EQ(JudgeRandomRows<SmallTraits>(3, 600, 200), "");
  SmallTraits::kNearTie = 1e-12;
}

// Times are set by hand: in a random race none are so near. Only one token can win it as the host
// runs it.
TEST(JudgeKernels, PartsWithTimesNearEqualAreRacedInTheOrderOfTheHost) {
  constexpr uint32_t kTokens = 2 * SmallTraits::kColumn, kOnly = 100;
  const JudgeSequence sequence;
  const JudgeRow judged;
  RowState state;
  state.tokens = kTokens;
  std::vector<double> weights(kTokens, 0.0);
  weights[kOnly] = 1;
  RowPart parts[2];
  const Row row = {&sequence, &judged, nullptr, nullptr, weights.data(),
                   nullptr,   &state,  parts,   kTokens, 0};
  const auto shared = std::make_unique<JudgeShared<SmallTraits>>();
  const Block block(0, 0, SmallTraits::kThreads, ThreadOrder::kAscending);
  const auto winner = [&](double first, double second, uint32_t near) {
    parts[0].time = first, parts[0].place = 5, parts[0].near = 1;
    parts[1].time = second, parts[1].place = 70, parts[1].near = near;
    return WinnerOfRace(block, *shared, row);
  };
  EXPECT_EQ(winner(1, 2, 7), 5u);
  EXPECT_EQ(winner(2, 1, 1), 70u);
  EXPECT_EQ(winner(2, 1, 2), kOnly);
  EXPECT_EQ(winner(1, 1 + 1e-13, 1), kOnly);
  SmallTraits::kFault = JudgeFault::kPartsNearUnseen;
  EXPECT_EQ(winner(1, 1 + 1e-13, 1), 5u);
  SmallTraits::kFault = JudgeFault::kNone;
}

TEST(JudgeKernels, PlantedFaultsAreFound) {
  for (JudgeFault fault :
       {JudgeFault::kTiesToHigherId, JudgeFault::kScanInPlace, JudgeFault::kCandidatesUnseen,
        JudgeFault::kSumsByThread, JudgeFault::kResidualIgnoresQ, JudgeFault::kTopPIgnoresTies,
        JudgeFault::kNoiseOfOtherToken, JudgeFault::kLastPartUnseen, JudgeFault::kWaysInTurn}) {
    SmallTraits::kFault = fault;
    EXPECT_NE(JudgeRandomRows<SmallTraits>(1, 2000, 150), "") << static_cast<int>(fault);
  }
  SmallTraits::kFault = JudgeFault::kNone;
}

}  // namespace
}  // namespace tandem::kernels::judge_test
