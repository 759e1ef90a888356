#!/usr/bin/env bash
# Makes a folder with packages beside those of .venv, for PYTHONPATH, once:
#
#   tools/setup_beside.sh FOLDER REQUIREMENT...
set -euo pipefail
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/say.sh

folder=$1
shift
if [[ $* == "$(cat "$folder/.made-of" 2>/dev/null)" ]]; then
  exit
fi
say "Installing $* beside .venv"
rm -rf "$folder"
# What they need, each environment has, or the requirements name it.
.venv/bin/python -m pip install --disable-pip-version-check --quiet --no-deps \
  --target "$folder" "$@"
echo "$*" >"$folder/.made-of"
