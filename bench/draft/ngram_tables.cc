// The tables of N-Grammys (Stewart et al. 2024, arXiv 2411.03786): tokens a call of the target, and the speed
// against plain decoding, by k guesses of w tokens; for each drafter without a model.
//
// The target writes its greedy text once. Verification at temperature 0 is exact, so a drafter's blocks are
// followed along that text, and the tokens a call are counts. The speed ratio is the time of a pass of one
// row a token, divided by the passes of the blocks' rows, whose cost is measured first, and the drafter's own
// time. Messages between services are not in it: a target in the drafter's own process.
//
// Usage: ngram_tables TARGET TABLE SET=FILE... (TABLE: of tandem derive-ngrams, for this tokenizer; FILE:
// prompts with a NUL byte after each). ngram_tables.py makes the files.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "bench/draft/greedy_texts.h"
#include "bench/model/timing.h"
#include "common/base/check.h"
#include "common/tokenizer/tokenizer.h"
#include "draft_service/drafters/context_ngram.h"
#include "draft_service/drafters/mixed.h"
#include "draft_service/drafters/successor_drafter.h"
#include "draft_service/ngrams/derived_ngrams.h"
#include "model/load.h"

namespace tandem::bench {
namespace {

using draft_service::BlockShape;
using speculation::CandidateTree;

constexpr std::array<uint32_t, 5> kGuesses = {1, 5, 10, 20, 25};
constexpr uint32_t kMinTokens = 2, kMaxTokens = 14;
constexpr uint32_t kCellK = 10, kCellW = 10;  // of the tables of ranks

struct Cell {
  size_t tokens = 0, passes = 0, rows = 0;
  double microseconds = 0, plain_microseconds = 0;

  void Add(const Cell& other) {
    tokens += other.tokens;
    passes += other.passes;
    rows += other.rows;
    microseconds += other.microseconds;
    plain_microseconds += other.plain_microseconds;
  }
};

// Of the blocks of one cell: where their guesses are from, and which guess was accepted.
struct Guesses {
  size_t blocks = 0, of_text = 0, of_table = 0, of_both = 0, none = 0;
  std::array<size_t, kCellK> accepted{};  // by the guess's rank
};

Tokens PathOf(const CandidateTree& block, uint32_t node) {
  Tokens path;
  for (; node > 0; node = block.parents[node - 1]) path.push_back(block.tokens[node - 1]);
  std::reverse(path.begin(), path.end());
  return path;
}

// How many tokens of `path` the text has had after its last token at one place.
size_t HadInText(absl::Span<const uint32_t> text, const Tokens& path) {
  size_t most = 0;
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] != text.back()) continue;
    size_t had = 0;
    while (had < path.size() && i + 1 + had < text.size() && text[i + 1 + had] == path[had]) ++had;
    most = std::max(most, had);
  }
  return most;
}

// Guesses are ranked by the order in which their branches began. `end`: the last accepted node.
void Count(absl::Span<const uint32_t> text, const CandidateTree& block, uint32_t end,
           Guesses& guesses) {
  // The rank of the branch that each node is on; a first child goes on with its parent's.
  std::vector<uint32_t> rank(block.size() + 1, 0), leaf_of;
  std::vector<char> is_parent(block.size() + 1, 0);
  for (uint32_t node = 1; node <= block.size(); ++node) {
    const uint32_t parent = block.parents[node - 1];
    if (parent == 0 || is_parent[parent] != 0) {
      rank[node] = static_cast<uint32_t>(leaf_of.size());
      leaf_of.push_back(node);
    } else {
      rank[node] = rank[parent];
      leaf_of[rank[node]] = node;
    }
    is_parent[parent] = 1;
  }
  ++guesses.blocks;
  for (const uint32_t leaf : leaf_of) {
    const Tokens path = PathOf(block, leaf);
    const size_t had = HadInText(text, path);
    ++(had == path.size() ? guesses.of_text : had == 0 ? guesses.of_table : guesses.of_both);
  }
  ++(end == 0 ? guesses.none : guesses.accepted[rank[end]]);
}

Cell Follow(const draft_service::DrafterFactory& factory, const Text& text, const PassCost& cost,
            uint32_t k, uint32_t w, Guesses* guesses) {
  auto drafter = *factory.make({}, speculation::Proposal::kDefault);
  const absl::Span<const uint32_t> all = text.tokens;
  Cell cell;
  cell.tokens = all.size() - text.prompt;
  cell.plain_microseconds = static_cast<double>(cell.tokens) * cost(1);
  for (size_t at = text.prompt, known = 0; at < all.size();) {
    CandidateTree block;
    const auto accept = all.subspan(known, at - known);
    // Reading the prompt is no draft's time a round.
    if (known == 0) TANDEM_CHECK_OK(drafter->Accept(0, accept));
    cell.microseconds += Microseconds([&] {
      if (known > 0) TANDEM_CHECK_OK(drafter->Accept(static_cast<uint32_t>(known), accept));
      block = *drafter->ProposeTree({w, k * w, k});
    });
    known = at;
    uint32_t end = 0;
    size_t accepted = 0;
    for (uint32_t node = 1; node <= block.size() && at + accepted < all.size(); ++node) {
      if (block.parents[node - 1] != end || block.tokens[node - 1] != all[at + accepted]) continue;
      end = node;
      ++accepted;
    }
    if (guesses != nullptr) Count(all.first(at), block, end, *guesses);
    at += accepted + 1;
    ++cell.passes;
    cell.rows += block.size() + 1;
    cell.microseconds += cost(block.size() + 1);
  }
  return cell;
}

void PrintTable(const char* title, const std::string& drafter,
                const std::vector<std::pair<std::string, std::vector<double>>>& rows) {
  std::printf("\n`%s`: %s\n\n| | k |", drafter.c_str(), title);
  for (uint32_t w = kMinTokens; w <= kMaxTokens; ++w) std::printf(" w = %u |", w);
  std::printf("\n|---|---|");
  for (uint32_t w = kMinTokens; w <= kMaxTokens; ++w) std::printf("---|");
  std::printf("\n");
  for (size_t i = 0; i < rows.size(); ++i) {
    std::printf("| %s | %u |", rows[i].first.c_str(), kGuesses[i % kGuesses.size()]);
    for (const double value : rows[i].second) std::printf(" %.2f |", value);
    std::printf("\n");
  }
  std::fflush(stdout);
}

void Measure(const draft_service::DrafterFactory& factory, const std::vector<PromptSet>& sets,
             const PassCost& cost, std::vector<std::pair<std::string, Guesses>>& guesses) {
  std::vector<std::pair<std::string, std::vector<double>>> tokens, speed, nodes;
  for (const PromptSet& set : sets) {
    guesses.push_back({"`" + factory.name + "` | " + set.name, {}});
    for (const uint32_t k : kGuesses) {
      std::fprintf(stderr, "%s, %s, k = %u\n", factory.name.c_str(), set.name.c_str(), k);
      for (auto* rows : {&tokens, &speed, &nodes}) rows->push_back({set.name, {}});
      for (uint32_t w = kMinTokens; w <= kMaxTokens; ++w) {
        Cell cell;
        Guesses* counts = k == kCellK && w == kCellW ? &guesses.back().second : nullptr;
        for (const Text& text : set.texts) cell.Add(Follow(factory, text, cost, k, w, counts));
        const double passes = static_cast<double>(cell.passes);
        tokens.back().second.push_back(static_cast<double>(cell.tokens) / passes);
        nodes.back().second.push_back(static_cast<double>(cell.rows) / passes);
        speed.back().second.push_back(cell.plain_microseconds / cell.microseconds);
      }
    }
  }
  PrintTable("tokens a call", factory.name, tokens);
  PrintTable("speed to plain decoding's", factory.name, speed);
  PrintTable("rows a call", factory.name, nodes);
}

void PrintGuesses(const std::vector<std::pair<std::string, Guesses>>& all) {
  std::printf(
      "\nk = %u, w = %u: guesses of a block by their source, and blocks by the rank of the "
      "accepted guess\n\n",
      kCellK, kCellW);
  std::printf(
      "| drafter | | of the text | of a table | begun by the text | none accepted | 1 | 2 | 3 "
      "| 4 to 6 | 7 to 10 |\n|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const auto& [name, guesses] : all) {
    const double blocks = static_cast<double>(guesses.blocks);
    const auto share = [&](size_t from, size_t to) {
      size_t sum = 0;
      for (size_t i = from; i < to; ++i) sum += guesses.accepted[i];
      return 100 * static_cast<double>(sum) / blocks;
    };
    std::printf(
        "| %s | %.1f | %.1f | %.1f | %.0f %% | %.0f %% | %.0f %% | %.0f %% | %.0f %% | %.0f %% |\n",
        name.c_str(), static_cast<double>(guesses.of_text) / blocks,
        static_cast<double>(guesses.of_table) / blocks,
        static_cast<double>(guesses.of_both) / blocks,
        100 * static_cast<double>(guesses.none) / blocks, share(0, 1), share(1, 2), share(2, 3),
        share(3, 6), share(6, 10));
  }
}

int Main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: ngram_tables TARGET TABLE SET=FILE...\n");
    return 2;
  }
  const GreedyWriter writer(argv[1]);
  const auto derived = draft_service::DerivedNgrams::Open(argv[2], writer.tokenizer().content_id());
  TANDEM_CHECK_OK(derived);
  const PassCost cost(writer.target());
  std::vector<PromptSet> sets;
  for (int i = 3; i < argc; ++i) sets.push_back(writer.ReadSet(argv[i]));
  std::vector<std::pair<std::string, Guesses>> guesses;
  const auto extended = draft_service::ExtendedTable(*derived);
  for (const draft_service::DrafterFactory& factory :
       {draft_service::ContextNgramFactory(),
        draft_service::SuccessorFactory("derived-bigram", draft_service::BigramTable(*derived)),
        draft_service::SuccessorFactory("derived-extended", extended),
        draft_service::MixedFactory({}, extended)}) {
    Measure(factory, sets, cost, guesses);
  }
  PrintGuesses(guesses);
  return 0;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::Main(argc, argv); }
