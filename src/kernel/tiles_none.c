/* Levels without instructions for products of bfloat16 (tiles.c). */
#include "kernel/tiles.h"

const nx__tile_ways NX_AT_LEVEL(nx__tiles) = {{NULL, NULL, NULL}, {NULL, NULL, NULL}};
