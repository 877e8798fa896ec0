"""Call the public API at random and look for silent NaN, infinity and wrong neighbours.

    python tools/random_calls.py --calls 2000 --seed 1
    python tools/random_calls.py --seed 1 --only 137     one call, with its traceback
    python tools/random_calls.py --break nan             a negative control: must exit 1

Call i of a seed depends on these two numbers alone. The outcome of each call is one of

    finite         every floating figure returned or fitted is finite, and right where
                   exact arithmetic can tell (neighbours, distances)
    refused        ValueError, TypeError, NotFittedError or AttributeError (of what is
                   not there yet) that names an argument; RuntimeError of a fit that
                   ended without a result, which names the learner and the remedy
    badly named    any other error: reported, no failure
    slow           stopped after ``--limit`` seconds: reported, no failure
    SILENT         NaN or infinity came back, or an imaginary part was dropped
    WRONG          a neighbour or a distance contradicts exact arithmetic, or votes
                   change with the unit of the data

The last two make the exit status 1. What may be infinite or NaN is in ``ALLOWED``.
"""

import argparse
import re
import signal
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import random_learners as learners
import random_metrics as metrics
from random_inputs import Call, has_imaginary

import probmetric as pm

FAMILIES: dict[Callable[[np.random.Generator], Call], int] = {
    metrics.nearest: 20,
    metrics.nearest_other: 6,
    metrics.mahalanobis: 12,
    metrics.kind: 8,
    learners.learned: 18,
    learners.fit: 18,
    learners.votes: 2,
    learners.kneighbors: 4,
    metrics.evaluate: 3,
    metrics.stored: 2,
    metrics.loaded: 3,
    metrics.posterior: 4,
}
"""The families and their shares in per cent."""


def family_of(rng: np.random.Generator) -> Callable[[np.random.Generator], Call]:
    """Draw a family by its share."""
    shares = np.array([*FAMILIES.values()]) / 100
    return list(FAMILIES)[rng.choice(len(shares), p=shares)]


def draw(seed: int, i: int) -> Call:
    """Return call i of a seed."""
    rng = np.random.default_rng([seed, i])
    with np.errstate(all="ignore"):  # Hostile numbers are made on purpose.
        return family_of(rng)(rng)


OUTCOMES = ("finite", "refused", "badly named", "slow", "SILENT", "WRONG")
BAD = ("SILENT", "WRONG")

ALLOWED = {
    r"\.loo_scores_$": "documented: NaN where nothing was chosen",
    r"'set_threshold\(\)'": "documented: [0, inf], and infinity calls all pairs same",
    r"\.gamma_?$": "documented: γ = ∞ is the limit of no local part",
    r"\.prior_strength_$": "documented: ∞ where folds found nothing worth learning",
    r"\.fit\.objective$": "documented: -∞ where steps ended before a mode",
    r"\.trace$": "documented: NaN after the last step of a fit",
}
"""Figures that may be NaN or infinite, and why; by the end of their path."""

NAMED = re.compile(
    r"^[\w.\[\] ]+: |Input \w+ |\b(X|y|pairs|groups|metric|label|sample_weight)\b"
    r"|not fitted|fitted yet|threshold on the distance|unexpected keyword|n_samples"
)

FAILED = re.compile(r"^[A-Z]\w+: (NONFINITE|DECREASED) after \d+ steps; .*standardize")
"""How a fit says that it has no result."""


class Outcome(NamedTuple):
    """What became of a call; ``why`` is empty for a finite result."""

    kind: str
    why: str


class TooSlow(BaseException):
    """A call that ran past its limit; no Exception, so that nobody catches it."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise TooSlow after that many seconds."""

    def stop(*_: Any) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def figures(value: Any, path: str = "result") -> Iterator[tuple[str, np.ndarray]]:
    """Walk over the floating arrays of a result, of a fit, of a metric."""
    if value is None or isinstance(value, (str, bytes, bool, int)):
        return
    if hasattr(value, "get_params"):  # A fitted estimator.
        for name, part in sorted(vars(value).items()):
            if name.endswith("_") and not name.startswith("_"):
                yield from figures(part, f"{path}.{name}")
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from figures(part, f"{path}[{key!r}]")
    elif hasattr(value, "_fields"):
        for name in value._fields:
            yield from figures(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, (list, tuple)):
        for i, part in enumerate(value):
            yield from figures(part, f"{path}[{i}]")
    elif hasattr(value, "toarray"):
        yield path, np.asarray(value.data)
    elif isinstance(value, pm.PosteriorMetric):
        yield from figures(value.metrics(), f"{path}.metrics()")
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from figures(getattr(value, name), f"{path}.{name}")
    else:
        array = np.asarray(value)
        if array.dtype.kind in "fc":
            yield path, array


def silent(value: Any) -> str | None:
    """Say which figure is NaN or infinite, or None."""
    for path, array in figures(value):
        if np.isfinite(array).all() or any(re.search(a, path) for a in ALLOWED):
            continue
        odd = array[~np.isfinite(array)]
        return f"{path}: {odd.size} of {array.size} figures are {np.unique(odd)}"
    return None


def judge(call: Call, limit: float = 60.0, *, show: bool = False) -> Outcome:
    """Make a call and classify what became of it."""
    try:
        with warnings.catch_warnings(record=True, action="always"), limited(limit):
            result = call.run()
            # What is checked may be lazy.
            why = None if call.propagates else silent(result)
            if why is None and has_imaginary(call.given):
                why = "complex input was taken"
            if why is not None:
                return Outcome("SILENT", why)
            why = call.check(result) if call.check else None
            return Outcome("WRONG", why) if why else Outcome("finite", "")
    except TooSlow:
        return Outcome("slow", f"more than {limit:g} s")
    except Exception as error:
        if show:
            traceback.print_exc()
        text = f"{type(error).__name__}: {str(error).splitlines()[:1]}"
        kinds = (ValueError, TypeError, AttributeError)
        named = isinstance(error, kinds) and NAMED.search(str(error))
        named = named or (type(error) is RuntimeError and FAILED.search(str(error)))
        where = traceback.extract_tb(error.__traceback__)[-1].filename
        inside = "jax" in Path(where).parts
        return Outcome("refused" if named and not inside else "badly named", text)


BREAKS = {
    "nan": "a result's first figure becomes NaN",
    "swap": "the first and the second neighbour change places",
}


def broken(call: Call, how: str) -> Call:
    """Return a call whose result is spoilt, to see that the judge notices."""

    def run() -> Any:
        result = call.run()
        if how == "nan":
            return [result, np.array([0.0, np.nan])]
        D, index = result
        return D, index[:, ::-1]

    applies = how == "nan" or call.family == "nearest"
    return call._replace(run=run) if applies else call


def run(
    calls: int, seed: int, *, how: str | None = None, limit: float = 60.0
) -> Iterator[tuple[int, Call, Outcome]]:
    """Draw calls and judge them; ``how`` spoils every one (a negative control)."""
    for i in range(calls):
        call = draw(seed, i)
        call = call if how is None else broken(call, how)
        yield i, call, judge(call, limit)


def table(counts: Counter[tuple[str, str]]) -> str:
    """Return outcomes by family as text."""
    names = sorted({family for family, _ in counts})
    head = f"{'family':16}{'calls':>7}" + "".join(f"{o:>13}" for o in OUTCOMES)
    lines = [head]
    for name in [*names, "all"]:
        row = [
            sum(c for (f, k), c in counts.items() if k == o and name in (f, "all"))
            for o in OUTCOMES
        ]
        lines.append(f"{name:16}{sum(row):7}" + "".join(f"{c:13}" for c in row))
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Run, print each failure with its reproduction and the table; 1 on a failure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="make this one call and show it")
    parser.add_argument("--break", dest="how", choices=BREAKS, help=str(BREAKS))
    parser.add_argument("--limit", type=float, default=60.0, help="seconds a call")
    parser.add_argument("--verbose", action="store_true", help="print every call")
    given = parser.parse_args(argv)
    if given.only is not None:
        call = draw(given.seed, given.only)
        call = call if given.how is None else broken(call, given.how)
        outcome = judge(call, given.limit, show=True)
        print(f"{call.family}: {call.text}\n{outcome.kind}: {outcome.why}")
        return int(outcome.kind in BAD)
    counts: Counter[tuple[str, str]] = Counter()
    made = run(given.calls, given.seed, how=given.how, limit=given.limit)
    for i, call, outcome in made:
        counts[call.family, outcome.kind] += 1
        if outcome.kind in BAD or given.verbose:
            print(
                f"{outcome.kind}: {call.text}\n    {outcome.why}\n    python "
                f"tools/random_calls.py --seed {given.seed} --only {i}",
                flush=True,
            )
        elif outcome.kind in ("badly named", "slow"):
            print(f"{outcome.kind} ({i}): {call.text} -> {outcome.why}", flush=True)
    print(table(counts))
    return int(any(counts[f, k] for f, k in counts if k in BAD))


if __name__ == "__main__":
    sys.exit(main())
