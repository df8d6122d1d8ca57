#include "torch/kernels/nvrtc_compiler.h"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <functional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tandem::kernels {

// The part of nvrtc.h that is used here. Results: 0 is success.
struct NvrtcFunctions {
  using Program = void*;
  int (*version)(int* major, int* minor);
  const char* (*error_string)(int result);
  int (*create_program)(Program* program, const char* source, const char* name, int headers,
                        const char* const* header_sources, const char* const* header_names);
  int (*compile_program)(Program program, int options, const char* const* names);
  int (*log_size)(Program program, size_t* size);
  int (*log)(Program program, char* log);
  int (*cubin_size)(Program program, size_t* size);
  int (*cubin)(Program program, char* cubin);
  int (*destroy_program)(Program* program);
};

namespace {

// NVRTC opens its builtins by their bare name, which the loader finds only on its own paths, or if
// they are loaded already. They lie beside NVRTC.
void LoadBuiltinsBeside(void* library) {
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return;
  const std::filesystem::path folder = std::filesystem::path(map->l_name).parent_path();
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (absl::StartsWith(name, "libnvrtc-builtins.so")) dlopen(entry.path().c_str(), RTLD_NOW);
  }
}

absl::Status NotFound(const std::vector<std::string>& tried, const std::string& why) {
  return absl::FailedPreconditionError(absl::StrCat(
      "NVRTC, which compiles the GPU's kernels, cannot be loaded (tried ",
      absl::StrJoin(tried, ", "), "): ", why,
      "; install CUDA's nvrtc, for example by `pip install nvidia-cuda-nvrtc`, and put its folder "
      "on LD_LIBRARY_PATH"));
}

template <typename Function>
bool Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NvrtcCompiler>> NvrtcCompiler::Load(const std::string& library) {
  std::vector<std::string> names = {library};
  if (library.empty()) names = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  void* handle = nullptr;
  std::string why;
  for (const std::string& name : names) {
    handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) break;
    if (why.empty()) why = dlerror();
  }
  if (handle == nullptr) return NotFound(names, why);
  auto functions = std::make_unique<NvrtcFunctions>();
  NvrtcFunctions& f = *functions;
  if (!Find(handle, "nvrtcVersion", f.version) ||
      !Find(handle, "nvrtcGetErrorString", f.error_string) ||
      !Find(handle, "nvrtcCreateProgram", f.create_program) ||
      !Find(handle, "nvrtcCompileProgram", f.compile_program) ||
      !Find(handle, "nvrtcGetProgramLogSize", f.log_size) ||
      !Find(handle, "nvrtcGetProgramLog", f.log) ||
      !Find(handle, "nvrtcGetCUBINSize", f.cubin_size) || !Find(handle, "nvrtcGetCUBIN", f.cubin) ||
      !Find(handle, "nvrtcDestroyProgram", f.destroy_program)) {
    return NotFound(names, dlerror());
  }
  LoadBuiltinsBeside(handle);
  int major = 0, minor = 0;
  if (const int result = f.version(&major, &minor); result != 0) {
    return NotFound(names, f.error_string(result));
  }
  return std::unique_ptr<NvrtcCompiler>(
      new NvrtcCompiler(std::move(functions), absl::StrCat(major, ".", minor)));
}

// The library stays loaded: it has threads and handlers of its own.
NvrtcCompiler::NvrtcCompiler(std::unique_ptr<NvrtcFunctions> functions, std::string version)
    : functions_(std::move(functions)), version_(std::move(version)) {}

NvrtcCompiler::~NvrtcCompiler() = default;

std::vector<std::string> NvrtcCompiler::Options(int architecture) {
  return {absl::StrCat("--gpu-architecture=sm_", architecture),
          "--std=c++20",
          "--device-as-default-execution-space",
          "--fmad=false",
          "--ftz=false",
          "--prec-div=true",
          "--prec-sqrt=true"};
}

absl::StatusOr<std::string> NvrtcCompiler::Compile(const KernelProgram& program, int architecture) {
  const NvrtcFunctions& f = *functions_;
  std::vector<const char*> names, texts, options;
  for (const SourceFile& header : KernelHeaders()) {
    names.push_back(header.name);
    texts.push_back(header.text);
  }
  const std::vector<std::string> option_texts = Options(architecture);
  for (const std::string& option : option_texts) options.push_back(option.c_str());
  const auto failed = [&](int result, absl::string_view log) {
    return absl::InvalidArgumentError(absl::StrCat("NVRTC ", version_, " cannot compile ",
                                                   program.source.name, " for sm_", architecture,
                                                   ": ", f.error_string(result), "\n", log));
  };
  NvrtcFunctions::Program made = nullptr;
  if (const int result =
          f.create_program(&made, program.source.text, program.source.name,
                           static_cast<int>(names.size()), texts.data(), names.data());
      result != 0) {
    return failed(result, "");
  }
  const std::unique_ptr<void, std::function<void(void*)>> destroyed(
      made, [&](void* one) { f.destroy_program(&one); });
  if (const int result = f.compile_program(made, static_cast<int>(options.size()), options.data());
      result != 0) {
    std::string log;
    size_t size = 0;
    if (f.log_size(made, &size) == 0) log.resize(size);
    if (log.empty() || f.log(made, log.data()) != 0) log = "(no log)";
    return failed(result, log.c_str());
  }
  size_t size = 0;
  if (const int result = f.cubin_size(made, &size); result != 0) return failed(result, "");
  std::string cubin(size, '\0');
  if (const int result = f.cubin(made, cubin.data()); result != 0) return failed(result, "");
  return cubin;
}

}  // namespace tandem::kernels
