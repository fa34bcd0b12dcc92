"""Models of the Hugging Face hub: `hf:org/repo` takes the safetensors checkpoint, `hf:org/repo:file` one GGUF file."""

from __future__ import annotations

import re
from pathlib import Path

from vtcore.errors import ArgumentError, ModelNotFoundError, VtcoreError

WANTED = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.tiktoken", "*.txt"]
UNWANTED = ["*/*"]  # copies in other formats lie in folders
FORM = re.compile(r"hf:(?P<repo>[\w.-]+/[\w.-]+)(?::(?P<file>[^:]+))?$")
SPLIT = re.compile(r"-\d{5}-of-(\d{5})\.gguf$")


def from_hub(model: str) -> Path:
    """The local path of `hf:org/repo[:file]`; huggingface_hub keeps the files in its own cache.

    Raises ArgumentError for another spelling, ModelNotFoundError where the hub or the files can't be reached."""
    match = FORM.match(model)
    if match is None or ".." in (match["file"] or "").split("/"):
        raise ArgumentError(f"model {model!r} is not hf:org/repo or hf:org/repo:file")
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return _one_file(match["repo"], match["file"]) if match["file"] else _snapshot(match["repo"])
    except VtcoreError:
        raise
    except (HfHubHTTPError, OSError, ValueError) as wrong:
        reason = next(iter(str(wrong).strip().splitlines()), type(wrong).__name__)
        raise ModelNotFoundError(f"model {model!r} can't be fetched from the hub: {reason}") from None


def _snapshot(repo: str) -> Path:
    from huggingface_hub import snapshot_download

    path = Path(snapshot_download(repo, allow_patterns=WANTED, ignore_patterns=UNWANTED))
    if not any(path.glob("*.safetensors")):
        raise ModelNotFoundError(
            f"hub repository {repo!r} has no *.safetensors at its top; name one of its GGUF files as hf:{repo}:file.gguf"
        )
    return path


def _one_file(repo: str, file: str) -> Path:
    from huggingface_hub import hf_hub_download

    if not file.endswith(".gguf"):
        raise ArgumentError(f"hf:{repo}:{file} is not a .gguf file; a safetensors checkpoint is taken whole, as hf:{repo}")
    paths = [Path(hf_hub_download(repo, part)) for part in _parts(file)]
    return paths[0]


def _parts(file: str) -> list[str]:
    """All files of a GGUF that was split, the first one first."""
    match = SPLIT.search(file)
    if match is None:
        return [file]
    stem, count = file[: match.start()], int(match[1])
    return [f"{stem}-{i:05d}-of-{count:05d}.gguf" for i in range(1, count + 1)]
