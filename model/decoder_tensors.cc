#include "model/decoder_tensors.h"

#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "model/cpu/half.h"
#include "model/files/tensor_type.h"
#include "model/tensor_finder.h"

namespace tandem::model {
namespace {

// Finds the tensors of layers, and splits what is fused in them.
class LayerFinder {
 public:
  LayerFinder(const DecoderSpec& spec, const TensorNames& names, TensorFinder& finder,
              DecoderTensors& tensors)
      : spec_(spec), names_(names), finder_(finder), tensors_(tensors) {}

  LayerTensors Find(int layer) {
    const std::string prefix = absl::StrCat(names_.layers, ".", layer, ".");
    const int64_t hidden = spec_.hidden_size;
    const int64_t inner = spec_.intermediate_size;
    LayerTensors found;
    if (spec_.pre_norm) {
      Norm(prefix + names_.attention_norm, &found.attention_norm, &found.attention_norm_bias);
      Norm(prefix + names_.mlp_norm, &found.mlp_norm, &found.mlp_norm_bias);
    }
    if (spec_.post_norm) {
      found.post_attention_norm = finder_.Weight(prefix + names_.post_attention_norm, {hidden});
      found.post_mlp_norm = finder_.Weight(prefix + names_.post_mlp_norm, {hidden});
    }
    if (names_.fused_qkv == FusedQkv::kNone) {
      found.q = Linear(prefix + names_.q, spec_.q_size(), hidden, spec_.qkv_bias);
      found.k = Linear(prefix + names_.k, spec_.kv_size(), hidden, spec_.qkv_bias);
      found.v = Linear(prefix + names_.v, spec_.kv_size(), hidden, spec_.qkv_bias);
      finder_.CheckTogether(prefix + names_.q, {found.q, found.k, found.v});
    } else {
      SplitQkv(prefix + names_.qkv, found);
    }
    if (spec_.qk_norm != QkNorm::kNone) {
      const bool width = spec_.qk_norm == QkNorm::kWidth;
      found.q_norm =
          finder_.Weight(prefix + names_.q_norm, {width ? spec_.q_size() : spec_.head_size});
      found.k_norm =
          finder_.Weight(prefix + names_.k_norm, {width ? spec_.kv_size() : spec_.head_size});
    }
    found.o = Linear(prefix + names_.o, hidden, spec_.q_size(), spec_.o_bias);
    if (spec_.gated_mlp && !names_.gate_up.empty()) {
      const LinearView both = Linear(prefix + names_.gate_up, 2 * inner, hidden, spec_.mlp_bias);
      found.gate = Rows(both, 0, inner);
      found.up = Rows(both, inner, inner);
    } else {
      if (spec_.gated_mlp) {
        found.gate = Linear(prefix + names_.gate, inner, hidden, spec_.mlp_bias);
      }
      found.up = Linear(prefix + names_.up, inner, hidden, spec_.mlp_bias);
      if (spec_.gated_mlp) finder_.CheckTogether(prefix + names_.gate, {found.gate, found.up});
    }
    found.down = Linear(prefix + names_.down, hidden, inner, spec_.mlp_bias);
    return found;
  }

  // I8 times its scale, rounded to the scale's type: as compressed-tensors makes of it. A table
  // that is looked up is not a product, so nothing is gained from its integers but the file's size.
  const TensorView* Dequantized(const LinearView& table) {
    const TensorView& scale = *table.scale;
    const cpu::SourceType type = SourceTypeOf(scale);
    const int64_t rows = table.weight->shape[0];
    const int64_t columns = table.weight->shape[1];
    const size_t element = scale.bytes / rows;
    DecoderTensors::Owned owned{{scale.dtype, table.weight->shape},
                                std::string(rows * columns * element, '\0')};
    const auto* integers = static_cast<const int8_t*>(table.weight->data);
    for (int64_t row = 0; row < rows; ++row) {
      const float step = cpu::ReadValue(scale.data, type, row);
      for (int64_t i = row * columns; i < (row + 1) * columns; ++i) {
        const float value = step * static_cast<float>(integers[i]);
        const uint16_t half =
            type == cpu::SourceType::kBfloat16 ? cpu::ToBfloat16(value) : cpu::ToFloat16(value);
        std::memcpy(&owned.bytes[i * element],
                    type == cpu::SourceType::kFloat32 ? static_cast<const void*>(&value) : &half,
                    element);
      }
    }
    return Own(std::move(owned));
  }

  void Norm(const std::string& stem, const TensorView** weight, const TensorView** bias) {
    *weight = finder_.Weight(stem, {spec_.hidden_size});
    if (spec_.norm.kind == NormSpec::Kind::kLayer) *bias = finder_.Bias(stem, spec_.hidden_size);
  }

 private:
  static bool Fits(const TensorView* view, const std::vector<int64_t>& shape) {
    return view != nullptr && view->shape == shape && view->bytes > 0;
  }

  const TensorView* Own(DecoderTensors::Owned owned) {
    auto kept = std::make_shared<DecoderTensors::Owned>(std::move(owned));
    if (!kept->bytes.empty()) {
      kept->view.data = kept->bytes.data();
      kept->view.bytes = kept->bytes.size();
      tensors_.owned_bytes += static_cast<int64_t>(kept->bytes.size());
    }
    tensors_.owned.push_back(kept);
    return &kept->view;
  }

  LinearView Linear(const std::string& stem, int64_t out, int64_t in, bool bias) {
    LinearView view;
    if (names_.transposed) {
      view.weight = finder_.Weight(stem, {in, out});
      if (Fits(view.weight, {in, out})) view.weight = Transposed(*view.weight);
    } else {
      view = finder_.Matrix(stem, out, in);
    }
    if (bias) view.bias = finder_.Bias(stem, out);
    if (!bias && view.weight != nullptr && view.weight->packed != nullptr) {
      finder_.AllowZeroBias(stem);
    }
    return view;
  }

  const TensorView* Transposed(const TensorView& view) {
    const int64_t rows = view.shape[0];
    const int64_t columns = view.shape[1];
    const size_t element = view.bytes / (rows * columns);
    DecoderTensors::Owned owned{{view.dtype, {columns, rows}}, std::string(view.bytes, '\0')};
    const char* from = static_cast<const char*>(view.data);
    for (int64_t column = 0; column < columns; ++column) {
      for (int64_t row = 0; row < rows; ++row) {
        std::memcpy(&owned.bytes[(column * rows + row) * element],
                    from + (row * columns + column) * element, element);
      }
    }
    return Own(std::move(owned));
  }

  // Rows first to first + count - 1. What did not fit stays as it is: it is an error already.
  LinearView Rows(const LinearView& view, int64_t first, int64_t count) {
    return {RowsOf(view.weight, first, count), RowsOf(view.bias, first, count),
            RowsOf(view.scale, first, count)};
  }
  const TensorView* RowsOf(const TensorView* view, int64_t first, int64_t count) {
    if (view == nullptr || view->shape.empty() || view->shape[0] < first + count) return view;
    const size_t row_bytes = view->bytes / view->shape[0];
    DecoderTensors::Owned part{*view, {}};
    part.view.shape[0] = count;
    part.view.bytes = count * row_bytes;
    if (view->packed != nullptr) {
      auto rows = std::make_shared<PackedTensor>(*view->packed);
      rows->first += first;
      part.view.packed = std::move(rows);
      return Own(std::move(part));
    }
    part.view.data = static_cast<const char*>(view->data) + first * row_bytes;
    return Own(std::move(part));
  }

  void SplitQkv(const std::string& stem, LayerTensors& found) {
    const int64_t q = spec_.q_size();
    const int64_t kv = spec_.kv_size();
    const LinearView all = Linear(stem, q + 2 * kv, spec_.hidden_size, spec_.qkv_bias);
    if (names_.fused_qkv == FusedQkv::kParts) {
      found.q = Rows(all, 0, q);
      found.k = Rows(all, q, kv);
      found.v = Rows(all, q + kv, kv);
      return;
    }
    LinearView* const parts[] = {&found.q, &found.k, &found.v};
    for (int part = 0; part < 3; ++part) {
      *parts[part] = {HeadRowsOf(all.weight, part), HeadRowsOf(all.bias, part),
                      HeadRowsOf(all.scale, part)};
    }
  }

  // Part 0, 1 or 2 (q, k or v) of each head, one head after the other.
  const TensorView* HeadRowsOf(const TensorView* view, int part) {
    if (view == nullptr || view->shape.empty() || view->shape[0] != 3 * spec_.q_size()) {
      return view;
    }
    const size_t head_bytes = view->bytes / (3 * spec_.heads);
    DecoderTensors::Owned owned{{view->dtype, view->shape}, {}};
    owned.view.shape[0] = spec_.q_size();
    for (int head = 0; head < spec_.heads; ++head) {
      owned.bytes.append(static_cast<const char*>(view->data) + (3 * head + part) * head_bytes,
                         head_bytes);
    }
    return Own(std::move(owned));
  }

  const DecoderSpec& spec_;
  const TensorNames& names_;
  TensorFinder& finder_;
  DecoderTensors& tensors_;
};

}  // namespace

absl::StatusOr<DecoderTensors> FindTensors(const DecoderSpec& spec, const TensorNames& names,
                                           const Checkpoint& checkpoint, PackedScheme packed) {
  if (packed.format != PackedFormat::kNone &&
      (names.transposed || names.fused_qkv == FusedQkv::kByHead)) {
    return absl::InvalidArgumentError(
        "quantization_config: packed weights of this family are not supported, because its "
        "matrices are transposed or mixed; give the model that it was made from");
  }
  TensorFinder finder(checkpoint, names, packed);
  DecoderTensors tensors;
  LayerFinder layers(spec, names, finder, tensors);
  LinearView embedding;
  if (spec.tied_embeddings) {
    embedding.weight = finder.Tied(names, {spec.vocabulary_size, spec.hidden_size});
  } else {
    embedding = finder.Matrix(names.embedding, spec.vocabulary_size, spec.hidden_size,
                              /*may_be_packed=*/false);
  }
  tensors.embedding = embedding.weight;
  if (spec.learned_positions) {
    tensors.positions = finder.Weight(
        names.positions, {spec.context_length + spec.position_offset, spec.hidden_size});
  }
  for (int layer = 0; layer < spec.layers; ++layer) {
    tensors.layers.push_back(layers.Find(layer));
  }
  layers.Norm(names.final_norm, &tensors.final_norm, &tensors.final_norm_bias);
  if (spec.tied_embeddings) {
    tensors.output = tensors.embedding;
  } else {
    const LinearView output =
        finder.Matrix(finder.Output(names), spec.output_size(), spec.hidden_size);
    if (output.weight != nullptr && output.weight->packed != nullptr) {
      finder.AllowZeroBias(finder.Output(names));
    }
    tensors.output = output.weight;
    tensors.output_scale = output.scale;
    if (spec.draft_vocabulary_size > 0) {
      tensors.output_tokens = finder.DraftTokens(spec.draft_vocabulary_size, spec.vocabulary_size);
    }
  }
  TANDEM_RETURN_IF_ERROR(finder.Finish(names));
  if (embedding.scale != nullptr) tensors.embedding = layers.Dequantized(embedding);
  tensors.int8 = finder.int8();
  tensors.packed = finder.TakePacked();
  return tensors;
}

}  // namespace tandem::model
