# Precompiled headers. A folder says with TANDEM_PCH which one its targets use:
#
#   sources      the standard library and Abseil
#   wire         also Protobuf, gRPC and our messages
#   generated    Protobuf and gRPC: for what protoc makes of proto/
#   tests        as `sources`, with GoogleTest
#   wire_tests   as `wire`, with GoogleTest
#
# A folder whose targets are compiled with other options than those that made a header adds a suffix
# of its own to the name (tests_optimised): the same headers, compiled with its options.
#
# They change nothing but the time that a build takes: a source includes what it uses, and compiles
# without them (-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON). All names are in angle brackets, because
# CMake writes others as absolute paths, and the header must be the same in every clone.

set(TANDEM_PCH sources)

set(_pch_sources
  <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstddef> <cstdint> <cstdio>
  <cstdlib> <cstring> <deque> <filesystem> <fstream> <functional> <iterator> <limits> <map> <memory>
  <mutex> <optional> <random> <set> <sstream> <string> <thread> <utility> <variant> <vector>
  <absl/cleanup/cleanup.h> <absl/container/flat_hash_map.h> <absl/container/flat_hash_set.h>
  <absl/functional/any_invocable.h> <absl/status/status.h> <absl/status/statusor.h>
  <absl/strings/escaping.h> <absl/strings/match.h> <absl/strings/numbers.h>
  <absl/strings/str_cat.h> <absl/strings/str_format.h> <absl/strings/str_join.h>
  <absl/strings/str_replace.h> <absl/strings/str_split.h> <absl/strings/string_view.h>
  <absl/strings/strip.h> <absl/time/clock.h> <absl/time/time.h> <absl/types/span.h>)
set(_pch_wire ${_pch_sources}
  <grpcpp/grpcpp.h> <tandem/internal/v1/draft.grpc.pb.h> <tandem/v1/generation.grpc.pb.h>
  <tandem/internal/v1/target.grpc.pb.h> <tandem/internal/v1/tokens.pb.h>
  <tandem/v1/describe.pb.h> <tandem/v1/sampling.pb.h>)
set(_pch_generated <grpcpp/grpcpp.h>)
set(_pch_tests ${_pch_sources} <gmock/gmock.h> <gtest/gtest.h>)
set(_pch_wire_tests ${_pch_wire} <gmock/gmock.h> <gtest/gtest.h>)

# tandem_precompile(TARGET): compiles it with the precompiled header of its folder, which is made
# once.
function(tandem_precompile TARGET)
  set(header tandem_pch_${TANDEM_PCH})
  if(NOT TARGET ${header})
    add_library(${header} OBJECT EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/cmake/precompiled.cc)
    if(TANDEM_PCH STREQUAL "generated")
      target_link_libraries(${header} PRIVATE tandem_generated_options gRPC::grpc++)
    else()
      target_link_libraries(${header} PRIVATE tandem_compile_options)
    endif()
    if(TANDEM_PCH MATCHES "wire")
      target_link_libraries(${header} PRIVATE tandem::proto_services)
    endif()
    # Abseil and GoogleTest need not lie in the system's own folder.
    set(libraries absl::base)
    if(TANDEM_PCH MATCHES "tests")
      list(APPEND libraries GTest::gmock GTest::gtest)
    endif()
    foreach(library ${libraries})
      target_include_directories(${header} SYSTEM PRIVATE
        $<TARGET_PROPERTY:${library},INTERFACE_INCLUDE_DIRECTORIES>)
    endforeach()
    string(REPLACE "_optimised" "" headers ${TANDEM_PCH})
    target_precompile_headers(${header} PRIVATE ${_pch_${headers}})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
      # ccache compares contents, not times.
      target_compile_options(${header} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
    endif()
  endif()
  target_precompile_headers(${TARGET} REUSE_FROM ${header})
endfunction()
