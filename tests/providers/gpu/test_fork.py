"""In a process that was forked, a device of its parent is refused in words, at once: it would be waited for without end."""

import os
import subprocess
import sys

import pytest

from tests.patience import SECONDS

CODE = """
import os, sys, warnings
import numpy as np
from vtcore.dispatch import Dispatcher
from vtcore.errors import VtcoreError
from vtcore.ops import add
from vtcore.providers import find
from vtcore.tensor import of

def used(provider):
    with Dispatcher([provider]):
        return add(of(np.ones(8, np.float32)), of(np.ones(8, np.float32))).numpy().sum()

def tell(ask):
    try:
        print(ask(), flush=True)
    except VtcoreError as error:
        print(error, flush=True)

warnings.simplefilter("ignore")
provider = find(sys.argv[1])
tell(lambda: used(provider))
if not (child := os.fork()):
    tell(lambda: used(provider))
    tell(lambda: used(find(sys.argv[1])))
    provider.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
tell(lambda: used(provider))
"""


@pytest.mark.parametrize("name", ["opencl", "vulkan"])
def test_a_device_of_the_parent_is_refused_and_the_parent_goes_on(name):
    run = subprocess.run([sys.executable, "-c", CODE, name], env=os.environ, capture_output=True, text=True, timeout=SECONDS, check=True)
    before, inherited, fresh, after = run.stdout.splitlines()
    refused = "was opened by the process that this one was forked from"
    assert (before, after) == ("16.0", "16.0")
    assert inherited.startswith(f"{name}: ")
    assert refused in inherited
    assert fresh == "16.0" or refused in fresh
