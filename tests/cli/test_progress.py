import io

from vtcore.cli.progress import bar
from vtcore.wheels import silent


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_sees_how_far_it_is(monkeypatch):
    monkeypatch.setattr("sys.stderr", shown := Terminal())
    with bar() as progress:
        progress("fetching toy", 10, 100)
        progress("fetching toy", 100, 100)
        progress("unpacking toy", 5, 10)
    assert "fetching toy" in shown.getvalue()
    assert "unpacking toy" in shown.getvalue()
    assert "%" in shown.getvalue()


def test_elsewhere_nothing_is_shown(monkeypatch):
    monkeypatch.setattr("sys.stderr", shown := io.StringIO())
    with bar() as progress:
        assert progress is silent
        progress("fetching toy", 10, 100)
    assert shown.getvalue() == ""
