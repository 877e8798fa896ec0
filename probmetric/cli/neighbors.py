"""``probmetric neighbors``: nearest points, with distances or probabilities."""

from contextlib import ExitStack

import numpy as np

from probmetric.cli.files import bad_input, claim_file, note, say, write_table
from probmetric.cli.inputs import (
    StoredMetric,
    check_features,
    load_stored,
    of_option,
    points_for,
)
from probmetric.cli.options import DataSpec, Neighbors
from probmetric.large.rows import all_rows, is_large, last_column, open_rows, stored
from probmetric.large.source import Source, n_rows
from probmetric.names import in_parts
from probmetric.neighbors.table import neighbor_table
from probmetric.neighbors.typicality import check_novelty, reference
from probmetric.posterior.metric import PosteriorMetric


def run(options: Neighbors) -> int:
    """Search, and return the exit code; raises as ``cli.fit.run``."""
    out, k, spec = options.out, options.k, options.spec(options.data)
    with ExitStack() as stack:
        with bad_input():
            if out is not None:
                stack.enter_context(claim_file(out, ".csv", force=options.force))
            if options.novelty is not None and options.queries is None:
                raise ValueError(
                    "--novelty requires --queries, got none. Add --queries."
                )
            use = load_stored(options)
            rows, queries = _rows(spec, options.queries, use), None
            if options.queries is not None:
                with of_option("--queries"):
                    queries = _queries(spec._replace(name=options.queries), use)
            if rows is not None:
                n, labels, points = n_rows(rows), None, rows
            else:
                loaded = points_for(spec, use)
                n, labels, points = len(loaded.X), loaded.labels, loaded.X
            metric = use.refits or use.metric
            posterior = isinstance(metric, PosteriorMetric)
            if posterior and use.learner == "lca" and not metric.pairs_independent:
                note(
                    "probabilities from draws after a fit to labels are less well "
                    "calibrated than from refits. Use fit --intervals, and neighbors "
                    "--metric."
                )
            table = neighbor_table(metric, points, k, queries=queries, labels=labels)
            if options.novelty is not None and queries is not None:
                check_novelty(options.novelty, n)
                p = np.repeat(reference(use.metric, points).p_values(queries), k)
                table = table.assign(typicality=p, novel=p <= options.novelty)
        if not write_table(table, out):
            return 0
    say(
        f"Wrote {out} | the {k} nearest of {len(table) // k} queries among {n} points, "
        f"by {use.name}"
    )
    return 0


def _rows(spec: DataSpec, queries: str | None, use: StoredMetric) -> Source | None:
    """Open points that are read in chunks; None if they are loaded."""
    label = spec.label
    if in_parts(spec.name):
        if queries is None:
            raise ValueError(
                "--queries is required if --data is read in chunks, got none. Write "
                "the query rows to a file and pass it as --queries."
            )
    elif queries is not None and is_large(spec.name):
        about = stored(spec.name) if label is None else None
        names = [] if about is None else set(about.columns) - set(spec.how.drop)
        if not spec.how.features and len(names) == use.n_features + 1:
            label = last_column(spec.name, spec.how)
    else:
        return None
    source = open_rows(spec.name, label, spec.how)
    check_features(use.feature_names, source.feature_names, source.name)
    return source


def _queries(spec: DataSpec, use: StoredMetric) -> np.ndarray:
    if not in_parts(spec.name):
        return points_for(spec, use, bare=True).X
    try:
        source = open_rows(spec.name, spec.label, spec.how)
    except ValueError:
        source = open_rows(spec.name, None, spec.how)
    check_features(use.feature_names, source.feature_names, source.name)
    return all_rows(source)
