"""The estimator ``PointEffectsLCA``.

``estimator``   the class: fits to labels or judged pairs, P(same), draws.
"""
