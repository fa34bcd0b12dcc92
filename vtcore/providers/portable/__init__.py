"""The portable provider: kernels generated as LLVM IR for this CPU's instruction set, run by a persistent team of threads.

value.py lanes.py emit.py maths.py   how kernels are written: values with operators, loops from `for` and `with`, registers of any width
isa.py                               what differs between instruction sets
jit.py object_cache.py               emitter -> object code -> address, kept on disk
cpus.py parking.py team.py launch.py how kernels run
arrays.py panels.py formats/         how tensors become what kernels read: contiguous rows, repacked weights, one file a block format
kernels/                             the kernels, one file a family of ops"""

from vtcore.providers.portable.provider import Portable, make

__all__ = ["Portable", "make"]
