// The time of a draft's blocks along the target's own texts: of the drafter `cascade`, and of another draft
// (a pruned one, say), beside the drafter `model` on the same text, in turn.
// Usage: draft_blocks_bench [target] [draft] [other draft, or none] [texts] [tokens of a text] [draft tokens]
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bench/acceptance/target_texts.h"
#include "bench/model/timing.h"
#include "common/base/check.h"
#include "draft_service/drafters/cascade.h"
#include "draft_service/drafters/model_drafter.h"

namespace tandem::bench {
namespace {

struct Sums {
  double microseconds = 0;
  size_t blocks = 0, passes = 0, rows = 0, stand = 0;
};

// One block; what it takes is added.
CandidateTree Block(draft_service::ForwardDrafter& drafter, uint32_t max_draft_tokens, Sums& sums) {
  drafter.BeginBlock({.max_draft_tokens = max_draft_tokens});
  while (drafter.wanted().total() > 0) {
    const model::ForwardPart part = drafter.NextPart(drafter.model().max_rows());
    const auto logits = drafter.model().Forward({&part, 1});
    TANDEM_CHECK_OK(logits.status());
    TANDEM_CHECK_OK(
        drafter.ReadLogits({logits->data, static_cast<size_t>(logits->rows) *
                                              static_cast<size_t>(logits->vocabulary_size)}));
    ++sums.passes;
    sums.rows += part.tokens.size();
  }
  ++sums.blocks;
  return drafter.EndBlock();
}

Sums Draft(const draft_service::DrafterFactory& factory, const Tokens& text, uint64_t seed,
           double temperature, uint32_t max_draft_tokens) {
  auto drafter = factory.make(SettingsOf(text, seed, temperature), speculation::Proposal::kDefault);
  TANDEM_CHECK_OK(drafter.status());
  Sums sums;
  size_t at = kPrompt, known = 0;
  while (at < text.size()) {
    CandidateTree block;
    Sums counted;  // the first block reads the prompt, and is left out
    const double time = Microseconds([&] {
      TANDEM_CHECK_OK((*drafter)->Accept(static_cast<uint32_t>(known),
                                         absl::MakeConstSpan(text).subspan(known, at - known)));
      block = Block(*(*drafter)->forward_drafter(), max_draft_tokens, counted);
    });
    if (known > 0) {
      sums.microseconds += time;
      sums.blocks += counted.blocks;
      sums.passes += counted.passes;
      sums.rows += counted.rows;
      sums.stand += Stands(block, text, at);
    }
    known = at;
    at = std::min(text.size(), at + Stands(block, text, at) + 1);
  }
  return sums;
}

void Print(const char* name, double temperature, const Sums& all,
           const std::vector<double>& ratios) {
  const Spread ratio = SpreadOf(ratios);
  const auto blocks = static_cast<double>(all.blocks);
  std::printf("| %.1f | %s | %.0f µs | %.2f | %.2f | %.2f | %.2f / %.2f / %.2f |\n", temperature,
              name, all.microseconds / blocks, static_cast<double>(all.passes) / blocks,
              static_cast<double>(all.rows) / blocks, static_cast<double>(all.stand) / blocks,
              ratio.min, ratio.median, ratio.max);
}

int Main(int argc, char** argv) {
  const auto argument = [&](int i, const char* otherwise) {
    return std::string(argc > i ? argv[i] : otherwise);
  };
  const auto target = Load(argument(1, "demo/target"));
  const auto draft = Load(argument(2, "demo/draft"));
  const std::string other_directory = argument(3, "none");
  const size_t count = std::stoul(argument(4, "12"));
  const size_t tokens = std::stoul(argument(5, "256"));
  const auto length = static_cast<uint32_t>(std::stoul(argument(6, "4")));
  std::vector<draft_service::DrafterFactory> factories = {
      draft_service::ModelDrafterFactory(*draft, {}),
      draft_service::CascadeFactory(*draft, {}, {})};
  std::vector<std::string> names = {"model", "cascade"};
  std::unique_ptr<model::LanguageModel> other;
  if (other_directory != "none") {
    other = Load(other_directory);
    factories.push_back(draft_service::ModelDrafterFactory(*other, {}));
    names.push_back("model, the other draft");
  }
  std::printf("%zu texts of %zu tokens, blocks of %u\n\n", count, tokens, length);
  std::printf(
      "| temperature | drafter | a block | passes | rows | tokens that stand | time to model |\n");
  std::printf("|---|---|---|---|---|---|---|\n");
  for (const double temperature : {0.0, 0.8}) {
    std::vector<Sums> all(factories.size());
    std::vector<std::vector<double>> ratios(factories.size());
    for (uint64_t seed = 0; seed < count; ++seed) {
      const Tokens text = Text(*target, seed, temperature, kPrompt + tokens);
      std::vector<double> a_block;
      for (size_t i = 0; i < factories.size(); ++i) {
        const Sums sums = Draft(factories[i], text, seed, temperature, length);
        a_block.push_back(sums.microseconds / static_cast<double>(sums.blocks));
        ratios[i].push_back(a_block[i] / a_block[0]);
        all[i].microseconds += sums.microseconds;
        all[i].blocks += sums.blocks;
        all[i].passes += sums.passes;
        all[i].rows += sums.rows;
        all[i].stand += sums.stand;
      }
    }
    for (size_t i = 0; i < factories.size(); ++i) {
      Print(names[i].c_str(), temperature, all[i], ratios[i]);
    }
  }
  return 0;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::Main(argc, argv); }
