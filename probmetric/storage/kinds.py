"""Whether the parts of a stored metric are of the kinds and shapes that it declares.

Each kind of metric annotates its parts, ``Float[Array, "p d"]``; a letter is one size
throughout a metric. What is annotated otherwise is left to the metric itself.
"""

import dataclasses
from types import UnionType
from typing import (
    Any,
    ClassVar,
    Literal,
    TypeAliasType,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import jax
import numpy as np

type Sizes = dict[str, int]


def check_parts(value: Any, name: str, sizes: Sizes | None = None) -> None:
    """Raise for a part that its own class declares otherwise, nested ones included.

    Parameters
    ----------
    value : metric, link, densities or tuple of them
    name : str
        For the message.
    sizes : dict, optional
        Of letters that are known from outside: ``d``.

    Raises
    ------
    ValueError
        Naming the part, and what was expected and found.
    """
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        for k, part in enumerate(value):
            check_parts(part, f"{name}.{k}", sizes)
        return
    if not dataclasses.is_dataclass(value) and not hasattr(value, "_fields"):
        return
    if hasattr(value, "from_arrays"):  # A class of the user's, which checks its own.
        return
    known: Sizes = {} if sizes is None else dict(sizes)
    hints = {
        part: hint
        for part, hint in get_type_hints(type(value)).items()
        if get_origin(hint) is not ClassVar
    }
    for part, hint in hints.items():
        found = getattr(value, part)
        if not _fits(found, hint, known):
            shape = f" of shape {found.shape}" if hasattr(found, "shape") else ""
            raise ValueError(
                f"metric: expected {name}.{part} as {type(value).__name__} declares "
                f"it, got {type(found).__name__}{shape}"
            )
    shared = {"d": known["d"]} if "d" in known else {}
    for part in hints:
        check_parts(getattr(value, part), f"{name}.{part}", shared)


def _fits(value: Any, hint: Any, sizes: Sizes) -> bool:
    """Say whether a part is what an annotation says; learn the sizes of letters."""
    hint = hint.__value__ if isinstance(hint, TypeAliasType) else hint
    inner = get_args(hint)
    if hasattr(hint, "dim_str"):
        return _is_array(value) and _has_shape(value, hint.dim_str.split(), sizes)
    if hint in (np.ndarray, jax.Array):  # Of numbers, as in Scalar.
        return _is_array(value) and value.ndim == 0
    if get_origin(hint) in (Union, UnionType):
        return any(_fits(value, one, sizes) for one in inner)
    if get_origin(hint) is Literal:
        return isinstance(value, str) and value in inner
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(
            _fits(part, inner[0], sizes) for part in value
        )
    return hint is Any or not isinstance(hint, type) or isinstance(value, hint)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | jax.Array) and value.dtype.kind in "biuf"


def _has_shape(value: Any, letters: list[str], sizes: Sizes) -> bool:
    """Say whether an array has an axis a letter, each of its size and none empty."""
    if value.ndim != len(letters):
        return False
    named = [
        (letter, size)
        for letter, size in zip(letters, value.shape, strict=True)
        if not letter.startswith("_")
    ]
    if any(sizes.get(letter, size) != size or size == 0 for letter, size in named):
        return False
    sizes.update(named)
    return all(sizes[letter] == size for letter, size in named)
