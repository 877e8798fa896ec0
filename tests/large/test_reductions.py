"""Every reduction: chunks add up, padding is nothing, streamed is whole."""

import warnings
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

import probmetric as pm
from probmetric.inference.mixture.em import MixtureData, e_step
from probmetric.inference.mixture.prior import default_prior
from probmetric.inference.mixture.start import start_mixture
from probmetric.large.files import Rows
from probmetric.large.mixture import MIXTURE, Given
from probmetric.large.moments import CLASSES, COLUMNS
from probmetric.large.reduce import Reduction, total
from probmetric.large.source import Part, sample_rows

C, D = 4, 3


def points(n: int = 4000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.sort(rng.integers(0, C, n))  # Sorted: parts lack classes.
    X = rng.normal(size=(n, D)) * [1, 2, 0.1] + y[:, None]
    return X, y, rng.choice([0.0, 0.5, 1.0, 2.0], n)


class Case(NamedTuple):
    reduction: Reduction[Any, Any, Any]
    params: Any
    whole: Any
    """Statistics of (X, y, w) by another way."""


def columns(X: np.ndarray, w: np.ndarray) -> list[np.ndarray]:
    Z = X[w > 0]
    square = ((Z - Z.mean(0)) ** 2).sum(0)
    return [np.asarray(len(Z)), Z.min(0), Z.max(0), Z.mean(0), square]


def classes(X: np.ndarray, y: np.ndarray, w: np.ndarray) -> list[np.ndarray]:
    n = np.array([w[y == c].sum() for c in range(C)])
    mean = np.stack([np.average(X[y == c], 0, w[y == c]) for c in range(C)])
    scatter = [
        (X[y == c] - mean[c]).T @ ((X[y == c] - mean[c]) * w[y == c, None])
        for c in range(C)
    ]
    squares = np.array([(w[y == c] ** 2).sum() for c in range(C)])
    return [*columns(X, w), n, mean, np.stack(scatter), squares]


X0 = points()[0]
PARAMS = start_mixture(X0, np.ones(len(X0)), 3, prior=default_prior(X0, 3))
CASES = {
    "columns": Case(COLUMNS, None, lambda X, y, w: columns(X, w)),
    "classes": Case(CLASSES, np.zeros(C), classes),
    "mixture": Case(
        MIXTURE,
        Given(PARAMS, None),
        lambda X, y, w: list(e_step(PARAMS, MixtureData(X, w))),
    ),
}


def close(found: Any, wanted: Any, rtol: float = 1e-12) -> None:
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True)
    for a, b in pairs:
        atol = rtol * max(np.abs(b).max(), 1e-300)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def cut_into(source: Rows, ends: list[int]) -> Rows:
    source.parts = [
        Part("", a, b - a, start=a) for a, b in zip([0, *ends], ends, strict=False)
    ]
    return source


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    "ends", [[1, 4000], [0, 1500, 1501, 4000], [*range(250, 1751, 250), 4000]]
)
def test_streamed_is_whole_in_any_cut(name: str, ends: list[int]) -> None:
    X, y, w = points()
    case = CASES[name]
    source = cut_into(Rows(X, y, w), ends)  # The largest part fills one block.
    found = total(case.reduction, case.params, source, classes=np.arange(C))
    close(found, case.whole(X, y, w))


def test_plain_sums_of_squares_would_fail() -> None:
    # The negative control: what is summed about 0 loses what Eq. (1) keeps.
    X, y, w = points()
    far = X + 1e7
    found = total(CLASSES, np.zeros(C), Rows(far, y, w), classes=np.arange(C))
    wanted = classes(far, y, w)[7]
    np.testing.assert_allclose(found.classes.scatter, wanted, rtol=1e-6, atol=1e-3)
    raw = np.einsum("n,ni,nj->ij", w, far, far)
    raw = raw - w.sum() * np.multiply.outer(*2 * [w @ far / w.sum()])
    exact = (far - w @ far / w.sum()).T @ ((far - w @ far / w.sum()) * w[:, None])
    assert np.abs(raw - exact).max() > 1e-3


def test_a_sample_depends_on_seed_and_row_alone() -> None:
    X, y, w = points()
    one = sample_rows(Rows(X), seed=3, most=500)[0]
    cuts = cut_into(Rows(X), [1, 700, 1400, 4000])
    other = sample_rows(cuts, seed=3, most=500)[0]
    np.testing.assert_array_equal(one, other)
    assert 400 < len(one) < 600
    assert len(sample_rows(Rows(X), seed=4, most=500)[0]) != 0
    assert not np.array_equal(one, sample_rows(Rows(X), seed=4, most=500)[0])
    np.testing.assert_array_equal(sample_rows(Rows(X))[0], X)
    assert len(sample_rows(Rows(X, y, w))[0]) == (w > 0).sum()
    drawn = sample_rows(Rows(X, y), seed=3, most=500, classes=np.arange(C))
    np.testing.assert_array_equal(drawn[0], one)
    at = [np.flatnonzero((X == row).all(1))[0] for row in drawn[0]]
    np.testing.assert_array_equal(drawn[1], y[at])


@pytest.mark.parametrize(
    ("model", "standardize"),
    [
        (pm.LDA(prior_strength=1), False),
        (pm.RCA(prior_strength=2), True),
        (pm.LDA(prior_strength=0), True),
    ],
)
def test_lda_and_rca_of_a_source_are_those_of_arrays(
    model: Any, standardize: bool
) -> None:
    X, y, _ = points()
    if model.prior_strength:
        X[:, -1] = 7.0  # A column that is constant.
    model.set_params(standardize=standardize)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        whole = type(model)(**model.get_params()).fit(X, y)
        found = model.fit(pm.open(X, label=y))
    names = ("components_", "means_", "covariance_", "priors_", "mean_", "scale_")
    for name in names:
        close(getattr(found, name), getattr(whole, name), 1e-9)
    assert found.classes_.tolist() == whole.classes_.tolist()
    np.testing.assert_allclose(found.transform(X), whole.transform(X), rtol=1e-8)
    with pytest.raises(ValueError, match="requires the training rows"):
        found.sample()


@pytest.mark.long
def test_a_mixture_of_a_source_is_that_of_arrays() -> None:
    X, _, _ = points()
    whole = pm.TwoStageMixture(3, random_state=1).fit(X)
    found = pm.TwoStageMixture(3, random_state=1).fit(pm.open(X))
    for name in ("weights_", "means_", "within_", "between_"):
        close(getattr(found, name), getattr(whole, name), 1e-9)
    assert found.objective_ == pytest.approx(whole.objective_, rel=1e-12)
    assert (found.n_iter_, found.converged_) == (whole.n_iter_, True)
    with pytest.raises(ValueError, match="whose rows are not stored"):
        found.sample()


def test_what_cannot_stream_says_what_to_give() -> None:
    X, y, _ = points(50)
    source = pm.open(X, label=y)
    for model, said in [
        (pm.LDA(), "prior_strength must be a number, such as prior_strength=1"),
        (pm.RCA(), "prior_strength must be a number"),
        (pm.TwoStageMixture(2, flattening="held-out"), "flattening must be None or"),
        (pm.TwoStageMixture([1, 2]), "n_components must be one number"),
    ]:
        with pytest.raises(ValueError, match=said):
            model.fit(source)
    with pytest.raises(ValueError, match="y must be None for data on disk"):
        pm.LDA(prior_strength=1).fit(source, y)
    with pytest.raises(ValueError, match=r"label.* arrays, got none"):
        pm.LDA(prior_strength=1).fit(pm.open(X))
