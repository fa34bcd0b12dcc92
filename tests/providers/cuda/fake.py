"""A stand-in for cuda-python's driver module: memory is the host's, and a module's image is the kernel's text, run as fibers."""

import ctypes
from collections import Counter
from functools import partial
from types import SimpleNamespace

from vtcore.simt.program import Layout, Program, Settings, Text


class Status(int):
    @property
    def name(self):
        return {0: "CUDA_SUCCESS", 2: "CUDA_ERROR_OUT_OF_MEMORY", 209: "CUDA_ERROR_NO_BINARY_FOR_GPU", 700: "CUDA_ERROR_ILLEGAL_ADDRESS"}[
            int(self)
        ]


GOOD, FULL, NO_BINARY, ILLEGAL = Status(0), Status(2), Status(209), Status(700)
STREAM = 7
# what is made, and by what it is given back
MADE = {
    "cuDevicePrimaryCtxRetain": "context", "cuStreamCreate": "stream", "cuMemAlloc": "memory", "cuMemHostAlloc": "pinned memory",
    "cuEventCreate": "event", "cuModuleLoadData": "module", "cuStreamEndCapture": "graph", "cuGraphInstantiate": "executable",
}  # fmt: skip
GIVEN_BACK = {
    "cuDevicePrimaryCtxRelease": "context", "cuStreamDestroy": "stream", "cuMemFree": "memory", "cuMemFreeHost": "pinned memory",
    "cuEventDestroy": "event", "cuModuleUnload": "module", "cuGraphDestroy": "graph", "cuGraphExecDestroy": "executable",
}  # fmt: skip


class FakeDriver:
    CUdevice_attribute = int
    CUstreamCaptureMode = int

    def __init__(self, memory=1 << 30, devices=("Device A", "Device B")):
        self.memory, self.devices, self.blocks, self.calls = memory, devices, {}, []
        self.captured = None
        self.failing = {}
        self.held = Counter()  # by kind, what was made and not given back

    def __getattribute__(self, name):
        found = object.__getattribute__(self, name)
        if not name.startswith("cu"):
            return found

        def called(*args):
            self.calls.append(name)
            if name in self.failing:
                return (self.failing[name],)
            assert self.held["context"] or name not in {**MADE, **GIVEN_BACK} or "Ctx" in name, f"{name} without a context"
            result = found(*args)
            if not result[0]:
                self.held[MADE.get(name)] += 1
                self.held[GIVEN_BACK.get(name)] -= 1
                self.held.pop(None, 0)
            return result

        return called

    def cuInit(self, flags):
        return (GOOD,)

    def cuDeviceGetCount(self):
        return GOOD, len(self.devices)

    def cuDeviceGet(self, number):
        return GOOD, number

    def cuDeviceGetName(self, length, device):
        return GOOD, self.devices[device].encode().ljust(length, b"\0")

    def cuDeviceGetAttribute(self, attribute, device):
        return GOOD, {75: 9, 76: 0}[attribute]

    def cuDevicePrimaryCtxRetain(self, device):
        return GOOD, f"context of device {device}"

    def _done(self, *args):
        return (GOOD,)

    cuDevicePrimaryCtxRelease = cuCtxSetCurrent = cuStreamDestroy = cuMemFreeHost = cuEventDestroy = cuModuleUnload = _done

    def cuStreamCreate(self, flags):
        return GOOD, STREAM

    def cuStreamSynchronize(self, stream):
        return (GOOD,)

    def cuMemGetInfo(self):
        return GOOD, self.memory - sum(map(len, self.blocks.values())), self.memory

    def cuMemAlloc(self, size):
        if size > self.memory - sum(map(len, self.blocks.values())):
            return (FULL, 0)
        whole = (ctypes.c_uint8 * (size + 256))()
        block = (ctypes.c_uint8 * size).from_buffer(whole, -ctypes.addressof(whole) % 256)  # aligned as the driver's are
        self.blocks[ctypes.addressof(block)] = block
        return GOOD, ctypes.addressof(block)

    def cuMemFree(self, address):
        del self.blocks[address]
        return (GOOD,)

    def cuMemHostAlloc(self, size, flags):
        self.pinned = (ctypes.c_uint8 * size)()
        return GOOD, ctypes.addressof(self.pinned)

    def cuMemsetD8Async(self, address, value, size, stream):
        ctypes.memset(address, value, size)
        return (GOOD,)

    def _copy(self, to, source, size, stream):
        ctypes.memmove(to, source, size)
        return (GOOD,)

    cuMemcpyHtoDAsync = cuMemcpyDtoHAsync = cuMemcpyDtoDAsync = _copy

    def cuEventCreate(self, flags):
        return GOOD, "event"

    def cuEventRecord(self, event, stream):
        return (GOOD,)

    def cuEventSynchronize(self, event):
        return (GOOD,)

    def cuModuleLoadData(self, image):
        return GOOD, Program([Text(image.decode(), "cuda")])

    def cuModuleGetFunction(self, program, name):
        return GOOD, SimpleNamespace(program=program, name=name.decode())

    def cuLaunchKernel(self, function, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra):
        self.enqueue(partial(self._run, function, gx, gy, gz, bx, by, bz, self._arguments(function, arguments)))
        return (GOOD,)

    def enqueue(self, work):
        """Do it at once, or note it where the stream is captured."""
        if self.captured is None:
            work()
        else:
            self.captured.append(work)

    def _arguments(self, function, arguments):
        """The driver copies them when a launch is enqueued or captured."""
        signature, _ = function.program.kernels[function.name]
        n, layout = len(signature.buffers), Layout(signature)
        at = (ctypes.c_void_p * len(signature.parameters)).from_address(arguments)
        buffers = [ctypes.c_uint64.from_address(a).value for a in at[:n]]
        values = b"".join(ctypes.string_at(a, 4) for a in at[n:])
        assert len(values) == layout.nbytes
        return buffers, values

    def _run(self, function, gx, gy, gz, bx, by, bz, arguments):
        _, text = function.program.kernels[function.name]
        settings = Settings((gx, gy, gz), (bx, by, bz), 0, 0, 0xFFFFFFFF, int(text.waits), 32, 0)
        assert function.program.launch(function.name, *arguments, settings) is None

    def cuStreamBeginCapture(self, stream, mode):
        self.captured = []
        return (GOOD,)

    def cuStreamEndCapture(self, stream):
        graph, self.captured = self.captured, None
        return GOOD, graph

    def cuGraphInstantiate(self, graph, flags):
        return GOOD, graph

    def cuGraphDestroy(self, graph):
        return (GOOD,)

    def cuGraphExecDestroy(self, graph):
        return (GOOD,)

    def cuGraphLaunch(self, graph, stream):
        for work in graph:
            work()
        return (GOOD,)
