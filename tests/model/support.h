// Helpers of this folder's tests.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/base/json.h"
#include "gtest/gtest.h"
#include "model/config.h"
#include "model/content_hash.h"
#include "model/decoder.h"
#include "model/decoder_tensors.h"
#include "model/files/checkpoint.h"
#include "model/load.h"
#include "tests/support/paths.h"

namespace tandem::model::testing {

inline std::string GoldenDirectory(const std::string& variant) {
  return tandem::testing::SourcePath("tests/model/goldens/") + variant;
}

inline std::string SharedModel(const std::string& name) {
  return tandem::testing::SharedPath("models/") + name;
}

// Null: it is not there, or not JSON.
inline base::JsonValue ReadJson(const std::string& path) {
  std::ifstream file(path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  return base::JsonValue::Parse(text).value_or(base::JsonValue());
}

inline std::vector<std::string> VariantsOf(const std::string& manifest) {
  std::vector<std::string> names;
  const base::JsonValue json = ReadJson(GoldenDirectory(manifest));
  for (const auto& [name, about] : json["variants"].Members()) names.push_back(name);
  return names;
}

// Of the Llama family, and one or more of each other family.
inline std::vector<std::string> LlamaVariants() { return VariantsOf("manifest.json"); }
inline std::vector<std::string> FamilyVariants() { return VariantsOf("families.json"); }

inline std::vector<std::string> GoldenVariants() {
  std::vector<std::string> names = LlamaVariants();
  for (std::string& name : FamilyVariants()) names.push_back(std::move(name));
  return names;
}

// A decoder of a directory's model with options that Load does not offer.
inline std::unique_ptr<Decoder> MakeDecoder(const std::string& directory,
                                            const DecoderOptions& options,
                                            Dtype dtype = Dtype::kAuto) {
  auto config = ReadConfig(directory);
  EXPECT_TRUE(config.ok()) << config.status();
  auto checkpoint = Checkpoint::Open(directory);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  auto tensors = FindTensors(config->spec, config->family->tensors, *checkpoint);
  EXPECT_TRUE(tensors.ok()) << tensors.status();
  ModelInfo info;
  info.eos_token_ids = config->eos_token_ids;
  info.model_id =
      *ModelId(*config, *checkpoint, [](const auto&, const auto&) { return absl::OkStatus(); });
  return std::make_unique<Decoder>(config->spec,
                                   DecoderWeights(config->spec, *tensors, dtype, nullptr), options,
                                   std::move(info));
}

inline std::vector<uint32_t> RandomTokens(std::mt19937& random, int count, uint32_t vocabulary) {
  std::vector<uint32_t> tokens(count);
  for (uint32_t& token : tokens) token = random() % vocabulary;
  return tokens;
}

// Logits of all rows of one sequence in passes of at most `chunk` tokens, in a cache of its own.
inline std::vector<std::vector<float>> AllLogits(LanguageModel& model,
                                                 absl::Span<const uint32_t> tokens, int chunk) {
  std::vector<std::vector<float>> rows;
  auto cache = model.NewCache(static_cast<int>(tokens.size()));
  EXPECT_TRUE(cache.ok()) << cache.status();
  for (size_t at = 0; at < tokens.size(); at += chunk) {
    ForwardPart part{cache->get(), tokens.subspan(at, chunk), 0};
    auto logits = model.Forward({part});
    EXPECT_TRUE(logits.ok()) << logits.status();
    for (int i = 0; i < logits->rows; ++i) {
      rows.emplace_back(logits->row(i).begin(), logits->row(i).end());
    }
  }
  return rows;
}

inline bool SameBits(absl::Span<const float> a, absl::Span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// max |a - b| / max |b|
inline double RelativeDeviation(absl::Span<const float> a, absl::Span<const float> b) {
  double deviation = 0;
  double largest = 0;
  if (a.size() != b.size()) return INFINITY;
  for (size_t i = 0; i < a.size(); ++i) {
    // Not std::max, which would lose a NaN.
    double difference = std::abs(static_cast<double>(a[i]) - b[i]);
    if (!(difference <= deviation)) deviation = difference;
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
  }
  return deviation / largest;
}

inline uint32_t Greedy(absl::Span<const float> logits) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < logits.size(); ++i) {
    if (logits[i] > logits[best]) best = i;
  }
  return best;
}

// The greedy continuation of a prompt.
inline std::vector<uint32_t> GreedyIds(LanguageModel& model, std::vector<uint32_t> prompt,
                                       int count) {
  std::vector<uint32_t> ids;
  auto cache = model.NewCache(static_cast<int>(prompt.size()) + count);
  EXPECT_TRUE(cache.ok()) << cache.status();
  std::vector<uint32_t> next = std::move(prompt);
  while (static_cast<int>(ids.size()) < count) {
    auto logits = model.Forward({{cache->get(), next, static_cast<int>(next.size()) - 1}});
    EXPECT_TRUE(logits.ok()) << logits.status();
    ids.push_back(Greedy(logits->row(0)));
    next = {ids.back()};
  }
  return ids;
}

}  // namespace tandem::model::testing
