"""The report needs no other file, escapes what it is given, and says it all."""

import re

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from probmetric.provenance import versions
from probmetric.report.page import (
    Picture,
    Report,
    Section,
    Table,
    _image,
    render,
)


@pytest.fixture
def page():
    figure = Figure(figsize=(2, 1))
    axis = figure.subplots()
    axis.plot([0, 1])
    axis.set(title="From zero to one", xlabel="step")
    frame = pd.DataFrame(
        {
            "check": ["posterior <of> z", "moments"],
            "verdict": ["agree", "disagree"],
            "error": [1.23456e-11, np.nan],
            "entries": [1200, 3],
        }
    )
    section = Section(
        "What was checked",
        "A paragraph & more.",
        Picture(figure, "A line"),
        Table(frame, "The checks"),
        Table(frame, "All of it", folded=True),
    )
    return render(
        Report(
            title="LCA on wine",
            lead="178 wines",
            verdict="disagree",
            headline="One claim fails",
            explanation="See below.",
            sections=[section],
            provenance=versions(),
            cards=[("12", "exact claims")],
        )
    )


def test_the_page_needs_no_other_file(page):
    references = re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?([^"'\s>)]+)""", page)
    assert references
    assert all(r.startswith("data:image/svg+xml;base64,") for r in references)
    assert "http" not in page


def test_very_many_lines_are_stored_as_pixels(monkeypatch):
    monkeypatch.setattr("probmetric.report.page.MOST_SVG", 100)
    figure = Figure(figsize=(2, 1))
    image = _image(figure)
    assert image.source.startswith("data:image/png;base64,")
    assert image.width == 192


def test_missing_parts_and_empty_sections_are_omitted():
    section = Section("Scores", None, "", "First.", Table(pd.DataFrame(), "t"))
    assert section.text == ["First."]
    assert len(section.tables) == 1
    texts = dict.fromkeys(("title", "lead", "headline", "explanation"), "x")
    empty = Section("Problems of the draws", None, "")
    html = render(
        Report(**texts, verdict="done", sections=[empty, section], provenance={})
    )
    assert "<h2>Scores</h2>" in html
    assert "Problems of the draws" not in html


def luminance(color):
    """Relative luminance of #rgb or #rrggbb, as WCAG 2.2 defines it."""
    digits = color[1:] if len(color) == 7 else "".join(c * 2 for c in color[1:])
    s = np.array([int(digits[k : k + 2], 16) / 255 for k in (0, 2, 4)])
    linear = np.where(s <= 0.04045, s / 12.92, ((s + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_texts_have_the_contrast_of_aa_in_the_light_and_in_the_dark(page):
    assert round(contrast("#777", "#fff"), 2) == 4.48  # A known pair just below AA.
    schemes = re.findall(r":root \{(.*?)\}", page, re.DOTALL)
    assert len(schemes) == 2
    for scheme in schemes:
        color = dict(re.findall(r"--([\w-]+): (#\w+)", scheme))
        texts = {"ink", "soft", "good", "bad", "unsure", "blue"}
        read = [(text, back) for text in texts for back in ("paper", "back")]
        read += [("ink", "tag")]
        read += [(kind, f"tag-{kind}") for kind in ("good", "bad", "unsure")]
        for text, back in read:
            assert contrast(color[text], color[back]) >= 4.5, (text, back)
