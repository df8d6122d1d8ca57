#include "model/files/directory_check.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/load.h"
#include "tests/model/files.h"

namespace tandem::model::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kPointer[] =
    "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 4976698672\n";
constexpr char kLlama[] = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"]})";

std::string Config(const std::string& fields) {
  return "{\"model_type\": \"llama\", " + fields + "}";
}

struct Wrong {
  const char* name;
  std::map<std::string, std::string> files;  // a name with a slash makes a folder, too
  const char* what;                          // with what it was seen by
  const char* advice;
};

const Wrong kWrong[] = {
    {"lfs_weights",
     {{"config.json", kLlama}, {"model-00001-of-00002.safetensors", kPointer}},
     "has a git-lfs pointer in place of a file (model-00001-of-00002.safetensors)",
     "git lfs pull"},
    {"lfs_tokenizer",
     {{"config.json", kLlama}, {"tokenizer.json", kPointer}},
     "has a git-lfs pointer in place of a file (tokenizer.json)",
     "git lfs pull"},
    {"gguf",
     {{"config.json", kLlama}, {"Llama-Q4_K_M.gguf", "GGUF"}},
     "has its weights as GGUF (Llama-Q4_K_M.gguf)",
     "give the file itself"},
    {"pickles",
     {{"config.json", kLlama}, {"pytorch_model.bin", "PK"}},
     "has its weights as PyTorch's pickles, which may hold programs and are not read "
     "(pytorch_model.bin)",
     "save_pretrained"},
    {"lora",
     {{"adapter_config.json", R"({"base_model_name_or_path": "x"})"},
      {"adapter_model.safetensors", ""}},
     "is a LoRA adapter and no whole model (adapter_config.json)",
     "merge_and_unload"},
    {"eagle",
     {{"config.json", R"({"model_type": "llama", "architectures": ["LlamaForCausalLMEagle3"]})"},
      {"model.safetensors", ""}},
     "is a head that drafts from another model's insides (config.json says llamaforcausallmeagle3)",
     "needs the target's hidden states; Tandem drafts by tokens"},
    {"speculators",
     {{"config.json", R"({"speculators_model_type": "eagle3"})"}, {"model.safetensors", ""}},
     "(config.json has speculators_model_type)",
     "needs the target's hidden states; Tandem drafts by tokens"},
    {"mtp",
     {{"config.json", R"({"model_type": "deepseek_mtp"})"}},
     "(config.json says deepseek_mtp)",
     "prompt lookup"},
    {"medusa",
     {{"config.json", R"({"medusa_num_heads": 4})"}},
     "(config.json has medusa_num_heads)",
     "hidden states"},
    {"tokenizer_model",
     {{"tokenizer.model", "\n"}},
     "has another form of tokenizer alone (tokenizer.model)",
     "write a tokenizer.json"},
    {"tokenizer_model_beside_weights",
     {{"config.json", kLlama}, {"model.safetensors", ""}, {"tokenizer.model", "\n"}},
     "has another form of tokenizer alone (tokenizer.model)",
     "write a tokenizer.json"},
    {"tokenizer_of_two_files",
     {{"config.json", kLlama}, {"vocab.json", "{}"}, {"merges.txt", ""}},
     "(vocab.json and merges.txt)",
     "write a tokenizer.json"},
    {"quip",
     {{"config.json", Config(R"("quantization_config": {"quant_method": "quip", "bits": 4})")},
      {"model.safetensors", ""}},
     "is quantised (quantization_config in config.json: quip)",
     "that it was made from"},
    {"bitsandbytes",
     {{"config.json", Config(R"("quantization_config": {"quant_method": "bitsandbytes"})")}},
     "is quantised (quantization_config in config.json: bitsandbytes)",
     "float32, bfloat16 or float16"},
    {"old_gptq",
     {{"config.json", kLlama}, {"quantize_config.json", "{}"}},
     "is quantised (quantize_config.json)",
     "that it was made from"},
    {"mlx",
     {{"config.json", Config(R"("quantization": {"bits": 4, "group_size": 64})")}},
     "is quantised (quantization in config.json)",
     "that it was made from"},
    {"experts",
     {{"config.json", R"({"model_type": "mixtral", "num_local_experts": 8})"}},
     "is a mixture of experts, which is not supported (num_local_experts is 8)",
     "a dense model"},
    {"experts_by_name",
     {{"config.json", R"({"model_type": "qwen3_moe"})"}},
     "is a mixture of experts, which is not supported (model_type is \"qwen3_moe\")",
     "a dense model"},
    {"mamba",
     {{"config.json", R"({"model_type": "mamba2"})"}},
     "has recurrent layers, which are not supported: they cannot be rolled back (model_type is "
     "\"mamba2\")",
     "all have attention"},
    {"recurrent_layers",
     {{"config.json",
       R"({"text_config": {"layer_types": ["full_attention", "linear_attention"]}})"}},
     "(layer_types has linear_attention)",
     "all have attention"},
    {"encoder",
     {{"config.json", R"({"model_type": "t5", "is_encoder_decoder": true})"}},
     "is a model with an encoder (is_encoder_decoder is true in config.json)",
     "decoder-only"},
    {"masked",
     {{"config.json", R"({"model_type": "bert", "architectures": ["BertForMaskedLM"]})"}},
     "is a model with an encoder (config.json says BertForMaskedLM)",
     "decoder-only"},
    {"diffusers",
     {{"model_index.json", "{}"}, {"unet/config.json", "{}"}},
     "is a pipeline of diffusers (model_index.json)",
     "a language model"},
    {"publisher",
     {{"params.json", "{}"}, {"consolidated.00.pth", "PK"}, {"tokenizer.model", "\n"}},
     "is in its publisher's own form (params.json)",
     "the form of Hugging Face"},
    {"flax",
     {{"config.json", kLlama}, {"flax_model.msgpack", ""}},
     "has its weights in another form (flax_model.msgpack)",
     "the form of Hugging Face"},
    {"above_the_model",
     {{"my-model/config.json", kLlama}},
     "has no config.json, but a folder in it has one",
     "give that folder"},
    {"empty", {}, "is empty", "give a folder with config.json"},
};

// A file for each name.
void Fill(const std::string& directory, const std::map<std::string, std::string>& files) {
  fs::create_directories(directory);
  for (const auto& [name, bytes] : files) {
    fs::create_directories((fs::path(directory) / name).parent_path());
    WriteBytes(directory + "/" + name, bytes);
  }
}

TEST(DirectoryCheck, NamesWhatItIsAndWhatToDoBeforeAnythingIsLoaded) {
  TemporaryDirectory root;
  for (const Wrong& wrong : kWrong) {
    const std::string directory = root.file(wrong.name);
    Fill(directory, wrong.files);
    const absl::Status status = Load({.directory = directory}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wrong.name;
    EXPECT_THAT(std::string(status.message()),
                AllOf(StartsWith(directory + " "), HasSubstr(wrong.what), HasSubstr(wrong.advice)))
        << wrong.name;
  }
}

TEST(DirectoryCheck, FilesAndNothingAtAll) {
  TemporaryDirectory root;
  WriteBytes(root.file("model.safetensors"), "");
  EXPECT_THAT(std::string(CheckDirectory(root.file("model.safetensors")).message()),
              HasSubstr("give the directory that it lies in"));
  EXPECT_EQ(CheckDirectory(root.file("nowhere")).code(), absl::StatusCode::kNotFound);
}

TEST(DirectoryCheck, LeavesModelsAlone) {
  for (const char* variant : {"llama2", "sharded", "gemma3", "gpt2", "padded"}) {
    const absl::Status status =
        CheckDirectory(tandem::testing::SourcePath("tests/model/goldens/") + variant);
    EXPECT_TRUE(status.ok()) << status;
  }
  // What hub repositories have beside a model.
  TemporaryDirectory root;
  root.CopyModel("llama2");
  for (const char* name : {"pytorch_model.bin", "consolidated.safetensors", "params.json",
                           "tokenizer.model", "tokenizer.json", "training_args.bin", "x.gguf",
                           "flax_model.msgpack", "vocab.json", "merges.txt"}) {
    WriteBytes(root.file(name), "x");
  }
  const absl::Status status = CheckDirectory(root.path());
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(Load({.directory = root.path()}).ok());
}

// The folder of a model in the hub's cache stands for its snapshot.
TEST(HubCache, ItsSnapshotIsTaken) {
  TemporaryDirectory root;
  root.CopyModel("llama2");
  const std::string id = (*Load({.directory = root.path()}))->info().model_id;
  const std::string repository = root.file("models--someone--llama2");
  const auto add = [&](const std::string& hash) {
    const std::string snapshot = repository + "/snapshots/" + hash;
    fs::create_directories(snapshot);
    for (const char* name : {"config.json", "model.safetensors"}) {
      fs::copy(root.file(name), snapshot + "/" + name);
    }
  };
  fs::create_directories(repository + "/snapshots");
  EXPECT_THAT(std::string(Load({.directory = repository}).status().message()),
              HasSubstr("has no snapshot: download the model again"));
  const std::string one(40, 'a');
  const std::string other(40, 'b');
  add(one);
  const auto only = Load({.directory = repository});
  ASSERT_TRUE(only.ok()) << only.status();
  EXPECT_EQ((*only)->info().model_id, id);
  add(other);
  EXPECT_THAT(std::string(Load({.directory = repository}).status().message()),
              HasSubstr("none of its snapshots is main: give one of them, " + repository +
                        "/snapshots/" + one + " or " + other));
  fs::create_directories(repository + "/refs");
  WriteBytes(repository + "/refs/main", other);
  fs::remove(repository + "/snapshots/" + one + "/config.json");
  const auto main = Load({.directory = repository});
  ASSERT_TRUE(main.ok()) << main.status();
  EXPECT_EQ((*main)->info().model_id, id);
}

}  // namespace
}  // namespace tandem::model::testing
