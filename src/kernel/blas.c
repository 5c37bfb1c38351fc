/* Finds a BLAS library at its first use: the flag's path, then the scipy-openblas32 package that lies beside
 * ours in site-packages, then the loader's search by name. Its functions carry a prefix there and none
 * elsewhere. It is kept at one thread, because two thread pools would fight: large products are split in
 * gemm.c. */
#include "kernel/kernel.h"

#include <dlfcn.h>
#include <pthread.h>

static nx_blas blas;
static nx_lapack lapack;
static bool found, found_lapack;

static void *find_function(void *library, const char *name) {
    static const char *const prefixes[] = {"scipy_", ""};
    char text[64];
    for (int i = 0; i < NX_COUNT(prefixes); i++) {
        snprintf(text, sizeof text, "%s%s", prefixes[i], name);
        void *function = dlsym(library, text);
        if (function) return function;
    }
    return NULL;
}

static void find_row(void *library, void *to, const char *prefix, char letter, const char *name) {
    char text[48];
    snprintf(text, sizeof text, "%s%c%s", prefix, letter, name);
    *(void **)to = find_function(library, text);
    if (*(void **)to == NULL) found_lapack = false;
}

/* All functions of lapack.def, or none. */
static void find_lapack(void *library) {
    void (*set_check)(int) = (void (*)(int))find_function(library, "LAPACKE_set_nancheck");
    found_lapack = true;
#define NX_LAPACK_ROW(prefix, of_real, name, parameters)        \
    find_row(library, &lapack.s.name, #prefix, 's', #of_real);  \
    find_row(library, &lapack.d.name, #prefix, 'd', #of_real);  \
    find_row(library, &lapack.c.name, #prefix, 'c', #name);     \
    find_row(library, &lapack.z.name, #prefix, 'z', #name);
#include "kernel/lapack.def"
#undef NX_LAPACK_ROW
    if (set_check) set_check(0); /* a NaN goes through, as in PyTorch */
}

static bool open_library(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return false;
    void (*set_threads)(int) = (void (*)(int))find_function(library, "openblas_set_num_threads");
    *(void **)&blas.sgemm = find_function(library, "cblas_sgemm");
    *(void **)&blas.dgemm = find_function(library, "cblas_dgemm");
    *(void **)&blas.sgemv = find_function(library, "cblas_sgemv");
    *(void **)&blas.dgemv = find_function(library, "cblas_dgemv");
    *(void **)&blas.cgemm = find_function(library, "cblas_cgemm");
    *(void **)&blas.zgemm = find_function(library, "cblas_zgemm");
    *(void **)&blas.cgemv = find_function(library, "cblas_cgemv");
    *(void **)&blas.zgemv = find_function(library, "cblas_zgemv");
    bool all_real = blas.sgemm && blas.dgemm && blas.sgemv && blas.dgemv;
    if (all_real && blas.cgemm && blas.zgemm && blas.cgemv && blas.zgemv) {
        if (set_threads) set_threads(1);
        find_lapack(library);
        return true;
    }
    dlclose(library);
    return false;
}

/* site-packages/narthex/lib/libnarthex.so -> site-packages/scipy_openblas32/lib */
static bool open_beside_us(void) {
    Dl_info info;
    char path[4096];
    if (dladdr((void *)nx_blas_get, &info) == 0 || info.dli_fname == NULL) return false;
    const char *slash = strrchr(info.dli_fname, '/');
    int directory = slash ? (int)(slash - info.dli_fname) : 1;
    int n = snprintf(path, sizeof path, "%.*s/../../scipy_openblas32/lib/libscipy_openblas.so", directory,
                     slash ? info.dli_fname : ".");
    return n < (int)sizeof path && open_library(path);
}

static void find_blas(void) {
    if (nx_flag.blas && *nx_flag.blas) found = open_library(nx_flag.blas);
    if (!found) found = open_beside_us();
    if (!found) found = open_library("libscipy_openblas.so");
    if (!found) found = open_library("libopenblas.so.0");
}

const nx_blas *nx_blas_get(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_blas);
    return found ? &blas : NULL;
}

const nx_lapack *nx_lapack_get(void) { return nx_blas_get() && found_lapack ? &lapack : NULL; }
