/* Growing strings. Appending never fails in the caller's face: the first failure is kept and told by nx_text_take. */
#include "base/base.h"

#include <inttypes.h>
#include <stdarg.h>

static bool make_room(nx_text *text, size_t more) {
    if (text->failed) return false;
    if (text->n + more + 1 <= text->room) return true;
    size_t room = text->room ? text->room : 64;
    while (room < text->n + more + 1) room *= 2;
    char *larger = nx_realloc(text->at, text->n, room);
    if (larger == NULL) {
        text->failed = true;
        return false;
    }
    text->at = larger;
    text->room = room;
    return true;
}

/* Written a second time where the first found too little room. */
void nx_text_add(nx_text *text, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    size_t left = text->room - text->n;
    int n = vsnprintf(left ? text->at + text->n : NULL, left, format, args);
    va_end(args);
    if (n >= 0 && make_room(text, (size_t)n)) {
        if ((size_t)n >= left) vsnprintf(text->at + text->n, (size_t)n + 1, format, again);
        text->n += (size_t)n;
    }
    va_end(again);
}

void nx_text_add_char(nx_text *text, char c) {
    if (!make_room(text, 1)) return;
    text->at[text->n++] = c;
    text->at[text->n] = '\0';
}

void nx_text_add_ints(nx_text *text, const int64_t *at, int n) {
    nx_text_add(text, "[");
    for (int i = 0; i < n; i++) nx_text_add(text, i ? ", %" PRId64 : "%" PRId64, at[i]);
    nx_text_add(text, "]");
}

nx_status nx_text_take(nx_text *text, char **out) {
    if (!make_room(text, 0)) {
        nx_text_free(text);
        return nx_fail_memory(text->n);
    }
    text->at[text->n] = '\0';
    *out = text->at;
    *text = (nx_text){0};
    return NX_OK;
}

void nx_text_free(nx_text *text) {
    nx_free(text->at);
    *text = (nx_text){0};
}
