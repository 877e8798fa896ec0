"""Pictures of pages are rendered where a test is about them, and else only drawn."""

import pytest

from tests.cli.runs import draw_only


@pytest.fixture
def rendered():
    """Have pictures rendered in the test that asks for it."""


@pytest.fixture(autouse=True)
def drawn(request, monkeypatch):
    """Render no picture, but of pages that fixtures of a module make."""
    if "rendered" not in request.fixturenames:
        draw_only(monkeypatch)
