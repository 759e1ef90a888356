"""Makes the installed TensorFlow a repository: headers, library, Python."""

# Printed one a line by the Python that has TensorFlow.
_QUERY = """
import sys
import tensorflow as tf
print(tf.sysconfig.get_include())
print(tf.sysconfig.get_lib())
print(tf.__version__)
print(tf.version.COMPILER_VERSION)
print(" ".join(
    f[2:] for f in tf.sysconfig.get_compile_flags() if f.startswith("-D")))
print(sys.executable)
"""

_BUILD = """
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "headers",
    hdrs = glob(["include/**"]),
    defines = [{defines}],
    # System headers: their warnings are not ours.
    copts = [],
    includes = ["include"],
)

exports_files(["libtensorflow_framework.so.2"])

py_runtime(
    name = "python_with_tensorflow",
    interpreter_path = "{python}",
    python_version = "PY3",
    # Bazel's launcher would otherwise look for a command named python.
    stub_shebang = "#!{python}",
)

py_runtime_pair(
    name = "runtime_pair",
    py3_runtime = ":python_with_tensorflow",
)

toolchain(
    name = "python_toolchain",
    toolchain = ":runtime_pair",
    toolchain_type = "@bazel_tools//tools/python:toolchain_type",
)
"""

def _configure(repository_ctx):
    python = repository_ctx.os.environ.get("TF_OPT_PYTHON", "python3")
    result = repository_ctx.execute(
        [python, "-c", _QUERY],
        environment = {"TF_CPP_MIN_LOG_LEVEL": "3"},
        timeout = 300,
    )
    if result.return_code != 0:
        fail(("%s cannot import tensorflow. Set TF_OPT_PYTHON to a Python " +
              "that can, or run `make build`, which sets one up.\n%s") %
             (python, result.stderr))
    include, lib, version, compiler, defines, executable = [
        line.strip()
        for line in result.stdout.strip().split("\n")
    ][-6:]
    repository_ctx.symlink(include, "include")
    library = "libtensorflow_framework.so.2"
    repository_ctx.symlink(lib + "/" + library, library)
    repository_ctx.file(
        "BUILD",
        'load("@bazel_tools//tools/python:toolchain.bzl", "py_runtime_pair")\n' +
        _BUILD.format(
            defines = ", ".join(['"%s"' % d for d in defines.split(" ")]),
            python = executable,
        ),
    )
    repository_ctx.file("version.bzl", 'TENSORFLOW_VERSION = "%s"\n' % version)

tensorflow_configure = repository_rule(
    implementation = _configure,
    doc = "The TensorFlow that the Python in TF_OPT_PYTHON imports.",
    environ = ["TF_OPT_PYTHON"],
    local = True,
)
