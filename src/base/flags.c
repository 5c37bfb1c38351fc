/* Reads the environment, once, when the library is loaded. flags.def is the list. */
#include "base/base.h"

#include <stdlib.h>

nx_flags nx_flag;

static bool read_bool(const char *variable, bool initial) {
    const char *text = getenv(variable);
    return text == NULL || *text == '\0' ? initial : strcmp(text, "0") != 0;
}

static const char *read_text(const char *variable, const char *initial) {
    const char *text = getenv(variable);
    return text == NULL || *text == '\0' ? initial : text;
}

__attribute__((constructor(101))) static void read_flags(void) {
#define NX_FLAG_ROW(name, type, initial, variable, meaning) \
    nx_flag.name = _Generic((type){0}, bool: read_bool, const char *: read_text)(variable, initial);
#include "base/flags.def"
#undef NX_FLAG_ROW
}
