"""The version of a build, and the wheels that need no compiler."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
from packaging.version import Version

ROOT = pathlib.Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="no git")


def run(folder: pathlib.Path, *command: str) -> str:
    # No settings of the user, such as signed commits.
    settings = {"HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.check_output(
        command, cwd=folder, env={**os.environ, **settings}, text=True
    ).strip()


def version_of(folder: pathlib.Path, local: str = "") -> Version:
    code = f"import source_version as s; print(s.version({local.split()}))"
    tools = {**os.environ, "PYTHONPATH": str(folder / "tools")}
    command = [sys.executable, "-c", code]
    text = subprocess.check_output(command, env=tools, text=True).strip()
    version = Version(text)
    # The name of a wheel has the normalized one.
    assert str(version) == text
    return version


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    for name in (
        *(".gitattributes", "tools/source_version.py"),
        *("tf_opt/version.py", "tf_opt/__init__.py"),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    (folder / ".gitignore").write_text("__pycache__\n")
    run(folder, "git", "init", "-q")
    commit(folder)
    return folder


def commit(folder: pathlib.Path) -> str:
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    run(folder, "git", "add", "-A")
    run(folder, "git", *identity, "commit", "-qm", "x")
    return run(folder, "git", "rev-parse", "--short=8", "HEAD")


def test_each_commit_has_a_higher_version_until_a_tag(source):
    first = version_of(source)
    assert re.fullmatch(r"0\.1\.0\.dev0\+g\w{8}", str(first))
    (source / "tf_opt/other.py").write_text("")
    sha = commit(source)
    second = version_of(source)
    assert str(second) == f"0.1.0.dev1+g{sha}"
    run(source, "git", "tag", "v0.1.0")
    assert str(version_of(source)) == "0.1.0"
    assert str(version_of(source, "cu129")) == "0.1.0+cu129"
    path = source / "tf_opt/version.py"
    path.write_text(path.read_text().replace("0.1.0", "0.2.0"))
    sha = commit(source)
    assert str(version_of(source)) == f"0.2.0.dev0+g{sha}"
    assert first < second < Version("0.1.0") < version_of(source)


def test_the_folder_of_another_user_has_the_same_version(source, monkeypatch):
    own = version_of(source)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert version_of(source) == own


def test_different_changes_have_different_versions(source):
    found = {version_of(source)}
    for text in ("x = 1\n", "x = 2\n"):
        (source / "tf_opt/__init__.py").write_text(text)
        found.add(version := version_of(source, "tf221"))
        assert ".changes.d" in str(version) and version.local.endswith("tf221")
    assert len(found) == 3
    run(source, "git", "tag", "v0.1.0")
    assert ".changes." in str(version_of(source))


def test_an_archive_knows_its_commit_and_its_tag(source, tmp_path):
    def unpacked(name: str) -> pathlib.Path:
        run(source, "git", "archive", "-o", str(tmp_path / "x.tar"), "HEAD")
        shutil.unpack_archive(tmp_path / "x.tar", tmp_path / name)
        return tmp_path / name

    sha = run(source, "git", "rev-parse", "--short=8", "HEAD")
    assert str(version_of(unpacked("before"))) == f"0.1.0.dev0+g{sha}"
    run(source, "git", "tag", "v0.1.0")
    assert str(version_of(unpacked("tagged"))) == "0.1.0"


def test_without_git_the_files_decide(source):
    shutil.rmtree(source / ".git")
    first = version_of(source)
    assert re.fullmatch(r"0\.1\.0\.dev0\+unknown\.d\w{8}", str(first))
    (source / "tf_opt/__init__.py").write_text("")
    assert version_of(source) != first


PURE = """
import sys
import build_backend
# What it finds where there is no Bazel, compiler, apt-get or TensorFlow.
build_backend._is_set_up = lambda folder: False
print(build_backend.build_wheel(sys.argv[1]))
"""


def test_where_nothing_can_be_compiled_pip_gets_the_pure_wheel(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tools")}
    output = subprocess.check_output(
        [sys.executable, "-c", PURE, str(tmp_path)], env=environment, text=True
    )
    assert "==> Making the pure wheel" in output
    (wheel,) = tmp_path.iterdir()
    assert wheel.name == output.split()[-1]
    version = version_of(ROOT)
    assert wheel.name == f"tf_opt-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        text = archive.read("tf_opt/version.py").decode()
        metadata = archive.read(f"tf_opt-{version}.dist-info/METADATA")
    assert f'__version__ = "{version}"' in text
    assert f"\nVersion: {version}\n" in metadata.decode()
    assert not [name for name in names if name.endswith((".so", ".h", ".cc"))]
    # File systems of Windows and macOS take these for one.
    assert len({name.lower() for name in names}) == len(names)
