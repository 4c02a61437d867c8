"""A tokenizer of characters with a chat template, beside the scripted engine."""

from __future__ import annotations

import string
from pathlib import Path


class _Tokenizer:
    def __init__(self, folder):
        self._template = (Path(folder) / "chat_template.jinja").read_text()

    def get_chat_template(self):
        return self._template

    def apply_chat_template(self, messages, tokenize, add_generation_prompt, **arguments):
        assert add_generation_prompt
        assert not tokenize
        if "no system" in self._template and any(m["role"] == "system" for m in messages):
            raise ValueError("System role not supported")
        text = "".join(f"<{m['role']}>{m['content']}" for m in messages) + "<assistant>"
        thinks = "thinks" in self._template and arguments.get("enable_thinking", True)
        return text + ("<think>\n" if thinks else "")

    def __call__(self, text, add_special_tokens, verbose):
        return {"input_ids": [ord(character) for character in text]}

    def get_vocab(self):
        letters = {letter: 100 + i for i, letter in enumerate(string.ascii_uppercase)}
        return letters | {f"\u0120{letter}": 200 + i for i, letter in enumerate(letters)}


class AutoTokenizer:
    @staticmethod
    def from_pretrained(source, revision=None, **options):
        return _Tokenizer(source)
