#include "tests/integration/models.h"

#include <stdlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <utility>

#include "common/base/check.h"
#include "common/base/json.h"
#include "common/sampling/distribution.h"
#include "model/load.h"
#include "tests/support/paths.h"

namespace tandem::testing {
namespace {

using base::JsonObject;
using base::JsonText;

// One tensor of the tiny Llama: normal numbers, wide enough that its distributions are uneven.
struct Tensor {
  std::string name;
  std::vector<int> shape;
  float spread;
};

std::vector<Tensor> TinyTensors(int vocabulary, int hidden, int ffn) {
  const std::string layer = "model.layers.0.";
  return {{"model.embed_tokens.weight", {vocabulary, hidden}, 1},
          {layer + "input_layernorm.weight", {hidden}, 0},
          {layer + "self_attn.q_proj.weight", {hidden, hidden}, 0.4f},
          {layer + "self_attn.k_proj.weight", {hidden, hidden}, 0.4f},
          {layer + "self_attn.v_proj.weight", {hidden, hidden}, 0.4f},
          {layer + "self_attn.o_proj.weight", {hidden, hidden}, 0.4f},
          {layer + "post_attention_layernorm.weight", {hidden}, 0},
          {layer + "mlp.gate_proj.weight", {ffn, hidden}, 0.4f},
          {layer + "mlp.up_proj.weight", {ffn, hidden}, 0.4f},
          {layer + "mlp.down_proj.weight", {hidden, ffn}, 0.4f},
          {"model.norm.weight", {hidden}, 0},
          {"lm_head.weight", {vocabulary, hidden}, 0.3f}};
}

}  // namespace

std::string DemoTarget() { return SourcePath("demo/target"); }

std::string DemoDraft() { return SourcePath("demo/draft"); }

bool Exists(const std::string& path) { return std::filesystem::exists(path); }

std::unique_ptr<model::LanguageModel> LoadModel(const std::string& directory, int threads) {
  model::LoadOptions options;
  options.directory = directory;
  options.threads = threads;
  auto model = model::Load(options);
  TANDEM_CHECK_OK(model);
  return *std::move(model);
}

std::shared_ptr<const tokenizer::Tokenizer> LoadTokenizer(const std::string& directory) {
  auto tokenizer = tokenizer::Tokenizer::Load(directory);
  TANDEM_CHECK_OK(tokenizer);
  return *std::move(tokenizer);
}

std::string LettersTokenizerJson(uint32_t vocabulary_size) {
  TANDEM_CHECK(vocabulary_size >= 2 && vocabulary_size <= 26);
  const std::vector<JsonText> none;
  JsonObject vocabulary;
  for (uint32_t id = 0; id < vocabulary_size; ++id) {
    vocabulary.Set(std::string(1, static_cast<char>('a' + id)), id);
  }
  const JsonObject byte_level = {{"type", "ByteLevel"},
                                 {"add_prefix_space", false},
                                 {"trim_offsets", true},
                                 {"use_regex", true}};
  const JsonObject model = {{"type", "BPE"},
                            {"dropout", nullptr},
                            {"unk_token", nullptr},
                            {"continuing_subword_prefix", nullptr},
                            {"end_of_word_suffix", nullptr},
                            {"fuse_unk", false},
                            {"byte_fallback", false},
                            {"vocab", vocabulary},
                            {"merges", none}};
  return JsonObject{
      {"version", "1.0"},          {"truncation", nullptr}, {"padding", nullptr},
      {"added_tokens", none},      {"normalizer", nullptr}, {"pre_tokenizer", byte_level},
      {"post_processor", nullptr}, {"decoder", byte_level}, {"model", model}}
      .text();
}

std::shared_ptr<const tokenizer::Tokenizer> LettersTokenizer(uint32_t vocabulary_size) {
  auto tokenizer = tokenizer::Tokenizer::FromJson(LettersTokenizerJson(vocabulary_size));
  TANDEM_CHECK_OK(tokenizer);
  return *std::move(tokenizer);
}

void WriteTinyLlama(const std::string& directory, uint32_t vocabulary_size, uint32_t seed) {
  constexpr int kHidden = 16, kFfn = 24;
  std::filesystem::create_directories(directory);
  WriteFile(directory + "/tokenizer.json", LettersTokenizerJson(vocabulary_size));
  const JsonObject config = {{"architectures", std::vector<JsonText>{"LlamaForCausalLM"}},
                             {"model_type", "llama"},
                             {"hidden_size", kHidden},
                             {"intermediate_size", kFfn},
                             {"num_hidden_layers", 1},
                             {"num_attention_heads", 2},
                             {"num_key_value_heads", 2},
                             {"vocab_size", vocabulary_size},
                             {"max_position_embeddings", 64},
                             {"rms_norm_eps", 1e-5},
                             {"rope_theta", 10000.0},
                             {"hidden_act", "silu"},
                             {"tie_word_embeddings", false}};
  WriteFile(directory + "/config.json", config.text());
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  JsonObject header;
  std::string data;
  for (const Tensor& tensor : TinyTensors(static_cast<int>(vocabulary_size), kHidden, kFfn)) {
    size_t count = 1;
    for (int size : tensor.shape) count *= size;
    std::vector<float> values(count);
    for (float& value : values) value = tensor.spread == 0 ? 1 : tensor.spread * normal(random);
    const size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(values.data()), count * sizeof(float));
    header.Set(tensor.name,
               JsonObject{{"dtype", "F32"},
                          {"shape", JsonText::Array(tensor.shape)},
                          {"data_offsets", std::vector<JsonText>{begin, data.size()}}});
  }
  std::string head = header.text();
  head.resize((head.size() + 7) / 8 * 8, ' ');
  const uint64_t length = head.size();
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  WriteFile(directory + "/model.safetensors", bytes + head + data);
}

std::vector<uint32_t> GreedyAlone(model::LanguageModel& model, absl::Span<const uint32_t> prompt,
                                  uint32_t max_tokens, uint32_t vocabulary_size) {
  auto cache = model.NewCache(static_cast<int>(prompt.size() + max_tokens));
  TANDEM_CHECK_OK(cache);
  std::vector<uint32_t> ids, feed(prompt.begin(), prompt.end());
  const std::vector<uint32_t>& eos = model.info().eos_token_ids;
  while (ids.size() < max_tokens) {
    // A long prompt in pieces, as a step has room for.
    for (size_t max = model.max_rows(); feed.size() > max;) {
      model::ForwardPart part{cache->get(), absl::MakeSpan(feed).first(max), static_cast<int>(max)};
      TANDEM_CHECK_OK(model.Forward({&part, 1}));
      feed.erase(feed.begin(), feed.begin() + max);
    }
    model::ForwardPart part{cache->get(), feed, static_cast<int>(feed.size()) - 1};
    auto logits = model.Forward({&part, 1});
    TANDEM_CHECK_OK(logits);
    const uint32_t token = sampling::ArgMax(logits->row(0), vocabulary_size);
    ids.push_back(token);
    if (std::find(eos.begin(), eos.end(), token) != eos.end()) break;
    feed = {token};
  }
  return ids;
}

std::vector<std::string> TenPrompts() {
  return {"Once upon a time",
          "The city was quiet in the morning, and",
          "She opened the letter and read it twice before",
          "The old captain looked at the sea and said",
          "This document describes the interface between",
          "The function returns an error if",
          "In the following example, the compiler",
          "When a new version of the library is released,",
          "He had never seen the house by daylight;",
          "A proposal should explain why"};
}

ScratchFolder::ScratchFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "tandem-test.XXXXXX").string();
  TANDEM_CHECK(mkdtemp(name.data()) != nullptr) << name;
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  TANDEM_CHECK(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  TANDEM_CHECK(file.flush().good()) << path;
}

}  // namespace tandem::testing
