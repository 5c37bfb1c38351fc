/* Products of float32 panels: some rows of a with up to two vectors of packed columns of b, all sums in registers.
 * Compiled once a level with NX_LEVEL_NAME set, and with NX_LANES, the numbers in a vector, and NX_REGISTERS, how many
 * vectors the processor holds; blocked.c cuts products into panels. The vectors are GCC's, whose operations are those of
 * the elements. */
#include "kernel/panel.h"

enum { WIDE = NX_LANES, WIDEST = 2 * WIDE, ROWS = NX_REGISTERS < 32 ? 6 : NX__PANEL_MOST_ROWS };
typedef float wide __attribute__((vector_size(4 * NX_LANES)));
typedef float loose __attribute__((vector_size(4 * NX_LANES), aligned(4), may_alias));
typedef int32_t places __attribute__((vector_size(4 * NX_LANES)));
#define UNROLL _Pragma("GCC unroll 16")

/* ---- packing --------------------------------------------------------------------------------------------- */
/* One round of a transposition: of rows `step` apart, the blocks off the diagonal change places. */
#define KEEP(j, step) ((j) & (step) ? WIDE + (j) - (step) : (j))
#define MOVE(j, step) ((j) & (step) ? WIDE + (j) : (j) + (step))
#define PLACES_4(of, s) of(0, s), of(1, s), of(2, s), of(3, s)
#define PLACES_8(of, s) PLACES_4(of, s), of(4, s), of(5, s), of(6, s), of(7, s)
#define PLACES_16(of, s)                                                                                      \
    PLACES_8(of, s), of(8, s), of(9, s), of(10, s), of(11, s), of(12, s), of(13, s), of(14, s), of(15, s)
#define PLACES(of, s) (places) {NX_PASTE(PLACES, NX_LANES)(of, s)}
#define ROUND(x, step)                                                                                        \
    UNROLL for (int r = 0; r < WIDE; r++) {                                                                   \
        if (r & (step)) continue;                                                                             \
        const wide low = __builtin_shuffle(x[r], x[r + (step)], PLACES(KEEP, step));                          \
        x[r + (step)] = __builtin_shuffle(x[r], x[r + (step)], PLACES(MOVE, step));                           \
        x[r] = low;                                                                                           \
    }

#define ROUNDS_4(x) ROUND(x, 1) ROUND(x, 2)
#define ROUNDS_8(x) ROUNDS_4(x) ROUND(x, 4)
#define ROUNDS_16(x) ROUNDS_8(x) ROUND(x, 8)

/* WIDE x WIDE elements: to[k*to_step + column] = from[column*from_step + k]. */
static inline void transpose(float *to, int64_t to_step, const float *from, int64_t from_step) {
    wide x[WIDE];
    UNROLL for (int r = 0; r < WIDE; r++) x[r] = *(const loose *)(from + r * from_step);
    NX_PASTE(ROUNDS, NX_LANES)(x)
    UNROLL for (int r = 0; r < WIDE; r++) *(loose *)(to + r * to_step) = x[r];
}

static void pack_plain(float *to, const float *b, int64_t k_step, int64_t column_step, int64_t k, int64_t columns) {
    for (int64_t i = 0; i < k; i++, to += WIDEST, b += k_step) {
        for (int64_t j = 0; j < columns; j++) to[j] = b[j * column_step];
        for (int64_t j = columns; j < WIDEST; j++) to[j] = 0;
    }
}

static void pack_b(float *to, const float *b, int64_t k_step, int64_t column_step, int64_t k, int64_t columns) {
    int64_t done = 0;
    if (column_step == 1 && columns == WIDEST) {
        for (; done < k; done++, to += WIDEST, b += k_step) {
            ((wide *)to)[0] = ((const loose *)b)[0];
            ((wide *)to)[1] = ((const loose *)b)[1];
        }
    } else if (k_step == 1 && columns == WIDEST) {
        for (; done + WIDE <= k; done += WIDE, to += WIDE * WIDEST, b += WIDE) {
            transpose(to, WIDEST, b, column_step);
            transpose(to + WIDE, WIDEST, b + WIDE * column_step, column_step);
        }
    }
    pack_plain(to, b, k_step, column_step, k - done, columns);
}

static void pack_a(float *to, const float *a, int64_t row_step, int64_t k_step, int64_t k, int64_t rows) {
    if (row_step == 1 && rows == ROWS) {
        for (int64_t i = 0; i < k; i++, to += rows, a += k_step) memcpy(to, a, ROWS * sizeof *to);
        return;
    }
    for (int64_t i = 0; i < k; i++, to += rows, a += k_step) {
        for (int64_t r = 0; r < rows; r++) to[r] = a[r * row_step];
    }
}

/* ---- multiplying ----------------------------------------------------------------------------------------- */
/* R rows, V vectors of columns. AT(r) is element (r, k) of a, whose pointers NEXT moves on to the next k; so do LOAD and
 * MOVE for b. */
#define DEFINE_KERNEL(name, R, V, POINTERS, AT, NEXT, LOAD, MOVE)                                             \
    static __attribute__((noinline)) void name(const nx__panel *p, float *c, int64_t c_row_step,              \
                                               const float *start, int64_t start_row_step) {                  \
        const float *b = p->is_packed ? p->packed : p->b;                                                     \
        float *packed = p->packed;                                                                            \
        const int64_t k = p->k, step = p->a_row_step, k_step = p->a_k_step, b_step = p->b_k_step;             \
        wide s[R][V];                                                                                         \
        POINTERS                                                                                              \
        (void)step, (void)k_step, (void)b_step, (void)packed;                                                 \
        UNROLL for (int r = 0; r < R; r++) {                                                                  \
            __builtin_prefetch(c + r * c_row_step, 1); /* on its way while the sums are made */               \
            __builtin_prefetch(c + r * c_row_step + WIDE * V - 1, 1);                                         \
            UNROLL for (int v = 0; v < V; v++) s[r][v] = (wide){0};                                           \
        }                                                                                                     \
        _Pragma("GCC unroll 4") for (int64_t i = 0; i < k; i++) {                                             \
            wide x[V];                                                                                        \
            UNROLL for (int v = 0; v < V; v++) { LOAD(v) }                                                    \
            UNROLL for (int r = 0; r < R; r++) {                                                              \
                const wide y = AT(r) - (wide){0};                                                             \
                UNROLL for (int v = 0; v < V; v++) s[r][v] += y * x[v];                                       \
            }                                                                                                 \
            NEXT MOVE                                                                                         \
        }                                                                                                     \
        UNROLL for (int r = 0; r < R; r++, c += c_row_step, start += start_row_step) {                        \
            UNROLL for (int v = 0; v < V; v++) {                                                              \
                if (p->add) s[r][v] += ((const loose *)c)[v];                                                 \
                if (p->start) s[r][v] += ((const loose *)start)[v];                                           \
                ((loose *)c)[v] = s[r][v];                                                                    \
            }                                                                                                 \
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
#define DEFINE_KERNELS(name, R)                                                                                   \
    DEFINE_KERNEL(rows_##name##_1, R, 1, ROW_POINTERS, ROW_AT, ROW_NEXT, PACKED_LOAD, PACKED_MOVE)                \
    DEFINE_KERNEL(rows_##name##_2, R, 2, ROW_POINTERS, ROW_AT, ROW_NEXT, PACKED_LOAD, PACKED_MOVE)                \
    DEFINE_KERNEL(columns_##name##_1, R, 1, COLUMN_POINTERS, COLUMN_AT, COLUMN_NEXT, PACKED_LOAD, PACKED_MOVE)    \
    DEFINE_KERNEL(columns_##name##_2, R, 2, COLUMN_POINTERS, COLUMN_AT, COLUMN_NEXT, PACKED_LOAD, PACKED_MOVE)
DEFINE_KERNELS(all, ROWS)
DEFINE_KERNELS(two_thirds, ROWS * 2 / 3)
DEFINE_KERNELS(third, ROWS / 3)
DEFINE_KERNELS(two, 2)
DEFINE_KERNELS(one, 1)
DEFINE_KERNEL(rows_packing, ROWS, 2, ROW_POINTERS, ROW_AT, ROW_NEXT, PLAIN_LOAD, PLAIN_MOVE)
DEFINE_KERNEL(columns_packing, ROWS, 2, COLUMN_POINTERS, COLUMN_AT, COLUMN_NEXT, PLAIN_LOAD, PLAIN_MOVE)

typedef void kernel_fn(const nx__panel *p, float *c, int64_t c_row_step, const float *start, int64_t start_row_step);
static const struct { int rows; kernel_fn *by_rows[2], *by_columns[2]; } kernels[] = {
#define KERNEL_ROW(name, R) {R, {rows_##name##_1, rows_##name##_2}, {columns_##name##_1, columns_##name##_2}},
    KERNEL_ROW(all, ROWS) KERNEL_ROW(two_thirds, ROWS * 2 / 3) KERNEL_ROW(third, ROWS / 3) KERNEL_ROW(two, 2) KERNEL_ROW(one, 1)
};

/* Whole vectors are computed; of the last one the columns that c has are copied. */
static void multiply_part(const nx__panel *p, kernel_fn *kernel, int rows, int64_t columns) {
    _Alignas(64) float part[ROWS * WIDEST], start[ROWS * WIDEST];
    size_t bytes = (size_t)columns * sizeof *part;
    for (int r = 0; r < rows; r++) {
        if (p->add) memcpy(part + r * WIDEST, p->c + r * p->c_row_step, bytes);
        if (p->start) memcpy(start + r * WIDEST, p->start + r * p->start_row_step, bytes);
    }
    kernel(p, part, WIDEST, start, WIDEST);
    for (int r = 0; r < rows; r++) memcpy(p->c + r * p->c_row_step, part + r * WIDEST, bytes);
}

static void move_down(nx__panel *p, int rows) {
    p->a += rows * p->a_row_step;
    p->c += rows * p->c_row_step;
    if (p->start) p->start += rows * p->start_row_step;
}

/* Makes p->packed from b; where b's rows are whole, while the first rows of a are multiplied. Returns how many. */
static int pack(nx__panel *p, int64_t rows, int64_t columns) {
    bool plain = p->b_column_step == 1 && columns == WIDEST && rows >= ROWS;
    if (plain) (p->a_row_step == 1 ? columns_packing : rows_packing)(p, p->c, p->c_row_step, p->start, p->start_row_step);
    else pack_b(p->packed, p->b, p->b_k_step, p->b_column_step, p->k, columns);
    p->is_packed = true;
    return plain ? ROWS : 0;
}

static void multiply(const nx__panel *panel, int64_t rows, int64_t columns) {
    nx__panel p = *panel;
    int done = p.is_packed ? 0 : pack(&p, rows, columns);
    move_down(&p, done);
    rows -= done;
    for (int size = 0; rows > 0; size++) {
        int n = kernels[size].rows;
        kernel_fn *kernel = (p.a_row_step == 1 ? kernels[size].by_columns : kernels[size].by_rows)[columns > WIDE];
        for (; rows >= n; rows -= n) {
            if (columns % WIDE == 0) kernel(&p, p.c, p.c_row_step, p.start, p.start_row_step);
            else multiply_part(&p, kernel, n, columns);
            move_down(&p, n);
        }
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
static inline __attribute__((always_inline)) void tiny_block(const tiny *t, int64_t i, int64_t j, const int rows, const int columns) {
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

static inline __attribute__((always_inline)) void tiny_rows(const tiny *t, int64_t i, int64_t j, const int rows) {
    for (; j + 4 <= t->n; j += 4) tiny_block(t, i, j, rows, 4);
    for (; j < t->n; j++) tiny_block(t, i, j, rows, 1);
}

/* A step of self, which is broadcast to two dimensions. */
static inline int64_t broadcast_step(const nx_array *self, int dim) {
    int at = self->ndim - 2 + dim;
    return at < 0 || self->sizes[at] == 1 ? 0 : self->strides[at];
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
        const int64_t down = broadcast_step(self, 0), right = broadcast_step(self, 1);
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
        t.down = broadcast_step(self, 0);
        t.right = broadcast_step(self, 1);
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

const nx__panels NX_AT_LEVEL(nx__panels) = {NX_FUSED, ROWS, WIDEST, pack_b, pack_a, multiply, tiny_product};
