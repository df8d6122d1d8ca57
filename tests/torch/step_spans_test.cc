// LibTorch's step with the kernels of torch/kernels between its operations, as the host runs them:
// the way `spans` of a card, on this processor.
#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/support.h"
#include "tests/torch/kernels/host_pass_kernels.h"
#include "tests/torch/step_support.h"
#include "torch/library/library.h"

namespace tandem::torch {
namespace {

using kernels::AttentionFault;
using kernels::ElementType;
using kernels::HostPassKernels;
using kernels::NormRopeFault;
using model::testing::AllLogits;
using model::testing::GoldenDirectory;
using model::testing::RandomTokens;

// make_step is a plain function, so there is one of each.
const Library* loaded = nullptr;
std::shared_ptr<kernels::PassKernels> kernels_of_steps;
Attention attention_of_steps = Attention::kSpans;

absl::StatusOr<std::unique_ptr<Step>> MakeSpansStep(const StepOptions& options,
                                                    const model::DecoderSpec& spec,
                                                    std::shared_ptr<const StepWeights> weights) {
  StepOptions spans = options;
  spans.attention = attention_of_steps;
  spans.kernels = kernels_of_steps;
  return loaded->make_step(spans, spec, std::move(weights));
}

// Whatever way is asked for attends by these kernels; the self-check runs first.
absl::StatusOr<std::unique_ptr<model::LanguageModel>> LoadWith(
    std::shared_ptr<kernels::PassKernels> kernels, const std::string& variant,
    ComputeType type = ComputeType::kFloat32, Attention attention = Attention::kSpans) {
  const auto library = LoadLibrary(tandem::testing::BuildPath("lib/libtandem_torch.so"));
  if (!library.ok()) return library.status();
  loaded = *library;
  kernels_of_steps = std::move(kernels);
  attention_of_steps = attention;
  Library spans = **library;
  spans.make_step = MakeSpansStep;
  LoadOptions options;
  options.model.directory = GoldenDirectory(variant);
  options.model.pool_tokens = 64 * kPageTokens;
  options.type = type;
  return Load(options, spans);
}

// The self-check compares with the decoder, cuts, companions, places and trees.
TEST(StepSpansTest, TheSelfCheckPasses) {
  const std::pair<const char*, ComputeType> models[] = {
      {"gqa_odd", ComputeType::kFloat32}, {"llama3", ComputeType::kBfloat16},
      {"tied", ComputeType::kInt8},       {"qwen2_window", ComputeType::kFloat32},
      {"gemma3", ComputeType::kBfloat16}, {"gpt_neox", ComputeType::kFloat32},
      {"qwen2", ComputeType::kBfloat16},  {"granite", ComputeType::kBfloat16},
      {"olmo2", ComputeType::kBfloat16},  {"qwen3", ComputeType::kFloat32},
      {"llama3", ComputeType::kFloat16},  {"qwen2_window", ComputeType::kFloat16},
      {"gemma3", ComputeType::kFloat16},  {"qwen2", ComputeType::kFloat16},
      {"fp16", ComputeType::kFloat16}};
  for (const auto& [variant, type] : models) {
    const auto model = LoadWith(std::make_shared<HostPassKernels<>>(), variant, type);
    EXPECT_TRUE(model.ok()) << variant << ": " << model.status();
  }
}

// As near as by `gather` (step_parity_test.cc).
TEST(StepSpansTest, SixteenBitsAreNear) {
  for (const auto& [type, tolerance] :
       {std::pair(ComputeType::kBfloat16, 0.1), std::pair(ComputeType::kFloat16, 0.1 / 8)}) {
    for (const char* variant : {"llama3", "qwen2", "gemma3"}) {
      const auto spans = LoadWith(std::make_shared<HostPassKernels<>>(), variant, type);
      ASSERT_TRUE(spans.ok()) << variant << ": " << spans.status();
      std::mt19937 random(2);
      const auto tokens = RandomTokens(random, 24, (*spans)->info().vocabulary_size);
      const double deviation =
          DeviationFromDecoder(**spans, *LoadDecoder(GoldenDirectory(variant)), tokens);
      EXPECT_LT(deviation, tolerance) << variant;
      EXPECT_GT(deviation, 1e-5) << variant << ": nothing was rounded";
    }
  }
}

// Texts of several pages and partials, in pages that held another one before.
TEST(StepSpansTest, NeitherCutsNorEarlierTextsAreSeen) {
  const auto spans = LoadWith(std::make_shared<HostPassKernels<>>(), "llama3");
  ASSERT_TRUE(spans.ok()) << spans.status();
  const auto gather = LoadTorch(GoldenDirectory("llama3"));
  ASSERT_NE(gather, nullptr);
  std::mt19937 random(4);
  const uint32_t vocabulary = gather->info().vocabulary_size;
  const auto tokens = RandomTokens(random, 300, vocabulary);
  const auto wanted = AllLogits(**spans, tokens, 250);
  AllLogits(**spans, RandomTokens(random, 500, vocabulary), 250);
  EXPECT_EQ(AllLogits(**spans, tokens, 37), wanted);
  const auto gathered = AllLogits(*gather, tokens, 250);
  for (size_t i = 0; i < tokens.size(); ++i) {
    ASSERT_LT(model::testing::RelativeDeviation(wanted[i], gathered[i]), 1e-4) << i;
  }
}

// The host's kernels, which keep what a graph would have of each launch: all arguments but the
// addresses of LibTorch's own tensors, which a capture takes from its pool.
class RecordingKernels final : public kernels::PassKernels {
 public:
  absl::Status Attend(ElementType type, const kernels::AttentionArguments& a,
                      void* stream) override {
    kernels::AttentionArguments kept = a;
    kept.queries = nullptr;
    kept.out = nullptr;
    Keep("attend", &kept, sizeof(kept));
    return kernels_.Attend(type, a, stream);
  }
  absl::Status AttendByMma(ElementType type, const kernels::AttentionArguments& a,
                           void* stream) override {
    Keep("mma", &a.row_count, sizeof(a.row_count));
    return kernels_.AttendByMma(type, a, stream);
  }
  absl::Status AddNorm(ElementType type, const kernels::AddNormArguments& a, uint32_t rows,
                       void* stream) override {
    kernels::AddNormArguments kept = a;
    kept.residual = nullptr;
    kept.added = nullptr;
    kept.out = nullptr;
    Keep(absl::StrCat("norm of ", rows), &kept, sizeof(kept));
    return kernels_.AddNorm(type, a, rows, stream);
  }
  absl::Status RopeWrite(ElementType type, const kernels::RopeWriteArguments& a, uint32_t rows,
                         void* stream) override {
    kernels::RopeWriteArguments kept = a;
    kept.qkv = nullptr;
    kept.queries = nullptr;
    Keep(absl::StrCat("rope of ", rows), &kept, sizeof(kept));
    return kernels_.RopeWrite(type, a, rows, stream);
  }
  absl::Status Gate(ElementType type, const kernels::GateArguments& a, uint32_t rows,
                    void* stream) override {
    Keep(absl::StrCat("gate of ", rows), &a.size, sizeof(a.size));
    return kernels_.Gate(type, a, rows, stream);
  }
  absl::Status Quantize(const kernels::QuantizeArguments&, uint32_t, void*) override {
    return absl::UnimplementedError("the model is fp32");
  }
  absl::Status Scale(const kernels::ScaleArguments&, uint32_t, void*) override {
    return absl::UnimplementedError("the model is fp32");
  }

  // Since the last call.
  std::vector<std::string> Launches() { return std::exchange(launches_, {}); }

 private:
  void Keep(const std::string& name, const void* arguments, size_t size) {
    launches_.push_back(name + std::string(static_cast<const char*>(arguments), size));
  }

  HostPassKernels<> kernels_;
  std::vector<std::string> launches_;
};

TEST(StepSpansTest, TheSelfCheckPassesOnTensorCores) {
  const std::pair<const char*, ComputeType> models[] = {{"llama3", ComputeType::kBfloat16},
                                                        {"qwen2_window", ComputeType::kFloat16}};
  for (const auto& [variant, type] : models) {
    const auto recorder = std::make_shared<RecordingKernels>();
    const auto model = LoadWith(recorder, variant, type, Attention::kMma);
    ASSERT_TRUE(model.ok()) << variant << ": " << model.status();
    std::vector<std::string> launches = recorder->Launches();
    EXPECT_GT(std::count_if(launches.begin(), launches.end(),
                            [](const std::string& one) { return one[0] == 'm'; }),
              50);
  }
  const auto refused = LoadWith(std::make_shared<HostPassKernels<>>(), "llama3",
                                ComputeType::kFloat32, Attention::kMma);
  EXPECT_THAT(std::string(refused.status().message()),
              ::testing::HasSubstr("attention by mma is of bf16 or fp16"));
}

// A graph of one pass computes all passes of its shape, so they launch the same.
TEST(StepSpansTest, PassesOfOneShapeLaunchTheSame) {
  const auto recorder = std::make_shared<RecordingKernels>();
  const auto model = LoadWith(recorder, "llama3");
  ASSERT_TRUE(model.ok()) << model.status();
  std::mt19937 random(5);
  const uint32_t vocabulary = (*model)->info().vocabulary_size;
  const auto text = RandomTokens(random, 500, vocabulary);
  const absl::Span<const uint32_t> tokens(text);
  const auto launches = [&](absl::Span<const model::ForwardPart> parts) {
    recorder->Launches();
    EXPECT_TRUE((*model)->Forward(parts).ok());
    return recorder->Launches();
  };
  const auto cache = [&](size_t held) {
    auto made = (*model)->NewCache(500);
    EXPECT_TRUE(made.ok()) << made.status();
    for (size_t at = 0; at < held; at += 30) {
      EXPECT_TRUE((*model)->Forward({{made->get(), tokens.subspan(at, 30), 30}}).ok());
    }
    return *std::move(made);
  };
  const auto first = cache(0), second = cache(450), third = cache(300);
  const std::vector<std::string> one = launches({{first.get(), tokens.first(1), 0}});
  ASSERT_FALSE(one.empty());
  EXPECT_EQ(launches({{second.get(), tokens.first(5), 0}, {first.get(), tokens.first(2), 0}}), one);
  const std::vector<int> parents = {-1, 0, 0, 2, -1, 4};
  EXPECT_EQ(launches({{third.get(), tokens.first(6), 0, parents}}), one);
  // Another shape: the records tell passes apart.
  EXPECT_NE(launches({{second.get(), tokens.first(20), 0}, {first.get(), tokens.first(20), 0}}),
            one);
}

// Between products of a layer nothing but these kernels runs: norms of queries and keys, norms of
// what is added, a scale of it and GELU are theirs as well.
TEST(StepSpansTest, EveryFamilyWithRmsNormsAndAGateTakesTheKernels) {
  struct Family {
    const char* variant;
    int norms_less = 0;  // than two per layer
  };
  for (const Family& family :
       {Family{"llama3"}, {"qwen3"}, {"gemma3"}, {"granite"}, {"smollm3"}, {"olmo2", 1}}) {
    const auto recorder = std::make_shared<RecordingKernels>();
    const auto model = LoadWith(recorder, family.variant);
    ASSERT_TRUE(model.ok()) << family.variant << ": " << model.status();
    auto cache = (*model)->NewCache(10);
    ASSERT_TRUE(cache.ok());
    recorder->Launches();
    const std::vector<uint32_t> tokens = {1, 2, 3};
    ASSERT_TRUE((*model)->Forward({{cache->get(), tokens, 3}}).ok());
    std::map<char, int> counts;  // by the first letter
    for (const std::string& launch : recorder->Launches()) ++counts[launch[0]];
    const int layers = counts['a'];
    EXPECT_GT(layers, 1);
    EXPECT_EQ(counts['r'], layers) << family.variant;
    EXPECT_EQ(counts['g'], layers) << family.variant;
    EXPECT_EQ(counts['n'], 2 * layers - family.norms_less) << family.variant;
  }
}

template <AttentionFault kInAttention, NormRopeFault kInNormRope = NormRopeFault::kNone>
void ExpectFound(const char* variant = "llama3") {
  const auto model =
      LoadWith(std::make_shared<HostPassKernels<kInAttention, kInNormRope>>(), variant);
  EXPECT_TRUE(absl::IsFailedPrecondition(model.status()))
      << static_cast<int>(kInAttention) << ", " << static_cast<int>(kInNormRope) << ": "
      << model.status();
}

template <AttentionFault kInAttention>
void ExpectFoundOnTensorCores(const char* variant = "llama3") {
  const auto model = LoadWith(std::make_shared<HostPassKernels<kInAttention>>(), variant,
                              ComputeType::kBfloat16, Attention::kMma);
  EXPECT_TRUE(absl::IsFailedPrecondition(model.status()))
      << static_cast<int>(kInAttention) << ": " << model.status();
}

TEST(StepSpansTest, TheSelfCheckFindsPlantedFaultsOnTensorCores) {
  ExpectFoundOnTensorCores<AttentionFault::kLastPositionLost>();
  ExpectFoundOnTensorCores<AttentionFault::kPagesIgnored>();
  ExpectFoundOnTensorCores<AttentionFault::kSharesForgotten>();
  ExpectFoundOnTensorCores<AttentionFault::kQueriesUnscaled>();
  ExpectFoundOnTensorCores<AttentionFault::kHalvesSwapped>();
}

TEST(StepSpansTest, TheSelfCheckFindsATypeThatIsTakenForAnother) {
  using Mistaken =
      HostPassKernels<AttentionFault::kNone, NormRopeFault::kNone, kernels::Int8RowsFault::kNone,
                      kernels::TypeFault::kFloat16AsBfloat16>;
  const auto model = LoadWith(std::make_shared<Mistaken>(), "llama3", ComputeType::kFloat16);
  EXPECT_TRUE(absl::IsFailedPrecondition(model.status())) << model.status();
}

TEST(StepSpansTest, TheSelfCheckFindsPlantedFaults) {
  ExpectFound<AttentionFault::kLastPositionLost>();
  ExpectFound<AttentionFault::kBranchesIgnored>();
  ExpectFound<AttentionFault::kPagesIgnored>();
  ExpectFound<AttentionFault::kPartialsOfTheBatch>();
  ExpectFound<AttentionFault::kSharesForgotten>();
  ExpectFound<AttentionFault::kBarrierMissing>();
  ExpectFound<AttentionFault::kWindowIgnored>("qwen2_window");
  ExpectFound<AttentionFault::kNone, NormRopeFault::kEpsilonForgotten>();
  ExpectFound<AttentionFault::kNone, NormRopeFault::kAngleOfCell>();
  ExpectFound<AttentionFault::kNone, NormRopeFault::kNeighboursPaired>();
  ExpectFound<AttentionFault::kNone, NormRopeFault::kKeyUnrotated>();
  ExpectFound<AttentionFault::kNone, NormRopeFault::kPagesIgnored>();
  ExpectFound<AttentionFault::kNone, NormRopeFault::kBiasForgotten>("qwen2");
  ExpectFound<AttentionFault::kNone, NormRopeFault::kGateForUp>();
  ExpectFound<AttentionFault::kNone, NormRopeFault::kSiluForGelu>("gemma3");
  ExpectFound<AttentionFault::kNone, NormRopeFault::kPlusOneForgotten>("gemma3");
  ExpectFound<AttentionFault::kNone, NormRopeFault::kPostNormForgotten>("gemma3");
  ExpectFound<AttentionFault::kNone, NormRopeFault::kPostNormForgotten>("olmo2");
  ExpectFound<AttentionFault::kNone, NormRopeFault::kScaleForgotten>("granite");
  ExpectFound<AttentionFault::kNone, NormRopeFault::kHeadNormOfWidth>("qwen3");
  ExpectFound<AttentionFault::kNone, NormRopeFault::kHeadNormOfWidth>("olmo2");
  ExpectFound<AttentionFault::kNone, NormRopeFault::kHeadNormAfterRotation>("qwen3");
  ExpectFound<AttentionFault::kNone, NormRopeFault::kAllRotated>("gpt_neox");
}

}  // namespace
}  // namespace tandem::torch
