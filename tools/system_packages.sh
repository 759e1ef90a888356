#!/usr/bin/env bash
# Installs what apt has to provide: Bazel, a C++ compiler, GoogleTest, headers that
# XLA's include and, for the Python given as first argument, the module venv. Does
# nothing where all of it is there, however it came there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/say.sh

python=${1:-python3}
packages=()
has() { command -v "$1" >/dev/null; }

has c++ || has g++ || has clang++ || packages+=(g++)
has bazel || packages+=(bazel-bootstrap)
[[ -e /usr/include/gtest/gtest.h ]] || packages+=(libgtest-dev)
[[ -e /usr/include/highwayhash/highwayhash.h ]] ||
  packages+=(libhighwayhash-dev)
[[ -e /usr/include/farmhash.h ]] || packages+=(libfarmhash-dev)
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
  packages+=("$("$python" -c \
    'import sys; print("python%d.%d-venv" % sys.version_info[:2])')")

if ((${#packages[@]} == 0)); then
  exit
fi

if ! has apt-get; then
  fail "these are missing, and there is no apt-get to install them with:" \
    "${packages[*]} (Debian's names). Install them and try again."
fi
if ((EUID == 0)); then
  as_root=()
elif has sudo && sudo -n true 2>/dev/null; then
  as_root=(sudo -n)
else
  fail "system packages are missing. Run this, then try again:

    sudo apt-get update && sudo apt-get install -y ${packages[*]}
"
fi

say "Installing system packages: ${packages[*]}"
[[ -t 1 ]] && quiet=-q || quiet=-qq
"${as_root[@]}" apt-get $quiet update
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get $quiet install -y --no-install-recommends "${packages[@]}"
