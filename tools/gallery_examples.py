"""Code for each public figure, which the gallery of the site shows and runs.

The first line of each example is ``# FIGURE``, or ``# FIGURE: DATA, LEARNER`` if it
begins with ``START``. The last statement returns the figure.
"""

import re

START = 'data = pm.datasets.load("{}")\nlearned = pm.{}().fit(data.frame, data.y)\n'
TABLE = """
# matrix: wine, LDA
pm.plots.matrix(learned, data.frame)
# metric: wine, LCA
draws = learned.sample("laplace")
pm.plots.metric(draws)
# importance: wine, LCA
refits = learned.posterior_metric("intervals")
pm.plots.importance(refits, data.frame)
# eigenvalues: wine, LCA
draws = learned.sample("laplace")
pm.plots.eigenvalues(draws)
# embedding: wine, LDA
pm.plots.embedding(
    learned, data.frame, data.y, links=3,
    target_names=data.target_names,
)
# before_after: wine, LDA
pm.plots.before_after(
    learned, data.frame, data.y,
    target_names=data.target_names,
)
# neighbor_probabilities: iris, LCA
near = learned.posterior_metric("intervals")
query = data.frame[50:].mean()  # between two species
pm.plots.neighbor_probabilities(
    near, query, data.frame, 5, y=data.y,
    target_names=data.target_names,
)
# pair_histogram: wine, LDA
pm.plots.pair_histogram(learned, data.frame, data.y)
# local_ellipses: iris, GLML
pm.plots.local_ellipses(
    learned, data.frame, data.y,
    target_names=data.target_names,
)
# objects
names = np.array(["Rome", "Oslo", "Paris", "Vienna", "Athens", "Madrid"])
place = np.array([[12, 42], [11, 60], [2, 49], [16, 48], [24, 38], [-4, 40]])
far = np.linalg.norm(place[:, None] - place, axis=-1)
a, b, c = np.argwhere(far[:, :, None] < far[:, None]).T
asked = np.stack([a, b, c], 1)[a != b]  # b is nearer to a than c is
places = pm.TripletEmbedding(2).fit(names[asked])
pm.plots.objects(places)
# curves
crust = pm.datasets.biocrust()
water = pm.GDM().fit_sites(crust.covariates, crust.species)
heights = water.curves(water.posterior_metric("intervals"))
pm.plots.curves(heights)
# calibration
data = pm.datasets.load("breast_cancer")
train, test = slice(0, None, 2), slice(1, None, 2)
X = data.X[:, :2]  # two features, so that many rows are uncertain
knn = pm.KNeighborsClassifier(pm.LDA()).fit(X[train], data.y[train])
y, P = data.y[test], knn.predict_proba(X[test])[:, 1]
pm.plots.calibration(y, P, label="P(benign)", band=0.9)
# predictive_check
data = pm.datasets.load("wine")
i, j = np.random.default_rng(0).permutation(178).reshape(2, 89)
pairs = pm.Pairs(data.X, i, j, data.y[i] == data.y[j])
learned = pm.LCA(2).fit_pairs(data.X[np.stack([i, j], 1)], pairs.y)
draws = learned.sample("nuts", n_chains=2)
pm.plots.predictive_check(draws, pairs, bins=6)
# model_check: wine, LCA
verdict = pm.check_model(learned)
pm.plots.model_check(verdict)
# sbc
import numpyro
import numpyro.distributions as dist

def model(data):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    numpyro.sample("x", dist.Normal(mu, sigma).expand([8]), obs=data["x"])

found = pm.sbc(model, {"x": np.zeros(8)}, n_draws=39)
pm.plots.sbc(found)
# det
data = pm.datasets.load("iris")
learned = pm.LDA().fit(data.X[::2], data.y[::2])
i, j = np.triu_indices(75, 1)  # all pairs of the other rows
same = data.y[1::2][i] == data.y[1::2][j]
score = -learned.pair_distance(data.X[1::2][np.stack([i, j], 1)])
pm.plots.det(score, same)
# likelihood_ratios
data = pm.datasets.load("wine")
learned = pm.TwoStageMixture().fit(data.X[::2], groups=data.y[::2])
i, j = np.triu_indices(89, 1)  # all pairs of the other rows
same = data.y[1::2][i] == data.y[1::2][j]
ratio = learned.pair_score(data.X[1::2][np.stack([i, j], 1)])
pm.plots.likelihood_ratios(ratio, same)
# typicality
data = pm.datasets.load("iris")
known = data.y < 2  # the third species is not in the training data
train = known & (np.arange(150) % 2 == 0)
knn = pm.KNeighborsClassifier(pm.RCA()).fit(data.X[train], data.y[train])
p, known = knn.typicality(data.X[~train]), known[~train]
pm.plots.typicality(p, known)
"""
FORM = r"(?ms)^# (\w+)(?:: (\w+), (\w+))?\n(.*?)(?=^# |\Z)"
EXAMPLES = {
    name: (START.format(data, learner) if data else "") + code
    for name, data, learner, code in re.findall(FORM, TABLE)
}
