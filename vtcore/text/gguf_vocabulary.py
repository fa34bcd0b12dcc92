"""The tokenizer that a GGUF file's metadata describe. Keys: ggml's docs/gguf.md; defaults for missing ones: llama.cpp's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vtcore.errors import ConfigError, TokenizerError
from vtcore.formats.metadata import Metadata
from vtcore.text.bpe import Casing, bert, bpe
from vtcore.text.encoder import Around, RustEncoder, guarded
from vtcore.text.growth import check_charsmap
from vtcore.text.pieces import TokenPieces
from vtcore.text.splits import SPLITTERS, Splitter
from vtcore.text.spm import Normalization, marked, spm_bpe, spm_unigram
from vtcore.text.tokenizer import Special, Tokenizer
from vtcore.text.vocabulary import Kind, Vocabulary, guessed_kinds

Built = tuple[RustEncoder, TokenPieces]
GGML = "tokenizer.ggml."
MODELS = ("gpt2", "gemma4", "llama", "t5", "bert")
ROLES = {"bos": "bos", "eos": "eos", "unk": "unknown", "sep": "seperator", "pad": "padding", "cls": "cls", "mask": "mask"}
DEFAULT_IDS = {
    "llama": {"bos": 1, "eos": 2, "unk": 0},
    "t5": {"eos": 1, "unk": 2, "pad": 0},
    "bert": {"bos": 101, "unk": 100, "sep": 102, "pad": 0, "mask": 103},
}
SEPARATED = ("jina-v1-en", "jina-v2-code", "roberta-bpe")
ENDS = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<end_of_turn>", "<|endoftext|>", "<|eom_id|>", "<EOT>", "_<EOT>",
    "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<turn|>", "<\uff5cend\u2581of\u2581sentence\uff5c>", "[e~[", "<eos>",
}  # fmt: skip


def gguf_tokenizer(metadata: Mapping[str, Any], source: str) -> Tokenizer:
    """The tokenizer of a GGUF file. Raises TokenizerError that names the key, its value and what is allowed."""
    try:
        described = Described(metadata if isinstance(metadata, Metadata) else Metadata(metadata, source))
        with guarded(described.source, "building the tokenizer"):
            encoder, pieces = described.built()
        return Tokenizer(encoder, pieces, described.special(), described.chat_templates())
    except ConfigError as e:
        raise TokenizerError(str(e)) from e


class Described:
    """One file's metadata about its vocabulary, read and checked."""

    def __init__(self, metadata: Metadata) -> None:
        self.metadata, self.source = metadata, metadata.source
        self.model = metadata.text(GGML + "model")
        if self.model not in MODELS:
            raise metadata.wrong(GGML + "model", f"one of {', '.join(MODELS)}")
        self.tokens = metadata.texts(GGML + "tokens")
        if not self.tokens:
            raise metadata.wrong(GGML + "tokens", "at least one token")
        self.roles = self._roles()
        self.vocabulary = Vocabulary(self.tokens, self._kinds(), metadata.numbers(GGML + "scores", None), self.source)

    def _roles(self) -> dict[str, int]:
        """The ids of special tokens by their role."""
        roles = {role: i for role, i in DEFAULT_IDS.get(self.model, {}).items() if i < len(self.tokens)}
        for role, key in ROLES.items():
            if (found := self._id(key)) is not None:
                roles[role] = found
        return roles

    def _id(self, key: str) -> int | None:
        return self.metadata.integer(f"{GGML}{key}_token_id", None, maximum=len(self.tokens) - 1)

    def _kinds(self) -> list[int]:
        stored = self.metadata.integers(GGML + "token_type", None)
        if stored is None:
            kinds = guessed_kinds(self.tokens, [i for role, i in self.roles.items() if role != "unk"])
            if "unk" in self.roles:
                kinds[self.roles["unk"]] = Kind.UNKNOWN
            return kinds
        return [Kind.CONTROL if token in ENDS else kind for token, kind in zip(self.tokens, stored, strict=False)] + stored[
            len(self.tokens) :
        ]

    @property
    def splitter(self) -> Splitter:
        """The kind of pre-tokenizer that the file names."""
        name = "gemma4" if self.model == "gemma4" else self.metadata.text(GGML + "pre", "default")
        if name not in SPLITTERS:
            raise self.metadata.wrong(GGML + "pre", f"one of {', '.join(sorted(SPLITTERS))}")
        return SPLITTERS[name]

    def built(self) -> Built:
        """The two halves of the tokenizer."""
        around = Around(self._added("bos", self._adds_bos()), self._added("sep", self._adds_sep()) + self._added("eos", self.model == "t5"))
        if self.model == "bert":
            return bert(self.vocabulary, self._casing(), around)
        if self.model in ("llama", "t5"):
            build = spm_bpe if self.model == "llama" else spm_unigram
            return build(marked(self.vocabulary), self._normalization(), around)
        prefixed = self.metadata.boolean(GGML + "add_space_prefix", False)
        return bpe(self.vocabulary, self._merges(), self.splitter, around, prefixed=prefixed)

    def _merges(self) -> list[str] | None:
        key = GGML + "merges"
        made = self.metadata.text(GGML + "pre", "default") == "kimi-k2" and key not in self.metadata
        return None if made else self.metadata.texts(key)

    def _adds_bos(self) -> bool:
        return self.model in ("llama", "bert", "gemma4") or (self.model == "gpt2" and self.splitter.add_bos)

    def _adds_sep(self) -> bool:
        return self.model == "bert" or (self.model == "gpt2" and self.metadata.text(GGML + "pre", "default") in SEPARATED)

    def _added(self, role: str, default: bool) -> list[int]:
        """The token of a role, if the file, or else the default, says that prompts get it."""
        key = f"{GGML}add_{role}_token"
        if not self.metadata.boolean(key, default):
            return []
        found = self.roles.get(role, self.roles.get("cls") if role == "bos" else None)
        if found is None and key in self.metadata:
            raise TokenizerError(f"{self.source}: {key!r} is True, but there is no '{GGML}{ROLES[role]}_token_id'")
        return [] if found is None else [found]

    def _casing(self) -> Casing:
        lowercase = self.metadata.boolean(GGML + "normalizer.lowercase", True)
        return Casing(lowercase, self.metadata.boolean(GGML + "normalizer.strip_accents", lowercase))

    def _normalization(self) -> Normalization:
        phi3 = self.metadata.text("general.architecture", "") == "phi3"
        return Normalization(
            prefix=self.metadata.boolean(GGML + "add_space_prefix", True),
            squeeze=self.metadata.boolean(GGML + "remove_extra_whitespaces", self.model == "t5"),
            charsmap=self._charsmap(),
            each=phi3,
            strip_right=phi3,
        )

    def _charsmap(self) -> bytes:
        key = GGML + "precompiled_charsmap"
        values = self.metadata.integers(key, [])
        if not all(-128 <= v < 256 for v in values):
            raise self.metadata.wrong(key, "a list of bytes")
        charsmap = bytes(v & 255 for v in values)
        check_charsmap(charsmap, self.metadata.source)
        return charsmap

    def special(self) -> Special:
        """Names, ids and ends."""
        ends = {i for i in (self.roles.get("eos"), self._id("eot"), self._id("eom")) if i is not None}
        control = self.vocabulary.named(Kind.CONTROL, Kind.UNKNOWN)
        ends |= {i for i, token in control.items() if token in ENDS}
        named = {r: i for r, i in self.roles.items() if r in ("bos", "eos", "unk", "pad", "sep", "cls", "mask")}
        names = {f"{role}_token": self.tokens[i] for role, i in named.items()}
        return Special(
            names, frozenset(control) | ends | {i for r, i in named.items() if r in ("bos", "eos")}, self.roles.get("bos"), frozenset(ends)
        )

    def chat_templates(self) -> dict[str, str]:
        """Sources by name: `tokenizer.chat_template` is the default, `tokenizer.chat_template.NAME` are others."""
        key = "tokenizer.chat_template"
        named = {k[len(key) + 1 :]: self.metadata.text(k) for k in self.metadata if k.startswith(key + ".")}
        return {**named, "default": self.metadata.text(key)} if key in self.metadata else named
