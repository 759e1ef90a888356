"""Compiles files with CUDA's compiler."""

load("@local_cuda//:cuda.bzl", "CUDA_VERSION", "NVCC")
load("//tf_opt:copts.bzl", "TESTED")

def _objects_impl(ctx):
    headers = depset(transitive = [
        dep[CcInfo].compilation_context.headers
        for dep in ctx.attr.deps
    ])
    objects = []
    for source in ctx.files.srcs:
        output = ctx.actions.declare_file(
            "%s/%s.cuda.pic.o" % (ctx.label.name, source.basename),
        )
        arguments = ctx.actions.args()
        arguments.add_all(ctx.files.options, before_each = "--options-file")
        arguments.add_all(ctx.attr.copts)
        arguments.add_all(["-Xcompiler", "-fPIC", "-I.", "-c", source])
        arguments.add("-o", output)
        ctx.actions.run(
            executable = NVCC,
            arguments = [arguments],
            inputs = depset([source] + ctx.files.options, transitive = [headers]),
            outputs = [output],
            mnemonic = "CudaCompile",
            use_default_shell_env = True,
        )
        objects.append(output)
    return [DefaultInfo(files = depset(objects))]

_objects = rule(
    implementation = _objects_impl,
    attrs = {
        "copts": attr.string_list(),
        "deps": attr.label_list(providers = [CcInfo]),
        "options": attr.label_list(allow_files = True),
        "srcs": attr.label_list(allow_files = [".cc"]),
    },
)

def cuda_library(name, srcs, options, deps, copts = []):
    """A cc_library of `srcs`, or an empty one in a build without CUDA.

    NAME_emulation, for tests, is what any other compiler makes of them.

    Args:
      name: Name of the library.
      srcs: Files for CUDA's compiler.
      options: Files of options for it.
      deps: Libraries whose headers they include.
      copts: More options.
    """
    native.cc_library(
        name = name + "_emulation",
        testonly = True,
        srcs = srcs,
        copts = TESTED + copts,
        deps = deps,
    )
    if CUDA_VERSION:
        _objects(
            name = name + "_objects",
            srcs = srcs,
            options = options,
            deps = deps,
            copts = copts,
        )
        native.cc_library(
            name = name,
            srcs = [":" + name + "_objects"],
            deps = ["@local_cuda//:runtime"],
        )
    else:
        native.cc_library(name = name)
