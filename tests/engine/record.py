"""Record the predictions of SmolLM2-135M-Instruct that come with the package.

Run as ``tests/engine/run .venv-engine --record``. Builds the open sample, asks the model every
dated and undated prompt with the published settings and the JSON schema, and writes the run with
its settings and its provenance to ``data/chronocore_data/recorded/``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import chronocore as cc
import chronocore_data


def main(model: str) -> None:
    """Record the run."""
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder) / "study"
        cc.build(study, preset="open-sample")
        result = cc.predict(study, f"vllm:{model}", structured=True)
        path = chronocore_data.recorded_predictions()
        rows = cc.export_run(study, result.run_id, path)
    print(f"{rows} rows, {result.statuses}, {path.stat().st_size / 1024:.0f} KiB: {path.name}")


if __name__ == "__main__":
    main(sys.argv[1])
