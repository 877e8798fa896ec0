"""The metric that a command is given: a metric file, draws, or none of the two."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import typer

from probmetric.storage.draws_file import draws_feature_names, load_draws, posterior_of
from probmetric.storage.metric_file import read_metric

__all__ = ["Given", "given", "note"]


class Given(NamedTuple):
    """A metric or draws of one, d, the features' names, and the data it has seen."""

    metric: Any
    n_features: int
    feature_names: Sequence[str] | None
    data_hash: str | None
    name: str


def given(metric: Path | None, draws: Path | None, max_draws: int) -> Given:
    """Read the one file that was given.

    Raises
    ------
    ValueError
        For none or both, and for files that are not what they should be.
    """
    if (metric is None) == (draws is None):
        got = "neither" if metric is None else "both"
        raise ValueError(f"--metric, --draws: wanted one of the two, got {got}")
    if draws is not None:
        tree = load_draws(draws)
        posterior = posterior_of(tree, max_draws=max_draws)
        return Given(
            posterior,
            n_features(posterior),
            draws_feature_names(tree),
            tree.attrs.get("labelled_hash"),
            f"{posterior.n_draws} draws of {draws.name}",
        )
    assert metric is not None
    stored = read_metric(metric)
    seen = stored.provenance.get("data", {})
    return Given(
        stored.metric,
        n_features(stored.metric),
        stored.feature_names,
        seen.get("hash") if isinstance(seen, dict) else None,
        metric.name,
    )


def n_features(metric: Any) -> int:
    """Return the number of features d that a metric of any kind takes."""
    single = metric.draws[0] if hasattr(metric, "draws") else metric
    if hasattr(single, "draws"):  # the mean over draws
        single = single.draws[0]
    for part in ("factor", "frame", "means", "A"):
        if hasattr(single, part):
            return int(getattr(single, part).shape[-1])
    raise ValueError(
        f"metric: wanted a kind with features, got {type(single).__name__}"
    )


def note(text: str) -> None:
    """Say something that a reader should know, on standard error."""
    typer.echo(f"  note: {text}", err=True)
