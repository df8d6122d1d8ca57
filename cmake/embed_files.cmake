# The step of tandem_embed (Embed.cmake).
set(source "#include \"${HEADER}\"\n\nnamespace tandem::${NAMESPACE} {\n")
while(FILES)
  list(POP_FRONT FILES file name)
  file(READ ${file} text)
  string(FIND "${text}" ")tandem_embed\"" end)
  string(LENGTH "${text}" length)
  if(NOT end EQUAL -1 OR length GREATER 65000)  # a compiler need not take a longer literal
    message(FATAL_ERROR "${file} cannot be embedded: it has ${length} bytes, or the sequence that ends it")
  endif()
  string(APPEND source "\nconst absl::string_view ${name} = R\"tandem_embed(${text})tandem_embed\";\n")
endwhile()
file(WRITE ${OUTPUT} "${source}\n}  // namespace tandem::${NAMESPACE}\n")
