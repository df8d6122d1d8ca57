# Builds the bridge with cargo and copies it to OUTPUT. Run by the build:
#
#   cmake -DCARGO=… -DSOURCE_DIR=… -DTARGET_DIR=… -DOUTPUT=… -P build.cmake
#
# TARGET_DIR is in the user's cache folder, so that every clone and preset shares what was compiled.
# The lock keeps another build from replacing the library between cargo's end and the copy.

file(MAKE_DIRECTORY ${TARGET_DIR})
file(LOCK ${TARGET_DIR}/tandem.lock GUARD PROCESS)
execute_process(
  COMMAND ${CMAKE_COMMAND} -E env CARGO_TARGET_DIR=${TARGET_DIR}
    ${CARGO} build --release --locked --offline --quiet
  WORKING_DIRECTORY ${SOURCE_DIR}
  RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "cargo could not build common/tokenizer/bridge (its messages are above).\n"
    "Where crates are missing: run scripts/setup, which fetches them.")
endif()
file(COPY_FILE ${TARGET_DIR}/release/libtandem_tokenizer_bridge.a ${OUTPUT})
file(TOUCH_NOCREATE ${OUTPUT})
