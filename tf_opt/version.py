"""The package's version and what it supports."""

__version__ = "0.1.0"

# The TensorFlow minors that this source is built and tested with, oldest first,
# each with the newest Python that there is that TensorFlow for; and the oldest
# Keras. tf_opt's own Pythons are in pyproject.toml.
TENSORFLOW_MINORS = {
    "2.18": "3.12",
    "2.19": "3.12",
    "2.20": "3.13",
    "2.21": "3.13",
}
MINIMUM_KERAS = "3.12"
