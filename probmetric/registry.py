"""``MODELS``: the one list of learners, one ``ModelSpec`` each.

Tests, ``validate``, files of draws, reports, the command line, the table of learners
in the documentation and the notebooks all read ``MODELS``. Nothing is imported here:
what a learner is made of is written as its place, ``"module:name"``, and is looked up
when a field is read. So rooms above and below may ask, and a name that is in no list
is refused before JAX, NumPyro or pandas are loaded.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from inspect import signature
from typing import Any, ClassVar, NamedTuple


class Place(NamedTuple):
    """Where an object is found: a module, and its name there."""

    module: str
    name: str


def at(place: str) -> Any:
    """Return the place that "module:name" writes; a field that holds it looks it up.

    Raises
    ------
    ValueError
        For a place without a module or without a name.
    """
    module, _, name = place.partition(":")
    if not module or not name:
        raise ValueError(f"place: expected 'module:name', got {place!r}")
    return Place(module, name)


def _found(value: Any) -> Any:
    """Return the object at a place; anything else is itself."""
    if isinstance(value, Place):
        return getattr(import_module(value.module), value.name)
    return value


@dataclass(frozen=True)
class ModelSpec:
    """What the rest of the package needs to know of a model.

    Any field may be given as the place of the object, ``at("module:name")``.

    Parameters
    ----------
    name : str
        Its name in every folder.
    data_kind : type
        One of the containers of ``probmetric.data.containers``.
    params : type
        The ``Params`` NamedTuple.
    model : callable or None
        The NumPyro model ``model(data, prior, ...)``; None where there is none.
    simulate : callable or None
        ``simulate(key, params, data) -> data`` with fresh labels or observations.
    fit : callable
        ``fit(problem) -> Fit``: the default closed form on the problem's data, prior
        and options, started as a user's fit would be (not at ``problem.params``).
    to_metric : callable
        ``to_metric(params) -> Metric``.
    metric_kind : type
        The class of that metric.
    toy : callable
        ``toy(seed) -> Problem``: a small simulated problem with true parameters.
    invariants : mapping of str to callable
        ``name -> f(problem) -> problem``: changes of a problem that must leave the
        learned metric unchanged (permuting points, translating inputs, ...).
    checks : tuple of Check
        What is claimed of it.
    from_labels : callable or None
        ``from_labels(X, y) -> Problem``: the fitted problem of a labelled data set,
        for ``validate --data``.
    summary : str
        One line for the table of learners.
    estimator : type, optional
        The scikit-learn class, for the command line.
    variants : mapping of str to place
        Further estimators of the same model, by their names on the command line; a
        place in it is not looked up (``estimators`` returns it as it is).
    methods : tuple of str
        What its ``sample`` takes as ``method``, and that of its variants; empty where
        it has no draws.
    metrics_of_draws : callable, optional
        ``metrics_of_draws(draws) -> list of Metric``, one a draw, of the DataTree of
        ``sample``, which carries what else they need as attributes; None for draws of
        something else.
    criticism : callable, optional
        ``criticism(fitted estimator, *, seed) -> list of Finding``: the parts of
        ``check_model``.
    study : callable, optional
        ``study(data, *, quick, seed) -> Study``: draws and tables that ``validate
        --data --out`` adds to its folder.
    reduction : Reduction, optional
        What it takes from the rows of a source, by which its ``fit`` streams them.
    study_sections : callable, optional
        ``study_sections(study, data, *, seed) -> list of Section``: what its report
        shows of them.

    Examples
    --------
    >>> from probmetric.registry import MODELS
    >>> spec = MODELS["lda"]
    >>> spec.estimator.__name__, spec.metric_kind.__name__, len(spec.checks) > 0
    ('LDA', 'Mahalanobis', True)
    """

    # Of the run-time types of the tests: a place is given in an object's stead.
    __no_type_check__: ClassVar[bool] = True

    name: str
    data_kind: type
    params: type
    model: Callable[..., None] | None
    simulate: Callable[..., Any] | None
    fit: Callable[[Any], Any]
    to_metric: Callable[[Any], Any]
    metric_kind: type
    toy: Callable[[int], Any]
    invariants: Mapping[str, Callable[[Any], Any]]
    checks: tuple[Any, ...]
    from_labels: Callable[..., Any] | None
    summary: str
    estimator: type | None = None
    variants: Mapping[str, Place] = field(default_factory=dict[str, Place])
    methods: tuple[str, ...] = ()
    metrics_of_draws: Callable[[Any], Any] | None = None
    criticism: Callable[..., Any] | None = None
    study: Callable[..., Any] | None = None
    study_sections: Callable[..., Any] | None = None
    reduction: Any = None

    def __getattribute__(self, name: str) -> Any:
        """Return a field; the object itself where its place was given."""
        return _found(object.__getattribute__(self, name))

    def estimators(self) -> dict[str, Any]:
        """Return its estimators, or their places, by their names."""
        own = object.__getattribute__(self, "estimator")
        return {self.name: own, **self.variants} if own is not None else {}

    def class_names(self) -> set[str]:
        """Return the names of the classes of its estimators; none is loaded for it."""
        return {_class_name(estimator) for estimator in self.estimators().values()}


def _spec(
    name: str,
    kinds: tuple[str, str],
    summary: str,
    *,
    params: str,
    estimator: str,
    room: str | None = None,
    story: str | None = None,
    model: str | None = None,
    methods: tuple[str, ...] = (),
    folder: bool | None = None,
    **more: Any,
) -> ModelSpec:
    """Return the entry of a learner whose rooms use the same names for the same roles.

    Parameters
    ----------
    kinds : pair of str
        The container that it learns from, and the metric that it learns.
    params : str
        Name of its NamedTuple in the module ``story``, which has ``to_metric`` as well
        and, where there is a NumPyro ``model`` of that name, ``simulate``.
    estimator : str
        Its place in ``probmetric.estimators``.
    room : str, optional
        Its room in ``probmetric.checks``, ``models`` and ``inference``; default the
        name. The checks have ``CHECKS``, and ``fit_problem``, ``toy``, ``invariants``
        and ``from_labels``: those of a learner with draws in ``problems``. Its
        ``metrics`` of draws are in the module ``draws`` of ``inference``.
    folder : bool, optional
        Whether these rooms are folders; default: where there are ``methods``.
    story : str, optional
        Default: the room's module of ``models``.
    """
    room = room or name
    story = f"probmetric.{story or f'models.{room}'}"
    checks = f"probmetric.checks.{room}"
    folder = bool(methods) if folder is None else folder
    problems = f"{checks}.problems" if folder else checks
    common: dict[str, Any] = {
        "data_kind": at(f"probmetric.data.containers:{kinds[0]}"),
        "params": at(f"{story}:{params}"),
        "model": at(f"{story}:{model}") if model else None,
        "simulate": at(f"{story}:simulate") if model else None,
        "fit": at(f"{problems}:fit_problem"),
        "to_metric": at(f"{story}:to_metric"),
        "metric_kind": at(f"probmetric.metric:{kinds[1]}"),
        "toy": at(f"{problems}:toy"),
        "invariants": at(f"{problems}:invariants"),
        "checks": at(f"{checks}:CHECKS"),
        "from_labels": at(f"{problems}:from_labels"),
        "estimator": at(f"probmetric.estimators.{estimator}"),
        "methods": methods,
    }
    if methods:
        draws = f"probmetric.inference.{room}{'.draws' if folder else ''}:metrics"
        common["metrics_of_draws"] = at(draws)
    return ModelSpec(name=name, summary=summary, **{**common, **more})


_PLACED = "probmetric.checks.triplet_comparisons.embedding"

MODELS: dict[str, ModelSpec] = {
    "lca": _spec(
        "lca",
        ("Pairs", "Mahalanobis"),
        "pairs that coincide: a Mahalanobis metric with P(same)",
        params="LCAParams",
        model="lca",
        estimator="lca.estimator:LCA",
        methods=("nuts", "laplace", "bootstrap", "svi"),
        criticism=at("probmetric.checks.lca.criticism:criticise"),
        study=at("probmetric.report.study:lca_study"),
        study_sections=at("probmetric.report.study:lca_sections"),
    ),
    "hierarchical_lca": _spec(
        "hierarchical_lca",
        ("Pairs", "Mahalanobis"),
        "pairs in groups: a metric for each, partially pooled, with P(same)",
        params="HierarchicalLCAParams",
        model="hierarchical_lca",
        estimator="hierarchical_lca:HierarchicalLCA",
        methods=("nuts", "laplace"),
        folder=False,
        metrics_of_draws=at("probmetric.inference.hierarchical_lca.draws:metrics"),
    ),
    "point_effects": _spec(
        "point_effects",
        ("Pairs", "Mahalanobis"),
        "judged pairs that share points: a metric, and how hard each point is",
        params="PointEffectsParams",
        model="point_effects",
        estimator="point_effects.estimator:PointEffectsLCA",
        methods=("nuts", "laplace"),
    ),
    "gdm": _spec(
        "gdm",
        ("Pairs", "SplineCityBlock"),
        "sites that share species: monotone curves of covariates, with P(same)",
        params="GDMParams",
        model="gdm",
        estimator="gdm.estimator:GDM",
        methods=("nuts", "laplace", "bootstrap"),
    ),
    "glml": _spec(
        "glml",
        ("Labelled", "LocalMahalanobis"),
        "Gaussian classes: a local metric that removes the neighbours' bias",
        room="gaussian_classes",
        params="GaussianClassesParams",
        model="gaussian_classes",
        estimator="glml:GLML",
        reduction=at("probmetric.inference.moments:CLASSES"),
        methods=("exact",),
    ),
    "two_stage": _spec(
        "two_stage",
        ("Groups", "PairSimilarity"),
        "common source under a normal mixture: a similarity with P(same)",
        params="TwoStageParams",
        model="two_stage",
        estimator="two_stage.estimator:TwoStageMixture",
        reduction=at("probmetric.inference.mixture.stream:MIXTURE"),
        methods=("nuts", "laplace", "svi"),
    ),
    "dca_gm": _spec(
        "dca_gm",
        ("Labelled", "Mahalanobis"),
        "class mixtures in a projection: their average Fisher metric",
        params="DCAGMParams",
        model="dca_gm",
        estimator="dca_gm:DCAGM",
        methods=("nuts", "laplace", "svi"),
    ),
    "lda": _spec(
        "lda",
        ("Labelled", "Mahalanobis"),
        "Gaussian classes of one covariance: whitened discriminants (LDA, RCA)",
        params="LDAParams",
        model="model",
        estimator="lda:LDA",
        reduction=at("probmetric.inference.moments:CLASSES"),
        variants={"rca": at("probmetric.estimators.lda:RCA")},
        methods=("exact",),
        folder=False,
    ),
    "pair_lda": _spec(
        "pair_lda",
        ("Pairs", "Mahalanobis"),
        "close and far pairs: a Mahalanobis metric in closed form (KISSME)",
        params="PairLDAParams",
        story="inference.pair_lda",
        estimator="pair_lda:PairLDA",
        reduction=at("probmetric.inference.moments:CLASSES"),
    ),
    "eig_dml": _spec(
        "eig_dml",
        ("Pairs", "Mahalanobis"),
        "largest margin between far pairs, with a certificate",
        params="EigDMLParams",
        story="inference.eig_dml.fit",
        estimator="eig_dml:EigDML",
    ),
    "mds": _spec(
        "mds",
        ("Distances", "Mahalanobis"),
        "dissimilarities: points that reproduce them, and a place for new ones",
        params="MDSParams",
        story="inference.mds.fit",
        invariants={},
        estimator="mds:ClassicalMDS",
    ),
    "triplet_comparisons": _spec(
        "triplet_comparisons",
        ("Triplets", "Mahalanobis"),
        "which of two points is nearer: a metric whose unit is log odds",
        params="TripletParams",
        model="triplet_comparisons",
        estimator="triplet_comparisons.estimator:TripletMetric",
        methods=("nuts", "laplace"),
    ),
    "triplet_embedding": _spec(
        "triplet_embedding",
        ("Triplets", "Mahalanobis"),
        "which of two objects is nearer: places of objects without features",
        room="triplet_comparisons",
        params="TripletParams",
        model="triplet_comparisons",
        estimator="triplet_comparisons.embedding:TripletEmbedding",
        methods=("nuts", "laplace"),
        fit=at(f"{_PLACED}:fit_problem"),
        toy=at(f"{_PLACED}:toy"),
        from_labels=at(f"{_PLACED}:from_labels"),
        checks=at(f"{_PLACED}:CHECKS"),
    ),
}


def estimators() -> dict[str, Any]:
    """Return every estimator, or its place, by its name, in order of names."""
    found = {n: e for spec in MODELS.values() for n, e in spec.estimators().items()}
    return dict(sorted(found.items()))


def _class_name(estimator: Any) -> str:
    return estimator.name if isinstance(estimator, Place) else estimator.__name__


CLASSIFIERS = {"GaussianClasses": "glml", "LCAClassifier": "lca"}
"""Classes without a name here, and the learner of the same model that has one."""


def _unknown(model: str, known: Iterable[str]) -> ValueError:
    """Return the error for an unknown name, with the one that was meant, if any."""
    names = {n.lower(): name for n, name in CLASSIFIERS.items()}
    for name, estimator in estimators().items():
        names |= {name.replace("_", ""): name, _class_name(estimator).lower(): name}
    near = get_close_matches(model.lower().replace("_", ""), names, 1, 0.8)
    question = f"; did you mean {names[near[0]]}?" if near else ""
    return ValueError(
        f"model: expected one of {', '.join(known)}, got {model!r}{question}"
    )


def learner_name(model: str) -> str:
    """Return the name of a learner, which may be given as that of its class (LCA).

    Raises
    ------
    ValueError
        For an unknown name.
    """
    known = estimators()
    for name, estimator in known.items():
        if model in (name, _class_name(estimator)):
            return name
    raise _unknown(model, known)


def model_of(learner: str) -> str:
    """Return the model of a learner: of RCA, a variant of LDA, it is "lda".

    Parameters
    ----------
    learner : str
        The name of a model, of an estimator of it, or of its class.

    Raises
    ------
    ValueError
        For an unknown name.
    """
    for name, spec in MODELS.items():
        if learner in {name, *spec.estimators(), *spec.class_names()}:
            return name
    raise _unknown(learner, MODELS)


def estimator_of(model: str) -> Any:
    """Return the class of a learner, which is imported."""
    return _found(estimators()[learner_name(model)])


def method_of(model: str, method: str | None = None) -> str:
    """Return the method by which a learner draws, its first for None.

    Raises
    ------
    ValueError
        For a learner that has no posterior to sample, naming those that have; for a
        method that is none of its own.
    """
    name, known = learner_name(model), estimators()
    methods = {each: MODELS[model_of(each)].methods for each in known}
    own = methods[name]
    if not own:
        raise ValueError(
            "model: expected a learner with draws, "
            f"{', '.join(each for each in known if methods[each])}, got "
            f"{_class_name(known[name])}, which has none"
        )
    if method is not None and method not in own:
        raise ValueError(f"--method: expected one of {', '.join(own)}, got {method!r}")
    return method or own[0]


def make(
    model: str, settings: Mapping[str, Any] | None = None, *, seed: int = 0
) -> Any:
    """Return an unfitted estimator.

    Parameters
    ----------
    model : str
        Its name, or that of its class.
    settings : mapping of str, optional
        Arguments of its constructor.
    seed : int, default=0
        Its ``random_state``, where it has one that ``settings`` do not give.

    Raises
    ------
    ValueError
        For an unknown model or argument.
    """
    kind = estimator_of(model)
    known = kind().get_params()
    settings = dict(settings or {})
    unknown = sorted(settings.keys() - known.keys())
    if unknown:
        raise ValueError(
            f"settings (--set): expected arguments of {kind.__name__} "
            f"({', '.join(sorted(known))}), got {', '.join(unknown)}"
            f"{_meant(unknown, known)}"
        )
    if "random_state" in known:
        settings = {"random_state": seed, **settings}
    return kind(**settings)


def _meant(unknown: Iterable[str], known: Iterable[str]) -> str:
    """Return a question after the known names near to the unknown ones, if any."""
    near = dict.fromkeys(
        n for name in unknown for n in get_close_matches(name, [*known], 1)
    )
    return f"; did you mean {' and '.join(near)}?" if near else ""


def fit_named(estimator: Any, data: Any) -> Any:
    """Fit an estimator to labelled data: by classes, groups, or classes inside groups.

    Where it learns from groups and the data name none, a class is a group.

    Parameters
    ----------
    estimator : estimator
    data : Dataset

    Raises
    ------
    ValueError
        For groups that the estimator does not take; and as its ``fit``.
    """
    if data.groups is not None and not takes_groups(estimator):
        if "groups" in signature(estimator.fit).parameters:
            return estimator.fit(data.frame, data.y, groups=data.groups)
        raise ValueError(
            f"groups: expected none for {type(estimator).__name__}, which learns from "
            "classes"
        )
    return fit_labels(
        estimator, data.frame, data.y if data.groups is None else data.groups
    )


def takes_groups(estimator: Any) -> bool:
    """Say whether an estimator learns from groups of rows, not from classes."""
    takes = signature(estimator.fit).parameters
    if "groups" not in takes or takes["y"].default is not None:
        return False
    # Where ``y`` must be given groups are beside the classes, not in their stead.
    tags = getattr(estimator, "__sklearn_tags__", None)
    return tags is None or not tags().target_tags.required


def without_points(estimator: Any) -> bool:
    """Say whether an estimator learns of objects without features, from triplets."""
    return "triplets" in signature(estimator.fit).parameters


def fit_labels(estimator: Any, X: Any, labels: Any) -> Any:
    """Fit an estimator to labels: classes, or groups where it takes these.

    Raises
    ------
    ValueError
        For an estimator of objects without features; and as its ``fit``.
    """
    if without_points(estimator):
        raise ValueError(
            f"data: expected triplets of objects (--answers) for "
            f"{type(estimator).__name__}, got points and labels"
        )
    if takes_groups(estimator):
        return estimator.fit(X, groups=labels)
    return estimator.fit(X, labels)


def fit_rows(estimator: Any, source: Any) -> Any:
    """Fit an estimator to a source: its labels are groups, where it takes these."""
    given: dict[str, Any] = {}
    if takes_groups(estimator):
        given["groups"] = "label" if source.labelled else None
    elif "y" in signature(estimator.fit).parameters:
        given["y"] = None
    return estimator.fit(source, **given)


class _Begun(Exception):
    """A fit asks for the parts of a source: it reads them."""


class _Unread:
    """A source of which nothing but metadata can be asked."""

    def __init__(self, source: Any) -> None:
        self.name, self.feature_names = source.name, source.feature_names
        self.labelled, self.weighted = source.labelled, source.weighted

    @property
    def parts(self) -> Any:
        raise _Begun

    def read(self, part: Any, rows: int, *, features: bool = True) -> Any:
        raise _Begun


def refuses_source(estimator: Any, source: Any) -> str | None:
    """Say why a fit would not read the rows of a source in parts; None where it would.

    Its ``fit`` is asked, with its settings, and read no row: a learner that takes all
    rows at once says so before, as do options that need them.

    Parameters
    ----------
    estimator : estimator
        Unfitted; it stays so.
    source : Source
    """
    asked = type(estimator)(**estimator.get_params(deep=False))
    try:
        fit_rows(asked, _Unread(source))
    except _Begun:
        return None
    except ValueError as error:
        return str(error)
    raise AssertionError(f"{type(estimator).__name__} fits rows that it did not read")
