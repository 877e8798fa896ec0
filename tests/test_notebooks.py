"""Stored notebooks: what is compared with a new run, and what no reader should meet.

``make notebooks`` executes them and compares; here they are read only.
"""

import base64
import copy
import struct
from pathlib import Path

import nbformat
import pytest

from tools.notebooks import describe, said, spoken

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def stream(text):
    return {"output_type": "stream", "name": "stdout", "text": text}


def figure(alt):
    about = {"image/png": {"alt": alt}}
    return {"output_type": "display_data", "data": {"image/png": ""}, "metadata": about}


def png_size(encoded):
    return struct.unpack(">II", base64.b64decode(encoded)[16:24])


@pytest.mark.parametrize(
    "old, new, same",
    [
        (stream("loss 0.123 ± .004\n"), stream("loss 1.5e-03  ± .1\n"), True),
        (stream("loss 0.123"), stream("gain 0.123"), False),
        (stream("in /a/b/c.py:3: it"), stream("in c.py:30: it"), True),
        (stream("LDA .5 RCA .4"), stream("RCA .6 LDA .5"), True),
        (stream("the interval covers"), stream("the interval does not"), False),
        (figure("Eigenvalues. x: size"), figure("Eigenvalues. x: size"), True),
        (figure("Eigenvalues. x: size"), figure("Spectrum. x: size"), False),
        (figure("Eigenvalues"), stream("Eigenvalues"), False),
    ],
)
def test_words_are_compared_and_numbers_are_not(old, new, same):
    assert (said(old) == said(new)) is same


def test_a_figure_that_is_missing_is_seen():
    stored = nbformat.read(NOTEBOOKS[0], as_version=4)
    new = copy.deepcopy(stored)
    assert spoken(stored) == spoken(new)
    drawn = [c for c in new["cells"] if any("image/png" in o.get("data", {})
             for o in c.get("outputs", []))]  # fmt: skip
    drawn[0]["outputs"] = [
        o for o in drawn[0]["outputs"] if "image/png" not in o.get("data", {})
    ]
    assert len(spoken(new)) == len(spoken(stored)) - 1


def test_the_words_of_a_cell_stand_before_those_of_its_pictures():
    about = {"mystnb": {"image": {"alt": "A forest plot"}}}
    outputs = [figure(""), figure("Eigenvalues"), stream("x")]
    cell = {"cell_type": "code", "metadata": about, "outputs": outputs}
    describe({"cells": [cell, {"cell_type": "markdown", "metadata": {}}]})
    told = [o["metadata"]["image/png"]["alt"] for o in outputs[:2]]
    assert told == ["A forest plot", "A forest plot. Eigenvalues"]


def test_every_stored_picture_has_words_and_150_dots_an_inch():
    for path in NOTEBOOKS:
        cells = nbformat.read(path, as_version=4)["cells"]
        outputs = [o for c in cells for o in c.get("outputs", [])]
        drawn = [o for o in outputs if "image/png" in o.get("data", {})]
        assert drawn, path.name
        for output in drawn:
            about = output["metadata"].get("image/png", {})
            assert about.get("alt"), path.name
            # Shown on screens of 110 dots an inch at the width that is stored.
            dots, _ = png_size(output["data"]["image/png"])
            assert dots / about.get("width", dots) * 110 >= 150, (path.name, about)


def test_stored_output_is_whole_and_readable():
    for path in NOTEBOOKS:
        cells = nbformat.read(path, as_version=4)["cells"]
        code = [c for c in cells if c["cell_type"] == "code"]
        counts = [c["execution_count"] for c in code]
        assert counts == list(range(1, len(code) + 1)), path.name
        lines = spoken({"cells": cells})
        assert lines, path.name
        for line in lines:
            for stuck in ("np.float", "it/s]", "%|", "Traceback", "Error: "):
                assert stuck not in line, (path.name, line[:200])
