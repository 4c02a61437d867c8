"""A study in an object store: the same results and the same guarantees, on a real S3 server."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import uuid

import pytest
from proofs.scripted import ScriptedEngine, run

pytest.importorskip("s3fs", reason="needs chronocore[remote]")
pytest.importorskip("moto.server", reason="needs chronocore[test]")

import pyarrow.parquet as pq

import chronocore as cc
from chronocore import locks, storage, stream
from chronocore.identity import run_id

pytestmark = pytest.mark.versions

RUN = run_id(ScriptedEngine().settings)


#: Names of objects the server answers 403 for.
REFUSED: set[str] = set()


def _guarded(application):
    def answer(environ, start_response):
        if environ["PATH_INFO"].rpartition("/")[2] not in REFUSED:
            return application(environ, start_response)
        start_response("403 Forbidden", [("Content-Type", "application/xml")])
        text = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
        return [b"" if environ["REQUEST_METHOD"] == "HEAD" else text]

    return answer


@pytest.fixture(scope="module")
def bucket():
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    server._server.app = _guarded(server._server.app)
    host, port = server.get_host_and_port()
    settings = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    import s3fs

    # A worker that comes back to this file starts a new server; a file system kept from before
    # would ask the old one.
    s3fs.S3FileSystem.clear_instance_cache()
    s3fs.S3FileSystem().mkdir("bucket")
    yield "s3://bucket"
    for name, value in before.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    server.stop()


@pytest.fixture
def remote(bucket, built_study):
    """The URL of a built study."""
    url = f"{bucket}/{uuid.uuid4().hex}/study"
    target = storage.location(url)
    for path in built_study.iterdir():
        if path.is_file() and not path.name.startswith("."):
            storage.write_atomic(target / path.name, path.read_bytes())
    return url


@pytest.fixture(scope="module")
def scored(bucket, built_study):
    """The URL of a scored study; read-only."""
    url = f"{bucket}/{uuid.uuid4().hex}/study"
    for path in built_study.iterdir():
        if path.is_file() and not path.name.startswith("."):
            storage.write_atomic(storage.location(url) / path.name, path.read_bytes())
    cc.predict(url, ScriptedEngine())
    cc.score(url, resamples=20)
    return url


def rows_of(study):
    columns = ["prompt_id", "repeat", "text", "status", "reason", "probs", "attempt"]
    return cc.Study.open(study).predictions(RUN, columns=columns).to_pylist()


def test_a_whole_study_lives_there(bucket, study):
    url = f"{bucket}/{uuid.uuid4().hex}"
    from chronocore.config import Source, StudyConfig

    preset = cc.preset_config("open-sample")
    config = StudyConfig(
        sources=[Source(preset="open-sample", variables=["E143"])], rules=preset.rules
    )
    built = cc.build(url, config=config)
    assert sum(built.shifts.values()) == 44
    assert cc.predict(url, "reference:uniform").statuses == {"ok": 132}
    cc.predict(url, ScriptedEngine())
    assert cc.score(url, resamples=50).runs[0].label == "scripted"
    assert len(cc.tables(url, "t08")["t08"]) > 0
    folder = storage.location(url)
    names = {path.name for path in folder.iterdir()}
    assert {"manifest.json", "runs.parquet", "scores.json", "tables", "predictions"} <= names
    assert not [name for name in names if name.endswith((".tmp", ".lock"))]
    with folder.joinpath("gold.parquet").open("rb") as file:
        assert len(pq.read_table(file)) > 44


@pytest.mark.slow
def test_rows_are_those_of_a_local_study(remote, study):
    for place in (remote, study):
        cc.predict(place, ScriptedEngine(errors=60))
        result = cc.predict(place, ScriptedEngine())
        assert sum(result.statuses.values()) == 387
    assert rows_of(remote) == rows_of(study)
    assert cc.Study.open(remote).totals(RUN) == cc.Study.open(study).totals(RUN)
    assert cc.compact(remote)["scripted"].after <= 4
    assert rows_of(remote) == rows_of(study)
    assert cc.status(remote)[0].done == {"dated": 258, "undated": 129}
    assert cc.remove_run(remote, "scripted") > 0
    assert cc.status(remote) == []


def test_a_damaged_part_is_set_aside(remote):
    cc.predict(remote, ScriptedEngine())
    part = cc.Study.open(remote).parts(RUN)[0]
    part.write_bytes(part.read_bytes()[:-20])
    result = cc.predict(remote, ScriptedEngine())
    assert len(result.notices) == 1
    assert part.with_name(f"{part.name}.unreadable").exists()
    assert len(rows_of(remote)) == 387


@pytest.mark.slow
def test_killed_there_a_run_can_be_resumed(remote, study, monkeypatch):
    monkeypatch.setattr(locks, "LEASE_SECONDS", 1.0)
    cc.predict(study, ScriptedEngine())
    context = multiprocessing.get_context("spawn")
    asking, end = context.Pipe(duplex=False)
    child = context.Process(target=run, args=(remote, 1, 50.0, 20, 0, end))
    child.start()
    assert asking.poll(60)
    time.sleep(2.0)
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    assert 20 < len(rows_of(remote)) < 387
    cc.predict(remote, ScriptedEngine())
    drop = [{k: v for k, v in row.items() if k != "attempt"} for row in rows_of(remote)]
    assert drop == [{k: v for k, v in row.items() if k != "attempt"} for row in rows_of(study)]


def test_a_lease_has_one_holder(remote, monkeypatch):
    monkeypatch.setattr(locks, "LEASE_SECONDS", 1.2)
    opened = cc.Study.open(remote)
    with opened.lock("x"):
        started = time.monotonic()
        with pytest.raises(cc.StudyError, match="another process"), opened.lock("x", timeout=0.2):
            pass
        assert time.monotonic() - started < 1.2
        time.sleep(1.5)  # renewed: still held
        with pytest.raises(cc.StudyError, match="another process"), opened.lock("x", timeout=0.2):
            pass
    with opened.lock("x", timeout=0.2):
        pass
    assert not (opened.path / ".x.lock").exists()


def test_a_lease_of_the_dead_is_taken_over(remote, monkeypatch):
    monkeypatch.setattr(locks, "LEASE_SECONDS", 0.5)
    monkeypatch.setattr(locks, "_SETTLE_SECONDS", 0.1)
    opened = cc.Study.open(remote)
    (opened.path / ".x.lock").write_bytes(b"somebody 17")
    with opened.lock("x", timeout=0.1):
        assert (opened.path / ".x.lock").read_bytes() != b"somebody 17"


def test_a_build_is_refused_while_a_predict_runs(remote, monkeypatch):
    monkeypatch.setattr(locks, "LEASE_SECONDS", 1.0)
    opened = cc.Study.open(remote)
    with (
        opened.writing_run(RUN, opened.manifest()["files"]),
        pytest.raises(cc.StudyError, match="a predict of run"),
    ):
        cc.build(remote)
    cc.Study.open(remote)


def test_what_the_store_refuses_is_one_line(bucket, monkeypatch):
    with pytest.raises(cc.StudyError, match="there is no folder s3://bucket/nothing"):
        cc.Study.open("s3://bucket/nothing")
    with pytest.raises(cc.StorageError, match=r"cannot .* s3://no-such-bucket"):
        cc.build("s3://no-such-bucket/study", preset="open-sample")
    with pytest.raises(cc.StorageError, match="nonsense"):
        cc.Study.open("nonsense://x/y")


@pytest.mark.parametrize(
    "name",
    ["manifest.json", "study.toml", "items.parquet", "prompts.parquet", "runs.parquet",
     "scores.json", "part", "scores.parquet"],
)  # fmt: skip
def test_an_object_that_may_not_be_read_is_not_missing(scored, name):
    if name == "part":
        name = cc.Study.open(scored).parts(RUN)[0].name

    def read():
        study = cc.Study.open(scored)
        study.runs()
        study.predictions(RUN)
        study.scores(RUN)
        cc.tables(scored, "t08")

    REFUSED.add(name)
    try:
        with pytest.raises(cc.StorageError, match="the store denies access") as caught:
            read()
        with pytest.raises(cc.StorageError):
            cc.report(scored)
    finally:
        REFUSED.clear()
    assert name in str(caught.value)
    assert not isinstance(caught.value, cc.StudyError)
    for wrong in ("missing", "chronocore build", "delete", "no scores"):
        assert wrong not in str(caught.value)


def test_parts_grow_before_they_are_put(remote, monkeypatch):
    monkeypatch.setattr(stream, "PART_ROWS", 100)
    cc.predict(remote, ScriptedEngine())
    assert len(cc.Study.open(remote).parts(RUN)) <= 5


def test_the_command_line_takes_a_url(remote, run_cli):
    done = run_cli("predict", remote, "--model", "reference:pooled")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"next: chronocore score {remote}"
