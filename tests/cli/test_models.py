from vtcore.cli import main
from vtcore.models.registry import ARCHITECTURES, GGUF_ARCHITECTURES, load_all
from vtcore.op import REGISTRY
from vtcore.provider import Provider


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
    assert row.startswith("| GPT2LMHeadModel | gpt2 | gpt2 | portable, opencl, vulkan | gpt2.py | GPT 2: ")


def test_formats_and_providers_are_told(capsys):
    for name, formats in (("gpt2", "safetensors, GGUF"), ("OPTForCausalLM", "safetensors")):
        assert main(["models", name]) == 0
        out = capsys.readouterr().out.splitlines()
        assert f"formats      {formats}" in out
        assert "runs on      portable without a fallback, opencl without a fallback, vulkan without a fallback" in out


def test_a_provider_that_falls_back_is_told(capsys, monkeypatch):
    mine = Provider("mine")
    for op in REGISTRY.values():
        if op.name != "gelu_tanh":
            mine.kernel(op, declines=(lambda **call: "no") if op.name == "rotate" else None)(lambda **call: None)
    monkeypatch.setattr("vtcore.cli.ops.found_providers", lambda: [mine])
    told = {}
    for name in ("gpt2", "llama", "mamba2"):
        assert main(["models", name]) == 0
        told[name] = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("runs on"))[13:]
    assert told == {"gpt2": "mine, but for gelu_tanh", "llama": "mine, but for rotate", "mamba2": "mine without a fallback"}
    assert main(["models", "--markdown", "gpt2"]) == 0
    assert "| gpt2 | - | gpt2.py |" in capsys.readouterr().out


def test_without_a_golden_nobody_knows(capsys, monkeypatch):
    monkeypatch.setattr("vtcore.cli.models.recorded", dict)
    assert main(["models", "gpt2"]) == 0
    assert "runs on      not known without a golden" in capsys.readouterr().out
    assert main(["models"]) == 0
    assert "0 goldens  -" in capsys.readouterr().out


def test_what_no_oracle_gates_is_told(capsys):
    assert main(["models", "KimiK3ForConditionalGeneration"]) == 0
    assert "goldens      none: held against a forward in NumPy, not against an oracle" in capsys.readouterr().out
    assert main(["models"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("KimiK3"))
    assert line.split()[1:] == ["-", "ungated", "-"]


def test_an_unknown_name_is_told_the_known_ones(capsys):
    assert main(["models", "GPT9"]) == 2
    assert "no architecture 'GPT9' (nearest: gptj); there are ApertusForCausalLM" in capsys.readouterr().err
