// Two ways to draft with the target alone, beside the drafters of ngram_tables: tokens a call, and the speed.
//
//   Jacobi decoding (Santilli et al. 2023, arXiv 2305.10427): w guesses follow the text. What the target says
//     behind each of them are the guesses of the next pass.
//   Lookahead decoding (Fu et al. 2024, arXiv 2402.02057): a window of W columns and N - 1 levels is such a
//     Jacobi iteration of several passes. Each column gives an n-gram of N tokens a pass, which a pool keeps. Up to
//     G of those that begin with the text's last token are verified in the same pass.
//
// New places of a window, and new guesses, begin with random tokens of the text. Both write the target's greedy
// text: the bench checks it. The speed is counted as in ngram_tables, from measured passes of as many rows.
//
// Usage: lookahead_tables TARGET SET=FILE... (FILE: prompts with a NUL byte after each). ngram_tables.py
// --lookahead makes the files.
#include <algorithm>
#include <array>
#include <cstdio>
#include <deque>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bench/draft/greedy_texts.h"
#include "common/base/check.h"
#include "model/language_model.h"

namespace tandem::bench {
namespace {

constexpr uint32_t kMinTokens = 2, kMaxTokens = 14;
constexpr size_t kMaxRows = 256;  // of a pass

struct Cell {
  size_t tokens = 0, passes = 0, rows = 0;
  double microseconds = 0, plain_microseconds = 0;
};

// The tokens of a pass. Node 0 is the last token of the text, which the target has not read yet.
struct Nodes {
  explicit Nodes(uint32_t last) : tokens{last}, parents{-1} {}

  int Add(uint32_t token, int parent) {
    tokens.push_back(token);
    parents.push_back(parent);
    return static_cast<int>(tokens.size()) - 1;
  }
  // That child, from node `first` on; -1: none.
  int Child(int parent, uint32_t token, int first) const {
    for (size_t i = static_cast<size_t>(first); i < tokens.size(); ++i) {
      if (parents[i] == parent && tokens[i] == token) return static_cast<int>(i);
    }
    return -1;
  }

  Tokens tokens;
  std::vector<int> parents;
  int first_guess = 1;  // from this node on they are guesses of what the text says next
};

// What a way to draft adds to a pass, and what it learns from it.
class Iteration {
 public:
  virtual ~Iteration() = default;
  virtual void Guess(const Tokens& text, Nodes& nodes) = 0;
  // said[i]: the target's token behind node i. `accepted`: of the nodes behind node 0.
  virtual void Learn(const Nodes& nodes, const Tokens& said, size_t accepted) = 0;
};

uint32_t RandomOf(const Tokens& text, std::mt19937& random) { return text[random() % text.size()]; }

class Jacobi final : public Iteration {
 public:
  explicit Jacobi(uint32_t tokens) : guesses_(tokens), known_(0) {}

  void Guess(const Tokens& text, Nodes& nodes) override {
    for (; known_ < guesses_.size(); ++known_) guesses_[known_] = RandomOf(text, random_);
    int parent = 0;
    for (const uint32_t guess : guesses_) parent = nodes.Add(guess, parent);
  }
  void Learn(const Nodes&, const Tokens& said, size_t accepted) override {
    std::copy(said.begin() + static_cast<int64_t>(accepted) + 1, said.end(), guesses_.begin());
    known_ = said.size() - accepted - 1;
  }

 private:
  Tokens guesses_;
  size_t known_;
  std::mt19937 random_{1};
};

struct LookaheadShape {
  uint32_t window, ngram, max_guesses;  // W, N, G
};

class Lookahead final : public Iteration {
 public:
  explicit Lookahead(LookaheadShape shape) : shape_(shape) {}

  void Guess(const Tokens& text, Nodes& nodes) override {
    if (levels_.empty()) {
      levels_.assign(shape_.ngram - 1, Tokens(shape_.window));
      for (Tokens& level : levels_) {
        for (uint32_t& token : level) token = RandomOf(text, random_);
      }
    }
    // A place sees the first level up to its column, and the levels above it in its column.
    std::vector<int> above;
    for (size_t i = 0; i < levels_[0].size(); ++i)
      above.push_back(nodes.Add(levels_[0][i], i == 0 ? 0 : above.back()));
    for (size_t level = 1; level < levels_.size(); ++level) {
      for (size_t i = 0; i < above.size(); ++i) above[i] = nodes.Add(levels_[level][i], above[i]);
    }
    last_level_ = above;
    nodes.first_guess = static_cast<int>(nodes.tokens.size());
    for (const Tokens& ngram : pool_[text.back()]) {
      int parent = 0;
      for (const uint32_t token : ngram) {
        const int known = nodes.Child(parent, token, nodes.first_guess);
        parent = known >= 0 ? known : nodes.Add(token, parent);
      }
    }
  }

  void Learn(const Nodes&, const Tokens& said, size_t) override {
    Tokens next;
    for (size_t i = 0; i < last_level_.size(); ++i) {
      next.push_back(said[static_cast<size_t>(last_level_[i])]);
      Tokens ngram;
      for (size_t level = 1; level < levels_.size(); ++level) ngram.push_back(levels_[level][i]);
      ngram.push_back(next.back());
      Keep(levels_[0][i], std::move(ngram));
    }
    levels_.pop_front();
    levels_.push_back(std::move(next));
  }

 private:
  // The latest G of each first token.
  void Keep(uint32_t first, Tokens ngram) {
    std::deque<Tokens>& kept = pool_[first];
    const auto known = std::find(kept.begin(), kept.end(), ngram);
    if (known != kept.end()) kept.erase(known);
    kept.push_front(std::move(ngram));
    if (kept.size() > shape_.max_guesses) kept.pop_back();
  }

  LookaheadShape shape_;
  std::deque<Tokens> levels_;
  std::vector<int> last_level_;                            // its nodes in this pass
  std::unordered_map<uint32_t, std::deque<Tokens>> pool_;  // first token → those that follow
  std::mt19937 random_{1};
};

void Follow(model::LanguageModel& target, Iteration& iteration, const Text& wanted,
            const PassCost& cost, Cell& cell) {
  Tokens text(wanted.tokens.begin(), wanted.tokens.begin() + static_cast<int64_t>(wanted.prompt));
  auto cache = *target.NewCache(static_cast<int>(kMaxPrompt + kOutput + kMaxRows));
  if (text.size() > 1) {
    const auto read = absl::MakeConstSpan(text).first(text.size() - 1);
    TANDEM_CHECK(target.Forward({{cache.get(), read, static_cast<int>(read.size())}}).ok());
  }
  while (text.size() < wanted.tokens.size()) {
    Nodes nodes(text.back());
    iteration.Guess(text, nodes);
    TANDEM_CHECK(nodes.tokens.size() <= kMaxRows);
    const auto logits = target.Forward({{cache.get(), nodes.tokens, 0, nodes.parents}});
    TANDEM_CHECK_OK(logits.status());
    Tokens said;
    for (int row = 0; row < logits->rows; ++row) said.push_back(MostLikely(logits->row(row)));
    std::vector<int> path = {0};
    for (int node = 0;
         (node = nodes.Child(node, said[static_cast<size_t>(node)], nodes.first_guess)) >= 0;) {
      path.push_back(node);
    }
    cache->Keep(path);
    for (const int node : path) text.push_back(said[static_cast<size_t>(node)]);
    iteration.Learn(nodes, said, path.size() - 1);
    ++cell.passes;
    cell.rows += nodes.tokens.size();
    cell.microseconds += cost(nodes.tokens.size());
  }
  text.resize(wanted.tokens.size());
  TANDEM_CHECK(text == wanted.tokens) << "not the target's greedy text";
  cell.tokens += kOutput;
  cell.plain_microseconds += static_cast<double>(kOutput) * cost(1);
}

void PrintRow(const std::string& name, const Cell& cell) {
  const double passes = static_cast<double>(cell.passes);
  std::printf("| %s | %.2f | %.1f | %.2f |\n", name.c_str(),
              static_cast<double>(cell.tokens) / passes, static_cast<double>(cell.rows) / passes,
              cell.plain_microseconds / cell.microseconds);
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: lookahead_tables TARGET SET=FILE...\n");
    return 2;
  }
  const GreedyWriter writer(argv[1]);
  const PassCost cost(writer.target());
  std::vector<PromptSet> sets;
  for (int i = 2; i < argc; ++i) sets.push_back(writer.ReadSet(argv[i]));
  std::printf(
      "\n| | tokens a call | rows a call | speed to plain decoding's |\n|---|---|---|---|\n");
  for (const PromptSet& set : sets) {
    for (uint32_t w = kMinTokens; w <= kMaxTokens; w += 3) {
      Cell cell;
      for (const Text& text : set.texts) {
        Jacobi jacobi(w);
        Follow(writer.target(), jacobi, text, cost, cell);
      }
      PrintRow(set.name + ", Jacobi, w = " + std::to_string(w), cell);
    }
    constexpr std::array<LookaheadShape, 4> kShapes = {
        {{3, 3, 3}, {5, 4, 5}, {10, 5, 10}, {15, 5, 15}}};
    for (const LookaheadShape& shape : kShapes) {
      Cell cell;
      for (const Text& text : set.texts) {
        Lookahead lookahead(shape);
        Follow(writer.target(), lookahead, text, cost, cell);
      }
      PrintRow(set.name + ", lookahead, W = " + std::to_string(shape.window) + ", N = " +
                   std::to_string(shape.ngram) + ", G = " + std::to_string(shape.max_guesses),
               cell);
    }
  }
  return 0;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::Main(argc, argv); }
