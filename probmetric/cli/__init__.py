"""The command line: one file a command, and what the commands share.

``app``        the command ``probmetric``: every command's options, help, exit codes.
``options``    options that several commands share.
``lookup``     names and files looked up before anything heavy is loaded.
``fit``, ``sample``, ``next``, ``neighbors``, ``evaluate``, ``validate``, ``report``
               what each command does: a function of keywords (``explore`` is in
               ``report``; ``evaluate`` is a folder).
``launch``     ``--processes``: copies of a command on this machine, as one run.
``inputs``     data, settings and metrics that commands are given.
``answers``    tables of pairs and triplets, and fits to them.
``files``      output files, errors and warnings.
"""
