// Prompt sets, the texts that a target writes after them at temperature 0, and what its passes cost: what the
// tables of tokens a call have in common.
#pragma once

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/model/timing.h"
#include "common/base/check.h"
#include "common/tokenizer/tokenizer.h"
#include "model/load.h"

namespace tandem::bench {

using Tokens = std::vector<uint32_t>;

constexpr size_t kMaxPrompt = 256;  // tokens, the last ones
constexpr size_t kOutput = 64;      // tokens after it

inline uint32_t MostLikely(absl::Span<const float> logits) {
  return static_cast<uint32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

struct Text {
  Tokens tokens;
  size_t prompt;
};

struct PromptSet {
  std::string name;
  std::vector<Text> texts;
};

// A target and its tokenizer.
class GreedyWriter {
 public:
  explicit GreedyWriter(const char* directory) {
    auto tokenizer = tokenizer::Tokenizer::Load(directory);
    TANDEM_CHECK_OK(tokenizer);
    tokenizer_ = *std::move(tokenizer);
    model::LoadOptions options;
    options.directory = directory;
    options.threads = 2;
    options.max_rows = 512;
    auto target = model::Load(options);
    TANDEM_CHECK_OK(target);
    target_ = *std::move(target);
  }

  const tokenizer::Tokenizer& tokenizer() const { return *tokenizer_; }
  model::LanguageModel& target() const { return *target_; }

  // `argument`: SET=FILE, prompts with a NUL byte after each.
  PromptSet ReadSet(const std::string& argument) const {
    const size_t equals = argument.find('=');
    TANDEM_CHECK(equals != std::string::npos) << argument << " is not SET=FILE";
    std::ifstream file(argument.substr(equals + 1), std::ios::binary);
    TANDEM_CHECK(file.good()) << "cannot read " << argument.substr(equals + 1);
    PromptSet set{argument.substr(0, equals), {}};
    for (std::string prompt; std::getline(file, prompt, '\0');) {
      auto tokens = tokenizer_->Encode(prompt);
      TANDEM_CHECK_OK(tokens);
      if (!tokens->empty()) set.texts.push_back(Write(*std::move(tokens)));
    }
    std::fprintf(stderr, "%s: %zu texts\n", set.name.c_str(), set.texts.size());
    return set;
  }

 private:
  Text Write(Tokens prompt) const {
    if (prompt.size() > kMaxPrompt) prompt.erase(prompt.begin(), prompt.end() - kMaxPrompt);
    Text text{prompt, prompt.size()};
    auto cache = *target_->NewCache(static_cast<int>(kMaxPrompt + kOutput));
    size_t held = 0;
    while (text.tokens.size() < text.prompt + kOutput) {
      const auto unread = absl::MakeConstSpan(text.tokens).subspan(held);
      const auto logits =
          target_->Forward({{cache.get(), unread, static_cast<int>(unread.size()) - 1}});
      TANDEM_CHECK_OK(logits.status());
      held = text.tokens.size();
      text.tokens.push_back(MostLikely(logits->row(0)));
    }
    return text;
  }

  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  std::unique_ptr<model::LanguageModel> target_;
};

// Microseconds of a pass of so many rows after 128 tokens; between the measured sizes a line.
class PassCost {
 public:
  explicit PassCost(model::LanguageModel& target) {
    constexpr int kHeld = 128;
    auto cache = *target.NewCache(kHeld + kRows.back());
    const Tokens tokens(kRows.back(), 7);
    TANDEM_CHECK(
        target.Forward({{cache.get(), absl::MakeConstSpan(tokens).first(kHeld), kHeld}}).ok());
    std::array<std::vector<double>, kRows.size()> times;
    for (int turn = 0; turn < 9; ++turn) {
      for (size_t i = 0; i < kRows.size(); ++i) {
        cache->Truncate(kHeld);
        times[i].push_back(Microseconds([&] {
          const auto rows = absl::MakeConstSpan(tokens).first(kRows[i]);
          TANDEM_CHECK_OK(target.Forward({{cache.get(), rows, 0}}).status());
        }));
      }
    }
    std::printf("Rows of a pass, and its microseconds (median of 9):");
    for (size_t i = 0; i < kRows.size(); ++i) {
      medians_[i] = SpreadOf(times[i]).median;
      std::printf(" %d: %.0f%s", kRows[i], medians_[i], i + 1 < kRows.size() ? "," : "\n");
    }
  }

  double operator()(size_t rows) const {
    size_t i = 1;
    while (i + 1 < kRows.size() && static_cast<size_t>(kRows[i]) < rows) ++i;
    const double share = (static_cast<double>(rows) - kRows[i - 1]) / (kRows[i] - kRows[i - 1]);
    return medians_[i - 1] + share * (medians_[i] - medians_[i - 1]);
  }

 private:
  static constexpr std::array<int, 14> kRows = {1,  2,  4,  8,   12,  16,  24,
                                                32, 48, 64, 128, 192, 256, 352};
  std::array<double, kRows.size()> medians_;
};

}  // namespace tandem::bench
