#!/usr/bin/env bash
# The proof with TensorFlow on a GPU, in one call:
#
#   tests/gpu/tensorflow.sh [PYTEST ARGUMENTS...]
#
# makes the GPU wheel, installs it into build/gpu/venv beside the TensorFlow that
# uses GPUs (some gigabytes, with its CUDA libraries), runs the tests there,
# measures steps and compares trainings with `state_device` and without.
# Says so and stops where there is no NVIDIA driver.
set -euo pipefail
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/say.sh

if ! command -v nvidia-smi >/dev/null; then
  say "Skipped: nvidia-smi was not found, so there is no GPU to test on"
  exit
fi
./pip_pkg.sh --newest-only --cuda build/gpu/wheel

venv=build/gpu/venv
say "Installing TensorFlow for GPUs and the wheel into $venv"
.venv/bin/python -m venv "$venv"
version=$(.venv/bin/python -c 'import tensorflow; print(tensorflow.__version__)')
# Without hashes: those of the CUDA libraries aren't pinned.
"$venv/bin/python" -m pip install --disable-pip-version-check --quiet \
  --constraint <(grep -o '^[a-z][^\]*' requirements/constraints.txt) \
  --requirement requirements/test.txt --requirement requirements/demo.txt \
  "tensorflow[and-cuda]==$version"
tools/install_wheel.sh build/gpu/wheel "$venv"

# -I: the installed package, not the sources here.
"$venv/bin/python" -I -m tf_opt
say "Testing on the CPU and on the GPU"
"$venv/bin/pytest" "$@"
say "Timing steps of tables, and Adam's of whole models"
"$venv/bin/python" tests/gpu/tensorflow_steps.py
say "Training with state_device and without"
"$venv/bin/python" examples/offload.py
