// Models that LibTorch computes on this processor, for the tests of its step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "model/language_model.h"
#include "model/load.h"
#include "tests/model/support.h"
#include "tests/support/paths.h"
#include "torch/load.h"

namespace tandem::torch {

struct Held {
  ComputeType type = ComputeType::kFloat32;
  int tile = 0;
  int threads = 1;
  int max_rows = 256;
  model::Dtype dtype = model::Dtype::kAuto;  // says what `type` leaves open: of int8 checkpoints
};

// Null, and a failure of the test, where it does not load.
inline std::unique_ptr<model::LanguageModel> LoadTorch(const std::string& directory,
                                                       const Held& held = {}) {
  LoadOptions options;
  options.model.directory = directory;
  options.model.threads = held.threads;
  options.model.dtype = held.dtype;
  options.model.max_rows = held.max_rows;
  options.model.pool_tokens = 64 * kPageTokens;
  options.library = tandem::testing::BuildPath("lib/libtandem_torch.so");
  options.type = held.type;
  options.tile = held.tile;
  auto model = Load(options);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : nullptr;
}

inline std::unique_ptr<model::LanguageModel> LoadDecoder(const std::string& directory,
                                                         model::Dtype dtype = model::Dtype::kAuto) {
  auto decoder = model::Load({.directory = directory, .pool_tokens = 2048, .dtype = dtype});
  EXPECT_TRUE(decoder.ok()) << decoder.status();
  return *std::move(decoder);
}

// The largest deviation of a row of `tokens` from the decoder's.
inline double DeviationFromDecoder(model::LanguageModel& torch, model::LanguageModel& decoder,
                                   absl::Span<const uint32_t> tokens) {
  const auto rows = model::testing::AllLogits(torch, tokens, 48);
  const auto wanted = model::testing::AllLogits(decoder, tokens, 48);
  EXPECT_EQ(rows.size(), wanted.size());
  double largest = 0;
  for (size_t row = 0; row < rows.size(); ++row) {
    largest = std::max(largest, model::testing::RelativeDeviation(rows[row], wanted[row]));
  }
  return largest;
}

}  // namespace tandem::torch
