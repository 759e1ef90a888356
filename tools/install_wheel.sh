#!/usr/bin/env bash
# Installs the wheel in dist/ into .venv, unless it is there already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/say.sh

wheels=(dist/tf_opt-*.whl)
if ((${#wheels[@]} != 1)) || [[ ! -e ${wheels[0]} ]]; then
  fail "dist/ must hold one wheel of tf_opt, but holds: ${wheels[*]}." \
    "Run \`rm -r dist && make wheel\`."
fi

checksum=$(sha256sum "${wheels[0]}")
if [[ $checksum != "$(cat .venv/.installed-wheel 2>/dev/null)" ]]; then
  say "Installing ${wheels[0]} into .venv"
  .venv/bin/python -m pip install --disable-pip-version-check --quiet \
    --no-deps --force-reinstall "${wheels[0]}"
  echo "$checksum" >.venv/.installed-wheel
fi
