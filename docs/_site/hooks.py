"""The examples in the help of a command are code, line by line."""

from __future__ import annotations

import re
from typing import Any

_EXAMPLES = re.compile(r"<p>(Examples?:)\n(.*?)</p>", re.DOTALL)


def _block(match: re.Match[str]) -> str:
    lines = "\n".join(line.strip() for line in match[2].splitlines())
    return f'<p>{match[1]}</p>\n<div class="highlight"><pre><code>{lines}</code></pre></div>'


def on_page_content(html: str, *, page: Any, **_: Any) -> str:
    """Rewrite the page of the command line."""
    return _EXAMPLES.sub(_block, html) if page.file.src_uri == "reference/cli.md" else html
