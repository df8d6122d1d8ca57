# Shared by the scripts of this folder: progress lines, logs, errors that say what to do.
# Source it from the repository's root; set step_count before the first `step`.

TANDEM_CACHE=${TANDEM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tandem}
TANDEM_LOG=${TANDEM_LOG:-$TANDEM_CACHE/last-run.log}
mkdir -p "$TANDEM_CACHE"
export PATH="$TANDEM_CACHE/bin:$PATH"
step_number=0

die() {  # die WHAT-IS-WRONG [WHAT-TO-DO]
  printf 'error: %s\n' "$1" >&2
  [ $# -lt 2 ] || printf '  hint: %s\n' "$2" >&2
  exit 1
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else die "this step needs root: $*" "run as root, or install sudo"
  fi
}

# Runs a command with its output in the log; shows the log's end where it fails.
logged() {
  printf '\n$ %s\n' "$*" >>"$TANDEM_LOG"
  local status=0
  "$@" >>"$TANDEM_LOG" 2>&1 || status=$?
  if [ $status -ne 0 ] && [ -z "${logged_quiet:-}" ]; then
    printf '\n' >&2
    tail -n 25 "$TANDEM_LOG" >&2
    printf '(the whole log: %s)\n' "$TANDEM_LOG" >&2
  fi
  return $status
}

# step NAME FUNCTION: one numbered line of progress, with the seconds it took. While the function
# runs on a terminal, the seconds count up. The function returns 10 where there was nothing to do.
step_result() {
  if [ -t 1 ]; then printf '\r\033[K%s … %s\n' "$label" "$1"; else printf ' %s\n' "$1"; fi
}

step() {
  local name=$1 start=$SECONDS status=0 ticker=
  shift
  step_number=$((step_number + 1))
  local label="[$step_number/$step_count] $name"
  if [ -t 1 ]; then
    (while sleep 1; do printf '\r%s … %d s ' "$label" $((SECONDS - start)); done) &
    ticker=$!
  fi
  [ -n "$ticker" ] || printf '%s …' "$label"
  # A subshell with errexit of its own: bash ignores `set -e` inside a tested function.
  set +e
  (set -e; "$@")
  status=$?
  set -e
  [ -z "$ticker" ] || { kill "$ticker" 2>/dev/null; wait "$ticker" 2>/dev/null || true; }
  case $status in
    0) step_result "done ($((SECONDS - start)) s)" ;;
    10) step_result "already there" ;;
    *) printf '\n'; die "failed: $name" "the log is $TANDEM_LOG" ;;
  esac
}

# configure PRESET [CMAKE ARGUMENTS]: makes build/PRESET, or brings it up to date.
configure() {
  logged cmake --preset "$@" || die "the build $1 could not be configured" "the log is $TANDEM_LOG"
}

duration() {  # duration SECONDS: for people
  if [ "$1" -lt 60 ]; then echo "$1 s"; else printf '%d min %02d s\n' $(($1 / 60)) $(($1 % 60)); fi
}

# build PRESET TARGET…: builds with one line of progress and the time that is left by the pace so far: again and
# again on a terminal, every half minute in a log. What the compiler says is shown where it fails.
build() {
  local preset=$1 start=$SECONDS next=$((SECONDS + 30)) line step total elapsed text
  local log=build/$preset/build.log
  shift
  : >"$log"
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$log"
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\]\  ]] || continue
    step=${BASH_REMATCH[1]} total=${BASH_REMATCH[2]} elapsed=$((SECONDS - start))
    text="      $step of $total"
    [ $elapsed -lt 5 ] || text+=", about $(duration $((elapsed * (total - step) / step))) left"
    if [ -t 1 ]; then
      printf '\r\033[K%s' "$text"
    elif [ $SECONDS -ge $next ]; then
      printf '%s\n' "$text"
      next=$((SECONDS + 30))
    fi
  done < <(NINJA_STATUS='[%f/%t] ' cmake --build "build/$preset" --target "$@" 2>&1)
  [ ! -t 1 ] || printf '\r\033[K'
  wait $! || {
    grep -nE -A12 'error|FAILED' "$log" | head -n 60 >&2
    die "the build $preset failed" "its log is $log"
  }
}

version_at_least() {  # version_at_least WANTED FOUND
  [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
}

# Prints the path of a Go that is new enough for all that is built with it here. Backports install theirs
# beside an older one that comes first in PATH.
GO_WANTED=1.22.7
find_go() {
  local go version
  for go in "$(command -v go || true)" /usr/local/go/bin/go /usr/bin/go /usr/lib/go-*/bin/go; do
    [ -x "$go" ] || continue
    version=$(GOTOOLCHAIN=local "$go" env GOVERSION | sed 's/^go//') || continue
    if version_at_least "$GO_WANTED" "$version"; then echo "$go"; return; fi
  done
  return 1
}

# For tests that ask the services as their users do. In a folder of their own, so that no Python has them.
install_python_packages() {  # install_python_packages NAME: those of scripts/NAME.txt
  local list=scripts/$1.txt home partial
  home=$TANDEM_CACHE/python-$1-$(sha256sum "$list" | cut -c1-16)
  [ -f "$home/.complete" ] && return 10
  partial=$home.partial.$$
  rm -rf "$home" "$partial"
  logged python3 -m pip install --no-deps --only-binary=:all: --disable-pip-version-check \
    --no-compile --python-version 3.11 --implementation cp --abi cp311 --abi abi3 --abi none \
    --platform manylinux_2_28_x86_64 --platform manylinux2014_x86_64 \
    --platform manylinux_2_17_x86_64 --require-hashes --target "$partial" -r "$list"
  touch "$partial/.complete"
  mv "$partial" "$home"
}

# Programs and sources from the Go module proxy, each with the sum that it must have.
module() {  # module GO MODULE VERSION SUM: downloads it; what Go says of it, as JSON
  local answer
  answer=$(GOTOOLCHAIN=local "$1" mod download -json "$2@$3" 2>>"$TANDEM_LOG")
  [ "$(jq -r .Sum <<<"$answer")" = "$4" ] || { echo "$2: not the sum that is pinned here" >&2; return 1; }
  echo "$answer"
}

go_tool() {  # go_tool NAME MODULE PACKAGE VERSION SUM
  local name=$1 module=$2 package=$3 version=$4 sum=$5 go
  [ -x "$TANDEM_CACHE/bin/$name-$version" ] && return 10
  go=$(find_go) || { echo "no Go $GO_WANTED or newer; scripts/setup installs one" >&2; return 1; }
  module "$go" "$module" "$version" "$sum" >/dev/null
  logged env GOTOOLCHAIN=local GOBIN="$TANDEM_CACHE/bin" GOFLAGS=-modcacherw nice "$go" install "$package@$version"
  mv "$TANDEM_CACHE/bin/$name" "$TANDEM_CACHE/bin/$name-$version"
  ln -sf "$name-$version" "$TANDEM_CACHE/bin/$name"
}
