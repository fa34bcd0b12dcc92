"""Chat templates that ask for years, terabytes or the interpreter. Run as a program, it renders each under limits of memory and time."""

import json
import sys

ATTACKS = {
    "repeat": "{{ 'a' * 10**9 }}",
    "repeat_left": "{{ 1000000000 * 'a' }}",
    "repeat_list": "{{ ([0] * 1000000000)|length }}",
    "square": "{% set ns = namespace(n=3) %}{% for i in range(60) %}{% set ns.n = ns.n * ns.n %}{% endfor %}{{ ns.n }}",
    "double": "{% set ns = namespace(s='a') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
    "double_tilde": "{% set ns = namespace(s='a') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    "double_block": (
        "{% set ns = namespace(s='a') %}{% for i in range(60) %}{% set x %}{{ ns.s }}{{ ns.s }}{% endset %}{% set ns.s = x %}{% endfor %}"
    ),
    "double_list": "{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
    "nested_lists": "{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}",
    "nested_dicts": (
        "{% set ns = namespace(s={'a':1}) %}{% for i in range(60) %}{% set ns.s = {'a': ns.s, 'b': ns.s} %}{% endfor %}{{ ns.s|tojson }}"
    ),
    "compare_dags": (
        "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}"
        "{% set ns.b = [ns.b, ns.b] %}{% endfor %}{{ ns.a == ns.b }}"
    ),
    "hash_tuples": "{% set ns = namespace(a=(1,)) %}{% for i in range(60) %}{% set ns.a = (ns.a, ns.a) %}{% endfor %}{{ {ns.a: 1} }}",
    "nested_loops": "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}{% endfor %}",
    "filtered_loops": "{% for a in range(99999) %}{% for b in range(99999) if false %}{% endfor %}{% endfor %}",
    "output": "{% for a in range(99999) %}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{% endfor %}",
    "output_macro": "{% macro f() %}{% for a in range(9999) %}"
    + "x" * 100000
    + "{% endfor %}{% endmacro %}{% for i in range(99) %}{% set x = f() %}{% endfor %}",
    "recursive_loop": "{% for x in [1] recursive %}{{ loop([1, 1]) }}{% endfor %}",
    "recursive_wide": "{% for x in [1] recursive %}{% if loop.depth < 3 %}{{ loop(range(99999)) }}{% endif %}{% endfor %}",
    "recursive_macro": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "tree_macro": "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "block_recursion": "{% block a %}{{ self.a() }}{% endblock %}",
    "width_percent": "{{ '%1000000000d' % 1 }}",
    "width_precision": "{{ '%.1000000000f' % 1 }}",
    "width_star": "{{ '%*d' % (1000000000, 1) }}",
    "width_key": "{{ '%((a))1000000000d' % {'(a)': 1} }}",
    "percent_many": "{{ ('%(a)s' * 100000) % {'a': 'x' * 500000} }}",
    "width_filter": "{{ '%1000000000d'|format(1) }}",
    "format_width": "{{ '{:1000000000}'.format(1) }}",
    "format_nested": "{{ '{:{w}}'.format(1, w=1000000000) }}",
    "format_many": "{{ ('{0}' * 100000).format('x' * 500000) }}",
    "format_map": "{{ '{a:1000000000}'.format_map({'a': 1}) }}",
    "format_attr": "{{ '{0.__class__.__mro__}'.format(1) }}",
    "center": "{{ 'a'|center(1000000000) }}",
    "center_method": "{{ 'a'.center(1000000000) }}",
    "zfill": "{{ 'a'.zfill(1000000000) }}",
    "ljust_loop": "{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = ns.l + ['a'.ljust(65536)] %}{% endfor %}",
    "expandtabs": "{{ ('\t' * 1000).expandtabs(100000000) }}",
    "replace": "{{ ('a' * 100000).replace('a', 'b' * 100000) }}",
    "replace_empty": "{{ ('a' * 100000).replace('', 'b' * 100000) }}",
    "replace_filter": "{{ ('a' * 100000)|replace('a', 'b' * 100000) }}",
    "join": "{{ (['a'] * 100000)|join('b' * 100000) }}",
    "join_method": "{{ ('b' * 100000).join(['a'] * 100000) }}",
    "join_big": "{{ (['a' * 500000] * 2)|join }}{% set l = 'a' * 500000 %}{{ [l, l, l, l, l, l, l]|join }}",
    "indent": "{{ ('\n' * 100000)|indent(100000, true, true) }}",
    "indent_text": "{{ ('\n' * 100000)|indent('x' * 100000, true, true) }}",
    "batch": "{{ [1]|batch(1000000000, 'x')|list }}",
    "slice": "{{ [1]|slice(1000000000)|list }}",
    "sum_lists": "{{ ([[1]] * 100000)|sum(start=[])|length }}",
    "round": "{{ 1|round(1000000000, 'ceil') }}",
    "tojson_indent": "{{ [[[1]]]|tojson(indent=1000000000) }}",
    "tojson_separator": "{{ ([1] * 100000)|tojson(separators=('x' * 100000, ':')) }}",
    "int_hex": "{% set n = ('f' * 900000)|int(base=16) %}{{ n * n }}",
    "to_bytes": "{{ (1).to_bytes(1000000000, 'big') }}",
    "lipsum": "{{ lipsum(n=1000000) }}",
    "range_big": "{{ range(1000000000)|list }}",
    "fromkeys": "{{ {}.fromkeys(range(99999)) }}",
    "collisions": "{% set r = range(0, 99999 * 2305843009213693951, 2305843009213693951)|batch(2)|list %}{{ dict(r)|length }}",
    "collisions_unique": "{{ range(0, 99999 * 2305843009213693951, 2305843009213693951)|unique|list|length }}",
    "strftime": "{{ strftime_now('%1000000000d' * 1000) }}",
    "slices": (
        "{% set s = 'x' * 1000000 %}{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = ns.l + [s[1:]] %}{% endfor %}"
    ),
    "find_loop": (
        "{% set s = 'x' * 1000000 %}{% for i in range(99999) %}"
        "{% if s.find('y') > 0 or s == s[:1] or s.count('xx') %}{% endif %}{% endfor %}"
    ),
    "compare_many": "{% set a = range(99999)|list %}{% set b = range(99999)|list %}" + "{% if a == b %}{% endif %}" * 3000,
    "sort_loop": "{% set a = range(99999)|list %}{% for i in range(99999) %}{% set b = a|reverse|sort %}{% endfor %}",
    "list_of_text": "{% for i in range(99999) %}{% set b = ('x' * 1000000)|list %}{% endfor %}",
    "deep_parens": "{{ " + "(" * 50000 + "1" + ")" * 50000 + " }}",
    "deep_if": "{% if 1 %}" * 9000 + "{% endif %}" * 9000,
    "deep_for": "{% for a in [1] %}" * 300 + "{% endfor %}" * 300,
    "plus_chain": "{{ 1" + "+1" * 60000 + " }}",
    "tilde_chain": "{{ 1" + "~1" * 60000 + " }}",
    "many_outputs": "{{x}}" * 26000,
    "many_sets": "{%set a=1%}" * 11500,
    "many_digits": "{{ " + "9" * 200000 + " }}",
    "unclosed": "{{ '" + "a" * 200000,
    "huge_source": "a" * 10_000_000,
    "globals": "{{ cycler.__init__.__globals__ }}",
    "subclasses": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "import": "{% import 'x' as y %}",
    "include": "{% include 'x' %}",
    "mutate": "{{ messages.append(1) }}",
    "filter_block": (
        "{% filter upper %}{% for i in range(99999) %}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{% endfor %}{% endfilter %}"
    ),
    "urlencode": "{% for i in range(99999) %}{% set x = ('\\u20ac' * 200000)|urlencode %}{% endfor %}",
    "split_loop": "{% for i in range(99999) %}{% set x = ('a ' * 400000).split() %}{% endfor %}",
    "undefined": "{{ x.y.z }}",
    "hash_deep": "{% set ns = namespace(t=()) %}{% for i in range(99999) %}{% set ns.t = (ns.t,) %}{% endfor %}{{ {ns.t: 1}|length }}",
    "deep_lists": "{% set ns = namespace(t=[]) %}{% for i in range(99999) %}{% set ns.t = [ns.t] %}{% endfor %}{{ ns.t }}",
    "deep_generators_use": (
        "{% set ns = namespace(g=[1]) %}{% for i in range(99999) %}{% set ns.g = ns.g|map('string') %}{% endfor %}{{ ns.g|list }}"
    ),
    "percent_open": "{% for i in range(9999) %}{{ ('%(' * 400000) % {} }}{% endfor %}",
    "upper": "{% for i in range(9999) %}{% set x = ('\u0149' * 1000000).upper() %}{% endfor %}",
    "count_overlap": (
        "{% set s = 'ab' * 500000 %}{% set t = 'ab' * 200000 ~ 'c' %}{% for i in range(99999) %}"
        "{% if t in s %}{% endif %}{{ s.find(t) }}{% endfor %}"
    ),
    "rsplit2": (
        "{% set s = 'a' * 1000000 %}{% set t = 'a' * 300000 ~ 'b' ~ 'a' * 300000 %}"
        "{{ s.split(t)|length }}{{ s.rsplit(t)|length }}{{ s.rfind(t) }}{{ s.rindex(t) }}"
    ),
    "strip_chars": "{% set s = 'a' * 1000000 %}{{ s.strip('b' * 900000 ~ 'a') }}",
    "map_center": "{{ ['a']|map('center', 1000000000)|list }}",
    "translate": "{{ 'a'.translate({97: 'x' * 1000000}) }}",
    "encode": "{{ 'a'.encode('utf-32') }}",
    "lookup_chain": "{{ messages" + "[0]" * 9000 + " }}",
    "concat_nest": "{% set ns = namespace(s='a' * 1000000) %}{{ [ns.s ~ 'a', ns.s ~ 'b', ns.s ~ 'c', ns.s ~ 'd', ns.s ~ 'e']|length }}",
}


def limit() -> None:
    """2 GiB of addresses, 240 s of CPU time; where the system has such limits."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    resource.setrlimit(resource.RLIMIT_CPU, (240, 240))


def main() -> None:
    from vtcore.errors import TemplateError
    from vtcore.text import ChatTemplate

    limit()
    for name, source in ATTACKS.items():
        try:
            answer = "rendered " + ChatTemplate(source).render([{"role": "user", "content": "hi"}])[:40]
        except TemplateError as e:
            answer = "refused " + str(e)
        except BaseException as e:
            answer = f"{type(e).__name__} {e}"
        print(json.dumps([name, answer]), flush=True)


if __name__ == "__main__":
    sys.exit(main())
