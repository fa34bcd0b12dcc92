"""The thread team: any number of threads, forks, quarrels over it, and the end of the process."""

import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from tests.patience import SECONDS
from tests.providers.portable.instances import run
from vtcore import ops
from vtcore.errors import ArgumentError
from vtcore.providers import ProviderOptions, find
from vtcore.providers.portable import cpus
from vtcore.providers.portable.kernels import register_all
from vtcore.providers.portable.provider import Portable

X = np.random.default_rng(0).standard_normal((300, 400)).astype(np.float32)
WEIGHT = np.random.default_rng(1).standard_normal((70, 400)).astype(np.float32)


def portable(threads):
    provider = Portable(None, threads)
    register_all(provider)
    return provider


@pytest.mark.parametrize("threads", [1, 2, 3, 8, 33])
def test_any_number_of_threads_gives_the_same_bits(threads):
    provider = portable(threads)
    got = [run(provider, ops.linear, x=X, weight=WEIGHT).tobytes() for _ in range(3)]
    assert set(got) == {run(portable(1), ops.linear, x=X, weight=WEIGHT).tobytes()}
    provider.close()


def test_no_threads_are_an_error():
    with pytest.raises(ArgumentError, match="threads is 0; it must be at least 1"):
        find("portable", ProviderOptions(threads=0))


def test_threads_of_the_program_take_turns():
    provider, want = portable(2), run(portable(1), ops.linear, x=X, weight=WEIGHT).tobytes()
    seen = []

    def work():
        seen.extend(run(provider, ops.linear, x=X, weight=WEIGHT).tobytes() == want for _ in range(5))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert seen == [True] * 20


def test_it_works_on_after_it_was_parked_and_after_it_was_closed():
    provider = portable(2)
    want = run(provider, ops.add, x=X, y=X).tobytes()
    parked = threading.Event()
    parked.wait(0.1)
    assert run(provider, ops.add, x=X, y=X).tobytes() == want
    provider.close()
    provider.close()
    assert run(provider, ops.add, x=X, y=X).tobytes() == want


def test_workers_leave_with_their_provider():
    before = set(threading.enumerate())  # of which some may end meanwhile
    provider = portable(4)
    run(provider, ops.add, x=X, y=X)
    team = set(threading.enumerate()) - before
    assert len(team) == 3
    del provider
    gc.collect()
    assert team.isdisjoint(threading.enumerate())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_has_a_team_of_its_own():
    provider = portable(3)
    want = run(provider, ops.linear, x=X, weight=WEIGHT).tobytes()
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if run(provider, ops.linear, x=X, weight=WEIGHT).tobytes() == want else 1)
        finally:
            os._exit(2)  # whatever is raised: there must be no second run of the tests
    assert run(provider, ops.linear, x=X, weight=WEIGHT).tobytes() == want
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("ending", ["", "provider.close()", "del provider", "raise SystemExit(0)"])
def test_a_process_ends_with_its_team_at_work(ending):
    program = f"""
import numpy as np
from tests.providers.portable.test_team import portable, run, X
from vtcore import ops
provider = portable(4)
run(provider, ops.add, x=X, y=X)
print("done")
{ending}
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")


@pytest.mark.parametrize(
    ("membership", "files", "share"),
    [
        ("0::/a/b", {"a/b/cpu.max": "150000 100000", "a/cpu.max": "max 100000"}, 2),
        ("0::/a/b", {"a/b/cpu.max": "max 100000", "a/cpu.max": "50000 100000"}, 1),
        ("0::/", {"cpu.max": "300000 100000"}, 3),
        ("0::/", {}, 64),
        ("0::/a", {"a/cpu.max": "nonsense"}, 64),
        ("4:cpu,cpuacct:/x", {"cpu/x/cpu.cfs_quota_us": "250000", "cpu/x/cpu.cfs_period_us": "100000"}, 3),
        ("4:cpu,cpuacct:/x", {"cpu/x/cpu.cfs_quota_us": "-1", "cpu/x/cpu.cfs_period_us": "100000"}, 64),
    ],
)
def test_a_container_s_share_of_time_counts(tmp_path, monkeypatch, membership, files, share):
    for name, text in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    (tmp_path / "self").write_text(membership + "\n")
    monkeypatch.setattr(cpus, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(cpus, "MEMBERSHIPS", tmp_path / "self")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)), raising=False)
    assert cpus.usable_cpus() == share
