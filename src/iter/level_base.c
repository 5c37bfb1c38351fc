/* Processors that have loops of level base only. */
#include "iter/private.h"

bool nx__has_v4(void) { return false; }
