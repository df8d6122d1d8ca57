#include "model/offload.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "model/memory_need.h"
#include "model/packed_linear.h"

namespace tandem::model {
namespace {

bool RoundsNothingOf(const LayerTensors& layer, Dtype dtype) {
  std::vector<LinearView> gate_up = {layer.up};
  if (layer.gate.weight != nullptr) gate_up.push_back(layer.gate);
  return RoundsNothing(dtype, {layer.q, layer.k, layer.v}) && RoundsNothing(dtype, {layer.o}) &&
         RoundsNothing(dtype, gate_up) && RoundsNothing(dtype, {layer.down});
}

// What `offload` leaves in the files is there as the passes need it.
absl::Status CheckLeft(const Offload& offload, const DecoderTensors& tensors, Dtype dtype) {
  if (tensors.owned_bytes > 0) {
    return absl::InvalidArgumentError(
        "the weights do not fit into memory, and --offload cannot leave them in the file: they lie "
        "there transposed or mixed, as those of GPT-2 and GPT-NeoX do");
  }
  if (!tensors.packed.empty()) {
    return absl::InvalidArgumentError(
        "the weights do not fit into memory, and --offload cannot leave them in the file: they are "
        "packed there as quantization_config says");
  }
  bool exact = !offload.output ||
               RoundsNothing(dtype, {LinearView{tensors.output, nullptr, tensors.output_scale}});
  for (size_t i = offload.first_layer; i < tensors.layers.size(); ++i) {
    exact = exact && RoundsNothingOf(tensors.layers[i], dtype);
  }
  if (exact) return absl::OkStatus();
  if (dtype == Dtype::kAuto) {
    return absl::InvalidArgumentError(
        "the weights do not fit into memory, and --offload cannot leave these in the file: it "
        "takes blocks of Q4_0, "
        "Q4_1, Q4_K, Q5_0 and Q8_0, the same for all of q, k and v, and for gate and up");
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the weights do not fit into memory, and what stays in the file is read as it is: dtype ",
      DtypeName(dtype), " would round it; give --dtype=auto"));
}

}  // namespace

absl::StatusOr<Offload> PlanOffload(const std::string& directory, const DecoderTensors& tensors,
                                    Dtype dtype, const std::vector<process::MemoryPart>& need,
                                    const process::FreeMemory& free) {
  int64_t room = std::min(free.memory_bytes, free.address_bytes);
  int64_t weights = 0;
  std::vector<process::MemoryPart> others;
  for (process::MemoryPart part : need) {
    if (part.name == "weights") {
      weights = part.bytes;
      continue;
    }
    room -= part.bytes;
    part.is_written = true;
    others.push_back(std::move(part));
  }
  Offload offload;
  if (weights <= room) return offload;
  TANDEM_RETURN_IF_ERROR(
      process::CheckMemory(absl::StrCat(directory, ", even with --offload"), others, free));
  int64_t largest = 0;
  int64_t layers = 0;
  for (const LayerTensors& layer : tensors.layers) {
    const int64_t bytes = LayerBytes(layer, dtype);
    largest = std::max(largest, bytes);
    layers += bytes;
  }
  room -= 2 * largest;
  const int64_t output = weights - layers;
  offload.output = output > room;
  if (!offload.output) room -= output;
  offload.first_layer = 0;
  for (const LayerTensors& layer : tensors.layers) {
    room -= LayerBytes(layer, dtype);
    if (room < 0) break;
    ++offload.first_layer;
  }
  const absl::Status left = CheckLeft(offload, tensors, dtype);
  if (left.ok()) return offload;
  return absl::Status(left.code(), absl::StrCat(directory, ": ", left.message()));
}

}  // namespace tandem::model
