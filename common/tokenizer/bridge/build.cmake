# Builds the bridge with cargo and copies it to OUTPUT. Run by the build:
#
#   cmake -DCARGO=… -DSOURCE_DIR=… -DTARGET_DIR=… -DOUTPUT=… -P build.cmake
#
# TARGET_DIR is in the user's cache folder. The library is kept there under a hash of all that it is
# made of, so that a second preset or clone compiles nothing. The lock keeps two builds apart.

file(GLOB inputs RELATIVE ${SOURCE_DIR} ${SOURCE_DIR}/src/*.rs)
list(APPEND inputs Cargo.toml Cargo.lock build.cmake)
execute_process(COMMAND ${CARGO} --version OUTPUT_VARIABLE fingerprint COMMAND_ERROR_IS_FATAL ANY)
foreach(input IN LISTS inputs)
  file(SHA256 ${SOURCE_DIR}/${input} hash)
  string(APPEND fingerprint " ${input} ${hash}")
endforeach()
string(SHA256 fingerprint "${fingerprint}")
string(SUBSTRING ${fingerprint} 0 16 fingerprint)
set(kept ${TARGET_DIR}/tandem_tokenizer_bridge-${fingerprint}.a)

file(MAKE_DIRECTORY ${TARGET_DIR})
file(LOCK ${TARGET_DIR}/tandem.lock GUARD PROCESS)
if(NOT EXISTS ${kept})
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env CARGO_TARGET_DIR=${TARGET_DIR}
      ${CARGO} build --release --locked --offline --quiet
    WORKING_DIRECTORY ${SOURCE_DIR}
    RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "cargo could not build common/tokenizer/bridge (its messages are above).\n"
      "Where crates are missing: run scripts/setup, which fetches them.")
  endif()
  file(COPY_FILE ${TARGET_DIR}/release/libtandem_tokenizer_bridge.a ${kept}.partial)
  file(RENAME ${kept}.partial ${kept})
endif()
file(COPY_FILE ${kept} ${OUTPUT})
file(TOUCH_NOCREATE ${OUTPUT})
