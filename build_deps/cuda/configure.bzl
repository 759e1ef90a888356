"""Makes the installed CUDA toolkit a repository, where it is asked for."""

# The first toolkit that knows all of our architectures.
_MINIMUM = (12, 8)

# The first driver that a toolkit's programs run with, by its major version.
# (Kernels of earlier ones couldn't take as many arguments as the engine's.)
_DRIVERS = {12: "530", 13: "580"}

_BUILD = """
cc_library(
    name = "runtime",
    srcs = ["libcudart_static.a"],
    hdrs = glob(["include/**"]),
    includes = ["include"],
    linkopts = ["-ldl", "-lpthread", "-lrt"],
    visibility = ["//visibility:public"],
)
"""

def _find_nvcc(repository_ctx):
    home = repository_ctx.os.environ.get("CUDA_HOME", "")
    found = repository_ctx.path(home + "/bin/nvcc") if home else None
    if found == None:
        found = repository_ctx.which("nvcc")
    if found == None:
        found = repository_ctx.path("/usr/local/cuda/bin/nvcc")
    if not found.exists:
        fail("CUDA's compiler, nvcc, was not found%s. Install the CUDA toolkit " %
             (" in CUDA_HOME, " + home if home else "") +
             "(%d.%d or later) and put nvcc into PATH or set " % _MINIMUM +
             "CUDA_HOME; or build without --config=cuda and TF_NEED_CUDA=1.")
    return str(found)

def _query(repository_ctx, nvcc, *arguments):
    result = repository_ctx.execute([nvcc] + list(arguments))
    if result.return_code != 0:
        fail("%s does not work:\n%s" % (nvcc, result.stderr))
    return result.stdout + result.stderr

def _configure_cuda(repository_ctx):
    nvcc = _find_nvcc(repository_ctx)
    version = _query(repository_ctx, nvcc, "--version")
    version = version.split("release ")[1].split(",")[0]
    major, minor = [int(part) for part in version.split(".")]
    if (major, minor) < _MINIMUM:
        fail("CUDA %d.%d or later is needed, but %s is %s." %
             (_MINIMUM + (nvcc, version)))

    # nvcc may be a link or a script somewhere else; it knows its toolkit.
    steps = _query(repository_ctx, nvcc, "--dryrun", "-x", "cu", "-c", "/dev/null")
    toolkit = steps.split("TOP=")[1].split("\n")[0].strip()
    repository_ctx.symlink(toolkit + "/include", "include")
    runtimes = [
        repository_ctx.path("%s/%s/libcudart_static.a" % (toolkit, folder))
        for folder in ("lib64", "lib", "targets/x86_64-linux/lib")
    ]
    runtimes = [path for path in runtimes if path.exists]
    if not runtimes:
        fail("libcudart_static.a was not found in " + toolkit)
    repository_ctx.symlink(runtimes[0], "libcudart_static.a")

    drivers = [_DRIVERS[known] for known in _DRIVERS if known <= major]
    return nvcc, version, drivers[-1]

def _configure(repository_ctx):
    nvcc, version, driver = "", "", ""
    if repository_ctx.os.environ.get("TF_NEED_CUDA", "0") == "1":
        nvcc, version, driver = _configure_cuda(repository_ctx)
    repository_ctx.file("BUILD", _BUILD if version else "")
    repository_ctx.file(
        "cuda.bzl",
        'CUDA_VERSION = "%s"\nCUDA_DRIVER = "%s"\nNVCC = "%s"\n' %
        (version, driver, nvcc),
    )

cuda_configure = repository_rule(
    implementation = _configure,
    doc = "The CUDA toolkit if TF_NEED_CUDA is 1, else an empty repository.",
    environ = ["CUDA_HOME", "PATH", "TF_NEED_CUDA"],
    local = True,
)
