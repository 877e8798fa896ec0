"""Sites and species: tables for ``gdm``, its curves and limits, and held-out sites."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy.special import rel_entr
from sklearn.base import clone

from probmetric.arguments import check_number
from probmetric.cli.files import note
from probmetric.cli.inputs import Learner, describe, of_option
from probmetric.cli.options import DataSpec, SiteOptions
from probmetric.data.containers import Pairs
from probmetric.data.factors import coded, factors_of, levels_in
from probmetric.data.hash import canonical_order
from probmetric.data.sites import site_pairs
from probmetric.datasets.columns import doubtful_columns
from probmetric.datasets.sites import Sites, load_sites
from probmetric.metric import Dissimilarity
from probmetric.metric.protocol import MetricDraws
from probmetric.names import existing
from probmetric.posterior.interval_metric import IntervalMetric
from probmetric.posterior.metric import PosteriorMetric

PROB = 0.9
"""Nominal coverage of limits."""

PLACES = {"lon", "long", "longitude", "lat", "latitude"}
"""Names of covariates that are probably coordinates."""


class Community:
    """Covariates of sites, their species, and a description for summary.json."""

    def __init__(
        self, sites: Sites, measure: str, name: str, about: dict[str, Any]
    ) -> None:
        self.sites, self.measure, self.name, self.about = sites, measure, name, about

    @cached_property
    def frame(self) -> pd.DataFrame:
        """Covariates as numbers: a factor has a column for each level."""
        return coded(self.sites.covariates, factors_of(self.sites.covariates))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of ``frame``."""
        return (*map(str, self.frame.columns),)

    @cached_property
    def pairs(self) -> Pairs:
        """Pairs of sites."""
        return site_pairs(self.frame, self.sites.species, measure=self.measure)


def community(
    options: SiteOptions, spec: DataSpec, names: Sequence[str] | None = None
) -> Community:
    """Read the tables; ``names`` are the features of a stored metric."""
    assert options.sites is not None
    assert options.species is not None
    with ExitStack() as stack:
        for name in ("sites", "species", "id", "features"):
            stack.enter_context(of_option(f"--{name}", name))
        tables = load_sites(options.sites, options.species, options.id, spec.how)
    X, species = tables
    if names is not None:
        X = coded(X, levels_in(names, X))
        tables = tables._replace(covariates=X)
    data = Community(tables, options.measure, options.sites, {})
    rows = data.frame.to_numpy(float)
    lacking = np.argwhere(~np.isfinite(rows))
    if len(lacking):
        row, column = lacking[0]
        raise ValueError(
            f"--sites must have a number in every cell, got {rows[row, column]} in "
            f"column {data.feature_names[column]!r} at site {X.index[row]!r}. Remove "
            "the site from both tables, or omit the column with --drop"
        )
    for remark in doubtful_columns(rows, data.feature_names):
        note(remark)
    places = [name for name in X if name.lower() in PLACES]
    if len(places) > 1 and options.coordinates is None and names is None:
        note(
            f"columns {' and '.join(places)} are used as covariates. To use geographic "
            f"distance instead, add --coordinates LON,LAT"
        )
    place = str(existing(options.sites).resolve())
    content = [rows, species.to_numpy()]
    about = describe(spec, place, len(X), data.feature_names, {}, content)
    about["sites"] = {
        "species": str(existing(options.species).resolve()),
        "n_species": species.shape[1],
        "measure": options.measure,
    }
    data.about = about
    return data


def check_learner(estimator: Learner, options: SiteOptions) -> None:
    """Raise if the learner does not fit sites; set its coordinates."""
    if not hasattr(estimator, "fit_sites"):
        raise ValueError(
            f"--sites is only supported by gdm, got {type(estimator).__name__}. Use "
            "--data instead."
        )
    if options.coordinates is not None:
        pair = (*(part.strip() for part in options.coordinates.split(",")),)
        estimator.set_params(coordinates=pair)


def fit_sites(estimator: Learner, data: Community) -> None:
    """Fit to the sites."""
    X, species = data.sites
    with of_option("--species", "species"):
        cast("Any", estimator).fit_sites(X, species, measure=data.measure)


def results_of(
    estimator: Any,
    uncertainty: PosteriorMetric | IntervalMetric | None = None,
    *,
    permutations: int | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Describe a fitted GDM for summary.json."""
    effects = estimator.effects(uncertainty, prob=PROB)
    results: dict[str, Any] = {
        "deviance_explained": estimator.deviance_explained_,
        "effects": effects.to_dict(orient="index"),
        "prob": PROB,
    }
    if estimator.coordinates is not None:
        results["shares"] = estimator.deviance_shares()
    if permutations is not None:
        table = estimator.importance(n_repeats=permutations, prob=PROB, seed=seed)
        results["importance"] = table.to_dict(orient="index")
        results["permutations"] = permutations
    return results


def curve_table(
    estimator: Any, uncertainty: PosteriorMetric | IntervalMetric
) -> pd.DataFrame:
    """Return the points of the curves with limits, for curves.csv."""
    found = estimator.curves(uncertainty, prob=PROB)
    columns = {k: np.ravel(getattr(found, k)) for k in ("x", "s", "lower", "upper")}
    return pd.DataFrame(
        {"curve": np.repeat(estimator.curve_names_, found.x.shape[1]), **columns}
    )


def in_words(results: dict[str, Any]) -> str:
    """Format deviance explained, and intercept and heights, with limits."""
    table = pd.DataFrame(results["effects"]).T
    lines = [f"deviance explained {results['deviance_explained']:.1%}"]
    if "shares" in results:
        parts = {k: f"{v:.1%}" for k, v in results["shares"].items() if k != "total"}
        words = ", ".join(f"only {k} {v}" for k, v in parts.items() if k != "either")
        lines[0] += f" ({words}, either {parts['either']})"
    lines.append(table.to_string(float_format="{:.3f}".format))
    if "importance" in results:
        table = pd.DataFrame(results["importance"]).T
        lines.append(table.to_string(float_format="{:.3f}".format))
    return "\n".join(lines)


class Split(NamedTuple):
    """Held-out pairs, and the predicted dissimilarity of each method."""

    rows: Int[np.ndarray, "N"]
    predicted: dict[str, Float[np.ndarray, "N"]]


def folds_of(data: Community, n_folds: int, seed: int) -> list[Int[np.ndarray, "m"]]:
    """Deal sites to folds, independently of the order of rows."""
    n = len(data.frame)
    check_number("--folds", n_folds, 2, n, whole=True)
    order = canonical_order(data.frame.to_numpy(float))
    dealt = order[np.random.default_rng(seed).permutation(n)]
    return [dealt[k::n_folds] for k in range(n_folds)]


def held_out(
    learner: Learner, name: str, data: Community, test: Int[np.ndarray, "m"]
) -> Split:
    """Fit without some sites, and predict all pairs with at least one left-out site."""
    train = np.setdiff1d(np.arange(len(data.frame)), test)
    model: Any = clone(cast("Any", learner))
    X, species = data.frame, data.sites.species
    model.fit_sites(X.iloc[train], species.iloc[train], measure=data.measure)
    pairs = data.pairs
    out = np.isin(pairs.i, test) | np.isin(pairs.j, test)
    return _split(name, data, np.flatnonzero(out), ~out, model.get_metric())


def all_pairs(metric: Dissimilarity | MetricDraws, name: str, data: Community) -> Split:
    """Predict all pairs of sites by a stored metric."""
    rows = np.arange(len(data.pairs.i))
    return _split(name, data, rows, rows, metric)


def _split(
    name: str, data: Community, rows: np.ndarray, learned: np.ndarray, metric: Any
) -> Split:
    pairs = data.pairs
    share = np.asarray(pairs.y)[learned].sum() / np.asarray(pairs.trials)[learned].sum()
    ends = pairs.X[pairs.i[rows]], pairs.X[pairs.j[rows]]
    predicted = 1 - np.asarray(metric.same_probability(*ends))
    mean = np.full(len(rows), 1 - share)
    return Split(rows, {"mean dissimilarity": mean, name: predicted})


def judged(
    data: Community, split: Split
) -> Iterator[tuple[str, pd.DataFrame, dict[str, float]]]:
    """Yield each method with its predictions of held-out pairs, and their scores."""
    pairs, rows = data.pairs, split.rows
    y, trials = (np.asarray(a, float)[rows] for a in (pairs.y, pairs.trials))
    weight = 1.0 if pairs.w is None else np.asarray(pairs.w)[rows]
    labels, observed = data.frame.index.to_numpy(), 1 - y / trials

    def deviance(P: np.ndarray) -> float:
        terms = rel_entr(y, trials * (1 - P)) + rel_entr(trials - y, trials * P)
        return float(np.sum(weight * terms))

    sites = {"site_a": labels[pairs.i[rows]], "site_b": labels[pairs.j[rows]]}
    table = pd.DataFrame({**sites, "dissimilarity": observed})
    base, *_ = split.predicted.values()
    null = deviance(base)
    if null <= 1e-12 * np.sum(weight * trials):
        raise ValueError(
            "--species: pairs of sites must differ in dissimilarity, got "
            f"{observed[0]:.3g} for all pairs. Use other --sites and --species."
        )
    for method, P in split.predicted.items():
        yield (
            method,
            table.assign(predicted=P),
            {
                "deviance_explained": 1 - deviance(P) / null,
                "rmse": float(np.sqrt(np.mean((observed - P) ** 2))),
                "mean_error": float(np.mean(np.abs(observed - P))),
            },
        )
