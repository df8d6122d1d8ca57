// Every kernel compiles for every card that is served, on a machine without one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/torch/kernels/nvidia_tools.h"
#include "tests/torch/kernels/sass.h"
#include "torch/kernels/cubin_cache.h"
#include "torch/kernels/nvrtc_compiler.h"

namespace tandem::kernels {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Nvrtc : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (NvrtcPath().empty()) GTEST_SKIP() << "NVRTC is not there: run scripts/setup";
    auto loaded = NvrtcCompiler::Load(NvrtcPath());
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    compiler_ = *std::move(loaded);
  }

  std::unique_ptr<NvrtcCompiler> compiler_;
};

// As sass_test.cc does: here, because the judge takes seconds to compile. Logits are processed, the
// largest is found; weights are made of them; and counted and scaled.
void ExpectLoadsOfTheJudge(const std::string& cubin) {
  if (NvdisasmPath().empty()) return;
  for (const SassKernel& kernel : ReadSass(Disassembled(cubin))) {
    if (kernel.name == "tandem_judge_verdict") continue;  // its loops compute
    EXPECT_GE(
        kernel.Stretches(4),
        kernel.name == "tandem_judge_weights" || kernel.name == "tandem_judge_prepare" ? 1u : 2u)
        << kernel.name;
    EXPECT_EQ(kernel.spills, 0u) << kernel.name;
  }
}

TEST_P(Nvrtc, CompilesEveryKernel) {
  for (const KernelProgram& program : KernelPrograms()) {
    const auto cubin = compiler_->Compile(program, GetParam());
    ASSERT_TRUE(cubin.ok()) << cubin.status();
    EXPECT_EQ(cubin->substr(0, 4),
              "\x7f"
              "ELF");
    for (const std::string& kernel : program.kernels) EXPECT_THAT(*cubin, HasSubstr(kernel));
    if (GetParam() == 90 && program.source.name == std::string("torch/kernels/judge.cu")) {
      ExpectLoadsOfTheJudge(*cubin);
    }
  }
}

// Ampere (A100), Ada (L4, L40, RTX 40), Hopper (H100, H200), Blackwell (B200).
INSTANTIATE_TEST_SUITE_P(Cards, Nvrtc, ::testing::Values(80, 89, 90, 100));

class NvrtcErrors : public Nvrtc {};
INSTANTIATE_TEST_SUITE_P(Cards, NvrtcErrors, ::testing::Values(90));

TEST_P(NvrtcErrors, SayWhereASourceIsWrong) {
  const KernelProgram broken = {{"broken.cu", "__global__ void f() { undeclared = 1; }"}, {}};
  const auto cubin = compiler_->Compile(broken, GetParam());
  EXPECT_EQ(cubin.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(cubin.status().message(), HasSubstr("broken.cu(1)"));
  EXPECT_THAT(cubin.status().message(), HasSubstr("undeclared"));
}

TEST_P(NvrtcErrors, NameACardThatIsNotKnown) {
  const auto cubin = compiler_->Compile(KernelPrograms()[0], 12);
  EXPECT_EQ(cubin.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(cubin.status().message(), HasSubstr("sm_12"));
}

TEST_P(NvrtcErrors, ASecondCompilationComesFromTheCache) {
  const fs::path folder = fs::path(::testing::TempDir()) / absl::StrCat("tandem-nvrtc-", getpid());
  fs::remove_all(folder);
  const CubinCache cache(folder);
  const KernelProgram small = {{"small.cu", "extern \"C\" __global__ void f(int* x) { *x = 1; }"},
                               {"f"}};
  const auto first = CompileCached(*compiler_, cache, small, GetParam());
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string key = CubinCache::Key(small, GetParam(), compiler_->version());
  EXPECT_EQ(cache.Find(key), *first);
  cache.Keep(key, "what the cache has");
  const auto second = CompileCached(*compiler_, cache, small, GetParam());
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(*second, "what the cache has");
  fs::remove_all(folder);
}

TEST(NvrtcOptions, KeepTheBitsOfTheHost) {
  EXPECT_THAT(NvrtcCompiler::Options(89),
              ::testing::IsSupersetOf({"--gpu-architecture=sm_89", "--fmad=false", "--ftz=false",
                                       "--prec-div=true", "--prec-sqrt=true"}));
}

TEST(NvrtcLoad, OneErrorSaysHowToGetIt) {
  const auto loaded = NvrtcCompiler::Load("/nowhere/libnvrtc.so.13");
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(loaded.status().message(), HasSubstr("/nowhere/libnvrtc.so.13"));
  EXPECT_THAT(loaded.status().message(), HasSubstr("nvidia-cuda-nvrtc"));
  const auto other = NvrtcCompiler::Load("libm.so.6");
  EXPECT_EQ(other.status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace tandem::kernels
