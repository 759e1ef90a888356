"""PyTorch, or None where it is not installed."""

from __future__ import annotations

try:
    import torch
except ImportError:
    torch = None

__all__ = ["torch"]
