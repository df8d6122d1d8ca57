#include "torch/kernels/cuda_driver.h"

#include <dlfcn.h>

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace tandem::kernels {
namespace {

template <typename Function>
bool Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

std::string ErrorText(const DriverFunctions& driver, int result) {
  const char* text = nullptr;
  if (driver.error_string(result, &text) != 0 || text == nullptr) text = "unknown error";
  return absl::StrCat(text, " (", result, ")");
}

absl::Status NoDriver(const std::string& library, const std::string& why) {
  return absl::FailedPreconditionError(
      absl::StrCat("CUDA's driver (", library, ") cannot be used: ", why,
                   "; install the driver of NVIDIA's cards on this machine, and give the container "
                   "a card"));
}

}  // namespace

KernelModule::KernelModule(const DriverFunctions& driver, void* module,
                           absl::flat_hash_map<std::string, void*> functions)
    : driver_(driver), module_(module), functions_(std::move(functions)) {}

// A failure here is one that launches have told already.
KernelModule::~KernelModule() { driver_.unload_module(module_); }

absl::Status KernelModule::LaunchBytes(const std::string& kernel, const LaunchShape& shape,
                                       const void* arguments, void* stream) const {
  const auto function = functions_.find(kernel);
  TANDEM_CHECK(function != functions_.end()) << kernel << " was not loaded";
  if (shape.x == 0 || shape.y == 0) return absl::OkStatus();
  void* pointers[] = {const_cast<void*>(arguments)};
  const int result = driver_.launch(function->second, shape.x, shape.y, 1, shape.threads, 1, 1,
                                    /*shared_bytes=*/0, stream, pointers, nullptr);
  if (result == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("launching ", kernel, " with ", shape.x, " x ", shape.y,
                                          " blocks failed: ", ErrorText(driver_, result)));
}

absl::StatusOr<std::unique_ptr<CudaDriver>> CudaDriver::Load(int device,
                                                             const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return NoDriver(library, dlerror());
  DriverFunctions f;
  if (!Find(handle, "cuInit", f.init) || !Find(handle, "cuGetErrorString", f.error_string) ||
      !Find(handle, "cuDeviceGetAttribute", f.device_attribute) ||
      !Find(handle, "cuDeviceGetName", f.device_name) ||
      !Find(handle, "cuModuleLoadData", f.load_module) ||
      !Find(handle, "cuModuleUnload", f.unload_module) ||
      !Find(handle, "cuModuleGetFunction", f.get_function) ||
      !Find(handle, "cuLaunchKernel", f.launch) ||
      !Find(handle, "cuDevicePrimaryCtxRetain", f.retain_context) ||
      !Find(handle, "cuCtxSetCurrent", f.set_context) ||
      !Find(handle, "cuMemGetInfo_v2", f.free_memory) ||
      !Find(handle, "cuMemAlloc_v2", f.allocate) || !Find(handle, "cuMemFree_v2", f.release) ||
      !Find(handle, "cuMemHostAlloc", f.allocate_host) ||
      !Find(handle, "cuMemFreeHost", f.release_host) ||
      !Find(handle, "cuMemcpyHtoDAsync_v2", f.copy_in) ||
      !Find(handle, "cuMemcpyDtoHAsync_v2", f.copy_out) ||
      !Find(handle, "cuEventCreate", f.create_event) ||
      !Find(handle, "cuEventDestroy_v2", f.destroy_event) ||
      !Find(handle, "cuEventRecord", f.record_event) ||
      !Find(handle, "cuEventSynchronize", f.wait_for_event) ||
      !Find(handle, "cuEventElapsedTime", f.elapsed_time)) {
    return NoDriver(library, dlerror());
  }
  if (const int result = f.init(0); result != 0) return NoDriver(library, ErrorText(f, result));
  return std::make_unique<CudaDriver>(f, device);
}

absl::Status CudaDriver::Checked(int result, absl::string_view what) const {
  constexpr int kOutOfMemory = 2;  // CUDA_ERROR_OUT_OF_MEMORY
  if (result == 0) return absl::OkStatus();
  return absl::Status(
      result == kOutOfMemory ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal,
      absl::StrCat(what, " failed: ", ErrorText(functions_, result)));
}

absl::Status CudaDriver::MakeCurrent() {
  if (context_ == nullptr) {
    TANDEM_RETURN_IF_ERROR(Checked(functions_.retain_context(&context_, device_),
                                   absl::StrCat("taking the context of CUDA device ", device_)));
  }
  return Checked(functions_.set_context(context_), "setting the card's context");
}

absl::StatusOr<int> CudaDriver::Attribute(int attribute) const {
  int value = 0;
  TANDEM_RETURN_IF_ERROR(Checked(functions_.device_attribute(&value, attribute, device_),
                                 absl::StrCat("asking what CUDA device ", device_, " is")));
  return value;
}

absl::StatusOr<CardFacts> CudaDriver::Facts() const {
  constexpr int kMultiprocessors = 16;  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
  CardFacts facts;
  char name[256] = {};
  TANDEM_RETURN_IF_ERROR(Checked(functions_.device_name(name, sizeof(name) - 1, device_),
                                 "asking for the card's name"));
  facts.name = name;
  TANDEM_ASSIGN_OR_RETURN(facts.multiprocessors, Attribute(kMultiprocessors));
  size_t free = 0, all = 0;
  TANDEM_RETURN_IF_ERROR(
      Checked(functions_.free_memory(&free, &all), "asking for the card's free memory"));
  facts.free_bytes = static_cast<int64_t>(free);
  return facts;
}

absl::StatusOr<int> CudaDriver::Architecture() const {
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_…
  TANDEM_ASSIGN_OR_RETURN(const int major, Attribute(kMajor));
  TANDEM_ASSIGN_OR_RETURN(const int minor, Attribute(kMinor));
  return 10 * major + minor;
}

absl::StatusOr<void*> CudaDriver::MakeEvent() const {
  constexpr unsigned kBlockingSync = 1;  // CU_EVENT_BLOCKING_SYNC
  void* event = nullptr;
  TANDEM_RETURN_IF_ERROR(
      Checked(functions_.create_event(&event, kBlockingSync), "making an event"));
  return event;
}

absl::StatusOr<std::unique_ptr<KernelModule>> CudaDriver::LoadModule(
    const std::string& cubin, const std::vector<std::string>& kernels) const {
  void* module = nullptr;
  if (const int result = functions_.load_module(&module, cubin.data()); result != 0) {
    return absl::InternalError(
        absl::StrCat("the driver refuses a cubin: ", ErrorText(functions_, result)));
  }
  absl::Cleanup unload = [&] { functions_.unload_module(module); };
  absl::flat_hash_map<std::string, void*> functions;
  for (const std::string& kernel : kernels) {
    const int result = functions_.get_function(&functions[kernel], module, kernel.c_str());
    if (result != 0) {
      return absl::InternalError(
          absl::StrCat("a cubin lacks ", kernel, ": ", ErrorText(functions_, result)));
    }
  }
  std::move(unload).Cancel();
  return std::make_unique<KernelModule>(functions_, module, std::move(functions));
}

}  // namespace tandem::kernels
