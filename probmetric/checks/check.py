"""``Check``: an independent reference, an estimate, and wrong claims it must reject.

``probmetric validate`` and the contract tests only iterate over the ``Check``s of a
registered model. Both sides return *values* (a dict of arrays), *draws* (a Dataset
with dims chain, draw) or *ranks* (simulation-based calibration); ``judge`` compares
them accordingly and returns one table for all.

=============  ==========  ====================================================
reference      estimate    verdict
=============  ==========  ====================================================
values         values      largest error against ``rtol`` and ``atol``
values, draws  the other   ``compare``: z, Holm, power
draws          draws       ``compare``, with the Monte Carlo error of both
anything       ranks       ``uniformity`` of the ranks
draws          draws       approximate: ``distance`` in posterior sd, k-hat
=============  ==========  ====================================================
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import xarray as xr

from probmetric.checks.uniformity import Ranks
from probmetric.data.containers import Data

__all__ = ["Check", "Problem", "judge", "uniform"]


class Problem(NamedTuple):
    """Something to check on: parameters, data and whatever else the model needs.

    ``params`` is a fitted or a true value of the model's ``Params``; ``prior`` the
    model's prior; ``options`` static settings (learning rate, sizes) by name.
    """

    name: str
    params: Any
    data: Data
    prior: Any = None
    options: Mapping[str, Any] = {}


def uniform(problem: Problem) -> None:
    """Stand as the reference of a calibration check: ranks are to be uniform."""
    del problem


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
        For approximate checks: largest allowed distance of a mean in posterior sd,
        and of a log standard deviation; between values and values, the largest
        error relative to the largest entry of the reference.
    tol : float
        Shift worth finding where draws are compared, in posterior sd.
    ess_min : float
        Effective sample size from which draws count.
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
    tol: float = 0.1
    ess_min: float | int = 1000
    layer: Literal["algebra", "quadrature", "gradient", "sampling", "sbc"] = "algebra"
    slow: bool = False

    def __post_init__(self) -> None:
        """Raise for an exact check that cannot fail."""
        if self.kind == "exact" and not self.controls:
            raise ValueError(
                f"controls: expected at least one wrong claim for the exact check "
                f"{self.name!r}, got none"
            )
        if self.kind == "approximate" and self.bound is None:
            raise ValueError(f"bound: expected a number for {self.name!r}, got None")


def judge(
    check: Check,
    problem: Problem,
    *,
    control: str | None = None,
    reference: Any = None,
) -> xr.Dataset:
    """Evaluate both sides of a check and compare them.

    Parameters
    ----------
    check : Check
        The claim.
    problem : Problem
        What to check it on.
    control : str, optional
        Judge this negative control in place of the estimate; the verdict should
        then be "disagree" (or "outside").
    reference : optional
        ``check.reference(problem)`` if it has been evaluated already. None
        evaluates it.

    Returns
    -------
    Dataset
        Over ``entry``: reference, estimate, error (relative to the largest entry,
        or a signed distance in posterior sd), z, detectable (in posterior sd), khat
        and verdict; NaN where a column does not apply. Attributes check, kind,
        layer, control and verdict: "agree", "disagree", "inconclusive" for exact
        claims, "within", "outside", "inconclusive" for approximate ones.

    Raises
    ------
    ValueError
        An unknown control; sides that cannot be compared.
    """
    if control is not None and control not in check.controls:
        raise ValueError(
            f"control: expected one of {list(check.controls)} for {check.name!r}, got "
            f"{control!r}"
        )
    claim = check.estimate if control is None else check.controls[control]
    if reference is None:
        reference = check.reference(problem)
    table = _compare(check, reference, claim(problem))
    columns = ("reference", "estimate", "error", "z", "detectable", "khat")
    empty = {name: ("entry", np.full(table.sizes["entry"], np.nan)) for name in columns}
    result = table.assign({k: v for k, v in empty.items() if k not in table})
    result = result[[*columns, "verdict"]]
    result.attrs = {
        "check": check.name,
        "kind": check.kind,
        "layer": check.layer,
        "control": control or "",
        "verdict": table.attrs["verdict"],
        # What the z of draws were judged by, for those who draw them.
        **{k: table.attrs[k] for k in ("alpha", "tol", "z_crit") if k in table.attrs},
    }
    return result


def _compare(check: Check, reference: Any, estimate: Any) -> xr.Dataset:
    """Choose the comparison by what the two sides are."""
    # The statistics come with SciPy and ArviZ, which a registry need not load.
    from probmetric.checks.compare import compare
    from probmetric.checks.uniformity import uniformity
    from probmetric.checks.values import compare_values, within_bound

    if isinstance(estimate, Ranks):
        return uniformity(estimate)
    draws = [
        isinstance(side, xr.Dataset | xr.DataTree) for side in (reference, estimate)
    ]
    if check.bound is not None and check.kind == "approximate":
        if all(draws):
            return within_bound(reference, estimate, check.bound)
        if not any(draws):
            return compare_values(
                reference,
                estimate,
                rtol=check.bound,
                atol=0.0,
                words=("within", "outside"),
            )
        raise ValueError(
            f"check {check.name!r}: expected draws on both sides, or values on both, "
            f"of "
            f"an approximate claim, got {type(reference)} and {type(estimate)}"
        )
    if not any(draws):
        return compare_values(reference, estimate, rtol=check.rtol, atol=check.atol)
    if draws[1]:
        return compare(reference, estimate, tol=check.tol, ess_min=check.ess_min)
    table = compare(estimate, reference, tol=check.tol, ess_min=check.ess_min)
    swapped = table.rename(reference="estimate", estimate="reference")
    return swapped.assign(z=-table["z"])
