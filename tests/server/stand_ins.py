"""What stands for an engine's process where routes are asked without one."""

import asyncio

from vtcore.outputs import Delta, Timings


class Stream:
    """One token, and an end or a fault."""

    timings, prompt_logprobs, num_cached_tokens = Timings(0.1, 0.3, 0.6, 10.0), (), 0

    def __init__(self, prompt, request_id, fault):
        self.prompt_token_ids, self.request_id, self.fault = list(prompt), request_id, fault
        self.deltas = [Delta(request_id, 0, "x", [5], None, None if fault else "length", None)]

    def abort(self):
        pass

    async def __anext__(self):
        if self.deltas:
            return self.deltas.pop()
        raise self.fault or StopAsyncIteration


class Engine:
    """Stands for a process."""

    info, fault = {"max_model_len": 512}, None

    async def submit(self, prompt, params, *, request_id):
        await asyncio.sleep(0)
        return Stream(prompt, request_id, self.fault)
