#!/usr/bin/env bash
# Makes a folder with another Keras than .venv's, for PYTHONPATH, once:
#
#   tools/setup_keras.sh REQUIREMENT FOLDER
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/say.sh

if [[ $1 == "$(cat "$2/.made-of" 2>/dev/null)" ]]; then
  exit
fi
say "Installing $1 beside the newest"
rm -rf "$2"
# Keras is nothing but Python: what it needs, each environment has.
.venv/bin/python -m pip install --disable-pip-version-check --quiet --no-deps \
  --target "$2" "$1"
echo "$1" >"$2/.made-of"
