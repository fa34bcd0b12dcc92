"""A server at a URL, made to follow a recorded answer: it scores it whole, or goes on from it wherever its own token differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vtcore.errors import ArgumentError
from vtcore.oracle.engines.recording import tokenised_differently
from vtcore.oracle.followed import Followed, NotComparedError, Said
from vtcore.oracle.recording import Answer, Recording
from vtcore.oracle.servers.client import Client, UnreachableError
from vtcore.oracle.servers.detect import detect
from vtcore.oracle.servers.dialect import Asked, Dialect, Generated, Told
from vtcore.oracle.spelling import Spelling

FORCINGS = ("auto", "score", "continue")
PATIENCE = 2  # prompts without any answer, after which no more are asked
CONTRADICTION = 0.01  # nats between two numbers for one thing: more than rounding for print makes


@dataclass(frozen=True)
class ServerOptions:
    """forcing: "score" gives the whole answer as a prompt, "continue" generates and goes on behind each token that differs, "auto" scores
    where the server can. most_requests: for one prompt."""

    forcing: str = "auto"
    most_requests: int = 16
    timeout: float = 60.0
    server: str | None = None
    served_model: str | None = None
    api_key: str | None = None

    def __post_init__(self) -> None:
        if self.forcing not in FORCINGS:
            raise ArgumentError(f"forcing is {self.forcing!r}; it must be one of {', '.join(FORCINGS)}")
        if not 1 <= self.most_requests <= 4096:
            raise ArgumentError(f"max requests is {self.most_requests}; it must be from 1 to 4096")
        if not 0 < self.timeout <= 86400:
            raise ArgumentError(f"timeout is {self.timeout}; it must be seconds, more than 0 and at most a day")


class ServerEngine:
    """What it is gets detected with the first prompt."""

    def __init__(self, url: str, recording: Recording, options: ServerOptions) -> None:
        self.url, self.recording, self.options = url, recording, options
        self.client = Client(url, options.timeout, options.api_key)
        self.spelling = Spelling(recording)
        self._dialect: tuple[Dialect, str] | None = None
        self._silent = 0

    def describe(self) -> Mapping[str, str]:
        """Its kind and how that was found out, its version, and how prompts go in."""
        dialect, why = self._found()
        version = dialect.version()
        about = {"name": dialect.name, "url": self.url, "detected": why, "model": getattr(dialect, "model", "")}
        return about | ({} if version is None else {"version": version}) | {"prompts": "token ids" if dialect.takes_ids else "text"}

    def follow(self, answer: Answer) -> Followed:
        """Along one answer."""
        if self._silent >= PATIENCE:
            raise NotComparedError(f"not asked: {PATIENCE} prompts before it got no answer at all")
        try:
            followed = self._follow(answer)
        except UnreachableError:
            self._silent += 1
            raise
        self._silent = 0
        return followed

    def close(self) -> None:
        """Every request had a connection of its own."""

    def _found(self) -> tuple[Dialect, str]:
        if self._dialect is None:
            self._dialect = detect(self.client, self.options.server, self.options.served_model)
        return self._dialect

    def _follow(self, answer: Answer) -> Followed:
        dialect, _ = self._found()
        self._check_tokens(dialect, answer)
        if self.options.forcing == "score" or (self.options.forcing == "auto" and dialect.scores):
            try:
                return self._score(dialect, answer)
            except UnreachableError:
                raise
            except NotComparedError:
                if self.options.forcing == "score" or dialect.name != "openai":
                    raise
        return self._continue(dialect, answer)

    def _check_tokens(self, dialect: Dialect, answer: Answer) -> None:
        """A server that takes ids is still held to tokenise as recorded: its users send text."""
        if dialect.takes_ids and answer.text is not None:
            ids = dialect.tokenize(answer.text, answer.special)
            if ids is not None and tuple(ids) != answer.prompt_token_ids:
                raise NotComparedError(tokenised_differently(answer.prompt_token_ids, ids))

    def _score(self, dialect: Dialect, answer: Answer) -> Followed:
        n, whole = len(answer.token_ids), [*answer.prompt_token_ids, *answer.token_ids]
        got = dialect.score(Asked(whole, self.spelling.text(answer, n), answer.top_ids.shape[1]), n)
        _check_counted(got, len(whole))
        if len(got.told) != n:
            raise NotComparedError(f"it scored {len(got.told)} of {n} tokens")
        return Followed(tuple(self._said(t, answer, i) for i, t in enumerate(got.told)), "scored in 1 request")

    def _continue(self, dialect: Dialect, answer: Answer) -> Followed:
        said: list[Said | None] = []
        n, requests, problem = len(answer.token_ids), 0, None
        while len(said) < n and problem is None:
            if requests == self.options.most_requests:
                problem = f"{requests} requests were spent after {len(said)} of {n} tokens (--max-requests)"
                break
            try:
                problem = self._go_on(dialect, answer, said)
            except NotComparedError as why:
                if not said:
                    raise
                problem = str(why)
            requests += 1
        how = f"continued in {requests} request{'s' * (requests != 1)}"
        return Followed((*_without_sampled_logprobs(answer, said), *[None] * (n - len(said))), how, problem)

    def _go_on(self, dialect: Dialect, answer: Answer, said: list[Said | None]) -> str | None:
        """One request from where `said` ends, up to the first token that differs. Returns what is wrong, if anything."""
        at, wanted = len(said), len(answer.token_ids) - len(said)
        prefix = [*answer.prompt_token_ids, *answer.token_ids[:at]]
        text = self._text(dialect, answer, at, prefix)
        got = dialect.generate(Asked(prefix, text, answer.top_ids.shape[1]), wanted)
        _check_counted(got, len(prefix))
        if got.prompt_tokens is None and not dialect.takes_ids and dialect.tokenize(text or "", answer.special) != prefix:
            raise NotComparedError("it takes prompts as text, and says neither their tokens nor how many: it may tokenise differently")
        told = [self._said(t, answer, at + i) for i, t in enumerate(got.told[:wanted])]
        if got.finish == "stop" and len(told) < wanted and not (told and told[-1].token in self.recording.model.end_ids):
            told.append(self._end(answer, at + len(told)))
        for one in told:
            said.append(one)
            if one.token != answer.token_ids[len(said) - 1]:
                return None
        if len(told) < wanted and not (told and told[-1].token in self.recording.model.end_ids):
            return f"it gave {len(told)} of {wanted} tokens and stopped for {got.finish!r}"
        return None

    def _text(self, dialect: Dialect, answer: Answer, at: int, prefix: Sequence[int]) -> str | None:
        """The prefix as text, for servers that take nothing else: one whose tokens there are the recorded ones."""
        text = self.spelling.text(answer, at)
        if dialect.takes_ids or text is None:
            return text
        begins = self.spelling.piece(prefix[0])
        candidates = [text, *([text.removeprefix(begins)] if begins and text.startswith(begins) else [])]
        for candidate in candidates:
            ids = dialect.tokenize(candidate, answer.special)
            if ids is None or list(ids) == list(prefix):
                return candidate
        raise NotComparedError(tokenised_differently(prefix, dialect.tokenize(text, answer.special) or ()))

    def _said(self, told: Told, answer: Answer, i: int) -> Said:
        preferred = (answer.token_ids[i], *answer.top_ids[i].tolist())
        logprobs = dict[int, float]()
        for one in (told, *told.others):
            token = one.token if one.token is not None else self.spelling.token(one.text, preferred)
            if token is not None and one.logprob is not None:
                self._check_once(one, logprobs.setdefault(token, one.logprob))
        token = told.token if told.token is not None else self.spelling.token(told.text, preferred)
        return Said(token, logprobs, told.text)

    def _check_once(self, told: Told, before: float) -> None:
        """Raises NotComparedError where a token has two log probabilities: by itself, and as one of several. A certain one has none."""
        one_token = told.token is not None or self.spelling.single(told.text)
        if told.logprob is not None and one_token and before != 0 and abs(told.logprob - before) > CONTRADICTION:
            name = told.text or told.token
            raise NotComparedError(f"it tells two log probabilities of one token, {name!r}: {before:.6g} and {told.logprob:.6g}")

    def _end(self, answer: Answer, i: int) -> Said:
        """The server ended its answer without telling the token that did it."""
        ends, wanted = self.recording.model.end_ids, answer.token_ids[i]
        token = wanted if wanted in ends else next((int(t) for t in answer.top_ids[i] if int(t) in ends), ends[0] if ends else None)
        return Said(token, {}, "the end of the answer")


def _without_sampled_logprobs(answer: Answer, said: Sequence[Said | None]) -> Sequence[Said | None]:
    """At temperature 0 some servers call every chosen token certain: those are no log probabilities of the model."""
    told = [(i, s) for i, s in enumerate(said) if s is not None and s.token is not None and s.logprobs]
    certain = told and all(abs(s.logprobs.get(s.token or 0, -1.0)) < 1e-9 for _, s in told)
    unsure = any(answer.top_logprobs[i, 0] < -1e-3 for i, _ in told)
    return [None if s is None else Said(s.token, {}, s.text) for s in said] if certain and unsure else said


def _check_counted(got: Generated, wanted: int) -> None:
    if got.prompt_tokens is not None and got.prompt_tokens != wanted:
        raise NotComparedError(f"it counted {got.prompt_tokens} tokens in a prompt of {wanted}: it tokenises differently, or truncates")
