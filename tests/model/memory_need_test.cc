// What is said to be needed before a model is loaded, against what loading takes.
#include "model/memory_need.h"

#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "common/process/room.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/activations.h"
#include "model/offload.h"
#include "model/packed_linear.h"
#include "tests/model/support.h"
#include "tests/support/address_sanitizer.h"
#include "tests/support/paths.h"

namespace tandem::model::testing {
namespace {

constexpr int kRows = 256;
constexpr int64_t kTokens = 1024;  // of the cache: few, so that it does not hide the weights

std::vector<process::MemoryPart> NeedOf(const std::string& directory, Dtype dtype) {
  auto config = ReadConfig(directory);
  auto checkpoint = Checkpoint::Open(directory);
  EXPECT_TRUE(config.ok() && checkpoint.ok());
  auto tensors = FindTensors(config->spec, config->family->tensors, *checkpoint);
  EXPECT_TRUE(tensors.ok()) << tensors.status();
  return MemoryNeed(config->spec, *tensors, dtype, kTokens, kRows);
}

int64_t MappedBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0;
  file >> pages;
  return pages * sysconf(_SC_PAGE_SIZE);
}

// Less would be a promise that is not kept, and much more would refuse a model that fits.
void ExpectAbout(int64_t need, int64_t taken, int64_t slack) {
  EXPECT_GE(taken, need);
  EXPECT_LE(taken, need + need / 10 + slack);
}

class MemoryNeedTest : public ::testing::TestWithParam<Dtype> {};

INSTANTIATE_TEST_SUITE_P(Dtypes, MemoryNeedTest,
                         ::testing::Values(Dtype::kAuto, Dtype::kFloat32, Dtype::kBfloat16,
                                           Dtype::kInt8, Dtype::kInt4),
                         [](const auto& info) { return std::string(DtypeName(info.param)); });

TEST_P(MemoryNeedTest, IsWhatTheLoaderTakes) {
  for (const char* model : {"demo/target", "demo/draft"}) {
    SCOPED_TRACE(model);
    const std::string directory = tandem::testing::SourcePath(model);
    const std::vector<process::MemoryPart> need = NeedOf(directory, GetParam());
    ASSERT_EQ(need.size(), 3u);
    LoadReport report;
    LoadOptions options;
    options.directory = directory;
    options.max_rows = kRows;
    options.pool_tokens = kTokens;
    options.dtype = GetParam();
    options.report = &report;
    const int64_t before = MappedBytes();
    const auto loaded = Load(options);
    const int64_t taken = MappedBytes() - before;
    ASSERT_TRUE(loaded.ok()) << loaded.status();

    EXPECT_EQ(need[0].name, "weights");
    ExpectAbout(need[0].bytes, report.weight_bytes, /*slack=*/0);
    EXPECT_EQ(need[1].name, "cache");
    EXPECT_EQ(need[1].bytes, report.cache_bytes);
    // AddressSanitizer gives back what earlier tests of this process freed, whenever it likes.
    if (tandem::testing::kAddressSanitizer) continue;
    // Buffers are whole huge pages, and the heap grows a little.
    ExpectAbout(need[0].bytes + need[1].bytes + need[2].bytes, taken, int64_t{8} << 20);
  }
}

// q, k and v are one matrix, so one of another type widens all of them.
TEST(LayerBytes, AreThoseOfTheMatricesThatAreMade) {
  constexpr int kRowsOfPart = 64, kInputs = 32;
  const std::string zeros(kRowsOfPart * kInputs * sizeof(float), '\0');
  const auto part = [&](const char* type, size_t row_bytes) {
    return TensorView{type, {kRowsOfPart, kInputs}, zeros.data(), kRowsOfPart * row_bytes};
  };
  const TensorView half = part("F16", 64), full = part("F32", 128), blocks = part("Q4_0", 18),
                   bytes = part("Q8_0", 34);
  const auto check = [](const TensorView& qk, const TensorView& v, int64_t expected) {
    LayerTensors layer;
    layer.q.weight = layer.k.weight = &qk;
    layer.v.weight = &v;
    EXPECT_EQ(LayerBytes(layer, Dtype::kAuto), expected) << qk.dtype << " and " << v.dtype;
    const PackedLinear made = PackConcatenated(Dtype::kAuto, {layer.q, layer.k, layer.v});
    EXPECT_EQ(static_cast<int64_t>(made.matrix.bytes()), expected);
  };
  constexpr int64_t kValues = kRowsOfPart * kInputs;
  check(half, half, 3 * 2 * kValues);
  check(half, full, 3 * 4 * kValues);
  check(blocks, half, 3 * 4 * kValues);
  check(blocks, blocks, 3 * kValues * 18 / 32);
  check(blocks, bytes, 2 * kValues * 18 / 32 + kValues * 34 / 32);
}

// Memory for all, for some layers, for none, and for less than the cache.
TEST(PlanOffload, KeepsInMemoryWhatFits) {
  const std::string directory = tandem::testing::SourcePath("demo/target");
  auto config = ReadConfig(directory);
  auto checkpoint = Checkpoint::Open(directory);
  auto tensors = FindTensors(config->spec, config->family->tensors, *checkpoint);
  const int layers = config->spec.layers;
  const std::vector<process::MemoryPart> need =
      MemoryNeed(config->spec, *tensors, Dtype::kAuto, kTokens, kRows);
  const int64_t all = need[0].bytes + need[1].bytes + need[2].bytes;
  const int64_t layer = LayerBytes(tensors->layers[0], Dtype::kAuto);
  const auto plan = [&](int64_t memory, Dtype dtype = Dtype::kAuto) {
    return PlanOffload(directory, *tensors, dtype, need, {INT64_MAX, memory});
  };
  EXPECT_FALSE(plan(all)->any());
  // Two layers more stay free, for what is read.
  EXPECT_EQ(plan(all - 1)->first_layer, layers - 3);
  EXPECT_EQ(plan(all - layer)->first_layer, layers - 3);
  EXPECT_EQ(plan(all - layer - 1)->first_layer, layers - 4);
  EXPECT_FALSE(plan(all - layer - 1)->output);
  const int64_t none = all - need[0].bytes;
  EXPECT_EQ(plan(none)->first_layer, 0);
  EXPECT_TRUE(plan(none)->output);
  const absl::Status too_little = plan(none - 1).status();
  EXPECT_EQ(too_little.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(too_little.message()),
              ::testing::HasSubstr("even with --offload: there is not enough memory"));
}

// What is read from the file is read as it is.
TEST(PlanOffload, RefusesWhatAPassCouldNotRead) {
  const auto plan = [](const std::string& variant, Dtype dtype) {
    const std::string directory = GoldenDirectory(variant);
    auto config = ReadConfig(directory);
    auto checkpoint = Checkpoint::Open(directory);
    auto tensors = FindTensors(config->spec, config->family->tensors, *checkpoint);
    const auto need = MemoryNeed(config->spec, *tensors, dtype, kTokens, kRows);
    return PlanOffload(directory, *tensors, dtype, need, {INT64_MAX, need[1].bytes + need[2].bytes})
        .status();
  };
  for (Dtype dtype : {Dtype::kAuto, Dtype::kBfloat16, Dtype::kFloat32}) {
    EXPECT_TRUE(plan("bf16", dtype).ok()) << "widening rounds nothing";
  }
  for (Dtype dtype : {Dtype::kFloat16, Dtype::kInt8}) {
    const absl::Status status = plan("bf16", dtype);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("give --dtype=auto"));
  }
  EXPECT_FALSE(plan("llama2", Dtype::kBfloat16).ok());
  for (const char* mixed : {"gpt2", "gpt_neox"}) {
    EXPECT_THAT(std::string(plan(mixed, Dtype::kAuto).message()),
                ::testing::HasSubstr("transposed or mixed"));
  }
}

TEST(CheckRoom, SaysHowManyTokensWouldFit) {
  const std::vector<process::MemoryPart> need = {{"weights", 700}, {"cache", 400}, {"pass", 100}};
  EXPECT_TRUE(CheckRoom("model", need, 4, 10, 0, {INT64_MAX, 1200}).ok());
  for (const bool on_card : {false, true}) {
    const absl::Status status = CheckRoom("model", need, 4, 10, 0, {INT64_MAX, 1199}, on_card);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(status.message()),
                ::testing::HasSubstr("hint: the rest leaves room for a cache of 99 tokens"));
    EXPECT_THAT(std::string(status.message()),
                ::testing::HasSubstr(on_card ? "free on the card" : "in the machine"));
  }
  // Without any cache it does not fit either.
  EXPECT_THAT(std::string(CheckRoom("model", need, 4, 10, 0, {INT64_MAX, 800}).message()),
              ::testing::Not(::testing::HasSubstr("hint")));
}

// Whichever flag helps, with a value that does.
TEST(CheckRoom, SaysHowManyRowsWouldFit) {
  const auto need = [](int64_t tokens, int rows) {
    return std::vector<process::MemoryPart>{
        {"weights", 700}, {"cache", 4 * tokens}, {"activations", int64_t{10} * rows}};
  };
  const auto hint = [&](int64_t tokens, int rows, int64_t memory, int max_rows) {
    const absl::Status status = CheckRoom("model", need(tokens, rows), 4, /*context_length=*/40,
                                          max_rows, {INT64_MAX, memory});
    const std::string message(status.message());
    const std::string before = "\n  hint: the rest leaves room for ";
    const size_t at = message.find(before);
    return at == message.npos ? "" : message.substr(at + before.size());
  };
  // No cache fits, nor does one text beside more rows than these.
  EXPECT_EQ(hint(1, 2000, 4000, 2000), "passes of 256 rows (--max-rows)");
  EXPECT_TRUE(CheckRoom("model", need(40, 256), 4, 40, 256, {INT64_MAX, 4000}).ok());
  EXPECT_FALSE(CheckRoom("model", need(40, 320), 4, 40, 320, {INT64_MAX, 4000}).ok());
  EXPECT_EQ(hint(1, 2000, 4000, 0), "") << "no flag sets them";
  EXPECT_EQ(hint(1, 2000, 1500, 2000), "") << "too few";
  EXPECT_EQ(hint(10'000, 2000, 4000, 2000), "passes of 256 rows (--max-rows)") << "and then less";
  // Either helps, or the cache alone.
  EXPECT_EQ(hint(500, 256, 4000, 256),
            "a cache of 185 tokens (--pool-tokens), or for passes of 128 rows (--max-rows)");
  EXPECT_TRUE(CheckRoom("model", need(185, 256), 4, 40, 256, {INT64_MAX, 4000}).ok());
  EXPECT_TRUE(CheckRoom("model", need(500, 128), 4, 40, 128, {INT64_MAX, 4000}).ok());
  EXPECT_EQ(hint(900, 256, 4000, 256), "a cache of 185 tokens (--pool-tokens)");
}

TEST(MemoryNeed, ACacheInBf16TakesHalf) {
  LoadOptions options;
  options.directory = tandem::testing::SourcePath("demo/draft");
  LoadReport wide;
  LoadReport narrow;
  options.pool_tokens = kTokens;
  options.report = &wide;
  ASSERT_TRUE(Load(options).ok());
  options.cache_dtype = Dtype::kBfloat16;
  options.report = &narrow;
  ASSERT_TRUE(Load(options).ok());
  EXPECT_EQ(2 * narrow.cache_bytes, wide.cache_bytes);
  EXPECT_EQ(narrow.cache_tokens, kTokens);
  auto config = ReadConfig(options.directory);
  auto checkpoint = Checkpoint::Open(options.directory);
  auto tensors = FindTensors(config->spec, config->family->tensors, *checkpoint);
  EXPECT_EQ(MemoryNeed(config->spec, *tensors, Dtype::kAuto, kTokens, kRows,
                       cpu::WeightType::kBfloat16)[1]
                .bytes,
            narrow.cache_bytes);
}

TEST(MemoryNeed, CountsTheActivationsOfAPass) {
  const std::string directory = tandem::testing::SourcePath("demo/target");
  const auto config = ReadConfig(directory);
  ASSERT_TRUE(config.ok());
  int64_t of_floats = 0;
  for (const Dtype dtype : {Dtype::kAuto, Dtype::kInt8, Dtype::kInt8ByRow}) {
    const Activations activations(config->spec, kRows, /*members=*/1, dtype == Dtype::kInt8ByRow,
                                  dtype == Dtype::kInt8);
    int64_t row_bytes = 0;
    for (const RowBuffer* rows : {&activations.residual, &activations.normed, &activations.qkv,
                                  &activations.attended, &activations.inner, &activations.logits}) {
      row_bytes += rows->stride() * static_cast<int64_t>(sizeof(float));
    }
    // Integers, and what is held of them beside.
    int64_t int8_bytes = static_cast<int64_t>(activations.quantized.stride());
    if (int8_bytes > 0) int8_bytes += sizeof(float) + sizeof(int32_t);
    int8_bytes += static_cast<int64_t>(activations.grouped.bytes()) / kRows;
    row_bytes += int8_bytes;
    const process::MemoryPart need = NeedOf(directory, dtype)[2];
    EXPECT_EQ(need.name, "activations");
    ExpectAbout(need.bytes, kRows * row_bytes, /*slack=*/0);
    if (dtype == Dtype::kAuto) of_floats = need.bytes;
    // The rows of int8 are too few to show within the tenth. Each is whole cache lines and one
    // more.
    ExpectAbout(need.bytes - of_floats, kRows * int8_bytes, /*slack=*/kRows * 128);
  }
}

}  // namespace
}  // namespace tandem::model::testing
