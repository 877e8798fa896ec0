"""Descriptions of parameters that several learners share, each written once.

``@settings`` adds the docstrings of ``Shared`` to a learner and its methods. Docstrings
in the code then describe only what is special to the learner.
"""

import re
from collections.abc import Iterable
from inspect import cleandoc, isfunction, signature

_SECTION = re.compile(r"^Parameters\n-+\n(.*?)(?=\n\n|\Z)", re.DOTALL | re.MULTILINE)
_HEADER = re.compile(r"^\w[\w ]*\n-{3,}$", re.MULTILINE)


class Shared:
    """Describe settings that several learners share.

    Parameters
    ----------
    n_components : int, optional
        Dimension of the transformed points (number of rows of the linear map), from 1
        to the number of features d. Default: d.
    pairs : {"nearest", "all"}, default="nearest"
        Pairs that ``fit`` makes from class labels. "nearest" pairs each point with its
        nearest points of the same class and of other classes. "all" uses every pair of
        points.
    n_targets, n_impostors : int, optional
        With ``pairs="nearest"``, each point is paired with its ``n_targets`` nearest
        points of the same class, and with its ``n_impostors`` nearest points of other
        classes. Default: 3, or all such points if there are fewer than 3.
    learning_rate : "auto" or float > 0, default="auto"
        Factor of the log likelihood: the weight of the data relative to the prior (not
        a step size). Use less than 1 if pairs are dependent. "auto" uses 1 in
        ``fit_pairs``, for independent pairs. In ``fit``, pairs share points. "auto"
        then uses n/N, so N pairs of n points count as n observations.
    standardize : bool, default=True
        Whether ``fit`` centers and scales the features. The learned metric is always in
        the units of X.
    max_iter : int, default=500
        Maximum number of iterations of the solver.
    odd_one_out : bool, default=False
        Use True if each response names the odd one of three points or objects: the one
        that is not in the nearest pair. If y is None, the last one is the odd one.
    lapse_rate : float in [0, 1) or "auto", default=0
        Probability of a lapse: a response that ignores the distances and chooses an
        alternative at random. "auto" learns it, with the prior Beta(1, 10). With lapses
        and ``lapse_rate=0``, the learned distances are too small.
    rater_spread : float > 0, default=1.0
        Prior standard deviation of the log of ``sharpness_``, the consistency of each
        rater. Larger values let raters differ more. Only used with ``raters``.
    preprocessor : array-like of shape (n, d) or callable, optional
        Table of points, or a function that returns points. With a table (array or data
        frame), X of shape (n,) and pairs of shape (N, 2) contain its row numbers. With
        a function, they contain integers or text, such as file names. The function
        converts an array of m such entries to points (m, d).
    unlabeled : label, default="warn"
        Value in y or ``groups`` that marks unlabeled rows, such as -1. ``fit`` ignores
        these rows. If ``unlabeled`` is NaN, rows whose label is NaN or None are
        unlabeled. With "warn" or None, every value is a label. "warn" also warns if -1
        occurs besides labels such as 0 and 1.
    handle_unknown : {"error", "ignore"}, default="error"
        Treatment of values that did not occur in ``fit``, in text or categorical
        columns of a data frame. "error" raises an error for unknown values. With
        "error", missing values become NaN, which most learners reject. "ignore" gives
        unknown and missing values the same distance from all known values.
    """

    def fit(self) -> None:
        """Describe the parameters of fits to labeled points.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
            Class labels, numbers or strings. At least two classes are required, and at
            least one class with two or more rows.
        sample_weight : array-like of shape (n,), optional
            Weights of the points, ≥ 0. A point with weight 2 has the same effect as two
            equal points. Settings with value "cv" ignore weights. Default: 1.
        """

    def fit_pairs(self) -> None:
        """Describe the parameters of fits to pairs.

        Parameters
        ----------
        pairs : array-like of shape (N, 2, d), or (N, 2) with a ``preprocessor``
        y : array-like of shape (N,)
            Labels of the pairs: 1 for same, 0 for different. Labels 1 and -1 are also
            allowed.
        sample_weight : array-like of shape (N,), optional
            Weights of the pairs, ≥ 0. Default: 1 for all pairs.
        """

    def same_probability(self) -> None:
        """Describe pairs.

        Parameters
        ----------
        pairs : array-like of shape (N, 2, d), or (N, 2) with a ``preprocessor``
        """

    def sample(self) -> None:
        """Describe the options of samplers.

        Parameters
        ----------
        n_draws : int, default=1000
            Number of draws in each chain.
        n_chains : int, optional
            Number of chains. Default: 4 for NUTS, otherwise 1. Other methods store
            ``n_draws * n_chains`` independent draws as one chain.
        seed : int, default=0
            Seed of the draws.
        log_likelihood : bool, default=False
            Whether to store the log likelihood of every observation under every draw,
            which ``pm.loo`` requires. These values ignore learning rate and weights.
        log_prior : bool, default=True
            Whether to store the log prior density of each parameter and the log
            likelihood of all data. ``az.psense_summary`` uses them to measure how much
            the posterior depends on the prior.
        predictive : bool, default=False
            Whether to simulate observations under every draw, and store them as
            ``posterior_predictive``.
        prior_draws : int, optional
            Number of draws from the prior, stored as ``prior``. Observations simulated
            from them are stored as ``prior_predictive``. The prior depends on the
            training data, such as their scale. Default: no prior draws.
        progress : bool, optional
            Whether to show progress. Default: a bar in terminals and notebooks,
            otherwise a line every 10 s.
        """

    def posterior_metric(self) -> None:
        """Describe the options of metrics of draws.

        Parameters
        ----------
        purpose : {"prediction", "intervals"}
            Use "prediction" to average predictions over draws, and "intervals" to
            compute intervals of distances and probabilities of neighbors.
        draws : DataTree, optional
            Result of ``sample`` of this fit. Default: new draws by ``method``.
        n_draws : int, optional
            Number of metrics in the result, computed from evenly spaced draws of the
            joined chains. Default: 100, or the number of ``draws``.
        seed : int, default=0
            Seed of the draws.
        progress : bool, optional
            Whether to show progress. Default: a bar in terminals and notebooks,
            otherwise a line every 10 s.
        """


def _entries(docstring: str) -> list[str]:
    match = _SECTION.search(cleandoc(docstring))
    return re.split(r"\n(?=\S)", match[1]) if match else []


def _names(entry: str) -> list[str]:
    return entry.splitlines()[0].partition(" :")[0].split(", ")


def complete(docstring: str, parameters: Iterable[str], shared: str) -> str:
    """Add descriptions of shared parameters, in the order of ``parameters``."""
    text, order = cleandoc(docstring), list(parameters)
    entries = _entries(text)
    described = {name for entry in entries for name in _names(entry)}
    wanted = set(order) - described
    added = [entry for entry in _entries(shared) if _names(entry)[0] in wanted]
    if not added:
        return text

    def place(entry: str) -> int:
        first = _names(entry)[0]
        return order.index(first) if first in order else len(order)

    body = "\n".join(sorted([*entries, *added], key=place))
    section = f"Parameters\n----------\n{body}"
    if match := _SECTION.search(text):
        return text[: match.start()] + section + text[match.end() :]
    header = _HEADER.search(text)
    end = header.start() if header else len(text)
    parts = text[:end].rstrip(), section, text[end:]
    return "\n\n".join(part for part in parts if part)


def complete_learner(learner: type, settings: Iterable[str]) -> None:
    """Complete the docstrings of a learner and of its methods from ``Shared``."""
    if learner.__doc__ and Shared.__doc__:  # Python -OO removes docstrings.
        learner.__doc__ = complete(learner.__doc__, settings, Shared.__doc__)
    for name, template in vars(Shared).items():
        method = vars(learner).get(name)
        if isfunction(template) and method is not None and method.__doc__:
            parameters = signature(method).parameters
            method.__doc__ = complete(
                method.__doc__, parameters, template.__doc__ or ""
            )
