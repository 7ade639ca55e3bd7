/*
 * map.h: maps from names, or from addresses, to numbers: which token, which entry of a registry or
 * of a dictionary, has this name; which parameters are known already. The tables are stb_ds's.
 * Private.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A map begins as { 0 }. Its names and its addresses are tables of their own. */
typedef struct rg_map {
    struct rg_map_name *names;
    struct rg_map_address *addresses;
    struct rg_map_block *blocks; /* The tables lie in these. */
} rg_map;

/* Both give the key this number, which isn't negative, in place of the one that it had. A name is
 * copied. Where there is no memory they return false, and the map is empty. */
bool rgi_map_put_name(rg_map *m, const char *name, int64_t number);
bool rgi_map_put_address(rg_map *m, const void *address, int64_t number);
/* Both return the key's number, or -1 where the map doesn't have the key. */
int64_t rgi_map_name(const rg_map *m, const char *name);
int64_t rgi_map_address(const rg_map *m, const void *address);
/* Both return how many keys of their kind there are. */
size_t rgi_map_names(const rg_map *m);
size_t rgi_map_addresses(const rg_map *m);
/* Returns the name that was the i-th to come into the map. It lives as long as the map. */
const char *rgi_map_name_at(const rg_map *m, size_t i);
void rgi_map_free(rg_map *m);
