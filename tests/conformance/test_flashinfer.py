"""FlashInfer Trace in and out: what a definition means, checked by a witness; what is refused; and exports that keep the format's rules."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.conformance.trace_sets import EMBEDDING, GEMM, RAGGED, definition, norm, paged, write
from vtcore import tensor
from vtcore.cli import main
from vtcore.conformance.case import Case, cases
from vtcore.conformance.flashinfer.export import Inexpressible, export
from vtcore.conformance.flashinfer.load import TraceSet
from vtcore.conformance.flashinfer.meaning import understand
from vtcore.conformance.flashinfer.schema import check_definition, check_trace
from vtcore.conformance.saved import save
from vtcore.errors import ArgumentError
from vtcore.op import REGISTRY
from vtcore.provider import Provider


def ints(*values):
    return np.array(values, np.int32)


def only_case(root):
    found = TraceSet(root)
    ((_, case),) = found.cases(9)
    assert (found.problems, found.skipped) == ([], {})
    return case


@pytest.mark.parametrize("name", ["rmsnorm_h16", "gemma_rmsnorm_h16", "fused_add_rmsnorm_h16", "gemma_fused_add_rmsnorm_h16"])
def test_norms(name, tmp_path):
    case = only_case(write(tmp_path, norm(name), ({"batch_size": 3}, {})))
    x = case.call["x"].astype(np.float64) + (case.call["residual"].astype(np.float64) if "add" in name else 0)
    factor = case.call["weight"].astype(np.float64) + ("gemma" in name)
    want = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * factor
    got = case.op.reference(**case.call)
    np.testing.assert_allclose(got[0] if "add" in name else got, want, rtol=1e-6, atol=1e-6)
    assert str(case.call["x"].dtype) == "bfloat16"
    assert case.call["x"].shape == (3, 16)


def test_plain_definitions_without_workloads_get_a_few_rows(tmp_path):
    write(tmp_path, GEMM)
    write(tmp_path, EMBEDDING)
    linear, embedding = sorted((c for _, c in TraceSet(tmp_path).cases(9)), key=lambda c: c.op.name, reverse=True)
    a, b = (linear.call[n].astype(np.float64) for n in ("x", "weight"))
    np.testing.assert_allclose(linear.op.reference(**linear.call), a @ b.T, rtol=1e-6)
    assert np.array_equal(embedding.op.reference(**embedding.call), embedding.call["table"][embedding.call["ids"]].astype(np.float32))
    assert embedding.call["ids"].max() < 50


def attend(q, k, v, scale, first):
    """Query i of a sequence sees its keys up to first + i. q [n Hq D], k and v [m Hk D]."""
    out = np.zeros((*q.shape[:2], v.shape[-1]))
    for i, query in enumerate(q):
        for h, row in enumerate(query):
            head, seen = h * k.shape[1] // q.shape[1], first + i + 1
            scores = k[:seen, head] @ row * scale
            weights = np.exp(scores - scores.max())
            out[i, h] = weights / weights.sum() @ v[:seen, head]
    return out


BATCHES = {  # lengths of the sequences, queries of each, pages
    "gqa_paged_decode_h4_kv2_d8_ps1": ((5, 2), (1, 1), 1),
    "gqa_paged_decode_h4_kv2_d8_ps4": ((6, 4, 9), (1, 1, 1), 4),
    "gqa_paged_prefill_causal_h4_kv2_d8_ps1": ((5, 3), (2, 3), 1),
    "gqa_paged_prefill_causal_h4_kv2_d8_ps4": ((7, 9), (7, 2), 4),
    "mla_paged_decode_h4_ckv16_kpe8_ps1": ((5, 2), (1, 1), 1),
    "mla_paged_prefill_causal_h4_ckv16_kpe8_ps4": ((7, 9), (3, 2), 4),
}


@pytest.mark.parametrize("name", BATCHES)
def test_paged_attention_means_the_same(name, tmp_path):
    lengths, queries, page = BATCHES[name]
    counts = [-(-n // page) for n in lengths]
    ids = np.random.default_rng(0).permutation(sum(counts) + 3)[: sum(counts)].astype(np.int32)
    stored = {"kv_indptr": ints(0, *np.cumsum(counts)), "kv_indices": ids, "sm_scale": 0.3}
    stored |= {"qo_indptr": ints(0, *np.cumsum(queries))} if "causal" in name else {}
    stored |= {"kv_last_page_len": ints(*(n - (c - 1) * page for n, c in zip(lengths, counts, strict=True)))} if page > 1 else {}
    axes = {
        "rows": sum(queries),
        "num_pages": len(ids) + 3,
        "len_indptr": len(lengths) + 1,
        "batch_size": len(lengths),
        "entries": len(ids),
    }
    case = only_case(write(tmp_path, paged(name, page), (axes, stored)))
    got, at, begin = case.op.reference(**case.call), 0, 0
    q, k, v = (case.call[n].astype(np.float64) for n in ("q", "k_pages", "v_pages"))
    for length, new, count in zip(lengths, queries, counts, strict=True):
        keys, values = (a[ids[begin : begin + count]].reshape(-1, *a.shape[2:])[:length] for a in (k, v))
        np.testing.assert_allclose(got[at : at + new], attend(q[at : at + new], keys, values, 0.3, length - new), rtol=1e-5, atol=1e-6)
        at, begin = at + new, begin + count


def test_ragged_attention_means_the_same(tmp_path):
    axes = {"rows": 5, "total_kv": 9, "len_indptr": 3}
    stored = {"qo_indptr": ints(0, 2, 5), "kv_indptr": ints(0, 6, 9), "sm_scale": 0.5}
    case = only_case(write(tmp_path, RAGGED, (axes, stored)))
    q, k, v = (case.call[n].astype(np.float64).reshape(-1, *case.call[n].shape[-2:]) for n in ("q", "k_pages", "v_pages"))
    got = case.op.reference(**case.call)
    np.testing.assert_allclose(got[:2], attend(q[:2], k[:6], v[:6], 0.5, 4), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got[2:], attend(q[2:], k[6:], v[6:], 0.5, 0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("d", "reason"),
    [
        (norm("rmsnorm_h16_fp8e4m3"), "the name says more than a norm"),
        (norm("rmsnorm_h16", scale="float32 hidden_size"), "rms_norm is known to mean hidden_states, weight"),
        (norm("rmsnorm_h16") | {"reference": "def run(x, weight): pass"}, "assigns no number to EPS"),
        (norm("rmsnorm_h16") | {"reference": "EPS = float('1e-6')\ndef run(x): pass"}, "assigns no number to EPS"),
        (definition("top_k_sampling_from_probs_v9", "sampling", {}, {}), "a stream of its own"),
        (definition("moe_x", "moe", {}, {}), "routing and experts"),
        (definition("gdn_x", "gdn", {}, {}), "gated_delta takes them ready"),
        (definition("strange", "new", {}, {}), "no op is known to mean definitions of type 'new'"),
    ],
)
def test_what_isnt_known_to_mean_the_same_has_a_reason(d, reason):
    assert reason in understand(d)


def test_workloads_that_are_no_cases_are_counted_with_their_reasons(tmp_path, monkeypatch):
    monkeypatch.setattr("vtcore.conformance.flashinfer.load.MOST_FLOPS", 10_000)
    write(tmp_path, GEMM, ({"M": 4}, {}), ({"M": 1000}, {}), ({"M": 10**9}, {}))
    write(tmp_path, norm("rmsnorm_h16") | {"inputs": norm("rmsnorm_h16")["inputs"] | {"weight": {"shape": [], "dtype": "float8_e5m2"}}})
    sizes = {"rows": 1, "num_pages": 3, "len_indptr": 2, "batch_size": 1, "entries": 2}
    own = {"kv_indptr": ints(0, 2), "kv_indices": ints(0, 9), "sm_scale": 1.0}
    write(tmp_path, paged("gqa_paged_decode_h4_kv2_d8_ps1", 1), (sizes, own), (sizes, {}), (sizes, own | {"kv_indices": ints(1, 2, 0)}))
    found = TraceSet(tmp_path)
    assert [c.op.name for _, c in found.cases(9)] == ["linear"]
    reasons = " | ".join(found.skipped)
    for words in ("0 GFLOP", "MiB of inputs", "float8_e5m2 inputs", "table holds 9", "integers that hang together"):
        assert words in reasons
    assert "kv_indices is int32[3] in" in " ".join(found.problems)


def test_files_are_read_below_the_directory_alone(tmp_path):
    write(tmp_path / "set", GEMM, ({"M": 2}, {"A": np.ones((2, 16), np.float16)}))
    lines = tmp_path / "set" / "workloads" / "gemm_n8_k16.jsonl"
    lines.write_text(lines.read_text().replace("./blob", "../blob") + "{}\nno JSON\n")
    found = TraceSet(tmp_path / "set")
    assert list(found.cases(9)) == []
    assert "leads out of" in " ".join(found.problems)
    assert "line 2 is no FlashInfer workload or trace: 'definition' is missing" in " ".join(found.problems)
    assert "line 3 is not JSON" in " ".join(found.problems)
    bad = tmp_path / "set" / "definitions" / "bad.json"
    for name in ("../up", "/etc/x", "a*b", "a\nb"):
        bad.write_text(json.dumps(GEMM | {"name": name}))
        assert "letters, digits and _.- only" in TraceSet(tmp_path / "set").problems[0]
    with pytest.raises(ArgumentError, match="has no folder `definitions`"):
        TraceSet(tmp_path)


GOOD = norm("rmsnorm_h16") | {"outputs": {"output": {"shape": ["batch_size"], "dtype": "bfloat16"}}, "constraints": ["batch_size > 0"]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": ""}, "name is ''"),
        ({"axes": {}}, "has the axis 'batch_size', which `axes` doesn't define"),
        ({"axes": GOOD["axes"] | {"x": {"type": "const", "value": -1}}}, "axis 'x'"),
        ({"outputs": {"weight": GOOD["inputs"]["weight"]}}, "weight is an input and an output"),
        ({"outputs": {"output": {"shape": None, "dtype": "uint8"}}}, "dtype of 'output' is 'uint8'"),
        ({"reference": "def walk(): pass"}, "defines no function `run`"),
        ({"reference": "def run("}, "was never closed"),
        ({"constraints": ["1 +"]}, "invalid syntax"),
        ({"inputs": None}, "'NoneType' object"),
    ],
)
def test_definitions_keep_the_rules(change, words):
    check_definition(GOOD, "here")
    with pytest.raises(ArgumentError, match=r"^here is no FlashInfer definition") as refused:
        check_definition(GOOD | change, "here")
    assert words in str(refused.value)


WORKLOAD = {"definition": "d", "workload": {"uuid": "u", "axes": {"M": 1}, "inputs": {"x": {"type": "random"}}}}
PASSED = {
    "status": "PASSED", "timestamp": "now", "environment": {"hardware": "cpu"},
    "correctness": {"max_relative_error": 0.0, "max_absolute_error": "NaN"}, "performance": {"latency_ms": 1.0},
}  # fmt: skip


@pytest.mark.parametrize(
    ("trace", "words"),
    [
        ({}, "'definition' is missing"),
        (WORKLOAD | {"workload": WORKLOAD["workload"] | {"axes": {"M": -1}}}, "axis 'M' is -1"),
        (WORKLOAD | {"workload": WORKLOAD["workload"] | {"inputs": {"x": {"type": "zeros"}}}}, "'x' is 'zeros'"),
        (WORKLOAD | {"workload": WORKLOAD["workload"] | {"inputs": {"x": {"type": "scalar", "value": "1"}}}}, "a scalar is a number"),
        (WORKLOAD | {"solution": "s"}, "a trace has a solution and an evaluation"),
        (WORKLOAD | {"solution": "s", "evaluation": PASSED | {"status": "FINE"}}, "status is 'FINE'"),
        (WORKLOAD | {"solution": "s", "evaluation": PASSED | {"performance": None}}, "don't belong to the status PASSED"),
        (WORKLOAD | {"solution": "s", "evaluation": PASSED | {"status": "TIMEOUT"}}, "don't belong to the status TIMEOUT"),
        (WORKLOAD | {"solution": "s", "evaluation": PASSED | {"performance": {"latency_ms": -1}}}, "latency_ms is -1"),
    ],
)
def test_workloads_and_traces_keep_the_rules(trace, words):
    check_trace(WORKLOAD, "here")
    check_trace(WORKLOAD | {"solution": "s", "evaluation": PASSED}, "here")
    with pytest.raises(ArgumentError, match=r"^here is no FlashInfer workload or trace") as refused:
        check_trace(trace, "here")
    assert words in str(refused.value)


def test_every_sample_is_exported_or_says_why_not():
    exported, refused = 0, set()
    for op in REGISTRY.values():
        for case in cases(op):
            try:
                made = export(case)
            except Inexpressible as why:
                refused.add(str(why).split(" is ")[0])
                continue
            exported += 1
            axes = {n: a.get("value", made.workload["axes"].get(n)) for n, a in made.definition["axes"].items()}
            assert None not in axes.values()
            for name, spec in made.definition["inputs"].items():
                assert spec["shape"] is None or tuple(axes[a] for a in spec["shape"]) == made.tensors[name].shape
            for constraint in made.definition["constraints"]:
                assert eval(constraint, {}, axes), (case, constraint)
    assert exported > 800
    assert refused <= {"block-quantised arrays, for which the format has no dtypes", "gate", "up", "down"}


def test_the_same_form_is_the_same_definition():
    first, second = ({"x": np.ones((n, 8), np.float32), "weight": np.ones(8, np.float32), "eps": 1e-6} for n in (2, 3))
    op = REGISTRY["rms_norm"]
    a, b = (export(Case(op, op.bind(**c), 0, 0)) for c in (first, second))
    assert a.definition == b.definition
    assert (a.workload["axes"], b.workload["axes"]) == ({"d0": 2}, {"d0": 3})
    assert a.definition["axes"]["H"] == {"type": "const", "value": 8}
    assert a.workload["uuid"] != b.workload["uuid"]


def test_what_is_exported_can_be_run(tmp_path, capsys):
    case = next(c for c in cases(REGISTRY["add_rms_norm"]) if c.call["x"].shape == (3, 127))
    (tmp_path / "cases").mkdir()
    save(case, tmp_path / "cases" / "one.npz")
    assert main(["flashinfer", "export", str(tmp_path / "out"), "--cases", str(tmp_path / "cases"), "--provider", "portable"]) == 0
    assert "1 definitions, 1 workloads and 1 traces" in capsys.readouterr().out
    (path,) = (tmp_path / "out" / "traces").rglob("*.jsonl")
    trace = check_trace(json.loads(path.read_text()), "trace")
    assert trace["evaluation"]["status"] == "PASSED"
    assert trace["evaluation"]["performance"]["speedup_factor"] > 0
    stored = load_file(tmp_path / "out" / trace["workload"]["inputs"]["x"]["path"])
    assert np.array_equal(stored["x"], case.call["x"])
    (definition,) = (tmp_path / "out" / "definitions").rglob("*.json")
    code = json.loads(definition.read_text())["reference"]
    assert "definition('add_rms_norm', x=x, residual=residual, weight=weight, eps=eps, offset=offset, groups=groups)" in code
    assert main(["flashinfer", "export", str(tmp_path / "out")]) == 2
    assert "not an empty directory" in capsys.readouterr().err


def test_each_kind_of_failure_has_its_status():
    def right(name, **call):
        return REGISTRY[name].reference(**{n: tensor.bare(v) for n, v in call.items()})

    def raises(x):
        raise RuntimeError("not today")

    from vtcore.conformance.flashinfer.results import trace

    provider = Provider("mine")
    provider.kernel(REGISTRY["rms_norm"])(lambda **c: tensor.of(right("rms_norm", **c) * np.float32(np.inf)))
    provider.kernel(REGISTRY["silu"])(lambda x: tensor.of(np.zeros(x.shape, np.float16)))
    provider.kernel(REGISTRY["gelu"])(lambda x: tensor.of(np.zeros(3, np.float32)))
    provider.kernel(REGISTRY["relu"])(raises)
    found = {}
    for name in ("rms_norm", "silu", "gelu", "relu", "add"):
        case = next(cases(REGISTRY[name]))
        made = trace(provider, case, export(case))
        found[name] = made and made["evaluation"]["status"]
    wanted = {"rms_norm": "INCORRECT_NUMERICAL", "silu": "INCORRECT_DTYPE", "gelu": "INCORRECT_SHAPE", "relu": "RUNTIME_ERROR"}
    assert found == wanted | {"add": None}


def test_import_makes_cases_that_the_check_runs(tmp_path, capsys):
    root = write(tmp_path / "set", norm("rmsnorm_h16"), *(({"batch_size": n}, {}) for n in (1, 2, 3, 4)))
    write(root, norm("rmsnorm_h16_mxfp4"))
    assert main(["flashinfer", "list", str(root)]) == 0
    out = capsys.readouterr().out
    assert "rmsnorm_h16                                          rms_norm" in out
    assert "no: the name says more" in out
    assert main(["flashinfer", "import", str(root), str(tmp_path / "cases"), "--most", "2"]) == 0
    assert "2 cases of 2 definitions" in capsys.readouterr().out
    assert main(["check", "portable", "--cases", str(tmp_path / "cases")]) == 0
    assert main(["flashinfer", "import", str(root), str(tmp_path / "cases")]) == 2
