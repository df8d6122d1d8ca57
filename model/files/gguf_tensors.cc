#include "model/files/gguf_tensors.h"

#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/excerpt.h"
#include "common/base/status_macros.h"
#include "model/files/tensor_type.h"

namespace tandem::model {
namespace {

using Names = std::map<absl::string_view, absl::string_view>;

struct Renaming {
  absl::string_view layers;  // before a layer's number
  Names model;               // of stems outside of layers
  Names layer;               // of a layer's
};

Renaming LlamaNames() {
  return {
      "model.layers",
      {{"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}},
      {{"attn_norm", "input_layernorm"},
       {"attn_q", "self_attn.q_proj"},
       {"attn_k", "self_attn.k_proj"},
       {"attn_v", "self_attn.v_proj"},
       {"attn_qkv", "self_attn.qkv_proj"},
       {"attn_q_norm", "self_attn.q_norm"},
       {"attn_k_norm", "self_attn.k_norm"},
       {"attn_output", "self_attn.o_proj"},
       {"ffn_norm", "post_attention_layernorm"},
       {"ffn_gate", "mlp.gate_proj"},
       {"ffn_up", "mlp.up_proj"},
       {"ffn_down", "mlp.down_proj"}}};
}

Renaming NamesOf(absl::string_view architecture) {
  if (architecture == "gpt2") {
    return {"transformer.h",
            {{"token_embd", "transformer.wte"},
             {"position_embd", "transformer.wpe"},
             {"output_norm", "transformer.ln_f"},
             {"output", "lm_head"}},
            {{"attn_norm", "ln_1"},
             {"attn_qkv", "attn.c_attn"},
             {"attn_output", "attn.c_proj"},
             {"ffn_norm", "ln_2"},
             {"ffn_up", "mlp.c_fc"},
             {"ffn_down", "mlp.c_proj"}}};
  }
  if (architecture == "gptneox") {
    return {"gpt_neox.layers",
            {{"token_embd", "gpt_neox.embed_in"},
             {"output_norm", "gpt_neox.final_layer_norm"},
             {"output", "embed_out"}},
            {{"attn_norm", "input_layernorm"},
             {"attn_qkv", "attention.query_key_value"},
             {"attn_output", "attention.dense"},
             {"ffn_norm", "post_attention_layernorm"},
             {"ffn_up", "mlp.dense_h_to_4h"},
             {"ffn_down", "mlp.dense_4h_to_h"}}};
  }
  Renaming names = LlamaNames();
  if (architecture == "phi3") names.layer["ffn_up"] = "mlp.gate_up_proj";
  if (architecture == "gemma3") names.layer["ffn_norm"] = "pre_feedforward_layernorm";
  if (architecture == "gemma3" || architecture == "olmo2") {
    names.layer["post_attention_norm"] = "post_attention_layernorm";
    names.layer["post_ffw_norm"] = "post_feedforward_layernorm";
  }
  return names;
}

// "blk.3.attn_q.weight" → {"3", "attn_q", ".weight"}; outside of layers the number is empty.
struct Parts {
  absl::string_view layer, stem, end;
};
Parts PartsOf(absl::string_view name) {
  Parts parts;
  const size_t dot = name.rfind('.');
  if (dot == absl::string_view::npos) return {"", name, ""};
  parts.end = name.substr(dot);
  parts.stem = name.substr(0, dot);
  if (!absl::ConsumePrefix(&parts.stem, "blk.")) return parts;
  const size_t after = parts.stem.find('.');
  if (after == absl::string_view::npos) return {"", name, ""};
  parts.layer = parts.stem.substr(0, after);
  parts.stem.remove_prefix(after + 1);
  return parts;
}

class Conversion {
 public:
  Conversion(const gguf::File& file, GgufTensors& to)
      : file_(file),
        to_(to),
        architecture_(file.String("general.architecture").value_or("")),
        names_(NamesOf(architecture_)),
        heads_(file.Integer(absl::StrCat(architecture_, ".attention.head_count")).value_or(0)),
        kv_heads_(file.Integer(absl::StrCat(architecture_, ".attention.head_count_kv"))
                      .value_or(heads_)) {}

  absl::Status Add(const std::string& name, const gguf::Tensor& tensor) {
    // What config.json has of them (config_json.h).
    if (absl::StartsWith(name, "rope_f")) return absl::OkStatus();
    const Parts parts = PartsOf(name);
    TensorView view{tensor.type, tensor.shape, tensor.data, tensor.bytes};
    const bool rotated_by_pairs =
        architecture_ == "llama" || architecture_ == "granite" || architecture_ == "smollm3";
    if (rotated_by_pairs && (parts.stem == "attn_q" || parts.stem == "attn_k")) {
      TANDEM_RETURN_IF_ERROR(OrderHeads(name, parts.stem == "attn_q" ? heads_ : kv_heads_, view));
    }
    if (architecture_ == "gptneox" && parts.stem == "attn_qkv")
      TANDEM_RETURN_IF_ERROR(MixHeads(name, view));
    if (architecture_ == "gemma3" && absl::EndsWith(parts.stem, "_norm")) TakeOne(view);
    const bool is_matrix = !parts.layer.empty() && view.shape.size() == 2;
    if (architecture_ == "gpt2" && is_matrix) Transpose(view);
    to_.tensors.emplace(NameOf(name, parts), std::move(view));
    return absl::OkStatus();
  }

 private:
  std::string NameOf(const std::string& name, const Parts& parts) const {
    const Names& names = parts.layer.empty() ? names_.model : names_.layer;
    const auto it = names.find(parts.stem);
    if (it == names.end()) return name;
    if (parts.layer.empty()) return absl::StrCat(it->second, parts.end);
    return absl::StrCat(names_.layers, ".", parts.layer, ".", it->second, parts.end);
  }

  // Row i of the copy is row from(i).
  void CopyRows(TensorView& view, const std::function<int64_t(int64_t)>& from) {
    cpu::Buffer copy(view.bytes);
    const int64_t rows = view.shape[0];
    const size_t bytes = view.bytes / static_cast<size_t>(rows);
    for (int64_t row = 0; row < rows; ++row) {
      std::memcpy(static_cast<char*>(copy.data()) + row * bytes,
                  static_cast<const char*>(view.data) + from(row) * bytes, bytes);
    }
    Hold(std::move(copy), view);
  }

  absl::Status OrderHeads(const std::string& name, int64_t heads, TensorView& view) {
    if (heads < 1 || view.shape[0] % (2 * heads) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", base::Excerpt(name), " ", ShapeText(view.shape),
                       " does not fit attention.head_count, ", heads));
    }
    const int64_t size = view.shape[0] / heads, half = size / 2;
    CopyRows(view, [size, half](int64_t row) {
      const int64_t in_head = row % size;
      return row - in_head + in_head % half * 2 + in_head / half;
    });
    return absl::OkStatus();
  }

  // All of q, k and v to those of each head.
  absl::Status MixHeads(const std::string& name, TensorView& view) {
    if (heads_ < 1 || view.shape[0] % (3 * heads_) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", base::Excerpt(name), " ", ShapeText(view.shape),
                       " does not fit attention.head_count, ", heads_));
    }
    const int64_t size = view.shape[0] / 3 / heads_, part = size * heads_;
    CopyRows(view, [size, part](int64_t row) {
      const int64_t head = row / (3 * size), in_head = row % (3 * size);
      return in_head / size * part + head * size + in_head % size;
    });
    return absl::OkStatus();
  }

  // From types that are none of a norm nothing is taken; they are refused later.
  void TakeOne(TensorView& view) {
    if (view.dtype != "F32" && view.dtype != "F16" && view.dtype != "BF16") return;
    const int64_t count = Elements(view);
    cpu::Buffer copy = cpu::FloatBuffer(static_cast<size_t>(count));
    cpu::DequantizeRow(SourceTypeOf(view), view.data, count, copy.floats());
    for (int64_t i = 0; i < count; ++i) copy.floats()[i] -= 1.0f;
    Hold(std::move(copy), view);
    view.dtype = "F32";
    view.bytes = static_cast<size_t>(count) * sizeof(float);
  }

  void Transpose(TensorView& view) {
    const int64_t out = view.shape[0], in = view.shape[1];
    cpu::Buffer copy = cpu::FloatBuffer(static_cast<size_t>(out * in));
    const size_t row_bytes = view.bytes / static_cast<size_t>(out);
    for (int64_t row = 0; row < out; ++row) {
      const void* source = static_cast<const char*>(view.data) + row * row_bytes;
      for (int64_t i = 0; i < in; ++i) {
        copy.floats()[i * out + row] = cpu::ReadValue(source, SourceTypeOf(view), i);
      }
    }
    Hold(std::move(copy), view);
    view = {"F32", {in, out}, view.data, static_cast<size_t>(out * in) * sizeof(float)};
  }

  void Hold(cpu::Buffer copy, TensorView& view) {
    view.data = copy.data();
    to_.copies.push_back(std::move(copy));
  }

  const gguf::File& file_;
  GgufTensors& to_;
  const std::string architecture_;
  const Renaming names_;
  const int64_t heads_, kv_heads_;
};

}  // namespace

absl::StatusOr<GgufTensors> ReadGgufTensors(const gguf::File& file) {
  GgufTensors all;
  Conversion conversion(file, all);
  for (const auto& [name, tensor] : file.tensors())
    TANDEM_RETURN_IF_ERROR(conversion.Add(name, tensor));
  return all;
}

}  // namespace tandem::model
