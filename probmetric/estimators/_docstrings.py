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
        Number of rows of the linear map, from 1 to the number of features d. Use fewer
        than d rows to reduce the dimension. Default: d.
    pairs : {"nearest", "all"}, default="nearest"
        Pairs that ``fit`` makes from class labels. "nearest" pairs each point with its
        nearest points of the same class and of other classes. "all" uses every pair of
        points.
    n_targets, n_impostors : int, optional
        With ``pairs="nearest"``, each point is paired with its ``n_targets`` nearest
        points of the same class, and with its ``n_impostors`` nearest points of other
        classes. Default: 3, or all such points if there are fewer than 3.
    learning_rate : "auto" or float > 0, default="auto"
        Power to which the likelihood is raised. Use a power below 1 if pairs are
        dependent. "auto" uses 1 in ``fit_pairs``, which assumes independent pairs. In
        ``fit``, "auto" uses n/N for N pairs of n points, because pairs share points.
    standardize : bool, default=True
        Whether ``fit`` centers and scales the features. The learned metric is always in
        the units of X.
    max_iter : int, default=500
        Maximum number of iterations of the solver.
    odd_one_out : bool, default=False
        Use True if each response names the odd one of three points or objects: the one
        outside the nearest pair. If y is None, the odd one is the last.
    lapse_rate : float in [0, 1) or "auto", default=0
        Probability of a lapse: a response that ignores the distances, so that all
        alternatives are equally probable. "auto" learns it with the prior Beta(1, 10).
        If responses contain lapses and ``lapse_rate`` is 0, the learned distances are
        too small.
    rater_spread : float > 0, default=1.0
        Prior standard deviation of the log of ``sharpness_``, a factor for each rater.
        Only used with the argument ``raters``.
    preprocessor : array-like of shape (n, d) or callable, optional
        Set it to pass references to points instead of features, as X of shape (n,) or
        pairs of shape (N, 2). If it is an array of points, the references are its row
        numbers. If it is a function, it converts an array of references to an array of
        points.
    unlabeled : label, default="warn"
        Label that marks unlabeled rows in y or ``groups``, for example -1. ``fit``
        ignores these rows. If ``unlabeled`` is NaN, rows with label None are unlabeled
        too. With the values "warn" and None, ``fit`` uses all rows. "warn" also raises
        a warning if -1 occurs besides labels such as 0 and 1.
    handle_unknown : {"error", "ignore"}, default="error"
        Treatment of unknown values in text or categorical columns of a data frame. A
        value is unknown if it did not occur in ``fit``. "error" raises an error for
        unknown values, and treats missing values as NaN. "ignore" places unknown and
        missing values at the same distance from all known values.
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
            Number of chains. Default: 4 for NUTS, otherwise 1. Methods other than NUTS
            make ``n_draws * n_chains`` independent draws and store them as one chain.
        seed : int, default=0
            Seed of the draws.
        log_likelihood : bool, default=False
            Whether to store the log likelihood of every observation under every draw,
            computed without learning rate and weights. ``pm.loo`` requires these
            values.
        log_prior : bool, default=True
            Whether to store the log prior of each parameter (NumPyro site) and the log
            likelihood of all data. Power scaling (``az.psense_summary``) uses these
            values.
        predictive : bool, default=False
            Whether to simulate observations under every draw, and store them as
            ``posterior_predictive``.
        prior_draws : int, optional
            Number of draws from the prior, which are stored as ``prior``. Observations
            simulated from these draws are stored as ``prior_predictive``. The
            parameters of the prior are those of the fit, and were set from the data.
            Default: no prior draws.
        progress : bool, optional
            Whether to show progress. Default: a bar in terminals and notebooks,
            otherwise a line every 10 s.
        """

    def posterior_metric(self) -> None:
        """Describe the options of metrics of draws.

        Parameters
        ----------
        purpose : {"prediction", "intervals"}
            Intended use of the result. Some learners have a different posterior for
            each use.
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
