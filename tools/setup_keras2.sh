#!/usr/bin/env bash
# Installs Keras 2 for a TensorFlow minor into an environment, at the version that
# requirements/keras2.txt pins, and nothing twice:
#
#   tools/setup_keras2.sh MINOR ENVIRONMENT
set -euo pipefail
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/say.sh

requirement=$(grep -F "tf-keras==$1." requirements/keras2.txt) ||
  fail "requirements/keras2.txt needs a line for TensorFlow $1"
if [[ $requirement == "$(cat "$2/.installed-keras2" 2>/dev/null)" ]]; then
  exit
fi
say "Installing ${requirement%% *} into $2"
"$2/bin/python" -m pip install --disable-pip-version-check --quiet --no-deps \
  --requirement <(echo "$requirement")
echo "$requirement" >"$2/.installed-keras2"
