"""A stand-in with vLLM's interface and processes, which fails on order.

The real engine takes half a minute to start, and most of its failures cannot be had at will. This
one starts a spawned process called EngineCore as vLLM does; the environment variable
``SCRIPTED_VLLM`` holds what goes wrong, as JSON (see :mod:`vllm.core`).
"""

from __future__ import annotations

import json
import multiprocessing
import os
import queue
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from vllm.core import serve

__version__ = "9.9.9"


@dataclass
class EngineArgs:
    model: str = ""
    revision: str | None = None
    tokenizer_revision: str | None = None
    seed: int = 0
    dtype: str = "auto"
    quantization: str | None = None
    enable_prefix_caching: bool = False
    enable_chunked_prefill: bool | None = None
    disable_log_stats: bool = False
    enforce_eager: bool = False
    max_model_len: int = 4000
    max_num_seqs: int = 4
    tensor_parallel_size: int = 1
    data_parallel_size: int = 1
    gpu_memory_utilization: float = 0.9
    structured_outputs_config: Any = None
    reasoning_parser: str = ""


@dataclass
class Logprob:
    logprob: float


@dataclass
class Completion:
    index: int
    text: str
    token_ids: list[int]
    finish_reason: str
    logprobs: Any = None


@dataclass
class Output:
    request_id: str
    prompt_token_ids: list[int]
    outputs: list[Completion]
    finished: bool = True


@dataclass
class LLMEngine:
    arguments: EngineArgs
    script: dict[str, Any]
    waiting: set[str] = field(default_factory=set)

    @classmethod
    def from_engine_args(cls, arguments, usage_context=None):
        script = json.loads(os.environ.get("SCRIPTED_VLLM", "{}"))
        engine = cls(arguments, script)
        # As vLLM does, which forks unless it is told otherwise.
        method = os.environ.get("VLLM_WORKER_MULTIPROC_METHOD", "fork")
        context = multiprocessing.get_context(method)
        ours, theirs = context.Pipe()
        engine.process = context.Process(
            target=serve, args=(theirs, script), name="EngineCore", daemon=False
        )
        engine.process.start()
        theirs.close()
        engine.pipe = ours
        engine.engine_core = SimpleNamespace(
            shutdown=engine._shutdown, outputs_queue=queue.SimpleQueue()
        )
        engine.renderer = SimpleNamespace(shutdown=lambda: None)
        engine.vllm_config = cls.config_of(arguments)
        if ours.recv() != "ready":
            engine.process.join()
            raise RuntimeError("Engine core initialization failed. See root cause above.")
        return engine

    @staticmethod
    def config_of(arguments):
        return SimpleNamespace(
            model_config=SimpleNamespace(max_model_len=arguments.max_model_len, dtype="float32"),
            cache_config=SimpleNamespace(num_gpu_blocks=1, block_size=16),
            scheduler_config=SimpleNamespace(max_num_seqs=arguments.max_num_seqs),
        )

    def add_request(self, request_id, prompt, params):
        if self.script.get("reject") == len(prompt["prompt_token_ids"]):
            raise ValueError("this prompt is not liked")
        self.waiting.add(request_id)
        self.pipe.send((request_id, prompt["prompt_token_ids"], params))

    def abort_request(self, request_ids):
        self.waiting -= set(request_ids)

    def has_unfinished_requests(self):
        return bool(self.waiting)

    def step(self):
        try:
            outputs = self.pipe.recv()
        except (EOFError, OSError):
            if self.script.get("silent_death"):
                time.sleep(3600)
            raise RuntimeError("EngineCore encountered an issue. See stack trace") from None
        for output in outputs:
            self.waiting.discard(output.request_id)
        if self.script.get("lose") and not outputs:
            self.waiting.clear()
        return outputs

    def _shutdown(self):
        if self.script.get("hang_at_shutdown"):
            while True:
                time.sleep(60)
        self.pipe.close()
        self.process.join(5)
