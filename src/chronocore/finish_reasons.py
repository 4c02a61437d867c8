"""The words in which engines say why a model stopped writing, and what each of them means.

Servers and files keep their own words; whatever reads an answer asks :func:`ending` and compares
with its values only. The word itself stays in ``finish_reason`` as it came.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

__all__ = ["ENDINGS", "Ending", "ending"]

Ending = Literal["stop", "tool_calls", "length", "content_filter", "error", "unknown"]

#: What an ending means, and the words for it, in lower case with single underscores.
ENDINGS: dict[Ending, frozenset[str]] = {
    # The model came to its own end.
    "stop": frozenset(
        {
            "stop", "stopped", "stop_sequence", "stop_token", "stop_word", "stop_str",
            "eos", "eos_token", "eos_found", "eot", "end", "end_turn", "end_of_turn",
            "end_of_text", "end_of_sequence", "complete", "completed", "finish", "finished",
            "done", "normal",
        }
    ),
    # It ended by calling a tool, whose arguments are then what it wrote.
    "tool_calls": frozenset(
        {"tool_call", "tool_calls", "tool_use", "tool", "function_call", "function_calls"}
    ),
    # It was cut: by the limit of the answer, or by the end of its context.
    "length": frozenset(
        {
            "length", "max_length", "length_limit", "length_capped", "limit", "truncated",
            "max_tokens", "max_token", "max_new_tokens", "max_output_tokens", "max_gen_len",
            "max_completion_tokens", "max_generated_tokens", "max_tokens_reached",
            "token_limit", "token_limit_reached", "token_limits", "model_length", "error_limit",
            "max_model_len", "max_context_length", "context_length", "context_length_exceeded",
            "context_limit", "context_window", "context_window_exceeded",
            "model_context_window_exceeded", "max_seq_len", "max_sequence_length",
        }
    ),
    # Somebody's filter took the answer away or kept the model from giving one.
    "content_filter": frozenset(
        {
            "content_filter", "content_filtered", "content_filtering", "content_policy",
            "content_policy_violation", "content_blocked", "content_moderation", "filter",
            "filtered", "blocked", "block", "blocklist", "moderation", "moderated", "safety",
            "safety_filter", "image_safety", "refusal", "refused", "refuse", "sensitive",
            "prohibited_content", "recitation", "image_recitation", "spii", "pii", "toxic",
            "error_toxic", "guardrail", "guardrails", "guardrail_intervened", "model_armor",
            "policy_violation",
        }
    ),
    # The server failed while the model wrote; what came is no answer.
    "error": frozenset(
        {
            "error", "errored", "failed", "failure", "abort", "aborted", "cancel", "cancelled",
            "canceled", "user_cancel", "interrupted", "timeout", "timed_out", "time_limit",
            "expired", "server_error", "internal_error", "internal_server_error", "engine_error",
            "model_error", "network_error", "stream_error", "upstream_error", "connection_error",
            "overloaded", "insufficient_system_resource", "malformed_function_call",
            "unexpected_tool_call",
        }
    ),
}  # fmt: skip

_MEANING: dict[str, Ending] = {
    word: meaning for meaning, words in ENDINGS.items() for word in words
}

#: Words for "nothing is said", which is no reason to doubt an answer.
_NOTHING = frozenset({"", "null", "none", "nan", "unspecified"})

#: How libraries write the name of an enumeration before its value.
_ENUMERATION = re.compile(r"^(?:finish|stop|stopping|end|completion|done)_?reason[._:\s-]+")

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_BETWEEN = re.compile(r"[\s_-]+")


@lru_cache(maxsize=1024)
def ending(finish_reason: str | None) -> Ending | None:
    """Return what a finish reason means, whatever the engine's word for it.

    Parameters
    ----------
    finish_reason : str or None
        As it came, in any case; words may be joined by hyphens, spaces or capitals.

    Returns
    -------
    str or None
        ``stop``: the model came to its own end. ``tool_calls``: it ended by calling a tool.
        ``length``: it was cut. ``content_filter``: a filter stepped in. ``error``: the server
        failed. ``unknown``: a word that is in no list, so nothing about the end of the text is
        taken for granted. None where nothing is said.

    Notes
    -----
    Definitions, section 4.

    Examples
    --------
    >>> [ending(word) for word in ("stop", "MAX_TOKENS", "content-filter", "FinishReason.SAFETY")]
    ['stop', 'length', 'content_filter', 'content_filter']
    >>> ending("weary"), ending(None)
    ('unknown', None)
    """
    if finish_reason is None:
        return None
    word = _BETWEEN.sub("_", _CAMEL.sub("_", finish_reason.strip())).casefold()
    word = _ENUMERATION.sub("", word).strip("_")
    if word in _NOTHING:
        return None
    return _MEANING.get(word, "unknown")
