"""The thread team: Python threads parked in a native loop. Each walks the same rows, and waits for the others where a row says so.

A row is int64[4]: the kernel's address, its table's address, flags, spare. A run is one native call, without the interpreter lock."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from typing import Any

import numpy as np

from vtcore.providers.portable.jit import Jit
from vtcore.providers.portable.lanes import Lanes
from vtcore.providers.portable.parking import Semaphores
from vtcore.providers.portable.value import I64, Val, Var

ROW = 4  # words of a row
BARRIER = 1  # flag of a row: wait for all threads after it
ARRIVED, GENERATION, JOB, WORKER = 0, 16, 32, 48  # words of the control block, each on cache lines of its own; 16 for every worker
ROWS, LENGTH, STOP, YIELD, WAIT, POST = range(40, 46)
SPIN, PATIENCE = 200, 20000  # turns of a waiting loop before each gives its core away, and before a worker parks


def _word(k: Lanes, control: Val, index: int) -> Val:
    return k.load(control + index * 8, I64, 8)


def _relax(k: Lanes, control: Val, turns: Var) -> None:
    k.isa.pause(k)
    turns.set(turns.get() + 1)
    with k.when(turns.get() > SPIN):
        k.call_address(_word(k, control, YIELD))


def _barrier(k: Lanes, control: Val, threads: Val) -> None:
    with k.when(threads > 1):
        generation = k.load_acquire(control + GENERATION * 8)
        with k.either(k.atomic("add", control + ARRIVED * 8, 1).eq(threads - 1)) as (last, other):
            with last:
                k.atomic("xchg", control + ARRIVED * 8, 0)
                k.atomic("add", control + GENERATION * 8, 1)
            with other:
                turns = k.var(0)
                with k.loop(lambda: k.load_acquire(control + GENERATION * 8).eq(generation)):
                    _relax(k, control, turns)


def _walk(k: Lanes, control: Val, rows: Val, length: Val, thread: Val, threads: Val) -> None:
    """The interpreter: all that a replayed op costs besides itself."""
    for i in k.range(length):
        row = rows + i * (ROW * 8)
        k.call_address(_word(k, row, 0), _word(k, row, 1), thread, threads)
        with k.when((_word(k, row, 2) & BARRIER).eq(1)):
            _barrier(k, control, threads)


def _build_run(name: str, jit: Jit) -> str:
    """run(control, rows, length, threads), called by thread 0: publish, wake whoever is parked, take part. With one thread: just walk."""
    k = Lanes(name, jit.isa, 4)
    control, rows, length, threads = k.params
    with k.when(threads > 1):
        k.store(control + ROWS * 8, rows, 8)
        k.store(control + LENGTH * 8, length, 8)
        k.atomic("add", control + JOB * 8, 1)
        for t in k.range(1, threads):
            worker = control + (t * 16 + WORKER) * 8
            with k.when(k.atomic("xchg", worker, 0).eq(1)):
                k.call_address(_word(k, control, POST), _word(k, worker, 1), 1, 0)
    _walk(k, control, rows, length, k.lift(0), threads)
    return k.done()


def _build_worker(name: str, jit: Jit) -> str:
    """worker(control, thread, threads): wait for a job, do it, until told to stop."""
    k = Lanes(name, jit.isa, 3)
    control, thread, threads = k.params
    me, seen = control + (thread * 16 + WORKER) * 8, k.var(0)
    with k.loop(lambda: k.load_acquire(control + STOP * 8).eq(0)):
        turns = k.var(0)
        turns.set(0)
        with k.loop(lambda: k.load_acquire(control + JOB * 8).eq(seen.get())):
            _relax(k, control, turns)
            with k.when(turns.get() > PATIENCE):
                k.atomic("xchg", me, 1)
                with k.when(k.load_acquire(control + JOB * 8).eq(seen.get())):  # a post may come first: then the next wait returns at once
                    k.call_address(_word(k, control, WAIT), _word(k, me, 1), -1)
                k.atomic("xchg", me, 0)
                turns.set(0)
        seen.set(seen.get() + 1)
        with k.when(k.load_acquire(control + STOP * 8).eq(0)):
            _walk(k, control, _word(k, control, ROWS), _word(k, control, LENGTH), thread, threads)
    return k.done()


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
        """Walk `length` rows at an address, on all threads or on the caller's alone; the last row must have the barrier flag."""
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
