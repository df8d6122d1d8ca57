#include "model/tensor_finder.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/excerpt.h"
#include "model/cpu/block_formats.h"
#include "model/files/tensor_type.h"

namespace tandem::model {
namespace {

constexpr size_t kMaxNamed = 40;  // of each kind, in an error

// What a name of the family is called in this checkpoint.
std::string Actual(const TensorNames::Prefix* prefix, const std::string& name) {
  if (prefix == nullptr) return name;
  if (!absl::StartsWith(name, prefix->usual)) return prefix->before_others + name;
  return prefix->actual + name.substr(prefix->usual.size());
}

void Add(const char* kind, std::vector<std::string>& names, std::vector<std::string>& problems) {
  if (names.empty()) return;
  const size_t count = names.size();
  if (count > kMaxNamed) {
    names.resize(kMaxNamed);
    names.push_back(absl::StrCat("and ", count - kMaxNamed, " more"));
  }
  problems.push_back(absl::StrCat(count, " ", kind, ": ", absl::StrJoin(names, ", ")));
}

}  // namespace

bool IsIgnored(const TensorNames& names, const std::string& name) {
  const auto ends = [&](const std::string& end) { return absl::EndsWith(name, end); };
  const auto begins = [&](const std::string& begin) { return absl::StartsWith(name, begin); };
  return std::any_of(names.ignored.begin(), names.ignored.end(), ends) ||
         std::any_of(names.ignored_prefixes.begin(), names.ignored_prefixes.end(), begins);
}

TensorFinder::TensorFinder(const Checkpoint& checkpoint, const TensorNames& names,
                           PackedScheme packed)
    : checkpoint_(checkpoint), prefix_(FindPrefix(names)), packed_(packed) {}

const TensorView* TensorFinder::Weight(const std::string& stem, const std::vector<int64_t>& shape) {
  return Find(stem + ".weight", shape);
}

const TensorView* TensorFinder::Bias(const std::string& stem, int64_t size) {
  return Find(stem + ".bias", {size});
}

LinearView TensorFinder::Matrix(const std::string& stem, int64_t out, int64_t in,
                                bool may_be_packed) {
  LinearView view;
  if (may_be_packed && packed_.format != PackedFormat::kNone) {
    view.weight = Packed(stem, out, in);
    if (view.weight != nullptr) return view;
  }
  view.weight = Find(stem + ".weight", {out, in}, /*may_be_int8=*/true);
  if (view.weight == nullptr || view.weight->dtype != "I8") return view;
  int8_ = true;
  view.scale = Scale(stem, out);
  CheckZeroPoint(stem);
  return view;
}

std::vector<uint32_t> TensorFinder::DraftTokens(int64_t size, int64_t vocabulary_size) {
  const char* const name = "d2t";
  wanted_.insert(name);
  const auto it = checkpoint_.tensors().find(name);
  if (it == checkpoint_.tensors().end()) {
    missing_.push_back(absl::StrCat(name, " ", ShapeText({size})));
    return {};
  }
  const TensorView& view = it->second;
  if (view.dtype != "I64" || view.shape != std::vector<int64_t>{size}) {
    wrong_.push_back(absl::StrCat(name, " is ", view.dtype, " ", ShapeText(view.shape),
                                  ", config.json makes it I64 ", ShapeText({size})));
    return {};
  }
  std::vector<uint32_t> tokens;
  for (int64_t row = 0; row < size; ++row) {
    int64_t offset;
    std::memcpy(&offset, static_cast<const char*>(view.data) + row * 8, 8);
    const int64_t least = tokens.empty() ? 0 : int64_t{tokens.back()} + 1;
    if (offset < least - row || offset >= vocabulary_size - row) {
      wrong_.push_back(absl::StrCat(name, " makes row ", row, " token ", row, " + ", offset,
                                    "; supported: ascending tokens below vocab_size, ",
                                    vocabulary_size));
      return {};
    }
    tokens.push_back(static_cast<uint32_t>(row + offset));
  }
  return tokens;
}

void TensorFinder::CheckTogether(const std::string& stem, const std::vector<LinearView>& parts) {
  const auto is_int8 = [](const LinearView& part) {
    return part.weight != nullptr && part.weight->dtype == "I8";
  };
  const auto count = std::count_if(parts.begin(), parts.end(), is_int8);
  if (count == 0 || count == static_cast<int64_t>(parts.size())) return;
  wrong_.push_back(absl::StrCat(count, " of the ", parts.size(), " matrices that begin with ",
                                Actual(prefix_, stem),
                                ".weight are I8; they are one product here, so supported: all or "
                                "none of them"));
}

const TensorView* TensorFinder::Tied(const TensorNames& names, const std::vector<int64_t>& shape) {
  const std::string output = Output(names);
  const bool only_output = !Has(names.embedding) && Has(output);
  const TensorView* matrix = Weight(only_output ? output : names.embedding, shape);
  AllowTiedOutput(names.embedding, output, matrix);
  return matrix;
}

std::string TensorFinder::Output(const TensorNames& names) const {
  const bool other = !names.other_output.empty() && !Has(names.output) && Has(names.other_output);
  return other ? names.other_output : names.output;
}

std::string TensorFinder::WeightName(const std::string& stem) const {
  return Actual(prefix_, stem + ".weight");
}

absl::Status TensorFinder::Finish(const TensorNames& names) {
  for (const auto& [name, view] : checkpoint_.tensors()) {
    if (wanted_.count(name) == 0 && !IsIgnored(names, name)) {
      unexpected_.push_back(absl::StrCat(base::Excerpt(name), " ", ShapeText(view.shape)));
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

// The first that the embedding or the first layer is called by; the output of a wrapped model may
// stand under its own name. Null: the family's names as they are.
const TensorNames::Prefix* TensorFinder::FindPrefix(const TensorNames& names) const {
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

bool TensorFinder::Has(const std::string& stem) const {
  return checkpoint_.tensors().count(Actual(prefix_, stem) + ".weight") != 0;
}

// The output's matrix says nothing new in a tied model, unless it differs.
void TensorFinder::AllowTiedOutput(const std::string& embedding_stem, const std::string& output,
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

const TensorView* TensorFinder::Find(const std::string& usual_name,
                                     const std::vector<int64_t>& shape, bool may_be_int8) {
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
  const bool is_matrix = shape.size() == 2 && cpu::IsBlocks(SourceTypeOf(view));
  if (view.dtype != "F32" && view.dtype != "BF16" && view.dtype != "F16" && !is_matrix &&
      !(may_be_int8 && view.dtype == "I8")) {
    wrong_.push_back(absl::StrCat(
        name, " is ", view.dtype, "; supported: F32, BF16, F16",
        shape.size() == 2 ? ", and of a GGUF Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K" : ""));
  }
  return &view;
}

const TensorView* TensorFinder::Scale(const std::string& stem, int64_t out) {
  const std::string name = stem + ".weight_scale";
  const auto it = checkpoint_.tensors().find(Actual(prefix_, name));
  const bool flat = it != checkpoint_.tensors().end() && it->second.shape.size() == 1;
  return Find(name, flat ? std::vector<int64_t>{out} : std::vector<int64_t>{out, 1});
}

void TensorFinder::CheckZeroPoint(const std::string& stem) {
  const auto it = checkpoint_.tensors().find(Actual(prefix_, stem + ".weight_zero_point"));
  if (it == checkpoint_.tensors().end()) return;
  wanted_.insert(it->first);
  const char* bytes = static_cast<const char*>(it->second.data);
  if (std::any_of(bytes, bytes + it->second.bytes, [](char byte) { return byte != 0; })) {
    wrong_.push_back(absl::StrCat(it->first, " is not zero; supported: symmetric quantisation"));
  }
}

void TensorFinder::AllowZeroBias(const std::string& stem) {
  const auto it = checkpoint_.tensors().find(Actual(prefix_, stem + ".bias"));
  if (it == checkpoint_.tensors().end()) return;
  const char* const bytes = static_cast<const char*>(it->second.data);
  if (std::all_of(bytes, bytes + it->second.bytes, [](char byte) { return byte == 0; })) {
    wanted_.insert(it->first);
  }
}

// A tensor of a packed matrix. Null: it is missing, or wrong, which is reported.
const TensorView* TensorFinder::Part(const std::string& name,
                                     const std::vector<const char*>& dtypes,
                                     const std::vector<int64_t>& shape, bool required) {
  const auto it = checkpoint_.tensors().find(name);
  if (it == checkpoint_.tensors().end()) {
    if (required) missing_.push_back(absl::StrCat(name, " ", ShapeText(shape)));
    return nullptr;
  }
  wanted_.insert(name);
  const TensorView& view = it->second;
  const bool has_type = std::any_of(dtypes.begin(), dtypes.end(),
                                    [&view](const char* dtype) { return view.dtype == dtype; });
  if (has_type && view.shape == shape) return &view;
  wrong_.push_back(absl::StrCat(name, " is ", view.dtype, " ", ShapeText(view.shape),
                                ", quantization_config and config.json make it ",
                                absl::StrJoin(dtypes, " or "), " ", ShapeText(shape)));
  return nullptr;
}

// Which group each input is of, where a checkpoint says it.
void TensorFinder::CheckGroups(const std::string& name, int64_t in) {
  const TensorView* groups = Part(name, {"I32"}, {in}, /*required=*/false);
  if (groups == nullptr) return;
  for (int64_t i = 0; i < in; ++i) {
    int32_t group;
    std::memcpy(&group, static_cast<const char*>(groups->data) + i * sizeof(group), sizeof(group));
    if (group == i / packed_.group) continue;
    wrong_.push_back(absl::StrCat(name, " puts input ", i, " into group ", group,
                                  "; supported: groups of inputs that are beside each other "
                                  "(desc_act and actorder off), as in ",
                                  i / packed_.group));
    return;
  }
}

// compressed-tensors says once more what a matrix is.
void TensorFinder::CheckShape(const std::string& name, const std::vector<int64_t>& shape) {
  const TensorView* view = Part(name, {"I64"}, {2}, /*required=*/false);
  if (view == nullptr || std::memcmp(view->data, shape.data(), view->bytes) == 0) return;
  wrong_.push_back(absl::StrCat(name, " is not ", ShapeText(shape), ", which config.json says"));
}

const TensorView* TensorFinder::Packed(const std::string& stem, int64_t out, int64_t in) {
  const bool by_output = packed_.format == PackedFormat::kPackQuantized;
  const bool awq = packed_.format == PackedFormat::kAwq;
  const std::string base = Actual(prefix_, stem) + ".";
  const std::string name = base + (by_output ? "weight_packed" : "qweight");
  if (checkpoint_.tensors().count(name) == 0) return nullptr;
  wanted_.insert(name);
  const int64_t group = packed_.group;
  PackedTensor tensor{packed_, out, in};
  auto view = std::make_shared<TensorView>();
  view->shape = {out, in};
  if (in % group != 0 || (!by_output && out % 8 != 0)) {
    wrong_.push_back(absl::StrCat(name, ": ", ShapeText({out, in}), " has no whole groups of ",
                                  group, " inputs", by_output ? "" : " and words of 8 outputs"));
  }
  const int64_t groups = in / group, words = (out + 7) / 8;
  using Shape = std::vector<int64_t>;
  const TensorView* integers = Part(name, {"I32"},
                                    by_output ? Shape{out, in / 8}
                                    : awq     ? Shape{in, words}
                                              : Shape{in / 8, out},
                                    /*required=*/true);
  const std::string zeros_name = base + (by_output ? "weight_zero_point" : "qzeros");
  const TensorView* zeros =
      Part(zeros_name, {"I32"}, by_output ? Shape{words, groups} : Shape{groups, words},
           /*required=*/packed_.has_zeros);
  const std::string scales_name = base + (by_output ? "weight_scale" : "scales");
  const TensorView* scales =
      Part(scales_name, {"F16", "BF16", "F32"}, by_output ? Shape{out, groups} : Shape{groups, out},
           /*required=*/true);
  CheckGroups(base + (by_output ? "weight_g_idx" : "g_idx"), in);
  if (by_output) CheckShape(base + "weight_shape", {out, in});
  if (integers != nullptr && scales != nullptr && (zeros != nullptr || !packed_.has_zeros)) {
    tensor.integers = *integers;
    tensor.scales = *scales;
    if (zeros != nullptr) tensor.zeros = *zeros;
    const std::optional<cpu::SourceType> type = BlocksOf(tensor);
    if (!type.has_value()) {
      wrong_.push_back(absl::StrCat(zeros_name,
                                    " has a zero point of 15, which readers of GPTQ "
                                    "take for 0 or for 16; supported: 0 to 14, or gptq_v2"));
    } else if (type == cpu::SourceType::kQ4_1F && scales->dtype == "F32") {
      wrong_.push_back(
          absl::StrCat(scales_name, " is F32 beside zero points; supported: F16, BF16"));
    } else {
      const cpu::BlockShape shape = cpu::BlockShapeOf(*type);
      view->dtype = BlockName(*type);
      view->bytes = static_cast<size_t>(out * in / shape.values * shape.bytes);
    }
  }
  view->packed = std::make_shared<const PackedTensor>(std::move(tensor));
  views_.push_back(std::move(view));
  return views_.back().get();
}

}  // namespace tandem::model
