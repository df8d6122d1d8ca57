// The kernels that a step puts between LibTorch's operations. The step's library is loaded and
// links none of ours, so it gets them by this interface; tests give it the same kernels as the host
// runs them.
//
// Thread safety: the device's thread alone.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "torch/kernels/attention_mma.h"
#include "torch/kernels/int8_rows.h"
#include "torch/kernels/norm_rope.h"

namespace tandem::kernels {

// All pointers in arguments are the device's; `type` is that of the void ones: of keys, values,
// products and results. What is called runs in order on `stream` (a CUstream; null where the device
// is the processor), and a call may return before it has. INTERNAL: the device refused.
class PassKernels {
 public:
  virtual ~PassKernels() = default;

  // Both kernels of attention, over arguments.row_count rows; arguments.blocks is the callee's.
  virtual absl::Status Attend(ElementType type, const AttentionArguments& arguments,
                              void* stream) = 0;

  // The same on tensor cores (attention_mma.h): `type` has 16 bits, MmaTakes(head_size), and
  // queries, keys and values begin at multiples of 16 bytes.
  virtual absl::Status AttendByMma(ElementType type, const AttentionArguments& arguments,
                                   void* stream) = 0;

  // What is added to the residual, normed or not, and the residual's norm, of so many rows.
  virtual absl::Status AddNorm(ElementType type, const AddNormArguments& arguments, uint32_t rows,
                               void* stream) = 0;

  // Norms of queries and keys, rotation and the write to the cache, of so many rows.
  virtual absl::Status RopeWrite(ElementType type, const RopeWriteArguments& arguments,
                                 uint32_t rows, void* stream) = 0;

  // The gate of an MLP, of so many rows.
  virtual absl::Status Gate(ElementType type, const GateArguments& arguments, uint32_t rows,
                            void* stream) = 0;

  // Around a product in whole numbers, of so many rows.
  virtual absl::Status Quantize(const QuantizeArguments& arguments, uint32_t rows,
                                void* stream) = 0;
  virtual absl::Status Scale(const ScaleArguments& arguments, uint32_t rows, void* stream) = 0;
};

// On CUDA device `card`, compiled for it where they are not in the cache of cubins. Errors of
// CudaDriver and LoadKernels.
absl::StatusOr<std::unique_ptr<PassKernels>> LoadPassKernels(int card);

}  // namespace tandem::kernels
