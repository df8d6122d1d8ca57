# All that is not ours, found in one place. Nothing is downloaded here: scripts/setup did that.

find_package(absl REQUIRED CONFIG)
find_package(nlohmann_json REQUIRED CONFIG)
find_path(RANDOM123_INCLUDE_DIR Random123/philox.h REQUIRED)
add_library(tandem_random123 INTERFACE)
target_include_directories(tandem_random123 SYSTEM INTERFACE ${RANDOM123_INCLUDE_DIR})

find_package(Threads REQUIRED)
if(TANDEM_WITH_TESTS)
  find_package(GTest REQUIRED CONFIG)
  find_package(rapidcheck REQUIRED CONFIG)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
endif()

if(TANDEM_WITH_RPC)
  find_package(Protobuf REQUIRED MODULE)
  find_package(OpenSSL REQUIRED)
  find_package(CURL 7.85 REQUIRED)
  find_package(gRPC REQUIRED CONFIG)
  find_package(opentelemetry-cpp REQUIRED CONFIG)
  find_package(prometheus-cpp REQUIRED CONFIG)
endif()

if(TANDEM_WITH_TORCH)
  # Not find_package(Torch): its config asks for CUDA's compiler, and adds flags of its own.
  if(DEFINED ENV{XDG_CACHE_HOME})
    set(_tandem_cache $ENV{XDG_CACHE_HOME}/tandem)
  else()
    set(_tandem_cache $ENV{HOME}/.cache/tandem)
  endif()
  if(DEFINED ENV{TANDEM_CACHE})
    set(_tandem_cache $ENV{TANDEM_CACHE})
  endif()
  set(TANDEM_TORCH_DIR ${_tandem_cache}/libtorch-2.13.0/torch CACHE PATH "LibTorch: the folder with include/ and lib/")
  if(NOT EXISTS ${TANDEM_TORCH_DIR}/lib/libtorch_cpu.so)
    message(FATAL_ERROR "LibTorch is not in ${TANDEM_TORCH_DIR}.\n"
      "Run scripts/setup, or give -DTANDEM_TORCH_DIR=<folder with include/ and lib/>.")
  endif()
  add_library(tandem_torch INTERFACE)
  target_include_directories(tandem_torch SYSTEM INTERFACE ${TANDEM_TORCH_DIR}/include)
  # The wheel's libraries are built against the old-new ABI switch that GCC 12 has on by default.
  target_link_libraries(tandem_torch INTERFACE
    ${TANDEM_TORCH_DIR}/lib/libtorch_cpu.so ${TANDEM_TORCH_DIR}/lib/libc10.so)
  target_link_options(tandem_torch INTERFACE
    -Wl,-rpath,${TANDEM_TORCH_DIR}/lib -Wl,-rpath-link,${TANDEM_TORCH_DIR}/lib
    -Wl,-rpath-link,${TANDEM_TORCH_DIR}/../nvidia/cu13/lib)

  # LibTorch's CUDA half, for the one source with CUDA's headers. What it needs beyond the wheels
  # that are here is not linked; that its own symbols are there is checked.
  set(TANDEM_CUDA_CRT_DIR ${_tandem_cache}/cuda-crt-13.0.88/include CACHE PATH "Headers of nvidia-cuda-crt: the folder with crt/")
  if(EXISTS ${TANDEM_CUDA_CRT_DIR}/crt/host_config.h AND EXISTS ${TANDEM_TORCH_DIR}/lib/libtorch_cuda.so)
    add_library(tandem_torch_cuda INTERFACE)
    target_include_directories(tandem_torch_cuda SYSTEM INTERFACE
      ${TANDEM_TORCH_DIR}/../nvidia/cu13/include ${TANDEM_CUDA_CRT_DIR})
    target_link_libraries(tandem_torch_cuda INTERFACE tandem_torch
      ${TANDEM_TORCH_DIR}/lib/libtorch_cuda.so ${TANDEM_TORCH_DIR}/lib/libc10_cuda.so)
    target_link_options(tandem_torch_cuda INTERFACE -Wl,--allow-shlib-undefined -Wl,-z,defs)
  endif()
endif()
