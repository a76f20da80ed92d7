#pragma once
/*
 * modules - nodes by the modules that their names tell of, and the paths by which parts of a model are asked for.
 *
 * A name is cut at each '/' (at each '.' where no name of the model has a '/') but a first character; what stands
 * before a cut is a module that the node is in, and what stands between two cuts is a piece. The *children* of a module
 * are the modules one piece longer, and the nodes that are in no such one, each by itself; they are numbered in the
 * order of their first nodes. The whole model is the module "".
 *
 * A *path* is a module, or some neighbours among a module's children, a run: "3-17@/encoder" are the children 3 to 17
 * of the module "/encoder". A module whose name looks like a run, or begins with '@', is written with an '@' before it.
 * Names come from strangers, so tables of them are hashed with a seed, on which no result depends.
 */
#include "base/arena.h"
#include "index/index.h"

struct sp_index_path {
    const char *module; /* `size` bytes of the path that was read */
    size_t size;
    uint32_t first_child, last_child; /* of a run; else 0 and SP_INDEX_NONE - 1 */
};

/* Some nodes of an index, ascending, and what is known of their names. */
struct sp_index_selection {
    const struct sp_index *index;
    char separator;
    const char
        *module; /* of all of them: where the module that was asked for has a single child, that one, and so on */
    size_t module_size;
    bool is_run; /* not all of the module's nodes are there */
    uint32_t count;
    const uint32_t *nodes;
};

/* '/' or '.'. */
char sp_index_separator(const struct sp_index *index);

/* What a path says; it is not looked whether there is such a module. */
struct sp_index_path sp_index_path_read(const char *text);

/* A path in `arena`; of a module for first_child 0 and last_child SP_INDEX_NONE - 1. NULL without memory. */
char *sp_index_path_write(struct sp_arena *arena, const struct sp_index_path *path);

/* The nodes that a path stands for, and of these those of a stage (SP_INDEX_NONE: all), which may be none. In `arena`.
   SP_ERR_REQUEST "NO_SUCH_MODULE"; SP_ERR_MEMORY. */
enum sp_status sp_index_select(const struct sp_index *index, const char *text, uint32_t stage, uint64_t hash_seed,
                               struct sp_arena *arena, struct sp_index_selection *ret_selection, struct sp_error *err);

/* The part of a name that is below the module: the bytes of its first `pieces` pieces with the module before them;
   `*ret_is_node` where that is all of the name. */
size_t sp_index_prefix(const struct sp_index_selection *selection, const char *name, uint32_t pieces,
                       bool *ret_is_node);

/* Numbers the groups of a selection that `pieces` pieces tell apart, by their first nodes: ret_groups has one number
   for each node of the selection. Both in `arena`. SP_ERR_MEMORY. */
enum sp_status sp_index_group(const struct sp_index_selection *selection, uint32_t pieces, uint64_t hash_seed,
                              struct sp_arena *arena, uint32_t **ret_groups, uint32_t *ret_count, struct sp_error *err);

/* The longest module that all of some nodes of the selection are in: bytes of the first one's name. */
size_t sp_index_common_module(const struct sp_index_selection *selection, const uint32_t *nodes, uint32_t count);
