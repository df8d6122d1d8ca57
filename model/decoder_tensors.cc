#include "model/decoder_tensors.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"

namespace tandem::model {
namespace {

constexpr size_t kMaxNamed = 40;  // of each kind, in an error

// Looks up one tensor after the other and collects what is wrong with them.
class Finder {
 public:
  Finder(const Checkpoint& checkpoint, const TensorNames& names)
      : checkpoint_(checkpoint), prefix_(FindPrefix(names)) {}

  const TensorView* Weight(const std::string& stem, const std::vector<int64_t>& shape) {
    return Find(stem + ".weight", shape);
  }
  const TensorView* Bias(const std::string& stem, int64_t size) {
    return Find(stem + ".bias", {size});
  }

  // The one matrix of a tied model. A checkpoint holds it under the embedding's name, under the
  // output's, or twice. Which name was left out is in the file's own metadata, and config.json has
  // said already that they are one: safetensors' save_model keeps either.
  const TensorView* Tied(const TensorNames& names, const std::vector<int64_t>& shape) {
    const std::string output = Output(names);
    const bool only_output = !Has(names.embedding) && Has(output);
    const TensorView* matrix = Weight(only_output ? output : names.embedding, shape);
    AllowTiedOutput(names.embedding, output, matrix);
    return matrix;
  }

  // What this checkpoint calls the output.
  std::string Output(const TensorNames& names) const {
    const bool other = !names.other_output.empty() && !Has(names.output) && Has(names.other_output);
    return other ? names.other_output : names.output;
  }

  // All problems in one.
  absl::Status Finish(const TensorNames& names) {
    for (const auto& [name, view] : checkpoint_.tensors()) {
      auto ends = [&name = name](const std::string& end) { return absl::EndsWith(name, end); };
      auto begins = [&name = name](const std::string& begin) {
        return absl::StartsWith(name, begin);
      };
      if (wanted_.count(name) == 0 &&
          std::none_of(names.ignored.begin(), names.ignored.end(), ends) &&
          std::none_of(names.ignored_prefixes.begin(), names.ignored_prefixes.end(), begins)) {
        unexpected_.push_back(absl::StrCat(name, " ", ShapeText(view.shape)));
      }
    }
    std::vector<std::string> problems;
    Add("missing", missing_, problems);
    Add("wrong", wrong_, problems);
    Add("unexpected", unexpected_, problems);
    if (problems.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("the weights do not fit config.json: ", absl::StrJoin(problems, "; ")));
  }

 private:
  // What a name of the family is called in this checkpoint.
  static std::string Actual(const TensorNames::Prefix* prefix, const std::string& name) {
    if (prefix == nullptr) return name;
    if (!absl::StartsWith(name, prefix->usual)) return prefix->before_others + name;
    return prefix->actual + name.substr(prefix->usual.size());
  }

  // The first that the embedding or the first layer is called by; the output of a wrapped model may
  // stand under its own name. Null: the family's names as they are.
  const TensorNames::Prefix* FindPrefix(const TensorNames& names) const {
    const std::string first_layer = absl::StrCat(names.layers, ".0.", names.o);
    auto fits = [&](const TensorNames::Prefix* prefix) {
      return checkpoint_.tensors().count(Actual(prefix, names.embedding) + ".weight") != 0 ||
             checkpoint_.tensors().count(Actual(prefix, first_layer) + ".weight") != 0;
    };
    if (fits(nullptr)) return nullptr;
    for (const TensorNames::Prefix& prefix : names.prefixes) {
      if (fits(&prefix)) return &prefix;
    }
    return nullptr;
  }

  bool Has(const std::string& stem) const {
    return checkpoint_.tensors().count(Actual(prefix_, stem) + ".weight") != 0;
  }

  // The output's matrix says nothing new in a tied model, unless it differs.
  void AllowTiedOutput(const std::string& embedding_stem, const std::string& output,
                       const TensorView* embedding) {
    auto it = checkpoint_.tensors().find(Actual(prefix_, output) + ".weight");
    if (it == checkpoint_.tensors().end() || embedding == nullptr) return;
    if (&it->second == embedding) return;
    wanted_.insert(it->first);
    const TensorView& head = it->second;
    if (head.shape != embedding->shape || head.dtype != embedding->dtype ||
        std::memcmp(head.data, embedding->data, head.bytes) != 0) {
      wrong_.push_back(absl::StrCat(it->first, " differs from ", Actual(prefix_, embedding_stem),
                                    ".weight, but tie_word_embeddings is true"));
    }
  }

  const TensorView* Find(const std::string& usual_name, const std::vector<int64_t>& shape) {
    const std::string name = Actual(prefix_, usual_name);
    wanted_.insert(name);
    auto it = checkpoint_.tensors().find(name);
    if (it == checkpoint_.tensors().end()) {
      missing_.push_back(absl::StrCat(name, " ", ShapeText(shape)));
      return nullptr;
    }
    const TensorView& view = it->second;
    if (view.shape != shape) {
      wrong_.push_back(absl::StrCat(name, " is ", ShapeText(view.shape), ", config.json makes it ",
                                    ShapeText(shape)));
    }
    if (view.dtype != "F32" && view.dtype != "BF16" && view.dtype != "F16") {
      wrong_.push_back(absl::StrCat(name, " is ", view.dtype, "; supported: F32, BF16, F16"));
    }
    return &view;
  }

  static void Add(const char* kind, std::vector<std::string>& names,
                  std::vector<std::string>& problems) {
    if (names.empty()) return;
    const size_t count = names.size();
    if (count > kMaxNamed) {
      names.resize(kMaxNamed);
      names.push_back(absl::StrCat("and ", count - kMaxNamed, " more"));
    }
    problems.push_back(absl::StrCat(count, " ", kind, ": ", absl::StrJoin(names, ", ")));
  }

  const Checkpoint& checkpoint_;
  const TensorNames::Prefix* const prefix_;
  std::set<std::string> wanted_;
  std::vector<std::string> missing_;
  std::vector<std::string> wrong_;
  std::vector<std::string> unexpected_;
};

// Finds the tensors of layers, and splits what is fused in them.
class LayerFinder {
 public:
  LayerFinder(const DecoderSpec& spec, const TensorNames& names, Finder& finder,
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
    }
    found.down = Linear(prefix + names_.down, hidden, inner, spec_.mlp_bias);
    return found;
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
    const std::vector<int64_t> shape =
        names_.transposed ? std::vector<int64_t>{in, out} : std::vector<int64_t>{out, in};
    view.weight = finder_.Weight(stem, shape);
    if (names_.transposed && Fits(view.weight, shape)) view.weight = Transposed(*view.weight);
    if (bias) view.bias = finder_.Bias(stem, out);
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
    return {RowsOf(view.weight, first, count), RowsOf(view.bias, first, count)};
  }
  const TensorView* RowsOf(const TensorView* view, int64_t first, int64_t count) {
    if (view == nullptr || view->shape.empty() || view->shape[0] < first + count) return view;
    const size_t row_bytes = view->bytes / view->shape[0];
    DecoderTensors::Owned part{*view, {}};
    part.view.shape[0] = count;
    part.view.data = static_cast<const char*>(view->data) + first * row_bytes;
    part.view.bytes = count * row_bytes;
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
      *parts[part] = {HeadRowsOf(all.weight, part), HeadRowsOf(all.bias, part)};
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
  Finder& finder_;
  DecoderTensors& tensors_;
};

}  // namespace

absl::StatusOr<DecoderTensors> FindTensors(const DecoderSpec& spec, const TensorNames& names,
                                           const Checkpoint& checkpoint) {
  Finder finder(checkpoint, names);
  DecoderTensors tensors;
  LayerFinder layers(spec, names, finder, tensors);
  const std::vector<int64_t> table = {spec.vocabulary_size, spec.hidden_size};
  tensors.embedding =
      spec.tied_embeddings ? finder.Tied(names, table) : finder.Weight(names.embedding, table);
  if (spec.learned_positions) {
    tensors.positions = finder.Weight(
        names.positions, {spec.context_length + spec.position_offset, spec.hidden_size});
  }
  for (int layer = 0; layer < spec.layers; ++layer) {
    tensors.layers.push_back(layers.Find(layer));
  }
  layers.Norm(names.final_norm, &tensors.final_norm, &tensors.final_norm_bias);
  tensors.output =
      spec.tied_embeddings ? tensors.embedding : finder.Weight(finder.Output(names), table);
  TANDEM_RETURN_IF_ERROR(finder.Finish(names));
  return tensors;
}

}  // namespace tandem::model
