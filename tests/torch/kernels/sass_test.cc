// How kernels read memory on a card, on a machine without one: what NVRTC makes of them for an H100
// or H200 (sm_90), as NVIDIA's disassembler prints it. A kernel that waits for each load before it
// asks for the next one is as right as any other, and takes several times as long; no other test
// sees that.
#include "tests/torch/kernels/sass.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/torch/kernels/nvidia_tools.h"
#include "torch/kernels/attention_mma.h"
#include "torch/kernels/kernel_sources.h"
#include "torch/kernels/nvrtc_compiler.h"

namespace tandem::kernels {
namespace {

constexpr int kHopper = 90;

class SassTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (NvrtcPath().empty() || NvdisasmPath().empty()) {
      GTEST_SKIP() << "NVRTC or nvdisasm is not there: run scripts/setup";
    }
  }

  static std::vector<SassKernel> Compiled(const KernelProgram& program, int card = kHopper) {
    const auto compiler = NvrtcCompiler::Load(NvrtcPath());
    EXPECT_TRUE(compiler.ok()) << compiler.status();
    const auto cubin = (*compiler)->Compile(program, card);
    EXPECT_TRUE(cubin.ok()) << cubin.status();
    return ReadSass(Disassembled(*cubin));
  }
  // Of the kernels of `unit` those whose names begin with `prefix`.
  static std::vector<SassKernel> Kernels(const std::string& unit, const std::string& prefix,
                                         int card = kHopper) {
    std::vector<SassKernel> some;
    for (const KernelProgram& program : KernelPrograms()) {
      if (program.source.name != unit) continue;
      for (SassKernel& kernel : Compiled(program, card)) {
        if (kernel.name.rfind(prefix, 0) == 0) some.push_back(std::move(kernel));
      }
    }
    return some;
  }
};

// Keys, and values; then the partials.
TEST_F(SassTest, AttentionHasFourWideLoadsInFlightOfKeysAndOfValues) {
  const auto kernels = Kernels("torch/kernels/attention.cu", "tandem_");
  ASSERT_EQ(kernels.size(), 6u);
  for (const SassKernel& kernel : kernels) {
    const bool attends = kernel.name.rfind("tandem_attend", 0) == 0;
    EXPECT_GE(attends ? kernel.WideStretches(4) : kernel.Stretches(4), 2u) << kernel.name;
    EXPECT_EQ(kernel.spills, 0u) << kernel.name;
    // Of 16 bytes of a key each number is multiplied for all rows and heads that read it.
    const size_t numbers = kernel.name == "tandem_attend_float32" ? 4 : 8;
    if (attends) {
      EXPECT_EQ(kernel.ProductsPerWideLoad(), numbers * AttentionTraits::kPairs) << kernel.name;
    }
  }
}

// Keys of 32 positions, and values of 16: four loads each before tensor cores take the first one.
// Scores of four tiles, and then sums of two, just fit into registers, so on every kind of card.
TEST_F(SassTest, AttentionOnTensorCoresHasFourWideLoadsInFlight) {
  for (int card : {80, 89, kHopper, 100}) {
    const auto kernels = Kernels("torch/kernels/attention_mma.cu", "tandem_attend_mma", card);
    ASSERT_EQ(kernels.size(), 2u);
    for (const SassKernel& kernel : kernels) {
      SCOPED_TRACE(absl::StrCat(kernel.name, " for sm_", card));
      EXPECT_GE(kernel.WideStretches(4), 2u);
      EXPECT_EQ(kernel.all_spills, 0u);
      // 16 bytes of a key are two steps, for each tile of queries.
      EXPECT_EQ(kernel.tensor_products_per_wide_load, 2 * kMmaTiles);
    }
  }
}

// The squares, and what is written; gates and ups.
TEST_F(SassTest, NormAndGateHaveFourWideLoadsInFlight) {
  const auto kernels = Kernels("torch/kernels/norm_rope.cu", "tandem_");
  ASSERT_EQ(kernels.size(), 9u);
  for (const SassKernel& kernel : kernels) {
    if (kernel.name.rfind("tandem_rope_write", 0) == 0) continue;  // some numbers of a row
    const bool gates = kernel.name.rfind("tandem_gate", 0) == 0;
    EXPECT_GE(kernel.WideStretches(4), gates ? 1u : 2u) << kernel.name;
    EXPECT_EQ(kernel.spills, 0u) << kernel.name;
  }
}

// Loops over the vocabulary. Where a sum has four or eight ways, a thread's numbers do not lie
// together: it loads eight of them.
TEST_F(SassTest, JudgeHasFourWideLoadsInFlightOrEightNumbers) {
  struct Stretches {
    size_t wide, eight;
  };
  const std::map<std::string, Stretches> expected = {
      {"tandem_judge_prepare", {1, 0}},        // the copy
      {"tandem_judge_largest", {2, 0}},        // of the processed logits, and of the model's
      {"tandem_judge_weights", {1, 0}},        //
      {"tandem_judge_sums", {0, 2}},           // of logits, and of weights
      {"tandem_judge_distribution", {5, 3}},   // top-k, top-p, min-p; the sums of what is left
      {"tandem_judge_probabilities", {2, 0}},  // p, and the race
      {"tandem_judge_verdict", {6, 0}},        // the best, sums, the most likely tokens
  };
  const auto kernels = Kernels("torch/kernels/judge.cu", "tandem_judge");
  ASSERT_EQ(kernels.size(), expected.size());
  for (const SassKernel& kernel : kernels) {
    EXPECT_GE(kernel.WideStretches(4), expected.at(kernel.name).wide) << kernel.name;
    EXPECT_GE(kernel.Stretches(8), expected.at(kernel.name).eight) << kernel.name;
    EXPECT_EQ(kernel.spills, 0u) << kernel.name;
    EXPECT_EQ(kernel.indexed, 0u) << kernel.name;
  }
}

TEST_F(SassTest, AnArrayThatARegisterIndexesLiesInLocalMemory) {
  const auto kernels = Compiled({{"indexed.cu",
                                  "extern \"C\" __global__ void f(int* at, int n) {"
                                  "  int some[64];"
                                  "  for (int i = 0; i < n; ++i) some[at[i] & 63] = i;"
                                  "  at[0] = some[n & 63];"
                                  "}"},
                                 {"f"}});
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_GE(kernels[0].indexed, 1u);
}

TEST_F(SassTest, ALoadThatWaitsForTheOneBeforeIsAlone) {
  const auto chain = Compiled({{"chain.cu",
                                "extern \"C\" __global__ void f(const int* next, int* at, int n) {"
                                "  for (; n > 0; --n) *at = next[*at];"
                                "}"},
                               {"f"}});
  ASSERT_EQ(chain.size(), 1u);
  EXPECT_GE(chain[0].Stretches(1), 1u);
  EXPECT_EQ(chain[0].Stretches(2), 0u);
  const auto batch = Compiled({{"batch.cu",
                                "struct alignas(16) Quad { int words[4]; };"
                                "extern \"C\" __global__ void f(const Quad* from, int* to, int n) {"
                                "  for (int i = 0; i < n; i += 2) {"
                                "    const Quad a = from[i], b = from[i + 1];"
                                "    __syncwarp();"
                                "    to[i] = a.words[0] + a.words[1] + a.words[2] + a.words[3];"
                                "    to[i + 1] = b.words[0] + b.words[1] + b.words[2] + b.words[3];"
                                "  }"
                                "}"},
                               {"f"}});
  ASSERT_EQ(batch.size(), 1u);
  EXPECT_GE(batch[0].WideStretches(2), 1u);
}

}  // namespace
}  // namespace tandem::kernels
