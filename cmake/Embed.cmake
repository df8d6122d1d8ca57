# Puts the texts of files into a program:
#
#   tandem_embed(SOURCE HEADER client/completion/scripts.h NAMESPACE client
#                FILES completion/tandem.bash kBashCompletion completion/tandem.zsh kZshCompletion)
#
# SOURCE becomes the source that defines tandem::client::kBashCompletion and so on. The header
# declares them: `extern const absl::string_view kBashCompletion;`. SOURCE is generated: give it to
# target_sources. A file is text of at most 65,000 bytes, without the sequence )tandem_embed".

function(tandem_embed SOURCE)
  cmake_parse_arguments(ARG "" "HEADER;NAMESPACE" "FILES" ${ARGN})
  string(MAKE_C_IDENTIFIER ${ARG_HEADER} stem)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/embedded_${stem}.cc)
  set(files)
  set(depends)
  while(ARG_FILES)
    list(POP_FRONT ARG_FILES file name)
    list(APPEND files ${CMAKE_CURRENT_SOURCE_DIR}/${file} ${name})
    list(APPEND depends ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  endwhile()
  set(script ${CMAKE_SOURCE_DIR}/cmake/embed_files.cmake)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} "-DFILES=${files}" -DHEADER=${ARG_HEADER} -DNAMESPACE=${ARG_NAMESPACE}
      -DOUTPUT=${output} -P ${script}
    DEPENDS ${depends} ${script}
    VERBATIM)
  set(${SOURCE} ${output} PARENT_SCOPE)
endfunction()
