/* Which level's row kernels run. row.c is compiled once a level; a processor family without level v4 builds that one
 * with the base flags. */
#include "kernel/kernel.h"

extern const nx_rows nx__rows_base[2], nx__rows_v4[2]; /* float, double */

const nx_rows *nx_rows_get(nx_dtype dtype) {
    static const nx_rows *const rows[NX_N_LEVELS] = {nx__rows_base, nx__rows_v4};
    return &rows[nx_level()][dtype == NX_F64];
}
