"""A library with files that are compiled as one."""

def unity_library(name, together, srcs = [], **kwargs):
    """A cc_library of `srcs` and `together`.

    TensorFlow's headers take eight seconds to compile: once for all files of
    `together`, not once for each.

    Args:
      name: Name of the library.
      together: Sources that become one. What is in the anonymous namespace of
        one of them is in that of all.
      srcs: Other sources.
      **kwargs: As for a cc_library.
    """
    native.genrule(
        name = name + "_unity",
        srcs = together,
        outs = [name + "_unity.cc"],
        cmd = "for file in $(SRCS); do " +
              "echo \"#include \\\"$$file\\\"\"; done > $@",
    )
    native.cc_library(
        name = name,
        srcs = srcs + [name + "_unity.cc"],
        textual_hdrs = together,
        **kwargs
    )
