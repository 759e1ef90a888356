"""Version of the package, and the versions of its requirements."""

__version__ = "0.1.0"

# The TensorFlow minor versions that this source is built and tested with,
# oldest first. Each comes with the newest Python that it supports. tf_opt's own
# range of Python versions is in pyproject.toml.
TENSORFLOW_MINORS = {
    "2.18": "3.12",
    "2.19": "3.12",
    "2.20": "3.13",
    "2.21": "3.13",
}
MINIMUM_KERAS = "3.12"
# Named in the error for a missing private name of TensorFlow or Keras.
TESTED_VERSIONS = "TensorFlow 2.18 to 2.22 and Keras 3.12 to 3.16"
