/* Products of matrices three ways. BLAS, or for float32 the panels of blocked.c, where the level is fused: operands that are row- or
 * column-major go as they are, others are packed by a copy. Plain, for every number type: both operands are packed into panels
 * of the computing type (float for the halves, int64 for integers, which then wrap on storing) and multiplied
 * in tiles that stay in registers. Ref, the meaning: one sum after the other. Plain and ref add in the same
 * order, so they agree bit for bit. */
#include "kernel/complex.h"
#include "kernel/panel.h"

/* ---- BLAS; the halves are cast to float before and back afterwards --------------------------------------- */
typedef struct operand {
    void *data;
    int64_t ld;
    bool transposed;  /* column-major in memory */
    void *packed;     /* owned copy, NULL: in place */
} operand;

/* Whether rows (or columns) lie `ld` apart without overlap and their elements side by side. */
static bool find_layout(const nx_array *a, operand *out) {
    int64_t rows = a->sizes[0], columns = a->sizes[1], row_step = a->strides[0], column_step = a->strides[1];
    out->data = a->data;
    out->packed = NULL;
    out->transposed = false;
    if ((columns == 1 || column_step == 1) && (rows == 1 || row_step >= columns)) {
        out->ld = rows == 1 ? columns : row_step;
        return true;
    }
    out->transposed = true;
    if ((rows == 1 || row_step == 1) && (columns == 1 || column_step >= rows)) {
        out->ld = columns == 1 ? rows : column_step;
        return true;
    }
    return false;
}

static void describe_packed(const nx_array *a, nx_dtype dtype, void *data, int64_t *dims, nx_array *out) {
    nx_array_copy(out, a, dims);
    out->data = data;
    out->dtype = dtype;
    out->strides[0] = a->sizes[1];
    out->strides[1] = 1;
    nx_array_refresh(out);
}

static nx_status new_packed(const nx_array *a, nx_dtype dtype, operand *out) {
    size_t bytes;
    NX_TRY(nx_array_bytes(a, dtype, &bytes));
    out->packed = out->data = nx_room_new(bytes);
    out->ld = a->sizes[1];
    out->transposed = false;
    return out->packed ? NX_OK : nx_fail_memory(bytes);
}

static nx_status load_operand(const nx_array *a, nx_dtype dtype, operand *out) {
    int64_t dims[2 * NX_MAX_DIMS];
    nx_array packed;
    if (find_layout(a, out) && a->dtype == dtype) return NX_OK;
    NX_TRY(new_packed(a, dtype, out));
    describe_packed(a, dtype, out->packed, dims, &packed);
    nx_copy_cast(&packed, a);
    return NX_OK;
}

static nx_dtype computing_dtype(nx_dtype dtype) {
    if (dtype == NX_F64 || nx_is_complex(dtype)) return dtype;
    return nx_is_float(dtype) ? NX_F32 : NX_I64;
}

typedef struct product {
    operand a, b, c;
    int64_t m, n, k;
    nx_dtype dtype;     /* float32, float64, complex64, complex128; of complex ones alpha is 1 and beta 0 */
    double alpha, beta; /* c = alpha*a*b + beta*c; beta 0 does not read c */
    const float *start; /* of multiply_panels: added to the product, NULL: see beta */
    int64_t start_row_step;
} product;

/* Vectors are better off with BLAS. */
static bool suits_panels(const product *p) {
    return p->dtype == NX_F32 && p->alpha == 1 && (p->beta == 0 || p->beta == 1) && p->m > 1 && p->n > 1 &&
           nx_product_runs();
}

static bool suits_tiles(const nx_array *start, const nx_array *a, const nx_array *b, const nx_array *out) {
    bool halves = a->dtype == NX_BF16 && b->dtype == NX_BF16 && (out->dtype == NX_BF16 || out->dtype == NX_F32);
    return halves && (start == NULL || start->dtype == NX_BF16) && nx_tiled_runs();
}

/* How panels take two operands. */
static nx_product product_of(int64_t m, int64_t n, int64_t k, const operand *a, const operand *b) {
    return (nx_product){.m = m, .n = n, .k = k, .a = a->data, .b = b->data,
                        .a_row_step = a->transposed ? 1 : a->ld, .a_k_step = a->transposed ? a->ld : 1,
                        .b_k_step = b->transposed ? 1 : b->ld, .b_column_step = b->transposed ? b->ld : 1};
}

/* The whole product, on as many threads as it is worth: its elements do not depend on how it is cut. */
static nx_status multiply_panels(const product *p) {
    nx_product whole = product_of(p->m, p->n, p->k, &p->a, &p->b);
    whole.c = p->c.data, whole.c_row_step = p->c.ld;
    whole.start = p->start, whole.start_row_step = p->start_row_step;
    whole.add = p->beta == 1;
    return nx_product_spread(&whole);
}

/* A product of which one operand is a vector: `column`, the right one. */
typedef struct vector_form {
    bool column;
    const operand *matrix, *vector;
    bool dots;               /* the rows of the matrix, as they lie in memory, meet the vector; else they are added up */
    int64_t step, c_step;    /* of the vector, of the result */
} vector_form;

static vector_form form_of(const product *p, bool column) {
    vector_form f = {.column = column};
    f.matrix = f.column ? &p->a : &p->b;
    f.vector = f.column ? &p->b : &p->a;
    f.dots = f.matrix->transposed != f.column;
    f.step = f.vector->transposed == f.column ? 1 : f.vector->ld;
    f.c_step = f.column ? p->c.ld : 1;
    return f;
}

/* One column or one row: every element of the matrix is read once, which the general product is slow at. */
static void multiply_vector(const product *p, int m, int n, const char *a, const char *b, char *c) {
    const nx_blas *blas = nx_blas_get();
    const vector_form f = form_of(p, n == 1);
    const operand *matrix = f.matrix;
    const char *at = f.column ? a : b, *x = f.column ? b : a;
    int rows = f.column ? m : (int)p->k, columns = f.column ? (int)p->k : n;
    int stored_rows = matrix->transposed ? columns : rows, stored_columns = matrix->transposed ? rows : columns;
    int step = (int)f.step, c_step = (int)f.c_step, trans = f.dots ? NX_BLAS_NO_TRANS : NX_BLAS_TRANS;
    const double one[2] = {1}, zero[2] = {0};
    if (p->dtype == NX_C128) {
        blas->zgemv(NX_BLAS_ROW_MAJOR, trans, stored_rows, stored_columns, one, at, (int)matrix->ld, x, step, zero, c, c_step);
    } else if (p->dtype == NX_C64) {
        blas->cgemv(NX_BLAS_ROW_MAJOR, trans, stored_rows, stored_columns, (const float[2]){1}, at, (int)matrix->ld, x, step,
                    (const float[2]){0}, c, c_step);
    } else if (p->dtype == NX_F64) {
        blas->dgemv(NX_BLAS_ROW_MAJOR, trans, stored_rows, stored_columns, p->alpha, (const double *)at,
                    (int)matrix->ld, (const double *)x, step, p->beta, (double *)c, c_step);
    } else {
        blas->sgemv(NX_BLAS_ROW_MAJOR, trans, stored_rows, stored_columns, (float)p->alpha, (const float *)at,
                    (int)matrix->ld, (const float *)x, step, (float)p->beta, (float *)c, c_step);
    }
}

/* Rows row .. row + m and columns column .. column + n of the product. */
static void multiply_cell(const product *p, int64_t row, int64_t column, int m, int n) {
    const nx_blas *blas = nx_blas_get();
    int64_t bytes = nx_dtype_sizes[p->dtype];
    const char *a = (const char *)p->a.data + row * (p->a.transposed ? 1 : p->a.ld) * bytes;
    const char *b = (const char *)p->b.data + column * (p->b.transposed ? p->b.ld : 1) * bytes;
    char *c = (char *)p->c.data + (row * p->c.ld + column) * bytes;
    int k = (int)p->k, trans_a = p->a.transposed ? NX_BLAS_TRANS : NX_BLAS_NO_TRANS,
        trans_b = p->b.transposed ? NX_BLAS_TRANS : NX_BLAS_NO_TRANS;
    if (p->m == 1 || p->n == 1) {
        multiply_vector(p, m, n, a, b, c);
    } else if (p->dtype == NX_C128) {
        blas->zgemm(NX_BLAS_ROW_MAJOR, trans_a, trans_b, m, n, k, (const double[2]){1}, a, (int)p->a.ld, b, (int)p->b.ld,
                    (const double[2]){0}, c, (int)p->c.ld);
    } else if (p->dtype == NX_C64) {
        blas->cgemm(NX_BLAS_ROW_MAJOR, trans_a, trans_b, m, n, k, (const float[2]){1}, a, (int)p->a.ld, b, (int)p->b.ld,
                    (const float[2]){0}, c, (int)p->c.ld);
    } else if (p->dtype == NX_F64) {
        blas->dgemm(NX_BLAS_ROW_MAJOR, trans_a, trans_b, m, n, k, p->alpha, (const double *)a,
                    (int)p->a.ld, (const double *)b, (int)p->b.ld, p->beta, (double *)c, (int)p->c.ld);
    } else {
        blas->sgemm(NX_BLAS_ROW_MAJOR, trans_a, trans_b, m, n, k, (float)p->alpha, (const float *)a,
                    (int)p->a.ld, (const float *)b, (int)p->b.ld, (float)p->beta, (float *)c, (int)p->c.ld);
    }
}

/* A column-major product is the row-major product of the transposes, the other way round. */
static void turn_product(product *p) {
    operand a = p->a;
    int64_t m = p->m;
    p->a = p->b;
    p->b = a;
    p->m = p->n;
    p->n = m;
    p->a.transposed = !p->a.transposed;
    p->b.transposed = !p->b.transposed;
}

enum { WORTH_SPLITTING = 1 << 21 }; /* multiplications */

/* What a BLAS adds up depends on the sizes that it is called with, so a product is cut into cells by its shape alone,
 * whatever the number of threads: then that number does not show in the bits. */
enum { CELL_ROWS = 128, CELL_COLUMNS = 512 };

static nx_status run_cells(void *arg, int64_t begin, int64_t end) {
    const product *p = arg;
    int64_t across = (p->n + CELL_COLUMNS - 1) / CELL_COLUMNS;
    for (int64_t cell = begin; cell < end; cell++) {
        int64_t row = cell / across * CELL_ROWS, column = cell % across * CELL_COLUMNS;
        multiply_cell(p, row, column, (int)nx_least(CELL_ROWS, p->m - row), (int)nx_least(CELL_COLUMNS, p->n - column));
    }
    return NX_OK;
}

/* ---- one row or one column of float32 ------------------------------------------------------------------------------ */
enum { CELL = 64 }; /* rows or columns of the matrix that a thread takes at least */

typedef struct by_vector {
    const product *p;
    vector_form form;
    const float *x;          /* the vector, side by side */
    int64_t n;               /* numbers of the result */
} by_vector;

static nx_status run_by_vector(void *arg, int64_t begin, int64_t end) {
    const by_vector *v = arg;
    const vector_form *f = &v->form;
    const int64_t first = begin * CELL, n = nx_least(end * CELL, v->n) - first, row_step = f->matrix->ld, k = v->p->k;
    const float *matrix = f->matrix->data, *x = v->x;
    float *c = (float *)v->p->c.data + first * f->c_step;
    const bool add = v->p->beta == 1;
    if (f->dots) nx__panels_get()->dots(c, f->c_step, matrix + first * row_step, row_step, x, n, k, add);
    else nx__panels_get()->blend(c, matrix + first, row_step, x, n, k, add);
    return NX_OK;
}

/* *done false: the numbers do not lie as they have to. */
static nx_status multiply_by_vector(const product *p, bool *done) {
    by_vector v = {.p = p, .form = form_of(p, p->n == 1)};
    const vector_form *f = &v.form;
    float *packed = NULL;
    v.x = f->vector->data;
    v.n = f->column ? p->m : p->n;
    *done = (f->dots || f->c_step == 1) && p->k > 0;
    if (!*done) return NX_OK;
    if (f->step != 1 && p->k > 1) {
        packed = nx_room_new(sizeof *packed * (size_t)p->k);
        if (packed == NULL) return nx_fail_memory(sizeof *packed * (size_t)p->k);
        for (int64_t i = 0; i < p->k; i++) packed[i] = v.x[i * f->step];
        v.x = packed;
    }
    nx_status status = nx_parallel((v.n + CELL - 1) / CELL, nx_grain(CELL * p->k * 4), run_by_vector, &v);
    nx_room_free(packed);
    return status;
}

static nx_status split_blas(product *p) {
    if (suits_panels(p)) return multiply_panels(p);
    if (p->dtype == NX_F32 && (p->m == 1 || p->n == 1) && p->alpha == 1 && (p->beta == 0 || p->beta == 1) && nx_product_runs()) {
        bool done;
        NX_TRY(multiply_by_vector(p, &done));
        if (done) return NX_OK;
    }
    int64_t cells = (p->m + CELL_ROWS - 1) / CELL_ROWS * ((p->n + CELL_COLUMNS - 1) / CELL_COLUMNS);
    int64_t work = nx_least(p->m, CELL_ROWS) * nx_least(p->n, CELL_COLUMNS) * (p->k ? p->k : 1);
    return nx_parallel(cells, work < WORTH_SPLITTING ? WORTH_SPLITTING / work : 1, run_cells, p);
}

static bool fits_int(const product *p) {
    const int64_t numbers[] = {p->m, p->n, p->k, p->a.ld, p->b.ld, p->c.ld};
    for (int i = 0; i < NX_COUNT(numbers); i++) {
        if (numbers[i] > INT32_MAX) return false;
    }
    return true;
}

static void store_packed(const operand *c, nx_dtype dtype, const nx_array *out) {
    int64_t dims[2 * NX_MAX_DIMS];
    nx_array packed;
    describe_packed(out, dtype, c->packed, dims, &packed);
    nx_copy_cast(out, &packed);
}

/* ---- halves, in cells whose sums in float32 stay near ---------------------------------------------------------------- */
enum { HALF_ROWS = 1056, HALF_COLUMNS = 1024 }; /* of a cell, at most: as many rows as four blocks of panels have */

typedef struct by_halves {
    nx_product p;
    const nx_array *start, *out; /* start NULL: nothing is added */
    int64_t rows, columns, across;
} by_halves;

/* Columns column .. of rows row .. of what is added, as float32; of the one row that is for all, or has one number, or is one. */
static void widen_start(const by_halves *h, int64_t row, int64_t column, nx_product *part, float *to) {
    const nx_array *start = h->start;
    const int64_t row_step = nx_start_step(start, 0), column_step = nx_start_step(start, 1),
                  bytes = (int64_t)nx_dtype_bytes(start->dtype);
    part->start = to;
    part->start_row_step = row_step ? part->n : 0;
    for (int64_t r = 0; r < (row_step ? part->m : 1); r++)
        nx_cast(NX_F32, (char *)(to + r * part->n), sizeof *to, start->dtype,
                (const char *)start->data + ((row + r) * row_step + column * column_step) * bytes, column_step * bytes, part->n);
}

static nx_status run_half_cell(const by_halves *h, int64_t row, int64_t column, float *start) {
    const nx_array *out = h->out;
    const nx_product *p = &h->p;
    const nx_halves to = {(nx_dtype)out->dtype, (uint16_t *)out->data + row * out->strides[0] + column * out->strides[1],
                          out->strides[0], out->strides[1]};
    nx_product part = *p;
    part.m = nx_least(h->rows, p->m - row), part.n = nx_least(h->columns, p->n - column);
    part.a = (const void *)((const uint16_t *)(const void *)p->a + row * p->a_row_step);
    part.b = (const void *)((const uint16_t *)(const void *)p->b + column * p->b_column_step);
    if (h->start) widen_start(h, row, column, &part, start);
    return nx_product_run_halves(&part, &to);
}

static nx_status run_half_cells(void *arg, int64_t begin, int64_t end) {
    const by_halves *h = arg;
    const bool has_rows = h->start && nx_start_step(h->start, 0);
    const size_t bytes = sizeof(float) * (size_t)(h->start ? h->columns * (has_rows ? h->rows : 1) : 0);
    float *start = bytes ? nx_room_new(bytes) : NULL;
    nx_status status = start || bytes == 0 ? NX_OK : nx_fail_memory(bytes);
    for (int64_t cell = begin; cell < end && status == NX_OK; cell++)
        status = run_half_cell(h, cell / h->across * h->rows, cell % h->across * h->columns, start);
    nx_room_free(start);
    return status;
}

/* Whether the operands are halves that lie by rows or by columns, and panels multiply them. */
static bool suits_halves(const nx_array *a, const nx_array *b, const nx_array *out, by_halves *h) {
    operand x, y;
    const nx_dtype dtype = (nx_dtype)out->dtype;
    if ((dtype != NX_BF16 && dtype != NX_F16) || a->dtype != dtype || b->dtype != dtype || !nx_product_runs()) return false;
    if (out->sizes[0] < 2 || out->sizes[1] < 2 || a->sizes[1] == 0 || !find_layout(a, &x) || !find_layout(b, &y)) return false;
    h->p = product_of(a->sizes[0], b->sizes[1], a->sizes[1], &x, &y);
    return true;
}

/* Cells of equal size, enough of them for all threads. */
static nx_status multiply_halves(by_halves *h, const nx_array *start, const nx_array *out) {
    const int64_t m = h->p.m, n = h->p.n, least = 2 * NX__PANEL_MOST_ROWS, work = m * n * h->p.k;
    const int64_t wanted = nx_num_threads() > 1 && work >= 2 * WORTH_SPLITTING ? 2 * nx_num_threads() : 1;
    int64_t down = (m + HALF_ROWS - 1) / HALF_ROWS;
    h->start = start;
    h->out = out;
    h->across = (n + HALF_COLUMNS - 1) / HALF_COLUMNS;
    for (;;) {
        h->rows = (m + down - 1) / down, h->columns = (n + h->across - 1) / h->across;
        if (down * h->across >= wanted || (h->rows <= least && h->columns <= least)) break;
        if (h->columns > h->rows) h->across++;
        else down++;
    }
    down = (m + h->rows - 1) / h->rows;
    h->across = (n + h->columns - 1) / h->columns;
    return nx_parallel(down * h->across, 1 + WORTH_SPLITTING / (work / (down * h->across) + 1), run_half_cells, h);
}

nx_status nx_gemm_halves(const nx_array *start, const nx_array *a, const nx_array *b, const nx_array *out, bool *done) {
    by_halves h;
    *done = true;
    if (suits_tiles(start, a, b, out)) return nx_tiled_product(start, a, b, out);
    if (suits_halves(a, b, out, &h)) return multiply_halves(&h, start, out);
    *done = false;
    return NX_OK;
}

nx_status nx_gemm_blas(const nx_array *a, const nx_array *b, const nx_array *out) {
    nx_dtype computing = computing_dtype((nx_dtype)out->dtype); /* the halves in float */
    product p = {.m = a->sizes[0], .n = b->sizes[1], .k = a->sizes[1], .dtype = computing, .alpha = 1};
    nx_status status = NX_OK;
    if ((nx_blas_get() == NULL && !suits_panels(&p)) || p.m == 0 || p.n == 0 || p.k == 0)
        return nx_gemm_plain(a, b, out);
    bool done;
    NX_TRY(nx_gemm_halves(NULL, a, b, out, &done));
    if (done) return NX_OK;
    bool direct = find_layout(out, &p.c) && out->dtype == computing;
    bool turned = direct && p.c.transposed;
    NX_TRY_FAIL(load_operand(a, computing, &p.a));
    NX_TRY_FAIL(load_operand(b, computing, &p.b));
    if (!direct) NX_TRY_FAIL(new_packed(out, computing, &p.c));
    if (turned) turn_product(&p);
    status = fits_int(&p) ? split_blas(&p) : nx_gemm_plain(a, b, out);
    if (!direct && status == NX_OK && fits_int(&p)) store_packed(&p.c, computing, out);
fail:
    nx_room_free(p.a.packed);
    nx_room_free(p.b.packed);
    nx_room_free(p.c.packed);
    return status;
}

/* ---- tiny ------------------------------------------------------------------------------------------------ */
static bool is_float(const nx_array *a) { return a->dtype == NX_F32; }

bool nx_gemm_tiny(const nx_array *self, const nx_array *a, const nx_array *b, const nx_array *out) {
    const int64_t m = a->sizes[0], n = b->sizes[1], k = a->sizes[1], most = NX__PANEL_TINY;
    if (m > most || n > most || k > most || m * n > most || m * n * k > most || !nx_product_runs()) return false;
    if (!is_float(a) || !is_float(b) || !is_float(out) || (self && !is_float(self))) return false;
    nx__panels_get()->tiny(self, a, b, out);
    return true;
}

bool nx_gemm_adds(const nx_array *out) {
    operand c;
    bool blas = (out->dtype == NX_F32 || out->dtype == NX_F64) && nx_blas_get() != NULL;
    return blas && find_layout(out, &c);
}

/* Whether rows of elements side by side, or one for all rows of the result, are what is added. */
static bool find_start(const nx_array *self, const nx_array *out, product *p) {
    int last = self->ndim - 1;
    bool many = self->ndim == 2 && self->sizes[0] == out->sizes[0];
    bool fits = self->dtype == NX_F32 && last >= 0 && self->sizes[last] == out->sizes[1] && self->strides[last] == 1;
    if (!fits) return false;
    p->start = self->data;
    p->start_row_step = many ? self->strides[0] : 0;
    return true;
}

nx_status nx_gemm_add(const nx_array *self, const nx_array *a, const nx_array *b, double alpha, double beta,
                      const nx_array *out) {
    product p = {.m = a->sizes[0], .n = b->sizes[1], .k = a->sizes[1], .dtype = (nx_dtype)out->dtype,
                 .alpha = alpha, .beta = beta};
    nx_status status = NX_OK;
    if (out->numel == 0) return NX_OK;
    bool turned = find_layout(out, &p.c) && p.c.transposed, in_place = self->data == out->data && beta != 0;
    if (!in_place && !turned && beta == 1 && suits_panels(&p) && p.k > 0 && find_start(self, out, &p)) p.beta = 0;
    else if (!in_place && beta != 0) nx_copy_cast(out, self);
    NX_TRY_FAIL(load_operand(a, (nx_dtype)out->dtype, &p.a));
    NX_TRY_FAIL(load_operand(b, (nx_dtype)out->dtype, &p.b));
    if (turned) turn_product(&p);
    if (fits_int(&p)) status = split_blas(&p);
    else status = nx_fail(NX_NOT_IMPLEMENTED, "addmm: a size over 2147483647 is not there yet");
fail:
    nx_room_free(p.a.packed);
    nx_room_free(p.b.packed);
    return status;
}

/* ---- plain --------------------------------------------------------------------------------------------- */
enum { TILE_ROWS = 4, TILE_COLUMNS = 16 };

/* acc[r][c] = sum over k of a[k][r] * b[k][c], in order of k. */
#define TIMES(a, b) (a) * (b)
#define DEFINE_TILE(name, type, times)                                                                       \
    static void tile_##name(const void *a_panel, const void *b_panel, int64_t k, void *out) {                \
        const type *a = a_panel, *b = b_panel;                                                               \
        type acc[TILE_ROWS][TILE_COLUMNS] = {{0}};                                                           \
        for (int64_t i = 0; i < k; i++, a += TILE_ROWS, b += TILE_COLUMNS) {                                 \
            for (int r = 0; r < TILE_ROWS; r++) {                                                            \
                for (int c = 0; c < TILE_COLUMNS; c++) acc[r][c] += times(a[r], b[c]);                       \
            }                                                                                                \
        }                                                                                                    \
        memcpy(out, acc, sizeof acc);                                                                        \
    }
DEFINE_TILE(float, float, TIMES)
DEFINE_TILE(double, double, TIMES)
DEFINE_TILE(int, uint64_t, TIMES) /* wraps */
DEFINE_TILE(complex64, float _Complex, nx_complex_mulf)
DEFINE_TILE(complex128, double _Complex, nx_complex_mul)

typedef void tile_fn(const void *a_panel, const void *b_panel, int64_t k, void *out);
static tile_fn *find_tile(nx_dtype computing) {
    if (nx_is_complex(computing)) return computing == NX_C64 ? tile_complex64 : tile_complex128;
    return computing == NX_F64 ? tile_double : computing == NX_F32 ? tile_float : tile_int;
}

/* Panels of `width` lines side by side: panel[line / width][k][line % width]; missing lines are 0. */
static void pack_panels(const nx_array *a, int line_dim, int width, nx_dtype computing, char *to) {
    int64_t lines = a->sizes[line_dim], k = a->sizes[1 - line_dim],
            bytes = (int64_t)nx_dtype_bytes(computing);
    int64_t from_bytes = (int64_t)nx_dtype_bytes(a->dtype);
    for (int64_t line = 0; line < (lines + width - 1) / width * width; line++) {
        char *at = to + (line / width * width * k + line % width) * bytes;
        if (line < lines) {
            nx_cast(computing, at, width * bytes, a->dtype,
                    (char *)a->data + line * a->strides[line_dim] * from_bytes,
                    a->strides[1 - line_dim] * from_bytes, k);
        } else {
            for (int64_t i = 0; i < k; i++) memset(at + i * width * bytes, 0, (size_t)bytes);
        }
    }
}

typedef struct panels { const nx_array *out; nx_dtype computing; const char *a, *b; int64_t k; } panels;

static void store_tile(const panels *p, const char *tile, int64_t row, int64_t column) {
    const nx_array *out = p->out;
    int64_t bytes = (int64_t)nx_dtype_bytes(p->computing), out_bytes = (int64_t)nx_dtype_bytes(out->dtype);
    int64_t rows = out->sizes[0] - row < TILE_ROWS ? out->sizes[0] - row : TILE_ROWS;
    int64_t columns = out->sizes[1] - column < TILE_COLUMNS ? out->sizes[1] - column : TILE_COLUMNS;
    for (int64_t r = 0; r < rows; r++) {
        char *to = (char *)out->data + ((row + r) * out->strides[0] + column * out->strides[1]) * out_bytes;
        nx_cast(out->dtype, to, out->strides[1] * out_bytes, p->computing, tile + r * TILE_COLUMNS * bytes,
                bytes, columns);
    }
}

static nx_status run_panels(void *arg, int64_t begin, int64_t end) {
    const panels *p = arg;
    int64_t bytes = (int64_t)nx_dtype_bytes(p->computing);
    tile_fn *multiply = find_tile(p->computing);
    _Alignas(64) char tile[TILE_ROWS * TILE_COLUMNS * NX_MAX_ELEMENT_BYTES];
    for (int64_t column = 0; column < p->out->sizes[1]; column += TILE_COLUMNS) {
        for (int64_t row = begin * TILE_ROWS; row < end * TILE_ROWS && row < p->out->sizes[0];
             row += TILE_ROWS) {
            multiply(p->a + row * p->k * bytes, p->b + column * p->k * bytes, p->k, tile);
            store_tile(p, tile, row, column);
        }
    }
    return NX_OK;
}

nx_status nx_gemm_plain(const nx_array *a, const nx_array *b, const nx_array *out) {
    nx_dtype computing = computing_dtype(out->dtype);
    int64_t k = a->sizes[1], bytes = (int64_t)nx_dtype_bytes(computing);
    int64_t row_tiles = (out->sizes[0] + TILE_ROWS - 1) / TILE_ROWS;
    int64_t columns = (out->sizes[1] + TILE_COLUMNS - 1) / TILE_COLUMNS * TILE_COLUMNS;
    size_t a_bytes, b_bytes;
    if (out->numel == 0) return NX_OK;
    NX_TRY(nx_bytes_of(k, (size_t)(row_tiles * TILE_ROWS * bytes), &a_bytes));
    NX_TRY(nx_bytes_of(k, (size_t)(columns * bytes), &b_bytes));
    a_bytes = (a_bytes + 63) / 64 * 64;
    char *packed = nx_room_new(a_bytes + b_bytes + 64);
    if (packed == NULL) return nx_fail_memory(a_bytes + b_bytes + 64);
    pack_panels(a, 0, TILE_ROWS, computing, packed);
    pack_panels(b, 1, TILE_COLUMNS, computing, packed + a_bytes);
    panels p = {out, computing, packed, packed + a_bytes, k};
    int64_t work = TILE_ROWS * out->sizes[1] * (k ? k : 1),
            grain = work < WORTH_SPLITTING ? WORTH_SPLITTING / work : 1;
    nx_status status = nx_parallel(row_tiles, grain, run_panels, &p);
    nx_room_free(packed);
    return status;
}

/* ---- ref ----------------------------------------------------------------------------------------------- */
#define DEFINE_DOT(name, type, times)                                                       \
    static void dot_##name(const void *a_row, const void *b_column, int64_t k, void *out) { \
        const type *a = a_row, *b = b_column;                                               \
        type sum = 0;                                                                       \
        for (int64_t i = 0; i < k; i++) sum += times(a[i], b[i]);                           \
        memcpy(out, &sum, sizeof sum);                                                      \
    }
DEFINE_DOT(float, float, TIMES)
DEFINE_DOT(double, double, TIMES)
DEFINE_DOT(int, uint64_t, TIMES)
DEFINE_DOT(complex64, float _Complex, nx_complex_mulf)
DEFINE_DOT(complex128, double _Complex, nx_complex_mul)

static tile_fn *find_dot(nx_dtype computing) {
    if (nx_is_complex(computing)) return computing == NX_C64 ? dot_complex64 : dot_complex128;
    return computing == NX_F64 ? dot_double : computing == NX_F32 ? dot_float : dot_int;
}

static void load_line(const nx_array *a, int line_dim, int64_t line, nx_dtype computing, char *to) {
    int64_t bytes = (int64_t)nx_dtype_bytes(a->dtype);
    nx_cast(computing, to, (int64_t)nx_dtype_bytes(computing), a->dtype,
            (char *)a->data + line * a->strides[line_dim] * bytes, a->strides[1 - line_dim] * bytes,
            a->sizes[1 - line_dim]);
}

nx_status nx_gemm_ref(const nx_array *a, const nx_array *b, const nx_array *out) {
    nx_dtype computing = computing_dtype(out->dtype);
    tile_fn *dot = find_dot(computing);
    int64_t k = a->sizes[1], bytes = (int64_t)nx_dtype_bytes(computing),
            out_bytes = (int64_t)nx_dtype_bytes(out->dtype);
    size_t room;
    NX_TRY(nx_bytes_of(k, 2 * (size_t)bytes, &room));
    char *row = nx_room_new(room + 64), *column = row + k * bytes;
    if (row == NULL) return nx_fail_memory(room + 64);
    for (int64_t i = 0; i < out->sizes[0]; i++) {
        load_line(a, 0, i, computing, row);
        for (int64_t j = 0; j < out->sizes[1]; j++) {
            _Alignas(16) char sum[NX_MAX_ELEMENT_BYTES];
            load_line(b, 1, j, computing, column);
            dot(row, column, k, sum);
            nx_cast(out->dtype, (char *)out->data + (i * out->strides[0] + j * out->strides[1]) * out_bytes,
                    out_bytes, computing, sum, bytes, 1);
        }
    }
    nx_room_free(row);
    return NX_OK;
}
