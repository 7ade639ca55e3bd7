/*
 * map.h: maps from names, or from addresses, to numbers. Registries, dictionaries and vocabularies
 * use a map to find the index of an entry. The tables inside are those of stb_ds. Private.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A map is initialised with { 0 }. It has one table for names and one for addresses. */
typedef struct rg_map {
    struct rg_map_name *names;
    struct rg_map_address *addresses;
    struct rg_map_block *blocks; /* The memory of the tables. */
} rg_map;

/* Set the number of a key. The number must not be negative. The map keeps its own copy of a name.
 * If memory runs out, the call returns false and leaves the map empty. */
bool rgi_map_put_name(rg_map *m, const char *name, int64_t number);
bool rgi_map_put_address(rg_map *m, const void *address, int64_t number);
/* Return the key's number, or -1 if the key isn't in the map. */
int64_t rgi_map_name(const rg_map *m, const char *name);
int64_t rgi_map_address(const rg_map *m, const void *address);
/* Return how many names, or addresses, are in the map. */
size_t rgi_map_names(const rg_map *m);
size_t rgi_map_addresses(const rg_map *m);
/* Returns the i-th name in the order of insertion. The string lives as long as the map. */
const char *rgi_map_name_at(const rg_map *m, size_t i);
void rgi_map_free(rg_map *m);
