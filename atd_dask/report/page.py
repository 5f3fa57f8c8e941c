"""Renders the view as one HTML file. Its content security policy allows nothing but its own style
and script, and no requests."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from atd_dask.report.cluster_view import METRICS
from atd_dask.report.sources import Sources
from atd_dask.report.view import make_view


def render(sources: Sources) -> bytes:
    """Render the page; the same sources give the same bytes."""
    style, script = read("page.css"), read("page.js")
    return fill("page.html.j2", style, script, view=make_view(sources), metric_names=METRICS)


def fill(template: str, style: str, script: str, **values: object) -> bytes:
    """Render a template of this package as a self-contained page."""
    policy = "; ".join(
        (
            "default-src 'none'",
            f"style-src '{_hash(style)}'",
            f"script-src '{_hash(script)}'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    compiled = _environment().get_template(template)
    page = compiled.render(
        style=Markup(style),  # noqa: S704 - a file of this package
        script=Markup(script),  # noqa: S704
        policy=policy,
        **values,
    )
    return page.lstrip().encode()


@cache
def _environment() -> Environment:
    """Return the environment that keeps the compiled templates. Every value is escaped, except for
    Markup, which is made from numbers."""
    return Environment(
        loader=FunctionLoader(read),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def read(name: str) -> str:
    """Read a file of this package."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
