"""The texts that the log view shows about its log: in the frame and below it."""

from __future__ import annotations

from textual.content import Content

from grubrics_tui.model.log_search import LogSearch
from grubrics_tui.text.formats import memory
from grubrics_tui.text.terminal_text import clean_line
from grubrics_tui.widgets.log_view import LogView


def format_facts(view: LogView) -> str:
    """Size, lines, errors and sources of the file, as far as they are known."""
    if view.file is None:
        return "   waiting for the file"
    survey, size = view.survey, view.file.size
    facts = [memory(size)]
    if (lines := survey.line_count()) is not None:
        facts.append(f"{lines:,} {'line' if lines == 1 else 'lines'}")
    elif size:
        share = f"{min(99, 100 * survey.read // size)}%"
        facts.append(f"scan stopped at {share}" if survey.given_up else f"scanning: {share}")
    if errors := len(survey.errors):
        facts.append(f"{errors:,} {'error' if errors == 1 else 'errors'}")
    return "   " + "   ".join(facts)


def format_position(view: LogView) -> str:
    if view.file is None:
        return ""
    survey, offset = view.survey, view.cursor
    share = "all" if view.shows_all else f"{round(100 * offset / max(1, view.file.size))}%"
    parts = ["following" if view.following else share]
    if (line := survey.line_number(view.file, offset)) is not None:
        parts.append(f"line {line:,}")
    if (step := survey.step_at(offset)) is not None:
        parts.append(f"step {step:,}")
    parts += [f"column {view.left:,}"] if view.left else []
    parts += [] if view.folded else ["unfolded"]
    return "   ".join(parts)


def format_status(view: LogView, wanted_time: str = "") -> Content:
    """Notice, search and filter in one line. ``wanted_time`` is a time being searched for."""
    parts = [Content.styled(view.notice, "$warning")] if view.notice else []
    if wanted_time:
        parts.append(Content.styled(f"searching for {wanted_time}, esc stops", "$quiet"))
    if view.search is not None:
        parts.append(_format_search("search", view.search, view))
    if view.filter is not None:
        parts.append(_format_search("filter", view.filter, view))
    return Content("   ").join(parts)


def _format_search(verb: str, search: LogSearch, view: LogView) -> Content:
    query = search.query
    pattern = "  ".join(clean(part) for part in (*query.patterns[:1], query.source) if part)
    lines = "line" if len(search.hits) == 1 else "lines"
    count = f"{len(search.hits):,}{'+' if search.full else ''} {lines}"
    if verb == "search" and not search.running and search.hits.any_in(view.cursor, view.cursor + 1):
        count = f"{search.hits.count_before(view.cursor) + 1:,} of {count}"
    size = max(1, view.file.size if view.file else 1)
    progress = f"   {min(99, 100 * search.read // size)}%, esc stops" if search.running else ""
    progress = "   stopped: it takes too long" if search.given_up else progress
    return (
        Content.styled(f"{verb} ", "$quiet")
        + Content.styled(pattern, "bold $mark")
        + Content.styled(f"  {count}{progress}", "$quiet")
    )


def clean(text: str) -> str:
    return clean_line(text.encode("utf-8", errors="replace"))
