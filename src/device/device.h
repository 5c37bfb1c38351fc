/* device: device types and their tables, streams, launches, captures.
 * The CPU is type 0 and a row like the others: its launches run on the calling thread. */
#ifndef NX_DEVICE_INTERNAL_H
#define NX_DEVICE_INTERNAL_H

#include "core/core.h"
#include "narthex/device.h"

int nx_device_n_types(void);
const nx_device_api *nx_device_get_api(int type);       /* lent */
const char *nx_device_type_name(int type);              /* "cpu" */
NX_MUST_USE nx_status nx_device_register(const nx_device_api *api, int *type); /* checks version, slots, self-test */
nx_device nx_device_current(int type);                  /* of this thread */
NX_MUST_USE nx_status nx_device_set_current(nx_device device);
nx_stream *nx_stream_current(nx_device device);         /* lent; NULL for the CPU */
NX_MUST_USE nx_status nx_stream_set_current(nx_device device, nx_stream *stream);
nx_status nx_stream_new(nx_device device, nx_stream **out); /* one that nx_device_synchronize() waits for */
void nx_stream_free(nx_device device, nx_stream *stream);  /* after its work is done; not the current one */
void nx_device_seed_all(uint64_t seed);                 /* the CPU's default generator and those of all devices */
/* Loads the plugins of NARTHEX_PLUGINS that are not loaded yet; nx_device_parse() does so for a name that it does not
 * know. Not from a library's constructor: a self-test runs threads, and the loader's lock is held there. */
NX_MUST_USE nx_status nx_device_start(void);

/* Of the whole device, the machine's for the CPU. */
NX_MUST_USE nx_status nx_device_memory_info(nx_device device, size_t *free_bytes, size_t *total_bytes);

/* Gives kernel(in, out) to `stream` of run->device. Tensors in `in` and `out` are nx_tensor. */
NX_MUST_USE nx_status nx_device_launch(nx_kernel_fn *kernel, const nx_run *run, const nx_value *in, int n_in,
                                       nx_value *out, int n_out);
/* The same call as data. */
NX_MUST_USE nx_status nx_launch_new(nx_kernel_fn *kernel, const nx_run *run, const nx_value *in, int n_in,
                                    const nx_value *out, int n_out, nx_launch **launch);
/* Elements from one place to another, devices included, both contiguous and of one dtype; waits as far as needed. */
NX_MUST_USE nx_status nx_device_copy(nx_tensor *to, nx_tensor *from);

/* Capture on the current stream of a device. Between begin and end the calling thread's launches on it are recorded
 * and not run. */
NX_MUST_USE nx_status nx_capture_begin(nx_device device);
NX_MUST_USE nx_status nx_capture_end(nx_device device, const nx_span *slots, int n_slots, void **graph);
/* `keep` (may be NULL; taken, also on failure): what must live until the replay is done, see nx_launch_new_keep(). */
NX_MUST_USE nx_status nx_capture_replay(nx_device device, void *graph, void *const *bases, nx_launch *keep);
void nx_capture_destroy(nx_device device, void *graph);
bool nx_capture_active(nx_device device);
int nx_capture_n_launches(void);                        /* of this thread's capture, so far */
/* Bytes of the storages that this thread's capture mentions outside the slots: what its graph will keep. */
NX_MUST_USE nx_status nx_capture_kept_bytes(const nx_span *slots, int n_slots, size_t *out);
/* A kernel call that is made many times with the same arguments but for where their elements lie: what its kernel has found
 * out of them once. run() reads the addresses where the arguments have them, and cannot fail. */
typedef struct nx_bound nx_bound;
struct nx_bound { void (*run)(nx_bound *bound); };
/* Set by src/iter. *out: one block (nx_free), NULL when the kernel must be called. */
extern nx_status (*nx_kernel_bind)(nx_kernel_fn *kernel, const nx_run *run, const nx_value *in, const nx_value *out, nx_bound **bound);
/* Holds storages and runs nothing. */
NX_MUST_USE nx_status nx_launch_new_keep(nx_storage *const *storages, int n, nx_launch **out);

#endif
