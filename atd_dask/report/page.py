"""The view becomes one HTML file, with a policy under which nothing but its own style and script
may run and nothing may be fetched."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from atd_dask.report.sources import Sources
from atd_dask.report.view import METRICS, make_view


def render(sources: Sources) -> bytes:
    """Return the page. The same sources give the same bytes."""
    style, script = read("page.css"), read("page.js")
    return fill("page.html.j2", style, script, view=make_view(sources), metric_names=METRICS)


def fill(template: str, style: str, script: str, **values: object) -> bytes:
    """Return a template of this package as a page by itself."""
    policy = "; ".join(
        (
            "default-src 'none'",
            f"style-src '{_hash(style)}'",
            f"script-src '{_hash(script)}'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    # Autoescape holds for every value; only what is Markup, made from numbers, passes as it is.
    environment = Environment(
        loader=FunctionLoader(read),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template(template).render(
        style=Markup(style),  # noqa: S704 - the files of this package
        script=Markup(script),  # noqa: S704
        policy=policy,
        **values,
    )
    return page.lstrip().encode()


def read(name: str) -> str:
    """Return a file of this package."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
