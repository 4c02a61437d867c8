from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

from vllm import EngineArgs, LLMEngine


@dataclass
class AsyncEngineArgs(EngineArgs):
    def create_engine_config(self, usage_context):
        return SimpleNamespace(**vars(LLMEngine.config_of(self)), arguments=self)
