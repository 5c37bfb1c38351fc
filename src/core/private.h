/* Shared by the files of src/core alone. */
#ifndef NX_CORE_PRIVATE_H
#define NX_CORE_PRIVATE_H

#include "core/core.h"

enum { NX__LISTED_BYTES = 256 }; /* small storages all have this room, so that any of them serves the next */

/* ---- memory: pool.c keeps what one stream may use again, memory.c is the allocator of a device around it ------------------ */
enum {
    NX__BLOCK_UNIT = 512,         /* blocks of shared segments are multiples of it, and the first class has one */
    NX__N_CLASSES = 320,          /* eight for each power of two */
    NX__SHARED_BYTES = 32 << 20,  /* of a segment that many requests share */
    NX__MOST_SHARED = 12 << 20,   /* what is larger gets a segment of its own */
    NX__OWN_STEP = 2 << 20        /* segments of one request are multiples of it, so that similar sizes meet */
};
enum { NX__LARGE = NX_MEMORY_LARGE, NX__SMALL = NX_MEMORY_SMALL };

typedef struct nx__segment nx__segment;
typedef struct nx__pool nx__pool;
/* A piece of a segment. In use: a storage's. Free: in the list of its class; no two free ones touch. */
typedef struct nx__block {
    char *data;
    size_t bytes, asked;
    nx__segment *segment;
    struct nx__block *before, *after;   /* neighbours in the segment, NULL at its ends */
    struct nx__block *previous, *next;  /* free: of its class; spare and waiting ones use `next` */
    struct nx__use *uses;               /* streams beside the pool's that were recorded */
    bool is_free;
} nx__block;
struct nx__segment {
    nx__block first;                    /* the block at its start, as long as the segment lives */
    nx__pool *pool;                     /* NULL: it serves one storage and goes with it */
    char *base;
    size_t bytes, touched;              /* touched: how much from its start was ever given out */
    uint8_t kind;                       /* NX__LARGE or NX__SMALL */
    bool is_idle;
    nx__segment *older, *newer;         /* nothing of it is in use: neighbours in the allocator's list of idle segments */
};
typedef struct nx__classes {
    nx__block *list[NX__N_CLASSES];
    uint64_t filled[NX__N_CLASSES / 64];
} nx__classes;
/* Blocks that work of one stream may use at once. */
struct nx__pool {
    struct nx__allocator *owner;
    nx_stream *stream;
    bool has_stream;                    /* false: the stream has ended, the next one takes the pool over */
    nx__classes kinds[NX_N_MEMORY_KINDS];
    nx__pool *next;
};

size_t nx__room_of(size_t bytes, int kind);      /* rounded up; every block of the class of a small room has that room */
nx__block *nx__pool_take(nx__pool *pool, size_t room, int kind);          /* NULL: none is free */
nx__block *nx__pool_give(nx__block *block);      /* joined with what is free around it: the block that is listed then */
void nx__pool_add(nx__segment *segment);         /* its first block, all of it, becomes free */
void nx__pool_remove(nx__segment *segment);      /* of which nothing is in use */
/* Of memory.c: descriptors of blocks, NULL without memory; what is counted of free blocks beside others. */
nx__block *nx__block_new(struct nx__allocator *allocator);
void nx__block_drop(struct nx__allocator *allocator, nx__block *block);
void nx__count_split(struct nx__allocator *allocator, const nx__block *block, int change);

/* Memory of a storage. *block: what nx__memory_give() wants back, NULL when `data` is the C library's. */
nx_status nx__memory_take(nx_device device, size_t bytes, void **data, nx__block **block);
void nx__memory_give(nx_device device, size_t bytes, void *data, nx__block *block);
nx_status nx__memory_record_stream(nx_device device, nx__block *block, nx_stream *stream);
/* The list of small tensors with their storages stands aside, until nx__whole_go_on() gets what this returned. */
int nx__whole_stop(nx_thread *thread);
void nx__whole_go_on(nx_thread *thread, int n);
void nx__memory_end_thread(nx_thread *thread);
void nx__free_storages(nx_thread *thread);
void nx__view_list(nx_tensor *view);
void nx__view_unlist(nx_tensor *view);

#endif
