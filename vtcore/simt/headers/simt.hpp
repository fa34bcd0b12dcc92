// Workgroups on a processor: each work item is a fiber, and a barrier is a switch to the next one. Where no work item waits, a loop.
#pragma once
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
typedef unsigned int uint;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned long ulong;
#define VT_PASTE_(a, b) a##b
#define VT_PASTE(a, b) VT_PASTE_(a, b)
#define VT_TEXT_(a) #a
#define VT_TEXT(a) VT_TEXT_(a)
// what a group shares lies in a section of the kernel's own, so that it can be filled before each group
#ifdef __ELF__
#define VT_SHARED static __attribute__((section(VT_TEXT(VT_SECTION))))
#else
#define VT_SHARED static
#endif
namespace vt {
struct uint3 { uint x, y, z; };
enum State { READY, AT_GROUP, AT_SUBGROUP, DONE };
// what a launch is told, by the same words as in vtcore/simt/launch.py
struct Settings { uint grid[3], size[3]; uint order, seed, poison, waits, subgroup, room; };
struct Fiber { jmp_buf at; ucontext_t first; State state; uint line; bool begun; };
static const size_t STACK = 256 * 1024;
static jmp_buf scheduler;
static Fiber* fibers;
static char* stacks;
static uint made, lane, items, width;
static uint3 tid, group, size, grid;
static void** buffers;
static const char* values;
static char* room;  // shared memory whose size the launch says
static void (*body)();
static char wrong[400];
static float words[1024];

__attribute__((noinline)) static void park(State state, uint line) {
    Fiber& f = fibers[lane];
    f.state = state, f.line = line;
    if (!_setjmp(f.at)) _longjmp(scheduler, 1);
}
static void entry() { for (;;) { body(); park(DONE, 0); } }
static void place(uint i) { lane = i; tid = {i % size.x, i / size.x % size.y, i / (size.x * size.y)}; }
__attribute__((noinline)) static void resume(uint i) {
    Fiber& f = fibers[i];
    place(i);
    if (_setjmp(scheduler)) return;
    if (f.begun) _longjmp(f.at, 1);
    f.begun = true;
    setcontext(&f.first);
}
inline void barrier(uint line) { park(AT_GROUP, line); }
inline void subgroup(uint line) { park(AT_SUBGROUP, line); }
template <class T> inline T exchange(T v, uint from, uint line) {  // a subgroup's value at another work item
    static_assert(sizeof(T) == 4, "subgroups exchange 32 bits");
    memcpy(&words[lane], &v, 4);
    subgroup(line);
    T r;
    memcpy(&r, &words[from < items ? from : lane], 4);
    subgroup(line);
    return r;
}
inline uint first() { return lane / width * width; }
inline uint last() { return first() + width < items ? first() + width : items; }
template <class T, class F> inline T combine(T v, F f, uint line) {
    memcpy(&words[lane], &v, 4);
    subgroup(line);
    T r, next;
    memcpy(&r, &words[first()], 4);
    for (uint i = first() + 1; i < last(); i++) { memcpy(&next, &words[i], 4); r = f(r, next); }
    subgroup(line);
    return r;
}

static bool prepare() {
    if (made < items) {
        free(fibers), free(stacks);
        fibers = (Fiber*)calloc(items, sizeof(Fiber)), stacks = (char*)malloc(items * STACK);
        made = fibers && stacks ? items : 0;
    }
    if (!made) return false;
    for (uint i = 0; i < items; i++) {
        Fiber& f = fibers[i];
        getcontext(&f.first);
        f.first.uc_stack.ss_sp = stacks + i * STACK, f.first.uc_stack.ss_size = STACK, f.first.uc_link = nullptr;
        makecontext(&f.first, entry, 0);
        f.begun = false;
    }
    return true;
}
static bool partly(const char* what, uint waiting, uint other) {
    int n = snprintf(wrong, sizeof wrong, "%s: in group %u,%u,%u work item %u waits at line %u, and work item %u ", what, group.x, group.y, group.z,
                     waiting, fibers[waiting].line, other);
    const char* rest = fibers[other].state == DONE ? "has ended" : "is at line %u";
    snprintf(wrong + n, sizeof wrong - n, rest, fibers[other].line);
    return false;
}
static bool subgroups(bool& any) {
    any = false;
    for (uint w = 0; w < items; w += width) {
        uint end = w + width < items ? w + width : items, waiting = end, other = end;
        for (uint i = w; i < end; i++) {
            if (fibers[i].state != AT_SUBGROUP) other = i;
            else if (waiting < end && fibers[i].line != fibers[waiting].line) other = i;
            else waiting = i;
        }
        if (waiting == end) continue;
        if (other < end) return partly("a subgroup operation is reached by only a part of the subgroup", waiting, other);
        any = true;
        for (uint i = w; i < end; i++) fibers[i].state = READY;
    }
    return true;
}
static bool groups(bool& all) {
    uint done = 0, waiting = items, other = items;
    for (uint i = 0; i < items; i++) {
        done += fibers[i].state == DONE;
        if (fibers[i].state != AT_GROUP) other = i;
        else if (waiting < items && fibers[i].line != fibers[waiting].line) other = i;
        else waiting = i;
    }
    all = done == items;
    if (all) return true;
    if (other < items) return partly("a barrier is reached by only a part of the workgroup", waiting, other);
    for (uint i = 0; i < items; i++) fibers[i].state = READY;
    return true;
}
static uint shuffled(uint k, uint n, uint seed) {  // a permutation of n: by steps that have no divisor in common with it
    uint step = n > 2 ? seed % (n - 1) + 1 : 1;
    for (;; step = step % n + 1) {
        uint a = n, b = step;
        while (b) { uint r = a % b; a = b, b = r; }
        if (a == 1) return (uint)(((uint64_t)k * step + seed) % n);
    }
}
static uint nth(uint k, uint n, const Settings& s) { return s.order == 0 ? k : s.order == 1 ? n - 1 - k : shuffled(k, n, s.seed); }
static bool together(const Settings& s) {  // one group, whose work items may wait
    for (uint i = 0; i < items; i++) fibers[i].state = READY;
    for (bool all = false; !all;) {
        bool any = true;
        while (any) {
            for (uint k = 0; k < items; k++) { uint i = nth(k, items, s); if (fibers[i].state == READY) resume(i); }
            if (!subgroups(any)) return false;
        }
        if (!groups(all)) return false;
    }
    return true;
}
static const char* launch(const Settings& s, void (*f)(), char* shared, size_t nbytes) {
    body = f, size = {s.size[0], s.size[1], s.size[2]}, grid = {s.grid[0], s.grid[1], s.grid[2]};
    items = size.x * size.y * size.z, width = s.subgroup;
    uint number = grid.x * grid.y * grid.z;
    room = s.room ? (char*)malloc(s.room) : nullptr;
    bool good = (!s.waits || prepare()) && (!s.room || room);
    if (!good) snprintf(wrong, sizeof wrong, "there is no memory for the stacks of %u work items", items);
    for (uint k = 0; good && k < number; k++) {
        uint g = nth(k, number, s);
        group = {g % grid.x, g / grid.x % grid.y, g / (grid.x * grid.y)};
        for (size_t i = 0; i + 4 <= nbytes; i += 4) memcpy(shared + i, &s.poison, 4);
        for (size_t i = 0; i + 4 <= s.room; i += 4) memcpy(room + i, &s.poison, 4);
        if (s.waits) good = together(s);
        else for (uint i = 0; i < items; i++) { place(nth(i, items, s)); body(); }
    }
    free(room), room = nullptr;
    return good ? nullptr : wrong;
}
}
inline float max(float a, float b) { return fmaxf(a, b); }
inline float min(float a, float b) { return fminf(a, b); }
inline uint max(uint a, uint b) { return a > b ? a : b; }
inline uint min(uint a, uint b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline int min(int a, int b) { return a < b ? a : b; }
