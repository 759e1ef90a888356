"""Lists what a wheel contains: `sbom.py STAGING`.

STAGING is a folder that stage_package.py filled. The list goes into the wheel,
in CycloneDX's format. Like the wheel, it depends on nothing but the files and
$SOURCE_DATE_EPOCH.
"""

import datetime
import json
import os
import pathlib
import re
import runpy
import sys
import uuid

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

# What the parts of a library come with, and where it tells the version of that.
_KITS = {"TensorFlow": "tensorflow", "CUDA Toolkit": "cuda"}


def _component(name: str, version: str, license: str, **options) -> Component:
    return Component(
        type=ComponentType.LIBRARY,
        name=name,
        version=version,
        licenses=[LicenseFactory().make_from_string(license)],
        **options,
    )


def _compiled_in(staging: pathlib.Path) -> list[Component]:
    """What the libraries contain: the table of THIRD_PARTY_NOTICES.md."""
    notices = (staging / "THIRD_PARTY_NOTICES.md").read_text()
    rows = re.findall(r"^\| (.+) \| (.+) \| (.+) \|$", notices, re.MULTILINE)
    built = [json.loads(x.read_text()) for x in staging.rglob("built_against*")]
    return [
        _component(
            name,
            version if name == kit else f"as in {kit} {version}",
            license,
            bom_ref=f"{name} of {kit} {version}",
        )
        for name, license, kit in rows
        if kit in _KITS
        for version in sorted({library[_KITS[kit]] for library in built} - {""})
    ]


def write(staging: pathlib.Path) -> None:
    """Writes the list to where tools/platform_wheel.py looks for it."""
    version = runpy.run_path(str(staging / "tf_opt/version.py"))["__version__"]
    purl = PackageURL("pypi", name="tf-opt", version=version)
    wheel = _component(
        "tf_opt", version, "Apache-2.0", purl=purl, bom_ref=str(purl)
    )
    contents = _compiled_in(staging)
    names = [component.bom_ref.value for component in contents]
    bom = Bom(
        components=contents,
        # Else this and the time would differ in each run.
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"{purl} {names}"),
        metadata=BomMetaData(
            component=wheel,
            timestamp=datetime.datetime.fromtimestamp(
                int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc
            ),
        ),
    )
    bom.register_dependency(wheel, contents)
    folder = staging / "sboms"
    folder.mkdir()
    (folder / "tf_opt.cdx.json").write_text(
        JsonV1Dot6(bom).output_as_string(indent=2) + "\n"
    )


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]))
