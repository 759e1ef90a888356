"""Makes torch.npz: what PyTorch computes, for where it isn't installed.

Run it where PyTorch and tf_opt are:

    python tests/golden/make_torch_golden.py
"""

from __future__ import annotations

import pathlib
import sys

import numpy as np
import torch

GOLDEN = pathlib.Path(__file__).with_name("torch.npz")
# Of the 200 steps; all of them would be more than a megabyte.
RECORDED_STEPS = [1, 2, 3, 5, 10, 20, 50, 100, 200]


def main() -> None:
    """Runs every mode that PyTorch has, and writes the file."""
    sys.path.insert(0, str(GOLDEN.parents[1]))
    from torch_trajectory import TORCH_MODES
    from torch_trajectory import torch_states

    arrays = {
        "torch_version": np.array(torch.__version__.split("+")[0]),
        "recorded_steps": np.array(RECORDED_STEPS),
    }
    for name, mode in TORCH_MODES:
        for dtype in ["float32", "float64"]:
            states = torch_states(name, mode, dtype)
            for key in states[0]:
                arrays[f"{name}/{mode}/{dtype}/{key}"] = np.stack(
                    [states[step - 1][key] for step in RECORDED_STEPS]
                )
    np.savez_compressed(GOLDEN, **arrays)
    size = GOLDEN.stat().st_size
    print(f"{GOLDEN.name}: PyTorch {torch.__version__}, {size:,} bytes")


if __name__ == "__main__":
    main()
