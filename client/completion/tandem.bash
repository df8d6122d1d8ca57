# Completion of `tandem` and its services in bash. The programs themselves tell what may come.
_tandem() {
  local line=${COMP_LINE:0:COMP_POINT} typed candidate
  local -a words
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=('')
  typed=${words[-1]}
  words[0]=${words[0]/#\~/$HOME}
  COMPREPLY=()
  while IFS=$'\t' read -r candidate _; do
    # For bash a word begins anew after each '='.
    [[ $typed == *=* ]] && candidate=${candidate#*=}
    COMPREPLY+=("$candidate")
  done < <("${words[0]}" --complete "${words[@]:1}" 2>/dev/null)
  # A value follows: no blank.
  [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -o default -F _tandem tandem tandem-draft tandem-target tandem-orchestrator
