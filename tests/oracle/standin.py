"""Servers in the place of vLLM's, SGLang's, llama.cpp's and others: each speaks in its own way for one tiny model, and can be broken."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from tests.patience import SECONDS
from vtcore.oracle.followed import log_softmax

Twist = Callable[[list[int], np.ndarray], np.ndarray]  # a prefix and its row of logits -> another row


@dataclass
class Brain:
    """A model that says what is likely after a prefix; `twist` makes it another model."""

    llm: Any
    twist: Twist | None = None
    known: dict[tuple[int, ...], np.ndarray] = field(default_factory=dict)

    def row(self, ids: list[int]) -> np.ndarray:
        if tuple(ids) not in self.known:
            rows = self.llm.logits(ids)
            self.known |= {tuple(ids[: i + 1]): row for i, row in enumerate(rows)}
        row = self.known[tuple(ids)]
        return log_softmax(row if self.twist is None else self.twist(ids, row.copy()))

    def text(self, token: int) -> str:
        return self.llm.tokenizer.token_bytes(token).decode("utf-8", "replace")

    def top(self, row: np.ndarray, count: int) -> list[int]:
        return np.argsort(-row, kind="stable")[:count].tolist()

    def generate(self, ids: list[int], count: int) -> tuple[list[int], list[np.ndarray], str]:
        tokens, rows = [], []
        while len(tokens) < count:
            rows.append(self.row([*ids, *tokens]))
            tokens.append(int(rows[-1].argmax()))
            if tokens[-1] in self.llm.tokenizer.eos_ids:
                return tokens, rows, "stop"
        return tokens, rows, "length"


@dataclass
class Wrong:
    """What is the matter. short: tokens left out at the end; counted: added to the number of the prompt's tokens; shifted: added to every
    id that /tokenize gives; unsized: without a Content-Length; raw: bytes in the place of every answer to a POST; status: of these; hang:
    seconds before them; trickle: a byte at a time; owner: of the models; own: added to
    a token's log probability, but not where it stands among the alternatives."""

    short: int = 0
    counted: int = 0
    shifted: int = 0
    raw: bytes | None = None
    status: int = 200
    hang: bool = False
    trickle: bool = False
    unsized: bool = False
    broken: bool = False
    owner: str | None = None
    text_only: bool = False
    certain: bool = False
    own: float = 0.0
    twist: Twist | None = None
    models: tuple[str, ...] = ("tiny",)


OWNERS = {"vllm": "vllm", "sglang": "sglang", "llama.cpp": "llamacpp", "llama-cpp-python": "me", "ollama": "library", "openai": "acme"}


@dataclass
class StandIn:
    """A running server."""

    brain: Brain
    kind: str
    wrong: Wrong = field(init=False)
    asked: list[tuple[str, Any]] = field(default_factory=list)

    def __init__(self, brain: Brain, kind: str, **wrong: Any) -> None:
        self.kind, self.wrong, self.asked = kind, Wrong(**wrong), []
        self.brain = Brain(brain.llm, self.wrong.twist or brain.twist, brain.known)
        self.released = threading.Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/v1"

    def close(self) -> None:
        self.released.set()
        self.server.shutdown()
        self.server.server_close()

    def get(self, path: str) -> Any:
        if path == "/v1/models":
            owner = OWNERS[self.kind] if self.wrong.owner is None else self.wrong.owner
            return {"object": "list", "data": [{"id": m, "owned_by": owner} for m in self.wrong.models]}
        answers = {
            "vllm": {"/version": {"version": "0.33"}},
            "sglang": {"/get_server_info": {"version": "0.5"}, "/get_model_info": {}},
            "llama.cpp": {"/props": {"build_info": "b6000"}},
            "ollama": {"/api/version": {"version": "0.13"}},
        }
        return answers.get(self.kind, {}).get(path)

    def post(self, path: str, body: Any) -> Any:
        self.asked.append((path, body))
        function = PATHS.get((self.kind, path))
        return None if function is None else function(self, body)

    def ids(self, prompt: Any) -> list[int] | None:
        """None: a form of prompt that this kind refuses."""
        takes_text, takes_ids = self.kind != "vllm-ids", self.kind != "llama-cpp-python" and not self.wrong.text_only
        if isinstance(prompt, str) and takes_text:
            return self.brain.llm.tokenizer.encode(prompt)
        return prompt if isinstance(prompt, list) and takes_ids else None

    def run(self, ids: list[int], count: int) -> tuple[list[int], list[np.ndarray], str]:
        tokens, rows, finish = self.brain.generate(ids, count)
        keep = max(0, len(tokens) - self.wrong.short)
        rows = [np.where(np.arange(r.size) == t, 0.0, -9999.0) for t, r in zip(tokens, rows, strict=True)] if self.wrong.certain else rows
        return tokens[:keep], rows[:keep], finish


def _completions(s: StandIn, body: Any) -> Any:
    ids = s.ids(body["prompt"])
    if ids is None:
        return 400
    brain, count, spell = s.brain, body["logprobs"], s.brain.text
    if body.get("return_tokens_as_token_ids"):
        spell = "token_id:{}".format
    tokens, rows, finish = s.run(ids, body["max_tokens"])
    if finish == "stop" and s.kind == "llama-cpp-python":
        tokens, rows = tokens[:-1], rows[:-1]
    shown = [{spell(i): float(row[i]) for i in (*brain.top(row, count), t)} for t, row in zip(tokens, rows, strict=True)]
    values = [float(row[t]) + s.wrong.own for t, row in zip(tokens, rows, strict=True)]
    texts = [spell(t) for t in tokens]
    if body.get("echo"):
        before = [brain.row(ids[:i]) for i in range(1, len(ids))]
        texts = [spell(t) for t in ids] + texts
        values = [None, *(float(r[t]) + s.wrong.own for r, t in zip(before, ids[1:], strict=True)), *values]
        shown = [None, *({spell(i): float(r[i]) for i in (*brain.top(r, count), t)} for r, t in zip(before, ids[1:], strict=True)), *shown]
    choice = {"text": "", "finish_reason": finish, "logprobs": {"tokens": texts, "token_logprobs": values, "top_logprobs": shown}}
    if "prompt_logprobs" in body:
        rows = [brain.row(ids[:i]) for i in range(1, len(ids))]
        choice["prompt_logprobs"] = [None, *(_ranked(brain, r, t, body["prompt_logprobs"]) for r, t in zip(rows, ids[1:], strict=True))]
    return {"choices": [choice], "usage": {"prompt_tokens": len(ids) + s.wrong.counted, "completion_tokens": len(tokens)}}


def _ranked(brain: Brain, row: np.ndarray, token: int, count: int) -> Any:
    return {str(i): {"logprob": float(row[i]), "rank": 1 + int((row > row[i]).sum())} for i in (token, *brain.top(row, count))}


def _tokenize(key: str) -> Callable[[StandIn, Any], Any]:
    def answer(s: StandIn, body: Any) -> Any:
        return {"tokens": [i + s.wrong.shifted for i in s.brain.llm.tokenizer.encode(body[key])], "count": 1}

    return answer


def _sglang(s: StandIn, body: Any) -> Any:
    ids, brain, count = body["input_ids"], s.brain, body["top_logprobs_num"]
    tokens, rows, finish = s.run(ids, body["sampling_params"]["max_new_tokens"])
    before = [brain.row(ids[:i]) for i in range(1, len(ids))]

    def entry(row: np.ndarray, i: int) -> list[Any]:
        return [float(row[i]), i, None]

    meta = {
        "prompt_tokens": len(ids) + s.wrong.counted,
        "finish_reason": {"type": finish},
        "output_token_logprobs": [entry(r, t) for t, r in zip(tokens, rows, strict=True)],
        "output_top_logprobs": [[entry(r, i) for i in brain.top(r, count)] for r in rows],
        "input_token_logprobs": [[None, ids[0], None], *(entry(r, t) for r, t in zip(before, ids[1:], strict=True))],
        "input_top_logprobs": [None, *([entry(r, i) for i in brain.top(r, count)] for r in before)],
    }
    return {"text": "", "output_ids": tokens, "meta_info": meta}


def _llama_cpp(s: StandIn, body: Any) -> Any:
    tokens, rows, finish = s.run(body["prompt"], body["n_predict"])

    def entry(row: np.ndarray, i: int) -> dict[str, Any]:
        return {"id": i, "token": s.brain.text(i), "logprob": float(row[i])}

    told = [
        {**entry(r, t), "top_logprobs": [entry(r, i) for i in s.brain.top(r, body["n_probs"])]} for t, r in zip(tokens, rows, strict=True)
    ]
    if finish == "stop":
        told = told[:-1]
    stop = {"length": "limit", "stop": "eos"}[finish]
    counted = len(body["prompt"]) + s.wrong.counted
    return {"tokens": tokens, "completion_probabilities": told, "stop_type": stop, "truncated": False, "tokens_evaluated": counted}


def _ollama(s: StandIn, body: Any) -> Any:
    ids = s.brain.llm.tokenizer.encode(body["prompt"])
    tokens, rows, finish = s.run(ids, body["options"]["num_predict"])

    def entry(row: np.ndarray, i: int) -> dict[str, Any]:
        return {"token": s.brain.text(i), "logprob": float(row[i])}

    told = [
        {**entry(r, t), "top_logprobs": [entry(r, i) for i in s.brain.top(r, body["top_logprobs"])]}
        for t, r in zip(tokens, rows, strict=True)
    ]
    return {"response": "", "done_reason": finish, "prompt_eval_count": len(ids) + s.wrong.counted, "logprobs": told}


PATHS = {
    ("vllm", "/v1/completions"): _completions,
    ("vllm", "/tokenize"): _tokenize("prompt"),
    ("openai", "/v1/completions"): _completions,
    ("llama-cpp-python", "/v1/completions"): _completions,
    ("llama-cpp-python", "/extras/tokenize"): _tokenize("input"),
    ("sglang", "/generate"): _sglang,
    ("llama.cpp", "/completion"): _llama_cpp,
    ("llama.cpp", "/tokenize"): _tokenize("content"),
    ("ollama", "/api/generate"): _ollama,
}


def _handler(s: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Quiet."""

        def do_GET(self) -> None:
            self.answer(s.get(self.path))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            generates = "okenize" not in self.path
            if s.wrong.hang and generates:
                s.released.wait(SECONDS)
            elif s.wrong.raw is not None and generates:
                self.send(s.wrong.raw, s.wrong.status)
            else:
                self.answer(s.post(self.path, body))

        def answer(self, value: Any) -> None:
            if value is None or isinstance(value, int):
                self.send(b'{"error": {"message": "no such thing"}}', value or 404)
            else:
                self.send(json.dumps(value).encode(), 200)

        def send(self, raw: bytes, status: int) -> None:
            self.send_response(status)
            if not s.wrong.unsized:
                self.send_header("Content-Length", str(len(raw) + (100 if s.wrong.broken and self.command == "POST" else 0)))
            self.end_headers()
            if s.wrong.trickle and self.command == "POST":
                self.trickle(raw)
            else:
                self.wfile.write(raw)

        def trickle(self, raw: bytes) -> None:
            try:
                for i in range(len(raw)):
                    self.wfile.write(raw[i : i + 1])
                    self.wfile.flush()
                    if s.released.wait(0.1):
                        return
            except OSError:
                return

    return Handler
