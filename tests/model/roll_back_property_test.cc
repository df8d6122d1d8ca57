// Whatever is computed, kept and rolled back, in whatever company: every row has the bits of its
// text recomputed from nothing.
//
// A failure prints the smallest program that shows it, and a line to run it again with:
//   RC_PARAMS="reproduce=…" model_roll_back_property_test
// RC_PARAMS="seed=7 max_success=10000" runs other programs, or more of them.
#include <algorithm>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "tests/model/support.h"
#include "tests/model/trees.h"
#include "tests/support/table_model.h"

namespace tandem::model::testing {
namespace {

constexpr int kSequences = 3;

enum Kind { kPrefill, kChain, kTree, kTruncate };

// One thing that happens to one sequence. Numbers are taken modulo what is there.
struct Act {
  int sequence = 0;
  Kind kind = kPrefill;
  std::vector<uint32_t> tokens;   // at least one; of a tree at most 8 count
  std::vector<uint32_t> parents;  // 8
  uint32_t verdict = 0;  // rows that stand; the row whose path stays; what is rolled back to
  uint32_t first_logits_row = 0;
  bool alone = false;  // no later part joins its pass
};

void showValue(const Act& act, std::ostream& out) {
  const char* names[] = {"prefill", "chain", "tree", "truncate"};
  out << "sequence " << act.sequence << " " << names[act.kind] << " tokens "
      << rc::toString(act.tokens) << " parents " << rc::toString(act.parents) << " verdict "
      << act.verdict << " first logits row " << act.first_logits_row
      << (act.alone ? " alone\n" : "\n");
}

rc::Gen<std::vector<Act>> Programs() {
  const auto number = rc::gen::inRange<uint32_t>(0, 1000);
  const auto act = rc::gen::build<Act>(
      rc::gen::set(&Act::sequence, rc::gen::inRange(0, kSequences)),
      rc::gen::set(&Act::kind, rc::gen::weightedElement<Kind>(
                                   {{2, kPrefill}, {3, kChain}, {4, kTree}, {1, kTruncate}})),
      rc::gen::set(&Act::tokens, rc::gen::nonEmpty(rc::gen::resize(
                                     14, rc::gen::container<std::vector<uint32_t>>(number)))),
      rc::gen::set(&Act::parents, rc::gen::container<std::vector<uint32_t>>(8, number)),
      rc::gen::set(&Act::verdict, number), rc::gen::set(&Act::first_logits_row, number),
      rc::gen::set(&Act::alone, rc::gen::weightedElement<bool>({{3, false}, {1, true}})));
  return rc::gen::resize(30, rc::gen::container<std::vector<Act>>(act));
}

// Mistakes that the property has to find.
enum class Mistake { kNone, kKeepForgetsToMove, kSiblingsAreSeen, kTruncateIsOneOff };

// A pass of several sequences at once, then what their verdicts ask for; and what each sequence has
// committed.
class Player {
 public:
  // Each sequence begins with as many tokens.
  Player(LanguageModel& model, Mistake mistake, int begin, int max_length)
      : model_(model), mistake_(mistake), vocabulary_(model.info().vocabulary_size) {
    for (int i = 0; i < kSequences; ++i) {
      caches_.push_back(*model.NewCache(max_length));
      committed_.emplace_back();
      for (int t = 0; t < begin; ++t) committed_[i].push_back((t * 7 + i) % vocabulary_);
      if (begin > 0) Run({{caches_[i].get(), committed_[i], begin}});
    }
  }

  // False: a row had other bits than its text.
  bool Play(const std::vector<Act>& program) {
    for (const Act& act : program) {
      const bool joins = std::none_of(batch_.begin(), batch_.end(),
                                      [&](const Part& p) { return p.sequence == act.sequence; });
      if (!joins || act.kind == kTruncate) {
        if (!Flush()) return false;
      }
      if (act.kind == kTruncate) {
        Truncate(act);
        continue;
      }
      Add(act);
      if (act.alone && !Flush()) return false;
    }
    return Flush();
  }

  int compared() const { return compared_; }

 private:
  struct Part {
    int sequence;
    Kind kind;
    std::vector<uint32_t> tokens;
    std::vector<int> parents;  // of a tree
    uint32_t verdict;
    int first_logits_row;
  };

  Logits Run(const std::vector<ForwardPart>& parts) {
    auto logits = model_.Forward(parts);
    TANDEM_CHECK(logits.ok()) << logits.status();
    return *logits;
  }

  void Truncate(const Act& act) {
    Cache& cache = *caches_[act.sequence];
    const int to = static_cast<int>(act.verdict) % (cache.length() + 1);
    cache.Truncate(to);
    committed_[act.sequence].resize(to);
  }

  void Add(const Act& act) {
    Cache& cache = *caches_[act.sequence];
    Part part{act.sequence, act.kind, act.tokens, {}, act.verdict, 0};
    const int max = act.kind == kTree ? 8 : static_cast<int>(part.tokens.size());
    const int rows =
        std::min({max, static_cast<int>(part.tokens.size()), cache.max_length() - cache.length()});
    if (rows == 0) return;
    part.tokens.resize(rows);
    for (uint32_t& token : part.tokens) token %= vocabulary_;
    part.first_logits_row = static_cast<int>(act.first_logits_row) % (rows + 1);
    for (int i = 0; act.kind == kTree && i < rows; ++i) {
      part.parents.push_back(static_cast<int>(act.parents[i]) % (i + 1) - 1);
    }
    batch_.push_back(std::move(part));
  }

  bool Flush() {
    if (batch_.empty()) return true;
    std::vector<ForwardPart> parts;
    for (const Part& part : batch_) {
      parts.push_back(
          {caches_[part.sequence].get(), part.tokens, part.first_logits_row, part.parents});
      if (mistake_ == Mistake::kSiblingsAreSeen) parts.back().parents = {};
    }
    const Logits logits = Run(parts);
    std::vector<std::vector<float>> rows;  // copied: valid until the next pass only
    for (int i = 0; i < logits.rows; ++i) {
      rows.emplace_back(logits.row(i).begin(), logits.row(i).end());
    }
    size_t next = 0;
    for (const Part& part : batch_) {
      if (!RowsAreThoseOfTheirTexts(part, rows, next)) return false;
      Decide(part);
    }
    batch_.clear();
    return true;
  }

  bool RowsAreThoseOfTheirTexts(const Part& part, const std::vector<std::vector<float>>& rows,
                                size_t& next) {
    const std::vector<uint32_t>& held = committed_[part.sequence];
    std::vector<std::vector<float>> wanted;
    if (part.parents.empty()) {
      std::vector<uint32_t> text = held;
      text.insert(text.end(), part.tokens.begin(), part.tokens.end());
      wanted = AllLogits(model_, text, model_.max_rows());
      wanted.erase(wanted.begin(), wanted.begin() + static_cast<int>(held.size()));
    }
    for (size_t i = part.first_logits_row; i < part.tokens.size(); ++i, ++next, ++compared_) {
      const auto want =
          part.parents.empty()
              ? wanted[i]
              : AllLogits(model_, PathTokens(held, part.tokens, part.parents, i), model_.max_rows())
                    .back();
      if (!SameBits(rows[next], want)) return false;
    }
    return true;
  }

  void Decide(const Part& part) {
    Cache& cache = *caches_[part.sequence];
    std::vector<uint32_t>& committed = committed_[part.sequence];
    const int base = static_cast<int>(committed.size());
    const int rows = static_cast<int>(part.tokens.size());
    const int stand = static_cast<int>(part.verdict) % (rows + 1);
    if (part.kind == kTree) {
      const std::vector<int> path = PathTo(part.parents, stand - 1);
      Keep(cache, part, base, path);
      for (int row : path) committed.push_back(part.tokens[row]);
      return;
    }
    const int left = part.kind == kPrefill ? rows : stand;
    committed.insert(committed.end(), part.tokens.begin(), part.tokens.begin() + left);
    const bool off = mistake_ == Mistake::kTruncateIsOneOff && left > 0 && left < rows;
    if (off) {  // as if one row too few had gone, and the next token took the place after it
      cache.Truncate(base + left - 1);
      Run({{&cache, absl::MakeSpan(part.tokens).subspan(left, 1), 1}});
    } else {
      cache.Truncate(base + left);
    }
  }

  void Keep(Cache& cache, const Part& part, int base, const std::vector<int>& path) {
    if (mistake_ == Mistake::kNone || mistake_ == Mistake::kTruncateIsOneOff) {
      cache.Keep(path);
      return;
    }
    // What such a cache would hold is fed to this one.
    std::vector<uint32_t> held;
    for (size_t i = 0; i < path.size(); ++i) {
      held.push_back(part.tokens[mistake_ == Mistake::kKeepForgetsToMove ? i : path[i]]);
    }
    cache.Truncate(base);
    if (!held.empty()) Run({{&cache, held, static_cast<int>(held.size())}});
  }

  LanguageModel& model_;
  const Mistake mistake_;
  const uint32_t vocabulary_;
  std::vector<std::unique_ptr<Cache>> caches_;
  std::vector<std::vector<uint32_t>> committed_;
  std::vector<Part> batch_;
  int compared_ = 0;
};

std::unique_ptr<Decoder> Golden(const char* variant) {
  DecoderOptions options;
  options.pool_tokens = 512 * (kSequences + 1);
  options.max_rows = 512;
  return MakeDecoder(GoldenDirectory(variant), options);
}

// The property itself. `border`: some programs begin just before the border of two pages.
// `compared`: counts rows.
auto Property(LanguageModel& model, Mistake mistake, bool border, int& compared) {
  return [&model, &compared, mistake, border] {
    const int begin =
        border ? *rc::gen::weightedElement<int>({{12, 0}, {1, 250}}).as("tokens to begin with") : 0;
    Player player(model, mistake, begin, begin + 48);
    RC_ASSERT(player.Play(*Programs().as("program")));
    compared += player.compared();
  };
}

void ExpectHolds(const std::string& what, LanguageModel& model, bool border) {
  int compared = 0;
  EXPECT_TRUE(rc::check(what, Property(model, Mistake::kNone, border, compared)));
  EXPECT_GT(compared, 1000) << "programs that compare nothing show nothing";
}

class RollBack : public ::testing::TestWithParam<const char*> {};

TEST_P(RollBack, EveryRowHasTheBitsOfItsTextFromNothing) {
  auto model = Golden(GetParam());
  ExpectHolds(GetParam(), *model, model->info().context_length >= 512);
}

INSTANTIATE_TEST_SUITE_P(Variants, RollBack, ::testing::Values("gqa_odd", "llama3", "bf16"));

TEST(RollBackOfTheTableModel, EveryRowIsThatOfItsTextFromNothing) {
  tandem::testing::TableModel model({.vocabulary_size = 16, .context_length = 512});
  ExpectHolds("table model", model, true);
}

// The property finds what it is for. The failures are not shrunk: nobody reads them, and it takes
// most of the time.
TEST(NegativeControl, EachMistakeIsFound) {
  auto model = Golden("gqa_odd");
  tandem::testing::TableModel table({.vocabulary_size = 16, .context_length = 512});
  rc::detail::TestParams params = rc::detail::configuration().testParams;
  params.disableShrinking = true;
  for (LanguageModel* any :
       {static_cast<LanguageModel*>(model.get()), static_cast<LanguageModel*>(&table)}) {
    for (Mistake mistake :
         {Mistake::kKeepForgetsToMove, Mistake::kSiblingsAreSeen, Mistake::kTruncateIsOneOff}) {
      int compared = 0;
      const rc::detail::TestResult result = rc::detail::checkTestable(
          Property(*any, mistake, false, compared), rc::detail::TestMetadata{}, params);
      EXPECT_TRUE(result.is<rc::detail::FailureResult>())
          << "mistake " << static_cast<int>(mistake)
          << (any == &table ? " in the table model" : "");
    }
  }
}

}  // namespace
}  // namespace tandem::model::testing
