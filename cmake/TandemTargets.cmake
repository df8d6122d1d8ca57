# The kinds of target, one line each in a folder's CMakeLists.txt:
#
#   tandem_library(NAME SRCS a.cc … [DEPS tandem::x absl::y …])      alias tandem::NAME
#   tandem_simd_sources(NAME "-mavx2;…" x_avx2.cc …)                 of that library, on x86-64 only
#   tandem_binary(NAME SRCS main.cc [DEPS …])                        lands in build/<preset>/bin
#   tandem_tests(NAME SRCS x_test.cc … [DEPS …]
#                LABELS fast|logic|threads|integration|full … [TIMEOUT s] [COST s] [FILTER pattern])
#   tandem_python_test(NAME x_test.py LABELS … [TIMEOUT s] [COST s])
#   tandem_benchmark(NAME SRCS x_bench.cc [DEPS …])  built by the target tandem_benchmarks
#
# tandem_tests makes one program, NAME_tests, of all the tests of a folder that have the same
# labels. Each TEST in it is a test of its own for ctest, NAME.Suite.Test, in a process of its own.
#
#   COST      about how long the longest takes; what takes longest begins first
#   FILTER    these TESTs alone; tandem_register_tests tells ctest of the others, ALONE of those
#             that measure time: label full only
#
# Labels say when a test runs and how it is compiled. scripts/test runs four:
#   fast         as users run it: its numbers depend on the compiler, or it is not a program
#   logic        under AddressSanitizer and UndefinedBehaviorSanitizer
#   threads      under ThreadSanitizer; what uses gRPC there alone
#   integration  as users run it: whole requests
# A test with several labels runs in several ways. scripts/test --full also runs `full`, and `logic`
# and `threads` as users run them. The default target builds what users run, and the tests `fast`
# and `integration`. The targets tandem_{logic,threads,full}_tests build the others.

include(GoogleTest)

# tandem_unite(VARIABLE NAME SOURCE…): the sources to compile in place of these. Most of the time of
# a source goes into headers and into templates that its neighbours use too, so eight are compiled
# as one. A name in an unnamed namespace therefore belongs to one source of a library. CMake's own
# UNITY_BUILD writes absolute paths, and no other clone would find the objects in ccache. A folder
# may set TANDEM_UNITY_GROUP, how many are compiled as one.
set(TANDEM_UNITY_GROUP 8)
function(tandem_unite VARIABLE NAME)
  list(LENGTH ARGN count)
  if(NOT TANDEM_UNITY_BUILD OR count EQUAL 1)
    set(${VARIABLE} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  math(EXPR groups "(${count} + ${TANDEM_UNITY_GROUP} - 1) / ${TANDEM_UNITY_GROUP}")
  math(EXPR size "(${count} + ${groups} - 1) / ${groups}")
  set(united)
  set(begin 0)
  while(begin LESS count)
    list(SUBLIST ARGN ${begin} ${size} group)
    set(text)
    foreach(source ${group})
      string(APPEND text "#include \"${folder}/${source}\"\n")
    endforeach()
    set(file ${CMAKE_CURRENT_BINARY_DIR}/unity/${NAME}_${begin}.cc)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text}")
    list(APPEND united ${file})
    math(EXPR begin "${begin} + ${size}")
  endwhile()
  set(${VARIABLE} ${united} PARENT_SCOPE)
endfunction()

# The same, a folder at a time: tests of two folders often have a name in common.
function(tandem_unite_folders VARIABLE NAME)
  set(folders)
  foreach(source ${ARGN})
    get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR}/${source} DIRECTORY)
    string(MAKE_C_IDENTIFIER ${folder} key)
    list(APPEND folders ${key})
    list(APPEND sources_${key} ${source})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  set(all)
  foreach(key ${folders})
    list(GET sources_${key} 0 first)
    get_filename_component(folder ${first} DIRECTORY)
    string(REPLACE "/" "_" folder "${folder}")
    tandem_unite(united ${NAME}_${folder} ${sources_${key}})
    list(APPEND all ${united})
  endforeach()
  set(${VARIABLE} ${all} PARENT_SCOPE)
endfunction()

function(tandem_library NAME)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  if(ARG_SRCS)
    tandem_unite(ARG_SRCS ${NAME} ${ARG_SRCS})
    add_library(tandem_${NAME} STATIC ${TANDEM_LIBRARIES_ON_DEMAND} ${ARG_SRCS})
    target_link_libraries(tandem_${NAME} PUBLIC ${ARG_DEPS} PRIVATE tandem_compile_options)
    target_include_directories(tandem_${NAME} PUBLIC ${CMAKE_SOURCE_DIR})
    tandem_precompile(tandem_${NAME})
  else()
    add_library(tandem_${NAME} INTERFACE)
    target_link_libraries(tandem_${NAME} INTERFACE ${ARG_DEPS})
    target_include_directories(tandem_${NAME} INTERFACE ${CMAKE_SOURCE_DIR})
  endif()
  add_library(tandem::${NAME} ALIAS tandem_${NAME})
endfunction()

function(tandem_simd_sources NAME OPTIONS)
  if(NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
    return()
  endif()
  # GCC 12 warns about its own intrinsics' undefined registers (its bug 105593).
  set(undefined_registers "$<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized;-Wno-maybe-uninitialized>")
  # The instruction sets are not those of the precompiled header.
  set_source_files_properties(${ARGN} PROPERTIES SKIP_PRECOMPILE_HEADERS ON
    COMPILE_OPTIONS "${OPTIONS};${undefined_registers}")
  target_sources(tandem_${NAME} PRIVATE ${ARGN})
endfunction()

function(tandem_binary NAME)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  tandem_unite(ARG_SRCS ${NAME} ${ARG_SRCS})
  add_executable(${NAME} ${ARG_SRCS})
  target_link_libraries(${NAME} PRIVATE ${ARG_DEPS} tandem_compile_options)
  tandem_precompile(${NAME})
endfunction()

add_custom_target(tandem_logic_tests)    # the preset asan-ubsan builds these
add_custom_target(tandem_threads_tests)  # the preset tsan builds these
add_custom_target(tandem_full_tests)
add_custom_target(tandem_benchmarks)

function(tandem_tests NAME)
  cmake_parse_arguments(ARG "" "TIMEOUT;COST;FILTER" "SRCS;DEPS;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    message(FATAL_ERROR "the tests ${NAME} have no LABELS")
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  set(program ${NAME}_tests)
  tandem_unite_folders(sources ${program} ${ARG_SRCS})
  add_executable(${program} ${sources})
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${program} PRIVATE ${ARG_DEPS} tandem::test_main GTest::gmock GTest::gtest
    tandem_compile_options)
  tandem_precompile(${program})
  tandem_register_tests(${program} PREFIX ${NAME} LABELS ${ARG_LABELS} TIMEOUT ${ARG_TIMEOUT}
    COST ${ARG_COST} FILTER ${ARG_FILTER})
  if(NOT "fast" IN_LIST ARG_LABELS AND NOT "integration" IN_LIST ARG_LABELS)
    set_target_properties(${program} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  foreach(label logic threads full)
    if(label IN_LIST ARG_LABELS)
      add_dependencies(tandem_${label}_tests ${program})
    endif()
  endforeach()
endfunction()

# Tells ctest of each TEST of a program; also of a part of them once more, under another PREFIX.
function(tandem_register_tests PROGRAM)
  cmake_parse_arguments(ARG "" "PREFIX;TIMEOUT;COST;FILTER;ENVIRONMENT;ALONE" "LABELS" ${ARGN})
  if(ARG_ALONE AND NOT ARG_LABELS STREQUAL "full")
    message(FATAL_ERROR "${ARG_PREFIX}: only tests of the label full may measure time")
  endif()
  # Under AddressSanitizer the start of a process takes longer than most tests: a program's tests
  # share four of them. Those with threads may leave some behind, which must not meet the next test.
  if(TANDEM_SANITIZE MATCHES "address" AND NOT ARG_FILTER AND NOT "threads" IN_LIST ARG_LABELS)
    foreach(shard RANGE 3)
      set(name ${ARG_PREFIX}.shard_${shard})
      add_test(NAME ${name} COMMAND ${PROGRAM} --gtest_brief=1)
      set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 900 COST "${ARG_COST}"
        ENVIRONMENT "GTEST_TOTAL_SHARDS=4;GTEST_SHARD_INDEX=${shard};${ARG_ENVIRONMENT}")
    endforeach()
    return()
  endif()
  set(list ${ARG_PREFIX}_TESTS)
  # When ctest begins: a program need not be built where its tests are not asked for.
  gtest_discover_tests(${PROGRAM} TEST_PREFIX ${ARG_PREFIX}. TEST_FILTER ${ARG_FILTER} TEST_LIST ${list}
    NO_PRETTY_VALUES DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT ${ARG_TIMEOUT})
  # gtest_discover_tests takes no properties that are lists.
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/${list}.cmake
    "if(DEFINED ${list})\n"
    "  set_tests_properties(\${${list}} PROPERTIES LABELS \"${ARG_LABELS}\"\n"
    "    ENVIRONMENT \"${ARG_ENVIRONMENT}\" RUN_SERIAL \"${ARG_ALONE}\" COST \"${ARG_COST}\")\n"
    "endif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${CMAKE_CURRENT_BINARY_DIR}/${list}.cmake)
endfunction()

function(tandem_python_test NAME FILE)
  cmake_parse_arguments(ARG "" "TIMEOUT;COST" "LABELS" ${ARGN})
  add_test(NAME ${NAME} COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/${FILE})
  set_tests_properties(${NAME} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} COST "${ARG_COST}"
    ENVIRONMENT TANDEM_BINARY_DIR=${CMAKE_BINARY_DIR}/bin
    SKIP_REGULAR_EXPRESSION "SKIPPED: the whole test")
endfunction()

function(tandem_benchmark NAME)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${NAME} EXCLUDE_FROM_ALL ${ARG_SRCS})
  set_target_properties(${NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
  target_link_libraries(${NAME} PRIVATE ${ARG_DEPS} tandem_compile_options)
  tandem_precompile(${NAME})
  add_dependencies(tandem_benchmarks ${NAME})
endfunction()
