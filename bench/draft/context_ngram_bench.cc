// What a block of the context n-gram drafter costs, and what keeping its index costs, by the length
// of the text and by how it repeats itself.
// Usage: draft_context_ngram_bench [tokens of text] [blocks]
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "bench/model/timing.h"
#include "common/base/check.h"
#include "draft_service/context_ngram.h"
#include "draft_service/prompt_lookup.h"

namespace tandem::bench {
namespace {

using draft_service::Drafter;
using draft_service::DrafterFactory;

// The token of a place is drawn by the ranks of words: the r-th commonest with weight 1 / r.
std::vector<uint32_t> ByRanks(size_t size, uint32_t vocabulary) {
  std::mt19937 random(1);
  std::vector<double> weights(vocabulary);
  for (uint32_t i = 0; i < vocabulary; ++i) weights[i] = 1.0 / (i + 1);
  std::discrete_distribution<uint32_t> draw(weights.begin(), weights.end());
  std::vector<uint32_t> text(size);
  for (uint32_t& token : text) token = draw(random);
  return text;
}

struct Text {
  std::string name;
  std::vector<uint32_t> tokens;
};

std::vector<Text> Texts(size_t size) {
  std::vector<uint32_t> loop(size);
  for (size_t i = 0; i < size; ++i) loop[i] = static_cast<uint32_t>(i % 7);
  return {{"32k words by rank", ByRanks(size, 32768)},
          {"four words by rank", ByRanks(size, 4)},
          {"a loop of seven", std::move(loop)},
          {"one token", std::vector<uint32_t>(size, 3)}};
}

// Each block is asked for after another last token, so that no cache of the processor knows it.
void Measure(const Text& text, const std::string& name, const DrafterFactory& factory, int blocks) {
  auto drafter = factory.make({}, draft_service::Proposal::kDefault);
  TANDEM_CHECK_OK(drafter);
  const double began = Microseconds([&] { TANDEM_CHECK_OK((*drafter)->Accept(0, text.tokens)); });
  std::vector<double> times, accepts;
  std::mt19937 random(2);
  const uint32_t size = static_cast<uint32_t>(text.tokens.size());
  for (int i = 0; i < blocks; ++i) {
    const uint32_t token = text.tokens[random() % size];
    accepts.push_back(Microseconds([&] {
      TANDEM_CHECK_OK((*drafter)->Accept(size, {token, token, token}));
    }));
    times.push_back(Microseconds([&] { TANDEM_CHECK_OK((*drafter)->Propose(16)); }));
  }
  const Spread block = SpreadOf(times), accept = SpreadOf(accepts);
  std::printf(
      "%-20s %-15s block %6.1f / %6.1f / %7.1f us  accept of 3 %5.1f us  whole text %7.2f ms\n",
      text.name.c_str(), name.c_str(), block.min, block.median, block.max, accept.median,
      began / 1000);
}

void Run(size_t size, int blocks) {
  std::printf("%zu tokens, %d blocks of 16: minimum / median / maximum\n", size, blocks);
  for (const Text& text : Texts(size)) {
    Measure(text, "context-ngram", draft_service::ContextNgramFactory(), blocks);
    Measure(text, "prompt-lookup", draft_service::PromptLookupFactory(), blocks);
  }
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
  const int size = argc > 1 ? std::atoi(argv[1]) : 8192;
  const int blocks = argc > 2 ? std::atoi(argv[2]) : 2000;
  if (size < 16 || blocks < 1) {
    std::fprintf(stderr, "usage: %s [tokens of text, 16 or more] [blocks]\n", argv[0]);
    return 2;
  }
  tandem::bench::Run(static_cast<size_t>(size), blocks);
}
