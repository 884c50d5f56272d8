"""A report as one HTML file: no script, no network, styles and charts inside."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from engine.reports.run_report.report import Charts, Problem, Report, Sample, Section, Table
from engine.reports.run_report.svg_chart import CHART_STYLE, draw_chart

_FOLDER = Path(__file__).parent
_KINDS = {Table: "table", Problem: "problem", Charts: "charts", Sample: "sample"}


def render_html(report: Report) -> str:
    """The page. Every text of the report is escaped; only charts are markup."""
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = environment.get_template("style.css.jinja").render(charts=Markup(CHART_STYLE))
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return environment.get_template("page.html.jinja").render(
        report=report,
        style=Markup(style),
        style_hash=digest,
        kind_of=lambda block: _KINDS[type(block)],
        draw=lambda chart: Markup(draw_chart(chart)),
        is_open=_is_open,
    )


def _is_open(section: Section) -> bool:
    """Whether a section is shown without a click; the long ones are folded."""
    return section.name not in ("environment", "data", "manifest")
