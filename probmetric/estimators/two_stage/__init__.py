"""The estimator ``TwoStageMixture``.

``estimator``   the class: fit from points, groups, pairs or in batches; scores.
``inputs``      checks of groups, known components and pairs; units.
``draws``       draws as a DataTree, in input units.
"""
