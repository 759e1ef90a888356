#!/usr/bin/env bash
# Installs the wheel in a folder into an environment, unless it is there already:
#
#   tools/install_wheel.sh FOLDER ENVIRONMENT
set -euo pipefail
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/say.sh

wheels=("$1"/tf_opt-*.whl)
if ((${#wheels[@]} != 1)) || [[ ! -e ${wheels[0]} ]]; then
  fail "$1 must hold one wheel of tf_opt, but holds: ${wheels[*]}." \
    "Remove all but one, or all of them, and run the same again."
fi

checksum=$(sha256sum "${wheels[0]}")
if [[ $checksum != "$(cat "$2/.installed-wheel" 2>/dev/null)" ]]; then
  say "Installing ${wheels[0]} into $2"
  "$2/bin/python" -m pip install --disable-pip-version-check --quiet \
    --no-deps --force-reinstall "${wheels[0]}"
  echo "$checksum" >"$2/.installed-wheel"
fi
