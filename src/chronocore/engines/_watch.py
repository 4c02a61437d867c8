"""The main script of the processes that vLLM spawns: they end with the process that wanted them.

A process that is killed cannot shut vLLM down; without this its engine would go on and keep the
device. Standard library only, and nothing happens on import.
"""

from __future__ import annotations

import os
import signal
import threading
import time

__all__: list[str] = []

_SECONDS = 0.5


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__mp_main__":
    threading.Thread(target=_watch, args=(os.getppid(),), name="parent-watch", daemon=True).start()
