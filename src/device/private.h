/* What the files of src/device share. */
#ifndef NX_DEVICE_PRIVATE_H
#define NX_DEVICE_PRIVATE_H

#include "device/device.h"

#include <pthread.h>

enum { NX__MAX_DEVICES = 16, NX__RECENT = 256 }; /* of one type; storages of a capture that may be used again */

/* The devices of one type. Rows below nx__devices.n_types never change but for the members under `lock`. */
typedef struct nx__device_type {
    const nx_device_api *api;                           /* NULL: none is loaded; else it points to `table` */
    nx_device_api table;                                /* the plugin's, in this library's size */
    const nx_device_api *given;                         /* the plugin's own, which tells whether it is loaded already */
    int n_devices;
    _Atomic(nx_stream *) stream[NX__MAX_DEVICES];       /* default streams, made at first use */
    _Atomic(nx_generator *) generator[NX__MAX_DEVICES]; /* default generators, made at first use */
    pthread_mutex_t lock;                               /* of streams; nobody waits for a device under it */
    pthread_cond_t waited;                              /* a wait for streams has ended */
    /* All streams. While a thread captures on one, others do not wait for it; while one is waited for, it is not freed. */
    NX_VEC(struct nx__stream_row { nx_stream *stream; int index; bool captures; int n_waiting; }) streams;
} nx__device_type;

/* The registry: process state, filled as plugins load. */
typedef struct nx__device_table {
    pthread_mutex_t generator_lock; /* of generators and seeds; a kernel on a device's thread may take it */
    _Atomic int n_types;
    nx__device_type type[NX_MAX_DEVICE_TYPES];
    bool seeded;                    /* generators that are made later take `seed` */
    uint64_t seed;
} nx__device_table;
extern nx__device_table nx__devices;

extern const nx_device_api nx__cpu_api;
extern const nx_memory_source nx__memory_source; /* memory of the devices in the table but the CPU */

/* A capture of this thread (nx_thread.recorder). */
struct nx_recorder {
    nx_device device;
    nx_stream *stream;
    nx_launch_list *list; /* the CPU's launches; other devices keep theirs */
    int n_launches;
    nx_map storages;      /* all that its launches mention, lent, and how often they do */
    uint32_t number;      /* no two captures have one */
    nx_storage *recent[NX__RECENT]; /* a ring of those that were made during the capture, in the order of their first mention */
    int n_recent;         /* so far */
    bool failed;          /* a launch was not recorded: some of the storages may be gone, and there will be no graph */
};

nx_status nx__device_self_test(nx_device device); /* the type is known to the table, not yet counted */
nx_status nx__record(struct nx_recorder *recorder, nx_launch *launch); /* notes a launch that is about to be recorded */
void nx__stream_set_captures(nx_device device, const nx_stream *stream, bool captures);
nx_status nx__launch_failed(const nx_launch *launch, nx_status status); /* names the operator in the message */
uint64_t nx__launch_list_steps(const nx_launch_list *list); /* of its binding: what tests hold to be nearly linear */
/* Index in launch->holds of the storage that array k lies in, -1: none. */
int nx__launch_hold_of(const nx_launch *launch, int k);

#endif
