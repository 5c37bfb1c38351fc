/* Every allocation of the library, counted, and failed on demand.
 * nx_alloc_fail_at(n) arms one failure: the n-th allocation from then on, on whatever thread, returns NULL.
 * While a test watches (nx_alloc_watch), free lists elsewhere stand aside, so that the count of live blocks is exact. */
#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096, HUGE_BYTES = 2 << 20 };

static _Atomic int64_t live_blocks;
static _Atomic int64_t until_failure; /* 0: not armed */
static _Atomic bool failure_happened;
_Atomic bool nx__watched;

void nx_alloc_fail_at(int64_t n) {
    atomic_store(&failure_happened, false);
    atomic_store(&until_failure, n);
}

__attribute__((constructor(102))) static void arm_from_environment(void) { /* after flags.c's */
    if (nx_flag.fail_alloc) nx_alloc_fail_at(strtoll(nx_flag.fail_alloc, NULL, 10));
}

bool nx_alloc_failed(void) { return atomic_load(&failure_happened); }
int64_t nx_alloc_live(void) { return atomic_load(&live_blocks); }
void nx_alloc_watch(bool on) { atomic_store(&nx__watched, on); }

static bool must_fail(void) {
    if (NX_LIKELY(atomic_load_explicit(&until_failure, memory_order_relaxed) <= 0)) return false;
    if (atomic_fetch_sub(&until_failure, 1) != 1) return false;
    atomic_store(&failure_happened, true);
    return true;
}

/* The word in front of a block says where malloc's begins: posix_memalign cuts its block and gives the rests back at every
 * call, which takes several times as long. */
void *nx_alloc(size_t bytes) {
    if (NX_UNLIKELY(must_fail())) return NULL;
    const size_t alignment = bytes < 64 ? 16 : 64;
    char *begin = bytes <= PTRDIFF_MAX - 64 ? malloc(bytes + alignment) : NULL;
    if (begin == NULL) return NULL;
    void **block = (void **)(begin + alignment - (uintptr_t)begin % alignment);
    block[-1] = begin;
    atomic_fetch_add_explicit(&live_blocks, 1, memory_order_relaxed);
    return block;
}

/* The pages between the first and the last, which may not be the block's alone. A system that cannot do it refuses, and
 * the pages come when they are written to. */
void nx_alloc_populate(void *at, size_t bytes) {
    uintptr_t from = ((uintptr_t)at + PAGE_BYTES - 1) & ~(uintptr_t)(PAGE_BYTES - 1);
    uintptr_t to = ((uintptr_t)at + bytes) & ~(uintptr_t)(PAGE_BYTES - 1);
    if (from < to) (void)madvise((void *)from, to - from, MADV_POPULATE_WRITE);
}

void *nx_alloc_pages(size_t bytes) {
    if (NX_UNLIKELY(must_fail())) return NULL;
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return NULL;
    if (bytes >= HUGE_BYTES) (void)madvise(pages, bytes, MADV_HUGEPAGE); /* a fault and an entry of the TLB for 2 MiB */
    atomic_fetch_add_explicit(&live_blocks, 1, memory_order_relaxed);
    return pages;
}

void nx_free_pages(void *pages, size_t bytes) {
    if (pages == NULL) return;
    atomic_fetch_sub_explicit(&live_blocks, 1, memory_order_relaxed);
    munmap(pages, bytes);
}

/* A number in a file of the system; SIZE_MAX: there is none. */
static size_t read_number(const char *path) {
    FILE *file = fopen(path, "r");
    unsigned long long number = 0;
    if (file == NULL) return SIZE_MAX;
    bool is_there = fscanf(file, "%llu", &number) == 1;
    fclose(file);
    return is_there ? (size_t)number : SIZE_MAX;
}

size_t nx_memory_of_machine(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    size_t most = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : 0;
    const size_t allowed[] = {read_number("/sys/fs/cgroup/memory.max"), read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes")};
    for (int i = 0; i < NX_COUNT(allowed); i++)
        if (allowed[i] < most) most = allowed[i];
    return most;
}

void *nx_alloc_zeroed(size_t bytes) {
    void *block = nx_alloc(bytes);
    return block ? memset(block, 0, bytes) : NULL;
}

void nx_free(void *block) {
    if (block == NULL) return;
    atomic_fetch_sub_explicit(&live_blocks, 1, memory_order_relaxed);
    free(((void **)block)[-1]);
}

/* realloc() would lose the alignment, so a larger block is made and filled. The old block stays valid on failure. */
void *nx_realloc(void *block, size_t old_bytes, size_t bytes) {
    void *larger = nx_alloc(bytes);
    if (larger == NULL) return NULL;
    if (block) memcpy(larger, block, old_bytes < bytes ? old_bytes : bytes);
    nx_free(block);
    return larger;
}

char *nx_strdup(const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = nx_alloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

bool nx__vec_grow(void **at, int *room, size_t element) {
    int larger = *room ? 2 * *room : 8;
    void *block = nx_realloc(*at, element * (size_t)*room, element * (size_t)larger);
    if (block == NULL) return false;
    *at = block;
    *room = larger;
    return true;
}
