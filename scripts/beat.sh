# Sourced by scripts that start what says nothing for minutes.

# beat runs a command, and says every 15 seconds (or BEAT) that it still does.
beat() { # WHAT COMMAND...
  local what=$1 began=$SECONDS dir never pid status=0
  shift
  dir=$(mktemp -d)
  mkfifo "$dir/never" # a wait on it needs no process that would stay behind
  exec {never}<>"$dir/never"
  rm -r "$dir"
  while ! read -r -t "${BEAT:-15}" -u "$never"; do
    kill -0 $$ 2>/dev/null || exit
    echo "      ... $what, $((SECONDS - began)) s"
  done &
  pid=$!
  exec {never}>&-
  "$@" || status=$?
  kill "$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || true # it was killed
  return "$status"
}

# need_go ends the script where Go is missing or too old, and fetches the one that
# go.mod names where Go does that by itself.
need_go() {
  local have
  have=$(cd / && go env GOVERSION 2>/dev/null) || have=none
  case $have in
    none | '' | go1.? | go1.1? | go1.20 | go1.?.* | go1.1?.* | go1.20.*)
      echo "please install Go $(sed -n 's/^go //p' go.mod) from https://go.dev/dl; a Go from 1.21 on, such as Debian 13's golang-go, fetches it by itself (here: $have)" >&2
      exit 1 ;;
  esac
  beat "Go fetches its version of go.mod" go version || exit 1
}
