#compdef tandem tandem-draft tandem-target tandem-orchestrator
# Completion of `tandem` and its services in zsh. The programs themselves tell what may come.
_tandem() {
  local line name
  local -a names shown open open_shown
  for line in "${(@f)$(${words[1]/#\~/$HOME} --complete "${(@)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)}"; do
    [[ -n $line ]] || continue
    name=${line%%$'\t'*}
    if [[ $name == *= ]]; then  # a value follows: no blank
      open+=("$name") open_shown+=("$name  ${line#*$'\t'}")
    else
      names+=("$name") shown+=("$name  ${line#*$'\t'}")
    fi
  done
  if [[ $PREFIX == *=* ]]; then
    compset -P '*='
    (( $#names )) && compadd -- "${(@)names#*=}" || _files
  elif (( $#names + $#open )); then
    (( $#names )) && compadd -l -d shown -- "${names[@]}"
    (( $#open )) && compadd -S '' -l -d open_shown -- "${open[@]}"
    return 0
  else
    _files
  fi
}
if [[ ${funcstack[1]} == _tandem ]]; then
  _tandem "$@"
else
  compdef _tandem tandem tandem-draft tandem-target tandem-orchestrator
fi
