"""A stand-in for PyObjC's Metal module: buffers are the host's, a library is a text, and a command buffer runs when it is committed."""

from contextlib import contextmanager

import numpy as np

from vtcore.errors import ProviderError
from vtcore.simt.program import Layout, Program, Settings, Text

COMPLETED, FAILED = 4, 5  # MTLCommandBufferStatus


class Buffer:
    def __init__(self, size):
        self.bytes = np.zeros(size, np.uint8)

    def length(self):
        return len(self.bytes)

    def contents(self):
        return self

    def as_buffer(self, size):
        return memoryview(self.bytes)[:size]


class Options:
    fast = True

    @classmethod
    def alloc(cls):
        return cls()

    def init(self):
        return self

    def setFastMathEnabled_(self, fast):
        self.fast = fast


class Library:
    def __init__(self, source):
        self.program = Program([Text(source, "metal")])

    def newFunctionWithName_(self, name):
        return (self.program, name) if name in self.program.kernels else None


class Pipeline:
    """A kernel that is ready, and how many work items of it a group may have."""

    def __init__(self, function, most):
        self.function, self.most = function, most

    def maxTotalThreadsPerThreadgroup(self):
        return self.most


class Commands:
    """One command buffer, and its one encoder."""

    def __init__(self, device):
        self.device, self.launches, self.encoding, self.ended, self.state = device, [], False, False, 0
        self.pipeline, self.bound, self.packed = None, {}, (b"", -1)
        device.objc.autoreleased(self)

    def __del__(self):
        assert self.ended or not self.encoding, "Metal ends a process that drops an encoder before it has ended"

    def computeCommandEncoder(self):
        self.device.objc.autoreleased(self)
        self.encoding = True
        return self

    def setComputePipelineState_(self, pipeline):
        self.pipeline, self.bound = pipeline, {}

    def setBuffer_offset_atIndex_(self, buffer, offset, index):
        self.bound[index] = buffer.bytes[offset:]

    def setBytes_length_atIndex_(self, packed, size, index):
        self.packed = bytes(packed[:size]), index

    def dispatchThreadgroups_threadsPerThreadgroup_(self, grid, size):
        assert not self.ended, "Metal takes nothing more once encoding has ended"
        (program, name), (packed, at) = self.pipeline.function, self.packed
        signature, _ = program.kernels[name]
        assert sorted(self.bound) == list(range(at)) == list(range(len(signature.buffers)))
        assert len(packed) == Layout(signature).nbytes
        self.launches.append((program, name, [self.bound[i] for i in range(at)], packed, grid, size))

    def endEncoding(self):
        self.ended = True

    def commit(self):
        assert self.ended, "Metal ends a process that commits while it encodes"
        self.device.committed.append(self)
        for launch in [] if self.device.failing else self.launches:
            self._run(*launch)

    def _run(self, program, name, buffers, packed, grid, size):
        _, text = program.kernels[name]
        settings = Settings(grid, size, 0, 0, 0xFFFFFFFF, int(text.waits), 32, 0)
        assert program.launch(name, [b.ctypes.data for b in buffers], packed, settings) is None

    def waitUntilCompleted(self):
        assert self in self.device.committed
        self.state = FAILED if self.device.failing else COMPLETED

    def status(self):
        return self.state

    def error(self):
        return self.device.failing


class FakeObjC:
    """The bridge's pools: what Metal hands out for a moment stays for ever where none is open."""

    def __init__(self):
        self.pools, self.staying = 0, []

    @contextmanager
    def autorelease_pool(self):
        self.pools += 1
        try:
            yield
        finally:
            self.pools -= 1

    def autoreleased(self, thing):
        if not self.pools:
            self.staying.append(thing)


class FakeDevice:
    """`failing`: what each command buffer says from now on; `refusing`, `without`: what the compiler does, and what making a pipeline;
    `most`: work items of a group."""

    most = 1024

    def __init__(self, memory=1 << 30):
        self.memory, self.taken, self.committed, self.compiled = memory, 0, [], []
        self.failing = self.refusing = self.without = None
        self.objc = FakeObjC()

    def name(self):
        return "Apple Nothing"

    def newCommandQueue(self):
        return self

    def commandBuffer(self):
        return Commands(self)

    def maxBufferLength(self):
        return self.memory // 2

    def recommendedMaxWorkingSetSize(self):
        return self.memory

    def maxThreadgroupMemoryLength(self):
        return 32768

    def newBufferWithLength_options_(self, size, options):
        assert options == 0, "the host reads and writes buffers, so they are shared ones"
        if self.taken + size > self.memory:
            return None
        self.taken += size
        return Buffer(size)

    def newLibraryWithSource_options_error_(self, source, options, error):
        assert not options.fast, "fast mathematics would change results"
        self.compiled.append(source)
        if self.refusing:
            return None, self.refusing
        try:
            return Library(source), None
        except ProviderError as wrong:
            return None, wrong

    def newComputePipelineStateWithFunction_error_(self, function, error):
        return (None, self.without) if self.without else (Pipeline(function, self.most), None)


class FakeMetal:
    MTLCompileOptions = Options

    def __init__(self, device=None):
        self.device = device

    def MTLCreateSystemDefaultDevice(self):
        return self.device

    def MTLSizeMake(self, x, y, z):
        return x, y, z
