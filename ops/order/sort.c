/* The whole order of one row, by digits: each element becomes a number whose order is theirs, and the numbers are dealt
 * by ever higher digits, which keeps equal ones in the order they had. Where the numbers have 32 bits, as those of
 * float32 and of integers that lie close together have, a number and its place are one word. Next: order.h. */
#include <string.h>

#include "shared/order.h"

enum { SHORT = 40, FEW = 3000, DIGIT = 11, SHORT_DIGIT = 8 }; /* rows put in order by insertion; dealt by short digits */

typedef struct placed { uint64_t key; int64_t at; } placed;

#define KEY_word(e) ((e) >> 32)
#define KEY_placed(e) ((e).key)

/* The n elements in order, in one of the two rooms; `differ` has the bits in which their keys are not all alike. */
#define DEFINE(type, name)                                                                                        \
    static type *deal_##name(type *from, type *to, int64_t n, uint64_t differ) {                                  \
        const int digit = n < FEW ? SHORT_DIGIT : DIGIT;                                                          \
        const uint64_t mask = (1u << digit) - 1;                                                                  \
        for (int64_t i = 1; n <= SHORT && i < n; i++) {                                                           \
            const type moving = from[i];                                                                          \
            int64_t k = i;                                                                                        \
            for (; k > 0 && KEY_##name(from[k - 1]) > KEY_##name(moving); k--) from[k] = from[k - 1];             \
            from[k] = moving;                                                                                     \
        }                                                                                                         \
        for (int shift = 0; n > SHORT && shift < 64 && differ >> shift; shift += digit) {                         \
            int64_t place[1 << DIGIT], sum = 0;                                                                   \
            if ((differ >> shift & mask) == 0) continue;                                                          \
            memset(place, 0, sizeof *place << digit);                                                             \
            for (int64_t i = 0; i < n; i++) place[KEY_##name(from[i]) >> shift & mask]++;                         \
            for (uint64_t d = 0; d <= mask; d++) {                                                                \
                const int64_t count = place[d];                                                                   \
                place[d] = sum;                                                                                   \
                sum += count;                                                                                     \
            }                                                                                                     \
            for (int64_t i = 0; i < n; i++) to[place[KEY_##name(from[i]) >> shift & mask]++] = from[i];           \
            type *swapped = from;                                                                                 \
            from = to;                                                                                            \
            to = swapped;                                                                                         \
        }                                                                                                         \
        return from;                                                                                              \
    }
DEFINE(uint64_t, word)
DEFINE(placed, placed)
#undef DEFINE

/* ---- numbers in the order of the elements; 0 and -0 are one, and so is every NaN ------------------------------------ */
static inline uint64_t key_float(float x) {
    uint32_t bits;
    x = x == 0 ? 0 : x;
    memcpy(&bits, &x, sizeof bits);
    return x != x ? UINT32_MAX : (bits >> 31 ? ~bits : bits | UINT32_C(1) << 31);
}
static inline uint64_t key_double(double x) {
    uint64_t bits;
    x = x == 0 ? 0 : x;
    memcpy(&bits, &x, sizeof bits);
    return x != x ? UINT64_MAX : (bits >> 63 ? ~bits : bits | UINT64_C(1) << 63);
}
static inline uint64_t key_int64_t(int64_t x) { return (uint64_t)x ^ UINT64_C(1) << 63; }

#define DEFINE(real)                                                                                              \
    int64_t *nx__order_all_##real(const real *x, int64_t n, bool descending, void *room) {                        \
        uint64_t least = UINT64_MAX, most = 0, *words = room, differ = 0;                                         \
        placed *pairs = room;                                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                                         \
            const uint64_t key = key_##real(x[i]);                                                                \
            least = key < least ? key : least;                                                                    \
            most = key > most ? key : most;                                                                       \
        }                                                                                                         \
        const uint64_t base = descending ? most : least, sign = descending ? UINT64_MAX : 0;                      \
        if (most - least <= UINT32_MAX && n <= UINT32_MAX) {                                                      \
            for (int64_t i = 0; i < n; i++) {                                                                     \
                const uint64_t key = ((key_##real(x[i]) - base) ^ sign) - sign; /* the distance from base */      \
                differ |= key;                                                                                    \
                words[i] = key << 32 | (uint64_t)i;                                                               \
            }                                                                                                     \
            int64_t *at = (int64_t *)deal_word(words, words + n, n, differ);                                      \
            for (int64_t i = 0; i < n; i++) at[i] &= UINT32_MAX;                                                  \
            return at;                                                                                            \
        }                                                                                                         \
        for (int64_t i = 0; i < n; i++) {                                                                         \
            pairs[i] = (placed){((key_##real(x[i]) - base) ^ sign) - sign, i};                                    \
            differ |= pairs[i].key;                                                                               \
        }                                                                                                         \
        const placed *found = deal_placed(pairs, pairs + n, n, differ);                                           \
        int64_t *at = found == pairs ? (int64_t *)(pairs + n) : room;                                             \
        for (int64_t i = 0; i < n; i++) at[i] = found[i].at;                                                      \
        return at;                                                                                                \
    }
DEFINE(float)
DEFINE(double)
DEFINE(int64_t)
