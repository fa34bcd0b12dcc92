"""Kernels in CUDA C++, Metal or OpenCL C on the processor: work items as fibers, to find what a device would hide."""
