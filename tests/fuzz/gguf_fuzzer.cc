// Any bytes as a GGUF file: refused with a message, or every tensor lies inside the file, its rows
// can be read as numbers, and the texts that stand for it are JSON, a configuration that is
// computed and a tokenizer that encodes.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/base/json.h"
#include "common/gguf/gguf_file.h"
#include "common/gguf/model_texts.h"
#include "common/tokenizer/tokenizer.h"
#include "model/config.h"
#include "model/cpu/block_formats.h"
#include "model/files/gguf_tensors.h"
#include "model/files/tensor_type.h"
#include "model/rope_table.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/scratch.h"
#include "tests/support/gguf_writer.h"

namespace tandem::fuzz {
namespace {

using testing::GgufWriter;

void CheckRefusal(const absl::Status& status) {
  TANDEM_CHECK(!status.message().empty()) << status;
  TANDEM_CHECK(absl::IsInvalidArgument(status) || absl::IsDataLoss(status) ||
               absl::IsNotFound(status))
      << status;
}

// All of its rows; ASan or the kernel objects to what lies outside.
void ReadRows(const std::string& name, const model::TensorView& tensor) {
  const int64_t count = tensor.shape.back();
  const size_t row_bytes = tensor.bytes / static_cast<size_t>(model::Elements(tensor) / count);
  constexpr int64_t kMostValues = 1 << 20;
  TANDEM_CHECK(row_bytes * static_cast<size_t>(model::Elements(tensor) / count) == tensor.bytes)
      << name;
  if (model::Elements(tensor) > kMostValues) return;
  std::vector<float> row(static_cast<size_t>(count));
  for (size_t at = 0; at < tensor.bytes; at += row_bytes) {
    model::cpu::DequantizeRow(model::SourceTypeOf(tensor),
                              static_cast<const char*>(tensor.data) + at, count, row.data());
  }
}

void CheckConfig(const std::string& path) {
  const auto config = model::ReadConfig(path);
  if (!config.ok()) return CheckRefusal(config.status());
  const model::DecoderSpec& spec = config->spec;
  TANDEM_CHECK(spec.vocabulary_size > 0 && spec.layers > 0 && spec.head_size > 0);
  TANDEM_CHECK(static_cast<int>(model::RopeFrequencies(spec.rope, spec.head_size).size()) ==
               spec.rope.rotary_size(spec.head_size) / 2);
}

void CheckTokenizer(const std::string& path) {
  const auto tokenizer = tokenizer::Tokenizer::Load(path);
  if (!tokenizer.ok()) return CheckRefusal(tokenizer.status());
  const auto ids = (*tokenizer)->Encode("ab ba\xc3\xa9");
  if (ids.ok()) TANDEM_CHECK_OK((*tokenizer)->Decode(*ids));
}

void Run(std::string_view bytes) {
  static const Scratch scratch;
  scratch.Write("m.gguf", bytes);
  const std::string path = scratch.path() + "/m.gguf";
  const auto file = gguf::File::Open(path);
  if (!file.ok()) return CheckRefusal(file.status());
  const char* end = nullptr;
  std::map<const void*, size_t> extents;
  for (const auto& [name, tensor] : (*file)->tensors()) {
    TANDEM_CHECK(extents.emplace(tensor.data, tensor.bytes).second) << name << " overlaps";
  }
  for (const auto& [data, size] : extents) {
    TANDEM_CHECK(static_cast<const char*>(data) >= end) << "tensors overlap";
    end = static_cast<const char*>(data) + size;
  }
  const auto tensors = model::ReadGgufTensors(**file);
  if (tensors.ok()) {
    for (const auto& [name, tensor] : tensors->tensors) ReadRows(name, tensor);
  } else {
    CheckRefusal(tensors.status());
  }
  for (const char* name :
       {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"}) {
    const auto text = gguf::ReadModelText(path + "/" + name, int64_t{1} << 30);
    if (!text.ok()) {
      CheckRefusal(text.status());
    } else {
      TANDEM_CHECK_OK(base::JsonValue::Parse(*text, 64));
    }
  }
  CheckConfig(path);
  CheckTokenizer(path);
}

constexpr uint32_t kF32 = 0, kF16 = 1, kQ4_0 = 2;

GgufWriter Model(const std::string& architecture) {
  GgufWriter file;
  file.Set("general.architecture", architecture);
  const std::string prefix = architecture + ".";
  file.Set(prefix + "context_length", uint32_t{64});
  file.Set(prefix + "embedding_length", uint32_t{32});
  file.Set(prefix + "feed_forward_length", uint32_t{32});
  file.Set(prefix + "block_count", uint32_t{1});
  file.Set(prefix + "attention.head_count", uint32_t{2});
  file.Set(prefix + "attention.head_count_kv", uint32_t{1});
  file.Set(prefix + "attention.layer_norm_rms_epsilon", 1e-5f);
  file.Set(prefix + "attention.layer_norm_epsilon", 1e-5f);
  file.Add("token_embd.weight", kF32, {4, 32}, std::string(512, '\x3f'));
  return file;
}

void AddTokenizer(GgufWriter& file, const std::string& model) {
  file.Set("tokenizer.ggml.model", model);
  file.Set("tokenizer.ggml.tokens", std::vector<std::string>{"<s>", "a", "b", "ab"});
  file.Set("tokenizer.ggml.token_type", std::vector<int32_t>{3, 1, 1, 1});
  file.Set("tokenizer.ggml.bos_token_id", uint32_t{0});
  file.Set("tokenizer.ggml.eos_token_id", uint32_t{0});
  if (model == "llama") {
    file.Set("tokenizer.ggml.scores", std::vector<float>{0, -1, -2, -3});
  } else {
    file.Set("tokenizer.ggml.pre", "gpt-2");
    file.Set("tokenizer.ggml.merges", std::vector<std::string>{"a b"});
  }
}

}  // namespace

std::vector<std::string> Seeds() {
  GgufWriter llama = Model("llama"), gemma = Model("gemma3"), gpt2 = Model("gpt2"),
             gptneox = Model("gptneox"), part;
  AddTokenizer(llama, "gpt2");
  llama.Set("llama.rope.scaling.type", "yarn");
  llama.Set("llama.rope.scaling.factor", 2.0f);
  llama.Add("blk.0.attn_q.weight", kQ4_0, {32, 32}, std::string(576, '\x21'));
  llama.Add("rope_freqs.weight", kF32, {8}, std::string(32, '\x3f'));
  AddTokenizer(gemma, "llama");
  gemma.Set("gemma3.attention.key_length", uint32_t{16});
  gemma.Add("output_norm.weight", kF32, {32}, std::string(128, '\x3f'));
  AddTokenizer(gpt2, "gpt2");
  gpt2.Set("general.alignment", uint32_t{8});
  gpt2.Add("blk.0.ffn_up.weight", kF16, {32, 32}, std::string(2048, '\x3f'));
  AddTokenizer(gptneox, "gpt2");
  gptneox.Set("gptneox.rope.dimension_count", uint32_t{8});
  gptneox.Add("blk.0.attn_qkv.weight", kF32, {96, 32}, std::string(12288, '\x3f'));
  part.version = 2;
  part.Set("split.no", uint32_t{0});
  part.Set("split.count", uint32_t{2});
  return {llama.Bytes(), gemma.Bytes(), gpt2.Bytes(), gptneox.Bytes(), part.Bytes()};
}

}  // namespace tandem::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  tandem::fuzz::Run({reinterpret_cast<const char*>(bytes), size});
  return 0;
}
