#include "model/weights.h"

#include <cstring>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tandem::model {
namespace {

constexpr size_t kMaxNamed = 40;  // of each kind, in an error

class Finder {
 public:
  explicit Finder(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  const TensorView* Find(const std::string& name, std::vector<int64_t> shape) {
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

  LinearView Linear(const std::string& name, int64_t out, int64_t in, bool bias) {
    LinearView view;
    view.weight = Find(name + ".weight", {out, in});
    if (bias) view.bias = Find(name + ".bias", {out});
    return view;
  }

  // A tied model's lm_head.weight says nothing new, unless it differs.
  void AllowTiedOutput(const TensorView* embedding) {
    auto it = checkpoint_.tensors().find("lm_head.weight");
    if (it == checkpoint_.tensors().end() || embedding == nullptr) return;
    wanted_.insert(it->first);
    const TensorView& head = it->second;
    if (head.shape != embedding->shape || head.dtype != embedding->dtype ||
        std::memcmp(head.data, embedding->data, head.bytes) != 0) {
      wrong_.push_back(
          "lm_head.weight differs from model.embed_tokens.weight, but "
          "tie_word_embeddings is true");
    }
  }

  absl::Status Finish() {
    for (const auto& [name, view] : checkpoint_.tensors()) {
      if (wanted_.count(name) == 0 && !absl::EndsWith(name, "rotary_emb.inv_freq")) {
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

LlamaLayerViews FindLayer(const LlamaConfig& config, int layer, Finder& finder) {
  const std::string prefix = absl::StrCat("model.layers.", layer, ".");
  const int64_t hidden = config.hidden_size;
  const int64_t ffn = config.feed_forward_size;
  const int64_t q = int64_t{config.heads} * config.head_size;
  const int64_t kv = int64_t{config.kv_heads} * config.head_size;
  const bool attention_bias = config.attention_bias;
  LlamaLayerViews views;
  views.attention_norm = finder.Find(prefix + "input_layernorm.weight", {hidden});
  views.q = finder.Linear(prefix + "self_attn.q_proj", q, hidden, attention_bias);
  views.k = finder.Linear(prefix + "self_attn.k_proj", kv, hidden, attention_bias);
  views.v = finder.Linear(prefix + "self_attn.v_proj", kv, hidden, attention_bias);
  views.o = finder.Linear(prefix + "self_attn.o_proj", hidden, q, attention_bias);
  views.feed_forward_norm = finder.Find(prefix + "post_attention_layernorm.weight", {hidden});
  views.gate = finder.Linear(prefix + "mlp.gate_proj", ffn, hidden, config.mlp_bias);
  views.up = finder.Linear(prefix + "mlp.up_proj", ffn, hidden, config.mlp_bias);
  views.down = finder.Linear(prefix + "mlp.down_proj", hidden, ffn, config.mlp_bias);
  return views;
}

}  // namespace

absl::StatusOr<LlamaViews> FindLlamaTensors(const LlamaConfig& config,
                                            const Checkpoint& checkpoint) {
  Finder finder(checkpoint);
  LlamaViews views;
  const std::vector<int64_t> table = {config.vocabulary_size, config.hidden_size};
  views.embedding = finder.Find("model.embed_tokens.weight", table);
  for (int layer = 0; layer < config.layers; ++layer) {
    views.layers.push_back(FindLayer(config, layer, finder));
  }
  views.final_norm = finder.Find("model.norm.weight", {config.hidden_size});
  if (config.tied_embeddings) {
    views.output = views.embedding;
    finder.AllowTiedOutput(views.embedding);
  } else {
    views.output = finder.Find("lm_head.weight", table);
  }
  absl::Status status = finder.Finish();
  if (!status.ok()) return status;
  return views;
}

}  // namespace tandem::model
