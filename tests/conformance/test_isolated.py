"""A kernel that hangs or ends its process is a verdict, and the check goes on."""

import pytest

from tests.patience import SECONDS
from vtcore.conformance.case import cases
from vtcore.conformance.check import check
from vtcore.conformance.isolated import Isolated
from vtcore.errors import ArgumentError, ProviderError, ProviderUnavailableError
from vtcore.op import REGISTRY

KERNELS = """
import ctypes, os, sys, time
import numpy as np
from vtcore.providers.arrays import kernel

@kernel("scale")
def fine(x, factor):
    print("hello")
    return np.asarray(x * np.float64(factor), np.float32)

@kernel("clamp")
def segfault(x, limit):
    ctypes.string_at(0)

@kernel("silu")
def leaves(x):
    os._exit(3)

@kernel("relu")
def sleeps(x):
    time.sleep(600)

@kernel("softcap")
def once(x, cap):
    if x.shape[0] == 3:
        os._exit(4)
    return np.asarray(np.tanh(x / np.float64(cap)) * cap, np.float32)
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    file = tmp_path_factory.mktemp("kernels") / "mine.py"
    file.write_text(KERNELS)
    return str(file)


def test_the_check_goes_on_after_a_crash_and_a_hang(path, capfd):
    with Isolated(path, seconds=SECONDS) as bench:
        assert (bench.name, bench.facts["runs"]) == ("mine", "functions of NumPy arrays")
        first = {}
        for op in ("clamp", "silu", "relu", "scale"):
            bench.seconds = 1.5 if op == "relu" else SECONDS
            first[op] = bench.run(next(cases(REGISTRY[op])))
    assert [(v.outcome, v.kind) for v in first.values()] == [
        ("error", "crashed"),
        ("error", "crashed"),
        ("error", "timed_out"),
        ("pass", ""),
    ]
    assert "signal SIGSEGV, in segfault (" in first["clamp"].reason
    assert "exit status 3" in first["silu"].reason
    assert "not done after 1.5 s, in sleeps (" in first["relu"].reason
    assert "hello" in capfd.readouterr().err


def test_a_verdict_is_the_same_as_in_this_process(path):
    with Isolated(path) as bench:
        verdicts = list(check(bench, ["softcap"]))
    assert {v.kind for v in verdicts if v.bad} == {"crashed"}
    assert [v.case.label for v in verdicts][:3] == ["softcap#0", "softcap#1", "softcap#2"]
    assert sum(v.outcome == "pass" for v in verdicts) > 3


@pytest.mark.parametrize(
    ("text", "seconds", "raised", "words"),
    [
        ("provider = 3", SECONDS, ProviderError, "it must hold `provider`"),
        ("import nothing_of_this_name", SECONDS, ProviderUnavailableError, "nothing_of_this_name"),
        ("import os; os._exit(7)", SECONDS, ProviderError, "can't be loaded: the process ended: exit status 7"),
        ("import time; time.sleep(600)", 2, ProviderError, "can't be loaded: not done after 2 s"),
    ],
)
def test_a_provider_that_cannot_be_loaded_says_why(tmp_path, text, seconds, raised, words):
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(raised, match=words):
        Isolated(str(tmp_path / "mine.py"), loading=seconds)


def test_there_must_be_a_file():
    with pytest.raises(ArgumentError, match="there is no provider file"):
        Isolated("./missing.py")
