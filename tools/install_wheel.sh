#!/usr/bin/env bash
# Installs a folder's newest wheel into an environment, unless it is there already:
#
#   tools/install_wheel.sh FOLDER ENVIRONMENT
set -euo pipefail
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/say.sh

wheel=$(ls -t "$1"/tf_opt-*.whl | head -n 1)
checksum=$(sha256sum "$wheel")
if [[ $checksum != "$(cat "$2/.installed-wheel" 2>/dev/null)" ]]; then
  say "Installing $wheel into $2"
  "$2/bin/python" -m pip install --disable-pip-version-check --quiet \
    --no-deps "$wheel"
  echo "$checksum" >"$2/.installed-wheel"
fi
