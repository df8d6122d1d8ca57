// CUDA's driver, as far as kernels need it: loading cubins, launching, and what they read and
// write. It is loaded when it is asked for; nothing here is linked to CUDA. The context is the
// device's primary one, which LibTorch uses, too; it is current on each thread that calls.
//
// Thread safety: one thread at a time, the device's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem::kernels {

// The part of cuda.h that is used here. Results: 0 is success.
struct DriverFunctions {
  int (*init)(unsigned flags) = nullptr;
  int (*error_string)(int result, const char** text) = nullptr;
  int (*device_attribute)(int* value, int attribute, int device) = nullptr;
  int (*device_name)(char* name, int bytes, int device) = nullptr;
  int (*load_module)(void** module, const void* image) = nullptr;
  int (*unload_module)(void* module) = nullptr;
  int (*get_function)(void** function, void* module, const char* name) = nullptr;
  int (*launch)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                unsigned block_y, unsigned block_z, unsigned shared_bytes, void* stream,
                void** arguments, void** extra) = nullptr;

  // Contexts, and memory: uint64_t is a CUdeviceptr.
  int (*retain_context)(void** context, int device) = nullptr;
  int (*set_context)(void* context) = nullptr;
  int (*free_memory)(size_t* free, size_t* all) = nullptr;
  int (*allocate)(uint64_t* memory, size_t bytes) = nullptr;
  int (*release)(uint64_t memory) = nullptr;
  int (*allocate_host)(void** memory, size_t bytes, unsigned flags) = nullptr;
  int (*release_host)(void* memory) = nullptr;
  int (*copy_in)(uint64_t to, const void* from, size_t bytes, void* stream) = nullptr;
  int (*copy_out)(void* to, uint64_t from, size_t bytes, void* stream) = nullptr;

  int (*create_event)(void** event, unsigned flags) = nullptr;
  int (*destroy_event)(void* event) = nullptr;
  int (*record_event)(void* event, void* stream) = nullptr;
  int (*wait_for_event)(void* event) = nullptr;
  int (*elapsed_time)(float* milliseconds, void* from, void* to) = nullptr;
};

// `blocks` (x, y) of `threads` threads.
struct LaunchShape {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t threads = 1;
};

// The kernels of one cubin. Its driver outlives it.
class KernelModule {
 public:
  KernelModule(const DriverFunctions& driver, void* module,
               absl::flat_hash_map<std::string, void*> functions);
  ~KernelModule();
  KernelModule(const KernelModule&) = delete;
  KernelModule& operator=(const KernelModule&) = delete;

  // Puts a launch on a stream (a CUstream) and returns. `arguments`: the kernel's only one, copied
  // before this returns. Nothing happens where there are no blocks. INTERNAL: the driver refused.
  template <typename Arguments>
  absl::Status Launch(const std::string& kernel, const LaunchShape& shape,
                      const Arguments& arguments, void* stream) const {
    return LaunchBytes(kernel, shape, &arguments, stream);
  }

 private:
  absl::Status LaunchBytes(const std::string& kernel, const LaunchShape& shape,
                           const void* arguments, void* stream) const;

  const DriverFunctions& driver_;
  void* const module_;
  const absl::flat_hash_map<std::string, void*> functions_;
};

// What a device is. Of a MIG slice: the slice's.
struct CardFacts {
  std::string name;  // "NVIDIA H200"
  int multiprocessors = 0;
  int64_t free_bytes = 0;  // that nobody has taken
};

// One device, by its number among those that CUDA shows.
class CudaDriver {
 public:
  // FAILED_PRECONDITION: there is no driver, or no card that it can use.
  static absl::StatusOr<std::unique_ptr<CudaDriver>> Load(
      int device, const std::string& library = "libcuda.so.1");
  explicit CudaDriver(const DriverFunctions& functions, int device = 0)
      : functions_(functions), device_(device) {}

  const DriverFunctions& functions() const { return functions_; }

  // OK where `result` is 0; else INTERNAL, or RESOURCE_EXHAUSTED where the card has no memory left:
  // "`what` failed: …".
  absl::Status Checked(int result, absl::string_view what) const;

  // The device's context becomes that of the calling thread. INTERNAL: there is no such device.
  absl::Status MakeCurrent();

  // Its context is current.
  absl::StatusOr<CardFacts> Facts() const;

  // The compute capability: 90 is 9.0.
  absl::StatusOr<int> Architecture() const;

  // An event that a thread sleeps for, where CUDA's default would keep a core busy.
  absl::StatusOr<void*> MakeEvent() const;

  // `kernels`: all that will be launched. INTERNAL: the cubin is not for this card, or lacks one.
  absl::StatusOr<std::unique_ptr<KernelModule>> LoadModule(
      const std::string& cubin, const std::vector<std::string>& kernels) const;

 private:
  absl::StatusOr<int> Attribute(int attribute) const;

  const DriverFunctions functions_;
  const int device_;
  void* context_ = nullptr;
};

}  // namespace tandem::kernels
