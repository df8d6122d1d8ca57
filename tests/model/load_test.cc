#include "model/load.h"

#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/process/room.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/memory_need.h"
#include "tests/model/files.h"
#include "tests/model/support.h"
#include "tests/support/log_lines.h"

namespace tandem::model::testing {
namespace {

using ::testing::HasSubstr;

std::string LoadError(const std::string& directory) {
  return std::string(Load({.directory = directory}).status().message());
}

TEST(Load, OptionsAreCheckedTogether) {
  LoadOptions options;
  options.threads = 0;
  options.max_rows = -1;
  options.pool_tokens = -5;
  options.cache_dtype = Dtype::kInt8;
  absl::Status status = Load(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const char* what : {"directory is empty", "threads is 0", "max_rows is -1",
                           "pool_tokens is -5", "cache_dtype is int8; auto, fp32 or bf16"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
  }
}

TEST(Load, NamesEveryMissingUnexpectedAndMisshapedTensor) {
  TemporaryDirectory directory;
  directory.CopyModel("llama2");
  directory.EditHeader([](nlohmann::json& header) {
    header["model.extra.weight"] = header["model.norm.weight"];
    header.erase("model.norm.weight");
    header.erase("model.layers.1.mlp.up_proj.weight");
    header["model.layers.0.mlp.down_proj.weight"]["shape"] = {44, 32};
    header["model.layers.0.self_attn.q_proj.weight"]["dtype"] = "I32";
  });
  const std::string error = LoadError(directory.path());
  EXPECT_THAT(error, HasSubstr("2 missing: model.layers.1.mlp.up_proj.weight [44, 32], "
                               "model.norm.weight [32]"));
  EXPECT_THAT(error, HasSubstr("model.layers.0.mlp.down_proj.weight is [44, 32], config.json makes "
                               "it [32, 44]"));
  EXPECT_THAT(error, HasSubstr("q_proj.weight is I32; supported: F32, BF16, F16"));
  EXPECT_THAT(error, HasSubstr("1 unexpected: model.extra.weight [32]"));
}

TEST(Load, TruncatedWeightsAndMissingFiles) {
  TemporaryDirectory directory;
  directory.CopyModel("llama2");
  std::string bytes = ReadBytes(directory.file("model.safetensors"));
  WriteBytes(directory.file("model.safetensors"), bytes.substr(0, bytes.size() - 100));
  absl::Status status = Load({.directory = directory.path()}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("truncated: its tensors end at byte"));
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), 8);
  const size_t data = bytes.size() - 8 - header;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(std::to_string(data) + " after the header, the file at " +
                        std::to_string(data - 100)));
  std::filesystem::remove(directory.file("model.safetensors"));
  EXPECT_THAT(LoadError(directory.path()), HasSubstr("has neither model.safetensors nor"));
  EXPECT_THAT(LoadError(directory.file("nowhere")), HasSubstr("does not exist"));
}

TEST(Load, ATiedModelMayRepeatItsEmbeddingButNotContradictIt) {
  TemporaryDirectory directory;
  directory.CopyModel("llama2");
  directory.EditJson("config.json", [](auto& json) { json["tie_word_embeddings"] = true; });
  EXPECT_THAT(LoadError(directory.path()), HasSubstr("lm_head.weight differs"));
}

// What safetensors' save_model writes when it keeps the other name of the one matrix.
TEST(Load, ATiedModelMayHoldItsMatrixAsTheOutputAlone) {
  TemporaryDirectory directory;
  directory.CopyModel("tied");
  const auto model = *Load({.directory = directory.path()});
  directory.EditHeader([](nlohmann::json& header) {
    header["lm_head.weight"] = header["model.embed_tokens.weight"];
    header.erase("model.embed_tokens.weight");
    header["__metadata__"] = {{"format", "pt"}, {"model.embed_tokens.weight", "lm_head.weight"}};
  });
  const auto renamed = Load({.directory = directory.path()});
  ASSERT_TRUE(renamed.ok()) << renamed.status();
  const std::vector<uint32_t> prompt = {5, 6, 7};
  const auto expected = AllLogits(*model, prompt, 3);
  const auto logits = AllLogits(**renamed, prompt, 3);
  ASSERT_EQ(logits.size(), expected.size());
  for (size_t i = 0; i < logits.size(); ++i) EXPECT_TRUE(SameBits(logits[i], expected[i])) << i;

  directory.EditJson("config.json", [](auto& json) { json["tie_word_embeddings"] = false; });
  EXPECT_THAT(LoadError(directory.path()), HasSubstr("1 missing: model.embed_tokens.weight"))
      << "two matrices, of which one is not there";
}

TEST(Load, ModelIdFollowsTheContentOnly) {
  TemporaryDirectory directory;
  directory.CopyModel("llama3");
  const std::string id = (*Load({.directory = directory.path()}))->info().model_id;
  EXPECT_EQ((*Load({.directory = GoldenDirectory("llama3_config4")}))->info().model_id, id);
  EXPECT_NE((*Load({.directory = GoldenDirectory("llama2")}))->info().model_id, id);
  std::string bytes = ReadBytes(directory.file("model.safetensors"));
  bytes[bytes.size() - 3] = static_cast<char>(bytes[bytes.size() - 3] ^ 1);
  WriteBytes(directory.file("model.safetensors"), bytes);
  EXPECT_NE((*Load({.directory = directory.path()}))->info().model_id, id);
  directory.CopyModel("llama3");
  directory.EditJson("config.json", [](auto& json) { json["rms_norm_eps"] = 1e-4; });
  EXPECT_NE((*Load({.directory = directory.path()}))->info().model_id, id);
}

// Services of two versions must agree on whether they hold the same model.
TEST(Load, ModelIdsStayAsTheyAre) {
  EXPECT_EQ((*Load({.directory = GoldenDirectory("llama3")}))->info().model_id,
            "llama-f3123fb1d853d44a4aee82906b063ec5");
  EXPECT_EQ((*Load({.directory = GoldenDirectory("biases")}))->info().model_id,
            "llama-26c151bf201194109575ff56ca9d5915");
}

TEST(Load, SamplingDefaultsAreTheFilesUnlessNotWanted) {
  TemporaryDirectory directory;
  directory.CopyModel("llama3");
  const auto plain = *Load({.directory = directory.path()});
  directory.EditJson("generation_config.json", [](auto& json) {
    json["temperature"] = 0.5;
    json["top_k"] = 20;
  });
  const auto told = *Load({.directory = directory.path()});
  EXPECT_EQ(told->info().sampling_defaults.temperature, 0.5);
  EXPECT_EQ(told->info().sampling_defaults.top_k, 20u);
  EXPECT_EQ(told->info().model_id, plain->info().model_id) << "they change no logit";
  const auto none = *Load({.directory = directory.path(), .sampling_defaults = false});
  EXPECT_EQ(none->info().sampling_defaults, SamplingDefaults());
  EXPECT_EQ(none->info().eos_token_ids, told->info().eos_token_ids);
  {
    tandem::testing::LogRecorder log;
    ASSERT_TRUE(Load({.directory = directory.path()}).ok());
    EXPECT_TRUE(log.Lines().empty());
    directory.EditJson("generation_config.json", [](auto& json) {
      json["max_length"] = 20;
      json["max_time"] = 3.5;
    });
    ASSERT_TRUE(Load({.directory = directory.path()}).ok());
    ASSERT_EQ(log.Lines().size(), 1u);
    EXPECT_EQ(log.Lines()[0].event, "generation_config_fields_unused");
    EXPECT_EQ(log.Lines()[0].fields.at("fields"), "max_length,max_time");
    ASSERT_TRUE(Load({.directory = directory.path(), .sampling_defaults = false}).ok());
    EXPECT_EQ(log.Lines().size(), 1u) << "the file is not looked at";
  }
  directory.EditJson("generation_config.json", [](auto& json) { json["top_k"] = "many"; });
  EXPECT_THAT(LoadError(directory.path()),
              HasSubstr("generation_config.json: top_k is \"many\": must be a whole number"));
  EXPECT_TRUE(Load({.directory = directory.path(), .sampling_defaults = false}).ok());
}

TEST(Load, ReportsProgressToTheEnd) {
  std::vector<std::pair<int64_t, int64_t>> calls;
  LoadOptions options;
  options.directory = GoldenDirectory("llama2");
  options.progress = [&](int64_t done, int64_t total) { calls.emplace_back(done, total); };
  ASSERT_TRUE(Load(options).ok());
  ASSERT_GE(calls.size(), 2u);
  EXPECT_LT(calls.front().first, calls.front().second);
  EXPECT_EQ(calls.back().first, calls.back().second);
}

TEST(Load, ReportsWhatIsHeld) {
  auto report = [](const std::string& variant, Dtype dtype) {
    LoadReport report;
    LoadOptions options;
    options.directory = GoldenDirectory(variant);
    options.pool_tokens = 512;
    options.dtype = dtype;
    options.report = &report;
    EXPECT_TRUE(Load(options).ok());
    return report;
  };
  const LoadReport wide = report("llama2", Dtype::kAuto);
  EXPECT_TRUE(wide.exact);
  EXPECT_GE(wide.weight_bytes, wide.file_bytes);  // padded to whole panels
  EXPECT_GT(wide.cache_bytes, 0);
  EXPECT_THAT(wide.Text(), HasSubstr(absl::StrCat("cache of ", wide.cache_tokens, " tokens")));
  const LoadReport rounded = report("llama2", Dtype::kBfloat16);
  EXPECT_FALSE(rounded.exact);
  EXPECT_EQ(rounded.file_bytes, wide.file_bytes);
  EXPECT_LT(rounded.weight_bytes, 0.6 * wide.weight_bytes);
  EXPECT_THAT(rounded.Text(), HasSubstr("dtype bf16: rounded"));
  const LoadReport int8 = report("llama2", Dtype::kInt8);
  EXPECT_FALSE(int8.exact);
  EXPECT_LT(int8.weight_bytes, 0.41 * wide.weight_bytes);  // small layers: scales, whole panels
  EXPECT_LT(report("llama2", Dtype::kInt4).weight_bytes, 0.9 * int8.weight_bytes);
  EXPECT_THAT(report("bf16", Dtype::kAuto).Text(), HasSubstr("dtype auto)"));
  EXPECT_LT(report("fp16", Dtype::kAuto).weight_bytes,
            0.6 * report("fp16", Dtype::kFloat32).weight_bytes);
}

// Four bits lose most in the output; a matrix that is tied to it is read by rows, too.
TEST(Load, TheOutputOfInt4IsInt8) {
  for (const char* variant : {"llama2", "tied"}) {
    const std::string directory = GoldenDirectory(variant);
    const auto config = *ReadConfig(directory);
    const auto checkpoint = *Checkpoint::Open(directory);
    const auto tensors = *FindTensors(config.spec, config.family->tensors, checkpoint);
    const DecoderWeights int4(config.spec, tensors, Dtype::kInt4, nullptr);
    const DecoderWeights int8(config.spec, tensors, Dtype::kInt8, nullptr);
    EXPECT_EQ(int4.layers()[0].qkv.matrix.type(), cpu::WeightType::kInt4);
    EXPECT_EQ(int4.output().matrix.type(), cpu::WeightType::kInt8Grouped);
    EXPECT_EQ(int4.output().matrix.bytes(), int8.output().matrix.bytes());
    std::vector<float> one(config.spec.hidden_size);
    std::vector<float> two(config.spec.hidden_size);
    int4.Embed(7, 0, one.data());
    int8.Embed(7, 0, two.data());
    EXPECT_EQ(one, two) << variant;
  }
}

// Room for about half of the weights.
TEST(Load, WhatDoesNotFitStaysInTheFileAndIsSaid) {
  LoadReport report;
  LoadOptions options;
  options.directory = tandem::testing::SourcePath("demo/target");
  options.pool_tokens = 1024;
  options.report = &report;
  options.offload = true;
  const auto whole = *Load(options);
  EXPECT_EQ(report.offloaded_bytes, 0) << "all of it fits";
  const int64_t weights = report.weight_bytes;
  auto config = ReadConfig(options.directory);
  auto checkpoint = Checkpoint::Open(options.directory);
  auto tensors = FindTensors(config->spec, config->family->tensors, *checkpoint);
  const auto need = MemoryNeed(config->spec, *tensors, Dtype::kAuto, 1024, options.max_rows);
  options.reserved_bytes = process::ThisFreeMemory().memory_bytes - process::WrittenMemory() -
                           need[1].bytes - need[2].bytes - process::ServiceRoom().bytes -
                           weights / 2;
  const auto some = Load(options);
  ASSERT_TRUE(some.ok()) << some.status();
  EXPECT_GT(report.offloaded_bytes, 0);
  EXPECT_LT(report.weight_bytes, weights);
  EXPECT_THAT(report.Text(), HasSubstr("MB of weights stay in the file, and each pass reads them"));
  const std::vector<uint32_t> text = {1, 5, 9, 33, 2, 70, 11, 64};
  EXPECT_EQ(AllLogits(**some, text, 3), AllLogits(*whole, text, 8));
  options.offload = false;
  options.reserved_bytes += process::ServiceRoom().bytes;  // which are addresses alone here
  EXPECT_EQ(Load(options).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(CheckLoad(options).status().code(), absl::StatusCode::kResourceExhausted);
}

// The cache is written to as texts come, so a pool beyond the memory would be found by the kernel.
TEST(Load, APoolBeyondTheMemoryIsRefusedWithBothNumbers) {
  LoadOptions options;
  options.directory = tandem::testing::SourcePath("demo/target");
  options.pool_tokens = int64_t{1} << 32;
  const absl::Status status = Load(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  const std::string message(status.message());
  EXPECT_THAT(message, HasSubstr(options.directory + ": there is not enough memory. Needed: "));
  EXPECT_THAT(message, ::testing::ContainsRegex(", cache [0-9]+\\.[0-9] MB, "));
  EXPECT_THAT(message, ::testing::ContainsRegex("there are [0-9]+\\.[0-9] MB in the machine or"));
  // What it says would fit does.
  const size_t at = message.find("room for a cache of ");
  ASSERT_NE(at, std::string::npos) << message;
  options.pool_tokens = std::stoll(message.substr(at + std::strlen("room for a cache of ")));
  EXPECT_GT(options.pool_tokens, 1024);
  options.pool_tokens -= options.pool_tokens / 50;  // the process has grown since
  const auto bytes = CheckLoad(options);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  // Of two models of a process: the first one's are reserved.
  options.reserved_bytes = *bytes;
  EXPECT_EQ(CheckLoad(options).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(Load, AChosenPoolFitsBesideTheWeights) {
  LoadReport report;
  LoadOptions options;
  options.directory = tandem::testing::SourcePath("demo/target");
  options.report = &report;
  ASSERT_TRUE(Load(options).ok());
  const int64_t roomy = report.cache_tokens;
  EXPECT_GE(roomy, 1024);
  // All but the weights and a hundredth of that cache is taken.
  const int64_t free = process::ThisFreeMemory().memory_bytes - process::WrittenMemory();
  options.pool_tokens = 1;
  const int64_t others = *CheckLoad(options);
  options.pool_tokens = 0;
  options.reserved_bytes = free - others - process::ServiceRoom().bytes - report.cache_bytes / 100;
  const auto tight = Load(options);
  ASSERT_TRUE(tight.ok()) << tight.status();
  EXPECT_LT(report.cache_tokens, roomy / 20);
  EXPECT_GE(report.cache_tokens, 1);
}

// 16 bits of a value: the sign, and all ones of the exponent, are where they are in fp32.
std::string WithValue(const std::string& bytes, const std::string& tensor, int element,
                      uint32_t value, size_t size) {
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  const auto header = nlohmann::json::parse(bytes.substr(8, length));
  const size_t begin = header.at(tensor).at("data_offsets").at(0).get<size_t>();
  std::string changed = bytes;
  std::memcpy(changed.data() + 8 + length + begin + element * size, &value, size);
  return changed;
}

TEST(Load, WeightsThatAreNotNumbersAreRefused) {
  struct Case {
    const char* model;
    const char* tensor;
    uint32_t value;
    size_t size;
    const char* what;
  };
  for (const Case& one :
       {Case{"llama2", "model.layers.1.mlp.up_proj.weight", 0x7fc00000, 4, "NaN"},
        Case{"llama2", "model.norm.weight", 0xff800000, 4, "infinite"},
        Case{"llama2", "lm_head.weight", 0x7f800001, 4, "NaN"},
        Case{"bf16", "model.layers.0.self_attn.q_proj.weight", 0xff80, 2, "infinite"},
        Case{"bf16", "model.embed_tokens.weight", 0x7f81, 2, "NaN"},
        Case{"fp16", "model.layers.0.self_attn.q_proj.weight", 0x7c00, 2, "infinite"},
        Case{"fp16", "model.norm.weight", 0xfe00, 2, "NaN"}}) {
    SCOPED_TRACE(absl::StrCat(one.model, " ", one.tensor));
    TemporaryDirectory directory(one.model);
    directory.CopyModel(one.model);
    const std::string bytes = ReadBytes(directory.file("model.safetensors"));
    for (const int element : {0, 7}) {
      WriteBytes(directory.file("model.safetensors"),
                 WithValue(bytes, one.tensor, element, one.value, one.size));
      const absl::Status status = Load({.directory = directory.path()}).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(absl::StrCat("element ", element, " of ", one.tensor, " [")));
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(absl::StrCat("] is ", one.what, "; download the model again")));
    }
    // The largest finite value of each type is one.
    const uint32_t largest = one.size == 4                      ? 0x7f7fffff
                             : one.model == std::string("fp16") ? 0x7bff
                                                                : 0x7f7f;
    WriteBytes(directory.file("model.safetensors"),
               WithValue(bytes, one.tensor, 3, largest, one.size));
    EXPECT_TRUE(Load({.directory = directory.path()}).ok());
  }
}

TEST(Load, WeightsThatFp16CannotHoldAreRefused) {
  TemporaryDirectory directory;
  directory.CopyModel("llama2");
  const std::string bytes = ReadBytes(directory.file("model.safetensors"));
  const char* const tensor = "model.layers.0.mlp.down_proj.weight";
  const auto load = [&](uint32_t value, Dtype dtype) {
    WriteBytes(directory.file("model.safetensors"), WithValue(bytes, tensor, 2, value, 4));
    return Load({.directory = directory.path(), .dtype = dtype}).status();
  };
  EXPECT_TRUE(load(0x477fe000, Dtype::kFloat16).ok()) << "65504";
  EXPECT_TRUE(load(0xc77fefff, Dtype::kFloat16).ok()) << "rounds to -65504";
  EXPECT_TRUE(load(0x477ff000, Dtype::kBfloat16).ok());
  EXPECT_THAT(
      std::string(load(0x477ff000, Dtype::kFloat16).message()),
      HasSubstr("element 2 of model.layers.0.mlp.down_proj.weight [32, 44] is too large for "
                "fp16: give another --dtype"));
  EXPECT_TRUE(load(0x477fe000, Dtype::kInt4).ok()) << "its minimums are fp16";
  EXPECT_THAT(std::string(load(0x477ff000, Dtype::kInt4).message()),
              HasSubstr("is too large for int4: give another --dtype"));
}

// What nobody computes with may be anything.
TEST(Load, TensorsThatAreIgnoredMayBeInfinite) {
  TemporaryDirectory directory;
  directory.CopyModel("llama2");
  std::string bytes = ReadBytes(directory.file("model.safetensors"));
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  auto header = nlohmann::json::parse(bytes.substr(8, length));
  const size_t end = bytes.size() - 8 - length;
  header["model.layers.0.self_attn.rotary_emb.inv_freq"] = {
      {"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {end, end + 4}}};
  WriteBytes(directory.file("model.safetensors"),
             Safetensors(header.dump(), bytes.substr(8 + length) + std::string("\0\0\x80\xff", 4)));
  const absl::Status status = Load({.directory = directory.path()}).status();
  EXPECT_TRUE(status.ok()) << status;
}

// A FIFO never ends, or never begins; so do some devices.
TEST(Load, OnlyRegularFilesAreRead) {
  for (const char* name : {"config.json", "generation_config.json", "model.safetensors"}) {
    SCOPED_TRACE(name);
    TemporaryDirectory directory(name);
    directory.CopyModel("llama3");
    const std::string path = directory.file(name);
    for (const char* kind : {"fifo", "/dev/zero", "directory"}) {
      std::filesystem::remove_all(path);
      if (kind == std::string("fifo")) {
        ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
      } else if (kind == std::string("directory")) {
        std::filesystem::create_directory(path);
      } else {
        std::filesystem::create_symlink(kind, path);
      }
      EXPECT_EQ(LoadError(directory.path()), path + ": not a regular file") << kind;
    }
  }
  TemporaryDirectory directory("index");
  directory.CopyModel("sharded");
  const std::string index = directory.file("model.safetensors.index.json");
  std::filesystem::remove(index);
  ASSERT_EQ(mkfifo(index.c_str(), 0600), 0);
  EXPECT_EQ(LoadError(directory.path()), index + ": not a regular file");
}

TEST(Load, AConfigOfMegabytesIsNotRead) {
  TemporaryDirectory directory;
  directory.CopyModel("llama2");
  std::filesystem::resize_file(directory.file("config.json"), (4 << 20) + 1);
  EXPECT_EQ(LoadError(directory.path()),
            directory.file("config.json") + ": larger than the maximum of 4194304 bytes");
}

TEST(Load, LongValuesAreCutInMessages) {
  TemporaryDirectory directory;
  directory.CopyModel("llama2");
  directory.EditJson("config.json", [](nlohmann::json& json) {
    json["hidden_size"] = std::string(1 << 20, 'a') + "\x1b[2J";
    json["vocab_size"] = -1;
  });
  std::string error = LoadError(directory.path());
  EXPECT_LT(error.size(), 2000u);
  EXPECT_THAT(error, HasSubstr("vocab_size is -1"));
  EXPECT_THAT(error, HasSubstr("… (1048587 bytes): must be a whole number"));
  directory.CopyModel("llama2");
  directory.EditHeader([](nlohmann::json& header) {
    header["\x1b[2J" + std::string(1 << 20, 'b')] = header["model.norm.weight"];
    header.erase("model.norm.weight");
  });
  error = LoadError(directory.path());
  EXPECT_LT(error.size(), 2000u);
  EXPECT_THAT(error, HasSubstr("\\x1b[2Jbbbb"));
}

TEST(Load, DtypesHaveTheNamesThatOthersUse) {
  for (Dtype dtype : {Dtype::kAuto, Dtype::kFloat32, Dtype::kBfloat16, Dtype::kFloat16,
                      Dtype::kInt8, Dtype::kInt4}) {
    EXPECT_EQ(*ParseDtype(DtypeName(dtype)), dtype);
  }
  EXPECT_EQ(*ParseDtype("float32"), Dtype::kFloat32);
  EXPECT_EQ(*ParseDtype("bfloat16"), Dtype::kBfloat16);
  EXPECT_EQ(*ParseDtype("float16"), Dtype::kFloat16);
  EXPECT_EQ(*ParseDtype("half"), Dtype::kFloat16);
  const absl::Status status = ParseDtype("int3").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"int3\"; there are auto"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("int8, and int4"));
}

class Steps : public ::testing::Test {
 protected:
  Steps() {
    LoadOptions options;
    options.directory = GoldenDirectory("llama3");
    options.max_rows = 8;
    options.pool_tokens = 600;  // three pages
    model_ = *std::move(Load(options));
  }

  std::string StepError(absl::Span<const ForwardPart> parts) {
    absl::Status status = model_->Forward(parts).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  std::unique_ptr<LanguageModel> model_;
};

TEST_F(Steps, Info) {
  EXPECT_EQ(model_->info().vocabulary_size, 64u);
  EXPECT_EQ(model_->info().context_length, 512u);
  EXPECT_THAT(model_->info().eos_token_ids, ::testing::ElementsAre(2, 3));
  EXPECT_EQ(model_->max_rows(), 8);
  EXPECT_THAT(model_->info().numerics_id, HasSubstr("fp32"));
}

TEST_F(Steps, ThePoolIsReservedAndGivenBack) {
  ASSERT_TRUE(model_->room().has_value());
  EXPECT_EQ(model_->room()->tokens, 768);
  EXPECT_EQ(model_->room()->page_tokens, 256);
  auto first = model_->NewCache(512);
  auto second = model_->NewCache(256);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(model_->room()->free, 0);
  EXPECT_EQ(model_->room()->tokens, 768) << "as ever";
  absl::Status status = model_->NewCache(1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("has room for 0 of 768 tokens; this sequence asks for 256"));
  first->reset();
  EXPECT_TRUE(model_->NewCache(512).ok());
  EXPECT_EQ(model_->NewCache(0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(model_->NewCache(513).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(Steps, BadPartsChangeNothing) {
  auto cache = *model_->NewCache(6);
  auto other = *model_->NewCache(6);
  const std::vector<uint32_t> two = {5, 6};
  const std::vector<uint32_t> seven = {1, 2, 3, 4, 5, 6, 7};
  const std::vector<uint32_t> unknown = {3, 64};
  EXPECT_THAT(StepError({{cache.get(), unknown, 0}}), HasSubstr("token 64 is not below"));
  EXPECT_THAT(StepError({{cache.get(), seven, 0}}), HasSubstr("7 tokens do not fit"));
  EXPECT_THAT(StepError({{cache.get(), {}, 0}}), HasSubstr("no tokens"));
  EXPECT_THAT(StepError({{nullptr, two, 0}}), HasSubstr("not one of this model's"));
  EXPECT_THAT(StepError({{cache.get(), two, 0}, {cache.get(), two, 0}}), HasSubstr("comes twice"));
  EXPECT_THAT(StepError({{other.get(), two, 0}, {cache.get(), two, 3}}),
              HasSubstr("part 1: first_logits_row is 3; 0 to 2"));
  EXPECT_EQ(cache->length(), 0);
  EXPECT_EQ(other->length(), 0);
  auto third = *model_->NewCache(6);
  const std::vector<uint32_t> four = {1, 2, 3, 4};
  EXPECT_THAT(StepError({{cache.get(), four, 0}, {other.get(), four, 0}, {third.get(), two, 0}}),
              HasSubstr("10 rows in one pass; at most 8"));
  auto logits = model_->Forward({{cache.get(), two, 2}, {other.get(), four, 3}});
  ASSERT_TRUE(logits.ok());
  EXPECT_EQ(logits->rows, 1);
  EXPECT_EQ(cache->length(), 2);
  EXPECT_EQ(model_->Forward({})->rows, 0);
}

TEST_F(Steps, ACacheOfAnotherModelIsRefused) {
  auto other = *Load({.directory = GoldenDirectory("llama3")});
  auto cache = *other->NewCache(6);
  const std::vector<uint32_t> two = {5, 6};
  EXPECT_THAT(StepError({{cache.get(), two, 0}}), HasSubstr("not one of this model's"));
}

}  // namespace
}  // namespace tandem::model::testing
