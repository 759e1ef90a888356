"""Attributes of an optimizer that holds another one."""

from __future__ import annotations

from typing import Any


class Forwarding:
    """Mixin: public attributes that a class lacks are `inner_optimizer`'s."""

    def __getattr__(self, name: str) -> Any:
        # Only what this class lacks comes here.
        if "inner_optimizer" in vars(self) and not name.startswith("_"):
            return getattr(self.inner_optimizer, name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        is_own = name in vars(self) or hasattr(type(self), name)
        if is_own or name.startswith("_") or not hasattr(self, name):
            super().__setattr__(name, value)
        else:
            setattr(self.inner_optimizer, name, value)
