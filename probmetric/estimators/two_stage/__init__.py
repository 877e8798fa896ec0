"""The estimator TwoStageMixture."""
