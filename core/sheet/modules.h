#pragma once
/*
 * modules - the nodes of a sheet, told apart by the modules that their names speak of.
 *
 * A name is cut at '/', or at '.' where no name of the model has a '/'. What stands before the last cut is the node's
 * module. Any name will do: empty ones, equal ones, ones that are nothing but cuts.
 *
 * Glossary
 *  path    names nodes. "" all of them; "/encoder/" those whose names begin so; "/encoder/[3-17]" those below that
 *          module's children 3 to 17. A path of a module may leave its last cut out, unless what then stands at its end
 *          looks like a run.
 *  child   what the nodes below a module are first told apart by: a module in it, or a node that is directly in it.
 *          Children are numbered from 0 on, in the order of their first nodes.
 *  run     children of one module that follow each other
 *  level   nodes in groups; each group is a node, or a module with at least two
 *
 * Invariants
 *  - A module with a single child is the same as that child: groups are as deep as their nodes have in common.
 *  - Groups of a level are in the order of their first nodes.
 *  - Time is linear in nodes and bytes of names, but for sorting; depth of the modules does not count.
 */
#include "base/arena.h"
#include "sheet/sheet.h"

/* Names that differ; nodes of equal names that are one text share it. */
struct sp_sheet_name {
    const char *text;
    uint32_t size;
    uint32_t module_size; /* bytes up to the last cut, and this */
};

struct sp_sheet_names {
    const struct sp_sheet *sheet;
    struct sp_arena *arena;
    char cut;
    uint32_t count;
    struct sp_sheet_name *names;
    uint32_t *name_of; /* by node */
};

struct sp_sheet_group {
    uint32_t first_node, node_count;
    uint32_t parent;      /* group of the level before */
    uint32_t child_count; /* once the next level was made */
    uint32_t size;        /* bytes of the first node's name: the path of a module with its cut, or all */
    bool is_node;
};

struct sp_sheet_level {
    uint32_t count;
    struct sp_sheet_group *groups;
    uint32_t *group_of; /* by node; SP_SHEET_NONE of those left out */
};

/* What a path names. */
struct sp_sheet_part {
    struct sp_sheet_group module; /* as deep as its nodes have in common; of a run: the module of its children */
    struct sp_sheet_level level;  /* its children; of a run: those in it */
    uint32_t first_child;         /* number of the first of them */
    bool is_run;
};

/* Everything lives in `arena`, which must outlive `ret_names`. SP_ERR_MEMORY. */
enum sp_status sp_sheet_names_create(const struct sp_sheet *sheet, struct sp_arena *arena,
                                     struct sp_sheet_names *ret_names, struct sp_error *err);

/* SP_ERR_REQUEST "NO_SUCH_MODULE" where no node is below the path ("" is always there); SP_ERR_MEMORY. */
enum sp_status sp_sheet_part_find(const struct sp_sheet_names *names, const char *path, struct sp_sheet_part *ret_part,
                                  struct sp_error *err);

/* The children of all groups of a level; a node is its own child. Sets child_count of the groups of `level`.
   SP_ERR_MEMORY. */
enum sp_status sp_sheet_level_refine(const struct sp_sheet_names *names, struct sp_sheet_level *level,
                                     struct sp_sheet_level *ret_finer, struct sp_error *err);

/* Sorts items 0 .. count - 1 by their keys, and those of equal keys as they were in `order`. false without memory. */
bool sp_sheet_sort(struct sp_arena *arena, uint32_t count, const uint32_t *keys, uint32_t *order);

/* Which nodes are below a path: 1 or 0 for each of the sheet's. As sp_sheet_part_find(). */
enum sp_status sp_sheet_mark_below(const struct sp_sheet *sheet, const char *path, uint8_t *ret_marks,
                                   struct sp_error *err);
