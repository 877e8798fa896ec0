"""``Check``: an independent reference, an estimate, and wrong claims to reject.

``probmetric validate`` and the contract tests only iterate over the ``Check``s of a
registered model. Both sides return *values* (a dict of arrays), *draws* (a Dataset
with dims chain, draw) or *ranks* (simulation-based calibration).

=============  ==========  ====================================================
reference      estimate    verdict
=============  ==========  ====================================================
values         values      largest error against ``rtol`` and ``atol``
``zero``       values      largest error against zeros
values         draws       ``compare``: z, Holm's method, power (or draws and values)
draws          draws       ``compare``, with the Monte Carlo error of both
``uniform``    ranks       ``uniformity`` of the ranks
draws          draws       approximate: ``distance`` in posterior sd; k-hat below 0.7
=============  ==========  ====================================================
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import xarray as xr
from jaxtyping import PyTree

from probmetric.arguments import check_choice, check_number
from probmetric.checks.compare import compare
from probmetric.checks.uniformity import Ranks, uniformity
from probmetric.checks.values import compare_values, within_bound
from probmetric.typing import ArrayLike, no_type_check

COLUMNS = ("reference", "estimate", "error", "z", "detectable", "khat")
"""Numeric columns of the table that ``judge`` returns."""

SETTINGS = "alpha", "tol", "z_crit", "unreliable", "bound"
"""Attributes of the comparison that ``judge`` copies to the table."""

type Kind = Literal["exact", "approximate"]
type Layer = Literal["algebra", "quadrature", "gradient", "sampling", "sbc"]

type Values = Mapping[str, ArrayLike]
"""Arrays, or numbers, by name."""

type Side = Values | xr.Dataset | xr.DataTree | Ranks
"""One side of a check: values, draws or ranks."""


@dataclass(frozen=True, eq=False)
class Problem[D]:
    """Data, parameters and settings of a model, on which checks run.

    The arguments are not validated. Two problems are equal only if they are the same
    object. Use ``dataclasses.replace`` to make a changed copy.

    Parameters
    ----------
    name : str
        Name in reports and tables.
    params : pytree of arrays
        Fitted or true parameters of the model, or None if the checks use none.
    data : pytree of arrays
        Container of ``probmetric.data``, or any data that your checks read.
    prior : pytree of arrays, optional
        Prior of the model.
    options : mapping of str, optional
        Settings by name, such as ``learning_rate`` or sizes.
    """

    name: str
    params: PyTree
    data: D
    prior: PyTree = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


def uniform(problem: Problem[object]) -> None:
    """Require uniform ranks: the reference of a calibration check."""
    del problem


def zero(problem: Problem[object]) -> None:
    """Require zeros: the reference of an estimate whose values must all be zero."""
    del problem


@no_type_check
@dataclass(frozen=True)
class Check:
    """A claim to test: an estimate, its reference, and wrong versions that must fail.

    If estimate and reference agree, the claim is right for the tested problems, within
    the tolerance. The deliberately wrong versions show that the check can fail.

    Parameters
    ----------
    name : str
        The claim as a sentence: "the fit is a mode of the NumPyro density".
    kind : {"exact", "approximate"}
        - "exact": the estimate should equal the reference, up to rounding or Monte
          Carlo error.
        - "approximate": its distance from the reference should be at most ``bound``.
    reference : callable
        Function ``reference(problem)`` that computes the right values or draws for a
        ``Problem``, without the code under test. Use ``zero`` if all values must be
        zero, and ``uniform`` for ranks (both in ``checks.check``).
    estimate : callable
        Function ``estimate(problem)`` that computes the claimed result:

        - values: arrays by name.
        - draws: a Dataset or DataTree with dims chain and draw.
        - ranks: a result of ``checks.ranks.sbc``.
    controls : mapping of str to callable, optional
        Negative controls by name: wrong versions of ``estimate``, which the check must
        reject. An exact check requires at least one negative control.
    rtol : float >= 0, default=1e-9
        Tolerance for values, relative to the largest entry of the reference array. Not
        used for draws.
    atol : float >= 0, default=0.0
        Absolute tolerance for values, added to the relative tolerance.
    bound : float > 0, optional
        Limit for an approximate check, which requires it.

        - values: limit of the error, relative to the largest entry of the reference.
        - draws: limit of the shift of each mean, in posterior standard deviations (sd),
          and of the log ratio of the two sd.
    tol : float > 0, default=0.1
        Shift of a mean, in posterior sd, that a check of draws must be able to detect.
        Otherwise the check is inconclusive.
    ess_min : float > 0, default=1000
        Minimum effective sample size of draws. Below it, the check is inconclusive.
    layer : {"algebra", "quadrature", "gradient", "sampling", "sbc"}, default="algebra"
        Kind of computation of the reference, in order of cost: closed forms, numerical
        integration, derivatives, sampling, or simulation-based calibration (sbc).
    slow : bool, default=False
        Whether ``validate(quick=True)`` skips the check.

    Examples
    --------
    >>> import numpy as np
    >>> check = Check(
    ...     "logarithms of products are sums",
    ...     "exact",
    ...     reference=lambda problem: {"log": np.log(np.prod(problem.data))},
    ...     estimate=lambda problem: {"log": np.sum(np.log(problem.data))},
    ...     controls={"of base 2": lambda p: {"log": np.log2(p.data).sum()}},
    ... )
    >>> problem = Problem("two numbers", None, np.array([2.0, 8.0]))
    >>> judge(check, problem).attrs["verdict"]
    'agree'
    >>> judge(check, problem, control="of base 2").attrs["verdict"]
    'disagree'
    """

    name: str
    kind: Kind
    reference: Callable[[Problem[Any]], Side | None]
    estimate: Callable[[Problem[Any]], Side]
    controls: Mapping[str, Callable[[Problem[Any]], Side]] = field(default_factory=dict)
    rtol: float = 1e-9
    atol: float = 0.0
    bound: float | None = None
    tol: float = 0.1
    ess_min: float | int = 1000
    layer: Layer = "algebra"
    slow: bool = False

    @property
    def tests(self) -> bool:
        """Whether the check is a statistical test with a false-alarm rate."""
        return self.kind == "exact" and self.layer in ("sampling", "sbc")

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, get_args(Kind.__value__))
        check_choice("layer", self.layer, get_args(Layer.__value__))
        for name in ("rtol", "atol"):
            check_number(name, getattr(self, name), 0)
        for name in ("tol", "ess_min"):
            check_number(name, getattr(self, name), 0, open_low=True)
        if self.bound is not None:
            check_number("bound", self.bound, 0, open_low=True)
        if self.kind == "exact" and not self.controls:
            raise ValueError(
                "controls must contain at least one wrong estimate that the exact "
                f"check {self.name!r} must reject, got none. Add one."
            )
        if self.kind == "approximate" and self.bound is None:
            raise ValueError(
                f"bound must be a number for the approximate check {self.name!r}, got "
                "None. Set it to the largest allowed distance from the reference."
            )


# Constructors by the method of the reference: exact claims, then approximations.
by_algebra = partial(Check, kind="exact")
by_quadrature = partial(Check, kind="exact", layer="quadrature")
by_gradient = partial(Check, kind="exact", layer="gradient")
by_sampling = partial(Check, kind="exact", layer="sampling")
by_sbc = partial(Check, kind="exact", layer="sbc", reference=uniform)
near_sampling = partial(Check, kind="approximate", layer="sampling")


def judge(
    check: Check,
    problem: Problem[Any],
    *,
    control: str | None = None,
    reference: Side | None = None,
    alpha: float = 0.01,
) -> xr.Dataset:
    """Evaluate both sides of a check, or a negative control, and compare them.

    ``reference`` is the result of ``check.reference(problem)`` (default: computed).
    ``alpha`` is the false-alarm rate of a claim about draws or ranks. The table has dim
    ``entry`` and the columns reference, estimate, error, z, detectable (in posterior
    sd), khat and verdict. Columns that do not apply are NaN. The error is defined by
    ``compare_values``, or is the signed distance of ``within_bound``. The verdict is
    "agree" or "disagree" for exact claims, "within" or "outside" for approximate
    claims, or "inconclusive".
    """
    if control is not None and control not in check.controls:
        raise ValueError(
            f"control must be one of {list(check.controls)} for {check.name!r}, got "
            f"{control!r}"
        )
    claim = check.estimate if control is None else check.controls[control]
    if reference is None:
        reference = check.reference(problem)
    table = _compare(check, reference, claim(problem), alpha)
    nothing = ("entry", np.full(table.sizes["entry"], np.nan))
    result = table[["verdict"]].assign({k: table.get(k, nothing) for k in COLUMNS})
    result = result[[*COLUMNS, "verdict"]]
    result.attrs = {
        "check": check.name,
        "kind": check.kind,
        "layer": check.layer,
        "control": control or "",
        "verdict": table.attrs["verdict"],
        **{k: table.attrs[k] for k in SETTINGS if k in table.attrs},
    }
    return result


def _compare(check: Check, reference: Any, estimate: Any, alpha: float) -> xr.Dataset:
    if isinstance(estimate, Ranks):
        return uniformity(estimate, alpha=alpha)
    if check.reference is zero:
        reference = {name: np.zeros(np.shape(v)) for name, v in estimate.items()}
    drawn = [
        isinstance(side, xr.Dataset | xr.DataTree) for side in (reference, estimate)
    ]
    if check.kind == "approximate" and check.bound is not None:
        if all(drawn):
            return within_bound(reference, estimate, check.bound)
        if not any(drawn):
            words = "within", "outside"
            table = compare_values(
                reference, estimate, rtol=check.bound, atol=0.0, words=words
            )
            return table.assign_attrs(bound=float(check.bound))
        raise ValueError(
            f"reference and estimate of the approximate check {check.name!r} must be "
            f"draws or values, got {type(reference).__name__} and "
            f"{type(estimate).__name__}"
        )
    if not any(drawn):
        return compare_values(reference, estimate, rtol=check.rtol, atol=check.atol)
    limits: Any = {"alpha": alpha, "tol": check.tol, "ess_min": check.ess_min}
    if drawn[1]:
        return compare(reference, estimate, **limits)
    table = compare(estimate, reference, **limits)
    swapped = table.rename(reference="estimate", estimate="reference")
    return swapped.assign(z=-table["z"])
