# Sourced: the TensorFlow minors that tf_opt is for, out of tf_opt/version.py.

# Those that there is for .venv's Python, oldest first, one a line.
tensorflow_minors() {
  .venv/bin/python - <<'PYTHON'
import runpy
import sys

pythons = runpy.run_path("tf_opt/version.py")["TENSORFLOW_MINORS"]
for minor, newest in pythons.items():
    if sys.version_info[:2] <= tuple(map(int, newest.split("."))):
        print(minor)
PYTHON
}

# The newest is the one that requirements/build.txt puts into .venv.
newest_tensorflow_minor() { tensorflow_minors | tail -n 1; }
older_tensorflow_minors() { tensorflow_minors | head -n -1; }

# That of the environment of $PYTHON, if tf_opt is for it. It may be for those
# that are newer than all of these, pre-releases included.
installed_tensorflow_minor() {
  local version minor
  version=$("${PYTHON:-python3}" - <<'PYTHON'
import importlib.metadata

for name in ("tensorflow", "tensorflow-cpu"):
    try:
        print(importlib.metadata.version(name))
        break
    except importlib.metadata.PackageNotFoundError:
        pass
PYTHON
  )
  minor=$(cut -d . -f 1,2 <<<"$version")
  {
    tensorflow_minors
    printf '%s\n' "$(newest_tensorflow_minor)" "$minor" | sort -V | tail -n 1
  } | grep -m 1 -xF "$minor" || true
}
