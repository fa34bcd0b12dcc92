"""Latent attention has two forms. The engine has the absorbed one, for every token: which one is chosen could only hang on how many tokens
are new, and then a request's bits would hang on how it is cut, and on what a cache knew. The other one is here, as a witness."""

from dataclasses import replace

import numpy as np
import pytest

from tests.conformance.gated import EXACT, name_of
from tests.models.expanded import expanded
from vtcore.conformance.gate import answer, judge, load
from vtcore.models.latent import LatentAttention
from vtcore.models.registry import ARCHITECTURES
from vtcore.providers import chain

LATENT = [g for g in EXACT if issubclass(ARCHITECTURES[g.architecture], LatentAttention)]
BOUND = 1e-5  # of a logit, relative to the largest of its row: sums of float32 in another order, through every layer


FAMILIES = "deepseek_v2 deepseek_v2_lite deepseek_v3 deepseek_v32 glm4_moe_lite glm_moe_dsa kimi_k2 kimi_linear minicpm3"


def test_all_of_them_are_here():
    assert {g.name for g in LATENT} >= set(FAMILIES.split())


@pytest.mark.parametrize("providers", ["reference", "portable"])
@pytest.mark.parametrize("golden", LATENT, ids=name_of)
def test_both_forms_agree(golden, providers):
    model, cases = load(golden), golden.cases[1:] if providers == "portable" else golden.cases[1:3]
    golden = replace(golden, cases=tuple(replace(c, tokens=c.tokens[:8]) for c in cases))
    absorbed, other = (answer(m, golden, chain(providers)) for m in (model, expanded(model)))
    assert judge(golden, other).passed
    for a, b in zip(absorbed, other, strict=True):
        assert a.tokens == b.tokens
        apart = np.abs(a.rows - b.rows).max(-1) / np.abs(a.rows).max(-1)
        assert 0 < apart.max() <= BOUND
