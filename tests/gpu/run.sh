#!/usr/bin/env bash
# Compiles the CUDA engine with nvcc alone and, where there is a GPU, checks it.
#
#   tests/gpu/run.sh [--compile-only]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if ! command -v nvcc >/dev/null; then
  echo 'Skipped: nvcc, the CUDA compiler, was not found (12.4 or later).'
  exit 0
fi

program=build/gpu/correctness
mkdir -p build/gpu
# Code for A100 and H100/H200, and what later GPUs compile it from.
nvcc -std=c++17 -O3 -fmad=false --expt-relaxed-constexpr -I. \
  -gencode arch=compute_80,code=sm_80 \
  -gencode arch=compute_90,code=[sm_90,compute_90] \
  tests/gpu/correctness.cu -o "$program"
echo "Compiled $program."
if [[ "${1:-}" != --compile-only ]]; then
  # 77: there is no GPU, and it says so.
  "$program" || [[ $? == 77 ]]
fi
