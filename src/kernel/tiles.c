/* Products of bfloat16 matrices by the processor's own instructions, with sums in float: its matrix unit (AMX), which
 * multiplies tiles of 16 lines by 32 numbers, or its dot products of pairs (AVX512_BF16). Compiled once a level; only the
 * level that has vectors of 64 bytes has them. Both operands are packed into such tiles first: a's with a line's numbers
 * side by side, b's with a line's numbers two by two and the pairs of all 16 lines side by side, which is the transpose of
 * the former in units of pairs. An element is the sum over all of k in one order, wherever the product is cut. Subnormal
 * numbers are taken as 0. */
#include "kernel/tiles.h"

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CPUID_FEATURES = 7, AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24, PAIRS_BF16 = 1 << 5, ASK_FOR_STATE = 0x1023, TILE_STATE = 18 };
static bool has_dots(void) {
    unsigned a, b, c, d;
    return __get_cpuid_count(CPUID_FEATURES, 1, &a, &b, &c, &d) && a & PAIRS_BF16;
}

static bool has_unit(void) {
    unsigned a, b, c, d;
    const unsigned needed = AMX_BF16 | AMX_TILE;
    if (!__get_cpuid_count(CPUID_FEATURES, 0, &a, &b, &c, &d) || (d & needed) != needed) return false;
    return syscall(SYS_arch_prctl, ASK_FOR_STATE, TILE_STATE) == 0; /* Linux lends it, to all threads of the process */
}

enum { STRIP = 8, NEAR = 32, LINES = 16, DEPTH = 32, TILE = LINES * DEPTH, BLOCK = 2 * LINES }; /* TILE: numbers, 1 KiB */
typedef uint16_t numbers __attribute__((vector_size(64)));
typedef uint16_t loose __attribute__((vector_size(64), aligned(2), may_alias));
typedef uint16_t loose_half __attribute__((vector_size(32), aligned(2), may_alias));
typedef int32_t pairs __attribute__((vector_size(64)));

/* ---- packing --------------------------------------------------------------------------------------------- */
/* One round of a transposition of 16 x 16 pairs: of rows `step` apart, the blocks off the diagonal change places. */
static inline __attribute__((always_inline)) void exchange(pairs *x, const int step) {
    pairs keep, move;
    for (int j = 0; j < LINES; j++) {
        keep[j] = j & step ? LINES + j - step : j;
        move[j] = j & step ? LINES + j : j + step;
    }
    for (int i = 0; i < LINES; i++) {
        if (i & step) continue;
        pairs upper = x[i], lower = x[i + step];
        x[i] = __builtin_shuffle(upper, lower, keep);
        x[i + step] = __builtin_shuffle(upper, lower, move);
    }
}

/* One tile of `matrix` from line `line` and number `k` on, what lies beyond its end as 0. */
static void pack_tile(const nx__tile_side *side, int64_t line, int64_t k, uint16_t *to) {
    const uint16_t *from = side->data + line * side->line_step + k * side->k_step;
    const int64_t lines = nx_least(LINES, side->lines - line), depth = nx_least(DEPTH, side->k - k);
    const bool whole = lines == LINES && depth == DEPTH, across = whole && side->k_step != 1 && side->line_step == 1;
    pairs x[LINES];
    if (whole && side->k_step == 1) {
        for (int i = 0; i < LINES; i++) x[i] = (pairs)*(const loose *)(from + i * side->line_step);
    } else if (across) {
        numbers side_by_side;
        for (int j = 0; j < DEPTH; j++) side_by_side[j] = (uint16_t)(j / 2 + j % 2 * LINES);
        for (int i = 0; i < LINES; i++, from += 2 * side->k_step) {
            loose_half two[2] = {*(const loose_half *)from, *(const loose_half *)(from + side->k_step)};
            numbers both;
            memcpy(&both, two, sizeof both);
            x[i] = (pairs)__builtin_shuffle(both, side_by_side);
        }
    } else {
        uint16_t part[TILE] = {0};
        for (int64_t i = 0; i < lines; i++) {
            for (int64_t j = 0; j < depth; j++) part[i * DEPTH + j] = from[i * side->line_step + j * side->k_step];
        }
        memcpy(x, part, sizeof part);
    }
    if (across != side->by_pairs) {
        exchange(x, 1);
        exchange(x, 2);
        exchange(x, 4);
        exchange(x, 8);
    }
    memcpy(to, x, sizeof x);
}

/* Lines begin*16 .. end*16, tile after tile along k. */
static void pack_lines(const nx__tile_side *side, int64_t begin, int64_t end) {
    const int64_t tiles = (side->k + DEPTH - 1) / DEPTH;
    for (int64_t at = begin; at < end; at++) {
        for (int64_t i = 0; i < tiles; i++) pack_tile(side, at * LINES, i * DEPTH, side->packed + (at * tiles + i) * TILE);
    }
}

/* ---- multiplying ----------------------------------------------------------------------------------------- */
/* Adds to the sums of a strip of a's lines by two columns of b's tiles, which lie `next` apart. */
static inline __attribute__((always_inline)) void multiply_pairs(const uint16_t *a, const uint16_t *b, int64_t tiles, int64_t next,
                                                                 const bool two_columns, float *sums) {
    __m512 c[STRIP], d[STRIP];
    for (int line = 0; line < STRIP; line++) {
        c[line] = _mm512_load_ps(sums + line * BLOCK);
        if (two_columns) d[line] = _mm512_load_ps(sums + line * BLOCK + LINES);
    }
    for (int64_t i = 0; i < tiles; i++, a += TILE, b += TILE) {
        for (int pair = 0; pair < DEPTH / 2; pair++) {
            const __m512bh y = (__m512bh)_mm512_load_si512(b + pair * 2 * LINES);
            const __m512bh z = two_columns ? (__m512bh)_mm512_load_si512(b + next + pair * 2 * LINES) : y;
            for (int line = 0; line < STRIP; line++) {
                int32_t numbers_of_a;
                memcpy(&numbers_of_a, a + line * DEPTH + 2 * pair, sizeof numbers_of_a);
                const __m512bh x = (__m512bh)_mm512_set1_epi32(numbers_of_a);
                c[line] = _mm512_dpbf16_ps(c[line], x, y);
                if (two_columns) d[line] = _mm512_dpbf16_ps(d[line], x, z);
            }
        }
    }
    for (int line = 0; line < STRIP; line++) {
        _mm512_store_ps(sums + line * BLOCK, c[line]);
        if (two_columns) _mm512_store_ps(sums + line * BLOCK + LINES, d[line]);
    }
}

/* Tile registers 0 to 3 hold the sums of 2 x 2 tiles, 4 and 5 those of a, 6 and 7 those of b. */
static inline __attribute__((always_inline)) void multiply_tiles(const uint16_t *a, const uint16_t *b, int64_t tiles, const bool two_rows,
                                                                 const bool two_columns, float *sums) {
    const int64_t next = tiles * TILE;
    _tile_zero(0);
    if (two_columns) _tile_zero(1);
    if (two_rows) _tile_zero(2);
    if (two_rows && two_columns) _tile_zero(3);
    for (int64_t i = 0; i < tiles; i++, a += TILE, b += TILE) {
        _tile_loadd(4, a, 64);
        _tile_loadd(6, b, 64);
        _tile_dpbf16ps(0, 4, 6);
        if (two_columns) _tile_loadd(7, b + next, 64);
        if (two_columns) _tile_dpbf16ps(1, 4, 7);
        if (two_rows) _tile_loadd(5, a + next, 64);
        if (two_rows) _tile_dpbf16ps(2, 5, 6);
        if (two_rows && two_columns) _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, sums, 4 * BLOCK);
    if (two_columns) _tile_stored(1, sums + LINES, 4 * BLOCK);
    if (two_rows) _tile_stored(2, sums + LINES * BLOCK, 4 * BLOCK);
    if (two_rows && two_columns) _tile_stored(3, sums + LINES * BLOCK + LINES, 4 * BLOCK);
}

static void add_start(const nx__tile_result *out, int64_t row, int64_t column, int64_t columns, float *sums) {
    const uint16_t *from = out->start + row * out->start_row_step + column * out->start_column_step;
    if (out->start_column_step == 1) {
        for (int64_t j = 0; j < columns; j++) sums[j] += nx_load_bf16(from[j]);
    } else {
        for (int64_t j = 0; j < columns; j++) sums[j] += nx_load_bf16(from[j * out->start_column_step]);
    }
}

static void store_block(const nx__tile_result *out, int64_t row, int64_t column, float *sums) {
    const int64_t rows = nx_least(BLOCK, out->rows - row), columns = nx_least(BLOCK, out->columns - column), right = out->column_step;
    for (int64_t i = 0; i < rows; i++, sums += BLOCK) {
        const int64_t first = (row + i) * out->row_step + column * right;
        float *wide = (float *)out->data + first;
        uint16_t *narrow = (uint16_t *)out->data + first;
        if (out->start) add_start(out, row + i, column, columns, sums);
        if (out->dtype == NX_F32) {
            for (int64_t j = 0; j < columns; j++) wide[j * right] = sums[j];
        } else if (right == 1) {
            for (int64_t j = 0; j < columns; j++) narrow[j] = nx_store_bf16(sums[j]);
        } else {
            for (int64_t j = 0; j < columns; j++) narrow[j * right] = nx_store_bf16(sums[j]);
        }
    }
}

static void multiply_by_pairs(const nx__tile_side *a, const nx__tile_side *b, const nx__tile_result *out, int64_t row, int64_t rows,
                              int64_t column, int64_t columns) {
    const int64_t tiles = (a->k + DEPTH - 1) / DEPTH, next = tiles * TILE;
    _Alignas(64) float sums[BLOCK * BLOCK];
    for (int64_t j = column; j < column + columns; j += BLOCK) {
        for (int64_t i = row; i < row + rows; i += BLOCK) {
            const int64_t lines = nx_least(BLOCK, a->lines - i);
            memset(sums, 0, sizeof sums);
            for (int64_t k = 0; k < tiles; k += NEAR) { /* so many tiles of b stay in the first-level cache */
                const uint16_t *y = b->packed + j * tiles * DEPTH + k * TILE;
                for (int64_t at = 0; at < lines; at += STRIP) {
                    const uint16_t *x = a->packed + (i + at) / LINES * next + k * TILE + at % LINES * DEPTH;
                    if (b->lines - j > LINES) multiply_pairs(x, y, nx_least(NEAR, tiles - k), next, true, sums + at * BLOCK);
                    else multiply_pairs(x, y, nx_least(NEAR, tiles - k), next, false, sums + at * BLOCK);
                }
            }
            store_block(out, i, j, sums);
        }
    }
}

static void multiply_by_unit(const nx__tile_side *a, const nx__tile_side *b, const nx__tile_result *out, int64_t row, int64_t rows,
                     int64_t column, int64_t columns) {
    const struct { uint8_t palette, start_row, unused[14]; uint16_t bytes[16]; uint8_t lines[16]; } shape = {
        .palette = 1, .bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .lines = {16, 16, 16, 16, 16, 16, 16, 16}};
    const int64_t tiles = (a->k + DEPTH - 1) / DEPTH;
    _Alignas(64) float sums[BLOCK * BLOCK];
    _tile_loadconfig(&shape);
    for (int64_t j = column; j < column + columns; j += BLOCK) {
        const uint16_t *y = b->packed + j * tiles * DEPTH;
        for (int64_t i = row; i < row + rows; i += BLOCK) {
            const uint16_t *x = a->packed + i * tiles * DEPTH;
            const bool two_rows = a->lines - i > LINES, two_columns = b->lines - j > LINES;
            if (two_rows && two_columns) multiply_tiles(x, y, tiles, true, true, sums);
            else if (two_rows) multiply_tiles(x, y, tiles, true, false, sums);
            else if (two_columns) multiply_tiles(x, y, tiles, false, true, sums);
            else multiply_tiles(x, y, tiles, false, false, sums);
            store_block(out, i, j, sums);
        }
    }
    _tile_release();
}

const nx__tile_ways NX_AT_LEVEL(nx__tiles) = {{has_unit, pack_lines, multiply_by_unit},
                                              {has_dots, pack_lines, multiply_by_pairs}};
