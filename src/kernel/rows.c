/* Which level's row kernels run: row.c is compiled once a level. */
#include "kernel/kernel.h"

typedef nx_rows rows_pair[2]; /* float, double */
NX_EACH_LEVEL(NX_LEVEL_DECLARE, extern const rows_pair nx__rows)

const nx_rows *nx_rows_get(nx_dtype dtype) {
    static const nx_rows *const rows[NX_N_LEVELS] = {NX_EACH_LEVEL(NX_LEVEL_REF, nx__rows)};
    return &rows[nx_level()][dtype == NX_F64];
}
