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

/* The id of this name, or SP_NO_NAME when it was never added. */
uint32_t sp_intern_find(const struct sp_intern *names, const char *bytes, size_t size);

/* The name of an id below sp_intern_count(). */
const char *sp_intern_name(const struct sp_intern *names, uint32_t id);

uint32_t sp_intern_count(const struct sp_intern *names);
