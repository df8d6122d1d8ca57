// Models that LibTorch computes on this processor, for the tests of its step.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "model/language_model.h"
#include "tests/support/paths.h"
#include "torch/load.h"

namespace tandem::torch {

struct Held {
  ComputeType type = ComputeType::kFloat32;
  int tile = 0;
  int threads = 1;
};

// Null, and a failure of the test, where it does not load.
inline std::unique_ptr<model::LanguageModel> LoadTorch(const std::string& directory,
                                                       const Held& held = {}) {
  LoadOptions options;
  options.model.directory = directory;
  options.model.threads = held.threads;
  options.model.pool_tokens = 64 * kPageTokens;
  options.library = tandem::testing::BuildPath("lib/libtandem_torch.so");
  options.type = held.type;
  options.tile = held.tile;
  auto model = Load(options);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : nullptr;
}

}  // namespace tandem::torch
