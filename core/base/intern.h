#pragma once
/*
 * intern - one copy of each name of a model, numbered in the order of first appearance.
 *
 * Names are the identity of values in ONNX. Interning makes that identity a small integer: ids run from 0 without gaps,
 * so tables about names are plain arrays. Hashing is XXH3 with a seed, because names come from strangers: give each
 * process a random seed (sp_intern_create()'s argument), results never depend on it.
 *
 * Ownership: names and table live in the arena given at creation. Names hold no NUL and are NUL-terminated.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

#define SP_NO_NAME UINT32_MAX

struct sp_intern;

/* NULL without memory. */
struct sp_intern *sp_intern_create(struct sp_arena *arena, uint64_t seed);

/* The id of this name, added if it is new; SP_NO_NAME without memory. */
uint32_t sp_intern_add(struct sp_intern *names, const char *bytes, size_t size);

/* The one copy of this name, added if it is new; NULL without memory. */
const char *sp_intern_text(struct sp_intern *names, const char *bytes, size_t size);

/* The same in steps, for readers of many names: the hash, which also starts to fetch the place where the name would be;
   the copy, or NULL when it was never added; the new copy of a name that was not found, or NULL without memory. */
uint64_t sp_intern_hash(const struct sp_intern *names, const char *bytes, size_t size);
const char *sp_intern_lookup(const struct sp_intern *names, uint64_t hash, const char *bytes, size_t size);
const char *sp_intern_insert(struct sp_intern *names, uint64_t hash, const char *bytes, size_t size);

/* Starts to fetch the name itself, once its place has come. */
void sp_intern_fetch(const struct sp_intern *names, uint64_t hash);

/* Room for so many names at once: without it the table grows as they come. Without memory nothing happens. */
void sp_intern_reserve(struct sp_intern *names, uint32_t count);

/* A word that each name of a table carries for whoever works with it; NULL at first. `name` is the table's copy. */
void **sp_intern_mark(const char *name);

/* The id of this name, or SP_NO_NAME when it was never added. */
uint32_t sp_intern_find(const struct sp_intern *names, const char *bytes, size_t size);

/* The name of an id below sp_intern_count(). */
const char *sp_intern_name(const struct sp_intern *names, uint32_t id);

uint32_t sp_intern_count(const struct sp_intern *names);
