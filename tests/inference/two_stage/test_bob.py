"""The two-covariance model held to the reference values of bob.learn.em's PLDA tests.

bob's model (Prince and Elder 2007), as its documentation states it, is

    x_ij = μ + F h_i + G w_ij + ε_ij,   h, w ~ N(0, I),   ε ~ N(0, diag(σ)).

With h and w integrated out it is ours of one component: between B = F Fᵀ, here of rank
2 of 7, and within W = G Gᵀ + diag(σ). So likelihoods of sets of instances of one
source coincide, and so does the log ratio of an enrolled source. Values and inputs are
those of its tests of likelihood and enrolment (test_plda.py, test_plda_trainer.py under
bob/learn/em/test of github.com/bioidiap/bob.learn.em), which have the first value from
Prince's own program. bob's EM is another (h and w are its unknowns, F and G not
identified) and is not compared.
"""

import numpy as np

from probmetric.data.containers import Groups
from probmetric.inference.two_stage.groups import group_data, log_groups
from probmetric.metric.items import items_of, log_ratios
from probmetric.models.two_stage import TwoStageParams, to_metric

G = np.array(
    [
        [-1.1424, -0.5044, -0.1917],
        [-0.6249, 0.1021, -0.8658],
        [-1.1687, 1.1963, 0.1807],
        [0.3926, 0.1203, 1.2665],
        [1.3018, -1.0368, -0.2512],
        [-0.5936, -0.8571, -0.2046],
        [0.4364, -0.1699, -2.2015],
    ]
)
F = np.array(
    [
        [-0.054222647972093, -0.000000000783146],
        [0.596449127693018, 0.000000006265167],
        [0.298224563846509, 0.000000003132583],
        [0.447336845769764, 0.000000009397750],
        [-0.108445295944185, -0.000000001566292],
        [-0.501559493741856, -0.000000006265167],
        [-0.298224563846509, -0.000000003132583],
    ]
)
SIGMA = np.full(7, 0.01)
X = np.array(
    [
        [0.8032, 0.3503, 0.4587, 0.9511, 0.1330, 0.0703, 0.7061],
        [0.9317, 0.1089, 0.6517, 0.1461, 0.6940, 0.6256, 0.0437],
        [0.7979, 0.9862, 0.4367, 0.3447, 0.0488, 0.2252, 0.5810],
    ]
)
B, W = F @ F.T, G @ G.T + np.diag(SIGMA)
PARAMS = TwoStageParams(np.ones(1), np.zeros((1, 7)), W[None], B[None])
LOG_LIKELIHOOD, LOG_RATIO = -182.8880743535197, -4.43695386675


def log_likelihood(params, *rows):
    data = group_data(Groups(X[list(rows)], np.zeros(len(rows), int)))
    return float(np.asarray(log_groups(params, data)).item())


def test_three_instances_of_one_source_have_bobs_likelihood():
    np.testing.assert_allclose(
        log_likelihood(PARAMS, 0, 1, 2), LOG_LIKELIHOOD, atol=1e-10
    )


def test_bobs_log_ratio_is_of_one_source_against_two():
    whole = log_likelihood(PARAMS, 0, 1, 2)
    apart = log_likelihood(PARAMS, 0, 1) + log_likelihood(PARAMS, 2)
    np.testing.assert_allclose(whole - apart, LOG_RATIO, atol=1e-10)


def test_an_item_of_two_instances_has_bobs_ratio_with_the_third():
    left = items_of(X[2:], None, "left")
    right = items_of(X[:2], [0, 0], "right")
    found = log_ratios(to_metric(PARAMS), left, right)
    np.testing.assert_allclose(found, [[LOG_RATIO]], atol=1e-10)


def test_pairs_of_the_metric_are_the_same_model():
    metric = to_metric(PARAMS)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        expected = log_likelihood(PARAMS, i, j)
        expected -= log_likelihood(PARAMS, i) + log_likelihood(PARAMS, j)
        np.testing.assert_allclose(metric.log_ratio(X[i], X[j]), expected, atol=1e-9)
