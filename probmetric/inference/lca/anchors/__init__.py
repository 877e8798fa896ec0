"""The default fit of LCA from a sample of anchors.

``rows``    the rows that a pass reads, and the anchors drawn from them (1).
``pairs``   the exact nearest rows of each anchor among all rows.
``lists``   most of the nearest rows, by inverted lists, with measured recall.
``fit``     the fit, with its standard error (1).
"""
