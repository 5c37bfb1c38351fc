/* Shared by the files of src/core alone. */
#ifndef NX_CORE_PRIVATE_H
#define NX_CORE_PRIVATE_H

#include "core/core.h"

enum { NX__LISTED_BYTES = 256 }; /* small storages all have this room, so that any of them serves the next */

nx_status nx__cache_new(nx_device device, size_t bytes, void **out);
void nx__cache_free(nx_device device, void *block);
void nx__free_storages(nx_thread *thread);
void nx__view_list(nx_tensor *view);
void nx__view_unlist(nx_tensor *view);

#endif
