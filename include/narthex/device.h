/* What an accelerator supplies: one table of functions. A plugin is a shared library that exports
 *     const nx_device_api *narthex_device(void);
 * and includes only include/narthex/. device.def says what each slot does. */
#ifndef NARTHEX_DEVICE_H
#define NARTHEX_DEVICE_H

#include "narthex/op.h"

#define NX_DEVICE_API_VERSION 2

/* An address range of device memory. */
typedef struct nx_span {
    void *base;
    size_t bytes;
} nx_span;

/* One kernel call as data: a single block that owns copies of all arguments (arrays, lists, strings) and
 * holds the storages that its arrays lie in. Made by the framework, taken by nx_device_api.launch. */
typedef struct nx_launch {
    nx_kernel_fn *kernel;
    nx_run run;
    int n_in, n_out;
    nx_value *in, *out;      /* inside the block */
    int n_arrays;
    nx_array *arrays;        /* every array that in and out mention; a device may translate their addresses */
    int n_holds;
    void **holds;            /* storages kept alive */
} nx_launch;

NX_API nx_status nx_launch_run(nx_launch *launch); /* calls the kernel on this thread */
NX_API void nx_launch_free(nx_launch *launch);     /* NULL is allowed */

/* For devices in software: a recorded sequence of launches whose operands can be rebound.
 * Used by one thread at a time. */
typedef struct nx_launch_list nx_launch_list;
NX_API NX_MUST_USE nx_status nx_launch_list_new(nx_launch_list **out);
NX_API void nx_launch_list_free(nx_launch_list *list); /* NULL is allowed */
/* Takes `launch`, also on failure. */
NX_API NX_MUST_USE nx_status nx_launch_list_append(nx_launch_list *list, nx_launch *launch);
/* After the last append: arrays that lie inside slots[i] follow bases[i] of later runs. */
NX_API NX_MUST_USE nx_status nx_launch_list_bind(nx_launch_list *list, const nx_span *slots, int n_slots);
NX_API int nx_launch_list_count(const nx_launch_list *list);
/* Runs all launches on this thread; stops at the first failure. */
NX_API NX_MUST_USE nx_status nx_launch_list_run(nx_launch_list *list, void *const *bases);

/* Random numbers of a device: what a generator holds is the plugin's, the framework counts references and passes
 * seeds on. nx_device_api.generator_new returns one of these. */
typedef struct nx_generator_calls {
    size_t size;                              /* sizeof(nx_generator_calls) of the plugin's build */
    void (*seed)(void *state, uint64_t seed); /* in order with the work that was given before */
    void (*free)(void *state);
    void (*get)(void *state, uint64_t words[2]);       /* where it stands after the work that was given before */
    void (*set)(void *state, const uint64_t words[2]); /* goes where get was called; in order as seed */
} nx_generator_calls;
/* Takes `state` on success. */
NX_API NX_MUST_USE nx_status nx_generator_new_device(const nx_generator_calls *calls, void *state, nx_generator **out);
NX_API void *nx_generator_get_state(nx_generator *generator);     /* lent; NULL for the CPU's */
/* Of a device's generator; they wait for its work. */
NX_API void nx_generator_get_words(nx_generator *generator, uint64_t words[2]);
NX_API void nx_generator_set_words(nx_generator *generator, const uint64_t words[2]);
/* The generator that an operator draws from when it is given none; lent; NULL: the device has none. */
NX_API nx_generator *nx_device_generator(nx_device device);

#include "narthex/device.def"

typedef struct nx_device_api {
    size_t size;      /* sizeof(nx_device_api) of the plugin's build, whose headers may be older or newer than the library's */
    uint32_t version; /* NX_DEVICE_API_VERSION */
    const char *name; /* "npu": tensors print device='npu:0' */
    void *context;    /* passed to every function */
#define X(slot, result, parameters, need, text) result(*slot) parameters;
    NX_DEVICE_SLOTS(X)
#undef X
} nx_device_api;

typedef const nx_device_api *nx_device_entry_fn(void);
#define NX_DEVICE_ENTRY "narthex_device"

#endif
