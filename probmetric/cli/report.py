"""``probmetric report`` and ``explore``: the page of a run; an interactive page."""

from contextlib import ExitStack
from pathlib import Path

from probmetric.cli.files import bad_input, claim, claim_file, noted, say, write_text
from probmetric.cli.inputs import StoredMetric, check_features, labeled, load_stored
from probmetric.cli.options import Explore, Report, UseOptions
from probmetric.datasets.loading import Dataset
from probmetric.report.explore import Page
from probmetric.report.explore import explore as explorer
from probmetric.report.page import data_again
from probmetric.report.run import EXPLORER, read_summary, render_run


def run(options: Report) -> int:
    """Make the page of a run again; return the exit code."""
    folder = options.folder
    names = ("report.html", EXPLORER) if options.explore else ("report.html",)
    with ExitStack() as stack:
        stack.enter_context(noted())
        with bad_input():
            stack.enter_context(claim(folder, names, force=True))
            # Rendering checks the summary, which the explorer reads as it is.
            page = render_run(folder, explorer=options.explore)
            points = explorer_of(folder) if options.explore else None
        if points is not None:
            points.save(folder / EXPLORER)
        write_text(folder / "report.html", page)
    for name in names:
        say(f"Wrote {folder / name}")
    return 0


def explore(options: Explore) -> int:
    """Write an interactive page of a metric; return the exit code."""
    with ExitStack() as stack:
        stack.enter_context(noted())  # The page is made when it is saved.
        with bad_input():
            stack.enter_context(claim_file(options.out, ".html", force=options.force))
            stored = load_stored(options)
            data = labeled(options.spec(options.data))
            check_features(stored.feature_names, data.feature_names, data.name)
            page = _page(stored, data, options.k)
        page.save(options.out)
    say(f"Wrote {options.out}")
    return 0


def _page(stored: StoredMetric, data: Dataset, k: int) -> Page:
    try:
        return explorer(
            stored.refits or stored.metric,
            data.X,
            data.y,
            k=k,
            feature_names=data.feature_names,
            target_names=data.target_names,
            title=f"{Path(data.name).name} under {stored.name}",
        )
    except ImportError as error:  # Plotly is optional.
        raise ValueError(str(error)) from error


def explorer_of(folder: Path) -> Page:
    """Make an interactive page of a run's metric or draws, with its data."""
    summary = read_summary(folder)
    command = summary.get("command")
    if command not in ("fit", "sample"):
        raise ValueError(
            f"--explore requires a run of fit or sample, got a run of {command}. Omit "
            "--explore."
        )
    options = UseOptions(
        metric=folder / "metric.npz" if command == "fit" else None,
        draws=folder / "draws.nc" if command == "sample" else None,
    )
    stored = load_stored(options)
    data, lacking = data_again(summary, None)
    if data is None:
        raise ValueError(f"--explore requires the data of the run. {lacking}")
    return _page(stored, data, min(10, len(data.X) - 1))
