"""Every exception that vtcore raises on purpose.

    VtcoreError
    ├── ArgumentError (ValueError)       an option, a sampling parameter or an op's argument is wrong
    │   ├── OpError                      an op was called with shapes, dtypes or values that it doesn't take
    │   ├── RecordingError               a recording of answers is malformed, or not what it says it is
    │   └── PromptError                  a prompt is empty, too long, or holds ids outside the vocabulary
    ├── CheckpointError                  a file that a model is read from is malformed or incomplete
    │   ├── GGUFError
    │   ├── SafetensorsError
    │   ├── ConfigError                  config.json, or GGUF metadata, or a number in them
    │   │   └── UnknownArchitectureError
    │   ├── TensorNamesError             tensors are missing or unexpected: all of them at once
    │   └── TokenizerError
    ├── EngineDeadError                  the engine's process has died, and the next one is not ready
    ├── NotANumberError                  a model's logits are NaN: a weight is, or a kernel computes wrongly
    ├── TemplateError                    a chat template doesn't parse, raises, or goes over its budget
    ├── ModelNotFoundError               no such directory, file, catalogue name or hub repository
    ├── ProviderError
    │   ├── ProviderUnavailableError     it can't work here, and why
    │   ├── KernelBuildError             a kernel's text doesn't compile for a device; the op runs elsewhere
    │   ├── LibraryError                 a vendor's library refuses a call; a kernel of our own runs
    │   └── DeclinedError                strict: an op would have fallen back
    ├── QueueFullError                   as many requests wait as may
    └── OutOfMemoryError                 the sum of what a model needs is over what it may have

A message names the thing, its value, what is allowed, and the way out.
"""

from collections.abc import Iterable

LONGEST = 80  # characters of a name that is compared with others


class VtcoreError(Exception):
    """The base of all of them."""


class ArgumentError(VtcoreError, ValueError):
    """A value that a caller gave is not allowed."""


class OpError(ArgumentError):
    """An op was called with shapes, dtypes or values that it doesn't take."""


class RecordingError(ArgumentError):
    """A recording of a model's answers is no such file, is malformed, or was changed since it was written."""


class PromptError(ArgumentError):
    """A prompt can't be run: empty, longer than the context, or with ids outside the vocabulary."""


class CheckpointError(VtcoreError):
    """A file that a model is read from is malformed or incomplete."""


class GGUFError(CheckpointError):
    """A GGUF file breaks its format."""


class SafetensorsError(CheckpointError):
    """A safetensors file or its index breaks the format."""


class ConfigError(CheckpointError):
    """A config.json or GGUF metadata lacks a number or holds an impossible one."""


class UnknownArchitectureError(ConfigError):
    """No registered model has this architecture's name."""


class TensorNamesError(CheckpointError):
    """A checkpoint lacks tensors that the forward reads, or holds some that nothing reads."""


class TokenizerError(CheckpointError):
    """A tokenizer file or a GGUF vocabulary can't be read."""


class EngineDeadError(VtcoreError):
    """There is no engine to take a request: its process has died, and another one is not ready yet."""


class NotANumberError(VtcoreError):
    """A model's logits are NaN, so that no token can be chosen: a weight is, or a kernel computes wrongly."""


class TemplateError(VtcoreError):
    """A chat template doesn't parse, raised an error of its own, or went over its budget."""


class ModelNotFoundError(VtcoreError):
    """There is no such directory, file, catalogue name or hub repository."""


class ProviderError(VtcoreError):
    """Something about a provider."""


class ProviderUnavailableError(ProviderError):
    """A provider can't work on this machine; the message says why."""


class KernelBuildError(ProviderError):
    """A kernel can't be built for a device: its name, and what the compiler or the driver says."""


class LibraryError(ProviderError):
    """A function of a vendor's library gave a status that is no success: its name, the shapes, the status."""


class DeclinedError(ProviderError):
    """Under strict, an op that no wanted provider would run."""


class QueueFullError(VtcoreError):
    """As many requests wait as may: this one is not taken, and may be tried again."""


class OutOfMemoryError(VtcoreError):
    """The sum of what a model needs is over what it may have."""


def nearest(name: object, known: Iterable[str]) -> str:
    """For a message about a name that there isn't: the known one that was probably meant, or nothing where none is like it."""
    import difflib

    names = {n.lower(): n for n in known}
    return "".join(f" (nearest: {names[n]})" for n in difflib.get_close_matches(str(name)[:LONGEST].lower(), names, 1))
