"""How texts are cut into words, by kind: one text that tells most kinds apart, and what each makes of it."""

import pytest
from tokenizers import Regex, pre_tokenizers

from vtcore.text.splits import SPLITTERS

TEXT = "I'll DON'T HelloWorld x=1+2; 1234567 naïve's \n\n  日本語12 मा e\u0301 \t!?/\n$"

WORDS = {
    "gpt-2": "I|'ll| DON|'|T| HelloWorld| x|=|1|+|2|;| 1234567| naïve|'s| \n\n | 日本語|12| म|ा| e|\u0301| |\t|!?/|\n|$",
    "smollm": "I|'ll| DON|'|T| HelloWorld| x|=|1|+|2|;| |1|2|3|4|5|6|7| naïve|'s| \n\n | 日本語|1|2| म|ा| e|\u0301| |\t|!?/|\n|$",
    "llama-bpe": "I|'ll| DON|'T| HelloWorld| x|=|1|+|2|;| |123|456|7| naïve|'s| \n\n| | 日本語|12| म|ा| e|\u0301| |\t|!?/\n|$",
    "qwen2": "I|'ll| DON|'T| HelloWorld| x|=|1|+|2|;| |1|2|3|4|5|6|7| naïve|'s| \n\n| | 日本語|1|2| म|ा| e|\u0301| |\t|!?/\n|$",
    "qwen35": "I|'ll| DON|'T| HelloWorld| x|=|1|+|2|;| |1|2|3|4|5|6|7| naïve|'s| \n\n| | 日本語|1|2| मा| e\u0301| |\t|!?/\n|$",
    "deepseek-v3": "I|'ll| DON|'T| HelloWorld| x|=|1|+|2|;| |123|456|7| naïve|'s| \n\n|  |日本語|12| मा| e\u0301| |\t|!?/\n|$",
    "tekken": "I|'ll| DON|'T| Hello|World| x|=|1|+|2|;| |1|2|3|4|5|6|7| naïve|'s| \n\n| | 日本語|1|2| मा| e\u0301| |\t|!?/\n|$",
    "gpt-4o": "I'll| DON'T| Hello|World| x|=|1|+|2|;| |123|456|7| naïve's| \n\n| | 日本語|12| मा| e\u0301| |\t|!?/\n|$",
    "kimi-k2": "I'll| DON'T| Hello|World| x|=|1|+|2|;| |123|456|7| naïve's| \n\n| | |日本語|12| मा| e\u0301| |\t|!?/\n|$",
    "superbpe": "I'll DON'T HelloWorld x=|1|+|2|; |1|234|567| naïve's \n\n  日本語|12| मा e\u0301 \t!?/\n$",
    "falcon": "I|'|ll| DON|'|T| HelloWorld| x|=|1|+|2|;| |123|456|7| naïve|'|s| \n\n | 日本語|12| म|ा| e|\u0301| \t|!?/|\n|$",
    "bloom": "I'll| DON'T| HelloWorld| x=1+2;| 1234567| naïve's| \n\n | 日本語12| मा| e\u0301| \t!?|/|\n|$",
    "deepseek-coder": "I|'|ll| DON|'|T| HelloWorld| x|=|1|+|2|;| |1|2|3|4|5|6|7| naïve|'|s| |\n|\n| | |日本語|1|2| |म|ा| e|\u0301 |\t!?/"
    "|\n|$",
}


def cut(pre: str, text: str) -> list[str]:
    cuts = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in SPLITTERS[pre].patterns]
    return [word for word, _ in pre_tokenizers.Sequence(cuts).pre_tokenize_str(text)]


@pytest.mark.parametrize("pre", WORDS)
def test_words(pre):
    assert "|".join(cut(pre, TEXT)) == WORDS[pre]


def test_names_of_one_kind_share_it():
    assert SPLITTERS["llama3"] is SPLITTERS["llama-bpe"]
    assert len(SPLITTERS) > 80
