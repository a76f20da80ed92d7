#pragma once
/*
 * build_index - an index put together in memory, without a plan: what slices of one are tested on.
 *
 *     struct built_index *built = built_new();
 *     built_node(built, "/a/x", "MatMul", 0, 2.0);
 *     built_tensor(built, "t", 100, 0, 2, (uint32_t[]){1, 2});
 *     ... *built_finish(built) ...
 *     built_release(built);
 */
#include "index/index.h"

struct built_index;

struct built_index *built_new(void);
void built_release(struct built_index *built);

/* Returns its number. The stage's number must be below 1024; flops, bytes and weights follow from the seconds. */
uint32_t built_node(struct built_index *built, const char *name, const char *operator_type, uint32_t stage,
                    double seconds);
/* An activation; SP_INDEX_NONE: without a producer. Consumers ascend. */
uint32_t built_tensor(struct built_index *built, const char *name, double bytes, uint32_t producer, uint32_t count,
                      const uint32_t *consumers);

/* Stages: as many as nodes need, at least one. Nodes have no operands. Stays until anything is added. */
const struct sp_index *built_finish(struct built_index *built);

#define BUILT_RANDOM_NODES 64 /* at most */

/* Names of few pieces, so that modules meet and end within each other; stages and tensors as chance says. */
struct built_index *built_random(uint64_t *seed);
/* So many stages of one node each, which makes a tensor that all later ones use: every pair of stages has one. */
struct built_index *built_stages(uint32_t stages);

/* Names from malloc: `count` times a character, and an end; `count` characters of 1 to 4 bytes between two texts. */
char *built_name(char c, size_t count, const char *end);
char *built_wide_name(const char *begin, size_t count, const char *end);
