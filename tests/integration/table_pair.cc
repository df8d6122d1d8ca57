#include "tests/integration/table_pair.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/sampling/token_history.h"

namespace tandem::testing {

TableModelOptions TargetTable(const TablePair& pair) {
  return {.vocabulary_size = pair.vocabulary, .seed = 3, .peakedness = 1.2};
}

TableModelOptions DraftTable(const TablePair& pair) {
  TableModelOptions options = TargetTable(pair);
  options.noise = pair.noise;
  options.noise_seed = 4;
  return options;
}

ClusterOptions TableOptions(const TablePair& pair) {
  ClusterOptions options;
  options.target_model = std::make_unique<TableModel>(TargetTable(pair));
  options.draft_model = std::make_unique<TableModel>(DraftTable(pair));
  options.tokenizer = LettersTokenizer(pair.vocabulary);
  options.model_drafter.top_m = pair.top_m;
  // A block that is late would be left out, which is exact as well, but shows less.
  options.loop.draft_wait = absl::Seconds(20);
  options.loop.draft_wait_floor = absl::Seconds(20);
  options.without_sockets = true;
  return options;
}

TargetDistribution TableDistribution(const TablePair& pair,
                                     const sampling::SamplingParameters& sampling,
                                     size_t prompt_tokens) {
  auto table = std::make_shared<TableModel>(TargetTable(pair));
  auto rows = std::make_shared<std::map<std::vector<uint32_t>, sampling::Distribution>>();
  return [=, vocabulary = pair.vocabulary](absl::Span<const uint32_t> context) {
    const auto last = context.last(std::min<size_t>(2, context.size()));
    const auto key = sampling.looks_back() ? context : last;
    auto [row, is_new] = rows->try_emplace(std::vector<uint32_t>(key.begin(), key.end()));
    if (is_new) {
      sampling::TokenHistory history(static_cast<uint32_t>(prompt_tokens));
      history.Append(context);
      row->second =
          sampling::MakeDistribution(table->LogitsAfter(last), vocabulary, sampling, history);
    }
    return row->second;
  };
}

Judgement MeasureTable(const TablePair& pair, ClusterOptions options, const TextsOptions& texts) {
  InProcessCluster cluster(std::move(options));
  Judgement judgement = MeasureTexts(cluster, texts, pair.vocabulary,
                                     TableDistribution(pair, texts.sampling, texts.prompt.size()));
  TANDEM_CHECK(cluster.AllFreed());
  return judgement;
}

}  // namespace tandem::testing
