"""Makes a Keras optimizer of a rule and a class.

A constructor lists the class's own arguments and takes all others as
`**common`. Its signature gets these, too, so that `help()` shows them; editors
know them from the type `CommonArguments`. It has no body: all arguments go to
`KerasOptimizer`, which makes attributes of them.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import keras

from tf_opt.python import keras_internals
from tf_opt.python.functional.checks import mode as check_mode
from tf_opt.python.functional.rule_spec import RuleSpec
from tf_opt.python.optimizers.base import arguments, docstrings
from tf_opt.python.optimizers.base.keras_step import hooks_of
from tf_opt.python.optimizers.state import table_modes
from tf_opt.python.optimizers.values import validation

Optimizer = TypeVar("Optimizer", bound=type)


# By the class in Keras: the class in tf_opt, and the arguments that it needs
# for the same numbers.
COUNTERPARTS: dict[type, tuple[type, dict[str, Any]]] = {}


def optimizer(
    spec: RuleSpec, keras_class: type | None = None, **keras_arguments: Any
) -> Callable[[Optimizer], Optimizer]:
    """Returns a decorator that defines an optimizer.

    Args:
        spec: The rule.
        keras_class: The class in Keras with the same arguments and state. If
            there is none, Keras' arguments are keyword-only.
        **keras_arguments: Own arguments for which the numbers are the same.
    """

    def define(cls: Optimizer) -> Optimizer:
        cls._spec = spec
        cls._checks = {
            **arguments.COMMON_CHECKS,
            **_checks_of(spec),
            **cls._own_checks,
        }
        _make_constructor(cls, keras_class)
        cls._fixed = arguments.fixed(spec, cls._own_arguments)
        if keras_class is not None:
            COUNTERPARTS[keras_class] = cls, keras_arguments
        cls._hooks = hooks_of(cls)
        docstrings.complete_class(cls)
        if cls.__name__ == spec.class_name:
            docstrings.complete_rule(spec.function, cls)
        return keras.saving.register_keras_serializable("tf_opt")(cls)

    return define


def _checks_of(spec: RuleSpec) -> dict[str, arguments.Check]:
    """Returns the checks of a class's own arguments, by name."""
    checks = validation.checks_of(spec.hyperparameters)
    for slot in spec.slots:
        if slot.layers:
            checks[slot.layers] = validation.check_positive_integer
    # Some modes only decide which slots there are.
    for mode in (*spec.modes, *(slot.needed_by for slot in spec.slots)):
        if mode is not None:
            checks.setdefault(mode, check_mode)
    if spec.average is not None or spec.op is None:
        check = functools.partial(table_modes.check_not_lazy, spec)
        checks["lazy_mode"] = check
    return checks


def _make_constructor(cls: type, keras_class: type | None) -> None:
    """Makes a constructor of its signature; see the top of this file."""
    declared = inspect.signature(cls.__init__)
    *own, _ = declared.parameters.values()
    keyword = inspect.Parameter.KEYWORD_ONLY
    common = arguments.parameters()
    of_keras = [
        common[name] if keras_class else common[name].replace(kind=keyword)
        for name in arguments.KerasArguments.__annotations__
        if name not in declared.parameters
    ]
    signature = declared.replace(
        parameters=[
            *(parameter for parameter in own if parameter.kind != keyword),
            *(of_keras if keras_class else ()),
            *(parameter for parameter in own if parameter.kind == keyword),
            *(() if keras_class else of_keras),
            *(common[name] for name in arguments.Options.__annotations__),
            *(common[name] for name in arguments.SavedChoices.__annotations__),
        ]
    )

    @functools.wraps(cls.__init__)
    def take(self: Any, *args: Any, **kwargs: Any) -> None:
        if kwargs.pop("decay", None) is not None:
            warnings.warn(
                f"`{cls.__name__}` ignores `decay`, as Keras 3 does. For a "
                "learning rate that decays, pass a schedule.",
                stacklevel=2,
            )
        if "lr" in kwargs:
            raise TypeError(
                f"`{cls.__name__}` takes `learning_rate`, as in Keras 3. "
                f"Received: lr={kwargs['lr']!r}"
            )
        try:
            bound = signature.bind(self, *args, **kwargs)
        except TypeError as error:
            # Python's own errors name the function, too.
            raise TypeError(f"{cls.__name__}() {error}") from None
        given = bound.arguments
        if keras_class and type(self) is cls and given.get("name") is None:
            # Keras derives the name from its own class.
            given["name"] = keras_internals.next_name(keras_class.__name__)
        for name, consequence in cls._if_left_out.items():
            if name not in given:
                warnings.warn(
                    f"`{cls.__name__}` without `{name}` {consequence}",
                    stacklevel=2,
                )
        bound.apply_defaults()
        del bound.arguments["self"]
        super(cls, self).__init__(**bound.arguments)

    take.__signature__ = signature
    # What unwraps functions to document them would find the shorter signature.
    del take.__wrapped__
    cls.__init__ = take
    cls._own_arguments = tuple(
        parameter.name
        for parameter in own[1:]
        if parameter.name
        not in ("learning_rate", *arguments.KerasArguments.__annotations__)
    )
