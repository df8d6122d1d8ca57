// Tokens a target pass with coupled trees beside chains: the target's own texts, and how far the blocks of
// the draft follow them. Under greedy and coupled a block stands as far as it has the target's own
// tokens, so no verification is computed. Counts, no times: the table is the same wherever the models'
// bits are. Usage: trees_bench [target] [draft] [texts] [tokens of a text]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/acceptance/target_texts.h"
#include "common/base/check.h"
#include "draft_service/drafters/model_drafter.h"

namespace tandem::bench {
namespace {

using draft_service::BlockShape;

// 0 nodes: a chain.
double TokensAPass(model::LanguageModel& draft, const std::vector<Tokens>& texts,
                   double temperature, const BlockShape& shape) {
  size_t tokens = 0, passes = 0;
  for (uint64_t seed = 0; seed < texts.size(); ++seed) {
    const Tokens& text = texts[seed];
    speculation::SequenceSettings settings = SettingsOf(text, seed, temperature);
    settings.max_nodes = shape.max_nodes;
    auto drafter = draft_service::ModelDrafterFactory(draft, {}).make(
        settings, speculation::Proposal::kDefault);
    TANDEM_CHECK_OK(drafter.status());
    size_t at = kPrompt, known = 0;
    while (at < text.size()) {
      TANDEM_CHECK_OK((*drafter)->Accept(static_cast<uint32_t>(known),
                                         absl::MakeConstSpan(text).subspan(known, at - known)));
      known = at;
      const auto block = shape.max_nodes == 0 ? (*drafter)->Propose(shape.max_draft_tokens)
                                              : (*drafter)->ProposeTree(shape);
      TANDEM_CHECK_OK(block.status());
      at = std::min(text.size(), at + Stands(*block, text, at) + 1);
      ++passes;
    }
    tokens += text.size() - kPrompt;
  }
  return static_cast<double>(tokens) / static_cast<double>(passes);
}

int Main(int argc, char** argv) {
  const auto argument = [&](int i, const char* otherwise) {
    return std::string(argc > i ? argv[i] : otherwise);
  };
  const auto target = Load(argument(1, "demo/target"));
  const auto draft = Load(argument(2, "demo/draft"));
  const size_t count = std::stoul(argument(3, "24"));
  const size_t tokens = std::stoul(argument(4, "128"));
  std::printf("%zu texts of %zu tokens\n\n", count, tokens);
  std::printf(
      "| temperature | best chain | its length | 8 nodes | 16 nodes | 32 nodes | their depths |\n");
  std::printf("|---|---|---|---|---|---|---|\n");
  for (const double temperature : {0.0, 0.7, 1.0}) {
    std::vector<Tokens> texts;
    for (uint64_t seed = 0; seed < count; ++seed) {
      texts.push_back(Text(*target, seed, temperature, kPrompt + tokens));
    }
    std::pair<double, uint32_t> best;
    for (const uint32_t length : {4u, 6u, 8u, 12u, 16u}) {
      best = std::max(best, {TokensAPass(*draft, texts, temperature, {length, 0}), length});
    }
    std::printf("| %.1f | %.2f | %u |", temperature, best.first, best.second);
    std::string depths;
    for (const uint32_t nodes : {8u, 16u, 32u}) {
      std::pair<double, uint32_t> tree;
      for (const uint32_t depth : {3u, 4u, 5u, 6u, 8u, 10u}) {
        tree = std::max(tree, {TokensAPass(*draft, texts, temperature, {depth, nodes}), depth});
      }
      std::printf(" %.2f |", tree.first);
      depths += (depths.empty() ? "" : ", ") + std::to_string(tree.second);
    }
    std::printf(" %s |\n", depths.c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::Main(argc, argv); }
