"""Write values as text, for expected texts: each number, name, message and warning."""

import dataclasses
import re
import warnings
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import TypeCheckError

from tests.expected import assert_expected


def _number(x):
    if isinstance(x, float | np.floating):
        return f"{0.0 if abs(x) < 1e-12 else x:.10g}"
    return str(x)


def _array(values):
    shape = "×".join(map(str, values.shape)) or "()"
    return f"{values.dtype.kind} {shape}: {' '.join(map(_number, values.ravel()))}"


def lines(value, name=""):
    """Yield lines of a number, array, table, draws, container or metric."""
    if isinstance(value, xr.DataTree):
        value = {"attrs": value.attrs} | {
            key: node.to_dataset() for key, node in value.children.items()
        }
    if isinstance(value, xr.Dataset):
        arrays = {k: {str(v.dims): v.to_numpy()} for k, v in value.variables.items()}
        value = {"attrs": value.attrs} | dict(sorted(arrays.items()))
    if isinstance(value, pd.DataFrame):
        index = {"index": list(value.index)}
        value = index | {str(k): value[k].to_numpy() for k in value}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [field.name for field in dataclasses.fields(value)]
        value = {"is": type(value).__name__} | {k: getattr(value, k) for k in fields}
    if hasattr(value, "_asdict"):
        value = {"is": type(value).__name__} | value._asdict()
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from lines(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, np.ndarray) or hasattr(value, "__jax_array__"):
        yield f"{name} {_array(np.asarray(value))}"
    elif isinstance(value, list | tuple) and any(
        not isinstance(v, str | int | float | None) for v in value
    ):
        for k, item in enumerate(value):
            yield from lines(item, f"{name}[{k}]")
    elif isinstance(value, list | tuple):
        yield f"{name} {type(value).__name__}: {' '.join(map(_number, value))}"
    elif hasattr(value, "dtype"):
        yield f"{name} {_array(np.asarray(value))}"
    else:
        yield f"{name} {_number(value)}"


def text(value):
    """Write a value on lines of names and numbers."""
    return "\n".join(lines(value))


def outcomes(calls: Mapping[str, Callable] | Iterable[Callable]):
    """Return what each call returns, warns and raises, by name."""
    found = {}
    for name, call in calls.items() if isinstance(calls, Mapping) else enumerate(calls):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                found[str(name)] = call()
            except TypeCheckError:
                raise
            except Exception as error:
                found[str(name)] = f"{type(error).__name__}: {error}"
        if caught:
            found[f"{name} warns"] = " ".join(str(w.message) for w in caught)
    return found


def assert_refused(calls, name, **masks):
    """Compare the errors of calls, one sentence each, with a stored text."""
    found = outcomes(calls)
    said = {k: v for k, v in found.items() if not k.endswith(" warns")}
    wrong = {k: v for k, v in said.items() if not re.match(r"\w*Error: ", str(v))}
    assert not wrong
    assert_expected(text(said), name, **masks)
