from __future__ import annotations

import enum


class UsageContext(enum.Enum):
    LLM_CLASS = "LLM_CLASS"
