"""``probmetric lr``: likelihood ratios of questioned and known items."""

from contextlib import ExitStack
from fractions import Fraction

import numpy as np

from probmetric.cli.files import bad_input, claim_file, say, write_table
from probmetric.cli.inputs import StoredMetric, load_metric, of_option, points_for
from probmetric.cli.options import Ratios
from probmetric.metric import PairSimilarity


def run(options: Ratios) -> int:
    """Compare all pairs of items, and return the exit code."""
    out = options.out
    with ExitStack() as stack:
        with bad_input():
            if out is not None:
                stack.enter_context(claim_file(out, ".csv", force=options.force))
            odds, use = _odds(options.prior_odds), load_metric(options.metric)
            if not isinstance(use.metric, PairSimilarity):
                raise ValueError(
                    "--metric must be the metric.npz of a fit of two_stage, got "
                    f"{use.name} ({type(use.metric).__name__})."
                )
            (left, left_items), (right, right_items) = (
                _side(options, side, use) for side in ("questioned", "known")
            )
            with of_option("--questioned", "questioned"), of_option("--known", "known"):
                table = use.metric.likelihood_ratios(
                    left,
                    right,
                    questioned_items=left_items,
                    known_items=right_items,
                    prior_odds=odds,
                )
        if not write_table(table, out):
            return 0
    say(
        f"Wrote {out} | {len(table)} pairs of {table['questioned'].nunique()} "
        f"questioned and {table['known'].nunique()} known items, by {use.name}"
    )
    return 0


def _side(
    options: Ratios, side: str, use: StoredMetric
) -> tuple[np.ndarray, np.ndarray | None]:
    by = options.by or options.label
    spec = options.spec(getattr(options, side))._replace(label=by)
    with of_option(f"--{side}"), of_option("--by", "label"):
        data = points_for(spec, use)
    return data.X, None if by is None else data.labels


def _odds(text: str | None) -> float | None:
    """Convert a number or a ratio such as 1/319."""
    if text is None:
        return None
    try:
        odds = float(Fraction(text))
    except (ValueError, ZeroDivisionError, OverflowError):
        odds = -1.0
    if odds <= 0:
        raise ValueError(
            f"--prior-odds must be a number > 0 or a ratio such as 1/319, got {text!r}."
        )
    return odds
