"""Which goldens are gated: all of every registered architecture. What is missing is listed here with its reason, and nowhere else."""

from vtcore.conformance.golden import Golden, goldens
from vtcore.models.registry import ARCHITECTURES, load_all

load_all()
ALIASES = {  # names for an architecture that is recorded under another
    "Ernie4_5_ForCausalLM", "Ernie4_5_MoEForCausalLM", "Gemma3ForConditionalGeneration", "Gemma4ForConditionalGeneration",
    "Gemma3nForConditionalGeneration", "Llama4ForConditionalGeneration",
    "MiniMaxM1ForCausalLM", "MiniMaxText01ForCausalLM", "MPTForCausalLM", "PhiMoEForCausalLM",
    "StableLMEpochForCausalLM", "YiForCausalLM",
}  # fmt: skip
WRAPPED = ("Qwen2_5_VL", "Qwen3VL", "Qwen3_5", "Qwen3_5Moe", "Voxtral", "Idefics3", "Mistral3", "InternVL", "Kimi_K25", "KimiK25")
ALIASES |= {f"{n}ForConditionalGeneration" for n in WRAPPED}
UNGATED = {"KimiK3ForConditionalGeneration": "no oracle knows it: tests/models/test_kimi_k3.py has a witness"}
ALL = goldens()
GOLDENS = [g for g in ALL if g.architecture in ARCHITECTURES]
EXACT = [g for g in GOLDENS if g.dtype == "float32"]
ONE_EACH = list({g.architecture: g for g in reversed(EXACT)}.values())  # the first of each architecture


def golden_of(name: str) -> Golden:
    """One by name."""
    return next(g for g in GOLDENS if g.name == name)


def name_of(golden: Golden) -> str:
    """For a test's id."""
    return golden.name
