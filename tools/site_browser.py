"""Use a built site and the explorer in a browser without a window.

    python tools/site_browser.py out/site

``site_browser.js`` loads each page at a width of 390 pixels: it must not scroll to the
side, must load less than 2 MB, its pictures must be shown and have a text, and its
visible text must have the contrast of WCAG 2 (AA), in the light and in the dark mode
(text in SVG, and opacity, are not considered). Then it uses the search, the links to
the next page, the menu, the dark mode, and the explorer.
Without Chromium nothing is checked.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, Queue
from threading import Thread

import probmetric as pm

BROWSERS = "chromium", "chromium-browser", "google-chrome", "chrome"
FLAGS = "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"
SCRIPT = Path(__file__).with_suffix(".js")
# The pages of names and sources are alike: two stand for all.
ALIKE = "_modules", "_static", "index", "docs/api/probmetric."
SOME = "docs/api/probmetric.LCA.html", "docs/api/probmetric.plots.matrix.html"
ANSWERS: Queue[list[str]] = Queue()


class Site(SimpleHTTPRequestHandler):
    """Serve the files of a folder, and accept the faults that the script found."""

    def do_POST(self) -> None:  # noqa: D102
        ANSWERS.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_error(204)

    def log_message(self, *_: object) -> None:  # noqa: D102
        pass


def faults(browser: str, site: Path) -> list[str]:
    """Return what is wrong with the site, which is served while the browser runs."""
    found = [str(path.relative_to(site)) for path in sorted(site.rglob("*.html"))]
    pages = [*(page for page in found if not page.startswith(ALIKE)), *SOME]
    iris = pm.datasets.load("iris")
    pm.explore(pm.LDA().fit(iris.X, iris.y), iris.X, iris.y).save(site / "explore.html")
    script = f"const pages = {json.dumps(pages)};\n{SCRIPT.read_text('utf-8')}"
    frame = '<iframe style="height: 800px"></iframe>'
    (site / "use.html").write_text(f"{frame}<script>{script}</script>", "utf-8")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Site, directory=site))
    Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/use.html"
    try:
        # Child processes of the browser may still write when it has ended.
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as user:
            own = f"--user-data-dir={user}", "--remote-debugging-port=0"
            running = subprocess.Popen(
                [browser, *FLAGS, *own, address], stderr=subprocess.DEVNULL
            )
            try:
                return ANSWERS.get(timeout=300)
            except Empty:
                return ["the browser has not answered within 300 s"]
            finally:
                running.terminate()
                running.wait()
    finally:
        server.shutdown()
        for name in ("use.html", "explore.html"):
            (site / name).unlink()


if __name__ == "__main__":
    if browser := next(filter(None, map(shutil.which, BROWSERS)), None):
        wrong = faults(browser, Path(sys.argv[1]))
        print("\n".join(wrong) or "The site and the explorer work in a browser.")
        sys.exit(bool(wrong))
    print(f"Not used in a browser: none of {', '.join(BROWSERS)} is installed.")
