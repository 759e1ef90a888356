"""How all pictures look: the colors of the libraries, axes, files."""

from __future__ import annotations

import io
import pathlib

from matplotlib.figure import Figure
from PIL import Image

KERAS = "#f5a04c"
KERAS_2 = "#f9cfa0"
TF_OPT = "#0b4f6c"
# For several lines of tf_opt's.
TF_OPT_LIGHT = "#9dc3d4"
TF_OPT_MEDIUM = "#3f8fb5"
# For Adagrad beside Adam.
TF_OPT_ADAGRAD = "#1b6b3a"
TF_OPT_ADAGRAD_LIGHT = "#a8d5a2"
PYTORCH = "#6a3d9a"
TENSORFLOW = "#7f7f7f"
# For what is no library's.
NEUTRAL = "#404040"


def save(figure: Figure, path: pathlib.Path) -> None:
    """Formats all axes and writes the figure as a small PNG."""
    for axes in figure.axes:
        axes.grid(alpha=0.3)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        label = axes.get_ylabel()
        if label and axes.get_yscale() == "linear" and axes.get_ylim()[0] > 0:
            axes.set_ylabel(f"{label}\n(axis doesn't start at 0)")
    image = io.BytesIO()
    figure.savefig(image, dpi=90)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Few colors take a third of the bytes.
    Image.open(image).convert("RGB").quantize(
        64, method=Image.Quantize.FASTOCTREE
    ).save(path, optimize=True)
