"""``probmetric report`` and ``explore``: a run's page once more; a page to explore."""

from contextlib import ExitStack
from pathlib import Path

from probmetric.cli.files import bad_input, claim, claim_file, noted, say, write_text
from probmetric.cli.inputs import check_features, given, labelled
from probmetric.names import AS_IS, Reading
from probmetric.report.explore import Page
from probmetric.report.explore import explore as explorer
from probmetric.report.page import data_again
from probmetric.report.run import EXPLORER, read_summary, render_run


def run(*, folder: Path, explore: bool = False) -> int:
    """Do what was asked; return the exit code; raises as ``cli.fit.run``."""
    with ExitStack() as held:
        held.enter_context(noted())
        with bad_input():
            names = ("report.html", EXPLORER) if explore else ("report.html",)
            held.enter_context(claim(folder, names, force=True))
            page = render_run(folder, explorer=explore)  # Finds a damaged summary.
            points = explorer_of(folder) if explore else None
        if points is not None:
            points.save(folder / EXPLORER)
        write_text(folder / "report.html", page)
    for name in names:
        say(f"Wrote {folder / name}")
    return 0


def explore(
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
    """Write a page of a metric, as ``probmetric explore``; otherwise as ``run``."""
    with ExitStack() as held:
        held.enter_context(noted())  # The page is made when it is saved.
        with bad_input():
            held.enter_context(claim_file(out, ".html", force=force))
            use = given(metric, draws, max_draws)
            points = labelled(data, label, how=how)
            check_features(use.feature_names, points.feature_names, points.name)
            try:
                page = explorer(
                    use.metric,
                    points.X,
                    points.y,
                    k=k,
                    feature_names=points.feature_names,
                    target_names=points.target_names,
                    title=f"{Path(points.name).name} under {use.name}",
                )
            except ImportError as error:  # Plotly, which is optional.
                raise ValueError(str(error)) from error
        page.save(out)
    say(f"Wrote {out}")
    return 0


def explorer_of(folder: Path) -> Page:
    """Return the page to explore a run's metric, or draws, with its data.

    Raises
    ------
    ValueError
        For a run of other commands; where the data are not there any more, unchanged;
        without Plotly.
    """
    summary = read_summary(folder)
    kept = {"fit": "metric.npz", "sample": "draws.nc"}.get(str(summary.get("command")))
    if kept is None:
        raise ValueError(
            f"--explore: expected a run of fit or sample, got one of "
            f"{summary.get('command')!r}"
        )
    path = folder / kept
    of_fit = path.suffix == ".npz"
    use = given(path if of_fit else None, None if of_fit else path, max_draws=200)
    data, lacking = data_again(summary, None)
    if data is None:
        raise ValueError(
            f"--explore: expected the data of the run, got none. {lacking}"
        )
    try:
        return explorer(
            use.metric,
            data.X,
            data.y,
            feature_names=data.feature_names,
            target_names=data.target_names,
            title=f"{Path(data.name).name} under {use.name}",
        )
    except ImportError as error:  # Plotly, which is optional.
        raise ValueError(str(error)) from error
