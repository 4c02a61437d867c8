"""The process of the scripted engine.

Keys of the script:

``start``            text written to standard error before the process ends without starting
``die_after``        answers after which the process is killed
``silent_death``     nobody is told of the end
``lose``             number of the request that is never answered
``twice``            every answer comes twice, with one to a request nobody made
``delay``            seconds an answer takes
``finish``           finish reason of every answer
``text``             text of every answer
``ignore_sigterm``   do not end when asked to
``hang_at_shutdown`` the engine's shutdown never returns
``reject``           prompt length that is rejected
``device``           file that stands for a device, which one process can hold; it lists who did
``polars``           use polars before the first answer
"""

from __future__ import annotations

import fcntl
import math
import os
import signal
import sys
import time


def serve(pipe, script):
    from vllm import Completion, Logprob, Output

    if "start" in script:
        print(script["start"], file=sys.stderr, flush=True)
        pipe.send("failed")
        sys.exit(1)
    if script.get("ignore_sigterm"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "device" in script:
        device = open(script["device"], "a")  # noqa: PTH123, SIM115
        try:
            fcntl.flock(device, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("ValueError: the device is busy", file=sys.stderr, flush=True)
            pipe.send("failed")
            sys.exit(1)
        device.write(f"{os.getpid()}\n")
        device.flush()
    if script.get("polars"):
        import polars

        polars.DataFrame({"a": [1, 2, 2] * 100_000}).lazy().group_by("a").len().collect()
    pipe.send("ready")
    print("noise on standard output", flush=True)
    number = 0
    held = []
    while True:
        try:
            request_id, tokens, params = pipe.recv()
        except (EOFError, OSError):
            if not script.get("ignore_sigterm"):
                return
            time.sleep(3600)
        time.sleep(script.get("delay", 0))
        logprobs = None
        if params.logprob_token_ids is not None:
            each = 1 / (2 * len(params.logprob_token_ids))
            logprobs = [{token: Logprob(math.log(each)) for token in params.logprob_token_ids}]
        outputs = [
            Completion(
                index,
                script.get("text", f'{{"1": {len(tokens)}, "2": 1}}'),
                [1, 2, 3],
                script.get("finish", "stop"),
                logprobs,
            )
            for index in reversed(range(params.n))
        ]
        answer = Output(request_id, tokens, outputs)
        if script.get("lose") == number:
            answers = []
            held.append(answer)
        elif script.get("twice"):
            answers = [answer, answer, Output("nobody", [], outputs)]
        else:
            answers = [answer]
        number += 1
        if answers:
            pipe.send(answers)
        if number == script.get("die_after"):
            os.kill(os.getpid(), signal.SIGKILL)
        if held and not pipe.poll(0.3):
            pipe.send([])
            held = []
