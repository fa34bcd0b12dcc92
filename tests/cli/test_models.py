from vtcore.cli import main
from vtcore.models.registry import ARCHITECTURES, GGUF_ARCHITECTURES, load_all


def test_the_list_holds_every_name(capsys):
    load_all()
    assert main(["models"]) == 0
    text = capsys.readouterr().out.replace(",", " ").split()
    assert set(ARCHITECTURES) | set(GGUF_ARCHITECTURES) <= set(text)


def test_one_is_explained_by_either_name(capsys):
    told = []
    for name in ("StableLmForCausalLM", "stablelm"):
        assert main(["models", name]) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]
    assert all(words in told[0] for words in ("StableLMEpochForCausalLM", "stablelm_parallel", "vtcore.models.stablelm", "12B"))


def test_a_golden_that_is_refused_is_not_listed(capsys):
    assert main(["models", "gemma4"]) == 0
    out = capsys.readouterr().out
    assert "gemma4_31b" in out
    assert "gemma4_26b_a4b" not in out


def test_markdown_is_a_table(capsys):
    assert main(["models", "--markdown", "gpt2"]) == 0
    head, rule, row = capsys.readouterr().out.splitlines()
    assert head.count("|") == rule.count("|") == row.count("|")
    assert row.startswith("| GPT2LMHeadModel | gpt2 | gpt2 | gpt2.py | GPT 2: ")


def test_an_unknown_name_is_told_the_known_ones(capsys):
    assert main(["models", "GPT9"]) == 2
    assert "no architecture 'GPT9'; there are ApertusForCausalLM" in capsys.readouterr().err
