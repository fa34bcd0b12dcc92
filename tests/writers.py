"""Write small GGUF and safetensors files, good ones and broken ones. Shares no code with the readers.

GGUF: `write_gguf(path, metadata, tensors)`. A metadata value is a bool, int, float, str, or a list of one of them, and gets the kind that
common writers give it (uint32 or int32, float32); `Typed("u64", 5)` and `Typed("[i32]", [8, 1])` choose another. A tensor is a NumPy array
(outermost axis first, as in torch) or `Quantised(shape, ggml_type, raw)`, or just the tuple of the three.
Safetensors: `write_safetensors(path, tensors)`, `write_sharded(directory, [tensors, tensors])`.
For broken files: `gguf_bytes` takes every field of the file apart, `safetensors_bytes` any header."""

import json
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

KINDS = {k: i for i, k in enumerate(["u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "str", "array", "u64", "i64", "f64"])}
CODES = {"u8": "B", "i8": "b", "u16": "H", "i16": "h", "u32": "I", "i32": "i", "f32": "f", "bool": "B", "u64": "Q", "i64": "q", "f64": "d"}
GGML_DENSE = {"float32": 0, "float16": 1, "int8": 24, "int16": 25, "int32": 26, "int64": 27, "float64": 28, "bfloat16": 30}
SAFETENSORS = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
}  # fmt: skip


class Typed(NamedTuple):
    """A metadata value of a chosen kind: a key of KINDS, or "[kind]" for an array."""

    kind: str
    value: Any


class Quantised(NamedTuple):
    """A tensor of ggml blocks: shape of the values (outermost first), type id, the blocks' bytes."""

    shape: tuple[int, ...]
    ggml_type: int
    raw: bytes | np.ndarray


class Info(NamedTuple):
    """One entry of a GGUF file's tensor list, as it stands there: dims fastest first. n_dims=None: as many as dims."""

    name: str | bytes
    dims: tuple[int, ...]
    ggml_type: int
    offset: int
    n_dims: int | None = None


def guess(value: Any) -> str:
    """The kind that common writers give a Python value."""
    if isinstance(value, (list, tuple, np.ndarray)):
        kinds = {guess(v) for v in value}
        return f"[{kinds.pop() if len(kinds) == 1 else 'i32' if kinds <= {'u32', 'i32'} and kinds else 'f32'}]"
    if isinstance(value, (bool, np.bool_)):
        return "bool"
    if isinstance(value, (int, np.integer)):
        return "i32" if value < 0 else "u32" if value < 2**32 else "u64"
    return "f32" if isinstance(value, (float, np.floating)) else "str"


def gguf_string(text: str | bytes, order: str = "<") -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack(order + "Q", len(raw)) + raw


def gguf_value(kind: str, value: Any, order: str = "<") -> bytes:
    """A value without its type id; an array with its items' type id and count."""
    if kind.startswith("["):
        items = b"".join(gguf_value(kind[1:-1], v, order) for v in value)
        return struct.pack(order + "IQ", KINDS["array" if kind[1] == "[" else kind[1:-1]], len(value)) + items
    return gguf_string(value, order) if kind == "str" else struct.pack(order + CODES[kind], value)


def gguf_entry(key: str | bytes, value: Any, order: str = "<") -> bytes:
    kind, value = value if isinstance(value, Typed) else (guess(value), value)
    return gguf_string(key, order) + struct.pack(order + "I", KINDS["array" if kind[0] == "[" else kind]) + gguf_value(kind, value, order)


def gguf_info(info: Info, order: str = "<") -> bytes:
    n_dims = len(info.dims) if info.n_dims is None else info.n_dims
    dims = struct.pack(f"{order}I{len(info.dims)}Q", n_dims, *info.dims)
    return gguf_string(info.name, order) + dims + struct.pack(order + "IQ", info.ggml_type, info.offset)


def gguf_bytes(
    entries: list[tuple[str | bytes, Any]],
    infos: list[Info],
    data: bytes = b"",
    *,
    version: int = 3,
    alignment: int = 32,
    order: str = "<",
    n_tensors: int | None = None,
    n_entries: int | None = None,
) -> bytes:
    """A whole file from its parts; nothing is checked, entries and names may repeat, counts may lie."""
    counts = (len(infos) if n_tensors is None else n_tensors, len(entries) if n_entries is None else n_entries)
    head = b"GGUF" + struct.pack(order + "IQQ", version, *counts)
    head += b"".join(gguf_entry(k, v, order) for k, v in entries) + b"".join(gguf_info(i, order) for i in infos)
    return head + b"\0" * (-len(head) % alignment) + data


def as_quantised(tensor: Any) -> Quantised:
    if isinstance(tensor, np.ndarray):
        return Quantised(tensor.shape, GGML_DENSE[tensor.dtype.name], np.ascontiguousarray(tensor).tobytes())
    shape, ggml_type, raw = tensor
    return Quantised(tuple(shape), int(ggml_type), raw if isinstance(raw, bytes) else np.ascontiguousarray(raw).tobytes())


def write_gguf(path: Path, metadata: dict[str, Any], tensors: dict[str, Any] | None = None, *, version: int = 3) -> Path:
    """A well-formed file; `general.alignment` in the metadata is obeyed."""
    alignment = metadata.get("general.alignment", 32)
    alignment = alignment.value if isinstance(alignment, Typed) else alignment
    infos, data = [], b""
    for name, tensor in (tensors or {}).items():
        shape, ggml_type, raw = as_quantised(tensor)
        infos.append(Info(name, tuple(reversed(shape)), ggml_type, len(data)))
        data += bytes(raw) + b"\0" * (-len(raw) % alignment)
    path.write_bytes(gguf_bytes(list(metadata.items()), infos, data, version=version, alignment=alignment))
    return path


def safetensors_bytes(header: Any, data: bytes = b"") -> bytes:
    """A file with this header (an object, or text or bytes as they are) and this data; nothing is checked."""
    raw = header if isinstance(header, bytes) else header.encode() if isinstance(header, str) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + data


def write_safetensors(path: Path, tensors: dict[str, np.ndarray], metadata: dict[str, str] | None = None) -> Path:
    """A well-formed file, its header padded to 8 bytes as common writers do."""
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    data = b""
    for name, array in tensors.items():
        raw = np.ascontiguousarray(array).tobytes()
        header[name] = {
            "dtype": SAFETENSORS[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header)
    path.write_bytes(safetensors_bytes(text + " " * (-len(text.encode()) % 8), data))
    return path


def write_sharded(directory: Path, shards: list[dict[str, np.ndarray]]) -> Path:
    """model-0000i-of-0000n.safetensors and their index."""
    weight_map: dict[str, str] = {}
    for i, tensors in enumerate(shards, 1):
        file = f"model-{i:05d}-of-{len(shards):05d}.safetensors"
        write_safetensors(directory / file, tensors)
        weight_map |= dict.fromkeys(tensors, file)
    index = directory / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": sum(a.nbytes for t in shards for a in t.values())}, "weight_map": weight_map}))
    return index
