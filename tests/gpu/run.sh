#!/usr/bin/env bash
# The proof of the GPU engine, in one call, with CUDA's compiler alone:
#
#   tests/gpu/run.sh [--compile-only | --run-only]
#
# compiles the engine and the programs beside this file, checks every rule
# to the bit of the CPU engine (also under compute-sanitizer, where it is), and
# measures against a copy that moves as many bytes. What takes longest comes
# last, and all that is known is printed at once. Says so and stops where there
# is no compiler or no GPU.
#
# --compile-only stops before it checks, and compiles one rule for the newest
# architecture: a build of the library with CUDA compiles the others. --run-only
# takes the programs that a call on another machine left in build/gpu.
set -euo pipefail
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/say.sh

out=build/gpu
case ${1:-} in
  '' | --compile-only | --run-only) ;;
  *) fail "unknown argument $1; usage: tests/gpu/run.sh" \
    "[--compile-only | --run-only]" ;;
esac

# check NAME OPTION [COMMAND...]: runs the comparison, perhaps under a tool.
check() {
  local log=$out/$1.log status=0
  say "Checking: $1"
  "${@:3}" "$out/correctness" $2 >"$log" 2>&1 || status=$?
  if ((status == 77)); then # There is no GPU, and it says so.
    cat "$log"
    exit
  elif ((status != 0)); then
    grep -v '^ok' "$log" | head -n 40 >&2 || true
    fail "the engine is wrong on this GPU; all of it is in $log"
  fi
  say "$(grep -c '^ok' "$log") checks passed: $(tail -n 1 "$log")"
}

run() {
  check "each rule, type and mode" --quick
  if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck initcheck synccheck; do
      check "$tool" --brief compute-sanitizer --tool "$tool" --error-exitcode 1
    done
  else
    say "compute-sanitizer was not found: memory accesses are not checked"
  fi
  say "Measuring, some minutes"
  "${PYTHON:-python3}" tests/gpu/measure.py "$out"
  check "larger tensors, too" ""
  if command -v compute-sanitizer >/dev/null; then
    check racecheck --brief compute-sanitizer --tool racecheck \
      --error-exitcode 1
  fi
}

if [[ ${1:-} == --run-only ]]; then
  run
  exit
fi
if ! command -v nvcc >/dev/null; then
  say "Skipped: nvcc, CUDA's compiler, was not found (12.8 or later)"
  exit 0
fi

mkdir -p "$out"
rm -f "$out"/*.log

say "Compiling the engine and its proof with $(nvcc --version | grep -o 'release [0-9.]*')"
# compile OBJECT SOURCE [OPTIONS...]
compile() {
  local object=$1 source=$2 options=$host_options
  [[ $source == "$gpu"/* ]] && options=$gpu_options
  # shellcheck disable=SC2086 # Several options.
  nvcc $options "${@:3}" -Xcompiler -fPIC -I. "-I$out/include" \
    -c "$source" -o "$out/$object.o" 2>"$out/$object.log" || {
    cat "$out/$object.log" >&2
    return 1
  }
}
gpu=tf_opt/cc/engines/gpu cpu=tf_opt/cc/engines/cpu
gpu_options="--options-file $gpu/nvcc.options -Xptxas -v"
# The host's bits are compared with the device's.
host_options="-std=c++17 -Xcompiler -ffp-contract=off"
list=tf_opt/cc/rules/all_rules.sh
optimizers=tf_opt/optimizers.bzl
if [[ ${1:-} == --compile-only ]]; then
  optimizers=$out/optimizers.bzl
  grep '"adam":' tf_opt/optimizers.bzl >"$optimizers"
  gpu_options+=" -gencode arch=compute_90,code=sm_90"
else
  gpu_options+=" --options-file $gpu/architectures.options"
  host_options+=" -O3"
fi
export -f compile
export out gpu gpu_options host_options
mkdir -p "$out/include/tf_opt/cc/rules"
"$list" "$optimizers" >"$out/include/tf_opt/cc/rules/all_rules.h"
engine=("gradients $gpu/gradients_on_gpu.cc" "device tests/gpu/device_cuda.cc"
  "loops $cpu/loops.cc" "apply_on_cpu $cpu/apply_on_cpu.cc")
# The CPU engine, as in cpu_targets.bzl.
declare -A targets=([baseline]="")
if [[ $(uname -m) == x86_64 ]]; then
  targets[avx2]="-Xcompiler -mavx2,-mfma,-mf16c"
  targets[avx512]="${targets[avx2]},-mavx512f,-mavx512bw,-mavx512dq,-mavx512vl"
fi
for target in "${!targets[@]}"; do
  targets[$target]+=" -DTF_OPT_CPU_TARGET=$target"
  engine+=("range_loops_$target $cpu/range_loops.cc ${targets[$target]}")
done
while read -r file rule; do
  options="-DTF_OPT_RULE=$rule -include tf_opt/cc/rules/$file.h"
  engine+=("$file $gpu/apply_on_gpu.cc $options"
    "make_$file $cpu/make_rules.cc $options")
  for target in "${!targets[@]}"; do
    engine+=("${file}_$target $cpu/rule_loops.cc $options ${targets[$target]}")
  done
done < <("$list" --rows "$optimizers")
programs=("correctness tests/gpu/correctness.cc" "speed tests/gpu/speed.cc")
# shellcheck disable=SC2016 # The inner shell splits a job into its words.
printf '%s\0' "${engine[@]}" "${programs[@]}" |
  xargs -0 -n 1 -P "$(nproc)" bash -euo pipefail -c 'compile $0'

# Arrays or rules of a thread that aren't in registers make a step three times as
# slow. (Of float64's a few numbers never fit.)
rows='TakeRows|TakeRowWise|CatchUp|SumLongRows'
kernels="Function properties for .*(Dense|$rows)WorkI[^d]"
stacks=$(grep -hA 1 -E "$kernels" "$out"/*.log | grep ' bytes stack frame') ||
  fail "the compiler's reports in $out name none of these kernels"
if grep -v ' 0 bytes stack frame' <<<"$stacks"; then
  fail "these kernels have a stack; the compiler's reports are in $out"
fi

objects=()
for job in "${engine[@]}"; do
  objects+=("$out/${job%% *}.o")
done
for program in correctness speed; do
  nvcc -o "$out/$program" "$out/$program.o" "${objects[@]}"
done
say "Compiled $out/{correctness,speed}"
[[ ${1:-} == --compile-only ]] || run
