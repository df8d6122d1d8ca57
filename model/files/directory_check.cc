#include "model/files/directory_check.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/base/json.h"
#include "model/files/json_fields.h"

namespace tandem::model {
namespace {

namespace fs = std::filesystem;
using base::JsonValue;

// What is looked at.
struct Contents {
  fs::path folder;
  std::set<std::string> names;  // of files and folders
  JsonValue config;             // config.json; null: there is none that can be read
  JsonValue text;               // its text_config, or itself

  bool Has(const std::string& name) const { return names.count(name) != 0; }
  // The first name with this ending.
  std::optional<std::string> Ending(const char* end) const {
    for (const std::string& name : names) {
      if (absl::EndsWith(name, end)) return name;
    }
    return std::nullopt;
  }
  std::optional<std::string> First(std::initializer_list<const char*> wanted) const {
    for (const char* name : wanted) {
      if (Has(name)) return name;
    }
    return std::nullopt;
  }
};

Contents Look(const std::string& directory) {
  Contents contents;
  contents.folder = directory;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(contents.folder, ignored)) {
    contents.names.insert(entry.path().filename().string());
  }
  if (auto config = ReadJsonObject(contents.folder / "config.json"); config.ok()) {
    contents.config = *config;
    contents.text = (*config)["text_config"].IsObject() ? (*config)["text_config"] : *config;
  }
  return contents;
}

// Of a kind of directory: what was seen that makes it one. Absent: it is none.
using Sign = std::optional<std::string>;

Sign GitLfsPointer(const Contents& contents) {
  for (const std::string& name : contents.names) {
    if (!absl::EndsWith(name, ".safetensors") && !absl::EndsWith(name, ".json")) continue;
    // Others may never begin: those who read them refuse them by name.
    std::error_code ignored;
    if (!fs::is_regular_file(contents.folder / name, ignored)) continue;
    std::array<char, 40> head{};
    std::ifstream(contents.folder / name, std::ios::binary).read(head.data(), head.size());
    if (absl::StartsWith({head.data(), head.size()}, "version https://git-lfs")) return name;
  }
  return std::nullopt;
}

Sign Adapter(const Contents& contents) {
  return contents.First({"adapter_config.json", "adapter_model.safetensors"});
}

// "NAME is VALUE"
std::string Says(const JsonValue& config, const char* name) {
  return absl::StrCat(name, " is ", base::Excerpt(config[name].Dump()));
}

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

Sign Head(const Contents& contents) {
  const JsonValue& config = contents.config;
  for (const char* name : {"speculators_model_type", "speculators_config", "medusa_num_heads",
                           "eagle_config", "draft_vocab_size"}) {
    // `tandem prune-vocabulary` gives a whole model that field, and says which one it was.
    const bool pruned =
        name == absl::string_view("draft_vocab_size") && !config["pruned_vocabulary_of"].IsNull();
    if (!config[name].IsNull() && !pruned) return absl::StrCat("config.json has ", name);
  }
  const std::string type = Lower(config["model_type"].String().value_or(""));
  std::vector<std::string> names = {type};
  for (const JsonValue& name : config["architectures"].Elements()) {
    names.push_back(Lower(name.String().value_or("")));
  }
  for (const std::string& name : names) {
    for (const char* part :
         {"eagle", "medusa", "mlpspeculator", "mlp_speculator", "mtp", "dflash"}) {
      if (absl::StrContains(name, part)) return absl::StrCat("config.json says ", name);
    }
  }
  return std::nullopt;
}

Sign Quantised(const Contents& contents) {
  for (const JsonValue& config : {contents.config, contents.text}) {
    if (config["quantization_config"].IsObject()) {
      const JsonValue method = config["quantization_config"]["quant_method"];
      const std::string name = method.String().value_or("of a method without a name");
      // Of which ReadConfig knows more.
      if (name == "compressed-tensors" || name == "gptq" || name == "awq") return std::nullopt;
      return absl::StrCat("quantization_config in config.json: ", name);
    }
    // MLX.
    if (config["quantization"].IsObject()) return "quantization in config.json";
  }
  return contents.First({"quantize_config.json", "quant_config.json"});
}

Sign Experts(const Contents& contents) {
  for (const char* name : {"num_local_experts", "num_experts", "n_routed_experts",
                           "moe_num_experts", "num_experts_per_tok"}) {
    if (contents.text[name].Integer().value_or(0) > 1) return Says(contents.text, name);
  }
  const std::string type = contents.text["model_type"].String().value_or("");
  if (absl::EndsWith(type, "moe") || type == "mixtral") return Says(contents.text, "model_type");
  return std::nullopt;
}

Sign Recurrent(const Contents& contents) {
  const std::string type = contents.text["model_type"].String().value_or("");
  for (const char* part : {"mamba", "rwkv", "recurrent", "xlstm", "jamba", "zamba", "bamba",
                           "qwen3_next", "qwen3_5", "lfm2", "nemotron_h", "granitemoehybrid"}) {
    if (absl::StrContains(type, part)) return Says(contents.text, "model_type");
  }
  for (const JsonValue& layer : contents.text["layer_types"].Elements()) {
    const std::string kind = layer.String().value_or("");
    for (const char* part : {"linear_attention", "mamba", "recurrent", "conv"}) {
      if (absl::StrContains(kind, part)) return absl::StrCat("layer_types has ", kind);
    }
  }
  return std::nullopt;
}

Sign Encoder(const Contents& contents) {
  if (contents.config["is_encoder_decoder"].Bool().value_or(false)) {
    return "is_encoder_decoder is true in config.json";
  }
  for (const JsonValue& name : contents.config["architectures"].Elements()) {
    const std::string text = name.String().value_or("");
    for (const char* end : {"ForMaskedLM", "ForSequenceClassification", "ForTokenClassification"}) {
      if (absl::EndsWith(text, end)) return absl::StrCat("config.json says ", text);
    }
  }
  return std::nullopt;
}

Sign Without(const Contents& contents, const char* missing, const Sign& sign) {
  return contents.Ending(missing).has_value() ? std::nullopt : sign;
}

Sign OtherTokenizer(const Contents& contents) {
  if (contents.Has("tokenizer.json")) return std::nullopt;
  if (contents.Has("vocab.json") && contents.Has("merges.txt")) return "vocab.json and merges.txt";
  if (auto name = contents.First({"tokenizer.model", "tekken.json"})) return name;
  return contents.Ending(".tiktoken");
}

Sign ModelInside(const Contents& contents) {
  if (contents.Has("config.json")) return std::nullopt;
  std::error_code ignored;
  for (const std::string& name : contents.names) {
    if (fs::exists(contents.folder / name / "config.json", ignored)) {
      return (contents.folder / name).string();
    }
  }
  return std::nullopt;
}

// "DIRECTORY WHAT (SIGN): ADVICE"
struct Kind {
  Sign (*sign)(const Contents& contents);
  const char* what;
  const char* advice;
};

// The first that fits is named.
constexpr Kind kKinds[] = {
    {GitLfsPointer, "has a git-lfs pointer in place of a file",
     "run `git lfs pull` in it, or download the model again"},
    {Adapter, "is a LoRA adapter and no whole model",
     "merge it into its base model (peft: merge_and_unload, then save_pretrained), and give the "
     "directory with the result"},
    {Head, "is a head that drafts from another model's insides",
     "it needs the target's hidden states; Tandem drafts by tokens. Give a small model with the "
     "target's tokenizer as the draft, or draft by prompt lookup"},
    {[](const Contents& c) { return c.First({"model_index.json"}); }, "is a pipeline of diffusers",
     "give a directory with a language model"},
    {[](const Contents& c) { return Without(c, ".safetensors", c.Ending(".gguf")); },
     "has its weights as GGUF", "give the file itself, DIRECTORY/NAME.gguf"},
    {Experts, "is a mixture of experts, which is not supported",
     "give a dense model; docs/models.md has the families"},
    {Recurrent, "has recurrent layers, which are not supported: they cannot be rolled back",
     "give a model whose layers all have attention; docs/models.md has the families"},
    {Quantised, "is quantised",
     "such quantised weights are not supported: give the model in float32, bfloat16 or float16 "
     "that it was made from, a GGUF of it, or one whose config.json says compressed-tensors "
     "(int-quantized, pack-quantized), gptq or awq in quantization_config"},
    {Encoder, "is a model with an encoder", "give a decoder-only model that writes text"},
    {[](const Contents& c) { return Without(c, ".safetensors", c.Ending(".bin")); },
     "has its weights as PyTorch's pickles, which may hold programs and are not read",
     "convert them (transformers: from_pretrained, then save_pretrained), or take a revision with "
     "*.safetensors"},
    {[](const Contents& c) {
       const auto file = c.First({"params.json", "consolidated.safetensors"});
       return c.Has("config.json") ? std::nullopt : file;
     },
     "is in its publisher's own form",
     "give the form of Hugging Face, with config.json and model*.safetensors"},
    {[](const Contents& c) {
       for (const char* end : {".h5", ".msgpack", ".onnx", ".pth", ".pt", ".ckpt"}) {
         if (Sign sign = Without(c, ".safetensors", c.Ending(end))) return sign;
       }
       return Sign();
     },
     "has its weights in another form",
     "give the form of Hugging Face, with config.json and model*.safetensors"},
    {ModelInside, "has no config.json, but a folder in it has one", "give that folder"},
    {OtherTokenizer, "has another form of tokenizer alone",
     "write a tokenizer.json beside it (transformers: AutoTokenizer.from_pretrained, then "
     "save_pretrained)"},
};

absl::Status CheckFile(const std::string& path) {
  constexpr char kAdvice[] = "give the directory that it lies in";
  return absl::InvalidArgumentError(absl::StrCat(path, " is a file, not a directory: ", kAdvice));
}

}  // namespace

absl::Status CheckDirectory(const std::string& directory) {
  std::error_code ignored;
  if (fs::is_regular_file(directory, ignored)) return CheckFile(directory);
  if (!fs::is_directory(directory, ignored)) {
    return absl::NotFoundError(absl::StrCat("model directory ", directory,
                                            " does not exist; give a folder with config.json, ",
                                            "*.safetensors and tokenizer.json, or a GGUF file"));
  }
  const Contents contents = Look(directory);
  if (contents.names.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        directory, " is empty: give a folder with config.json, *.safetensors and tokenizer.json"));
  }
  for (const Kind& kind : kKinds) {
    if (const Sign sign = kind.sign(contents)) {
      return absl::InvalidArgumentError(
          absl::StrCat(directory, " ", kind.what, " (", base::Excerpt(*sign), "): ", kind.advice));
    }
  }
  return absl::OkStatus();
}

}  // namespace tandem::model
