// What a block of the context n-gram drafter costs, and what keeping its index costs, by the length
// of the text and by how it repeats itself; and the same block found by reading the whole text, in
// turn with it.
// Usage: draft_context_ngram_bench [tokens of text] [blocks]
#include <algorithm>
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
#include "draft_service/drafters/context_ngram.h"
#include "draft_service/drafters/prompt_lookup.h"

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

// The block of ContextNgramFactory, without an index: each token of it is counted anew over the
// whole text. `followers` is the vocabulary's size or more.
std::vector<uint32_t> BySearch(const std::vector<uint32_t>& text, uint32_t max,
                               std::vector<uint32_t>& followers) {
  constexpr size_t kMaxOccurrences = draft_service::ContextNgramOptions::kMaxOccurrences;
  std::vector<uint32_t> places, block;
  for (size_t i = text.size() - 1; i-- > 0 && places.size() < kMaxOccurrences;) {
    if (text[i] == text.back()) places.push_back(static_cast<uint32_t>(i + 1));
  }
  while (!places.empty() && block.size() < max) {
    std::fill(followers.begin(), followers.end(), 0);
    for (uint32_t place : places) ++followers[text[place]];
    uint32_t token = text[places[0]];
    for (uint32_t place : places) {
      if (followers[text[place]] > followers[token]) token = text[place];
    }
    block.push_back(token);
    std::vector<uint32_t> left;
    for (uint32_t place : places) {
      if (text[place] == token && place + 1 < text.size()) left.push_back(place + 1);
    }
    places = std::move(left);
  }
  return block;
}

void CompareWithSearch(const Text& text, int blocks) {
  auto drafter = draft_service::ContextNgramFactory().make({}, draft_service::Proposal::kDefault);
  TANDEM_CHECK_OK(drafter);
  TANDEM_CHECK_OK((*drafter)->Accept(0, text.tokens));
  std::vector<uint32_t> searched = text.tokens;
  std::vector<uint32_t> followers(1 + *std::max_element(searched.begin(), searched.end()));
  std::vector<double> ratios;
  std::mt19937 random(3);
  const uint32_t size = static_cast<uint32_t>(text.tokens.size());
  for (int i = 0; i < blocks; ++i) {
    const uint32_t token = text.tokens[random() % size];
    TANDEM_CHECK_OK((*drafter)->Accept(size, {token}));
    searched.resize(size);
    searched.push_back(token);
    std::vector<uint32_t> with, without;
    const double indexed = Microseconds([&] { with = (*drafter)->Propose(16)->tokens; });
    const double search = Microseconds([&] { without = BySearch(searched, 16, followers); });
    TANDEM_CHECK(with == without) << "the index and the search differ";
    ratios.push_back(indexed / search);
  }
  const Spread ratio = SpreadOf(ratios);
  std::printf("%-20s index / search  block %6.3f / %6.3f / %7.3f\n", text.name.c_str(), ratio.min,
              ratio.median, ratio.max);
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
    CompareWithSearch(text, blocks);
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
