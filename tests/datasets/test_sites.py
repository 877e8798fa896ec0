"""The sites that come with the package: what the file is said to hold."""

from pathlib import Path

import numpy as np
import pytest

from probmetric import datasets
from probmetric.datasets import biocrust
from probmetric.datasets.sites import load_sites


def test_the_crusts_are_those_of_their_source():
    X, reads = biocrust()
    crossed = [(h, m) for h in (0.05, 9, 18, 42, 49.5) for m in (1, 2, 3, 4)]
    crossed.remove((9, 4))  # The sample that is missing.
    assert list(X.itertuples(index=False, name=None)) == crossed
    # Reads of three samples and of one bacterium, summed from scikit-bio's own file.
    totals = reads.sum(axis=1)
    assert totals[["3min_late", "18hr_latemid", "49p5hr_late"]].tolist() == [
        21088,
        28194,
        17848,
    ]
    assert reads["rplo 1 (Cyanobacteria)"].sum() == 34550
    assert reads.shape == (19, 466)
    assert (reads.dtypes == np.int64).all()
    assert (reads.to_numpy() >= 0).all()
    # The names say it too.
    assert X.loc["42hr_earlymid"].tolist() == [42, 2]


@pytest.mark.parametrize("words", ["Swenson", "Redistribution and use", "Changed here"])
def test_the_file_of_the_crusts_says_whose_it_is(words):
    path = Path(datasets.__path__[0]) / "biocrust.txt"
    assert words in path.read_text(encoding="utf-8")


def test_row_names_as_r_writes_them_are_the_sites(tmp_path):
    files = [tmp_path / "env.csv", tmp_path / "community.csv"]
    files[0].write_text('"","rain"\n"a",1.5\n"b",2.5\n')
    files[1].write_text('"","oak","elm"\n"b",0,3\n"a",1,2\n')
    X, species = load_sites(*map(str, files))
    assert X.to_dict() == {"rain": {"a": 1.5, "b": 2.5}}
    assert species.to_numpy().tolist() == [[1, 2], [0, 3]]
    # With an id, a column without a name is an oversight.
    files[0].write_text(',plot,rain\n0,"a",1.5\n1,"b",2.5\n')
    files[1].write_text("plot,oak,elm\nb,0,3\na,1,2\n")
    with pytest.raises(ValueError, match="got none for column 1"):
        load_sites(*map(str, files), id="plot")
