"""Self-contained HTML pages of a run, made from the files of its folder.

``page``       ``render``, and the parts that all pages share.
``run``        ``summary.json``, and the page that belongs to it.
``fit``        the page of ``probmetric fit``.
``sample``     the page of ``probmetric sample``.
``evaluate``   the page of ``probmetric evaluate``.
``validate``   the page of ``probmetric validate``.
``explore``    one page to explore points, neighbours and metric with the mouse.
``study``      draws, figures and neighbours of ``probmetric validate --data``.
"""
