import io

from vtcore import LLM, SamplingParams
from vtcore.cli import main

GREEDY = SamplingParams(temperature=0, max_tokens=4)


def talk(monkeypatch, capsys, model, lines, *options):
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines)))
    code = main(["chat", model, "--max-tokens", "4", *options])
    return code, *capsys.readouterr()


def answers(model, *prompts):
    with LLM(model) as llm:
        return [llm.generate(p, GREEDY)[0].outputs[0].text for p in prompts]


def test_a_conversation_remembers(chat_model, monkeypatch, capsys):
    (first,) = answers(chat_model, "[user]a[assistant]")
    (second,) = answers(chat_model, f"[user]a[assistant]{first}[user]b[assistant]")
    assert talk(monkeypatch, capsys, chat_model, ["a", "", "b"])[:2] == (0, f"{first}\n{second}\n")


def test_reset_forgets_all_but_the_system_message(chat_model, monkeypatch, capsys):
    first, second = answers(chat_model, "[system]s[user]a[assistant]", "[system]s[user]b[assistant]")
    assert talk(monkeypatch, capsys, chat_model, ["a", "/reset", "b"], "--system", "s")[:2] == (0, f"{first}\n{second}\n")


def test_report_and_quit(chat_model, monkeypatch, capsys):
    code, out, _ = talk(monkeypatch, capsys, chat_model, ["a", "/report", "/nonsense", "/quit", "never"])
    assert code == 0
    assert "paged_attention" in out
    assert out.endswith("there is no command /nonsense; /reset forgets the conversation, /report says what ran where, /quit ends\n")


def test_a_base_model_cannot_converse(base_model, monkeypatch, capsys):
    code, out, err = talk(monkeypatch, capsys, base_model, ["a"])
    assert (code, out) == (2, "")
    assert "has no chat template, so it can't converse; `vtcore run` continues a text" in err


def test_a_conversation_that_outgrows_the_context_ends_with_both_numbers(chat_model, monkeypatch, capsys):
    code, _, err = talk(monkeypatch, capsys, chat_model, ["a" * 200])
    assert code == 2
    assert "with max_model_len 128 it may have 127" in err


def test_ctrl_c_breaks_off_a_piped_conversation(chat_model, monkeypatch, capsys):
    def interrupted(*args):
        yield "half"
        raise KeyboardInterrupt

    monkeypatch.setattr("vtcore.cli.session.answer", interrupted)
    assert talk(monkeypatch, capsys, chat_model, ["a"])[:2] == (130, "half")


def test_at_a_terminal_ctrl_c_forgets_the_turn_and_goes_on(chat_model, monkeypatch, capsys):
    asked = []

    def answer(llm, ids, params):
        asked.append(llm.tokenizer.decode(ids))
        yield "half"
        if len(asked) == 1:
            raise KeyboardInterrupt

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr("vtcore.cli.session.answer", answer)
    monkeypatch.setattr("sys.stdin", Terminal("a\nb\n"))
    monkeypatch.setattr("builtins.input", lambda prompt: next(lines))
    lines = iter(["a", "b", "/quit"])
    assert main(["chat", chat_model]) == 0
    assert asked == ["[user]a[assistant]", "[user]b[assistant]"]
    assert "(stopped: this turn is forgotten)" in capsys.readouterr().out
