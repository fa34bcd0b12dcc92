"""The OpenCL provider: pyopencl over whatever devices the system's drivers show."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np

from vtcore.errors import KernelBuildError, OutOfMemoryError, ProviderError, ProviderUnavailableError
from vtcore.memory import HOST, UNSEEN, Array, Held, references
from vtcore.providers import ProviderOptions
from vtcore.providers.gpu.device import FORKED, Device, Limits, Values
from vtcore.providers.gpu.provider import Accelerator
from vtcore.providers.kernels.declare import Kernel
from vtcore.providers.kernels.targets import opencl as target
from vtcore.providers.kernels.targets.common import reduces

try:
    import pyopencl as cl
except ImportError as error:
    raise ProviderUnavailableError(f"opencl: the package pyopencl can't be imported ({error}); pip install 'vtcore[opencl]'") from error

TYPES = {"u32": np.uint32, "i32": np.int32, "f32": np.float32}
CHOICE = "VTCORE_OPENCL_DEVICE"  # a part of a device's or a platform's name
OLDEST = (1, 2)  # filling buffers, and correctly rounded quotients
WAITS = 1 << 20  # bytes of an upload that the host waits for
LOG = 1000  # characters of a driver's log that an error shows
SUBGROUPS = frozenset(("cl_khr_subgroups", "cl_intel_subgroups"))
WORD = 4  # bytes: kernels read quantised blocks by words
OPENED: list[int] = []  # the processes that opened a device, this one and those that it was forked from


class Piece(NamedTuple):
    """A buffer, and the bytes behind it where the host has the same ones."""

    handle: Any
    host: Array | None = None
    adopted: bool = False


class OpenCL(Device):
    """One device, one in-order queue."""

    name = "opencl"

    def __init__(self, device: Any) -> None:
        super().__init__()
        self._process, self._closed = os.getpid(), False
        OPENED.append(self._process)
        self.context = cl.Context([device])
        self.queue = cl.CommandQueue(self.context)
        self._programs: dict[str, Any] = {}
        self._eager: dict[str, Any] = {}
        self._failed: dict[str, str] = {}  # kernels that the driver refused, and why
        self._kept: list[Any] = []  # what the queue may still read
        self.shares = shares(device)
        rounds = device.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
        self.options = ["-cl-fp32-correctly-rounded-divide-sqrt"] if rounds else []
        self.limits = Limits(
            binding=device.max_mem_alloc_size,
            memory=device.global_mem_size,
            local=device.local_mem_size,
            group=device.max_work_group_size,
            subgroups=subgroups(device),
        )
        self.capacity = self.limits.memory or None

    def _make(self, size: int, zero: bool) -> Any:
        self._alive()
        try:
            if self.shares:  # over pages of the host's, which are zeros that nobody has touched
                return self._over(HOST.fresh(size), cl.mem_flags.READ_WRITE)
            piece = Piece(cl.Buffer(self.context, cl.mem_flags.READ_WRITE, size))
        except (cl.Error, MemoryError) as error:
            raise self._full(size, error) from error
        if zero:
            self._zero(piece, size)
        return piece

    def _over(self, host: Array, flags: int) -> Piece:
        return Piece(cl.Buffer(self.context, flags | cl.mem_flags.USE_HOST_PTR, hostbuf=host), host)

    def _zero(self, buffer: Piece, size: int) -> None:
        cl.enqueue_fill_buffer(self.queue, buffer.handle, np.zeros(1, np.uint8), 0, size)

    def view(self, held: Held) -> Array | None:
        host: Array | None = held.buffer.host
        return host

    def adopt(self, host: Array) -> Held | None:
        if not self.shares or not host.nbytes or host.ctypes.data % WORD:
            return None
        flags = cl.mem_flags.READ_WRITE if host.flags.writeable else cl.mem_flags.READ_ONLY
        return Held(self._over(host, flags)._replace(adopted=True), 0, None)

    def release(self, held: Held) -> None:
        """Into the pool; not what was adopted, nor what somebody still looks at: that goes when the queue is done with it."""
        piece: Piece = held.buffer
        if piece.adopted or (piece.host is not None and references(piece.host) > UNSEEN):
            self._kept.append(piece)
            self.lose(held)
        else:
            super().release(held)

    def _unmake(self, buffer: Piece) -> None:
        self._kept.append(buffer)  # the host's bytes behind it may go once the queue is done with them

    def upload(self, held: Held, offset: int, host: Array) -> None:
        small = host.nbytes < WAITS  # what is small is copied, since its owner may write to it before the queue has read it
        if small:
            host = host.copy()
            self._kept.append(host)
        with self._told("an upload"):
            cl.enqueue_copy(self.queue, held.buffer.handle, host, dst_offset=offset, is_blocking=not small)

    def download(self, held: Held, offset: int, host: Array) -> None:
        with self._told("a download"):
            cl.enqueue_copy(self.queue, host, held.buffer.handle, src_offset=offset)
        self._kept.clear()

    def copy(self, held: Held, source: int, target: int, nbytes: int) -> None:
        handle = held.buffer.handle
        with self._told("a copy"):
            cl.enqueue_copy(self.queue, handle, handle, byte_count=nbytes, src_offset=source, dst_offset=target)

    def synchronize(self) -> None:
        with self._told("waiting"):
            self.queue.finish()
        self._kept.clear()

    def bind(self, kernel: Kernel, buffers: Sequence[Any], values: Values, groups: int) -> Any:
        if kernel.name not in self._programs:
            self._programs[kernel.name] = self._build(kernel)
            self._eager[kernel.name] = self._object(kernel)
        # arguments are the state of a kernel object: a recorded launch has one of its own
        bound = self._object(kernel) if self.sink is not None else self._eager[kernel.name]
        bound.set_args(*(b.handle for b in buffers), *values)
        return bound, (groups * kernel.group,), (kernel.group,)

    def _build(self, kernel: Kernel) -> Any:
        if kernel.name not in self._failed:
            try:
                return self._fitting(kernel, self._compiled(kernel))
            except cl.Error as error:
                log = " ".join(str(error).split())[:LOG]
                self._failed[kernel.name] = f"kernel {kernel.name} can't be built for {self.queue.device.name}: {log}"
        raise KernelBuildError(self._failed[kernel.name])

    def _compiled(self, kernel: Kernel) -> Any:
        if self.limits.subgroups and reduces(kernel):
            with suppress(cl.Error):  # a driver may declare subgroups and not compile them: the plain text gives the same within rounding
                options = [*self.options, *standard(self.queue.device)]
                return cl.Program(self.context, target.source(kernel, subgroups=True)).build(options)
        return cl.Program(self.context, target.source(kernel)).build(self.options)

    def _fitting(self, kernel: Kernel, program: Any) -> Any:
        """The program, if the device has the registers for groups as large as the kernel's."""
        size, device = cl.kernel_work_group_info.WORK_GROUP_SIZE, self.queue.device
        made: Any = cl.Kernel(program, kernel.name)
        most: int = made.get_work_group_info(size, device)
        if most < kernel.group:
            why = f"its groups have {kernel.group} work items, of which the device holds {most}"
            self._failed[kernel.name] = f"kernel {kernel.name} can't be run on {device.name}: {why}"
            raise KernelBuildError(self._failed[kernel.name])
        return program

    def _object(self, kernel: Kernel) -> Any:
        made = cl.Kernel(self._programs[kernel.name], kernel.name)
        made.set_scalar_arg_dtypes([None] * len(kernel.buffers) + [TYPES[s.dtype] for s in kernel.parameters])
        return made

    def _alive(self) -> None:
        if self._closed:
            raise ProviderError(f"opencl: {self.queue.device.name} was closed, and what it held is gone: load the model again")
        if self._process != os.getpid():
            raise ProviderError(f"opencl: {self.queue.device.name} {FORKED}")

    def close(self) -> None:
        """Give back kernels, and buffers that nobody has; each of the others goes with whoever has it, and the context with the last."""
        if self._closed or self._process != os.getpid():
            return
        try:
            self.trim()
        finally:
            self._closed = True
            for made in (self._kept, self._eager, self._programs):
                made.clear()

    def enqueue(self, bound: Any) -> None:
        self._alive()
        try:
            cl.enqueue_nd_range_kernel(self.queue, *bound)
        except cl.MemoryError as error:
            raise self._full(0, error) from error
        except cl.Error as error:
            raise ProviderError(f"opencl: {self.queue.device.name} takes no more work: {error}") from error

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """A driver's error in words."""
        self._alive()
        try:
            yield
        except cl.MemoryError as error:
            raise self._full(0, error) from error
        except cl.Error as error:
            raise ProviderError(f"opencl: {what} failed on {self.queue.device.name}: {error}") from error

    def _full(self, size: int, error: Exception) -> OutOfMemoryError:
        more = f"{size:,} bytes more don't fit" if size else "a launch finds no room"
        return OutOfMemoryError(f"opencl: {more}: {self.made:,} of {self.limits.memory:,} bytes are taken ({error})")


def shares(device: Any) -> bool:
    """Whether a buffer over the host's bytes is those bytes, for both and without being mapped: on processors."""
    return bool(device.type & cl.device_type.CPU)


def subgroups(device: Any) -> int:
    """Work items of its subgroups, or the least where it doesn't say; 0 where it has none."""
    if not SUBGROUPS & set(device.extensions.split()):
        return 0
    try:
        return max(1, int(device.max_work_group_size) // int(device.max_num_sub_groups))
    except (cl.Error, ZeroDivisionError):
        return 1


def standard(device: Any) -> list[str]:
    """Options for a compiler that has subgroups: cl_khr_subgroups is none of OpenCL C 1.2's."""
    if "cl_intel_subgroups" in device.extensions.split():
        return []
    return ["-cl-std=CL3.0" if device.version.startswith("OpenCL 3") else "-cl-std=CL2.0"]


def devices() -> list[Any]:
    """All that the drivers show, graphics processors first. Raises ProviderUnavailableError where there is none."""
    found, failed = list[Any](), list[str]()
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:
        raise ProviderUnavailableError(
            f"opencl: no driver works here ({error}): none is installed, or its library can't be loaded (OCL_ICD_VENDORS names the "
            "directory of drivers' .icd files); on Debian, pocl-opencl-icd runs on the processor"
        ) from error
    for platform in platforms:
        try:
            found += platform.get_devices()
        except cl.Error as error:  # one broken driver doesn't hide the others
            failed.append(f"; {platform.name}: {error}")
    if not found:
        raise ProviderUnavailableError(f"opencl: the drivers show no device{''.join(failed)}")
    return sorted(found, key=lambda d: d.type != cl.device_type.GPU)


def choose(found: list[Any], wanted: str) -> Any:
    """The first device whose name, or its platform's, holds `wanted`, and that can run kernels. ProviderUnavailableError for none."""
    named = [d for d in found if wanted.lower() in f"{d.platform.name} {d.name}".lower()]
    if not named:
        shown = "; ".join(f"{d.platform.name} {d.name}" for d in found)
        raise ProviderUnavailableError(f"opencl: {CHOICE} is {wanted!r}, which no device's name holds; there are {shown}")
    lacks = [(d, lacking(d)) for d in named]
    if fit := [d for d, lack in lacks if lack is None]:
        return fit[0]
    raise ProviderUnavailableError(f"opencl: {'; '.join(f'{d.name} {lack}' for d, lack in lacks)}")


def lacking(device: Any) -> str | None:
    """Why a device can't run kernels, or None."""
    version = re.match(r"OpenCL (\d+)\.(\d+)", device.version)
    if version is None or (int(version[1]), int(version[2])) < OLDEST:
        return f"has {device.version.strip() or 'no version'}; from OpenCL {OLDEST[0]}.{OLDEST[1]} on is supported"
    if not device.available:
        return "is not available, its driver says"
    return None if device.compiler_available else "has a driver without a compiler"


def make(options: ProviderOptions) -> Accelerator:
    """A provider over the device that VTCORE_OPENCL_DEVICE names a part of, or the first that can run kernels.

    Raises ProviderUnavailableError, with the reason, where there is none, or where its driver refuses it."""
    if OPENED and OPENED[0] != os.getpid():
        raise ProviderUnavailableError(f"opencl: its driver {FORKED}")
    chosen = choose(devices(), os.environ.get(CHOICE, ""))
    try:
        device = OpenCL(chosen)
    except cl.Error as error:
        raise ProviderUnavailableError(f"opencl: {chosen.name} can't be opened: {error}") from error
    facts = {"device": chosen.name, "driver": f"{chosen.platform.name}, {chosen.version}"}
    return Accelerator("opencl", device, facts)
