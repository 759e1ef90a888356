#!/usr/bin/env bash
# Makes an environment with another TensorFlow minor than .venv's, to compile
# against and to test with, and nothing twice:
#
#   tools/setup_tensorflow.sh MINOR
#
# It is build/tensorflow-MINOR/venv, with .venv's Python and the versions that
# requirements/tensorflow-MINOR.txt pins (`make lock`). For a minor that is too
# new to be pinned, it sees what is installed for $PYTHON (default: python3).
set -euo pipefail
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/say.sh

requirements=requirements/tensorflow-$1.txt
venv=build/tensorflow-$1/venv
python=.venv/bin/python
[[ -e $requirements ]] || python=${PYTHON:-python3} requirements=
made_of=$(
  [[ -z $requirements ]] || cat "$requirements" requirements/keras2.txt
  "$python" -c 'import sys; print(sys.prefix, sys.base_prefix, sys.version)'
)
if [[ $made_of == "$(cat "$venv/.made-of" 2>/dev/null)" ]]; then
  exit
fi

say "Making $venv with TensorFlow $1"
rm -rf "$venv"
"$python" -m venv "$venv"
if [[ -z $requirements ]]; then
  "$python" -c '
import sys
print(*(path for path in sys.path if path.endswith("-packages")), sep="\n")
' >"$(echo "$venv"/lib/python*/site-packages)/venv.pth"
  echo "$made_of" >"$venv/.made-of"
  exit
fi
[[ -t 1 ]] && quiet=() || quiet=(--quiet)
"$venv/bin/python" -m pip install --disable-pip-version-check "${quiet[@]}" \
  --requirement "$requirements"
tools/setup_keras2.sh "$1" "$venv"
echo "$made_of" >"$venv/.made-of"
