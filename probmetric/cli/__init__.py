"""The command line: one file a command, and what the commands share.

``app``        the command ``probmetric`` and its exit codes; ``validate``'s options.
``learn``, ``use``, ``options``
               options and help of the other commands; nothing heavy is imported.
``fit``, ``sample``, ``neighbors``, ``evaluate``, ``validate``
               what each command does.
``inputs``     data, settings and metrics that commands are given.
``files``      output files, errors and warnings.
"""
