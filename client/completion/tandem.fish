# Completion of `tandem` and its services in fish. The programs themselves tell what may come.
function __tandem_candidates
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    set -l program $words[1]
    set -e words[1]
    command $program --complete $words "$typed" 2>/dev/null
end
for program in tandem tandem-draft tandem-target tandem-orchestrator
    complete -c $program -e
    complete -c $program -n 'count (__tandem_candidates) >/dev/null' -f -a '(__tandem_candidates)'
end
