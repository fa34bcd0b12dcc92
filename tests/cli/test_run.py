import io
import json

import pytest

from vtcore import LLM, SamplingParams
from vtcore.cli import main

GREEDY = SamplingParams(temperature=0, max_tokens=6)


def run(capsys, *arguments):
    code = main(["run", *arguments, "--max-tokens", "6"])
    return code, *capsys.readouterr()


def wanted(model, prompt, params=GREEDY):
    with LLM(model) as llm:
        return llm.generate(prompt, params)[0]


def test_the_streamed_text_is_the_answer(chat_model, capsys):
    code, out, err = run(capsys, chat_model, "hi")
    assert code == 0
    assert out == wanted(chat_model, "[user]hi[assistant]").outputs[0].text + "\n"
    assert "numerics exact, providers portable" in err


def test_bytes_that_the_locale_could_not_decode_are_utf_8(chat_model, capsys):
    kept = "\u00e9".encode().decode("ascii", "surrogateescape")
    assert run(capsys, chat_model, kept, "--raw")[1] == wanted(chat_model, "\u00e9").outputs[0].text + "\n"


def test_raw_leaves_the_template_out(chat_model, capsys):
    assert run(capsys, chat_model, "hi", "--raw")[1] == wanted(chat_model, "hi").outputs[0].text + "\n"


def test_a_base_model_continues_the_prompt_and_says_so(base_model, capsys):
    code, out, err = run(capsys, base_model, "hi")
    assert (code, out) == (0, wanted(base_model, "hi").outputs[0].text + "\n")
    assert "no chat template, so it continues the prompt as plain text" in err


def test_json_is_one_object_with_everything(chat_model, capsys):
    code, out, _ = run(capsys, chat_model, "hi", "--json")
    output, said = wanted(chat_model, "[user]hi[assistant]"), json.loads(out)
    assert code == 0
    assert said["prompt_token_ids"] == list(output.prompt_token_ids)
    assert said["token_ids"] == list(output.outputs[0].token_ids)
    assert (said["text"], said["finish_reason"]) == (output.outputs[0].text, output.outputs[0].finish_reason)
    assert said["timings"]["finished"] > 0
    assert {row["op"] for row in said["report"]["ran"]} > {"linear", "rms_norm", "paged_attention"}


def test_the_report_names_every_op_and_every_decline(chat_model, capsys):
    out = run(capsys, chat_model, "hi", "--report")[1]
    assert "paged_attention      portable" in out
    out, err = run(capsys, chat_model, "hi", "--report", "--json", "--providers", "reference")[1:]
    assert "paged_attention      reference" in err
    assert json.loads(out)["report"]["declined"] == []


def test_the_prompt_comes_from_stdin(chat_model, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("hi"))
    assert run(capsys, chat_model, "-")[1] == wanted(chat_model, "[user]hi[assistant]").outputs[0].text + "\n"


def test_a_system_message_goes_before(chat_model, capsys):
    assert run(capsys, chat_model, "hi", "--system", "Be")[1] == wanted(chat_model, "[system]Be[user]hi[assistant]").outputs[0].text + "\n"


@pytest.mark.parametrize("raw", [[], ["--raw"]])
def test_a_system_message_without_a_template_is_refused(base_model, capsys, raw):
    code, _, err = run(capsys, base_model, "hi", "--system", "Be", *raw)
    assert code == 2
    assert "--system needs a chat template" in err


def test_a_seed_repeats_a_draw(chat_model, capsys):
    drawn = [run(capsys, chat_model, "hi", "--temperature", "1", "--seed", seed)[1] for seed in ("3", "3", "4")]
    assert drawn[0] == drawn[1] != drawn[2]


def test_other_providers_say_the_same(chat_model, capsys):
    assert run(capsys, chat_model, "hi", "--providers", "reference")[1] == run(capsys, chat_model, "hi")[1]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--providers", "nobody"], "there is no provider 'nobody'"),
        (["--numerics", "fast"], "numerics 'fast' has no effect"),
        (["--max-model-len", "4"], "the prompt has 19 tokens; with max_model_len 4 it may have 3"),
        (["--memory-limit", "much"], "memory_limit is 'much'"),
        (["--seed", "1"], "--seed does nothing at temperature 0"),
    ],
)
def test_what_cannot_be_is_refused_with_code_2(chat_model, capsys, option, message):
    code, out, err = run(capsys, chat_model, "hi", *option)
    assert (code, out) == (2, "")
    assert message in err


def test_too_little_memory_is_refused_with_the_sum(chat_model, capsys):
    code, _, err = run(capsys, chat_model, "hi", "--memory-limit", "10K")
    assert code == 1
    assert "KV cache" in err


def test_dtype_and_threads_reach_the_engine(chat_model, capsys):
    said = json.loads(run(capsys, chat_model, "hi", "--json", "--dtype", "bfloat16", "--threads", "1")[1])
    assert "rounding" in {row["provider"] for row in said["report"]["ran"]}


def test_options_of_the_cache_are_heard_and_those_that_order_requests_refused(chat_model, capsys):
    code, out, _ = run(capsys, chat_model, "hi", "--block-size", "8", "--prefix-match-unit", "4", "--num-gpu-blocks-override", "40")
    assert (code, out) == (0, wanted(chat_model, "[user]hi[assistant]").outputs[0].text + "\n")
    assert "must divide block_size, which is 8" in run(capsys, chat_model, "hi", "--block-size", "8", "--prefix-match-unit", "3")[2]
    assert "--scheduling-policy has no effect here" in run(capsys, chat_model, "hi", "--scheduling-policy", "lpm")[2]
    assert "no layer of this model keeps a state" in run(capsys, chat_model, "hi", "--mamba-block-size", "64")[2]
