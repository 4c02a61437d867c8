"""Several scripted processes behind one asynchronous engine."""

from __future__ import annotations

import asyncio
import itertools
import threading

from vllm import LLMEngine


class AsyncLLM:
    @classmethod
    def from_vllm_config(cls, config, usage_context, disable_log_stats):
        assert disable_log_stats
        engine = cls()
        engine.loop = asyncio.get_running_loop()
        engine.copies = [
            LLMEngine.from_engine_args(config.arguments, usage_context)
            for _ in range(config.arguments.data_parallel_size)
        ]
        engine.turns = itertools.cycle(engine.copies)
        engine.futures = {}
        engine.closing = False
        engine.threads = [
            threading.Thread(target=engine._receive, args=(copy,), daemon=True)
            for copy in engine.copies
        ]
        for thread in engine.threads:
            thread.start()
        return engine

    def _receive(self, copy):
        while not self.closing:
            try:
                outputs = copy.step() if copy.pipe.poll(0.05) else []
            except Exception as error:
                self.loop.call_soon_threadsafe(self._fail, error)
                return
            for output in outputs:
                self.loop.call_soon_threadsafe(self._resolve, output)

    def _resolve(self, output):
        future = self.futures.pop(output.request_id, None)
        if future is not None and not future.done():
            future.set_result(output)

    def _fail(self, error):
        for future in self.futures.values():
            if not future.done():
                future.set_exception(error)

    async def generate(self, prompt, params, request_id):
        self.futures[request_id] = self.loop.create_future()
        next(self.turns).add_request(request_id, prompt, params)
        yield await self.futures[request_id]

    def shutdown(self):
        self.closing = True
        for thread in self.threads:
            thread.join()
        for copy in self.copies:
            copy._shutdown()
