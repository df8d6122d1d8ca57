// How often a choice of token changes when only the number of rows of a pass does: with linear
// layers whose order of summation depends on it, and with ours. Every position of texts that the
// model wrote is a trial: its logits when the text is computed one token at a time, against those
// of passes of 5, 8 and 16. Usage: near_ties [directory of a model]… (docs/near-ties.md).
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/model/stock_llama.h"
#include "common/sampling/distribution.h"
#include "model/load.h"

namespace tandem::bench {
namespace {

constexpr int kTexts = 48;
constexpr int kTextTokens = 500;
constexpr uint64_t kTextSeed = 1000;    // of the texts
constexpr uint64_t kChoiceSeed = 2000;  // of the races that are compared

using Text = std::vector<uint32_t>;

// Choices at a position: argmax, and who wins the race at two temperatures.
constexpr const char* kChoices[] = {"argmax", "race, T 0.7", "race, T 1"};
using Chosen = std::array<uint32_t, 3>;

sampling::SamplingParameters At(double temperature) {
  sampling::SamplingParameters parameters;
  parameters.temperature = temperature;
  return parameters;
}

uint32_t Race(absl::Span<const float> logits, double temperature, uint64_t seed, size_t position) {
  const auto size = static_cast<uint32_t>(logits.size());
  return sampling::DrawRace(sampling::MakeDistribution(logits, size, At(temperature)), seed, 0,
                            static_cast<uint32_t>(position));
}

Chosen Choose(absl::Span<const float> logits, uint64_t seed, size_t position) {
  return {sampling::ArgMax(logits, static_cast<uint32_t>(logits.size())),
          Race(logits, 0.7, seed, position), Race(logits, 1.0, seed, position)};
}

// A row of a text that was computed one token at a time.
struct Alone {
  std::vector<float> logits;
  std::optional<Chosen> chosen;  // once it was asked for
};

// Computes `rows` tokens at a time; gives the rows' logits to `row`.
using Stepper =
    std::function<void(const Text&, int rows, const std::function<void(absl::Span<const float>)>&)>;

Stepper Ours(model::LanguageModel& model) {
  return [&model](const Text& text, int rows, const auto& row) {
    auto cache = std::move(model.NewCache(static_cast<int>(text.size()))).value();
    for (size_t at = 0; at < text.size(); at += rows) {
      auto logits =
          model.Forward({{cache.get(), absl::MakeSpan(text).subspan(at, rows), 0}}).value();
      for (int i = 0; i < logits.rows; ++i) row(logits.row(i));
    }
  };
}

Stepper Stock(StockLlama& model) {
  return [&model](const Text& text, int rows, const auto& row) {
    model.Restart();
    for (size_t at = 0; at < text.size(); at += rows) {
      const at::Tensor logits = model.Forward(absl::MakeSpan(text).subspan(at, rows));
      const auto size = static_cast<size_t>(logits.size(1));
      for (int64_t i = 0; i < logits.size(0); ++i) {
        row({logits.const_data_ptr<float>() + i * size, size});
      }
    }
  };
}

// Texts that the model draws at temperature 1, each from its own seed and the id 0 or the
// end-of-text token; the same on every machine.
std::vector<Text> Write(model::LanguageModel& model) {
  const uint32_t begin = model.info().eos_token_ids.empty() ? 0 : model.info().eos_token_ids[0];
  std::vector<Text> texts;
  for (int i = 0; i < kTexts; ++i) {
    Text text = {begin};
    auto cache = std::move(model.NewCache(kTextTokens)).value();
    while (text.size() < kTextTokens) {
      auto logits = model.Forward({{cache.get(), absl::MakeSpan(text).last(1), 0}}).value();
      text.push_back(Race(logits.row(0), 1.0, kTextSeed + i, text.size()));
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

// Wilson's interval at 95 %, in events of 10,000.
std::pair<double, double> Wilson(int64_t events, int64_t trials) {
  const double z = 1.959963985;
  const double n = static_cast<double>(trials);
  const double p = static_cast<double>(events) / n;
  const double middle = (p + z * z / (2 * n)) / (1 + z * z / n);
  const double half = z / (1 + z * z / n) * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n));
  return {1e4 * std::max(0.0, middle - half), 1e4 * std::min(1.0, middle + half)};
}

void Compare(const char* name, const Stepper& stepper, const std::vector<Text>& texts) {
  const int sizes[] = {5, 8, 16};
  int64_t trials = 0;
  int64_t flips[3][3] = {};
  int64_t unequal[3] = {};
  double noise[3] = {};  // sums over rows of the root mean square difference of logits
  for (size_t t = 0; t < texts.size(); ++t) {
    std::vector<Alone> alone;
    stepper(texts[t], 1, [&](absl::Span<const float> logits) {
      alone.push_back({{logits.begin(), logits.end()}, std::nullopt});
    });
    trials += static_cast<int64_t>(alone.size());
    for (int s = 0; s < 3; ++s) {
      size_t next = 0;
      stepper(texts[t], sizes[s], [&](absl::Span<const float> logits) {
        const size_t at = next++;
        Alone& row = alone[at];
        const size_t bytes = logits.size() * sizeof(float);
        if (std::memcmp(logits.data(), row.logits.data(), bytes) == 0) return;
        ++unequal[s];
        double squares = 0;
        for (size_t i = 0; i < logits.size(); ++i) {
          squares += std::pow(static_cast<double>(logits[i]) - row.logits[i], 2);
        }
        noise[s] += std::sqrt(squares / static_cast<double>(logits.size()));
        if (!row.chosen.has_value()) row.chosen = Choose(row.logits, kChoiceSeed + t, at);
        const Chosen now = Choose(logits, kChoiceSeed + t, at);
        for (int c = 0; c < 3; ++c) flips[s][c] += now[c] != (*row.chosen)[c];
      });
    }
  }
  for (int s = 0; s < 3; ++s) {
    std::printf("| %s | %d | %.2f %% | %.1e ", name, sizes[s],
                100.0 * static_cast<double>(unequal[s]) / static_cast<double>(trials),
                noise[s] / static_cast<double>(trials));
    for (int c = 0; c < 3; ++c) {
      const auto [low, high] = Wilson(flips[s][c], trials);
      std::printf("| %lld: %.1f (%.1f to %.1f) ", static_cast<long long>(flips[s][c]),
                  1e4 * static_cast<double>(flips[s][c]) / static_cast<double>(trials), low, high);
    }
    std::printf("|\n");
  }
  std::fflush(stdout);
}

template <class T>
std::unique_ptr<T> OrNull(absl::StatusOr<std::unique_ptr<T>> loaded, const std::string& directory) {
  if (loaded.ok()) return *std::move(loaded);
  std::printf("%s is left out: %s\n", directory.c_str(), loaded.status().ToString().c_str());
  return nullptr;
}

void Measure(const std::string& directory) {
  auto ours = OrNull(model::Load({.directory = directory}), directory);
  auto rounded =
      OrNull(model::Load({.directory = directory, .dtype = model::Dtype::kBfloat16}), directory);
  auto bf16 = OrNull(StockLlama::Load(directory, at::kBFloat16), directory);
  auto fp32 = OrNull(StockLlama::Load(directory, at::kFloat), directory);
  if (ours == nullptr || rounded == nullptr || bf16 == nullptr || fp32 == nullptr) return;
  const std::vector<Text> texts = Write(*ours);
  std::printf("\n%s: %d texts of %d tokens\n| step | rows | logits differ | rms of it ",
              directory.c_str(), kTexts, kTextTokens);
  for (const char* choice : kChoices) std::printf("| %s ", choice);
  std::printf("|\n|---|---|---|---|---|---|---|\n");
  Compare("LibTorch bf16", Stock(*bf16), texts);
  Compare("LibTorch fp32", Stock(*fp32), texts);
  Compare("ours, weights bf16", Ours(*rounded), texts);
  Compare("ours, weights as in the file", Ours(*ours), texts);
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
  at::set_num_threads(1);
  if (argc < 2) tandem::bench::Measure("demo/target");
  for (int i = 1; i < argc; ++i) tandem::bench::Measure(argv[i]);
}
