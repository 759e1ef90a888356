#!/usr/bin/env bash
# Tests the pure wheel, in an environment that has no other one:
#
#   tests/pure_wheel.sh [PYTEST ARGUMENTS...]
#
# runs the core tests without the library.
#
#   tests/pure_wheel.sh --resolve
#
# checks that its extras can be had on each system and Python, with uv.
set -euo pipefail
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/say.sh

./pip_pkg.sh --pure build/pure

if [[ ${1:-} == --resolve ]]; then
  wheel=$(ls -t build/pure/tf_opt-*.whl | head -n 1)
  for system in x86_64-manylinux_2_28 aarch64-manylinux_2_28 \
    aarch64-apple-darwin x86_64-pc-windows-msvc; do
    for python in 3.10 3.11 3.12 3.13; do
      say "Python $python on $system"
      .venv/bin/uv pip compile --quiet --no-header --no-annotate \
        --python-platform "$system" --python-version "$python" - \
        <<<"tf_opt[tensorflow-cpu,keras2] @ $wheel" | grep '^tensorflow'
    done
  done
  exit
fi

environment=$PWD/build/pure/venv
[[ -e $environment ]] || .venv/bin/python -m venv --without-pip "$environment"
# It sees what .venv has, and this wheel before that.
.venv/bin/python -c 'import site; print(site.getsitepackages()[0])' \
  >"$(echo "$environment"/lib/python*/site-packages)/venv.pth"
tools/install_wheel.sh build/pure "$environment"
say "Testing the core with the pure wheel"
# -I: neither the sources here nor another folder that an environment names.
"$environment/bin/python" -I -m pytest \
  -m 'core and not (slow or needs_library)' -k 'not custom_op' "$@"
