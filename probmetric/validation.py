"""Check closed forms against independent references, and say what was found.

``validate`` runs the checks of a registered model, or any sequence of ``Check``s: a
NumPyro model of your own with your own closed form is judged in the same way. Exact
claims *agree*, *disagree*, or remain *inconclusive*, which is not a pass;
approximations lie *within* or *outside* their stated bound and never "agree".
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import jax

from probmetric.checks.check import Check, Problem, judge
from probmetric.data.containers import Labelled
from probmetric.inference.sampling.warnings import progress_bar
from probmetric.registry import MODELS, ModelSpec
from probmetric.validation_result import Counts, Judgement, Validation

__all__ = ["Counts", "Judgement", "Validation", "validate"]


def validate(
    model: "str | ModelSpec | Sequence[Check]",
    data: Any = None,
    *,
    quick: bool = False,
    break_: bool = False,
    seed: int = 0,
    progress: bool | None = None,
) -> Validation:
    """Judge every claim made about a model.

    Parameters
    ----------
    model : str, ModelSpec or sequence of Check
        A registered name, or checks of your own.
    data : Problem, sequence of Problem, Labelled, or anything, optional
        What to check on. Default: two simulated problems of a registered model (one
        under ``quick``). Labelled data are turned into a fitted problem by the
        registered model. For checks of your own anything is accepted and reaches
        them as ``problem.data``.
    quick : bool, default=False
        Leave out the checks marked slow.
    break_ : bool, default=False
        Judge the negative controls in place of the claims: each must be rejected.
    seed : int, default=0
        Of the simulated problems.
    progress : bool, optional
        Default: a bar over the checks in terminals and notebooks.

    Returns
    -------
    Validation
        ``str()`` of it is the last line of a report; ``exit_code`` is 0 only if all
        is well.

    Raises
    ------
    ValueError
        An unknown name, labelled data for a model that does not take them, no checks.

    Examples
    --------
    >>> from probmetric.checks.check import Check
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
        raise ValueError(f"model: wanted at least one check to run for {name!r}, got 0")
    work = [(problem, check) for problem in problems for check in chosen]
    # Checks that name one reference function share its evaluation on a problem.
    shared: dict[tuple[int, Any], Any] = {}
    bar = progress_bar(work, f"validate {name}", progress)
    judgements: list[Judgement] = []
    with jax.enable_x64(True):
        for problem, check in bar:
            if bar is not work:
                bar.set_postfix_str(f"{check.name} ({problem.name})")
            judgements += _judge(name, problem, check, break_, shared)
    return Validation(name, tuple(judgements), break_)


def _judge(
    name: str, problem: Problem, check: Check, broken: bool, shared: dict[Any, Any]
) -> Iterator[Judgement]:
    """Judge the claim, or every negative control against one reference."""
    began = time.perf_counter()
    key = id(problem), check.reference
    if key not in shared:
        shared[key] = check.reference(problem)
    reference = shared[key]
    for control in check.controls if broken else (None,):
        table = judge(check, problem, control=control, reference=reference)
        yield Judgement(name, problem.name, table, time.perf_counter() - began)
        began = time.perf_counter()


def _resolve(
    model: Any, data: Any, seed: int, quick: bool
) -> tuple[str, Sequence[Check], list[Problem]]:
    if isinstance(model, str):
        if model not in MODELS:
            raise ValueError(f"model: wanted one of {sorted(MODELS)}, got {model!r}")
        model = MODELS[model]
    given = _problems(data)
    if not isinstance(model, ModelSpec):
        return "checks", list(model), given or [Problem("data", None, data)]
    if given:
        return model.name, model.checks, given
    if data is None:
        seeds = (seed,) if quick else (seed, seed + 1)
        return model.name, model.checks, [model.toy(s) for s in seeds]
    if not isinstance(data, Labelled) or data.y is None or model.from_labels is None:
        takes = "a Problem" if model.from_labels is None else "a Problem or Labelled"
        raise ValueError(f"data: wanted {takes} for {model.name!r}, got {type(data)}")
    return model.name, model.checks, [model.from_labels(data.X, data.y)]


def _problems(data: Any) -> list[Problem]:
    if isinstance(data, Problem):
        return [data]
    # A container of arrays is a tuple too; only a sequence of problems is one.
    several = isinstance(data, list | tuple) and len(data) > 0
    if several and all(isinstance(item, Problem) for item in data):
        return list(data)
    return []
