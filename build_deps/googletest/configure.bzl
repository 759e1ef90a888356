"""Makes the system's GoogleTest a repository."""

_BUILD = """
cc_library(
    name = "gtest_main",
    hdrs = glob(["include/gtest/**/*.h"]),
    includes = ["include"],
    linkopts = ["-lgtest_main", "-lgtest", "-lpthread"],
    visibility = ["//visibility:public"],
)
"""

def _configure(repository_ctx):
    headers = repository_ctx.path("/usr/include/gtest")
    if not headers.exists:
        fail("GoogleTest's headers are not in /usr/include/gtest. " +
             "Install the package libgtest-dev.")
    repository_ctx.symlink(headers, "include/gtest")
    repository_ctx.file("BUILD", _BUILD)

googletest_configure = repository_rule(
    implementation = _configure,
    doc = "The GoogleTest in /usr/include.",
    local = True,
)
