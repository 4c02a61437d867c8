"""A page in headless chromium: what a script of ours finds there."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["AXE", "CHROMIUM", "ask"]

CHROMIUM = next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome", "chrome")
        if (found := shutil.which(name))
    ),
    None,
)

AXE = Path(__file__).with_name("node_modules") / "axe-core" / "axe.min.js"

_DARK = "--blink-settings=preferredColorScheme=0"


def ask(
    page: Path,
    script: str,
    folder: Path,
    *,
    width: int = 1200,
    dark: bool = False,
    libraries: Sequence[Path] = (),
) -> Any:
    """Return what an async function body returns in the page.

    The page's policy allows no script but its own, so it is taken out of a copy that holds ours.
    """
    text = page.read_text(encoding="utf-8")
    text, taken = re.subn(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    assert taken == 1
    parts = [f"<script>{library.read_text(encoding='utf-8')}</script>" for library in libraries]
    parts.append(
        "<script>(async () => { const ours = document.createElement('pre'); ours.id = 'answer';"
        f"try {{ ours.textContent = JSON.stringify(await (async () => {{ {script} }})()); }}"
        "catch (error) { ours.textContent = JSON.stringify({ error: String(error) }); }"
        "document.body.append(ours); })();</script>"
    )
    copy = folder / f"copy-{width}-{dark}.html"
    copy.write_text(text.replace("</body>", "".join(parts) + "</body>"), encoding="utf-8")
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={folder / f'profile-{width}-{dark}'}", f"--window-size={width},900",
        "--virtual-time-budget=60000", *([_DARK] if dark else []), "--dump-dom", copy.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    answer = re.search(r'<pre id="answer">(.*?)</pre>', done.stdout, re.DOTALL)
    assert answer, done.stderr[-2000:]
    found = json.loads(html.unescape(answer[1]))
    assert not (isinstance(found, dict) and "error" in found), found
    return found
