/* Products of float32 panels: some rows of a with some vectors of packed columns of b, all sums in registers; the wider
 * the panel, the fewer numbers are loaded for a product. Compiled once a level with NX_LEVEL_NAME set, and with NX_LANES,
 * the numbers in a vector, and NX_REGISTERS, how many vectors the processor holds; blocked.c cuts products into panels.
 * The vectors are GCC's, whose operations are those of the elements. */
#include "kernel/panel.h"

enum { WIDE = NX_LANES, VECTORS = NX__PANEL_VECTORS, WIDEST = VECTORS * WIDE, ROWS = 6, EIGHT = 8 };
typedef float wide __attribute__((vector_size(4 * NX_LANES)));
typedef float loose __attribute__((vector_size(4 * NX_LANES), aligned(4), may_alias));
typedef int32_t places __attribute__((vector_size(4 * NX_LANES)));
#define UNROLL _Pragma("GCC unroll 16")
#define INLINE static inline __attribute__((always_inline))

/* ---- numbers of an operand: float32, or halves that become it ------------------------------------------- */
typedef uint32_t bits __attribute__((vector_size(4 * NX_LANES)));
typedef uint16_t halves __attribute__((vector_size(2 * NX_LANES)));
typedef uint16_t loose_halves __attribute__((vector_size(2 * NX_LANES), aligned(2), may_alias));

INLINE wide load(const void *from, int64_t at, const nx_dtype dtype) {
    const uint16_t *narrow = (const uint16_t *)from + at;
    if (dtype == NX_F32) return *(const loose *)((const float *)from + at);
    if (dtype == NX_BF16) return (wide)(__builtin_convertvector(*(const loose_halves *)narrow, bits) << 16);
    float x[WIDE];
    nx_widen_f16(x, narrow, WIDE);
    return *(const loose *)x;
}

INLINE float load_one(const void *from, int64_t at, const nx_dtype dtype) {
    const uint16_t *narrow = (const uint16_t *)from + at;
    if (dtype == NX_F32) return ((const float *)from)[at];
    return dtype == NX_BF16 ? nx_load_bf16(*narrow) : nx_widen_one_f16(*narrow);
}

/* As nx_store_bf16(), a vector at once; what does not fill one goes one by one. */
INLINE void round_numbers(uint16_t *to, const float *from, nx_dtype dtype, int64_t n) {
    int64_t j = 0;
    if (dtype == NX_F16) {
        nx_narrow_f16(to, from, n);
        return;
    }
    for (; j + WIDE <= n; j += WIDE) {
        const wide x = *(const loose *)(from + j);
        const bits number = (bits)(x == x), rounded = (bits)x + 0x7fff + ((bits)x >> 16 & 1);
        *(loose_halves *)(to + j) = __builtin_convertvector(((number & rounded) | (~number & 0x7fc00000)) >> 16, halves);
    }
    for (; j < n; j++) to[j] = nx_store_bf16(from[j]);
}

/* ---- packing --------------------------------------------------------------------------------------------- */
/* WIDE x WIDE elements: to[k*to_step + column] = from[at + column*from_step + k], of which there may be fewer columns. */
INLINE void transpose(float *to, int64_t to_step, const void *from, int64_t at, int64_t from_step, int64_t columns, const nx_dtype dtype) {
    wide x[WIDE];
    if (NX_LIKELY(columns == WIDE)) {
        UNROLL for (int r = 0; r < WIDE; r++) x[r] = load(from, at + r * from_step, dtype);
    } else {
        for (int r = 0; r < WIDE; r++) x[r] = r < columns ? load(from, at + r * from_step, dtype) : (wide){0};
    }
    NX_TURN(x)
    UNROLL for (int r = 0; r < WIDE; r++) *(loose *)(to + r * to_step) = x[r];
}

/* At most WIDEST columns, number by number. */
INLINE void pack_plain(float *to, const void *b, int64_t at, int64_t k_step, int64_t column_step, int64_t k, int64_t columns,
                       const nx_dtype dtype) {
    for (int64_t i = 0; i < k; i++, to += WIDEST, at += k_step) {
        for (int64_t j = 0; j < columns; j++) to[j] = load_one(b, at + j * column_step, dtype);
        for (int64_t j = columns; j < WIDEST; j++) to[j] = 0;
    }
}

/* Whole panels out of rows, which are read but once. */
INLINE void pack_panels(float *to, const void *b, int64_t k_step, int64_t k, int64_t panels, const nx_dtype dtype) {
    for (int64_t i = 0, at = 0; i < k; i++, at += k_step) {
        for (int64_t n = 0; n < panels; n++) {
            UNROLL for (int v = 0; v < VECTORS; v++)
                *(wide *)(to + (n * k + i) * WIDEST + v * WIDE) = load(b, at + n * WIDEST + v * WIDE, dtype);
        }
    }
}

/* At most WIDEST columns out of rows. */
INLINE void pack_by_rows(float *to, const void *b, int64_t at, int64_t k_step, int64_t k, int64_t columns, const nx_dtype dtype) {
    for (int64_t i = 0; i < k; i++, to += WIDEST, at += k_step) {
        int64_t j = 0;
        for (; j + WIDE <= columns; j += WIDE) *(wide *)(to + j) = load(b, at + j, dtype);
        for (; j < columns; j++) to[j] = load_one(b, at + j, dtype);
        for (; j < WIDEST; j++) to[j] = 0;
    }
}

/* At most WIDEST columns whose numbers lie side by side. */
INLINE void pack_by_columns(float *to, const void *b, int64_t at, int64_t column_step, int64_t k, int64_t columns, const nx_dtype dtype) {
    const int64_t turned = k / WIDE * WIDE;
    for (int64_t j = 0; j < WIDEST; j += WIDE, at += WIDE * column_step) {
        const int64_t n = columns - j;
        for (int64_t i = 0; i < turned && n >= WIDE; i += WIDE) /* a constant: they stay in registers */
            transpose(to + i * WIDEST + j, WIDEST, b, at + i, column_step, WIDE, dtype);
        for (int64_t i = 0; i < turned && n < WIDE; i += WIDE)
            transpose(to + i * WIDEST + j, WIDEST, b, at + i, column_step, n, dtype);
    }
    pack_plain(to + turned * WIDEST, b, at - WIDEST * column_step + turned, 1, column_step, k - turned, columns, dtype);
}

INLINE void pack_b_of(float *to, const void *b, int64_t k_step, int64_t column_step, int64_t k, int64_t columns, const nx_dtype dtype) {
    const int64_t panels = column_step == 1 ? columns / WIDEST : 0;
    pack_panels(to, b, k_step, k, panels, dtype);
    for (int64_t at = panels * WIDEST; at < columns; at += WIDEST) {
        float *panel = to + at * k;
        const int64_t n = nx_least(WIDEST, columns - at);
        if (column_step == 1) pack_by_rows(panel, b, at, k_step, k, n, dtype);
        else if (k_step == 1) pack_by_columns(panel, b, at * column_step, column_step, k, n, dtype);
        else pack_plain(panel, b, at * column_step, k_step, column_step, k, n, dtype);
    }
}

static void pack_b(float *to, const void *b, nx_dtype dtype, int64_t k_step, int64_t column_step, int64_t k, int64_t columns) {
    if (dtype == NX_F32) pack_b_of(to, b, k_step, column_step, k, columns, NX_F32);
    else if (dtype == NX_BF16) pack_b_of(to, b, k_step, column_step, k, columns, NX_BF16);
    else pack_b_of(to, b, k_step, column_step, k, columns, NX_F16);
}

/* ROWS rows of a, from `at` on, whose numbers lie side by side. */
INLINE void pack_strip(float *to, const void *a, int64_t at, int64_t row_step, int64_t k, const nx_dtype dtype) {
    int64_t i = 0;
    for (; WIDE >= ROWS && i + WIDE <= k - ROWS; i += WIDE) { /* what a store writes behind its ROWS numbers, those after it write anew */
        wide x[WIDE] = {{0}};
        UNROLL for (int r = 0; r < ROWS && r < WIDE; r++) x[r] = load(a, at + r * row_step + i, dtype);
        NX_TURN(x)
        UNROLL for (int q = 0; q < WIDE; q++) *(loose *)(to + (i + q) * ROWS) = x[q];
    }
    for (; i < k; i++) {
        for (int r = 0; r < ROWS; r++) to[i * ROWS + r] = load_one(a, at + r * row_step + i, dtype);
    }
}

typedef float loose_eight __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint32_t eight_bits __attribute__((vector_size(32)));
typedef uint16_t eight_halves __attribute__((vector_size(16), aligned(2), may_alias));

INLINE void copy_eight(float *to, const void *from, int64_t at, const nx_dtype dtype) {
    const uint16_t *narrow = (const uint16_t *)from + at;
    if (dtype == NX_F32) *(loose_eight *)to = *(const loose_eight *)((const float *)from + at);
    else if (dtype == NX_F16) nx_widen_f16(to, narrow, EIGHT);
    else *(loose_eight *)to = (loose_eight)(__builtin_convertvector(*(const eight_halves *)narrow, eight_bits) << 16);
}

/* `strips` times ROWS rows of a that lie side by side: whole lines are read. */
INLINE void pack_columns(float *to, const void *a, int64_t at, int64_t k_step, int64_t k, int64_t strips, const nx_dtype dtype) {
    int64_t i = 0;
    /* What is written too much, the next k writes anew. */
    for (; WIDE >= EIGHT && i < k - 1 && k_step >= strips * ROWS + EIGHT - ROWS; i++, at += k_step) {
        for (int64_t s = 0; s < strips; s++) copy_eight(to + (s * k + i) * ROWS, a, at + s * ROWS, dtype);
    }
    for (; i < k; i++, at += k_step) {
        for (int64_t s = 0; s < strips; s++) {
            UNROLL for (int r = 0; r < ROWS; r++) to[(s * k + i) * ROWS + r] = load_one(a, at + s * ROWS + r, dtype);
        }
    }
}

enum { SIDE_BY_SIDE = 8 }; /* strips that are written at once */

/* Of so many rows those that do not fill a strip; seven or eight, not one or two, which leave half of the units idle: they are
 * multiplied by fours, and packed as one strip of their number. */
static int64_t rest_of(int64_t rows) {
    const int64_t rest = rows % ROWS;
    return rows > ROWS && (rest == 1 || rest == 2) ? rest + ROWS : rest;
}

INLINE void pack_a_of(float *to, const void *a, int64_t row_step, int64_t k_step, int64_t k, int64_t rows, const nx_dtype dtype) {
    const int64_t rest = rest_of(rows);
    int64_t at = 0;
    for (int64_t n; rows > rest; rows -= n, to += n * k, at += n * row_step) {
        n = row_step == 1 ? nx_least(SIDE_BY_SIDE, (rows - rest) / ROWS) * ROWS : ROWS;
        if (row_step == 1) pack_columns(to, a, at, k_step, k, n / ROWS, dtype);
        else pack_strip(to, a, at, row_step, k, dtype);
    }
    for (int64_t i = 0; i < k; i++, to += rows, at += k_step) {
        if (rows == WIDE && row_step == 1) *(loose *)to = load(a, at, dtype);
        else for (int64_t r = 0; r < rows; r++) to[r] = load_one(a, at + r * row_step, dtype);
    }
}

static void pack_a(float *to, const void *a, nx_dtype dtype, int64_t row_step, int64_t k_step, int64_t k, int64_t rows) {
    if (dtype == NX_F32) pack_a_of(to, a, row_step, k_step, k, rows, NX_F32);
    else if (dtype == NX_BF16) pack_a_of(to, a, row_step, k_step, k, rows, NX_BF16);
    else pack_a_of(to, a, row_step, k_step, k, rows, NX_F16);
}

/* ---- multiplying ----------------------------------------------------------------------------------------- */
INLINE wide choose(const places where, const wide x, const wide y) {
    return (wide)((where & (places)x) | (~where & (places)y));
}

/* x*factor + offset, each rounded, no less than low and no more than high. */
INLINE wide follow(const wide x, float factor, float offset, float low, float high) {
    const wide y = offset + NX_ROUNDED(x * factor), least = low - (wide){0}, most = high - (wide){0};
    const wide below = choose(y > most, most, y);
    return choose(below < least, least, below);
}

/* R rows, V vectors of columns. AT(r) is element (r, k) of a, whose pointers NEXT moves on to the next k; so do LOAD and
 * MOVE for b. Every fourth k a line of what comes next is asked
 * for. */
#define DEFINE_KERNEL(name, R, V, POINTERS, AT, NEXT, LOAD, MOVE)                                             \
    static __attribute__((noinline)) void name(const nx__panel *p, float *c, int64_t c_row_step,              \
                                               const float *start, int64_t start_row_step) {                  \
        const float *b = p->is_packed ? p->packed : p->b;                                                     \
        const char *next = p->next;                                                                           \
        float *packed = p->packed;                                                                            \
        const int64_t k = p->k, step = p->a_row_step, k_step = p->a_k_step, b_step = p->b_k_step;             \
        const int64_t next_step = p->next_step;                                                               \
        wide s[R][V];                                                                                         \
        POINTERS                                                                                              \
        (void)step, (void)k_step, (void)b_step, (void)packed;                                                 \
        UNROLL for (int r = 0; r < R; r++) {                                                                  \
            for (int v = 0; v < V; v++) __builtin_prefetch(c + r * c_row_step + WIDE * v, 1); /* on its way */ \
            UNROLL for (int v = 0; v < V; v++) s[r][v] = (wide){0};                                           \
        }                                                                                                     \
        for (int64_t i = 0; i < k; i += 4, next += next_step) {                                               \
            __builtin_prefetch(next, 0, 2);                                                                   \
            _Pragma("GCC unroll 4") for (int64_t q = nx_least(4, k - i); q > 0; q--) {                        \
                wide x[V];                                                                                    \
                UNROLL for (int v = 0; v < V; v++) { LOAD(v) }                                                \
                UNROLL for (int r = 0; r < R; r++) {                                                          \
                    const wide y = AT(r) - (wide){0};                                                         \
                    UNROLL for (int v = 0; v < V; v++) s[r][v] += y * x[v];                                   \
                }                                                                                             \
                NEXT MOVE                                                                                     \
            }                                                                                                 \
        }                                                                                                     \
        if (p->factor) {                                                                                      \
            const float *factor = p->factor, *offset = p->offset, low = p->low, high = p->high;               \
            UNROLL for (int r = 0; r < R; r++, c += c_row_step) {                                             \
                UNROLL for (int v = 0; v < V; v++)                                                            \
                    ((loose *)c)[v] = follow(s[r][v], factor[r], offset[r], low, high);                       \
            }                                                                                                 \
            return;                                                                                           \
        }                                                                                                     \
        if (p->add) {                                                                                         \
            const float *from = c;                                                                            \
            UNROLL for (int r = 0; r < R; r++, from += c_row_step) {                                          \
                UNROLL for (int v = 0; v < V; v++) s[r][v] += ((const loose *)from)[v];                       \
            }                                                                                                 \
        }                                                                                                     \
        if (p->start) {                                                                                       \
            UNROLL for (int r = 0; r < R; r++, start += start_row_step) {                                     \
                UNROLL for (int v = 0; v < V; v++) s[r][v] += ((const loose *)start)[v];                      \
            }                                                                                                 \
        }                                                                                                     \
        UNROLL for (int r = 0; r < R; r++, c += c_row_step) {                                                 \
            UNROLL for (int v = 0; v < V; v++) ((loose *)c)[v] = s[r][v];                                     \
        }                                                                                                     \
    }

/* Rows of a side by side in memory order of k: three rows a pointer, so that the addresses fit the registers. */
#define ROW_POINTERS const float *a0 = p->a, *a1 = a0 + 3 * step, *a2 = a1 + 3 * step, *a3 = a2 + 3 * step;
#define ROW_AT(r) ((r) < 3 ? a0 : (r) < 6 ? a1 : (r) < 9 ? a2 : a3)[(r) % 3 * step]
#define ROW_NEXT a0++, a1++, a2++, a3++;
/* Rows next to each other: packed, or a transposed. */
#define COLUMN_POINTERS const float *a = p->a;
#define COLUMN_AT(r) a[r]
#define COLUMN_NEXT a += k_step;
/* b packed; or its rows as they lie, which are packed on the way. */
#define PACKED_LOAD(v) x[v] = ((const wide *)b)[v];
#define PACKED_MOVE b += WIDEST;
#define PLAIN_LOAD(v) ((wide *)packed)[v] = x[v] = ((const loose *)b)[v];
#define PLAIN_MOVE b += b_step, packed += WIDEST;
#define DEFINE_KERNELS(R, V)                                                                                  \
    DEFINE_KERNEL(rows_##R##_##V, R, V, ROW_POINTERS, ROW_AT, ROW_NEXT, PACKED_LOAD, PACKED_MOVE)             \
    DEFINE_KERNEL(columns_##R##_##V, R, V, COLUMN_POINTERS, COLUMN_AT, COLUMN_NEXT, PACKED_LOAD, PACKED_MOVE)
DEFINE_KERNEL(rows_packing, ROWS, VECTORS, ROW_POINTERS, ROW_AT, ROW_NEXT, PLAIN_LOAD, PLAIN_MOVE)
DEFINE_KERNEL(columns_packing, ROWS, VECTORS, COLUMN_POINTERS, COLUMN_AT, COLUMN_NEXT, PLAIN_LOAD, PLAIN_MOVE)

/* Rows and vectors of the panels whose sums fit 16 registers, or 32. */
#define EACH_V(of, V) of(6, V) of(4, V) of(3, V) of(2, V) of(1, V)
#define EACH_16(of) of(12, 1) EACH_V(of, 1) EACH_V(of, 2)
#define EACH_32(of) EACH_16(of) of(12, 2) EACH_V(of, 3) EACH_V(of, 4)
#define EACH_SIZE NX_PASTE(EACH, NX_REGISTERS)
EACH_SIZE(DEFINE_KERNELS)

typedef void kernel_fn(const nx__panel *p, float *c, int64_t c_row_step, const float *start, int64_t start_row_step);
#define BY_ROWS(R, V) [V][R] = rows_##R##_##V,
#define BY_COLUMNS(R, V) [V][R] = columns_##R##_##V,
static kernel_fn *const by_rows[VECTORS + 1][NX__PANEL_MOST_ROWS + 1] = {EACH_SIZE(BY_ROWS)},
                 *const by_columns[VECTORS + 1][NX__PANEL_MOST_ROWS + 1] = {EACH_SIZE(BY_COLUMNS)};
static const int heights[] = {12, 6, 4, 3, 2, 1};

static void store_rounded(const nx__panel *p, const float *part, int rows, int64_t columns) {
    uint16_t *to = p->rounded, apart[WIDEST];
    for (int r = 0; r < rows; r++, part += WIDEST, to += p->rounded_row_step) {
        if (columns == WIDEST && p->rounded_column_step == 1) {
            round_numbers(to, part, p->dtype, WIDEST);
        } else {
            round_numbers(apart, part, p->dtype, columns);
            for (int64_t j = 0; j < columns; j++) to[j * p->rounded_column_step] = apart[j];
        }
    }
}

INLINE void copy(float *to, const float *from, int64_t n) {
    int64_t j = 0;
    for (; j + WIDE <= n; j += WIDE) *(loose *)(to + j) = *(const loose *)(from + j);
    for (; j < n; j++) to[j] = from[j];
}

/* Whole vectors are computed; of the last one the columns that c has are copied, or of all of them what they are rounded to. */
static void multiply_part(const nx__panel *p, kernel_fn *kernel, int rows, int64_t columns) {
    _Alignas(64) float part[NX__PANEL_MOST_ROWS * WIDEST], start[NX__PANEL_MOST_ROWS * WIDEST];
    const bool whole = columns == WIDEST;
    for (int r = 0; r < rows; r++) {
        if (p->add) copy(part + r * WIDEST, p->c + r * p->c_row_step, whole ? WIDEST : columns);
        if (p->start && !whole) copy(start + r * WIDEST, p->start + r * p->start_row_step, columns);
    }
    kernel(p, part, WIDEST, whole ? p->start : start, whole ? p->start_row_step : WIDEST);
    if (p->rounded) store_rounded(p, part, rows, columns);
    else for (int r = 0; r < rows; r++) copy(p->c + r * p->c_row_step, part + r * WIDEST, columns);
}

static void move_down(nx__panel *p, int64_t rows) {
    p->a += rows * (p->in_strips ? p->k : p->a_row_step);
    p->c += rows * p->c_row_step;
    if (p->rounded) p->rounded += rows * p->rounded_row_step;
    if (p->start) p->start += rows * p->start_row_step;
    if (p->factor) p->factor += rows;
    if (p->factor) p->offset += rows;
}

/* Makes p->packed from b; where b's rows are whole, while the first rows of a are multiplied. Returns how many. */
static int pack(nx__panel *p, int64_t rows, int64_t columns) {
    bool plain = p->b_column_step == 1 && columns == WIDEST && rows > rest_of(rows);
    if (plain) (p->a_row_step == 1 ? columns_packing : rows_packing)(p, p->c, p->c_row_step, p->start, p->start_row_step);
    else pack_b(p->packed, p->b, NX_F32, p->b_k_step, p->b_column_step, p->k, columns);
    p->is_packed = true;
    return plain ? ROWS : 0;
}

/* Which lines of the next panel the n-th kernel asks for: of its rows one line of each fourth part of them, or one of its
 * columns. Without a panel to come: of the next rows of a, where these follow each other. */
static void look_ahead(nx__panel *p, int64_t n) {
    if (p->next_step == 0) return;
    if (p->ahead == NULL) p->next = (const char *)(p->a + ROWS * p->a_row_step);
    else if (p->b_column_step == 1) p->next = p->ahead + (n / 4 % VECTORS * WIDE + n % 4 * (p->k / 4) * p->b_k_step) * p->ahead_bytes;
    else p->next = p->ahead + n % WIDEST * p->b_column_step * p->ahead_bytes;
}

static int64_t within(int64_t x, int64_t most) { return x < 0 ? 0 : nx_least(x, most); }

/* Rows row .. row + height, but of the sums only those for which a is not 0 in all of them. */
static void multiply_seen(nx__panel *p, kernel_fn *kernel, int64_t row, int height) {
    const int64_t k = p->k, end = p->part == NX_SEEN_ROWS ? within(p->seen + row + height - 1, k) : k;
    const int64_t first = p->part == NX_SEEN_COLUMNS ? within(row - p->seen + 1, k) : 0;
    p->a += first * p->a_k_step;
    p->packed += first * WIDEST;
    p->k = end - first;
    kernel(p, p->c, p->c_row_step, p->start, p->start_row_step);
    p->a -= first * p->a_k_step;
    p->packed -= first * WIDEST;
    p->k = k;
}

/* Of so many rows those above the first one that counts: whole strips. */
static int64_t rows_unseen(const nx__panel *p, int64_t rows) {
    return p->part == NX_SEEN_RESULT ? within((1 - p->seen) / ROWS * ROWS, rows - rest_of(rows)) : 0;
}

/* What kernels move on or change, as it is at the n-th panel. Where no rows of a are to be asked for, the next packed panel is, as
 * if b were that. */
static void begin_panel(nx__panel *p, const nx__panel *all, int64_t n, bool is_last) {
    const bool follow_on = all->a_row_step == all->k && !all->in_strips;
    p->a = all->a;
    p->in_strips = all->in_strips;
    p->a_row_step = all->in_strips ? 1 : all->a_row_step;
    p->a_k_step = all->in_strips ? ROWS : all->a_k_step;
    p->packed = all->packed + n * all->packed_step;
    p->c = all->c + n * WIDEST;
    p->rounded = all->rounded ? all->rounded + n * WIDEST * all->rounded_column_step : NULL;
    p->start = all->start ? all->start + n * WIDEST : NULL;
    p->factor = all->factor;
    p->offset = all->offset;
    p->seen = all->seen - (all->part == NX_SEEN_RESULT ? n * WIDEST : 0);
    const bool is_packed_next = !is_last && !follow_on;
    p->ahead = is_packed_next ? (const char *)(p->packed + all->packed_step) : all->ahead;
    p->ahead_bytes = is_packed_next ? (int64_t)sizeof *p->packed : all->ahead_bytes;
    p->b_column_step = is_packed_next ? 1 : all->b_column_step;
    p->b_k_step = is_packed_next ? WIDEST : all->b_k_step;
    p->next = (const char *)p->packed; /* read anyway */
    if (p->ahead) p->next_step = (p->b_column_step == 1 ? p->b_k_step : 4) * p->ahead_bytes;
    else p->next_step = follow_on ? 4 * ROWS * (int64_t)sizeof *p->a : 0;
}

/* The rows of one panel. */
static void multiply_panel(nx__panel *p, int64_t rows, int64_t columns) {
    const int64_t all = rows;
    int64_t n = 0;
    look_ahead(p, n++);
    const int64_t packing = p->is_packed ? 0 : pack(p, rows, columns), unseen = rows_unseen(p, rows);
    const int64_t done = packing > unseen ? packing : unseen;
    move_down(p, done);
    rows -= done;
    kernel_fn *const *kernels = (p->a_row_step == 1 ? by_columns : by_rows)[(columns + WIDE - 1) / WIDE];
    const int64_t rest = rest_of(rows);
    for (const int *height = heights; rows > 0; height++) {
        if (p->in_strips && *height > ROWS) continue;
        if (p->in_strips && rows == rest) { /* the last one is as high as there are rows */
            p->in_strips = false;
            p->a_k_step = rows;
        }
        kernel_fn *kernel = kernels[*height];
        for (; kernel && rows >= *height; rows -= *height) {
            if (*height == ROWS && rows == rest) break;
            look_ahead(p, n++);
            if (p->part > NX_SEEN_RESULT && columns % WIDE == 0) multiply_seen(p, kernel, all - rows, *height);
            else if (columns % WIDE == 0 && !p->rounded) kernel(p, p->c, p->c_row_step, p->start, p->start_row_step);
            else multiply_part(p, kernel, *height, columns);
            move_down(p, *height);
        }
    }
}

static void multiply(const nx__panel *all, int64_t rows, int64_t columns) {
    nx__panel p = *all;
    assert(p.factor == NULL || (p.start == NULL && !p.add));
    assert(p.is_packed || columns <= WIDEST);
    for (int64_t n = 0; columns > 0; n++, columns -= WIDEST) {
        begin_panel(&p, all, n, columns <= WIDEST);
        multiply_panel(&p, rows, nx_least(columns, WIDEST));
    }
}

/* ---- a few numbers ----------------------------------------------------------------------------------------- */
typedef struct tiny {
    const float *a, *b, *self; /* self NULL: nothing is added */
    int64_t k, row_step, a_step, b_step, column_step, down, right;
    float *sums;
    int64_t n;
} tiny;

/* rows x columns of the sums, which do not wait for each other. */
INLINE void tiny_block(const tiny *t, int64_t i, int64_t j, const int rows, const int columns) {
    const float *a = t->a + i * t->row_step, *b = t->b + j * t->column_step;
    float s[2][4] = {{0}};
    for (int64_t q = 0; q < t->k; q++, a += t->a_step, b += t->b_step) {
        UNROLL for (int c = 0; c < columns; c++) {
            const float y = b[c * t->column_step];
            UNROLL for (int r = 0; r < rows; r++) s[r][c] = nx__fmaf(a[r * t->row_step], y, s[r][c]);
        }
    }
    UNROLL for (int r = 0; r < rows; r++) {
        const float *from = t->self ? t->self + (i + r) * t->down + j * t->right : NULL;
        UNROLL for (int c = 0; c < columns; c++) t->sums[(i + r) * t->n + j + c] = from ? s[r][c] + from[c * t->right] : s[r][c];
    }
}

INLINE void tiny_rows(const tiny *t, int64_t i, int64_t j, const int rows) {
    for (; j + 4 <= t->n; j += 4) tiny_block(t, i, j, rows, 4);
    for (; j < t->n; j++) tiny_block(t, i, j, rows, 1);
}

typedef float four __attribute__((vector_size(16)));
typedef float loose_four __attribute__((vector_size(16), aligned(4), may_alias));
static inline four load_four(const float *from, int64_t step) {
    if (NX_LIKELY(step == 1)) return *(const loose_four *)from;
    return (four){from[0], from[step], from[2 * step], from[3 * step]};
}

/* 4 x 4 of the sums, from row i and column j, all before one of them is stored. */
static __attribute__((noinline)) void tiny_fours(const nx_array *self, const nx_array *a, const nx_array *b, int64_t i, int64_t j,
                                                 float *to, int64_t to_step) {
    const int64_t row_step = a->strides[0], a_step = a->strides[1], b_step = b->strides[0], column_step = b->strides[1];
    const float *x = (const float *)a->data + i * row_step, *y = (const float *)b->data + j * column_step;
    four s[4] = {{0}};
    for (int64_t q = a->sizes[1]; q > 0; q--, x += a_step, y += b_step) {
        const four row = load_four(y, column_step);
        UNROLL for (int r = 0; r < 4; r++) s[r] += (x[r * row_step] - (four){0}) * row;
    }
    if (self) {
        const int64_t down = nx_start_step(self, 0), right = nx_start_step(self, 1);
        const float *from = (const float *)self->data + i * down + j * right;
        UNROLL for (int r = 0; r < 4; r++) s[r] += load_four(from + r * down, right);
    }
    UNROLL for (int r = 0; r < 4; r++) *(loose_four *)(to + r * to_step) = s[r];
}

/* Whatever the sizes; out may lie over what is read. */
static __attribute__((noinline)) void tiny_any(const nx_array *self, const nx_array *a, const nx_array *b, const nx_array *out) {
    float sums[NX__PANEL_TINY], *to = out->data;
    const int64_t m = a->sizes[0], n = b->sizes[1], whole = n / 4 * 4;
    tiny t = {.a = a->data, .b = b->data, .k = a->sizes[1], .row_step = a->strides[0], .a_step = a->strides[1],
              .b_step = b->strides[0], .column_step = b->strides[1], .sums = sums, .n = n};
    if (self) {
        t.self = self->data;
        t.down = nx_start_step(self, 0);
        t.right = nx_start_step(self, 1);
    }
    int64_t i = 0;
    for (; i + 4 <= m; i += 4) {
        for (int64_t j = 0; j < whole; j += 4) tiny_fours(self, a, b, i, j, sums + i * n + j, n);
        tiny_rows(&t, i, whole, 2);
        tiny_rows(&t, i + 2, whole, 2);
    }
    for (; i + 2 <= m; i += 2) tiny_rows(&t, i, 0, 2);
    for (; i < m; i++) tiny_rows(&t, i, 0, 1);
    if (out->contiguous) {
        for (int64_t at = 0; at < m * n; at++) to[at] = sums[at];
        return;
    }
    for (int64_t at = 0; at < m * n; at++) to[at / n * out->strides[0] + at % n * out->strides[1]] = sums[at];
}

static void tiny_product(const nx_array *self, const nx_array *a, const nx_array *b, const nx_array *out) {
    bool is_block = a->sizes[0] == 4 && b->sizes[1] == 4 && out->strides[1] == 1;
    if (is_block) tiny_fours(self, a, b, 0, 0, out->data, out->strides[0]);
    else tiny_any(self, a, b, out);
}

/* ---- by a vector: each number of the matrix is read once, so that memory is what counts -------------------------------- */
enum {
    STRANDS = 32, PER_STEP = STRANDS / WIDE, /* sums of a row that go on side by side, at any level */
    STREAMS = 4,    /* places of memory that are read at once */
    BLENDED = 4, WIDTH = 4096                /* rows, and numbers of them, that are added up together */
};

/* The sum of all strands: halves are added to halves. */
INLINE float add_strands(wide *s) {
    for (int n = PER_STEP / 2; n > 0; n /= 2) {
        for (int v = 0; v < n; v++) s[v] += s[v + n];
    }
    wide sum = s[0];
    UNROLL for (int n = WIDE / 2; n > 0; n /= 2) {
        places from;
        for (int j = 0; j < WIDE; j++) from[j] = (j + n) % WIDE;
        sum += __builtin_shuffle(sum, from);
    }
    return sum[0];
}

/* `rows` rows `apart` from each other. rest: what of x lies behind the last whole step, filled with 0. */
INLINE void dot_rows(float *c, int64_t c_apart, const float *a, int64_t apart, const float *x,
                                                           const float *rest, int64_t k, const int rows, bool add) {
    const int64_t whole = k / STRANDS * STRANDS;
    float row[STRANDS] = {0};
    wide s[STREAMS][PER_STEP];
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < PER_STEP; v++) s[r][v] = (wide){0};
    for (int64_t i = 0; i < whole; i += STRANDS) {
        UNROLL for (int v = 0; v < PER_STEP; v++) {
            const wide y = ((const loose *)(x + i))[v];
            UNROLL for (int r = 0; r < rows; r++) s[r][v] += ((const loose *)(a + r * apart + i))[v] * y;
        }
    }
    UNROLL for (int r = 0; r < rows; r++) {
        if (k > whole) {
            memcpy(row, a + r * apart + whole, (size_t)(k - whole) * sizeof *row);
            for (int v = 0; v < PER_STEP; v++) s[r][v] += ((const loose *)row)[v] * ((const loose *)rest)[v];
        }
        const float sum = add_strands(s[r]);
        c[r * c_apart] = add ? sum + c[r * c_apart] : sum;
    }
}

static void dots(float *c, int64_t c_step, const float *a, int64_t row_step, const float *x, int64_t rows, int64_t k, bool add) {
    const int64_t whole = k / STRANDS * STRANDS, part = rows / STREAMS;
    float rest[STRANDS] = {0};
    memcpy(rest, x + whole, (size_t)(k - whole) * sizeof *x);
    for (int64_t r = 0; r < part; r++)
        dot_rows(c + r * c_step, part * c_step, a + r * row_step, part * row_step, x, rest, k, STREAMS, add);
    for (int64_t r = STREAMS * part; r < rows; r++) dot_rows(c + r * c_step, 0, a + r * row_step, 0, x, rest, k, 1, add);
}

/* `rows` rows `apart` from each other, each times its number, are added to c; `first`: to 0. */
INLINE void blend_rows(float *c, const float *a, int64_t apart, const float *x, int64_t x_apart,
                                                             int64_t columns, const int rows, bool first) {
    int64_t j = 0;
    for (; j + WIDE <= columns; j += WIDE) {
        wide sum = {0};
        if (!first) sum = *(const loose *)(c + j);
        UNROLL for (int r = 0; r < rows; r++) sum += (x[r * x_apart] - (wide){0}) * *(const loose *)(a + r * apart + j);
        *(loose *)(c + j) = sum;
    }
    for (; j < columns; j++) {
        float sum = first ? 0 : c[j];
        for (int r = 0; r < rows; r++) sum = nx__fmaf(x[r * x_apart], a[r * apart + j], sum);
        c[j] = sum;
    }
}

/* What c holds is added last, as a sum behind the product is. */
static void blend(float *c, const float *a, int64_t row_step, const float *x, int64_t columns, int64_t k, bool add) {
    const int64_t part = k / BLENDED;
    float apart[WIDTH];
    for (int64_t n; columns > 0; columns -= n, c += n, a += n) {
        n = nx_least(columns, WIDTH);
        float *to = add ? apart : c;
        for (int64_t i = 0; i < part; i++) blend_rows(to, a + i * row_step, part * row_step, x + i, part, n, BLENDED, i == 0);
        for (int64_t i = part * BLENDED; i < k; i++) blend_rows(to, a + i * row_step, 0, x + i, 0, n, 1, i == 0);
        for (int64_t j = 0; j < n && add; j++) c[j] += apart[j];
    }
}

const nx__panels NX_AT_LEVEL(nx__panels) = {NX_FUSED, ROWS, WIDEST, pack_b, pack_a, multiply, tiny_product, dots, blend};
