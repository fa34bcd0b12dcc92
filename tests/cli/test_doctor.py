import sys
import types

from vtcore import doctor, providers
from vtcore.cli import main
from vtcore.errors import ProviderUnavailableError


def test_it_names_versions_processor_and_every_provider(capsys):
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    for part in ("python", "numpy", "llvmlite", "architecture", "threads", "memory", "VTCORE_CACHE"):
        assert part in text
    for name in (*providers.names(), "opencl", "vulkan", "cuda", "metal"):
        assert f" {name} " in text


def test_what_never_ran_on_its_hardware_is_said(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    rows = {row.name: row for row in doctor.examine() if row.section == "providers"}
    assert rows["reference"].good
    assert not rows["metal"].good
    assert rows["metal"].text.startswith("metal: it needs macOS, and this is linux (never run on a Mac; `vtcore check metal`")


def test_the_reason_of_an_unavailable_provider_is_shown(monkeypatch):
    def make(options):
        raise ProviderUnavailableError("no device answers")

    monkeypatch.setitem(sys.modules, "vtcore.providers.broken", types.SimpleNamespace(make=make))
    monkeypatch.setattr(providers, "BUILT_IN", ("broken",))
    assert doctor.Finding("providers", "broken", "no device answers", False) in doctor.examine()


def test_a_provider_that_fails_in_its_own_way_is_shown(monkeypatch):
    monkeypatch.setitem(sys.modules, "vtcore.providers.broken", types.SimpleNamespace(make=lambda options: 1 // 0))
    monkeypatch.setattr(providers, "BUILT_IN", ("broken",))
    (row,) = [row for row in doctor.examine() if row.name == "broken"]
    assert row.text == "provider 'broken' can't be loaded: ZeroDivisionError: integer division or modulo by zero"


def test_threads_are_those_that_the_process_may_use():
    assert doctor.threads() >= 1
