#!/usr/bin/env bash
# Tests the wheel for Linux on ARM on another machine, with the newest TensorFlow.
# QEMU runs the programs, several times slower than a processor: these are the
# C++ tests of the rules and of the engines, and each op against the composed
# implementation. Times in QEMU say nothing about ARM.
#
#   tests/aarch64.sh [PYTEST ARGUMENTS...]
set -euo pipefail
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/say.sh
source tools/tensorflow_minors.sh

./pip_pkg.sh --newest-only --arch aarch64 build/aarch64/wheel
tools/setup.sh test
folder=$PWD/build/aarch64
newest=$folder/tensorflow-$(newest_tensorflow_minor)
tools/install_wheel.sh build/aarch64/wheel "$newest/venv"

say "Checking the library's instructions"
.venv/bin/python tests/check_instructions.py \
  "$newest/bazel-bin/tf_opt/python/ops/_tf_opt_ops.so"

say "Running the C++ tests"
PATH=$folder/bin:$PATH TF_OPT_PYTHON=$newest/venv/bin/python \
  bazel --batch --output_base="$newest/bazel" test --config=aarch64 \
  --symlink_prefix="$newest/bazel-" --test_timeout=1800 \
  --linkopt="-L$folder/root/usr/lib/aarch64-linux-gnu" \
  --run_under="qemu-aarch64 -L $folder/root" \
  //tf_opt/cc/rules:all //tf_opt/cc/engines/cpu:all //tests/gpu:correctness

# -I: the installed package, not the sources here.
report=$("$newest/venv/bin/python" -I -m tf_opt)
echo "$report"
grep -q '^cpu_kernels *neon$' <<<"$report" || fail "NEON isn't used"
say "Testing the ops against the composed implementation"
"$newest/venv/bin/pytest" -k "each_mode or the_bits or equals_numpy" "$@" \
  tests/test_whole_step.py tests/test_sparse_ops.py tests/test_measure.py
