/*
 * map.h: maps from names, or from addresses, to numbers. Registries, dictionaries and vocabularies
 * find their entries by them. The tables are stb_ds's. Private.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A map is initialised with { 0 }. Names and addresses have a table each. */
typedef struct rg_map {
    struct rg_map_name *names;
    struct rg_map_address *addresses;
    struct rg_map_block *blocks; /* The memory of the tables. */
} rg_map;

/* Set the number of a key, which must not be negative. A name is copied. If there is no memory,
 * they return false, and the map becomes empty. */
bool rgi_map_put_name(rg_map *m, const char *name, int64_t number);
bool rgi_map_put_address(rg_map *m, const void *address, int64_t number);
/* Return the key's number, or -1 if the map doesn't have the key. */
int64_t rgi_map_name(const rg_map *m, const char *name);
int64_t rgi_map_address(const rg_map *m, const void *address);
/* Return the number of names, and of addresses. */
size_t rgi_map_names(const rg_map *m);
size_t rgi_map_addresses(const rg_map *m);
/* Returns the i-th name in the order of insertion. It lives as long as the map. */
const char *rgi_map_name_at(const rg_map *m, size_t i);
void rgi_map_free(rg_map *m);
