import dataclasses
from importlib.metadata import EntryPoint

import numpy as np
import pytest

from vtcore import providers, tensor
from vtcore.dispatch import Dispatcher
from vtcore.errors import ArgumentError, ProviderError, ProviderUnavailableError
from vtcore.ops import add, rms_norm
from vtcore.provider import Decline, Provider
from vtcore.providers import BUILT_IN, ProviderOptions, chain, find, names

TOY = """
from vtcore import tensor
from vtcore.ops import add
from vtcore.provider import Provider

provider = Provider("toy")

@provider.kernel(add, declines=lambda x, y: None if x.shape == y.shape else "x and y differ in shape")
def _add(x, y):
    return tensor.of(x.numpy() + y.numpy())
"""
MAKES = """
from vtcore.provider import Provider

def make(options):
    return Provider("made", facts={"threads": str(options.threads)})
"""


def file_with(tmp_path, text):
    path = tmp_path / "mine.py"
    path.write_text(text)
    return str(path)


@pytest.fixture
def entries(monkeypatch):
    """Entry points by name, each with what loading it gives or raises."""
    found = {}

    @dataclasses.dataclass(frozen=True)
    class Entry:
        name: str

        def load(self):
            if isinstance(found[self.name], Exception):
                raise found[self.name]
            return found[self.name]

    monkeypatch.setattr(providers, "entry_points", lambda group: [Entry(n) for n in found] if group == "vtcore.providers" else [])
    return found


class TestFind:
    @pytest.mark.parametrize("name", ["reference", "null", "portable"])
    def test_built_in(self, name):
        assert find(name).name == name

    def test_a_file(self, tmp_path):
        provider = find(file_with(tmp_path, TOY))
        x = tensor.of(np.float32([1, 2]))
        with Dispatcher([provider], strict=True):
            assert add(x, x).numpy().tolist() == [2, 4]
        assert provider.accept(add, {"x": x, "y": x[:1]}) == Decline("toy", "add", "x and y differ in shape")

    def test_a_file_that_makes_one(self, tmp_path):
        assert find(file_with(tmp_path, MAKES), ProviderOptions(threads=3)).facts == {"threads": "3"}

    def test_no_file(self, tmp_path):
        with pytest.raises(ArgumentError, match=r"there is no provider file '.*absent.py'"):
            find(str(tmp_path / "absent.py"))

    @pytest.mark.parametrize("text", ["", "provider = 3", "def make(options): return None"])
    def test_a_file_that_holds_none(self, tmp_path, text):
        words = (
            r"mine.py (gives \w+|holds no kernel); it must hold `provider`, a Provider, `make\(options\)` that returns one, or functions"
        )
        with pytest.raises(ProviderError, match=words):
            find(file_with(tmp_path, text))

    def test_a_file_that_lacks_a_package(self, tmp_path):
        with pytest.raises(ProviderUnavailableError, match=r"mine.py' can't be loaded: No module named 'no_such_package'"):
            find(file_with(tmp_path, "import no_such_package"))

    def test_an_entry_point(self, entries):
        entries["plug"] = Provider("plug")
        entries["maker"] = lambda options: Provider("maker", facts={"threads": str(options.threads)})
        assert find("plug") is entries["plug"]
        assert find("maker", ProviderOptions(threads=2)).facts == {"threads": "2"}
        assert names() == (*BUILT_IN, "maker", "plug")

    def test_an_entry_point_that_can_t_be_loaded(self, entries):
        entries["plug"] = ImportError("libgpu.so: cannot open shared object file")
        with pytest.raises(ProviderUnavailableError, match=r"provider 'plug' can't be loaded: libgpu\.so"):
            find("plug")

    def test_a_built_in_name_wins(self, entries):
        entries["reference"] = Provider("impostor")
        assert find("reference").name == "reference"

    def test_the_group_is_the_one_that_is_documented(self):
        assert EntryPoint("x", "y:z", providers.GROUP).group == "vtcore.providers"

    def test_an_unknown_name(self, entries):
        entries["plug"] = Provider("plug")
        with pytest.raises(
            ArgumentError,
            match=rf"there is no provider 'cuda9' \(nearest: cuda\); there are {', '.join(BUILT_IN)}, plug, and a path to a \.py",
        ):
            find("cuda9")


class TestChain:
    def test_names_in_a_list_or_with_commas(self):
        for wanted in ("portable, reference", ["portable", "reference"], ("portable", " reference ")):
            assert [p.name for p in chain(wanted)] == ["portable", "reference"]

    def test_portable_unless_said_otherwise(self):
        assert [p.name for p in chain(None)] == ["portable"]

    @pytest.mark.parametrize(
        ("wanted", "words"),
        [
            ("", "providers is empty; name at least one of portable"),
            ([], "providers is empty"),
            (" , ", "providers is empty"),
            ("portable,portable", "providers names one twice"),
            ("reference,portable", "reference never declines, so nothing after it would run; put it last"),
            ("null,reference", "provider null computes shapes only"),
            ("nul", "there is no provider 'nul'"),
        ],
    )
    def test_a_chain_that_makes_no_sense(self, wanted, words):
        with pytest.raises(ArgumentError, match=words):
            chain(wanted)

    @pytest.mark.parametrize(
        ("source", "words"),
        [
            ("x = (", "SyntaxError: '\\(' was never closed"),
            ("raise RuntimeError('lost')", "RuntimeError: lost"),
            ("import sys; sys.exit(3)", "SystemExit: 3"),
            ("def make(options): raise KeyError('x')", "KeyError: 'x'"),
        ],
    )
    def test_a_file_that_fails_is_named(self, tmp_path, source, words):
        (tmp_path / "mine.py").write_text(source)
        with pytest.raises(ProviderError, match=f"mine.py' can't be loaded: {words}"):
            find(str(tmp_path / "mine.py"))


class TestKernels:
    def test_an_op_has_one(self):
        provider = Provider("mine")
        provider.kernel(add)(lambda x, y: x)
        with pytest.raises(ProviderError, match="provider 'mine' has two kernels for 'add'"):
            provider.kernel(add)(lambda x, y: y)

    def test_it_takes_the_op_s_arguments_by_name(self):
        provider = Provider("mine")
        with pytest.raises(ProviderError, match=r"provider 'mine': the kernel of add takes \(a, b\); it is called by name with x, y"):
            provider.kernel(add)(lambda a, b: a)
        with pytest.raises(ProviderError, match=r"the guard of add takes \(x\)"):
            provider.kernel(add, declines=lambda x: None)(lambda x, y: x)
        provider.kernel(rms_norm, declines=lambda x, **_: None)(lambda **call: call["x"])
        assert list(provider.kernels) == ["rms_norm"]

    def test_a_decline_is_a_value(self):
        provider = Provider("mine")
        provider.kernel(add, declines=lambda x, y: "too small" if x.size < 2 else None)(lambda x, y: x)
        x = tensor.of(np.zeros(1, np.float32))
        refused = provider.accept(add, {"x": x, "y": x})
        assert refused == Decline("mine", "add", "too small")
        assert refused in {Decline("mine", "add", "too small")}
        assert provider.accept(rms_norm, {}) == Decline("mine", "rms_norm", "no kernel")


class TestNull:
    def test_shapes_without_values(self):
        with Dispatcher([find("null")], strict=True):
            got = add(tensor.of(np.ones((2, 3), np.float32)), tensor.of(np.ones(3, np.float32)))
        assert (got.shape, got.dtype) == ((2, 3), np.float32)

    def test_a_call_is_checked(self):
        with Dispatcher([find("null")]), pytest.raises(ArgumentError, match="y has shape"):
            add(tensor.of(np.ones((2, 3), np.float32)), tensor.of(np.ones(4, np.float32)))
