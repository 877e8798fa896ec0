"""``validate``: run checks against independent references, and report their verdicts.

``validate`` runs the checks of a registered model, or any sequence of ``Check``s: a
NumPyro model of your own with your own closed form is judged in the same way. Exact
claims *agree*, *disagree*, or remain *inconclusive*, which is not a pass;
approximations lie *within* or *outside* their stated bound and never "agree".

It returns a ``Validation``: counts, one line, an exit code, and tables.
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
from probmetric.data.containers import Labelled
from probmetric.progress import progress_bar
from probmetric.registry import MODELS, ModelSpec, model_of
from probmetric.typing import no_type_check

FAILED = ("disagree", "outside")


class Judgement(NamedTuple):
    """One check on one problem: the table of ``judge``, and how long it took."""

    model: str
    problem: str
    table: xr.Dataset
    seconds: float

    @property
    def verdict(self) -> str:
        """What was found; of a negative control, "rejected" or "missed"."""
        verdict = str(self.table.attrs["verdict"])
        if self.table.attrs["control"]:
            return "rejected" if verdict in FAILED else "missed"
        return verdict

    @property
    def unreliable(self) -> bool:
        """Whether an approximation keeps its bound and k-hat alone leaves it open."""
        return bool(self.table.attrs.get("unreliable", False))

    @property
    def names(self) -> dict[str, str]:
        """What was judged: model, problem, check, kind, layer and control."""
        attrs = {k: self.table.attrs[k] for k in ("check", "kind", "layer", "control")}
        return {"model": self.model, "problem": self.problem, **attrs}


class Counts(NamedTuple):
    """How many claims there were, and how they fared."""

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
    """What ``validate`` found.

    Parameters
    ----------
    name : str
        The model's name, or "checks".
    judgements : tuple of Judgement
        One a check (or negative control) and problem.
    broken : bool
        Whether negative controls were judged in place of the claims.
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
        """Return the worst verdict.

        "agree", "disagree" or "inconclusive"; of negative controls "rejected" (all
        of them, as should be) or "missed". Without any claim "inconclusive".

        An approximation within its bound whose k-hat is 0.7 or more is inconclusive,
        and is said to be, but is no part of this verdict: that is about closed forms,
        and the approximation was held against draws that do not depend on it.
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
        """How many approximations keep their bound under a k-hat of 0.7 or more."""
        return sum(j.unreliable and not j.names["control"] for j in self.judgements)

    @property
    def exit_code(self) -> int:
        """Return 0 only if all exact claims agree and all approximations are within.

        An approximation that only its k-hat leaves inconclusive does not count.

        With negative controls in their place 1 is right: 1 if every one is rejected,
        0 if a wrong claim got through.
        """
        return int(self.verdict not in ("agree", "missed"))

    def to_dataframe(self) -> pd.DataFrame:
        """Return every entry of every check as a row.

        Columns: model, problem, check, kind, layer, control, entry, reference,
        estimate, error, z, detectable, khat, verdict; see ``judge``. A negative
        control's verdict is that of the comparison ("disagree" where rejected).
        """
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
        """Return one row a check: how many entries, its worst |z|, verdict, seconds."""
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
        """Return one row a model: claims or controls, verdict, seconds."""
        rows: list[dict[str, object]] = []
        for name in dict.fromkeys(j.model for j in self.judgements):
            own = tuple(j for j in self.judgements if j.model == name)
            part = Validation(name, own, self.broken)
            c = part.counts
            figures = (
                {"wrong claims rejected": f"{c.rejected} of {c.controls}"}
                if self.broken
                else {
                    "exact claims agree": f"{c.agree} of {c.exact}",
                    "within bound": f"{c.within} of {c.approximate}",
                    "inconclusive": c.inconclusive,
                }
            )
            seconds = sum(j.seconds for j in own)
            rows.append(
                {"model": name, **figures, "verdict": part.verdict, "seconds": seconds}
            )
        return pd.DataFrame(rows)

    def __str__(self) -> str:
        """Say it in a line, with both counts."""
        c = self.counts
        if self.broken:
            return (
                f"{self.name}: {c.rejected} of {c.controls} wrong claims rejected: "
                f"{self.verdict}"
            )
        parts = [
            f"{c.agree} of {c.exact} exact claims agree",
            f"{c.within + self.unreliable} of {c.approximate} approximations within "
            "their bound",
        ]
        if c.inconclusive:
            by_khat = f" ({self.unreliable} by k-hat)" if self.unreliable else ""
            parts.append(f"{c.inconclusive} inconclusive{by_khat}")
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
    """Check every claim made about a model, and return the verdicts.

    Parameters
    ----------
    model : str, ModelSpec, sequence of Check, or callable
        A registered name, or checks of your own; or a NumPyro model ``model(data)``,
        whose one check is simulation-based calibration (``sbc``).
    data : Problem, sequence of Problem, Labelled, or anything, optional
        What to check on. Default: two simulated problems of a registered model (one
        under ``quick``). Labelled data are turned into a fitted problem by the
        registered model. For checks of your own anything is accepted and reaches
        them as ``problem.data``. For a NumPyro model its data, or a ``Problem``, whose
        prior is its second argument and whose options are its keywords.
    quick : bool, default=False
        Leave out the checks marked slow. The only check of a NumPyro model always runs.
    break_ : bool, default=False
        Judge the negative controls in place of the claims: each must be rejected.
    seed : int, default=0
        Of the simulated problems.
    progress : bool, optional
        Default: a bar over the checks in terminals and notebooks.
    alpha : float in (0, 1), default=0.01
        Rate at which this call may call a right claim wrong by chance: each of its T
        statistical tests (samples, ranks) has alpha/T (Bonferroni), and Holm's method
        shares that among its entries.

    Returns
    -------
    Validation
        ``str()`` of it is the last line of a report; ``exit_code`` is 0 only if all
        is well.

    Raises
    ------
    ValueError
        An unknown name, labelled data for a model that does not take them, no checks.
    TypeError
        A model that is none of these, such as an estimator.

    Examples
    --------
    >>> from probmetric import Check
    >>> check = Check(
    ...     "the mean of 1, 2, 3 is 2",
    ...     "exact",
    ...     reference=lambda problem: {"mean": problem.data.mean()},
    ...     estimate=lambda problem: {"mean": 2.0},
    ...     controls={"the largest": lambda problem: {"mean": problem.data.max()}},
    ... )
    >>> import numpy as np
    >>> print(validate([check], np.array([1.0, 2.0, 3.0])))
    checks: 1 of 1 exact claims agree; 0 of 0 approximations within their bound: agree
    """
    name, checks, problems = _resolve(model, data, seed, quick)
    chosen = [c for c in checks if not (quick and c.slow)]
    if break_:
        chosen = [c for c in chosen if c.controls]
    if not chosen:
        raise ValueError(
            f"model: expected at least one check to run for {name!r}, got 0"
            + (" that is quick: leave quick out" if quick and checks else "")
        )
    check_within_0_1(alpha=alpha)
    work = [(problem, check) for problem in problems for check in chosen]
    share = alpha / max(sum(check.tests for _, check in work), 1)
    # Checks that name one reference function share its evaluation on a problem.
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
    """Judge the claim, or every negative control against one reference."""
    began = time.perf_counter()
    key = id(problem), check.reference
    if key not in shared:
        shared[key] = check.reference(problem)
    reference = shared[key]
    for control in check.controls if broken else (None,):
        known: Any = {"reference": reference, "alpha": alpha}
        table = judge(check, problem, control=control, **known)
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
        story: Any = named
        named = [sbc_check(story)]
    if not isinstance(named, ModelSpec) and not (
        isinstance(named, Sequence) and all(isinstance(one, Check) for one in named)
    ):
        raise TypeError(
            "model: expected a registered name, a ModelSpec, a sequence of Check or a "
            f"NumPyro model, got {type(named).__name__}"
        )
    given = list(data) if isinstance(data, list | tuple) else [data]
    # A container of arrays is a tuple too; only a sequence of problems is one.
    known = bool(given) and all(isinstance(item, Problem) for item in given)
    if not isinstance(named, ModelSpec):
        return name, list(named), given if known else [Problem("data", None, data)]
    if known:
        return named.name, named.checks, given
    if data is None:
        seeds = (seed,) if quick else (seed, seed + 1)
        return named.name, named.checks, [named.toy(s) for s in seeds]
    if not isinstance(data, Labelled) or data.y is None or named.from_labels is None:
        takes = "a Problem" if named.from_labels is None else "a Problem or Labelled"
        raise ValueError(f"data: expected {takes} for {named.name!r}, got {type(data)}")
    if data.w is not None:
        raise ValueError(
            f"data: expected points without weights for {named.name!r}, got weights w; "
            "a Problem holds them"
        )
    return named.name, named.checks, [named.from_labels(data.X, data.y)]
