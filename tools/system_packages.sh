#!/usr/bin/env bash
# Installs what apt has to provide: Bazel, a C++ compiler, GoogleTest and, for the
# Python given as first argument, the module venv. Further arguments are commands
# to install, in packages of their names or, as COMMAND:PACKAGE, of another. Does
# nothing where all of it is there, however it came there.
set -euo pipefail
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/say.sh

python=${1:-python3}
packages=()
has() { command -v "$1" >/dev/null; }

has c++ || has g++ || has clang++ || packages+=(g++)
has bazel || packages+=(bazel-bootstrap)
[[ -e /usr/include/gtest/gtest.h ]] || packages+=(libgtest-dev)
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
  packages+=("$("$python" -c \
    'import sys; print("python%d.%d-venv" % sys.version_info[:2])')")
for command in "${@:2}"; do
  has "${command%:*}" || packages+=("${command#*:}")
done

if ((${#packages[@]} == 0)); then
  exit
fi
has apt-get ||
  fail "these are missing, and there is no apt-get to install them with:" \
    "${packages[*]} (Debian's names). Install them and try again."
as_root=()
if ((EUID != 0)); then
  { has sudo && sudo -n true 2>/dev/null; } ||
    fail "system packages are missing. Run this, then try again:

    sudo apt-get update && sudo apt-get install -y ${packages[*]}
"
  as_root=(sudo -n)
fi
quiet=-qq
[[ -t 1 ]] && quiet=-q
say "Installing system packages: ${packages[*]}"
"${as_root[@]}" apt-get $quiet update
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get $quiet install -y --no-install-recommends "${packages[@]}"
