// What libtandem_torch.so offers: the step of a decoder, computed by LibTorch on a processor or on
// a CUDA device. The library is loaded at run time (library.h), so a program that computes with its
// own kernels neither links LibTorch nor needs it installed.
//
// The seam lies at the step. What reads a model's files, keeps sequences, and judges rows is the
// same code whatever computes; it stays in the program. So the library is a few sources, and
// nothing of it meets a generated proto: LibTorch's headers bring an older Protobuf with them.
//
// Program and library must come from the same sources and the same compiler. kInterfaceVersion
// counts changes of this header; Library::build tells the rest.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "model/decoder_tensors.h"
#include "model/spec/decoder_spec.h"
#include "torch/kernels/pass_kernels.h"

namespace tandem::torch {

inline constexpr uint32_t kInterfaceVersion = 13;

// Of a page of the cache (model/page_store.h).
inline constexpr int kPageTokens = 256;

// What products are computed in; sums, norms, rotation and softmax are fp32 in any case. kInt8: in
// whole numbers, as model/cpu/int8.h says; queries, keys and values are fp32 then.
enum class ComputeType { kFloat32, kBfloat16, kFloat16, kInt8 };

// How rows attend.
enum class Attention {
  kGather,  // each row by itself, over a copy of what it sees: any device, any type, any tree
  kSpans,   // our kernels, by StepOptions::kernels: any type, any tree
  kMma,     // the same on tensor cores: 16 bits, and heads that MmaTakes (attention_mma.h)
};

struct StepOptions {
  std::string device = "cpu";  // or "cuda"
  int card = 0;                // of "cuda": its number among those that CUDA shows
  ComputeType type = ComputeType::kFloat32;
  // Of int8: what matrices are held as that the file does not have in int8. Absent: as int8, too.
  std::optional<ComputeType> others;
  Attention attention = Attention::kGather;
  // Passes are captured once for each shape, and replayed (torch/graphs/pass_graphs.h).
  bool graphs = false;
  // Rows that every product is computed with, filled up with zeros, so that a row's sums do not
  // depend on how many others there are; a multiple of 32. 0: the device's own choice.
  int tile = 0;
  // A pass has one product of all its rows where it has one for each tile else. Only for a device
  // whose rows have the same bits either way (CheckSameBits in torch/self_check.h).
  bool whole_products = false;
  int threads = 1;   // of products on a processor
  int max_rows = 1;  // of a pass
  int pages = 1;     // of kPageTokens cells, for all sequences together
  // Radians a position, of each pair of a head's elements that rotate (model/rope_table.h): of
  // DecoderSpec::rope and, where there is one, sliding_rope.
  std::vector<float> rope_frequencies;
  std::vector<float> sliding_rope_frequencies;
  std::shared_ptr<kernels::PassKernels> kernels;  // of kSpans
  // Called now and then with (bytes of weights read, of how many). May be empty.
  std::function<void(int64_t, int64_t)> progress;
};

struct StepInfo {
  std::string device;  // "cpu AVX512", "cuda:0"
  int tile = 0;
  int64_t weight_bytes = 0;  // held on the device
  // What runs on the device runs in the order of this stream (a CUstream); Run returns before it
  // has. Absent: the device is the processor, and its memory the host's.
  std::optional<void*> stream;
};

// Logits as they lie on the device: rows of `stride` floats, one for each of PassRows::logits_rows.
struct DeviceLogits {
  const float* data = nullptr;
  int64_t stride = 0;
};

// A token of a pass.
struct Row {
  int64_t token = 0;
  int64_t position = 0;
  int64_t cell = 0;  // of its sequence, where its key and value go
  int part = 0;      // whose pages are its sequence's
  // What it sees, itself too: the cells 0 to straight - 1, then rest[0], rest[1], …, `visible` in
  // all (model/cpu/attention.h).
  int visible = 0;
  int straight = 0;
  const int* rest = nullptr;
};

// The parts' rows, one part after the other.
struct PassRows {
  absl::Span<const Row> rows;               // at least one, at most max_rows
  absl::Span<const uint32_t* const> pages;  // of each part, as many as its rows see
  absl::Span<const int> logits_rows;        // those that get logits; ascending
};

// A cell of all pages, page · kPageTokens + its place there, whose key and value go to another.
struct CellMove {
  int64_t from = 0;
  int64_t to = 0;
};

// The weights of a decoder on a device. Immutable; steps share them.
class StepWeights {
 public:
  virtual ~StepWeights() = default;
};

// A decoder on a device: weights, and keys and values of all sequences.
//
// Thread safety: info() from anywhere; all else from one thread at a time, the device's.
class Step {
 public:
  virtual ~Step() = default;

  virtual const StepInfo& info() const = 0;

  // Computes a pass: keys and values go to the cells, logits stay on the device. On a device with a
  // stream it may have begun only, and what fails later is told by a later call. A row's logits
  // depend on what it sees alone, to the bit. INTERNAL: the device failed, with what LibTorch says;
  // what the caches hold is then not known.
  virtual absl::Status Run(const PassRows& pass) = 0;

  // The logits of the last pass, until the next one; on a device with a stream, for what follows on
  // it. Empty where no row has logits.
  virtual DeviceLogits logits() const = 0;

  // The same, copied to `logits`: [logits_rows, vocabulary_size].
  virtual absl::Status ReadLogits(float* logits) = 0;

  // What lies in cell `from` goes to cell `to`, in all layers, for all moves at once: each reads
  // what lay there before any of them. No two have the same `to`.
  virtual absl::Status MoveCells(absl::Span<const CellMove> moves) = 0;

  // Waits for the device. As LanguageModel::DeviceStatus.
  virtual absl::Status DeviceStatus() { return absl::OkStatus(); }
};

// What the entry point gives. The first two fields stay where they are in every version.
struct Library {
  uint32_t interface_version = kInterfaceVersion;
  const char* build = nullptr;  // BuildText() of the library
  const char* torch_version = nullptr;

  // Errors of both: INVALID_ARGUMENT: a value of the options is not this device's.
  // FAILED_PRECONDITION: the device is not there; the message says what is missing and how to get
  // it. RESOURCE_EXHAUSTED: the weights or the cache do not fit.
  //
  // Copies what `tensors` point at. Of the options device, card, type, others and progress count.
  absl::StatusOr<std::shared_ptr<const StepWeights>> (*load_weights)(
      const StepOptions& options, const model::DecoderSpec& spec,
      const model::DecoderTensors& tensors) = nullptr;
  // A step over weights that were loaded for the same specification, device, card and types.
  absl::StatusOr<std::unique_ptr<Step>> (*make_step)(
      const StepOptions& options, const model::DecoderSpec& spec,
      std::shared_ptr<const StepWeights> weights) = nullptr;
};

// The library's one exported function, of type EntryPoint.
inline constexpr char kEntryPoint[] = "tandem_torch_library";
using EntryPoint = const Library* (*)();

// By what sources and compiler this was built, as far as both sides must agree.
inline const char* BuildText() { return "tandem " TANDEM_BUILD_VERSION ", compiler " __VERSION__; }

}  // namespace tandem::torch
