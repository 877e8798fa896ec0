"""Write the table of learners in NOTATION.md, and the figures.

    python tools/readme.py            rewrite the table (from the registry)
    python tools/readme.py figures    redraw docs/*.png as well

A test checks that the table is the one that this script writes.
"""

import re
import sys
from pathlib import Path
from typing import Any

from probmetric import MODELS

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- learners: tools/readme.py -->\n", "<!-- end of learners -->\n"


def learners() -> str:
    """Return the table of learners, one row a registered model."""
    lines = [
        "| model | what it is | learns from | metric | NumPyro model | checks |",
        "|---|---|---|---|---|---|",
    ]
    for name, spec in sorted(MODELS.items()):
        exact = sum(check.kind == "exact" for check in spec.checks)
        near = len(spec.checks) - exact
        checks = f"{exact} exact" + (f", {near} approximate" if near else "")
        story = "–" if spec.model is None else "yes"
        lines.append(
            f"| `{name}` | {spec.summary} | {spec.data_kind.__name__} | "
            f"`{spec.metric_kind.__name__}` | {story} | {checks} |"
        )
    return "\n".join(lines) + "\n"


def with_table(text: str) -> str:
    """Return the page with the table of learners written again."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return before + BEGIN + learners() + END + after


def figures() -> None:
    """Draw what the README shows: Wine under LCA."""
    import probmetric as pm

    wine = pm.datasets.load("wine")
    train, test = slice(0, None, 2), 83
    lca = pm.LCA().fit(wine.frame, wine.y)
    draws = lca.sample("laplace", n_draws=500)
    pm.plots.metric(draws).savefig(ROOT / "docs/wine_metric.png", dpi=150)
    near = pm.LCA().fit(wine.X[train], wine.y[train]).posterior_metric("intervals")
    pm.plots.neighbor_probabilities(
        near,
        wine.X[test],
        wine.X[train],
        5,
        y=wine.y[train],
        target_names=wine.target_names,
    ).savefig(ROOT / "docs/wine_neighbors.png", dpi=150)
    # Pages' own programs draw their figures, here by their first blocks of code.
    for page, blocks, name in (
        ("which_variables", 1, "wine_variables"),
        ("sites", 2, "biocrust_curves"),
        ("triplets", 5, "capitals"),
        ("labels", 2, "wine_plane"),
        ("few_labels", 3, "cancer_typicality"),
        ("model_fit", 3, "wine_predictive"),
        ("posterior", 6, "wine_posterior"),
        ("pairs", 1, "iris_pairs"),
    ):
        _program(page, blocks)["figure"].savefig(ROOT / f"docs/{name}.png", dpi=150)


def _program(page: str, blocks: int) -> dict[str, Any]:
    """Return what the first blocks of a page of the guide define."""
    text = (ROOT / f"docs/guide/{page}.md").read_text(encoding="utf-8")
    found = re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)[:blocks]
    space: dict[str, Any] = {}
    exec(compile("".join(found), page, "exec"), space)
    return space


if __name__ == "__main__":
    page = ROOT / "NOTATION.md"
    page.write_text(with_table(page.read_text()))
    if "figures" in sys.argv[1:]:
        figures()
