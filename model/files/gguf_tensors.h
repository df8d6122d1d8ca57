// The tensors of a GGUF under the names, and in the order, that a Hugging Face checkpoint has them
// in.
//
// llama.cpp's converter changes some: it orders the rows of q and k of Llama's kin for another way
// to rotate, adds 1 to the norms of Gemma 3, transposes the matrices of GPT-2, and puts q, k and v
// of GPT-NeoX apart. That is undone here, in copies.
//
// Thread safety: a plain value, and a pure function.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/gguf/gguf_file.h"
#include "model/cpu/buffer.h"
#include "model/files/safetensors.h"

namespace tandem::model {

struct GgufTensors {
  std::map<std::string, TensorView> tensors;  // in the file, or in `copies`
  std::vector<cpu::Buffer> copies;
};

// The views hold as long as `file` and the result. INVALID_ARGUMENT: a tensor whose shape does not
// fit the numbers of heads. A tensor with a name that is not known keeps it: the reader of the
// model says that nobody needs it.
absl::StatusOr<GgufTensors> ReadGgufTensors(const gguf::File& file);

}  // namespace tandem::model
