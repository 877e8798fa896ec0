"""A check: an independent reference, our claim, and wrong claims it must reject.

``probmetric validate`` and the contract tests only iterate over the ``Check``s of a
registered model. Both sides return *values* (a dict of arrays), *draws* (a Dataset
with dims chain, draw) or *ranks* (simulation-based calibration); ``judge`` compares
them accordingly and returns one table for all.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from probmetric.data import Data

__all__ = ["Check", "Problem"]


class Problem(NamedTuple):
    """Something to check on: parameters, data and whatever else the model needs.

    ``params`` is a fitted or a true value of the model's ``Params``; ``prior`` the
    model's prior; ``options`` static settings (learning rate, sizes) by name.
    """

    name: str
    params: Any
    data: Data
    prior: Any = None
    options: Mapping[str, Any] = {}  # noqa: RUF012  never written to


@dataclass(frozen=True)
class Check:
    """One claim about one model.

    Parameters
    ----------
    name : str
        The claim, as a sentence fragment: "posterior of (z, z') is exact".
    kind : "exact" or "approximate"
        Exact claims must *agree*; approximate ones are reported as a distance from
        the reference with the bound they keep, and are never called agreement.
    reference : callable
        ``reference(problem) -> values, draws or ranks``, independent of the code
        under test.
    estimate : callable
        ``estimate(problem)``: what the package claims.
    controls : mapping of str to callable
        Wrong claims, each of which ``judge`` must reject. An exact check needs one.
    rtol, atol : float
        Tolerances between values and values (relative to the largest entry of the
        reference, and absolute); ignored where draws are compared.
    bound : float, optional
        For approximate checks: largest allowed distance, in posterior sd.
    layer : str
        "algebra", "quadrature", "gradient", "sampling" or "sbc": cost, in that order.
    slow : bool
        Left out of ``--quick``.
    """

    name: str
    kind: Literal["exact", "approximate"]
    reference: Callable[[Problem], Any]
    estimate: Callable[[Problem], Any]
    controls: Mapping[str, Callable[[Problem], Any]] = field(default_factory=dict)
    rtol: float = 1e-9
    atol: float = 0.0
    bound: float | None = None
    layer: Literal["algebra", "quadrature", "gradient", "sampling", "sbc"] = "algebra"
    slow: bool = False

    def __post_init__(self) -> None:
        """Refuse an exact check that cannot fail."""
        if self.kind == "exact" and not self.controls:
            raise ValueError(
                f"controls: wanted at least one wrong claim for the exact check "
                f"{self.name!r}, got none"
            )
        if self.kind == "approximate" and self.bound is None:
            raise ValueError(f"bound: wanted a number for {self.name!r}, got None")
