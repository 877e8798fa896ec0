"""Write requirements.lock: install the newest versions in a clean venv and list them.

Only ``name==version`` lines, so that the file says what is needed and nothing of
where it came from. Run by ``make lock``.
"""

import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

HEADER = "# Exact versions for `make install`; written by `make lock`.\n"


def main(target: Path) -> None:
    """Resolve pyproject.toml's build, run, development and site requirements."""
    project = tomllib.loads(Path("pyproject.toml").read_text())
    wanted = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *project["dependency-groups"]["dev"],
        *project["dependency-groups"]["docs"],
    ]
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        pip = [f"{folder}/bin/python", "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", *wanted], check=True)
        frozen = subprocess.run(
            [*pip, "list", "--format=freeze", "--exclude", "pip"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    target.write_text(HEADER + "".join(sorted(frozen.splitlines(True), key=str.lower)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
