#include "sheet/modules.h"

#include <stdlib.h>
#include <string.h>

/* ---- names ------------------------------------------------------------------------------------------------------ */

bool sp_sheet_sort(struct sp_arena *arena, uint32_t count, const uint32_t *keys, uint32_t *order)
{
    enum { BITS = 8, VALUES = 1 << BITS };
    uint32_t *from = order, *to = SP_NEW_ARRAY(arena, count, uint32_t);
    if (to == NULL)
        return false;
    for (unsigned shift = 0; shift < 32; shift += BITS) { /* an even number of rounds: it ends in `order` */
        uint32_t ends[VALUES + 1] = {0};
        for (uint32_t i = 0; i < count; i++)
            ends[(keys[i] >> shift) % VALUES + 1]++;
        for (int v = 0; v < VALUES; v++)
            ends[v + 1] += ends[v];
        for (uint32_t i = 0; i < count; i++)
            to[ends[(keys[from[i]] >> shift) % VALUES]++] = from[i];
        uint32_t *sorted = to;
        to = from;
        from = sorted;
    }
    return true;
}

/* Numbers the texts that nodes have as names, in the order of the texts, and sets names[].text. */
static bool number_names(struct sp_sheet_names *names)
{
    const struct sp_sheet *sheet = names->sheet;
    uint32_t *texts = SP_NEW_ARRAY(names->arena, sheet->node_count, uint32_t);
    uint32_t *order = SP_NEW_ARRAY(names->arena, sheet->node_count, uint32_t);
    if (texts == NULL || order == NULL)
        return false;
    for (uint32_t n = 0; n < sheet->node_count; n++) {
        texts[n] = sheet->nodes[n].name;
        order[n] = n;
    }
    if (!sp_sheet_sort(names->arena, sheet->node_count, texts, order))
        return false;
    for (uint32_t i = 0; i < sheet->node_count; i++) {
        if (i == 0 || texts[order[i]] != texts[order[i - 1]])
            names->names[names->count++].text = sp_sheet_text(sheet, texts[order[i]]);
        names->name_of[order[i]] = names->count - 1;
    }
    return true;
}

/* Bytes up to the last cut, and this. */
static uint32_t module_size(const char *text, uint32_t size, char cut)
{
    while (size > 0 && text[size - 1] != cut)
        size--;
    return size;
}

enum sp_status sp_sheet_names_create(const struct sp_sheet *sheet, struct sp_arena *arena,
                                     struct sp_sheet_names *ret_names, struct sp_error *err)
{
    struct sp_sheet_names names = {.sheet = sheet, .arena = arena, .cut = '.'};
    names.names = SP_NEW_ARRAY(arena, sheet->node_count, struct sp_sheet_name);
    names.name_of = SP_NEW_ARRAY(arena, sheet->node_count, uint32_t);
    if (names.names == NULL || names.name_of == NULL || !number_names(&names))
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < names.count; i++) {
        struct sp_sheet_name *name = &names.names[i];
        name->size = (uint32_t)strlen(name->text); /* texts have less than SP_SHEET_NONE bytes in all */
        if (memchr(name->text, '/', name->size) != NULL)
            names.cut = '/';
    }
    for (uint32_t i = 0; i < names.count; i++)
        names.names[i].module_size = module_size(names.names[i].text, names.names[i].size, names.cut);
    *ret_names = names;
    return SP_OK;
}

static const struct sp_sheet_name *first_name(const struct sp_sheet_names *names, const struct sp_sheet_group *group)
{
    return &names->names[names->name_of[group->first_node]];
}

/* ---- groups ----------------------------------------------------------------------------------------------------- */

static uint32_t common_size(const char *a, const char *b, uint32_t from, uint32_t to)
{
    while (from < to && a[from] == b[from])
        from++;
    return from;
}

/*
 * Makes groups as deep as their nodes have in common. `group_of` is by name: the group whose nodes have it, where that
 * is a module; else SP_SHEET_NONE.
 */
static void deepen(const struct sp_sheet_names *names, const struct sp_sheet_level *level, const uint32_t *group_of,
                   uint32_t *common /* by group */)
{
    for (uint32_t g = 0; g < level->count; g++)
        common[g] = first_name(names, &level->groups[g])->module_size;
    for (uint32_t i = 0; i < names->count; i++) {
        const uint32_t g = group_of[i];
        if (g == SP_SHEET_NONE || level->groups[g].is_node)
            continue;
        const struct sp_sheet_name *name = &names->names[i], *first = first_name(names, &level->groups[g]);
        const uint32_t most = name->module_size < common[g] ? name->module_size : common[g];
        common[g] = name == first ? most : common_size(name->text, first->text, level->groups[g].size, most);
    }
    for (uint32_t g = 0; g < level->count; g++) {
        struct sp_sheet_group *group = &level->groups[g];
        const struct sp_sheet_name *first = first_name(names, group);
        group->is_node = group->node_count == 1;
        group->size = group->is_node ? first->size : module_size(first->text, common[g], names->cut);
    }
}

/* The part of a name by which it is told apart from others of its group: a module in that of the group. */
struct step {
    const char *text;
    uint32_t size;  /* without the cut */
    uint32_t group; /* of the coarser level */
    uint32_t index, child;
};

static bool is_same_step(const struct step *a, const struct step *b)
{
    return a->group == b->group && a->size == b->size && memcmp(a->text, b->text, a->size) == 0;
}

/* Any order will do that puts equal ones together. */
static int compare_steps(const void *left, const void *right)
{
    const struct step *a = left, *b = right;
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    if (a->size != b->size)
        return a->size < b->size ? -1 : 1;
    return memcmp(a->text, b->text, a->size);
}

struct refining {
    const struct sp_sheet_names *names;
    struct sp_sheet_level *level, finer;
    uint32_t *group_of; /* by name: of the coarser level, where the name is in a module of that; else SP_SHEET_NONE */
    uint32_t *child_of; /* by name: its child among those that are modules */
    uint32_t *number;   /* by child: its group of the finer level */
    uint32_t *child_of_step;
    struct step *steps;
    uint32_t step_count;
};

/* Neighbours mostly take the same step, so there are few to be sorted. */
static void list_steps(struct refining *refining)
{
    const struct sp_sheet_names *names = refining->names;
    for (uint32_t i = 0; i < names->count; i++) {
        const uint32_t g = refining->group_of[i];
        if (g == SP_SHEET_NONE)
            continue;
        const struct sp_sheet_name *name = &names->names[i];
        const uint32_t begin = refining->level->groups[g].size;
        const char *text = name->text + begin, *end = memchr(text, names->cut, name->size - begin);
        struct step *step = &refining->steps[refining->step_count];
        *step = (struct step){.text = text, .size = (uint32_t)(end - text), .group = g, .index = refining->step_count};
        if (refining->step_count == 0 || !is_same_step(step - 1, step))
            refining->step_count++;
        refining->child_of[i] = refining->step_count - 1; /* the step, as yet */
    }
}

static void join_steps(struct refining *refining)
{
    const struct sp_sheet_names *names = refining->names;
    struct step *steps = refining->steps;
    if (refining->step_count > 0)
        qsort(steps, refining->step_count, sizeof *steps, compare_steps);
    for (uint32_t s = 0; s < refining->step_count; s++) {
        steps[s].child = s > 0 && is_same_step(&steps[s - 1], &steps[s]) ? steps[s - 1].child : s;
        refining->child_of_step[steps[s].index] = steps[s].child;
        refining->number[s] = SP_SHEET_NONE;
    }
    for (uint32_t i = 0; i < names->count; i++) {
        if (refining->group_of[i] != SP_SHEET_NONE)
            refining->child_of[i] = refining->child_of_step[refining->child_of[i]];
    }
}

/* The group of a node, a new one for the first of a module and for each that is directly in its parent. */
static uint32_t group_node(struct refining *refining, uint32_t n, uint32_t parent)
{
    const uint32_t name = refining->names->name_of[n];
    const bool is_below = refining->group_of[name] != SP_SHEET_NONE;
    uint32_t *number = is_below ? &refining->number[refining->child_of[name]] : NULL;
    if (number != NULL && *number != SP_SHEET_NONE) {
        refining->finer.groups[*number].node_count++;
        return *number;
    }
    const uint32_t size = refining->names->names[name].size;
    refining->finer.groups[refining->finer.count] =
        (struct sp_sheet_group){.first_node = n, .node_count = 1, .parent = parent, .size = size, .is_node = !is_below};
    refining->level->groups[parent].child_count++;
    if (number != NULL)
        *number = refining->finer.count;
    return refining->finer.count++;
}

/* Which names are further down than the module of their group. Nodes of one name are all of one module. */
static void find_below(struct refining *refining)
{
    const struct sp_sheet_names *names = refining->names;
    for (uint32_t i = 0; i < names->count; i++)
        refining->group_of[i] = SP_SHEET_NONE;
    for (uint32_t n = 0; n < names->sheet->node_count; n++) {
        const uint32_t g = refining->level->group_of[n], name = names->name_of[n];
        if (g != SP_SHEET_NONE && !refining->level->groups[g].is_node &&
            names->names[name].module_size > refining->level->groups[g].size)
            refining->group_of[name] = g;
    }
}

enum sp_status sp_sheet_level_refine(const struct sp_sheet_names *names, struct sp_sheet_level *level,
                                     struct sp_sheet_level *ret_finer, struct sp_error *err)
{
    const uint32_t node_count = names->sheet->node_count;
    struct refining refining = {
        .names = names,
        .level = level,
        .finer.groups = SP_NEW_ARRAY(names->arena, node_count, struct sp_sheet_group),
        .finer.group_of = SP_NEW_ARRAY(names->arena, node_count, uint32_t),
    };
    const struct sp_arena_mark mark = sp_arena_mark(names->arena);
    refining.group_of = SP_NEW_ARRAY(names->arena, names->count, uint32_t);
    refining.child_of = SP_NEW_ARRAY(names->arena, names->count, uint32_t);
    refining.child_of_step = SP_NEW_ARRAY(names->arena, names->count, uint32_t);
    refining.number = SP_NEW_ARRAY(names->arena, node_count, uint32_t); /* deepen() has it by group */
    refining.steps = SP_NEW_ARRAY(names->arena, (size_t)names->count + 1, struct step);
    if (refining.finer.groups == NULL || refining.finer.group_of == NULL || refining.group_of == NULL ||
        refining.child_of == NULL || refining.child_of_step == NULL || refining.number == NULL ||
        refining.steps == NULL)
        return sp_fail_memory(err);
    for (uint32_t g = 0; g < level->count; g++)
        level->groups[g].child_count = 0;
    find_below(&refining);
    list_steps(&refining);
    join_steps(&refining);
    for (uint32_t n = 0; n < node_count; n++) {
        const uint32_t parent = level->group_of[n];
        refining.finer.group_of[n] = parent == SP_SHEET_NONE ? parent : group_node(&refining, n, parent);
    }
    for (uint32_t i = 0; i < names->count; i++) {
        uint32_t *group = &refining.group_of[i];
        *group = *group == SP_SHEET_NONE ? *group : refining.number[refining.child_of[i]];
    }
    /* group_of by name is of the finer level now. */
    for (uint32_t g = 0; g < refining.finer.count; g++) {
        struct sp_sheet_group *group = &refining.finer.groups[g];
        if (!group->is_node) { /* what is common to all so far: the step */
            const struct sp_sheet_name *first = first_name(names, group);
            const uint32_t begin = level->groups[group->parent].size;
            const char *end = memchr(first->text + begin, names->cut, first->size - begin);
            group->size = (uint32_t)(end - first->text) + 1;
        }
    }
    deepen(names, &refining.finer, refining.group_of, refining.number);
    sp_arena_rewind(names->arena, mark);
    *ret_finer = refining.finer;
    return SP_OK;
}

/* ---- paths ------------------------------------------------------------------------------------------------------ */

struct path {
    const char *text;
    size_t size; /* of the module's path, a cut that was left out included */
    bool is_run;
    uint64_t first, last;
};

/* A number of at most 10 digits, and what ends it. */
static bool read_number(const char **at, char end, uint64_t *ret_number)
{
    const char *begin = *at;
    uint64_t number = 0;
    for (; **at >= '0' && **at <= '9' && *at - begin < 10; (*at)++)
        number = number * 10 + (uint64_t)(**at - '0');
    if (*at == begin || **at != end)
        return false;
    (*at)++;
    *ret_number = number;
    return true;
}

static struct path read_path(const char *text, char cut)
{
    struct path path = {.text = text, .size = strlen(text)};
    const char *last_cut = strrchr(text, cut);
    const char *at = last_cut == NULL ? text : last_cut + 1;
    if (*at == '[') {
        const size_t module = (size_t)(at - text);
        at++;
        path.is_run = read_number(&at, '-', &path.first) && read_number(&at, ']', &path.last) && *at == '\0';
        if (path.is_run)
            path.size = module;
    }
    if (!path.is_run && path.size > 0 && text[path.size - 1] != cut)
        path.size++;
    return path;
}

static bool is_below(const struct sp_sheet_name *name, const struct path *path, char cut)
{
    return name->module_size >= path->size &&
           (path->size == 0 ||
            (memcmp(name->text, path->text, path->size - 1) == 0 && name->text[path->size - 1] == cut));
}

/* All nodes of the module as one group, no deeper than the path says; a level without groups where there is none. */
static enum sp_status find_module(const struct sp_sheet_names *names, const struct path *path,
                                  struct sp_sheet_level *ret_level, struct sp_error *err)
{
    const uint32_t node_count = names->sheet->node_count;
    struct sp_sheet_level level = {.groups = SP_NEW_ARRAY(names->arena, 1, struct sp_sheet_group),
                                   .group_of = SP_NEW_ARRAY(names->arena, node_count, uint32_t)};
    uint32_t *group_of = SP_NEW_ARRAY(names->arena, names->count, uint32_t), common = 0;
    if (level.groups == NULL || level.group_of == NULL || group_of == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < names->count; i++)
        group_of[i] = is_below(&names->names[i], path, names->cut) ? 0 : SP_SHEET_NONE;
    for (uint32_t n = 0; n < node_count; n++) {
        level.group_of[n] = group_of[names->name_of[n]];
        if (level.group_of[n] == SP_SHEET_NONE)
            continue;
        if (level.count == 0)
            level.groups[level.count++] = (struct sp_sheet_group){.first_node = n, .size = (uint32_t)path->size};
        level.groups[0].node_count++;
    }
    deepen(names, &level, group_of, &common);
    *ret_level = level;
    return SP_OK;
}

/* Leaves those of a run. Children are in order, so these are neighbours. */
static void keep_run(struct sp_sheet_level *level, uint32_t node_count, uint32_t first, uint32_t last)
{
    level->groups += first;
    level->count = last - first + 1;
    for (uint32_t n = 0; n < node_count; n++) {
        const uint32_t g = level->group_of[n];
        level->group_of[n] = g == SP_SHEET_NONE || g < first || g > last ? SP_SHEET_NONE : g - first;
    }
}

enum sp_status sp_sheet_part_find(const struct sp_sheet_names *names, const char *path, struct sp_sheet_part *ret_part,
                                  struct sp_error *err)
{
    const struct path read = read_path(path, names->cut);
    struct sp_sheet_level module = {0};
    *ret_part = (struct sp_sheet_part){.is_run = read.is_run};
    enum sp_status status = find_module(names, &read, &module, err);
    if (status == SP_OK)
        status = sp_sheet_level_refine(names, &module, &ret_part->level, err);
    if (status != SP_OK)
        return status;
    if ((path[0] != '\0' && module.count == 0) ||
        (read.is_run && (read.first > read.last || read.last >= ret_part->level.count)))
        return sp_fail(err, SP_ERR_REQUEST, "NO_SUCH_MODULE", "No node of the plan is below the path %s.", path);
    if (module.count > 0)
        ret_part->module = module.groups[0];
    if (read.is_run) {
        ret_part->first_child = (uint32_t)read.first;
        keep_run(&ret_part->level, names->sheet->node_count, (uint32_t)read.first, (uint32_t)read.last);
    }
    return SP_OK;
}

enum sp_status sp_sheet_mark_below(const struct sp_sheet *sheet, const char *path, uint8_t *ret_marks,
                                   struct sp_error *err)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_sheet_names names = {0};
    struct sp_sheet_part part = {0};
    if (arena == NULL)
        return sp_fail_memory(err);
    enum sp_status status = sp_sheet_names_create(sheet, arena, &names, err);
    if (status == SP_OK)
        status = sp_sheet_part_find(&names, path, &part, err);
    for (uint32_t n = 0; status == SP_OK && n < sheet->node_count; n++)
        ret_marks[n] = part.level.group_of[n] != SP_SHEET_NONE;
    sp_arena_destroy(arena);
    return status;
}
