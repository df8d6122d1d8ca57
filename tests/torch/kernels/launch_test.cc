// Launches against a driver that records them.
#include "torch/kernels/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "torch/kernels/judge_row.h"
#include "torch/kernels/kernel_sources.h"

namespace tandem::kernels {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What was asked of the driver. Its functions are plain ones, so there is one.
struct Recorder {
  std::vector<std::string> names;     // of the functions that were given out
  std::vector<std::string> launches;  // kernel, blocks and threads
  std::vector<std::string> arguments;
  int modules = 0;
  int launches_left = 1000;  // before one fails
  void* stream = nullptr;
  unsigned event_flags = 0;
};
Recorder recorder;

constexpr int kFailure = 700;
size_t argument_bytes = 0;  // of a launch

DriverFunctions Fake() {
  DriverFunctions f;
  f.init = [](unsigned) { return 0; };
  f.error_string = [](int, const char** text) {
    *text = "planted failure";
    return 0;
  };
  f.device_attribute = [](int* value, int attribute, int device) {
    if (device != 0) return kFailure;
    *value = attribute == 75 ? 8 : attribute == 76 ? 9 : 132;
    return 0;
  };
  f.device_name = [](char* name, int bytes, int device) {
    std::strncpy(name, "NVIDIA H200", static_cast<size_t>(bytes));
    return device == 0 ? 0 : kFailure;
  };
  f.free_memory = [](size_t* free, size_t* all) {
    *free = 5 << 20;
    *all = 9 << 20;
    return 0;
  };
  f.create_event = [](void** event, unsigned flags) {
    recorder.event_flags = flags;
    *event = &recorder;
    return 0;
  };
  f.load_module = [](void** module, const void* image) {
    if (std::strncmp(static_cast<const char*>(image), "cubin", 5) != 0) return kFailure;
    ++recorder.modules;
    *module = &recorder;
    return 0;
  };
  f.unload_module = [](void*) {
    --recorder.modules;
    return 0;
  };
  f.get_function = [](void** function, void*, const char* name) {
    if (std::string(name) == "absent") return kFailure;
    recorder.names.push_back(name);
    *function = reinterpret_cast<void*>(recorder.names.size());
    return 0;
  };
  f.launch = [](void* function, unsigned x, unsigned y, unsigned z, unsigned threads,
                unsigned block_y, unsigned block_z, unsigned shared, void* stream, void** arguments,
                void** extra) {
    EXPECT_EQ(z * block_y * block_z, 1u);
    EXPECT_EQ(shared, 0u);
    EXPECT_EQ(extra, nullptr);
    if (recorder.launches_left-- == 0) return kFailure;
    recorder.stream = stream;
    recorder.launches.push_back(absl::StrCat(recorder.names[reinterpret_cast<size_t>(function) - 1],
                                             " ", x, "x", y, " ", threads));
    recorder.arguments.emplace_back(static_cast<const char*>(arguments[0]), argument_bytes);
    return 0;
  };
  return f;
}

class LaunchTest : public ::testing::Test {
 protected:
  LaunchTest() : driver_(Fake()) { recorder = {}; }

  std::unique_ptr<KernelModule> Load(const std::string& unit) {
    for (const KernelProgram& program : KernelPrograms()) {
      if (program.source.name != absl::StrCat("torch/kernels/", unit)) continue;
      auto module = driver_.LoadModule("cubin", program.kernels);
      EXPECT_TRUE(module.ok()) << module.status();
      return *std::move(module);
    }
    return nullptr;
  }

  CudaDriver driver_;
};

TEST_F(LaunchTest, AJudgesKernelsRunInTheirOrderOverAllRows) {
  const auto judge = Load("judge.cu");
  JudgeArguments arguments;
  arguments.vocabulary_size = JudgeTraits::kColumn * 2 + 1;
  argument_bytes = sizeof(arguments);
  int stream = 0;
  ASSERT_TRUE(LaunchJudge(*judge, arguments, 5, 3, &stream).ok());
  const std::string threads = absl::StrCat(JudgeTraits::kThreads);
  EXPECT_THAT(
      recorder.launches,
      ElementsAre(
          "tandem_judge_prepare 3x1 " + threads, "tandem_judge_largest 3x3 " + threads,
          "tandem_judge_weights 3x3 " + threads, "tandem_judge_sums 3x8 " + threads,
          "tandem_judge_distribution 3x1 " + threads, "tandem_judge_probabilities 3x3 " + threads,
          "tandem_judge_verdict 3x1 " + threads, "tandem_judge_prepare 2x1 " + threads,
          "tandem_judge_largest 2x3 " + threads, "tandem_judge_weights 2x3 " + threads,
          "tandem_judge_sums 2x8 " + threads, "tandem_judge_distribution 2x1 " + threads,
          "tandem_judge_probabilities 2x3 " + threads, "tandem_judge_verdict 2x1 " + threads));
  EXPECT_EQ(recorder.stream, &stream);
  for (size_t i = 0; i < 14; ++i) {
    JudgeArguments given;
    std::memcpy(&given, recorder.arguments[i].data(), sizeof(given));
    EXPECT_EQ(given.first_row, i < 7 ? 0u : 3u);
    EXPECT_EQ(given.vocabulary_size, arguments.vocabulary_size);
  }
}

TEST_F(LaunchTest, AFailureNamesTheKernelAndEndsTheTurn) {
  const auto judge = Load("judge.cu");
  argument_bytes = sizeof(JudgeArguments);
  JudgeArguments arguments;
  arguments.vocabulary_size = 10;
  recorder.launches_left = 4;
  const absl::Status status = LaunchJudge(*judge, arguments, 1, 1, nullptr);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("tandem_judge_distribution"));
  EXPECT_THAT(status.message(), HasSubstr("planted failure (700)"));
  EXPECT_EQ(recorder.launches.size(), 4u);
}

// What rows see is on the device: a graph has the grids.
TEST_F(LaunchTest, GridsOfAttentionDependOnRowsAndHeadsAlone) {
  const auto attention = Load("attention.cu");
  AttentionArguments arguments;
  argument_bytes = sizeof(arguments);
  arguments.row_count = 5;
  arguments.layer.kv_heads = 8;
  arguments.layer.head_size = 100;
  arguments.heads = 16;
  ASSERT_TRUE(LaunchAttention(*attention, ElementType::kBfloat16, arguments, nullptr).ok());
  EXPECT_THAT(recorder.launches, ElementsAre("tandem_attend_bfloat16 1024x1 256",
                                             "tandem_combine_partials_bfloat16 5x7 256"));
  recorder.launches.clear();
  ASSERT_TRUE(LaunchAttention(*attention, ElementType::kFloat16, arguments, nullptr).ok());
  EXPECT_THAT(recorder.launches, ElementsAre("tandem_attend_float16 1024x1 256",
                                             "tandem_combine_partials_float16 5x7 256"));
  recorder.launches.clear();
  const auto mma = Load("attention_mma.cu");
  ASSERT_TRUE(
      LaunchAttentionByMma(*mma, *attention, ElementType::kBfloat16, arguments, nullptr).ok());
  EXPECT_THAT(recorder.launches, ElementsAre("tandem_attend_mma_bfloat16 1024x1 256",
                                             "tandem_combine_partials_bfloat16 5x7 256"));
  recorder.launches.clear();
  arguments.row_count = 0;
  ASSERT_TRUE(LaunchAttention(*attention, ElementType::kBfloat16, arguments, nullptr).ok());
  EXPECT_TRUE(recorder.launches.empty()) << "a grid without blocks is an error for the driver";
}

TEST_F(LaunchTest, NormHasABlockForEachRowAndTheOthersForSomeNumbersOfIt) {
  const auto norm_rope = Load("norm_rope.cu");
  argument_bytes = 1;
  const auto add_norm = [&](ElementType type, uint32_t rows) {
    return LaunchAddNorm(*norm_rope, type, AddNormArguments(), rows, nullptr).ok();
  };
  ASSERT_TRUE(add_norm(ElementType::kFloat32, 3));
  ASSERT_TRUE(add_norm(ElementType::kBfloat16, 4));
  ASSERT_TRUE(add_norm(ElementType::kFloat16, 5));
  RopeWriteArguments rotation;
  rotation.heads = 12;
  rotation.layer.kv_heads = 4;
  rotation.layer.head_size = 64;  // eight heads per block
  argument_bytes = sizeof(rotation);
  ASSERT_TRUE(LaunchRopeWrite(*norm_rope, ElementType::kFloat32, rotation, 5, nullptr).ok());
  rotation.heads = rotation.layer.kv_heads = 1;
  ASSERT_TRUE(LaunchRopeWrite(*norm_rope, ElementType::kBfloat16, rotation, 6, nullptr).ok());
  ASSERT_TRUE(LaunchRopeWrite(*norm_rope, ElementType::kFloat16, rotation, 7, nullptr).ok());
  GateArguments gate;
  gate.size = 2 * GateColumn(NormRopeTraits::kThreads) + 1;
  argument_bytes = sizeof(gate);
  ASSERT_TRUE(LaunchGate(*norm_rope, ElementType::kFloat32, gate, 7, nullptr).ok());
  gate.size = GateColumn(NormRopeTraits::kThreads);
  ASSERT_TRUE(LaunchGate(*norm_rope, ElementType::kBfloat16, gate, 8, nullptr).ok());
  ASSERT_TRUE(LaunchGate(*norm_rope, ElementType::kFloat16, gate, 9, nullptr).ok());
  EXPECT_THAT(recorder.launches,
              ElementsAre("tandem_add_norm_float32 3x1 256", "tandem_add_norm_bfloat16 4x1 256",
                          "tandem_add_norm_float16 5x1 256", "tandem_rope_write_float32 5x3 256",
                          "tandem_rope_write_bfloat16 6x1 256", "tandem_rope_write_float16 7x1 256",
                          "tandem_gate_float32 7x3 256", "tandem_gate_bfloat16 8x1 256",
                          "tandem_gate_float16 9x1 256"));
}

TEST_F(LaunchTest, RowsOfInt8HaveABlockEachAndScalesOneForSomeNumbers) {
  const auto int8_rows = Load("int8_rows.cu");
  argument_bytes = sizeof(QuantizeArguments);
  ASSERT_TRUE(LaunchQuantize(*int8_rows, QuantizeArguments(), 5, nullptr).ok());
  ScaleArguments scale;
  scale.size = 300;
  argument_bytes = sizeof(scale);
  ASSERT_TRUE(LaunchScale(*int8_rows, scale, 6, nullptr).ok());
  EXPECT_THAT(recorder.launches, ElementsAre("tandem_quantize 5x1 256", "tandem_scale 6x2 256"));
}

TEST_F(LaunchTest, ModulesAreGivenBack) {
  { const auto judge = Load("judge.cu"); }
  EXPECT_EQ(recorder.modules, 0);
  const auto lacks = driver_.LoadModule("cubin", {"tandem_judge_verdict", "absent"});
  EXPECT_THAT(lacks.status().message(), HasSubstr("lacks absent"));
  EXPECT_EQ(recorder.modules, 0);
  const auto refused = driver_.LoadModule("nothing", {});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(recorder.modules, 0);
}

TEST_F(LaunchTest, TheDriverSaysWhatADeviceIs) {
  EXPECT_EQ(*driver_.Architecture(), 89);
  const absl::StatusOr<CardFacts> facts = driver_.Facts();
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->name, "NVIDIA H200");
  EXPECT_EQ(facts->multiprocessors, 132);
  EXPECT_EQ(facts->free_bytes, 5 << 20);
  const CudaDriver another(Fake(), /*device=*/1);
  EXPECT_EQ(another.Architecture().status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(another.Architecture().status().message(), HasSubstr("CUDA device 1"));
}

TEST_F(LaunchTest, ThreadsSleepUntilAnEvent) {
  ASSERT_TRUE(driver_.MakeEvent().ok());
  EXPECT_EQ(recorder.event_flags, 1u) << "CU_EVENT_BLOCKING_SYNC";
}

TEST(CudaDriverLoad, OneErrorSaysWhatIsMissing) {
  for (const char* library : {"/nowhere/libcuda.so.1", "libm.so.6"}) {
    const auto driver = CudaDriver::Load(/*device=*/0, library);
    EXPECT_EQ(driver.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(driver.status().message(), HasSubstr(library));
    EXPECT_THAT(driver.status().message(), HasSubstr("install the driver"));
  }
}

}  // namespace
}  // namespace tandem::kernels
