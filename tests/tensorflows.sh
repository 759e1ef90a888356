#!/usr/bin/env bash
# Runs the core tests with the wheel in dist/ on each TensorFlow minor that it
# has a library for, with the oldest Keras and the newest; on the newest
# TensorFlow also with the Keras minors between. With the newest Keras it tests
# the library's kernels as well. Prints one table last.
#
#   tests/tensorflows.sh [--newest] [PYTEST ARGUMENTS...]
#
# With --newest it installs what is newest instead, pre-releases included, into
# build/newest/venv, and makes the wheel for that.
set -euo pipefail
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/say.sh
source tools/tensorflow_minors.sh

table=()
failed=

# Core tests with the Keras in a folder; core and kernels with the environment's.
run() {
  local environment=$1 keras_folder=$2 marks=core
  [[ -n $keras_folder ]] || marks="core or kernels"
  shift 2
  local versions result outcome=passed
  # Not the source tree, whose package `python -c` would import.
  versions=$(cd tests && PYTHONPATH=$keras_folder TF_CPP_MIN_LOG_LEVEL=3 \
    "$environment/bin/python" -c 'import keras, tensorflow as tf, tf_opt
assert tf_opt.build_info()["custom_ops"] == "loaded", tf_opt.build_info()
print("TensorFlow", tf.__version__, "Keras", keras.__version__)')
  say "Testing $marks with $versions"
  result=$(mktemp)
  PYTHONPATH=$keras_folder "$environment/bin/pytest" -m "$marks" "$@" |
    tee "$result" || outcome=FAILED failed=yes
  table+=("$versions: $outcome $(tail -n 1 "$result" | tr -d =)")
  rm "$result"
}

if [[ ${1:-} == --newest ]]; then
  shift
  environment=$PWD/build/newest/venv
  [[ -e $environment ]] || .venv/bin/python -m venv "$environment"
  say "Installing what is newest into $environment"
  [[ -t 1 ]] && quiet=() || quiet=(--quiet)
  # TensorFlow brings its Keras: a pre-release needs keras-nightly, which has the
  # same files as keras.
  "$environment/bin/python" -m pip install --disable-pip-version-check \
    "${quiet[@]}" --pre --upgrade --upgrade-strategy eager --requirement <(
      sed -n 's/==.*\.\*//p' requirements/build.txt
      grep -vxF keras requirements/test.txt
    )
  PYTHON=$environment/bin/python ./pip_pkg.sh build/newest/wheel
  tools/install_wheel.sh build/newest/wheel "$environment"
  run "$environment" "" "$@"
  [[ -z $failed ]] || fail "not all of these passed"
  exit
fi

mapfile -t older_keras < <(grep -v '^#' requirements/older-keras.txt)
for requirement in "${older_keras[@]}"; do
  tools/setup_beside.sh "build/${requirement%% *}" "$requirement"
done

newest=$(newest_tensorflow_minor)
for minor in $(tensorflow_minors); do
  environment=$PWD/.venv
  keras=("${older_keras[@]}")
  if [[ $minor != "$newest" ]]; then
    tools/setup_tensorflow.sh "$minor"
    environment=$PWD/build/tensorflow-$minor/venv
    keras=("${older_keras[0]}")
  fi
  tools/install_wheel.sh dist "$environment"
  for requirement in "${keras[@]}"; do
    run "$environment" "$PWD/build/${requirement%% *}" "$@"
  done
  run "$environment" "" "$@"
done

printf '%s\n' "${table[@]}"
[[ -z $failed ]] || fail "not all of these passed"
