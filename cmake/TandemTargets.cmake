# The four kinds of target, one line each in a folder's CMakeLists.txt:
#
#   tandem_library(NAME SRCS a.cc … [DEPS tandem::x absl::y …])      alias tandem::NAME
#   tandem_binary(NAME SRCS main.cc [DEPS …])                        lands in build/<preset>/bin
#   tandem_test(NAME SRCS x_test.cc [DEPS …] LABELS fast|integration|full [logic] [TIMEOUT s])
#   tandem_benchmark(NAME SRCS x_bench.cc [DEPS …])                  built by the target tandem_benchmarks
#
# A test's first label says when it runs: `fast` and `integration` in scripts/test, `full` in
# scripts/test --full. `logic` marks those that the sanitizer presets build and run; `transport` those
# that need gRPC but no model, which ThreadSanitizer checks in scripts/test --full.

function(tandem_library NAME)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  if(ARG_SRCS)
    add_library(tandem_${NAME} STATIC ${ARG_SRCS})
    target_link_libraries(tandem_${NAME} PUBLIC ${ARG_DEPS} PRIVATE tandem_compile_options)
    target_include_directories(tandem_${NAME} PUBLIC ${CMAKE_SOURCE_DIR})
  else()
    add_library(tandem_${NAME} INTERFACE)
    target_link_libraries(tandem_${NAME} INTERFACE ${ARG_DEPS})
    target_include_directories(tandem_${NAME} INTERFACE ${CMAKE_SOURCE_DIR})
  endif()
  add_library(tandem::${NAME} ALIAS tandem_${NAME})
endfunction()

function(tandem_binary NAME)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${NAME} ${ARG_SRCS})
  target_link_libraries(${NAME} PRIVATE ${ARG_DEPS} tandem_compile_options)
endfunction()

add_custom_target(tandem_logic_tests)   # what the sanitizer presets build
add_custom_target(tandem_transport_tests)
add_custom_target(tandem_benchmarks)

function(tandem_test NAME)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SRCS;DEPS;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    message(FATAL_ERROR "test ${NAME} has no LABELS")
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${NAME} ${ARG_SRCS})
  set_target_properties(${NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${NAME} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest GTest::gtest_main
    tandem_compile_options)
  target_compile_definitions(${NAME} PRIVATE TANDEM_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
    TANDEM_BINARY_DIR="${CMAKE_BINARY_DIR}/bin")
  add_test(NAME ${NAME} COMMAND ${NAME})
  set_tests_properties(${NAME} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
    SKIP_REGULAR_EXPRESSION "SKIPPED: the whole test")
  if("logic" IN_LIST ARG_LABELS)
    add_dependencies(tandem_logic_tests ${NAME})
  endif()
  if("transport" IN_LIST ARG_LABELS)
    add_dependencies(tandem_transport_tests ${NAME})
  endif()
endfunction()

function(tandem_benchmark NAME)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${NAME} EXCLUDE_FROM_ALL ${ARG_SRCS})
  set_target_properties(${NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
  target_link_libraries(${NAME} PRIVATE ${ARG_DEPS} benchmark::benchmark tandem_compile_options)
  add_dependencies(tandem_benchmarks ${NAME})
endfunction()
