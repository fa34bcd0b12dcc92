"""GROUP_SUM and GROUP_MAX: a tree over what a group shares, or within subgroups and then over what each of those found.

Every lane gets the same bits, and what is summed in which order depends on the device and the kernel only. Of a subgroup's size
nothing is assumed."""

from __future__ import annotations

from typing import NamedTuple

JOINED = {"sum": "{0} + {1}", "max": "max({0}, {1})"}
TREE = """
FN float vt_group_{name}({takes}float v) {{
    BARRIER();
    vt_red[{lane}] = v;
    BARRIER();
    for (uint k = WG / 2u; k > 0u; k >>= 1) {{ if ({lane} < k) vt_red[{lane}] = {joined}; BARRIER(); }}
    return vt_red[0];
}}
"""
TWO_LEVELS = """
FN float vt_group_{name}({takes}float v) {{
    {within}
    BARRIER();
    if ({first}) vt_red[{number}] = v;
    BARRIER();
    v = vt_red[0];
    for (uint k = 1u; k < {count}; ++k) v = {joined};
    return v;
}}
"""


class Subgroups(NamedTuple):
    """How a target names them. `within` is the statement that makes of `v` what a subgroup's work items have together, by operation."""

    within: dict[str, str]
    first: str  # whether a work item is the one that stores for its subgroup
    number: str  # of the subgroup in its group
    total: str  # of subgroups in the group


def tree(takes: str = "", passed: str = "", lane: str = "lane") -> str:
    """Both by a barrier for each halving. `takes` are parameters that a function of the target needs besides the value."""
    at = f"vt_red[{lane}]", f"vt_red[{lane} + k]"
    return _both(passed, {name: TREE.format(name=name, takes=takes, lane=lane, joined=j.format(*at)) for name, j in JOINED.items()})


def by_subgroups(how: Subgroups, takes: str = "", passed: str = "") -> str:
    """Both with two barriers."""
    facts = {"takes": takes, "first": how.first, "number": how.number, "count": how.total}
    return _both(
        passed,
        {n: TWO_LEVELS.format(name=n, within=how.within[n], joined=j.format("v", "vt_red[k]"), **facts) for n, j in JOINED.items()},
    )


def _both(passed: str, functions: dict[str, str]) -> str:
    macros = (f"#define GROUP_{name.upper()}(v) vt_group_{name}({passed}v)\n" for name in functions)
    return "".join((*functions.values(), *macros))
