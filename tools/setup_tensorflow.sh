#!/usr/bin/env bash
# Makes an environment with another TensorFlow minor than .venv's, to compile
# against and to test with, and nothing twice:
#
#   tools/setup_tensorflow.sh MINOR
#
# It is build/tensorflow-MINOR/venv, with .venv's Python and the versions that
# requirements/tensorflow-MINOR.txt pins (`make lock`).
set -euo pipefail
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/say.sh

requirements=requirements/tensorflow-$1.txt
venv=build/tensorflow-$1/venv
made_of=$(
  cat "$requirements"
  .venv/bin/python -c 'import sys; print(sys.base_prefix, sys.version)'
)
if [[ $made_of == "$(cat "$venv/.made-of" 2>/dev/null)" ]]; then
  exit
fi

say "Making $venv with TensorFlow $1"
rm -rf "$venv"
.venv/bin/python -m venv "$venv"
[[ -t 1 ]] && quiet=() || quiet=(--quiet)
"$venv/bin/python" -m pip install --disable-pip-version-check "${quiet[@]}" \
  --requirement "$requirements"
echo "$made_of" >"$venv/.made-of"
