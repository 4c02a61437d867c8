"""A small server that speaks the OpenAI protocol and fails on order.

``Endpoint(script)`` answers ``POST …/chat/completions``. For every request it calls
``script(body, number)``, ``number`` counting the requests with the same user message from 0, and
does what comes back:

``dict``                      reply 200 with this JSON
``(status, headers, dict)``   reply with this status
``Cut()``                     send half a reply and close the connection
``Wait(seconds, then)``       do ``then`` after a while
``str``                       reply 200 with this text
``Raw(chunks, pause)``        send these bytes, head included, with pauses, and close the connection

``GET …/models`` is answered with ``script({}, 0)``.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from dataclasses import dataclass
from typing import Any


@dataclass
class Cut:
    """Close the connection in the middle of the reply."""


@dataclass
class Wait:
    """Do something after some seconds."""

    seconds: float
    then: Any


@dataclass
class Raw:
    """Send bytes as they are, however many there are."""

    chunks: Any
    pause: float = 0.0


def message(content, *, finish_reason="stop", index=0, logprobs=None, **fields):
    choice = {
        "index": index,
        "finish_reason": finish_reason,
        "message": {"role": "assistant", "content": content, **fields},
    }
    if logprobs is not None:
        top = [{"token": t, "logprob": v, "bytes": None} for t, v in logprobs]
        choice["logprobs"] = {"content": [{**top[0], "top_logprobs": top}], "refusal": None}
    return choice


def completion(*choices, model="served-model-2026-11-01", tokens=(11, 7)):
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "system_fingerprint": "fp_1",
        "choices": list(choices),
        "usage": {
            "prompt_tokens": tokens[0],
            "completion_tokens": tokens[1],
            "total_tokens": sum(tokens),
        },
    }


class Endpoint:
    """The server; use it as a context manager."""

    def __init__(self, script):
        self._script = script
        self._seen = {}
        self._writers = set()
        self.bodies = []
        self.paths = []
        self.headers = []
        self.times = []
        self.open = 0
        self.most_open = 0

    def __enter__(self):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._port = 0
        self.come_back()
        self._port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}/v1"
        return self

    def come_back(self):
        """Listen, at the same address as before."""
        started = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", self._port), self._loop
        )
        self._server = started.result(10)

    def leave(self):
        """Go away as a server that is killed: connections are cut, nobody listens."""

        async def end():
            self._server.close()
            for writer in self._writers:
                writer.transport.abort()

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)

    def __exit__(self, *_):
        async def end():
            self._server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _serve(self, reader, writer):
        self._writers.add(writer)
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _one(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
        headers = {name.lower(): value for name, value in headers.items()}
        body = json.loads(await reader.readexactly(int(headers.get("content-length", 0))) or b"{}")
        method, path, _ = lines[0].split(" ")
        self.paths.append(path)
        self.headers.append(headers)
        if method == "GET":
            return await self._reply(writer, self._script({}, 0))
        assert path.endswith("/chat/completions")
        user = body["messages"][-1]["content"]
        number = self._seen.get(user, 0)
        self._seen[user] = number + 1
        self.bodies.append(body)
        self.times.append(time.monotonic())
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            return await self._reply(writer, self._script(body, number))
        finally:
            self.open -= 1

    async def _reply(self, writer, reply):
        while isinstance(reply, Wait):
            await asyncio.sleep(reply.seconds)
            reply = reply.then
        if isinstance(reply, Cut):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n{")
            await writer.drain()
            writer.transport.abort()
            return False
        if isinstance(reply, Raw):
            for chunk in reply.chunks:
                writer.write(chunk)
                await writer.drain()
                await asyncio.sleep(reply.pause)
            return False
        status, extra, content = reply if isinstance(reply, tuple) else (200, {}, reply)
        kind = "text/html" if isinstance(content, str) else "application/json"
        data = content.encode() if isinstance(content, str) else json.dumps(content).encode()
        fields = {"Content-Type": kind, "Content-Length": str(len(data)), **extra}
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        writer.write(f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode() + data)
        await writer.drain()
        return True
