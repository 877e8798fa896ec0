"""The default fit of LCA from a sample of anchors.

``rows``    what passes read, and the anchors drawn of it (1).
``pairs``   anchors with their nearest of all rows, exactly.
``lists``   nearly all of these, by inverted lists, with the recall measured.
``fit``     the fit, with its standard error (1).
"""
