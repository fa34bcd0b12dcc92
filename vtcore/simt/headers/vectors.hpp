// Vectors of two and four numbers, as the three languages have them: elements by letter, arithmetic by element.
#pragma once
namespace vt {
template <class T> struct vec2 {
    T x, y;
    vec2() = default;
    vec2(T a) : x(a), y(a) {}
    vec2(T a, T b) : x(a), y(b) {}
};
template <class T> struct vec4 {
    T x, y, z, w;
    vec4() = default;
    vec4(T a) : x(a), y(a), z(a), w(a) {}
    vec4(T a, T b, T c, T d) : x(a), y(b), z(c), w(d) {}
};
#define VT_OPERATOR(o) \
    template <class T> inline vec2<T> operator o(vec2<T> a, vec2<T> b) { return {a.x o b.x, a.y o b.y}; } \
    template <class T> inline vec2<T> operator o(vec2<T> a, T b) { return {a.x o b, a.y o b}; } \
    template <class T> inline vec2<T>& operator o##=(vec2<T>& a, vec2<T> b) { return a = a o b; } \
    template <class T> inline vec4<T> operator o(vec4<T> a, vec4<T> b) { return {a.x o b.x, a.y o b.y, a.z o b.z, a.w o b.w}; } \
    template <class T> inline vec4<T> operator o(vec4<T> a, T b) { return {a.x o b, a.y o b, a.z o b, a.w o b}; } \
    template <class T> inline vec4<T>& operator o##=(vec4<T>& a, vec4<T> b) { return a = a o b; }
VT_OPERATOR(+)
VT_OPERATOR(-)
VT_OPERATOR(*)
VT_OPERATOR(/)
#undef VT_OPERATOR
inline float dot(vec2<float> a, vec2<float> b) { return a.x * b.x + a.y * b.y; }
inline float dot(vec4<float> a, vec4<float> b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
inline float widen(uint h) {
    uint sign = (h & 0x8000u) << 16, e = h >> 10 & 31u, m = h & 1023u, u = sign | (e + 112u) << 23 | m << 13;
    if (e == 0u) return ldexpf(sign ? -(float)m : (float)m, -24);
    if (e == 31u) u = sign | 0x7f800000u | m << 13;
    float f;
    memcpy(&f, &u, 4);
    return f;
}
inline ushort narrow(float f) {  // half to even: below 2^-14 in steps of 2^-24
    uint u;
    memcpy(&u, &f, 4);
    uint sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return (ushort)(sign | 0x7e00u);
    if (a >= 0x477ff000u) return (ushort)(sign | 0x7c00u);
    if (a < 0x38800000u) return (ushort)(sign | (uint)nearbyintf(ldexpf(fabsf(f), 24)));
    return (ushort)(sign | (a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13);
}
struct half {
    ushort bits;
    half() = default;
    half(float f) : bits(narrow(f)) {}
    operator float() const { return widen(bits); }
};
}
typedef vt::vec2<float> float2;
typedef vt::vec4<float> float4;
typedef vt::vec2<int> int2;
typedef vt::vec4<int> int4;
typedef vt::vec2<uint> uint2;
typedef vt::vec4<uint> uint4;
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint2 make_uint2(uint x, uint y) { return {x, y}; }
inline uint4 make_uint4(uint x, uint y, uint z, uint w) { return {x, y, z, w}; }
