"""``probmetric explore``: a page to explore a metric with the mouse."""

from contextlib import ExitStack
from pathlib import Path

import typer

from probmetric.cli.files import bad_input, claim, noted
from probmetric.cli.inputs import check_features, given, labelled
from probmetric.names import AS_IS, Reading
from probmetric.report import explore


def run(
    *,
    data: str,
    out: Path,
    metric: Path | None = None,
    draws: Path | None = None,
    label: str | None = None,
    how: Reading = AS_IS,
    k: int = 10,
    max_draws: int = 200,
    force: bool = False,
) -> int:
    """Do what was asked; return the exit code; raises as ``cli.fit.run``."""
    with ExitStack() as held:
        held.enter_context(noted())  # The page is made when it is saved.
        with bad_input():
            if out.suffix.lower() != ".html":
                raise ValueError(
                    f"--out: expected a file ending in .html, got {out.name!r}"
                )
            # Held by the file: others may write to the same folder.
            lock = f".{out.name}.lock"
            claimed = claim(out.parent, (out.name,), force=force, lock=lock)
            held.enter_context(claimed)
            use = given(metric, draws, max_draws)
            points = labelled(data, label, how=how)
            check_features(use.feature_names, points.feature_names, points.name)
            try:
                page = explore.explore(
                    use.metric,
                    points.X,
                    points.y,
                    k=k,
                    feature_names=points.feature_names,
                    target_names=points.target_names,
                    title=f"{points.name} under {use.name}",
                )
            except ImportError as error:  # Plotly, which is optional.
                raise ValueError(str(error)) from error
        page.save(out)
    typer.echo(f"Wrote {out}")
    return 0
