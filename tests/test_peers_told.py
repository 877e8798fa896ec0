"""Figures on the page that compares learners are measured."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def tables(text):
    """Return the tables of a page, each by learner and probabilities."""
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", text, re.M):
        head, _, *body = [
            [cell.strip(" `") for cell in line.strip("|\n").split("|")]
            for line in block.splitlines()
        ]
        rows = {tuple(row[:2]): dict(zip(head, row, strict=True)) for row in body}
        found.append((head, rows))
    return found


def as_told(cell):
    """Write a cell of figures as the pages do."""
    return cell.replace("-", "−")


def told():
    """Return the page that compares learners."""
    return (ROOT / "benchmarks/compared.md").read_text()


def stored():
    """Return the tables of the stored result."""
    return tables((ROOT / "benchmarks/results/peers.md").read_text())


def test_every_learner_is_told_with_the_differences_measured():
    means, euclid = (
        next(rows for head, rows in stored() if wanted in head)
        for wanted in ("few: accuracy, %", "few")
    )
    ((_, rows),) = tables(told())
    assert rows.keys() == euclid.keys()
    for key, row in rows.items():
        for size in ("n = 20", "few", "70 %"):
            written = row[f"log loss, {size.replace(' %', '%')}"]
            assert written == as_told(euclid[key][size]), (key, size)
        for size in ("few", "70 %"):
            gap = re.search(r"\((.*)\)", means[key][f"{size}: accuracy, %"])
            wanted = as_told(gap[1]) if gap else "–"
            assert row[f"accuracy, {size.replace(' %', '%')}"] == wanted, (key, size)


def test_figures_in_the_text_are_measured():
    results = ROOT / "benchmarks/results"
    names = re.findall(r"\bresults/(\w+\.md)", told())
    pages = ((results / name).read_text() for name in names)
    cells = "".join(line for page in pages for line in re.findall(r"^\|.*", page, re.M))
    measured = as_told(cells)
    said = re.findall(r"[+−]\d\.\d+ ± \d\.\d+", told())
    assert len(said) > 20
    assert not [figure for figure in said if figure not in measured]
