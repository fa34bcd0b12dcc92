"""The bar over prompts: on terminals only, counting what is answered, and never in the way."""

import io

import pytest
from tqdm import tqdm

from tests.talking import GREEDY
from vtcore.errors import ArgumentError
from vtcore.progress_bar import ProgressBar


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Gone(Terminal):
    """A terminal that is closed while something runs."""

    def write(self, text):
        raise OSError(5, "Input/output error")


@pytest.fixture
def screen(monkeypatch):
    """Call it to put one in the place of stderr."""

    def put() -> Terminal:
        made = Terminal()
        monkeypatch.setattr("sys.stderr", made)
        return made

    return put


def test_a_bar_on_a_terminal_counts_the_prompts(talking, screen):
    terminal = screen()
    assert len(talking().generate(["ab"] * 7, GREEDY)) == 7
    shown = terminal.getvalue()
    assert "Processed prompts: 100%" in shown
    assert "7/7" in shown
    assert "input" in shown
    assert "tokens/s" in shown


@pytest.mark.parametrize("ask", [lambda llm: llm.generate("ab", GREEDY, use_tqdm=False), lambda llm: llm.logits([1, 2])])
def test_none_where_nobody_wants_one(talking, screen, ask):
    terminal = screen()
    ask(talking())
    assert not terminal.getvalue()


def test_none_where_stderr_is_no_terminal(talking, capsys):
    talking().generate("ab", GREEDY)
    assert not capsys.readouterr().err


@pytest.mark.parametrize("stderr", [None, Gone(), "closed"])
def test_a_terminal_that_is_not_there_stops_nothing(talking, monkeypatch, stderr):
    llm = talking()
    if stderr == "closed":
        stderr = Terminal()
        stderr.close()
    monkeypatch.setattr("sys.stderr", stderr)
    assert [o.outputs[0].text for o in llm.generate(["ab"] * 3, GREEDY)] == ["hello"] * 3


def test_whoever_brings_a_bar_of_his_own_is_told(talking):
    screen, counts = io.StringIO(), []

    class Told(tqdm):
        def update(self, n=1):
            counts.append(n)
            return super().update(n)

    talking(max_num_seqs=2).generate(["ab"] * 5, GREEDY, use_tqdm=lambda **options: Told(file=screen, **options))
    assert sum(counts) == 5
    assert len(counts) > 1  # as they end, not at the end


def test_a_conversation_has_one_too(talking, screen):
    terminal = screen()
    talking().chat([{"role": "user", "content": "a"}], GREEDY)
    assert "1/1" in terminal.getvalue()


def test_what_makes_no_bar_is_refused_before_anything_runs(talking):
    with pytest.raises(ArgumentError, match="use_tqdm is 3; it must be True, False or what makes a bar"):
        talking().generate("ab", GREEDY, use_tqdm=3)
    assert ProgressBar(1, False).total == 1
