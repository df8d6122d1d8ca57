#include "model/decoder_tensors.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>

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
  explicit Finder(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  const TensorView* Weight(const std::string& stem, const std::vector<int64_t>& shape) {
    return Find(stem + ".weight", shape);
  }

  LinearView Linear(const std::string& stem, int64_t out, int64_t in, bool bias) {
    LinearView view;
    view.weight = Weight(stem, {out, in});
    if (bias) view.bias = Find(stem + ".bias", {out});
    return view;
  }

  // The one matrix of a tied model. A checkpoint holds it under the embedding's name, under the
  // output's, or twice. Which name was left out is in the file's own metadata, and config.json has
  // said already that they are one: safetensors' save_model keeps either.
  const TensorView* Tied(const TensorNames& names, const std::vector<int64_t>& shape) {
    const bool only_output = !Has(names.embedding) && Has(names.output);
    const TensorView* matrix = Weight(only_output ? names.output : names.embedding, shape);
    AllowTiedOutput(names, matrix);
    return matrix;
  }

  // All problems in one. `ignored`: as in TensorNames.
  absl::Status Finish(const std::vector<std::string>& ignored) {
    for (const auto& [name, view] : checkpoint_.tensors()) {
      auto ends = [&name = name](const std::string& end) { return absl::EndsWith(name, end); };
      if (wanted_.count(name) == 0 && std::none_of(ignored.begin(), ignored.end(), ends)) {
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
  bool Has(const std::string& stem) const {
    return checkpoint_.tensors().count(stem + ".weight") != 0;
  }

  // The output's matrix says nothing new in a tied model, unless it differs.
  void AllowTiedOutput(const TensorNames& names, const TensorView* embedding) {
    auto it = checkpoint_.tensors().find(names.output + ".weight");
    if (it == checkpoint_.tensors().end() || embedding == nullptr) return;
    if (&it->second == embedding) return;
    wanted_.insert(it->first);
    const TensorView& head = it->second;
    if (head.shape != embedding->shape || head.dtype != embedding->dtype ||
        std::memcmp(head.data, embedding->data, head.bytes) != 0) {
      wrong_.push_back(absl::StrCat(it->first, " differs from ", names.embedding,
                                    ".weight, but tie_word_embeddings is true"));
    }
  }

  const TensorView* Find(const std::string& name, const std::vector<int64_t>& shape) {
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
  std::set<std::string> wanted_;
  std::vector<std::string> missing_;
  std::vector<std::string> wrong_;
  std::vector<std::string> unexpected_;
};

LayerTensors FindLayer(const DecoderSpec& spec, const TensorNames& names, int layer,
                       Finder& finder) {
  const std::string prefix = absl::StrCat(names.layers, ".", layer, ".");
  const int64_t hidden = spec.hidden_size;
  const int64_t inner = spec.intermediate_size;
  LayerTensors tensors;
  tensors.attention_norm = finder.Weight(prefix + names.attention_norm, {hidden});
  tensors.q = finder.Linear(prefix + names.q, spec.q_size(), hidden, spec.qkv_bias);
  tensors.k = finder.Linear(prefix + names.k, spec.kv_size(), hidden, spec.qkv_bias);
  tensors.v = finder.Linear(prefix + names.v, spec.kv_size(), hidden, spec.qkv_bias);
  tensors.o = finder.Linear(prefix + names.o, hidden, spec.q_size(), spec.o_bias);
  tensors.mlp_norm = finder.Weight(prefix + names.mlp_norm, {hidden});
  tensors.gate = finder.Linear(prefix + names.gate, inner, hidden, spec.mlp_bias);
  tensors.up = finder.Linear(prefix + names.up, inner, hidden, spec.mlp_bias);
  tensors.down = finder.Linear(prefix + names.down, hidden, inner, spec.mlp_bias);
  return tensors;
}

}  // namespace

absl::StatusOr<DecoderTensors> FindTensors(const DecoderSpec& spec, const TensorNames& names,
                                           const Checkpoint& checkpoint) {
  Finder finder(checkpoint);
  DecoderTensors tensors;
  const std::vector<int64_t> table = {spec.vocabulary_size, spec.hidden_size};
  tensors.embedding =
      spec.tied_embeddings ? finder.Tied(names, table) : finder.Weight(names.embedding, table);
  for (int layer = 0; layer < spec.layers; ++layer) {
    tensors.layers.push_back(FindLayer(spec, names, layer, finder));
  }
  tensors.final_norm = finder.Weight(names.final_norm, {spec.hidden_size});
  tensors.output = spec.tied_embeddings ? tensors.embedding : finder.Weight(names.output, table);
  TANDEM_RETURN_IF_ERROR(finder.Finish(names.ignored));
  return tensors;
}

}  // namespace tandem::model
