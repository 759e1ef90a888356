"""The kind of wheel that tf_opt is; setuptools reads it from pyproject.toml."""

import pathlib
import shutil

from setuptools.command.bdist_wheel import bdist_wheel

_LIBRARIES = pathlib.Path("tf_opt/python/ops/libraries")


class PlatformWheel(bdist_wheel):
    """A wheel for every Python 3, and for one platform if it has libraries.

    TensorFlow loads them. They are no extension modules: nothing in them
    depends on Python's C interface.
    """

    def finalize_options(self) -> None:
        """Binds the wheel to this platform if it has libraries."""
        self.distribution.has_ext_modules = _LIBRARIES.exists
        super().finalize_options()

    def get_tag(self) -> tuple[str, str, str]:
        """The wheel's tag for Python, its interface, and the platform."""
        return "py3", "none", super().get_tag()[2]

    def write_wheelfile(self, wheelfile_base: str, **options: str) -> None:
        """Also adds the list of the wheel's contents, if sbom.py made one."""
        super().write_wheelfile(wheelfile_base, **options)
        if pathlib.Path("sboms").exists():
            shutil.copytree("sboms", pathlib.Path(wheelfile_base, "sboms"))
