// Which weights stay in the model's files, because memory has no room for them.
#pragma once

#include <climits>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/process/room.h"
#include "model/decoder_tensors.h"
#include "model/dtype.h"
#include "model/files/checkpoint.h"

namespace tandem::model {

// Thread safety: a plain value.
struct Offload {
  int first_layer = INT_MAX;  // this layer and those after it stay in the file
  bool output = false;        // so do the output and the embedding
  // What the tensors lie in: it is mapped, and stays as it is, as long as this lives. Null: nothing
  // is offloaded.
  std::shared_ptr<const Checkpoint> files;

  bool any() const { return first_layer != INT_MAX || output; }
  bool layer(int i) const { return i >= first_layer; }
};

// Keeps in memory as many layers as there is room for, the first ones. The output, which every pass
// reads as a whole, goes before all layers. Room for two layers is left free, so that one can be
// read while another is used. `need`: MemoryNeed's parts, and what a service takes; all of it
// counts as used, the cache too. `free`: what is left for this model.
//
// Errors name `directory`. INVALID_ARGUMENT: something would have to stay in the file that is not
// there as passes need it: `dtype` rounds it, or it is transposed or mixed at load.
// RESOURCE_EXHAUSTED: there is no room even without weights.
absl::StatusOr<Offload> PlanOffload(const std::string& directory, const DecoderTensors& tensors,
                                    Dtype dtype, const std::vector<process::MemoryPart>& need,
                                    const process::FreeMemory& free);

}  // namespace tandem::model
