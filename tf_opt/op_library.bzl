"""A library of custom ops, as tf.load_op_library loads it."""

_EXPORTED_SYMBOLS = "//tf_opt:exported_symbols.lds"

# Linked, never shipped: the process has it loaded already. As a file, because
# Bazel would write a run path, which names the build's folders, for a library.
_TENSORFLOW = "@local_tensorflow//:libtensorflow_framework.so.2"

def op_library(name, deps, **kwargs):
    """The shared library of `deps`.

    Args:
      name: The file.
      deps: Ops and kernels.
      **kwargs: As for any rule.
    """
    native.cc_binary(
        name = name,
        additional_linker_inputs = [_EXPORTED_SYMBOLS, _TENSORFLOW],
        linkopts = [
            "-Wl,--version-script=$(location %s)" % _EXPORTED_SYMBOLS,
            "$(location %s)" % _TENSORFLOW,
        ],
        linkshared = True,
        deps = deps + ["//build_deps/older_systems"],
        **kwargs
    )
