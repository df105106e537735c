# Shared by the scripts beside it: where things are, how a step is announced, three tries for what is fetched.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$ROOT"
TARGET=${CARGO_TARGET_DIR:-$ROOT/target}
export CARGO_TARGET_DIR=$TARGET
BIN=$TARGET/debug
TOOLS=$TARGET/tools
say() { printf '\n── %s\n' "$*"; }
die() { printf '%s\n' "$*" >&2; exit 1; }
try3() { # what is fetched may fail once; what cannot be fetched fails the script
  local n
  for n in 1 2 3; do
    "$@" && return 0
    [ "$n" = 3 ] || { printf 'try %s failed, again: %s\n' "$n" "$*" >&2; sleep $((n * 3)); }
  done
  die "could not be fetched: $*"
}
# Runs "$@" on a screen: the one there is, else a virtual one.
on_screen() {
  if [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; then "$@"; else xvfb-run -a -s "-screen 0 1280x800x24" "$@"; fi
}
