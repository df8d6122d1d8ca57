// Looks up the tensors of a checkpoint by a family's names and collects what is wrong with them.
// For decoder_tensors.h.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "model/files/checkpoint.h"
#include "model/files/packed_tensor.h"
#include "model/files/safetensors.h"
#include "model/spec/tensor_names.h"

namespace tandem::model {

// Whether a checkpoint may have a tensor `name` that nobody computes with.
bool IsIgnored(const TensorNames& names, const std::string& name);

// Thread safety: none. Refers to `checkpoint`, which must outlive it. What it returns points into
// the checkpoint; null: the tensor is missing. A tensor that is wrong is returned as it is.
class TensorFinder {
 public:
  // `packed`: as config.json says it.
  TensorFinder(const Checkpoint& checkpoint, const TensorNames& names, PackedScheme packed = {});

  // stem.weight and stem.bias, of F32, BF16 or F16.
  const TensorView* Weight(const std::string& stem, const std::vector<int64_t>& shape);
  const TensorView* Bias(const std::string& stem, int64_t size);

  // The weight [out, in] of a linear layer, which may be I8, and its scale then. If it is packed, a
  // view without data, which lives as long as what TakePacked returns.
  LinearView Matrix(const std::string& stem, int64_t out, int64_t in, bool may_be_packed = true);

  // Of a layer without a bias: one of zeros may be there all the same. AutoGPTQ wrote them.
  void AllowZeroBias(const std::string& stem);

  // The views of all packed matrices.
  std::vector<std::shared_ptr<const TensorView>> TakePacked() { return std::move(views_); }

  // The tokens of a pruned output's rows, by the tensor that EAGLE-3, vLLM and SGLang call d2t
  // [size]: row j is of token j + d2t[j]. Ascending, below `vocabulary_size`. Empty: it is missing
  // or wrong.
  std::vector<uint32_t> DraftTokens(int64_t size, int64_t vocabulary_size);

  // Parts of one matrix are all I8, or none is. `stem` names them in the message.
  void CheckTogether(const std::string& stem, const std::vector<LinearView>& parts);

  // The one matrix of a tied model. A checkpoint holds it under the embedding's name, under the
  // output's, or twice. Which name was left out is in the file's own metadata, and config.json has
  // said already that they are one: safetensors' save_model keeps either.
  const TensorView* Tied(const TensorNames& names, const std::vector<int64_t>& shape);

  // What this checkpoint calls the output.
  std::string Output(const TensorNames& names) const;

  // The whole name that this checkpoint has, or would have, for a stem's weight.
  std::string WeightName(const std::string& stem) const;

  bool int8() const { return int8_; }  // whether a weight was I8

  // INVALID_ARGUMENT: all problems in one, with the tensors that nobody looked up.
  absl::Status Finish(const TensorNames& names);

 private:
  const TensorNames::Prefix* FindPrefix(const TensorNames& names) const;
  bool Has(const std::string& stem) const;
  void AllowTiedOutput(const std::string& embedding_stem, const std::string& output,
                       const TensorView* embedding);
  const TensorView* Find(const std::string& usual_name, const std::vector<int64_t>& shape,
                         bool may_be_int8 = false);
  const TensorView* Scale(const std::string& stem, int64_t out);
  // Null: this matrix is not packed.
  const TensorView* Packed(const std::string& stem, int64_t out, int64_t in);
  const TensorView* Part(const std::string& name, const std::vector<const char*>& dtypes,
                         const std::vector<int64_t>& shape, bool required);
  void CheckGroups(const std::string& name, int64_t in);
  void CheckShape(const std::string& name, const std::vector<int64_t>& shape);
  void CheckZeroPoint(const std::string& stem);

  const Checkpoint& checkpoint_;
  const TensorNames::Prefix* const prefix_;
  const PackedScheme packed_;
  std::vector<std::shared_ptr<const TensorView>> views_;
  bool int8_ = false;
  std::set<std::string> wanted_;
  std::vector<std::string> missing_;
  std::vector<std::string> wrong_;
  std::vector<std::string> unexpected_;
};

}  // namespace tandem::model
