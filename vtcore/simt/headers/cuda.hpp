// What a CUDA kernel's text needs to be C++: the words of the language, work items, barriers, shuffles, votes, bits.
#pragma once
#include "simt.hpp"
#include "vectors.hpp"
#define __global__
#define __device__ static
#define __host__
#define __constant__ static const
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __restrict__
#define __shared__ VT_SHARED
#define threadIdx (vt::tid)
#define blockIdx (vt::group)
#define blockDim (vt::size)
#define gridDim (vt::grid)
#define warpSize ((int)vt::width)
typedef vt::uint3 uint3;
typedef vt::uint3 dim3;
#define __syncthreads() vt::barrier(__LINE__)
#define __syncwarp(...) vt::subgroup(__LINE__)
#define __threadfence() ((void)0)
#define __threadfence_block() ((void)0)
#define __shfl_xor_sync(mask, v, o) vt::exchange(v, vt::lane ^ (uint)(o), __LINE__)
#define __shfl_sync(mask, v, from) vt::exchange(v, vt::first() + (uint)(from) % vt::width, __LINE__)
#define __shfl_down_sync(mask, v, o) vt::exchange(v, vt::lane + (uint)(o) < vt::last() ? vt::lane + (uint)(o) : vt::lane, __LINE__)
#define __shfl_up_sync(mask, v, o) vt::exchange(v, vt::lane >= vt::first() + (uint)(o) ? vt::lane - (uint)(o) : vt::lane, __LINE__)
#define __any_sync(mask, p) vt::combine((int)!!(p), [](int a, int b) { return a | b; }, __LINE__)
#define __all_sync(mask, p) vt::combine((int)!!(p), [](int a, int b) { return a & b; }, __LINE__)
#define __ballot_sync(mask, p) vt::combine(!!(p) ? 1u << (vt::lane - vt::first()) : 0u, [](uint a, uint b) { return a | b; }, __LINE__)
inline float __uint_as_float(uint u) { float f; memcpy(&f, &u, 4); return f; }
inline float __int_as_float(int u) { float f; memcpy(&f, &u, 4); return f; }
inline uint __float_as_uint(float f) { uint u; memcpy(&u, &f, 4); return u; }
inline int __float_as_int(float f) { int u; memcpy(&u, &f, 4); return u; }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline int __popc(uint x) { return __builtin_popcount(x); }
inline int __clz(uint x) { return x ? __builtin_clz(x) : 32; }
inline int __ffs(uint x) { return __builtin_ffs((int)x); }
inline int __dp4a(int a, int b, int c) { for (int i = 0; i < 32; i += 8) c += (int)(int8_t)(a >> i) * (int)(int8_t)(b >> i); return c; }
template <class T> inline T __ldg(const T* p) { return *p; }
template <class T> inline T atomicAdd(T* p, T v) { T before = *p; *p += v; return before; }
template <class T> inline T atomicMax(T* p, T v) { T before = *p; if (v > before) *p = v; return before; }
template <class T> inline T atomicMin(T* p, T v) { T before = *p; if (v < before) *p = v; return before; }
template <class T> inline T atomicExch(T* p, T v) { T before = *p; *p = v; return before; }
template <class T> inline T atomicCAS(T* p, T was, T v) { T before = *p; if (before == was) *p = v; return before; }
