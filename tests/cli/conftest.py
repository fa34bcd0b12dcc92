import json
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteLevel as Decoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

from tests.checkpoints import random_llama

TEMPLATE = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]"


def write_tokenizer(directory: Path, template: str | None) -> None:
    """A token a byte, and <end>, which ends an answer."""
    letters = sorted(ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE({letter: i for i, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = ByteLevel(add_prefix_space=False), Decoder()
    tokenizer.add_special_tokens([AddedToken("<end>", special=True)])
    tokenizer.save(str(directory / "tokenizer.json"))
    config = {"eos_token": "<end>"} | ({"chat_template": template} if template else {})
    (directory / "tokenizer_config.json").write_text(json.dumps(config))


@pytest.fixture(scope="session")
def chat_model(tmp_path_factory) -> str:
    """The directory of a tiny model of random weights with a chat template."""
    directory = random_llama(tmp_path_factory.mktemp("chat"))
    write_tokenizer(directory, TEMPLATE)
    return str(directory)


@pytest.fixture(scope="session")
def base_model(tmp_path_factory) -> str:
    """The same without a chat template."""
    directory = random_llama(tmp_path_factory.mktemp("base"))
    write_tokenizer(directory, None)
    return str(directory)
