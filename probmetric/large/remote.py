"""Remote files, which fsspec reads: ``s3://``, ``gs://``, ``https://`` and others.

Credentials come from fsspec's configuration and from the environment.
"""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from probmetric.names import WILD
from probmetric.provenance import need


@dataclass(frozen=True)
class RemoteFile:
    """A file at a URL."""

    url: str

    @property
    def name(self) -> str:
        """The last part of the URL."""
        return PurePosixPath(self.url).name

    @property
    def suffix(self) -> str:
        """The ending of the name."""
        return PurePosixPath(self.url).suffix

    def __str__(self) -> str:
        return self.url

    def version(self) -> tuple[int, str]:
        """Return the size, and a text that changes with the file."""
        fs, path = _file_system(self.url)
        return fs.size(path), fs.ukey(path)

    def open(self) -> Any:
        """Open the file to read it."""
        fs, path = _file_system(self.url)
        return fs.open(path, "rb")


def is_remote(where: object) -> bool:
    """Return whether a place is a URL."""
    return isinstance(where, str) and "://" in where


def remote_files(where: str) -> list[RemoteFile]:
    """Return the files at a URL, a pattern or a folder of Parquet files, sorted."""
    fs, path = _file_system(where)
    if any(c in path for c in WILD):
        paths = fs.glob(path)
    elif fs.isdir(path):
        paths = fs.glob(f"{path.rstrip('/')}/*.parquet")
    else:
        paths = [path] if fs.exists(path) else []
    if not paths:
        raise ValueError(f"data must be existing files, got none at {where!r}")
    return [RemoteFile(fs.unstrip_protocol(path)) for path in sorted(paths)]


def _file_system(url: str) -> tuple[Any, str]:
    need(f"data at {url!r}", "parquet", "fsspec")
    from fsspec.core import url_to_fs

    try:
        return url_to_fs(url)
    except ImportError as error:  # A package of this protocol, such as s3fs.
        raise ModuleNotFoundError(
            f"data must be readable, got {url!r}: {error}."
        ) from error
