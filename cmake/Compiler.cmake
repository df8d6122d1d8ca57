# How our own code is compiled. Nothing here applies to a dependency.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# Libraries and programs share precompiled headers, which fit one set of flags alone. So not
# CMAKE_POSITION_INDEPENDENT_CODE, which has one flag for each, and -pthread for all, which some of
# the libraries that we use bring with them.
add_compile_options(-fPIE -pthread)
add_link_options(-pie)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
# asserts and CHECKs stay on in every preset: a broken invariant must end the process, not the text.
string(REPLACE "-DNDEBUG" "" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_SOURCE_DIR}/cmake/compiler-launcher ${CMAKE_SOURCE_DIR})
endif()

# Files are named from the repository's root in debug information, logs and messages of tests, in
# whatever folder the clone is. ccache makes paths relative to the build folder, so both forms are
# mapped.
file(RELATIVE_PATH _to_source ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}/= -ffile-prefix-map=${_to_source}=)

option(TANDEM_UNITY_BUILD "Compile the sources of a library in groups of eight; off: each alone" ON)

option(TANDEM_WERROR "Warnings are errors; off: for a compiler that is not Debian 12's" ON)

add_library(tandem_compile_options INTERFACE)
target_include_directories(tandem_compile_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(tandem_compile_options INTERFACE
  -Wall -Wextra $<$<BOOL:${TANDEM_WERROR}>:-Werror> -Wnon-virtual-dtor -Woverloaded-virtual -Wno-missing-field-initializers
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
  # A source that is compiled with its neighbours looks like a header to this warning.
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${TANDEM_UNITY_BUILD}>>:-Wno-subobject-linkage>
  # The compiler may not fuse or reorder floating-point operations on its own: a row's logits must
  # not depend on how a loop was compiled (docs/ARCHITECTURE.md, "Row invariance").
  -ffp-contract=off)

# What generators write: without our warnings, but with our sanitizers, because messages pass
# between threads.
add_library(tandem_generated_options INTERFACE)

if(TANDEM_SANITIZE)
  # Undefined behaviour of what generators write is not ours to find.
  string(REPLACE ",undefined" "" _of_generated ${TANDEM_SANITIZE})
  target_compile_options(tandem_generated_options INTERFACE -fsanitize=${_of_generated})
  # TANDEM_UNCHECKED: the kinds of undefined behaviour that a folder's sources are not checked for.
  define_property(TARGET PROPERTY TANDEM_UNCHECKED INHERITED)
  set(_unchecked $<TARGET_PROPERTY:TANDEM_UNCHECKED>)
  target_compile_options(tandem_compile_options INTERFACE
    -fsanitize=${TANDEM_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all
    $<$<BOOL:${_unchecked}>:-fno-sanitize=${_unchecked}>)
  target_link_options(tandem_compile_options INTERFACE -fsanitize=${TANDEM_SANITIZE})
endif()
