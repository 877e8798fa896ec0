"""Pages of folders that are written by hand: a summary and tables of fixed numbers."""

import pytest

from probmetric.report import page
from probmetric.report.run import render_run, write_summary
from tests.expected import figure_text, page_text

RUN = {
    "asked": "probmetric as asked",
    "seed": 7,
    "versions": {"probmetric": "a.b", "numpy": "c.d"},
    "notes": [],
}


@pytest.fixture
def texts(monkeypatch):
    """Have pictures written as text."""
    saved = lambda figure, **_: figure_text(figure).encode()  # noqa: E731
    monkeypatch.setattr(page, "_saved", saved)


@pytest.fixture
def made(tmp_path, texts):
    """Return a function that makes the page of a summary and tables, as text."""

    def make(command, summary, *, explorer=False, **tables):
        for name, frame in tables.items():
            frame.to_csv(tmp_path / f"{name}.csv", index=False)
        write_summary(tmp_path / "summary.json", command, RUN | summary)
        return page_text(render_run(tmp_path, explorer=explorer))

    return make
