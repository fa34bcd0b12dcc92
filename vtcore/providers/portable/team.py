"""The thread team: Python threads parked in a native loop, who help the caller's thread with the rows that are worth sharing.

A row is int64[4]: the kernel's address, its table's address, how many rows from here on all threads do together (0: the caller's
thread does this one alone), spare. A run is one native call, without the interpreter lock.

Tasks of a row are claimed. A worker joins rows that are open, and the caller waits for those who have joined: never for a thread that
the system has taken off its core in between. So a busy machine costs what it takes, and not a time slice at every meeting."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from vtcore.providers.portable.emit import COUNTER
from vtcore.providers.portable.jit import Jit
from vtcore.providers.portable.lanes import Lanes
from vtcore.providers.portable.parking import Semaphores
from vtcore.providers.portable.value import I64, Val, Var

ROW = 4  # words of a row
STATE, WORKER = 0, 48  # words of the control block, each on cache lines of its own; 16 for every worker
ROWS, LENGTH, STOP, YIELD, WAIT, POST = range(16, 22)
OPEN, TURN = 1 << 16, 1 << 32  # of the state: below, how many workers are inside; whether rows are open to them; above, which time this is
SPIN, LINGER, PATIENCE = 200, 5000, 25000  # turns of a waiting loop before the caller and a worker give their core away, and a worker parks


def _word(k: Lanes, control: Val, index: int) -> Val:
    return k.load(control + index * 8, I64, 8)


def _relax(k: Lanes, control: Val, turns: Var, spin: int) -> None:
    k.isa.pause(k)
    turns.set(turns.get() + 1)
    with k.when(turns.get() > spin):
        k.call_address(_word(k, control, YIELD))


def _state(k: Lanes, control: Val) -> Val:
    return k.load_acquire(control + STATE * 8)


def _each(k: Lanes, rows: Val, length: Val, thread: Val, threads: Val) -> None:
    for i in k.range(length):
        row = rows + i * (ROW * 8)
        k.call_address(_word(k, row, 0), _word(k, row, 1), thread, threads)


def _reset(k: Lanes, rows: Val, length: Val) -> None:
    """All tasks can be claimed again."""
    for i in k.range(length):
        k.store(_word(k, rows + i * (ROW * 8), 1) + COUNTER * 8, k.lift(0), 8)


def _together(k: Lanes, control: Val, rows: Val, length: Val, threads: Val) -> None:
    """Open rows, do what is left of them, and wait for those who came."""
    k.store(control + ROWS * 8, rows, 8)
    k.store(control + LENGTH * 8, length, 8)
    k.atomic("add", control + STATE * 8, TURN + OPEN)
    _each(k, rows, length, k.lift(0), threads)
    k.atomic("add", control + STATE * 8, -OPEN)
    turns = k.var(0)
    turns.set(0)
    with k.loop(lambda: (_state(k, control) & (OPEN - 1)) > 0):
        _relax(k, control, turns, SPIN)


def _walk(k: Lanes, control: Val, rows: Val, length: Val, threads: Val) -> None:
    """The interpreter: all that a replayed op costs besides itself."""
    i = k.var(0)
    with k.loop(lambda: i.get() < length):
        row = rows + i.get() * (ROW * 8)
        shared = k.select(threads > 1, _word(k, row, 2), k.lift(0))
        done = k.max(shared, 1)
        with k.either(shared > 0) as (together, alone):
            with together:
                _together(k, control, row, shared, threads)
            with alone:
                _each(k, row, done, k.lift(0), k.lift(1))
        _reset(k, row, done)
        i.set(i.get() + done)


def _build_run(name: str, jit: Jit) -> str:
    """run(control, rows, length, threads), called by thread 0: wake whoever is parked, and walk. With one thread: just walk."""
    k = Lanes(name, jit.isa, 4)
    control, rows, length, threads = k.params
    for t in k.range(1, threads):
        worker = control + (t * 16 + WORKER) * 8
        with k.when(k.atomic("xchg", worker, 0).eq(1)):
            k.call_address(_word(k, control, POST), _word(k, worker, 1), 1, 0)
    _walk(k, control, rows, length, threads)
    return k.done()


def _build_worker(name: str, jit: Jit) -> str:
    """worker(control, thread, threads): help with rows as they open, once each time, until told to stop."""
    k = Lanes(name, jit.isa, 3)
    control, thread, threads = k.params
    seen = k.var(0)

    def idle() -> Val:
        state = _state(k, control)
        stale = (state >> 32).eq(seen.get()) | (state & OPEN).eq(0)
        return stale & k.load_acquire(control + STOP * 8).eq(0)

    with k.loop(lambda: k.load_acquire(control + STOP * 8).eq(0)):
        _wait(k, control, thread, idle)
        state = k.atomic("add", control + STATE * 8, 1)
        with k.when((state & OPEN).eq(OPEN)):
            seen.set(state >> 32)
            _each(k, _word(k, control, ROWS), _word(k, control, LENGTH), thread, threads)
        k.atomic("add", control + STATE * 8, -1)
    return k.done()


def _wait(k: Lanes, control: Val, thread: Val, idle: Callable[[], Val]) -> None:
    """Spin, then give way, then park, while there is nothing to do."""
    me, turns = control + (thread * 16 + WORKER) * 8, k.var(0)
    turns.set(0)
    with k.loop(idle):
        _relax(k, control, turns, LINGER)
        with k.when(turns.get() > PATIENCE):
            k.atomic("xchg", me, 1)
            with k.when(idle()):  # a post may come first: then the next wait returns at once
                k.call_address(_word(k, control, WAIT), _word(k, me, 1), -1)
            k.atomic("xchg", me, 0)
            turns.set(0)


class _Crew:
    """Running workers and the control block that they share."""

    def __init__(self, jit: Jit, run: Any, worker: Any, threads: int) -> None:
        self.jit, self.run, self.threads = jit, run, threads  # the workers run code that the Jit owns
        memory = np.zeros(WORKER + 16 * threads + 16, np.int64)
        self.words = memory[(-memory.ctypes.data % 128) // 8 :]
        self.control = self.words.ctypes.data
        self.semaphores = Semaphores(threads)
        self.words[[YIELD, WAIT, POST]] = self.semaphores.give_way, self.semaphores.wait, self.semaphores.post
        self.words[WORKER + 1 + 16 * np.arange(threads)] = self.semaphores.handles
        self.workers = [threading.Thread(target=worker, args=(self.control, t, threads), daemon=True) for t in range(1, threads)]
        for w in self.workers:
            w.start()

    def stop(self) -> None:
        """Let the workers leave, and wait for them."""
        self.words[STOP] = 1
        self.run(self.control, 0, 0, self.threads)
        for w in self.workers:
            w.join()


class Team:
    """`threads` threads, the caller's among them. Workers start with the first run, and again after a fork; one run at a time."""

    def __init__(self, jit: Jit, threads: int) -> None:
        self.jit, self.threads = jit, threads
        i64 = ctypes.c_int64
        self._run = ctypes.CFUNCTYPE(None, i64, i64, i64, i64)(jit.function("team_run", "team_run", lambda: _build_run("team_run", jit)))
        address = jit.function("team_worker", "team_worker", lambda: _build_worker("team_worker", jit))
        self._worker = ctypes.CFUNCTYPE(None, i64, i64, i64)(address)
        self.lock = threading.RLock()
        self._crew: _Crew | None = None
        self._stop: weakref.finalize[Any, Any] | None = None
        _TEAMS.add(self)

    def run(self, rows: int, length: int, threads: int | None = None) -> None:
        """Walk `length` rows at an address: the shared ones on all threads, or all on the caller's alone."""
        with self.lock:
            crew = self._crew or self._start()
            self._run(crew.control, rows, length, threads or self.threads)

    def _start(self) -> _Crew:
        crew = self._crew = _Crew(self.jit, self._run, self._worker, self.threads)
        self._stop = weakref.finalize(self, crew.stop)  # also at interpreter exit, before the control block goes
        return crew

    def close(self) -> None:
        """Stop the workers."""
        with self.lock:
            if self._stop is not None:
                self._stop()
            self._crew = self._stop = None

    def forget(self) -> None:
        """After a fork, in the child: the workers are the parent's, and so is whoever held the lock."""
        if self._stop is not None:
            self._stop.detach()
        self._crew, self._stop, self.lock = None, None, threading.RLock()


_TEAMS: weakref.WeakSet[Team] = weakref.WeakSet()


def _forget_all() -> None:
    for team in list(_TEAMS):
        team.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
