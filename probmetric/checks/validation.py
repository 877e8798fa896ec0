"""``validate``: run checks against independent references, and report their verdicts.

Exact claims *agree*, *disagree* or are *inconclusive*, which is not a pass.
Approximations are *within* or *outside* their bound.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
import pandas as pd
import xarray as xr

from probmetric.arguments import check_within_0_1
from probmetric.checks.check import Check, Problem, judge
from probmetric.checks.own.calibration import sbc_check
from probmetric.data.containers import Labeled
from probmetric.progress import progress_bar
from probmetric.registry import MODELS, ModelSpec, model_of
from probmetric.typing import no_type_check

FAILED = ("disagree", "outside")


class Judgement(NamedTuple):
    """One check on one problem: the table of ``judge``, and its run time."""

    model: str
    problem: str
    table: xr.Dataset
    seconds: float

    @property
    def verdict(self) -> str:
        """Verdict on the claim, or "rejected" or "missed" for a negative control."""
        verdict = str(self.table.attrs["verdict"])
        if self.table.attrs["control"]:
            return "rejected" if verdict in FAILED else "missed"
        return verdict

    @property
    def unreliable(self) -> bool:
        """Whether an approximation is within its bound but its k-hat is unreliable."""
        return bool(self.table.attrs.get("unreliable", False))

    @property
    def names(self) -> dict[str, str]:
        """Model, problem, check, kind, layer and control."""
        attrs = {k: self.table.attrs[k] for k in ("check", "kind", "layer", "control")}
        return {"model": self.model, "problem": self.problem, **attrs}


class Counts(NamedTuple):
    """Number of claims by kind and verdict."""

    exact: int
    agree: int
    disagree: int
    approximate: int
    within: int
    outside: int
    inconclusive: int
    controls: int
    rejected: int


@dataclass(frozen=True)
class Validation:
    """Result of ``validate``: a judgement for each problem and check.

    ``name`` is the name of the model, or "checks". ``broken`` is True if deliberately
    wrong claims (negative controls) were judged instead of the claims.
    """

    name: str
    judgements: tuple[Judgement, ...]
    broken: bool = False

    @property
    def counts(self) -> Counts:
        """Count claims by kind and verdict."""
        words = Counter(j.verdict for j in self.judgements)
        words.update(
            "controls" if j.names["control"] else j.names["kind"]
            for j in self.judgements
        )
        return Counts(*(words[name] for name in Counts._fields))

    @property
    def verdict(self) -> str:
        """The most severe verdict: "agree", "disagree" or "inconclusive".

        For deliberately wrong claims it is "rejected" if all were rejected, otherwise
        "missed". Without any claim it is "inconclusive". An approximation within its
        bound passes even if its diagnostic k-hat is unreliable (0.7 or more), because
        the reference draws do not depend on the approximation.
        """
        counts = self.counts
        if self.broken:
            good = counts.controls > 0 and counts.rejected == counts.controls
            return "rejected" if good else "missed"
        if counts.disagree or counts.outside:
            return "disagree"
        passed = counts.agree + counts.within + self.unreliable
        claims = counts.exact + counts.approximate
        return "agree" if claims and passed == claims else "inconclusive"

    @property
    def unreliable(self) -> int:
        """Number of approximations within their bound with unreliable k-hat (≥ 0.7)."""
        return sum(j.unreliable and not j.names["control"] for j in self.judgements)

    @property
    def exit_code(self) -> int:
        """Exit code: 0 if the verdict is "agree" or "missed", otherwise 1."""
        return int(self.verdict not in ("agree", "missed"))

    def to_dataframe(self) -> pd.DataFrame:
        """Return a table with a row for every entry of every check."""
        frames = [
            j.table.to_dataframe().reset_index().assign(**j.names)
            for j in self.judgements
        ]
        if not frames:
            return pd.DataFrame()
        first = [*self.judgements[0].names, "entry"]
        whole = pd.concat(frames, ignore_index=True)
        rest = [name for name in whole.columns if name not in first]
        return whole.reindex(columns=first + rest)

    def summary(self) -> pd.DataFrame:
        """Return a table of checks: entries, largest error and z, verdict, seconds."""
        return pd.DataFrame(
            [
                {
                    **j.names,
                    "entries": j.table.sizes["entry"],
                    "largest_error": _largest(j.table["error"].to_numpy()),
                    "largest_z": _largest(j.table["z"].to_numpy()),
                    "verdict": j.verdict,
                    "seconds": j.seconds,
                }
                for j in self.judgements
            ]
        )

    def by_model(self) -> pd.DataFrame:
        """Return a table of models: claims or controls, verdict, seconds."""
        rows: list[dict[str, object]] = []
        for name in dict.fromkeys(j.model for j in self.judgements):
            rows_of = tuple(j for j in self.judgements if j.model == name)
            part = Validation(name, rows_of, self.broken)
            c = part.counts
            figures = (
                {"wrong claims rejected": f"{c.rejected} of {c.controls}"}
                if self.broken
                else {
                    "exact claims agree": f"{c.agree} of {c.exact}",
                    "within bound": f"{c.within + part.unreliable} of {c.approximate}",
                    "inconclusive": c.inconclusive,
                }
            )
            seconds = sum(j.seconds for j in rows_of)
            rows.append(
                {"model": name, **figures, "verdict": part.verdict, "seconds": seconds}
            )
        return pd.DataFrame(rows)

    def __str__(self) -> str:
        c = self.counts
        if self.broken:
            return (
                f"{self.name}: {c.rejected} of {c.controls} wrong claims rejected: "
                f"{self.verdict}"
            )
        by_khat = self.unreliable
        within = f"{c.within + by_khat} of {c.approximate} approximations within their "
        within += (
            f"bound, {by_khat} of them inconclusive by k-hat" if by_khat else "bound"
        )
        parts = [f"{c.agree} of {c.exact} exact claims agree", within]
        if c.inconclusive > by_khat:
            parts.append(f"{c.inconclusive - by_khat} inconclusive")
        return f"{self.name}: {'; '.join(parts)}: {self.verdict}"


def _largest(column: np.ndarray) -> float:
    finite = column[~np.isnan(column)]
    return float(np.abs(finite).max()) if len(finite) else float("nan")


@no_type_check
def validate(
    model: str | ModelSpec | Sequence[Check] | Callable[..., None],
    data: Any = None,
    *,
    quick: bool = False,
    break_: bool = False,
    seed: int = 0,
    progress: bool | None = None,
    alpha: float = 0.01,
) -> Validation:
    """Check that the formulas of a model agree with independent computations.

    Each claim, such as a formula in closed form, is compared with numerical
    integration, automatic differentiation or sampling. To see if a model fits data, use
    ``check_model`` instead.

    Parameters
    ----------
    model : str, ModelSpec, sequence of Check, or callable
        - Name (or ``ModelSpec``) of a model in ``pm.MODELS``.
        - Your own checks.
        - A NumPyro model ``model(data)``, checked by simulation (see ``sbc``).
    data : Problem, sequence of Problem, Labeled, or anything, optional
        Data to check on. A ``Problem`` also contains parameters and settings.

        - For a model in ``pm.MODELS``: a ``Problem``, or labeled data, to which the
          model is fitted. Default: two simulated problems (one with ``quick``).
        - For your own checks: any data. The checks read them as ``problem.data``.
        - For a NumPyro model: its data, or a ``Problem``. The ``prior`` of the problem
          is passed as the second argument of the model, and the ``options`` as keyword
          arguments.
    quick : bool, default=False
        Whether to skip slow checks. The check of a NumPyro model is never skipped.
    break_ : bool, default=False
        Whether to test deliberately wrong versions of the claims (negative controls)
        instead of the claims. All should be rejected.
    seed : int, default=0
        Seed for the simulated problems.
    progress : bool, optional
        Whether to show progress. Default: a bar in terminals and notebooks.
    alpha : float in (0, 1), default=0.01
        Probability that any statistical test of this call rejects a right claim. It is
        divided by the number of tests. Tests of several values use Holm's correction.

    Returns
    -------
    Validation
        ``summary()`` is a table with a row for each problem and check. ``verdict`` is
        "agree", "disagree" or "inconclusive" (as with too few draws). With ``break_``
        it is "rejected" or "missed".

    Examples
    --------
    >>> check = Check(
    ...     "the mean of 1, 2, 3 is 2",
    ...     "exact",
    ...     reference=lambda problem: {"mean": problem.data.mean()},
    ...     estimate=lambda problem: {"mean": 2.0},
    ...     controls={"the largest": lambda problem: {"mean": problem.data.max()}},
    ... )
    >>> print(validate([check], np.array([1.0, 2.0, 3.0])))
    checks: 1 of 1 exact claims agree; 0 of 0 approximations within their bound: agree
    """
    name, checks, problems = _resolve(model, data, seed, quick)
    chosen = [c for c in checks if not (quick and c.slow)]
    if break_:
        chosen = [c for c in chosen if c.controls]
    if not chosen:
        raise ValueError(
            f"model {name!r} must have at least one check, got 0"
            + (" quick checks. Set quick=False." if quick and checks else "")
        )
    check_within_0_1(alpha=alpha)
    work = [(problem, check) for problem in problems for check in chosen]
    share = alpha / max(sum(check.tests for _, check in work), 1)
    # Checks with the same reference function share its evaluation on a problem.
    shared: dict[tuple[int, Any], Any] = {}
    bar = progress_bar(work, f"validate {name}", progress, "check")
    judgements: list[Judgement] = []
    with jax.enable_x64(True):
        for problem, check in bar:
            if bar is not work:
                bar.set_postfix_str(f"{check.name} ({problem.name})")
            judgements += _judge(name, problem, check, break_, shared, share)
    return Validation(name, tuple(judgements), break_)


def _judge(
    name: str,
    problem: Problem[Any],
    check: Check,
    broken: bool,
    shared: dict[Any, Any],
    alpha: float,
) -> Iterator[Judgement]:
    began = time.perf_counter()
    key = id(problem), check.reference
    if key not in shared:
        shared[key] = check.reference(problem)
    reference = shared[key]
    for control in check.controls if broken else (None,):
        settings: Any = {"reference": reference, "alpha": alpha}
        table = judge(check, problem, control=control, **settings)
        yield Judgement(name, problem.name, table, time.perf_counter() - began)
        began = time.perf_counter()


@no_type_check
def _resolve(
    model: Any, data: Any, seed: int, quick: bool
) -> tuple[str, Sequence[Check], list[Problem[Any]]]:
    named: Any = MODELS[model_of(model)] if isinstance(model, str) else model
    name = "checks"
    if callable(named) and not isinstance(named, type):
        name = str(getattr(named, "__name__", type(named).__name__))
        numpyro_model: Any = named
        named = [sbc_check(numpyro_model)]
    if not isinstance(named, ModelSpec) and not (
        isinstance(named, Sequence) and all(isinstance(item, Check) for item in named)
    ):
        raise TypeError(
            "model must be a name in pm.MODELS, a ModelSpec, a sequence of Check or a "
            f"NumPyro model, got {type(named).__name__}"
        )
    problems = list(data) if isinstance(data, list | tuple) else [data]
    # A container of arrays is a tuple as well.
    ready = bool(problems) and all(isinstance(item, Problem) for item in problems)
    if not isinstance(named, ModelSpec):
        return name, list(named), problems if ready else [Problem("data", None, data)]
    if ready:
        return named.name, named.checks, problems
    if data is None:
        seeds = (seed,) if quick else (seed, seed + 1)
        return named.name, named.checks, [named.toy(s) for s in seeds]
    if not isinstance(data, Labeled) or data.y is None or named.from_labels is None:
        takes = "a Problem" if named.from_labels is None else "a Problem or Labeled"
        raise ValueError(
            f"data must be {takes} for {named.name!r}, got {type(data).__name__}"
        )
    if data.w is not None:
        raise ValueError(
            f"data must be points without weights for {named.name!r}, got weights w. "
            "Pass a probmetric.checks.Problem instead."
        )
    return named.name, named.checks, [named.from_labels(data.X, data.y)]
