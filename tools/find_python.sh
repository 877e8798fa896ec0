#!/bin/sh
# Print a Python >= 3.12 that can make a virtual environment, or one clear sentence.
# Every candidate is tried: a pyenv shim may stand on PATH and still not work.
set -u
probe='import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))'
works() { "$1" -c "$probe" >/dev/null 2>&1; }

if [ -n "${PYTHON:-}" ] && ! works "$PYTHON"; then
    echo "PYTHON: wanted Python 3.12 or newer with venv, got $PYTHON" >&2
    exit 1
fi
uv_python=""
if command -v uv >/dev/null 2>&1; then
    uv_python=$(uv python find '>=3.12' 2>/dev/null || true)
fi
for candidate in ${PYTHON:+"$PYTHON"} python3 python3.12 python3.13 python3.14 python \
    "${PYENV_ROOT:-${HOME:-}/.pyenv}"/versions/3.1[2-9]*/bin/python3 \
    /usr/local/bin/python3.1[2-9] /usr/bin/python3.1[2-9] \
    ${uv_python:+"$uv_python"}; do
    if works "$candidate"; then
        # The program itself, not a shim: a shim's answer depends on the folder.
        "$candidate" -c 'import sys; print(sys.executable)'
        exit 0
    fi
done
echo "probmetric needs Python 3.12 or newer with venv, and none was found: install one \
(for example with 'uv python install 3.12' or 'pyenv install 3.12') or name it with \
'make install PYTHON=/path/to/python3.12'." >&2
exit 1
