"""The kind of wheel that tf_opt is; setuptools reads it from pyproject.toml."""

import pathlib
import shutil

from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.errors import SetupError

_LIBRARIES = pathlib.Path("tf_opt/python/ops/libraries")


class PlatformWheel(bdist_wheel):
    """A wheel for one platform and every Python 3.

    It holds shared libraries that TensorFlow loads, but no extension module:
    nothing in it depends on Python's C interface.
    """

    def finalize_options(self) -> None:
        """Refuses to go on without a library: Bazel compiles them."""
        # What makes setuptools treat the files as bound to a platform.
        self.distribution.has_ext_modules = lambda: True
        super().finalize_options()
        if not _LIBRARIES.exists():
            raise SetupError(
                f"{_LIBRARIES} is missing, and pip can't compile what is in "
                "it. Run ./pip_pkg.sh, which makes a wheel, and install that."
            )

    def get_tag(self) -> tuple[str, str, str]:
        """The wheel's tag for Python, its interface, and the platform."""
        return "py3", "none", super().get_tag()[2]

    def write_wheelfile(self, wheelfile_base: str, **options: str) -> None:
        """Also adds the list of the wheel's contents, if sbom.py made one."""
        super().write_wheelfile(wheelfile_base, **options)
        if pathlib.Path("sboms").exists():
            shutil.copytree("sboms", pathlib.Path(wheelfile_base, "sboms"))
