#!/usr/bin/env bash
# Makes everything ready that the arguments name, and nothing twice:
#
#   tools/setup.sh [GROUP...]
#
# installs missing system packages, makes .venv with $PYTHON (default: python3)
# and installs requirements/GROUP.txt into it, at the versions that
# requirements/constraints.txt pins and with the hashes that it lists. With the
# group test it installs Keras 2, too.
set -euo pipefail
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/say.sh
source tools/tensorflow_minors.sh

[[ $PWD != *[[:space:]]* ]] ||
  fail "Bazel can't work in a folder with a space in its path: $PWD"

venv=.venv
python=${PYTHON:-python3}

# What tells one Python from another; nothing for one that doesn't run.
identify() {
  "$1" -c 'import sys; print(sys.base_prefix, sys.version)' 2>/dev/null || true
}

# An existing .venv stays, unless its Python is gone or another one is asked for.
venv_fits() {
  local made_with
  made_with=$(identify "$venv/bin/python")
  [[ -n $made_with && ($made_with == "$(identify "$python")" || -z ${PYTHON:-}) ]]
}

check_python() {
  command -v "$python" >/dev/null ||
    fail "there is no $python. Install Python 3.10 to 3.13, or name one:" \
      "PYTHON=/path/to/python3 make ..."
  "$python" -c \
    'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' ||
    fail "Python 3.10 to 3.13 is needed, but $python is" \
      "$("$python" --version 2>&1). Name another: PYTHON=/path/to/python3 make ..."
}

checksum() { cat "requirements/$1.txt" requirements/constraints.txt | sha256sum; }

if venv_fits; then
  tools/system_packages.sh "$venv/bin/python"
else
  check_python
  tools/system_packages.sh "$python"
  say "Making $venv with $("$python" --version)"
  rm -rf "$venv"
  "$python" -m venv "$venv"
fi

[[ " $* " != *" test "* ]] ||
  tools/setup_keras2.sh "$(newest_tensorflow_minor)" "$venv"

stale=()
requirements=()
for group in "$@"; do
  if [[ $(checksum "$group") != "$(cat "$venv/.installed-$group" 2>/dev/null)" ]]; then
    stale+=("$group")
    requirements+=(--requirement "requirements/$group.txt")
  fi
done
if ((${#stale[@]} == 0)); then
  exit
fi

say "Installing into $venv what these need: ${stale[*]}"
# A terminal gets pip's progress bars; a log doesn't.
[[ -t 1 ]] || requirements+=(--quiet)
# Python's own pip is too old to take hashes from constraints.
"$venv/bin/python" -m pip install --disable-pip-version-check --quiet \
  --requirement <(sed -n '/^pip==/,/# via/p' requirements/constraints.txt)
"$venv/bin/python" -m pip install --disable-pip-version-check \
  --constraint requirements/constraints.txt "${requirements[@]}"
for group in "${stale[@]}"; do
  checksum "$group" >"$venv/.installed-$group"
done
