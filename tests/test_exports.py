"""What the installed libraries of custom ops show to their process."""

import importlib.metadata
import pathlib
import platform
import re

import pytest
import tf_opt
from elftools.elf.elffile import ELFFile

LIBRARIES = sorted(
    (pathlib.Path(tf_opt.__file__).parent / "python/ops/libraries").glob(
        "*/_tf_opt_ops.so"
    )
)

assert LIBRARIES

# What Python calls by name.
MAY_BE_EXPORTED = {"TfOptCpuTarget", "TfOptCudaDriverProblem"}


@pytest.fixture(params=LIBRARIES, ids=lambda path: path.parent.name)
def elf(request):
    with open(request.param, "rb") as stream:
        yield ELFFile(stream)


def test_only_what_python_calls_is_exported(elf):
    exported = {
        symbol.name
        for symbol in elf.get_section_by_name(".dynsym").iter_symbols()
        if symbol["st_shndx"] != "SHN_UNDEF"
    }
    assert "TfOptCpuTarget" in exported
    assert exported <= MAY_BE_EXPORTED


def test_nothing_names_the_folders_of_the_build(elf):
    dynamic = elf.get_section_by_name(".dynamic")
    tags = {tag["d_tag"] for tag in dynamic.iter_tags()}
    assert "DT_NEEDED" in tags
    assert not tags & {"DT_RPATH", "DT_RUNPATH"}


def test_tensorflow_is_not_shipped(elf):
    needed = {
        tag.needed
        for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")
        if "tensorflow" in tag.needed
    }
    # By the name under which the process has it, not auditwheel's copy.
    assert needed == {"libtensorflow_framework.so.2"}


@pytest.mark.skipif(
    platform.libc_ver() > ("glibc", "2.36"),
    reason="newer compilers take more from newer systems: see ./pip_pkg.sh",
)
def test_the_wheel_is_for_the_systems_that_the_readme_names():
    wheel = importlib.metadata.distribution("tf_opt").read_text("WHEEL")
    (minor,) = re.findall(r"manylinux_2_(\d+)", wheel)
    assert int(minor) <= 28
