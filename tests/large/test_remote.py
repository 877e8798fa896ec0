"""Parquet files at a URL are read as local ones."""

import re
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pandas as pd
import pytest

import probmetric as pm
from probmetric.cli.inputs import streamed
from probmetric.cli.options import DataSpec

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def folder():
    """Write two Parquet files to fsspec's memory; return their URL and the rows."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 2)), np.array(["a", "b", "c"])[np.arange(90) % 3]
    frame = pd.DataFrame(X, columns=["length", "width"]).assign(kind=y)
    url = f"memory://{uuid.uuid4().hex}"
    for number, some in enumerate((frame[:50], frame[50:])):
        with fsspec.open(f"{url}/{number}.parquet", "wb") as file:
            some.to_parquet(file, row_group_size=20)
    return url, X, y


@pytest.mark.parametrize("where", ["", "/*.parquet"])
def test_files_at_a_url_give_the_fit_of_their_rows(folder, where):
    url, X, y = folder
    source = pm.open(url + where, label="kind")
    assert source.feature_names == ("length", "width")
    found = pm.LDA(prior_strength=1).fit(source)
    wanted = pm.LDA(prior_strength=1).fit(X, y)
    np.testing.assert_allclose(found.components_, wanted.components_, rtol=1e-9)


class Ranges(BaseHTTPRequestHandler):
    """Serve one file, whole or in ranges, as object stores do."""

    body = b""

    def do_GET(self):
        asked = re.findall(r"\d+", self.headers.get("Range", ""))
        first, last = map(int, asked or (0, len(self.body) - 1))
        some = self.body[first : last + 1]
        self.send_response(206 if asked else 200)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(some)))
        where = f"bytes {first}-{first + len(some) - 1}/{len(self.body)}"
        self.send_header("Content-Range", where)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(some)

    do_HEAD = do_GET

    def log_message(self, *args):
        """Print nothing."""


def test_a_file_on_a_web_server_is_read_in_ranges(folder):
    pytest.importorskip("aiohttp")
    url, X, _ = folder
    with fsspec.open(f"{url}/0.parquet", "rb") as file:
        Ranges.body = file.read()
    with ThreadingHTTPServer(("127.0.0.1", 0), Ranges) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/0.parquet"
        source = pm.open(url, label="kind")
        rows = [block.X for part in source.parts for block in source.read(part, 9)]
        server.shutdown()
    assert np.array_equal(np.concatenate(rows), X[:50])


def test_a_file_that_changed_since_it_was_opened_is_named(folder):
    url, X, _ = folder
    source = pm.open(f"{url}/0.parquet", label="kind")
    with fsspec.open(f"{url}/0.parquet", "wb") as file:
        file.write(b"other")
    with pytest.raises(ValueError, match=r"0\.parquet.* changed after it was opened"):
        pm.nearest(pm.Mahalanobis(np.eye(2)), X[:2], source, 1)


@pytest.mark.parametrize(
    ("name", "message"),
    [("2.parquet", "existing files, got none at"), ("a.npy", "Parquet files at a URL")],
)
def test_a_url_without_parquet_files_is_refused(folder, name, message):
    url = folder[0]
    with fsspec.open(f"{url}/a.npy", "wb") as file:
        file.write(b"1")
    with pytest.raises(ValueError, match=message):
        pm.open(f"{url}/{name}")


def test_a_command_reads_a_url(folder):
    source = streamed(pm.LDA(prior_strength=1), DataSpec(folder[0], "kind"))
    assert source is not None
    assert source.feature_names == ("length", "width")
