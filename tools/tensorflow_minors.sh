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
