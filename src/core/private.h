/* Shared by the files of src/core alone. */
#ifndef NX_CORE_PRIVATE_H
#define NX_CORE_PRIVATE_H

#include "core/core.h"

enum { NX__LISTED_BYTES = 256 }; /* small storages all have this room, so that any of them serves the next */

/* The head of a block of cache.c; what the caller gets begins behind it. */
typedef struct nx__piece {
    size_t room;                        /* bytes behind the head */
    struct nx__piece *before, *after;   /* pooled: neighbours in the chunk, NULL at its ends */
    struct nx__piece *previous, *next;  /* pooled and free: of the list that it is in */
    bool is_pooled, is_free;
    _Alignas(64) char data[];
} nx__piece;
enum { NX__LEAST_PIECE = 64 << 10 };
nx__piece *nx__pool_take(size_t room);  /* room: from NX__LEAST_PIECE on; NULL without memory */
void nx__pool_give(nx__piece *piece);

nx_status nx__cache_new(nx_device device, size_t bytes, void **out);
void nx__cache_free(nx_device device, void *block);
void nx__free_storages(nx_thread *thread);
void nx__view_list(nx_tensor *view);
void nx__view_unlist(nx_tensor *view);

#endif
