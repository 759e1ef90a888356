"""The package's version and what it supports."""

__version__ = "0.1.0"

# The TensorFlow minor that this source is built and tested with, and the
# oldest Keras. Python is in pyproject.toml.
TENSORFLOW_MINOR = "2.21"
MINIMUM_KERAS = "3.12"
