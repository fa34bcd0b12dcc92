// What an OpenCL C kernel's text needs to be C++: the words of the language, work items, barriers, functions by their names there.
#pragma once
#include "simt.hpp"
#include "vectors.hpp"
#define __kernel static
#define kernel static
#define __global
#define global
#define __constant const
#define constant const
#define __private
#define __local VT_SHARED
#define local VT_SHARED
#define local_pointer
#define restrict
#define read_only
using vt::half;
using vt::dot;
enum { CLK_LOCAL_MEM_FENCE = 1, CLK_GLOBAL_MEM_FENCE = 2 };
#define barrier(...) vt::barrier(__LINE__)
#define work_group_barrier(...) vt::barrier(__LINE__)
#define cl_khr_subgroups 1
#define sub_group_barrier(...) vt::subgroup(__LINE__)
#define mem_fence(...) ((void)0)
#define sub_group_reduce_add(v) vt::combine(v, [](auto a, auto b) { return a + b; }, __LINE__)
#define sub_group_reduce_max(v) vt::combine(v, [](auto a, auto b) { return max(a, b); }, __LINE__)
#define sub_group_reduce_min(v) vt::combine(v, [](auto a, auto b) { return min(a, b); }, __LINE__)
#define sub_group_broadcast(v, from) vt::exchange(v, vt::first() + (uint)(from), __LINE__)
#define sub_group_shuffle_xor(v, o) vt::exchange(v, vt::lane ^ (uint)(o), __LINE__)
inline uint vt_axis(const vt::uint3& v, uint a) { return a == 0 ? v.x : a == 1 ? v.y : a == 2 ? v.z : 0; }
inline size_t get_group_id(uint a) { return vt_axis(vt::group, a); }
inline size_t get_local_id(uint a) { return vt_axis(vt::tid, a); }
inline size_t get_local_size(uint a) { return a < 3 ? vt_axis(vt::size, a) : 1; }
inline size_t get_num_groups(uint a) { return a < 3 ? vt_axis(vt::grid, a) : 1; }
inline size_t get_global_id(uint a) { return get_group_id(a) * get_local_size(a) + get_local_id(a); }
inline size_t get_global_size(uint a) { return get_num_groups(a) * get_local_size(a); }
inline uint get_sub_group_size() { return vt::last() - vt::first(); }
inline uint get_sub_group_local_id() { return vt::lane - vt::first(); }
inline uint get_sub_group_id() { return vt::lane / vt::width; }
inline uint get_num_sub_groups() { return (vt::items + vt::width - 1) / vt::width; }
template <class T, class U> inline T vt_bits(U u) { static_assert(sizeof(T) == sizeof(U), "as_type keeps the size"); T t; memcpy(&t, &u, sizeof t); return t; }
#define as_float(x) vt_bits<float>(x)
#define as_uint(x) vt_bits<uint>(x)
#define as_int(x) vt_bits<int>(x)
#define convert_float(x) ((float)(x))
#define convert_int(x) ((int)(x))
#define convert_uint(x) ((uint)(x))
#define vload_half(i, p) ((float)(p)[i])
#define vstore_half(v, i, p) ((p)[i] = half(v))
#define vload4(i, p) make_float4((p)[4 * (i)], (p)[4 * (i) + 1], (p)[4 * (i) + 2], (p)[4 * (i) + 3])
#define native_exp(x) expf(x)
#define native_log(x) logf(x)
#define native_sqrt(x) sqrtf(x)
#define native_recip(x) (1.0f / (x))
#define native_divide(x, y) ((x) / (y))
inline float rsqrt(float x) { return 1.0f / sqrtf(x); }
inline float mad(float a, float b, float c) { return a * b + c; }
inline float clamp(float v, float a, float b) { return fminf(fmaxf(v, a), b); }
inline uint popcount(uint x) { return (uint)__builtin_popcount(x); }
template <class T> inline T atomic_add(T* p, T v) { T before = *p; *p += v; return before; }
template <class T> inline T atomic_inc(T* p) { return (*p)++; }
template <class T> inline T atomic_max(T* p, T v) { T before = *p; if (v > before) *p = v; return before; }
template <class T> inline T atomic_min(T* p, T v) { T before = *p; if (v < before) *p = v; return before; }
