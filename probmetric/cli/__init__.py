"""The command line: one file per command, and shared modules.

``app``        the command ``probmetric``: help, exit codes, checks before imports.
``options``    options of every command, as dataclasses.
``fit``, ``sample``, ``next``, ``neighbors``, ``evaluate``, ``validate``, ``report``
               the commands: functions of their options (``explore`` is in ``report``).
``workers``    ``--workers`` and ``--scheduler``: a Dask cluster for rows on disk.
``inputs``     data, settings and stored metrics.
``answers``    tables of pairs and triplets, and fits to them.
``files``      output files, errors and warnings.
"""
