"""``PairLDA``: scikit-learn's conventions, labels and pairs, and bad input."""

import numpy as np
import pytest
from sklearn.datasets import load_wine

from probmetric.data.pairs import all_pairs, nearest_pairs
from probmetric.estimators.pair_lda import PairLDA
from tests.dump import assert_refused

X, y = load_wine(return_X_y=True)


def side_by_side(pairs):
    return np.stack([pairs.X[pairs.i], pairs.X[pairs.j]], 1)


@pytest.mark.parametrize("method", ["generalized", "kissme", "rca"])
def test_all_pairs_handed_in_give_the_fit_from_labels(method):
    pairs = all_pairs(X, y)
    for s in (0, 20):  # Of 178 points, or of so many of their pairs.
        labels = PairLDA(method=method, prior_strength=s).fit(X, y)
        handed = PairLDA(method=method, prior_strength=s * len(pairs.y) / 178)
        np.testing.assert_allclose(
            handed.fit_pairs(side_by_side(pairs), pairs.y).get_mahalanobis_matrix(),
            labels.get_mahalanobis_matrix(),
            rtol=1e-8,
        )


def test_integer_pairs_are_rows_of_the_preprocessor():
    pairs = nearest_pairs(X, y)
    index = np.stack([pairs.i, pairs.j], 1)
    by_row = PairLDA(preprocessor=X).fit_pairs(index, pairs.y)
    by_point = PairLDA().fit_pairs(side_by_side(pairs), 2 * pairs.y - 1)
    np.testing.assert_allclose(by_row.components_, by_point.components_, rtol=1e-9)
    np.testing.assert_allclose(
        by_row.pair_distance(index[:9]), by_point.pair_distance(side_by_side(pairs)[:9])
    )
    assert set(by_row.predict(index)) == {0, 1}
    assert set(by_point.predict(side_by_side(pairs))) == {-1, 1}


def test_notes_form_is_refused_with_the_alpha_that_it_needs():
    with pytest.raises(ValueError, match=r"alpha must be above .* for method") as error:
        PairLDA(method="notes").fit(X, y)
    least = float(str(error.value).split(" above ")[1].split(" for ")[0])
    fitted = PairLDA(method="notes", alpha=1.01 * least).fit(X, y)
    assert np.linalg.eigvalsh(fitted.get_mahalanobis_matrix())[0] > 0


def test_bad_pairs_are_refused():
    pairs = side_by_side(nearest_pairs(X, y))
    calls = [
        lambda: PairLDA(14).fit(X, y),
        lambda: PairLDA().fit_pairs(pairs, np.ones(len(pairs))),
        lambda: PairLDA().fit_pairs(pairs * np.nan, np.ones(len(pairs))),
        lambda: PairLDA().fit_pairs(
            pairs, np.arange(len(pairs)) % 2, sample_weight=-np.ones(len(pairs))
        ),
    ]
    assert_refused(calls, "estimators/pair_lda.txt")
