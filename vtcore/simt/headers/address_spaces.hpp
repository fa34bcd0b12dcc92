// For clang's -fsyntax-only: Metal's address spaces as clang's, so that a text that mixes them up, or leaves one out, is an error.
#pragma once
typedef unsigned int uint;
typedef unsigned char uchar;
typedef unsigned short ushort;
#define kernel __attribute__((used))
#define device __attribute__((address_space(1)))
#define constant const __attribute__((address_space(2)))
#define threadgroup static __attribute__((address_space(3)))
#define threadgroup_pointer __attribute__((address_space(3)))
#define thread
struct half { ushort bits; half(float); operator float() const; };
namespace metal {
struct uint3 { uint x, y, z; };
template <class T, class U> inline T as_type(U u) { return __builtin_bit_cast(T, u); }
enum class mem_flags { mem_none, mem_threadgroup, mem_device };
void threadgroup_barrier(mem_flags);
float simd_sum(float);
float simd_max(float);
float max(float, float); uint max(uint, uint); int max(int, int);
float min(float, float); uint min(uint, uint); int min(int, int);
float rsqrt(float); float sqrt(float); float exp(float); float log(float); float sin(float); float cos(float); float tanh(float);
float pow(float, float); float floor(float); float fabs(float); float rint(float); float fma(float, float, float);
}
