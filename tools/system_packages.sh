#!/usr/bin/env bash
# Installs what apt has to provide: Bazel, a C++ compiler, GoogleTest and, for the
# Python given as first argument, the module venv; where that can be done also
# headers for the kernels for XLA, without which these are left out. Further
# arguments are commands to install, in packages of their names or, as
# COMMAND:PACKAGE, of another. Does nothing where all of it is there, however it
# came there.
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

# What XLA's headers include and TensorFlow's wheel leaves out.
optional=()
[[ -e /usr/include/farmhash.h ]] || optional+=(libfarmhash-dev)
[[ -e /usr/include/highwayhash/highwayhash.h ]] ||
  optional+=(libhighwayhash-dev)

if ((${#packages[@]} + ${#optional[@]} == 0)); then
  exit
fi

# Installs packages, if this user may.
as_root=()
((EUID == 0)) || as_root=(sudo -n)
may_install() {
  has apt-get && { ((EUID == 0)) || { has sudo && sudo -n true 2>/dev/null; }; }
}
install() {
  local quiet=-qq
  [[ -t 1 ]] && quiet=-q
  say "Installing system packages: $*"
  "${as_root[@]}" apt-get $quiet update &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get $quiet install -y --no-install-recommends "$@"
}

if ((${#packages[@]} > 0)); then
  has apt-get ||
    fail "these are missing, and there is no apt-get to install them with:" \
      "${packages[*]} (Debian's names). Install them and try again."
  may_install || fail "system packages are missing. Run this, then try again:

    sudo apt-get update && sudo apt-get install -y ${packages[*]}
"
  install "${packages[@]}"
fi

if ((${#optional[@]} > 0)); then
  { may_install && install "${optional[@]}"; } ||
    say "Going on without ${optional[*]} (Debian's names): the library will" \
      "have no kernels for XLA"
fi
