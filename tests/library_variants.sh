#!/usr/bin/env bash
# Tests other builds of the library than the installed wheel's, on the CPU: the
# kernels for GPUs, emulated, in place of the CPU's; and, with nvcc 12.9, a build
# with CUDA, which a TensorFlow without CUDA must be able to load.
#
#   tests/library_variants.sh [PYTEST ARGUMENTS...]
set -euo pipefail
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/say.sh

export TF_OPT_PYTHON=$PWD/.venv/bin/python
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

# What meets the kernels; the other tests are about Python, which is the same.
# What runs none of them, composed or inside XLA, needs no other library. Nor do
# long trainings of rows that catch up, after short ones, and a mode's other
# types, which gpu/correctness.cc has.
with_kernels=(tests/test_{measure,ops,update_rules,whole_step}.py
  tests/test_{catch_up,lazy_mode,row_wise,sparse_errors,sparse_ops}.py)

bazel build //tf_opt:binaries //tests:emulated_gpu/_tf_opt_ops.so
say "Testing the kernels for GPUs, emulated on the CPU"
"$TF_OPT_PYTHON" tools/stage_package.py "$temporary/emulated" bazel-bin
for library in "$temporary"/emulated/tf_opt/python/ops/libraries/*/*.so; do
  cp -f bazel-bin/tests/emulated_gpu/_tf_opt_ops.so "$library"
done
TF_OPT_TEST_EMULATED_GPU=1 PYTHONPATH=$temporary/emulated \
  .venv/bin/pytest -m kernels \
  -k "not (composed or jit_compile or inside_xla) \
    and not ((catch_up or each_mode) and slow or ten_thousand)" \
  "$@" "${with_kernels[@]}"

if [[ $(nvcc --help 2>/dev/null) != *-Ofc* ]]; then
  say "Skipped: nvcc 12.9 was not found, so no build with CUDA is tested"
  exit
fi
say "Testing a build with CUDA where there is no GPU"
bazel build --config=cuda --define=cuda_for_tests=1 //tf_opt:binaries
"$TF_OPT_PYTHON" tools/stage_package.py "$temporary/cuda" bazel-bin
(cd / && PYTHONPATH=$temporary/cuda "$TF_OPT_PYTHON" -m tf_opt) |
  grep -E '^(wheel|cuda)'
# Its kernels for CPUs are those of the wheel: that they are there is to be seen.
PYTHONPATH=$temporary/cuda .venv/bin/pytest -m kernels "$@" \
  tests/test_ops.py
