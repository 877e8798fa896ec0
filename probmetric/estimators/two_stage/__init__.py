"""The estimator ``TwoStageMixture``.

``estimator``   the class: fit from points, groups, pairs or in batches; scores.
``inputs``      checks of groups and pairs; units.
``draws``       draws as a DataTree, in input units.
"""
