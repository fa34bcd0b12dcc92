"""Text in and out: tokenizers of every kind of file, streaming detokenisation, chat templates."""

from vtcore.text.detokenizer import Detokenizer
from vtcore.text.load import load_tokenizer
from vtcore.text.template import ChatTemplate
from vtcore.text.tokenizer import Tokenizer

__all__ = ["ChatTemplate", "Detokenizer", "Tokenizer", "load_tokenizer"]
