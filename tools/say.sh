# Sourced by the other scripts: how they talk to the person who runs them.

say() { printf '==> %s\n' "$*"; }

fail() {
  printf 'Error: %s\n' "$*" >&2
  exit 1
}
