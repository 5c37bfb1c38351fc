/* Levels without a matrix unit (tiles.c). */
#include "kernel/tiles.h"

const nx__tiles NX_AT_LEVEL(nx__tiles) = {NULL, NULL, NULL};
