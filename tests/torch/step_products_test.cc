// One product for all rows of a pass, where rows have the bits that they have in tiles; else tiles.
// Either way a text has the same ids.
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/support.h"
#include "tests/torch/kernels/host_pass_kernels.h"
#include "tests/torch/step_support.h"
#include "torch/library/library.h"

namespace tandem::torch {
namespace {

using model::testing::AllLogits;
using model::testing::GoldenDirectory;
using model::testing::RandomTokens;
using ::testing::HasSubstr;

constexpr int kMaxRows = 320;

// What is planted, and what is seen. make_step is a plain function, so there is one of each.
struct Device {
  const Library* library = nullptr;
  int differs_from = 0;   // rows of a product; 0: it never does
  bool spans = false;     // rows attend by the kernels of torch/kernels, on the host
  bool is_whole = false;  // the last step that was made
};
Device device;

// A step whose product of many rows rounds the last of them otherwise.
class OddStep final : public Step {
 public:
  // `from`: that many; 0: never.
  OddStep(std::unique_ptr<Step> step, int from) : step_(std::move(step)), from_(from) {}

  const StepInfo& info() const override { return step_->info(); }
  absl::Status Run(const PassRows& pass) override {
    absl::Status status = step_->Run(pass);
    const DeviceLogits computed = step_->logits();
    const auto size = pass.logits_rows.size() * static_cast<size_t>(computed.stride);
    logits_.assign(computed.data, computed.data + size);
    const auto rows = static_cast<int>(pass.rows.size());
    if (from_ > 0 && rows >= from_ && size > 0) {
      logits_.back() = std::nextafter(logits_.back(), 1e9f);
    }
    return status;
  }
  DeviceLogits logits() const override { return {logits_.data(), step_->logits().stride}; }
  absl::Status ReadLogits(float* logits) override {
    std::copy(logits_.begin(), logits_.end(), logits);
    return absl::OkStatus();
  }
  absl::Status MoveCells(absl::Span<const CellMove> moves) override {
    return step_->MoveCells(moves);
  }

 private:
  const std::unique_ptr<Step> step_;
  const int from_;
  std::vector<float> logits_;
};

absl::StatusOr<std::unique_ptr<Step>> MakeOddStep(const StepOptions& asked,
                                                  const model::DecoderSpec& spec,
                                                  std::shared_ptr<const StepWeights> weights) {
  StepOptions options = asked;
  if (device.spans) {
    options.attention = Attention::kSpans;
    options.kernels = std::make_shared<kernels::HostPassKernels<>>();
  }
  auto step = device.library->make_step(options, spec, std::move(weights));
  if (!step.ok()) return step.status();
  device.is_whole = options.whole_products;
  return std::make_unique<OddStep>(*std::move(step),
                                   options.whole_products ? device.differs_from : 0);
}

struct Loaded {
  std::unique_ptr<TorchModel> model;
  std::string log;
};

Loaded LoadOdd(int differs_from, const Held& held, bool spans = false) {
  Loaded loaded;
  const auto library = LoadLibrary(tandem::testing::BuildPath("lib/libtandem_torch.so"));
  EXPECT_TRUE(library.ok()) << library.status();
  if (!library.ok()) return loaded;
  device = {*library, differs_from, spans};
  Library odd = **library;
  odd.make_step = MakeOddStep;
  LoadOptions options;
  options.model.directory = GoldenDirectory("llama3");
  options.model.max_rows = held.max_rows;
  options.model.pool_tokens = 64 * kPageTokens;
  options.type = held.type;
  const base::ScopedLogSink sink(
      [&](const base::LogEntry& entry) { absl::StrAppend(&loaded.log, entry.message, "\n"); });
  auto model = Load(options, odd);
  EXPECT_TRUE(model.ok()) << model.status();
  if (model.ok()) loaded.model = *std::move(model);
  return loaded;
}

// A prompt that is read in one pass, and what greedy decoding has behind it.
std::vector<uint32_t> Text(model::LanguageModel& model) {
  std::mt19937 random(7);
  std::vector<uint32_t> text = RandomTokens(random, 300, model.info().vocabulary_size);
  auto cache = model.NewCache(320);
  EXPECT_TRUE(cache.ok()) << cache.status();
  absl::Span<const uint32_t> next = text;
  for (int i = 0; i < 12; ++i) {
    const auto logits = model.Forward({{cache->get(), next, static_cast<int>(next.size()) - 1}});
    EXPECT_TRUE(logits.ok()) << logits.status();
    const absl::Span<const float> row = logits->row(0);
    text.push_back(static_cast<uint32_t>(std::max_element(row.begin(), row.end()) - row.begin()));
    next = absl::MakeConstSpan(text).last(1);
  }
  return text;
}

// Sums of whole numbers are exact, so products in int8 have the same bits in any number of rows.
TEST(StepProductsTest, EqualProductsAreWholeAndOthersFallBackToTiles) {
  for (const bool spans : {false, true}) {
    SCOPED_TRACE(spans ? "spans" : "gather");
    const Held long_passes{.type = ComputeType::kInt8, .max_rows = kMaxRows};
    const Loaded whole = LoadOdd(/*differs_from=*/0, long_passes, spans);
    ASSERT_NE(whole.model, nullptr);
    EXPECT_TRUE(device.is_whole);
    EXPECT_THAT(whole.log, HasSubstr("products_chosen device=torch-cpu products=whole\n"));
    const Loaded tiles = LoadOdd(/*differs_from=*/128, long_passes, spans);
    ASSERT_NE(tiles.model, nullptr);
    EXPECT_FALSE(device.is_whole);
    EXPECT_THAT(tiles.log, HasSubstr("products_chosen device=torch-cpu products=tiles "
                                     "differs=\"row 127 of a pass of 128 rows has other bits\""));
    EXPECT_EQ(whole.model->info().numerics_id, tiles.model->info().numerics_id);

    std::mt19937 random(3);
    const auto tokens = RandomTokens(random, 300, whole.model->info().vocabulary_size);
    const auto rows = AllLogits(*whole.model, tokens, 300);
    EXPECT_TRUE(rows == AllLogits(*tiles.model, tokens, 300));
    EXPECT_TRUE(rows == AllLogits(*whole.model, tokens, 31));
    EXPECT_EQ(Text(*whole.model), Text(*tiles.model));
  }
}

// Only the longest passes differ.
TEST(StepProductsTest, EachSizeOfAPassIsCompared) {
  const Loaded loaded = LoadOdd(kMaxRows, {.type = ComputeType::kInt8, .max_rows = kMaxRows});
  ASSERT_NE(loaded.model, nullptr);
  EXPECT_THAT(loaded.log, HasSubstr("differs=\"row 319 of a pass of 320 rows"));
  EXPECT_FALSE(device.is_whole);
}

// Whatever the library's products do in floating point, rows do not see the cut.
TEST(StepProductsTest, NoCutIsSeenInFloatingPoint) {
  for (const ComputeType type : {ComputeType::kFloat32, ComputeType::kBfloat16}) {
    const Loaded loaded = LoadOdd(/*differs_from=*/0, {.type = type, .max_rows = kMaxRows});
    ASSERT_NE(loaded.model, nullptr);
    std::mt19937 random(3);
    const auto tokens = RandomTokens(random, 300, loaded.model->info().vocabulary_size);
    EXPECT_TRUE(AllLogits(*loaded.model, tokens, 300) == AllLogits(*loaded.model, tokens, 31));
  }
}

}  // namespace
}  // namespace tandem::torch
