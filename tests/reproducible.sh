#!/usr/bin/env bash
# Checks that a commit gives one wheel, whoever builds it, to the byte:
#
#   tests/reproducible.sh [--clones]
#
# packs what is compiled here twice, with other settings the second time, and
# looks for this machine's folders in the files. With --clones it makes two clones
# of the commit and compiles both, which takes 6 minutes each on 2 cores.
set -euo pipefail
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/say.sh

folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
sources=("$PWD" "$PWD")
if [[ ${1:-} == --clones ]]; then
  sources=("$folder/one" "$folder/another/clone")
  # Bazel works in it.
  export TEST_TMPDIR=$folder/bazel
fi

# Makes the wheel of SOURCES into FOLDER.
make_wheel() {
  if [[ $1 != "$PWD" ]]; then
    git clone --quiet . "$1"
    ln -s "$PWD/.venv" "$1/.venv"
    echo .venv >>"$1/.git/info/exclude"
  fi
  say "Making the wheel in $1"
  "$1/pip_pkg.sh" --newest-only "$2"
}
make_wheel "${sources[0]}" "$folder/first"
(
  umask 077
  export LC_ALL=C PYTHONHASHSEED=1 TZ=Asia/Tokyo
  make_wheel "${sources[1]}" "$folder/second"
)

first=$(echo "$folder"/first/*.whl) second=$(echo "$folder"/second/*.whl)
sha256sum "$first" "$second"
.venv/bin/python -m zipfile -e "$first" "$folder/first/files"
.venv/bin/python -m zipfile -e "$second" "$folder/second/files"
diff -r "$folder"/{first,second}/files || fail "files of the two wheels differ"
[[ $(basename "$first") == "$(basename "$second")" ]] &&
  cmp "$first" "$second" || fail "the two wheels differ, but not their files"
! grep -rlF -e "$PWD" -e "$folder" -e "$(realpath .venv)" "$folder/first/files" ||
  fail "these name folders of this machine"
say "Both wheels are the same, and name no folder of this machine"
