r"""How byte-level vocabularies cut text into words before merging: the kinds that `tokenizer.ggml.pre` names in GGUF files.

Each kind is a sequence of regular expressions; every expression cuts the pieces that the ones before it left, into what it matches and
what lies between. The patterns are those of the models' own tokenizer.json files, by the names that llama.cpp gives them."""

from __future__ import annotations

from dataclasses import dataclass

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
SYMBOLS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def _words(
    digits: str, *, contractions: str = CONTRACTIONS + "|", letters: str = r"[^\r\n\p{L}\p{N}]?\p{L}+", symbols: str = SYMBOLS
) -> str:
    return rf"{contractions}{letters}|{digits}|{symbols}|{SPACES}"


LLAMA3 = _words(r"\p{N}{1,3}")
QWEN2 = _words(r"\p{N}")
QWEN35 = _words(r"\p{N}", letters=r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+", symbols=r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*")


def _cased(digits: str, ending: str, *, but: str = "", slash: str = "/") -> str:
    """Words that end where lower case turns to upper case, as o200k and tekken cut them."""
    upper, lower = rf"[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}{but}]", rf"[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}{but}]"
    lead = r"[^\r\n\p{L}\p{N}]?"
    words = rf"{lead}{upper}*{lower}+{ending}|{lead}{upper}+{lower}*{ending}"
    return rf"{words}|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n{slash}]*|{SPACES}"


GPT4O = _cased(r"\p{N}{1,3}", CONTRACTIONS + "?")
TEKKEN = _cased(r"\p{N}", "")
KIMI = r"[\p{Han}]+|" + _cased(r"\p{N}{1,3}", CONTRACTIONS + "?", but=r"&&[^\p{Han}]", slash="")

CJK = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
OLD_CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
PUNCTUATED = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+"""
DEEPSEEK3 = (r"\p{N}{1,3}", CJK, rf"{PUNCTUATED}[\r\n]*|{SPACES}")
CASED_LETTERS = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d"
    "\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5"
    "\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45"
    "\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc"
    "\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126"
    "\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee"
    "\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17"
    "\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"
    "\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
)
DEEPSEEK_LLM = (
    r"[\r\n]",
    rf"\s?[{CASED_LETTERS}]+",
    "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
    r"\s+$",
    OLD_CJK,
    r"\p{N}+",
)
BLOOM = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
THOUSANDS = r"\d{1,3}(?=(?:\d{3})*\b)"
ASIAN = (
    "[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0e7f\u0e80-\u0eff"
    "\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+"
)
WIDE_SPACES = "|".join(rf"\s{{{n}}}(?!\S)" for n in (512, 256, 128, 64, 32, 16, 8, 4)) + r"|\s{1,2}(?!\S)|\s{1}"


@dataclass(frozen=True)
class Splitter:
    """One kind: its expressions, and what else the name says about a vocabulary."""

    patterns: tuple[str, ...]
    ignore_merges: bool = False  # a word that is a token stays whole, whatever the merges say
    add_bos: bool = False  # where the file doesn't say
    compose: bool = False  # text is brought to Unicode's form NFC first
    raw: bool = False  # pieces are spelled in UTF-8 with U+2581 for spaces, not in the byte alphabet


_DIGITS = Splitter((r"\p{N}", GPT2))
_GPT2 = Splitter((GPT2,))
_LLAMA3 = Splitter((LLAMA3,), ignore_merges=True, add_bos=True)
_QWEN2 = Splitter((QWEN2,))
_GPT4O = Splitter((GPT4O,))
_BLOOM = Splitter((BLOOM,))
_DEEPSEEK3 = Splitter(DEEPSEEK3)
_THOUSANDS = Splitter((THOUSANDS, GPT4O))
_BAILING = Splitter(
    (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",),
)
_LINES = Splitter((r"[^\n]+|[\n]+",), raw=True)

SPLITTERS: dict[str, Splitter] = {
    "default": Splitter((r"[\p{P}$+<=>^~|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
    **dict.fromkeys(("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"), _LLAMA3),
    **dict.fromkeys(("dbrx", "smaug-bpe", "chatglm-bpe", "glm4"), Splitter((LLAMA3,))),
    "jais-2": Splitter((_words(r"\p{N}{1,3}").removesuffix(r"|\s+(?!\S)|\s+") + "|" + WIDE_SPACES,)),
    "minicpm5": Splitter((r"\p{N}{1,3}", _words(r"\p{N}+")), ignore_merges=True),
    "deepseek-llm": Splitter(DEEPSEEK_LLM),
    "deepseek-coder": Splitter((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", OLD_CJK, r"\p{N}")),
    **dict.fromkeys(("deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"), _DEEPSEEK3),
    "spark2_5": Splitter((r"\p{N}{1,3}", CJK, rf"{PUNCTUATED}|[\r\n]|\s+(?!\S)|\s+", r"\p{N}")),
    "youtu": Splitter(
        (
            "[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-\ufe4f]+"
            "|[\u3105-\u312f]+|" + CJK,
            _cased(r"\p{N}", CONTRACTIONS + "?"),
        ),
        ignore_merges=True,
    ),
    "falcon": Splitter((r"[\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]")),
    **dict.fromkeys(("starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"), _DIGITS),
    **dict.fromkeys(("gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0", "mellum"), _GPT2),
    **dict.fromkeys(("modern-bert", "jina-v1-en", "jina-v2-code", "roberta-bpe", "jais", "trillion", "granite-docling", "exaone4"), _GPT2),
    **dict.fromkeys(("mpt", "olmo"), Splitter((GPT2,), compose=True)),
    "qwen2": Splitter((QWEN2,), compose=True),
    "qwen35": Splitter((QWEN35,), compose=True),
    **dict.fromkeys(("stablelm2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "hunyuan", "solar-open", "grok-2"), _QWEN2),
    "laguna": Splitter((r"[^\n]+|[\n]+", QWEN2)),
    "ufakzeka": Splitter((_words(r"\p{N}", contractions=""),)),
    "seed-coder": Splitter((_words(r"\p{N}{1}", symbols=r" ?[^\s\p{L}\p{N}\r\n]+"),)),
    "exaone-moe": Splitter(
        (
            rf"{CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}"
            r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+",
        )
    ),
    **dict.fromkeys(("poro-chat", "bloom", "gpt3-finnish"), _BLOOM),
    "viking": Splitter((BLOOM, r"\p{N}")),
    "tekken": Splitter((TEKKEN,), ignore_merges=True, add_bos=True),
    **dict.fromkeys(("gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"), _GPT4O),
    "granite-embed-multi-97m": Splitter((GPT4O,), ignore_merges=True),
    **dict.fromkeys(("tiny_aya", "cohere2moe"), _THOUSANDS),
    "afmoe": Splitter((r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))", ASIAN, rf"{PUNCTUATED}[\r\n]*|{SPACES}")),
    "kimi-k2": Splitter((KIMI,)),
    "superbpe": Splitter((r"\p{N}+", r"(?=(\d{3})+(?!\d))")),
    **dict.fromkeys(("bailingmoe", "bailingmoe2", "llada-moe"), _BAILING),
    "chameleon": Splitter(
        (
            "<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", r"([\t\n]|    |  )", r"\p{N}", r"[\p{P}!-/:-@\[-`{-~]", GPT2,
        ),
        add_bos=True,
    ),
    **dict.fromkeys(("gemma4", "granite-embed-multi-311m", "sarvam-moe"), _LINES),
}  # fmt: skip
