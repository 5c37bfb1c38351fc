/* The reference accelerator: what its files share.
 * Words. Device address: an address inside the PROT_NONE reservation, what tensors carry; the host faults on it.
 * Reachable address: device address + shift, the same page in a second mapping, what the device's threads use. */
#ifndef NPU_H
#define NPU_H

#include "narthex/device.h"

#include <pthread.h>
#include <stdatomic.h>

#define TRY(expr)                           \
    do {                                    \
        nx_status try_ = (expr);            \
        if (try_ != NX_OK) return try_;     \
    } while (0)

/* ---- memory.c ------------------------------------------------------------------------------------------ */
nx_status npu_memory_alloc(void *context, int index, nx_stream *stream, size_t bytes, void **out);
void npu_memory_free(void *context, int index, nx_stream *stream, void *block);
nx_status npu_memory_info(void *context, int index, size_t *free_bytes, size_t *total_bytes);
nx_status npu_memory_check(void *context, int index);
/* Whether [at, at + bytes) is device memory. */
bool npu_is_device(const void *at, size_t bytes);
void *npu_reachable(const void *device_address); /* of an address that npu_is_device() */
void npu_memory_fail_at(int64_t n);              /* the n-th allocation from now on fails; 0: none */
nx_status npu_memory_set_limit(size_t bytes);

/* ---- stream.c ------------------------------------------------------------------------------------------ */
nx_status npu_stream_new(void *context, int index, nx_stream **out);
void npu_stream_free(void *context, nx_stream *stream);
nx_status npu_stream_synchronize(void *context, nx_stream *stream);
nx_status npu_stream_wait(void *context, nx_stream *stream, int64_t microseconds, bool *done);
nx_status npu_launch(void *context, nx_stream *stream, nx_launch *launch);
nx_status npu_copy_in(void *context, nx_stream *stream, void *to, const void *from, size_t bytes);
nx_status npu_copy_out(void *context, nx_stream *stream, void *to, const void *from, size_t bytes);
nx_status npu_copy_within(void *context, nx_stream *stream, void *to, const void *from, size_t bytes);
nx_status npu_event_new(void *context, int index, void **out);
nx_status npu_event_query(void *context, void *event, bool *reached);
void npu_event_free(void *context, void *event);
nx_status npu_event_record(void *context, void *event, nx_stream *stream);
nx_status npu_event_wait(void *context, void *event, nx_stream *stream);
nx_status npu_event_synchronize(void *context, void *event);
void npu_wait_for_all_streams(void);             /* errors stay where they are */

/* A piece of work for a stream's thread. `run` is called once, in order. */
typedef struct npu_work {
    nx_status (*run)(struct npu_work *work);
    void *a, *b, *c;
    size_t bytes;
} npu_work;
nx_status npu_stream_give(nx_stream *stream, npu_work work); /* fails on a lost device or after a fork */
bool npu_stream_captures(nx_stream *stream);
nx_status npu_stream_begin_capture(nx_stream *stream, nx_launch_list *list); /* launches go there from now on; lent */
nx_launch_list *npu_stream_end_capture(nx_stream *stream);   /* where they went; NULL: nowhere */

/* ---- capture.c ----------------------------------------------------------------------------------------- */
nx_status npu_capture_begin(void *context, nx_stream *stream);
nx_status npu_capture_end(void *context, nx_stream *stream, const nx_span *slots, int n_slots, void **graph);
nx_status npu_graph_replay(void *context, void *graph, nx_stream *stream, void *const *bases, nx_launch *keep);
void npu_graph_destroy(void *context, void *graph);

/* ---- generator.c --------------------------------------------------------------------------------------- */
nx_status npu_generator_new(void *context, int index, nx_generator **out);
/* Counter values for n elements, two from each, out of the given generator or the device's own (NULL). */
nx_status npu_take_counter(const char *op, const nx_value *value, nx_device device, int64_t n, uint64_t *key, uint64_t *start);
void npu_philox(uint64_t key, uint64_t counter, uint32_t out[4]);

/* ---- random.c: kernels ---------------------------------------------------------------------------------- */
nx_status npu_normal(nx_run *run, const nx_value *in, nx_value *out);
nx_status npu_bernoulli(nx_run *run, const nx_value *in, nx_value *out);
nx_status npu_multinomial(nx_run *run, const nx_value *in, nx_value *out);
nx_status npu_uniform(nx_run *run, const nx_value *in, nx_value *out);
nx_status npu_exponential(nx_run *run, const nx_value *in, nx_value *out);
nx_status npu_geometric(nx_run *run, const nx_value *in, nx_value *out);
nx_status npu_cauchy(nx_run *run, const nx_value *in, nx_value *out);
nx_status npu_random(nx_run *run, const nx_value *in, nx_value *out);
nx_status npu_random_to(nx_run *run, const nx_value *in, nx_value *out);
nx_status npu_random_from(nx_run *run, const nx_value *in, nx_value *out);

/* ---- npu.c --------------------------------------------------------------------------------------------- */
nx_status npu_check(void);      /* NX_OK, or why the device cannot be used: lost, or used before a fork */
void npu_mark_used(void);       /* from here on a forked child cannot use the device */
bool npu_is_child(void);        /* this process is the child of one that used the device */
int64_t npu_slow_copy_us(void);

/* Generated from npu_native_functions.yaml: the official operators that this device supplies, sorted. */
extern const char *const npu_official[];
extern const int npu_n_official;

#endif
