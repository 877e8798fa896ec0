"""Self-contained HTML pages of a run, made from the files of the run's folder.

``page``       sections, ``render``, and the elements of all pages.
``run``        ``summary.json``, and the page of a run.
``fit``        the page of ``probmetric fit``.
``sample``     the page of ``probmetric sample``.
``evaluate``   the page of ``probmetric evaluate``.
``validate``   the page of ``probmetric validate``.
``explore``    an interactive page of points, neighbors and metric.
"""
