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


def test_it_needs_tensorflow_in_no_folder_of_the_build(elf):
    tags = list(elf.get_section_by_name(".dynamic").iter_tags())
    assert not {x.entry.d_tag for x in tags} & {"DT_RPATH", "DT_RUNPATH"}
    needed = [x.needed for x in tags if x.entry.d_tag == "DT_NEEDED"]
    # By the name under which the process has it, not auditwheel's copy.
    tensorflow = [name for name in needed if "tensorflow" in name]
    assert tensorflow == ["libtensorflow_framework.so.2"]


@pytest.mark.skipif(
    platform.libc_ver() > ("glibc", "2.36"),
    reason="newer compilers take more from newer systems: see ./pip_pkg.sh",
)
def test_the_wheel_is_for_the_systems_that_the_readme_names():
    wheel = importlib.metadata.distribution("tf_opt").read_text("WHEEL")
    (minor,) = re.findall(r"manylinux_2_(\d+)", wheel)
    assert int(minor) <= 28
