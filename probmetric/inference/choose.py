"""Choice of a setting by the losses of held-out points, for all learners.

``choose`` fits every setting of a grid in every fold and collects the losses of the
held-out points, averaged over repeats. A rule then chooses a setting from the table of
losses. The most frequent use is ``choose_strength``, which chooses the strength of a
prior by the soft votes of neighbors and Eq. (1) of ``neighbors.strength``.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from probmetric.data.hash import canonical_order
from probmetric.linalg import one_blas_thread
from probmetric.neighbors.strength import (
    N_FOLDS,
    N_REPEATS,
    ONCE,
    STRENGTHS,
    TOLERANCE,
    Chosen,
    Fold,
    Losses,
    folds,
    image_losses,
    map_losses,
    some_voters,
    strongest,
)
from probmetric.neighbors.votes import BANDWIDTHS
from probmetric.progress import progress_bar


def choose[Setting, Model, Choice](
    grid: Sequence[Setting],
    learn: Callable[[Int[np.ndarray, "l"]], Iterable[Model | None]],
    losses: Callable[[Model, Fold], Float[np.ndarray, "*b m"]],
    rule: Callable[[Float[np.ndarray, "s *b n"], Sequence[Setting]], Choice],
    *,
    folds: Iterable[Fold],
    points: Int[np.ndarray, "n"],
    name: str,
    shape: tuple[int, ...] = (),
) -> Choice:
    """Choose a setting of a grid by the losses of held-out points.

    ``learn`` takes the indices of the training rows and returns one model per setting,
    in the order of ``grid``. A model is None if the setting cannot be fitted; its
    losses are then infinite. ``losses`` takes a model and its fold, and returns the
    loss of each held-out point. Leading axes of these losses are further settings,
    which share the model; they broadcast to ``shape``. ``rule`` takes the mean losses
    (settings, *shape, n) and ``grid``, and returns the choice. ``points`` are the rows
    that the folds hold out. A point that no fold holds out has loss 0. ``name`` is the
    setting's name in the progress bar.
    """
    column = np.zeros(max(points, default=-1) + 1, int)
    column[points] = np.arange(len(points))
    table, repeats = np.zeros((len(grid), *shape, len(points))), np.zeros(len(points))
    for fold in progress_bar(list(folds), f"choose {name}", None, "fold"):
        at = column[fold.asked]
        repeats[at] += 1
        for row, model in zip(table, learn(fold.learned), strict=True):
            row[..., at] += np.inf if model is None else losses(model, fold)
    return rule(table / np.maximum(repeats, 1), grid)


def choose_strength(
    learn: Callable[[Int[np.ndarray, "l"]], Iterable[Any]],
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    strengths: Sequence[int | float] = STRENGTHS,
    *,
    losses: Losses = map_losses,
    tolerance: float | int = TOLERANCE,
    name: str = "prior_strength",
    images: bool = False,
    groups: Int[np.ndarray, "n"] | None = None,
) -> Chosen:
    """Choose the strength of a prior by the cross-validated log loss of neighbor votes.

    With the default ``losses``, the models from ``learn`` are linear maps (p, d). With
    ``images=True``, they are the images (n, p) of all points under linear maps.
    ``codes`` are classes 0..c-1. The only point of a class is used for training and
    never predicted. ``strengths`` begins with the strongest prior. A stronger prior is
    chosen if its loss is at most ``tolerance`` standard errors above the smallest loss.
    If no strength can be fitted in every fold, the weakest strength is returned. The
    rows of a group are in one fold.
    """
    X, codes = np.asarray(X), np.asarray(codes)
    order = canonical_order(X, codes)
    repeats = N_REPEATS if len(X) < ONCE else 1
    every = folds(X, codes, N_FOLDS, repeats, order, groups)

    def votes(model: Any, fold: Fold) -> Float[np.ndarray, "b m"]:
        voters, queries = fold.voters, fold.asked
        labels = codes[voters], codes[queries]
        if images:
            return image_losses(model[voters], labels[0], model[queries], labels[1])
        return losses(model, X[voters], labels[0], X[queries], labels[1])

    with one_blas_thread(X.shape[1]):
        return choose(
            strengths,
            learn,
            votes,
            partial(strongest, tolerance=tolerance),
            folds=every,
            name=name,
            points=some_voters(X, codes, order),
            shape=(len(BANDWIDTHS),),
        )
