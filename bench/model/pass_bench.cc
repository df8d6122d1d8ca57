// The time of a pass by rows up to 128 (what a scheduler's cost curve finds); a verify pass of
// several rows against one, and tokens per second of plain decoding: the demo
// pair, and a Llama shape of 0.21 B parameters with random weights.
// Usage: pass_bench [directory of the demo pair] [rounds] [big: 0 leaves the random model out]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "bench/model/quiet.h"
#include "bench/model/random_model.h"
#include "bench/model/timing.h"
#include "model/load.h"

namespace tandem::bench {
namespace {

using model::Cache;
using model::LanguageModel;

constexpr int kPrefix = 100;  // tokens held before the measured pass

std::unique_ptr<LanguageModel> LoadModel(const std::string& directory, int threads) {
  auto model = model::Load({.directory = directory, .threads = threads});
  if (!model.ok()) {
    std::fprintf(stderr, "%s\n", model.status().ToString().c_str());
    std::exit(1);
  }
  return *std::move(model);
}

void MeasureModel(LanguageModel& model, const std::string& name, int rounds) {
  std::unique_ptr<Cache> cache = std::move(model.NewCache(kPrefix + 16)).value();
  const std::vector<uint32_t> tokens(kPrefix, 7);
  if (!model.Forward({{cache.get(), tokens, kPrefix}}).ok()) std::abort();
  MeasureRows(name, rounds, [&](int rows) {
    cache->Truncate(kPrefix);
    auto logits = model.Forward({{cache.get(), absl::MakeSpan(tokens).first(rows), 0}});
    if (!logits.ok()) std::abort();
  });
}

// Passes as a target's: sequences with up to four rows each, one and two threads in turn. Rounds
// during which others kept more than a quarter of a core busy are left out, as many as are measured
// at most; after that the machine counts as one that is never quiet.
void MeasureCurve(const std::string& directory, int rounds) {
  constexpr int kMaxRows = 128;
  constexpr int kRowsOfOne = 4;
  const std::vector<int> sizes = {1, 2, 4, 8, 16, 32, 64, kMaxRows};
  const std::vector<uint32_t> tokens(kPrefix, 7);
  std::vector<std::unique_ptr<LanguageModel>> models;
  std::vector<std::vector<std::unique_ptr<Cache>>> caches(2);
  for (int m = 0; m < 2; ++m) {
    models.push_back(LoadModel(directory, m + 1));
    for (int i = 0; i < kMaxRows / kRowsOfOne; ++i) {
      caches[m].push_back(std::move(models[m]->NewCache(kPrefix + kRowsOfOne)).value());
      if (!models[m]->Forward({{caches[m][i].get(), tokens, kPrefix}}).ok()) std::abort();
    }
  }
  std::vector<std::vector<double>> times[2] = {std::vector<std::vector<double>>(sizes.size()),
                                               std::vector<std::vector<double>>(sizes.size())};
  int left_out = 0;
  for (int round = 0; round < rounds;) {
    Others::AwaitLess(0.25, std::chrono::seconds(1));
    const Others others;
    double sample[2][8][5];
    for (int repeat = 0; repeat < 5; ++repeat) {
      for (int m = 0; m < 2; ++m) {
        for (size_t i = 0; i < sizes.size(); ++i) {
          std::vector<model::ForwardPart> parts;
          for (int row = 0; row < sizes[i]; row += kRowsOfOne) {
            Cache* cache = caches[m][row / kRowsOfOne].get();
            cache->Truncate(kPrefix);
            const int rows = std::min(kRowsOfOne, sizes[i] - row);
            parts.push_back({cache, absl::MakeSpan(tokens).first(rows), 0});
          }
          sample[m][i][repeat] = Microseconds([&] {
            if (!models[m]->Forward(parts).ok()) std::abort();
          });
        }
      }
    }
    if (left_out < rounds && others.Cores() > 0.25) {
      ++left_out;
      continue;
    }
    ++round;
    for (int m = 0; m < 2; ++m) {
      for (size_t i = 0; i < sizes.size(); ++i) {
        times[m][i].insert(times[m][i].end(), sample[m][i], sample[m][i] + 5);
      }
    }
  }
  std::printf("\n%s, microseconds of a pass, least / median / most (%d rounds left out)\n%6s\n",
              directory.c_str(), left_out, "rows");
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Spread one = SpreadOf(times[0][i]);
    const Spread two = SpreadOf(times[1][i]);
    std::printf("%6d   1 thread %6.0f / %6.0f / %6.0f   2 threads %6.0f / %6.0f / %6.0f\n",
                sizes[i], one.min, one.median, one.max, two.min, two.median, two.max);
  }
  std::fflush(stdout);
}

// Greedy decoding of 200 tokens.
double TokensPerSecond(LanguageModel& model) {
  constexpr int kTokens = 200;
  std::unique_ptr<Cache> cache = std::move(model.NewCache(kTokens + 1)).value();
  uint32_t token = 1;
  const double time = Microseconds([&] {
    for (int i = 0; i < kTokens; ++i) {
      auto logits = model.Forward({{cache.get(), absl::MakeSpan(&token, 1), 0}});
      if (!logits.ok()) std::abort();
      auto row = logits->row(0);
      token = static_cast<uint32_t>(std::max_element(row.begin(), row.end()) - row.begin());
    }
  });
  return kTokens / time * 1e6;
}

void MeasurePair(const std::string& demo, int rounds) {
  for (const char* name : {"target", "draft"}) {
    auto one = LoadModel(demo + "/" + name, 1);
    auto two = LoadModel(demo + "/" + name, 2);
    std::vector<double> ones;
    std::vector<double> twos;
    for (int i = 0; i < 10; ++i) {
      ones.push_back(TokensPerSecond(*one));
      twos.push_back(TokensPerSecond(*two));
    }
    const Spread a = SpreadOf(ones);
    const Spread b = SpreadOf(twos);
    std::printf(
        "demo %s, decoding, tokens/s least / median / most: 1 thread %.0f / %.0f / %.0f, "
        "2 threads %.0f / %.0f / %.0f\n",
        name, a.min, a.median, a.max, b.min, b.median, b.max);
  }
  for (int threads : {1, 2}) {
    MeasureModel(*LoadModel(demo + "/target", threads),
                 "demo target, " + std::to_string(threads) + " threads", rounds);
  }
  MeasureModel(*LoadModel(demo + "/draft", 1), "demo draft, 1 thread", rounds);
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
  const std::string demo = argc > 1 ? argv[1] : "demo";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 200;
  for (const char* name : {"/target", "/draft"}) {
    tandem::bench::MeasureCurve(demo + name, std::max(3, rounds / 10));
  }
  tandem::bench::MeasurePair(demo, rounds);
  if (argc > 3 && std::atoi(argv[3]) == 0) return 0;
  for (const char* dtype : {"F32", "BF16"}) {
    tandem::bench::MeasureModel(*tandem::bench::RandomModel(dtype, 2, 2048),
                                std::string("Llama of 0.21 B, weights ") + dtype + ", 2 threads",
                                std::max(3, rounds / 20));
  }
}
