#!/usr/bin/env bash
# Tries, once, to install PyTorch into .venv; tests that compare with it are
# skipped where it isn't. The version's label "+cpu" exists only where a build for
# the CPU is offered: nobody is made to download the gigabytes of CUDA libraries
# that come with the other one. Where that is differs, and so its hash isn't pinned.
set -euo pipefail
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/say.sh

requirement=$(cat requirements/torch.txt)
tried=.venv/.tried-torch
if [[ $(cat "$tried" 2>/dev/null) == "$requirement" ]]; then
  exit
fi

say "Installing $requirement (optional)"
[[ -t 1 ]] && quiet=() || quiet=(--quiet)
# Errors are kept from the screen: the last one goes into one calm line.
if ! {
  errors=$(.venv/bin/python -m pip install "${quiet[@]}" \
    --disable-pip-version-check \
    --constraint <(grep -o '^[a-z][^\]*' requirements/constraints.txt) \
    "$requirement" 2>&1 >&3)
} 3>&1; then
  say "Going on without it; tests that compare with it are skipped" \
    "(${errors##*$'\n'}). \`make torch\` tries again."
fi
echo "$requirement" >"$tried"
