// How often the next block would have been prepared: by temperature (0: rule greedy, else coupled),
// draft tokens K and prepared outcomes B. Each with odds that are learned (outcome_odds.h) and with
// those that a drafter begins with. Counts alone: nothing is timed, and no block is drafted. The
// rounds are those of the target's own text.
//
// Usage: outcome_hits TARGET DRAFT PROMPTS [prompts] [tokens]
// TARGET has the tokenizer. PROMPTS has one a line.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/tokenizer/tokenizer.h"
#include "draft_service/drafters/candidate_draw.h"
#include "draft_service/drafters/preparation.h"
#include "model/load.h"

namespace tandem::draft_service {
namespace {

using Tokens = std::vector<uint32_t>;

constexpr double kTemperatures[] = {1, 0.7, 0};
constexpr uint32_t kDraftTokens[] = {1, 2, 3, 4, 6};
constexpr uint32_t kOutcomes[] = {1, 2, 4, 8, 16};

struct Odds {
  OutcomeOdds odds;
  bool learns = false;
  int hits[std::size(kOutcomes)] = {};
  size_t prepared = 0;  // of the most outcomes; fewer where others are too unlikely
};

struct Result {
  int rounds = 0;
  int judged = 0;
  int accepted = 0;
  Odds learned{{}, true, {}, 0};
  Odds first;
};

// Rows of one model behind one text.
class Reader {
 public:
  Reader(model::LanguageModel& model, int room) : model_(model) {
    auto cache = model.NewCache(room);
    TANDEM_CHECK_OK(cache);
    cache_ = *std::move(cache);
  }

  // What follows `text`, which begins with what was read before, but for its end.
  absl::Span<const float> After(absl::Span<const uint32_t> text) {
    size_t common = 0;
    while (common < held_.size() && common + 1 < text.size() && held_[common] == text[common]) {
      ++common;
    }
    cache_->Truncate(static_cast<int>(common));
    held_.assign(text.begin(), text.end());
    for (size_t from = common; from < text.size();) {
      const size_t rows =
          std::min<size_t>(static_cast<size_t>(model_.max_rows()), text.size() - from);
      const bool last = from + rows == text.size();
      const model::ForwardPart part{cache_.get(), text.subspan(from, rows),
                                    static_cast<int>(last ? rows - 1 : rows)};
      const auto logits = model_.Forward({&part, 1});
      TANDEM_CHECK_OK(logits);
      if (last) return logits->row(0);
      from += rows;
    }
    return {};
  }

 private:
  model::LanguageModel& model_;
  std::unique_ptr<model::Cache> cache_;
  Tokens held_;
};

speculation::SequenceSettings SettingsOf(double temperature, uint64_t seed, size_t prompt) {
  speculation::SequenceSettings settings;
  settings.sampling.temperature = temperature;
  settings.rule = temperature == 0 ? acceptance::Rule::kGreedy : acceptance::Rule::kCoupled;
  settings.seed = seed;
  settings.prompt_tokens = static_cast<uint32_t>(prompt);
  return settings;
}

Tokens TargetsText(model::LanguageModel& target, const speculation::SequenceSettings& settings,
                   uint32_t vocabulary, Tokens text, size_t tokens) {
  Reader reader(target, static_cast<int>(text.size() + tokens));
  CandidateDraw draw(settings, Proposal::kSampled, 1, vocabulary);
  for (size_t end = text.size() + tokens; text.size() < end;) {
    CandidateTree block;
    draw.BeginBlock(static_cast<uint32_t>(text.size()));
    TANDEM_CHECK_OK(draw.Append(reader.After(text), block));
    text.push_back(block.tokens[0]);
  }
  return text;
}

// The outcome came true: `node` draft tokens stand, and `next_token` follows.
void Count(const std::vector<Preparation::Ranking>& rankings, uint32_t node, uint32_t next_token,
           Odds& odds) {
  for (size_t i = 0; i < std::size(kOutcomes); ++i) {
    Preparation preparation(kOutcomes[i], 1, odds.odds);
    for (size_t at = 0; at + 1 < rankings.size(); ++at) preparation.AddToBase(rankings[at]);
    preparation.Begin(1 << 20, 1 << 20);
    preparation.Add(0, rankings.back());
    while (preparation.wanted() > 0) preparation.Add(0, rankings.back());
    const std::vector<PreparedBlock> blocks = preparation.Blocks();
    if (i + 1 == std::size(kOutcomes)) odds.prepared += blocks.size();
    for (const PreparedBlock& block : blocks) {
      odds.hits[i] += block.node == node && block.next_token == next_token ? 1 : 0;
    }
  }
}

void Rounds(model::LanguageModel& draft, const speculation::SequenceSettings& settings,
            uint32_t vocabulary, const Tokens& text, uint32_t draft_tokens, Result& result) {
  Reader reader(draft, static_cast<int>(text.size() + draft_tokens + 1));
  CandidateDraw draw(settings, Proposal::kSampled, 1, vocabulary);
  for (size_t committed = settings.prompt_tokens + 1; committed + draft_tokens < text.size();) {
    Tokens before(text.begin(), text.begin() + static_cast<ptrdiff_t>(committed));
    draw.BeginBlock(static_cast<uint32_t>(committed));
    std::vector<Preparation::Ranking> rankings;
    Tokens chain;
    for (uint32_t i = 0; i <= draft_tokens; ++i) {
      auto ranking = draw.Rank(reader.After(before), chain, kOutcomeRanks);
      TANDEM_CHECK_OK(ranking);
      rankings.push_back(*std::move(ranking));
      if (i == draft_tokens) break;
      chain.push_back(rankings.back().front().token);
      before.push_back(chain.back());
    }
    uint32_t node = 0;
    while (node < draft_tokens && chain[node] == text[committed + node]) ++node;
    ++result.rounds;
    result.accepted += static_cast<int>(node);
    result.judged += static_cast<int>(std::min(node + 1, draft_tokens));
    for (Odds* odds : {&result.learned, &result.first}) {
      Count(rankings, node, text[committed + node], *odds);
      for (uint32_t i = 0; odds->learns && i <= node; ++i) {
        odds->odds.Observe(rankings[i], text[committed + i]);
      }
    }
    committed += node + 1;
  }
}

int Main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: outcome_hits TARGET DRAFT PROMPTS [prompts] [tokens]\n");
    return 2;
  }
  const size_t max_prompts = argc > 4 ? static_cast<size_t>(std::atoi(argv[4])) : 12;
  const size_t tokens = argc > 5 ? static_cast<size_t>(std::atoi(argv[5])) : 96;
  auto tokenizer = tokenizer::Tokenizer::Load(argv[1]);
  TANDEM_CHECK_OK(tokenizer);
  auto target = model::Load({.directory = argv[1], .pool_tokens = 8192});
  TANDEM_CHECK_OK(target);
  auto draft = model::Load({.directory = argv[2], .pool_tokens = 8192, .draft = true});
  TANDEM_CHECK_OK(draft);
  const uint32_t vocabulary =
      std::min((*target)->info().vocabulary_size, (*draft)->info().vocabulary_size);
  std::vector<Tokens> prompts;
  std::ifstream lines(argv[3]);
  for (std::string line; prompts.size() < max_prompts && std::getline(lines, line);) {
    auto encoded = (*tokenizer)->Encode(line, /*add_special_tokens=*/true);
    TANDEM_CHECK_OK(encoded);
    if (!encoded->empty() && encoded->size() < 400) prompts.push_back(*std::move(encoded));
  }
  std::printf("%zu prompts, %zu tokens each\n", prompts.size(), tokens);
  std::printf("| temperature | K | rounds | accepted of judged | odds |");
  for (const uint32_t outcomes : kOutcomes) std::printf(" B = %u |", outcomes);
  std::printf(" outcomes of the last |\n");
  for (const double temperature : kTemperatures) {
    Result results[std::size(kDraftTokens)];
    for (size_t i = 0; i < prompts.size(); ++i) {
      const auto settings = SettingsOf(temperature, 1000 + i, prompts[i].size());
      const Tokens text = TargetsText(**target, settings, vocabulary, prompts[i], tokens);
      for (size_t k = 0; k < std::size(kDraftTokens); ++k) {
        Rounds(**draft, settings, vocabulary, text, kDraftTokens[k], results[k]);
      }
    }
    for (size_t k = 0; k < std::size(kDraftTokens); ++k) {
      for (const Odds* odds : {&results[k].learned, &results[k].first}) {
        std::printf("| %g | %u | %d | %.3f | %s |", temperature, kDraftTokens[k], results[k].rounds,
                    static_cast<double>(results[k].accepted) / results[k].judged,
                    odds->learns ? "learned" : "first");
        for (const int hits : odds->hits) {
          std::printf(" %.3f |", static_cast<double>(hits) / results[k].rounds);
        }
        std::printf(" %.1f |\n", static_cast<double>(odds->prepared) / results[k].rounds);
      }
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace tandem::draft_service

int main(int argc, char** argv) { return tandem::draft_service::Main(argc, argv); }
