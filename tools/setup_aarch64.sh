#!/usr/bin/env bash
# Makes, on Debian for x86-64, what building and testing for Linux on ARM needs,
# and nothing twice:
#
#   tools/setup_aarch64.sh MINOR
#
# build/aarch64/bin: the cross compiler and its tools under their plain names;
# build/aarch64/root: Debian's Python for ARM; and
# build/aarch64/tensorflow-MINOR/venv: an environment of that Python with this
# TensorFlow minor and what the tests need. QEMU runs its bin/python.
set -euo pipefail
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/say.sh
source tools/tensorflow_minors.sh

tools/setup.sh lock
tools/system_packages.sh .venv/bin/python qemu-aarch64:qemu-user \
  aarch64-linux-gnu-g++:g++-aarch64-linux-gnu
folder=$PWD/build/aarch64
mkdir -p "$folder/bin"
for tool in ar gcc ld ld.gold nm objcopy objdump strip; do
  ln -sf "$(command -v "aarch64-linux-gnu-$tool")" "$folder/bin/$tool"
done

root=$folder/root
if [[ ! -e $root ]]; then
  say "Unpacking Debian's Python for ARM into $root"
  temporary=$(mktemp -d)
  trap 'rm -rf "$temporary"' EXIT
  mkdir -p "$temporary"/{root,archives/partial,lists/partial}
  touch "$temporary/status"
  # With lists and a state of its own: apt sees a system for ARM with nothing
  # installed, and this system stays as it is.
  apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64
    -o "Dir::State=$temporary" -o "Dir::State::status=$temporary/status"
    -o "Dir::Cache=$temporary" -o Debug::NoLocking=1 -o APT::Sandbox::User=)
  "${apt[@]}" update
  "${apt[@]}" install -y --no-install-recommends --download-only \
    libgtest-dev libpython3-stdlib libstdc++6 python3-minimal >/dev/null
  for package in "$temporary"/archives/*.deb; do
    dpkg -x "$package" "$temporary/root"
  done
  mv "$temporary/root" "$root"
fi

if [[ $1 == "$(newest_tensorflow_minor)" ]]; then
  requirements=(--constraint requirements/constraints.txt
    --requirement requirements/build.txt --requirement requirements/test.txt)
else
  requirements=(--requirement "requirements/tensorflow-$1.txt")
fi
venv=$folder/tensorflow-$1/venv
made_of=$(cat requirements/constraints.txt "${requirements[@]: -1}" "$0")
if [[ $made_of == "$(cat "$venv/.made-of" 2>/dev/null)" ]]; then
  exit
fi
say "Making $venv with TensorFlow $1"
rm -rf "$venv"
mkdir -p "$venv/bin"
echo "home = $root/usr/bin" >"$venv/pyvenv.cfg"
# -0: Python, and with it all that starts sys.executable, takes this for itself.
cat >"$venv/bin/python" <<SH
#!/bin/sh
exec qemu-aarch64 -L $root -0 $venv/bin/python $root/usr/bin/python3 "\$@"
SH
chmod +x "$venv/bin/python"
.venv/bin/uv pip install --quiet --python "$venv/bin/python" \
  --only-binary :all: pip "${requirements[@]}"
echo "$made_of" >"$venv/.made-of"
