#!/usr/bin/env bash
# Makes a folder with packages beside those of .venv, for PYTHONPATH, once:
#
#   tools/setup_beside.sh FOLDER REQUIREMENTS
#
# REQUIREMENTS are lines of a requirements file.
set -euo pipefail
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/say.sh

folder=$1
if [[ $2 == "$(cat "$folder/.made-of" 2>/dev/null)" ]]; then
  exit
fi
say "Installing beside .venv:" $(grep -o '^[^ ]*' <<<"$2")
rm -rf "$folder"
# What they need, each environment has, or the requirements name it.
.venv/bin/python -m pip install --disable-pip-version-check --quiet --no-deps \
  --target "$folder" --requirement <(echo "$2")
echo "$2" >"$folder/.made-of"
