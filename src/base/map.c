/* A map from pointers to pointers: open addressing, linear probing, at most half full, no removal. */
#include "base/base.h"

static size_t slot_of(const nx_map *map, const void *key) {
    uint64_t hash = ((uint64_t)(uintptr_t)key >> 4) * UINT64_C(0x9E3779B97F4A7C15);
    size_t mask = (size_t)map->room - 1, at = (size_t)(hash >> 32) & mask;
    while (map->slots[at].key != NULL && map->slots[at].key != key) at = (at + 1) & mask;
    return at;
}

void *nx_map_get(const nx_map *map, const void *key) {
    return map->room ? map->slots[slot_of(map, key)].value : NULL;
}

static nx_status grow(nx_map *map) {
    nx_map larger = {.room = map->room ? 2 * map->room : 16, .n = map->n};
    size_t bytes = sizeof *larger.slots * (size_t)larger.room;
    larger.slots = nx_alloc_zeroed(bytes);
    if (larger.slots == NULL) return nx_fail_memory(bytes);
    for (int i = 0; i < map->room; i++) {
        if (map->slots[i].key) larger.slots[slot_of(&larger, map->slots[i].key)] = map->slots[i];
    }
    nx_free(map->slots);
    *map = larger;
    return NX_OK;
}

nx_status nx_map_set(nx_map *map, const void *key, void *value) {
    if (2 * (map->n + 1) > map->room) NX_TRY(grow(map));
    struct nx_map_slot *slot = &map->slots[slot_of(map, key)];
    if (slot->key == NULL) map->n++;
    *slot = (struct nx_map_slot){key, value};
    return NX_OK;
}

void nx_map_free(nx_map *map) {
    nx_free(map->slots);
    *map = (nx_map){0};
}

int nx_numbers_find(const nx_numbers *numbers, const void *key) {
    if (numbers->n > NX_NUMBERS_FEW) return (int)(intptr_t)nx_map_get(&numbers->more, key) - 1;
    for (int i = 0; i < numbers->n; i++) {
        if (numbers->few[i] == key) return numbers->numbers[i];
    }
    return -1;
}

static nx_status add_to_map(nx_numbers *numbers, const void *key, int number) {
    for (int i = 0; i < NX_NUMBERS_FEW && numbers->n == NX_NUMBERS_FEW; i++)
        NX_TRY(nx_map_set(&numbers->more, numbers->few[i], (void *)(intptr_t)(numbers->numbers[i] + 1)));
    return nx_map_set(&numbers->more, key, (void *)(intptr_t)(number + 1));
}

nx_status nx_numbers_add(nx_numbers *numbers, const void *key, int number, int *first) {
    int found = nx_numbers_find(numbers, key);
    if (first) *first = found < 0 ? number : found;
    if (found >= 0) return NX_OK;
    if (numbers->n >= NX_NUMBERS_FEW) {
        NX_TRY(add_to_map(numbers, key, number));
    } else {
        numbers->few[numbers->n] = key;
        numbers->numbers[numbers->n] = number;
    }
    numbers->n++;
    return NX_OK;
}
