#include "index/modules.h"

#include <stdio.h>
#include <string.h>

#include "base/intern.h"

#define NO_LAST (SP_INDEX_NONE - 1) /* last_child of a path that is no run */

static const char *name_of(const struct sp_index *index, uint32_t node)
{
    return sp_index_text(index, index->nodes[node].name);
}

char sp_index_separator(const struct sp_index *index)
{
    for (uint32_t n = 0; n < index->count.nodes; n++) {
        if (strchr(name_of(index, n), '/') != NULL)
            return '/';
    }
    return '.';
}

/* ---- paths ------------------------------------------------------------------------------------------------------ */

/* A number without needless zeros, which leads to what follows it; NULL where there is none. */
static const char *read_number(const char *text, uint32_t *ret_number)
{
    uint64_t number = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9' && number < NO_LAST; at++)
        number = number * 10 + (uint64_t)(*at - '0');
    if (at == text || number >= NO_LAST || (*text == '0' && at > text + 1))
        return NULL;
    *ret_number = (uint32_t)number;
    return at;
}

/* What follows "3-17@"; NULL where a text does not begin so. */
static const char *read_run(const char *text, uint32_t *ret_first, uint32_t *ret_last)
{
    const char *at = read_number(text, ret_first);
    at = at != NULL && *at == '-' ? read_number(at + 1, ret_last) : NULL;
    return at != NULL && *at == '@' ? at + 1 : NULL;
}

struct sp_index_path sp_index_path_read(const char *text)
{
    struct sp_index_path path = {.last_child = NO_LAST};
    uint32_t first, last;
    const char *module = read_run(text, &first, &last);
    if (module != NULL) {
        path.first_child = first;
        path.last_child = last;
    } else {
        module = text + (*text == '@');
    }
    path.module = module;
    path.size = strlen(module);
    return path;
}

char *sp_index_path_write(struct sp_arena *arena, const struct sp_index_path *path)
{
    uint32_t first, last;
    char *text = sp_arena_string(arena, path->module, path->size);
    if (text == NULL)
        return NULL;
    if (path->last_child != NO_LAST)
        return sp_arena_printf(arena, "%u-%u@%s", path->first_child, path->last_child, text);
    if (*text == '@' || read_run(text, &first, &last) != NULL)
        return sp_arena_printf(arena, "@%s", text);
    return text;
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

/* Whether a name is below a module: the module, a cut, and more, if only nothing. */
static bool is_below(const char *name, const char *module, size_t size, char separator)
{
    return size == 0 || (strncmp(name, module, size) == 0 && name[size] == separator);
}

size_t sp_index_prefix(const struct sp_index_selection *selection, const char *name, uint32_t pieces, bool *ret_is_node)
{
    const size_t base = selection->module_size;
    const char *at = name + base; /* at the cut behind the module, or at the first character */
    for (; pieces > 0 && *at != '\0'; pieces--) {
        const char *cut = strchr(at + 1, selection->separator);
        at = cut != NULL ? cut : at + strlen(at);
    }
    *ret_is_node = *at == '\0';
    return (size_t)(at - name);
}

size_t sp_index_common_module(const struct sp_index_selection *selection, const uint32_t *nodes, uint32_t count)
{
    const char *first = name_of(selection->index, nodes[0]);
    size_t common = strlen(first);
    for (uint32_t i = 1; i < count; i++) {
        const char *name = name_of(selection->index, nodes[i]);
        size_t same = 0;
        while (same < common && name[same] == first[same])
            same++;
        common = same;
    }
    /* A cut that all of them have; where one name ends within another, the cut behind it is not common. */
    while (common > 0) {
        common--;
        if (common > 0 && first[common] == selection->separator)
            break;
    }
    return common > selection->module_size ? common : selection->module_size;
}

/* ---- groups ----------------------------------------------------------------------------------------------------- */

enum sp_status sp_index_group(const struct sp_index_selection *selection, uint32_t pieces, uint64_t hash_seed,
                              struct sp_arena *arena, uint32_t **ret_groups, uint32_t *ret_count, struct sp_error *err)
{
    struct sp_intern *modules = sp_intern_create(arena, hash_seed);
    uint32_t *groups = SP_NEW_ARRAY(arena, selection->count, uint32_t);
    uint32_t *group_of = SP_NEW_ARRAY(arena, selection->count, uint32_t); /* by the number in `modules` */
    uint32_t count = 0;
    if (modules == NULL || groups == NULL || group_of == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < selection->count; i++) {
        const char *name = name_of(selection->index, selection->nodes[i]);
        bool is_node;
        const size_t size = sp_index_prefix(selection, name, pieces, &is_node);
        if (is_node) {
            groups[i] = count++;
            continue;
        }
        const uint32_t known = sp_intern_count(modules);
        const uint32_t module = sp_intern_add(modules, name, size);
        if (module == SP_NO_NAME)
            return sp_fail_memory(err);
        if (module == known)
            group_of[module] = count++;
        groups[i] = group_of[module];
    }
    *ret_groups = groups;
    *ret_count = count;
    return SP_OK;
}

/* ---- selections ------------------------------------------------------------------------------------------------- */

/* Keeps the nodes of a run: children of the module that was asked for. */
static enum sp_status keep_run(struct sp_index_selection *selection, uint32_t *nodes, const struct sp_index_path *path,
                               uint64_t hash_seed, struct sp_arena *arena, struct sp_error *err)
{
    uint32_t *children = NULL, child_count = 0, kept = 0;
    const enum sp_status status = sp_index_group(selection, 1, hash_seed, arena, &children, &child_count, err);
    for (uint32_t i = 0; status == SP_OK && children != NULL && i < selection->count; i++) {
        if (children[i] >= path->first_child && children[i] <= path->last_child)
            nodes[kept++] = nodes[i];
    }
    selection->is_run = kept < selection->count;
    selection->count = kept;
    return status;
}

static void keep_stage(struct sp_index_selection *selection, uint32_t *nodes, uint32_t stage)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < selection->count; i++) {
        if (selection->index->nodes[nodes[i]].stage == stage)
            nodes[kept++] = nodes[i];
    }
    selection->count = kept;
}

enum sp_status sp_index_select(const struct sp_index *index, const char *text, uint32_t stage, uint64_t hash_seed,
                               struct sp_arena *arena, struct sp_index_selection *ret_selection, struct sp_error *err)
{
    const struct sp_index_path path = sp_index_path_read(text);
    struct sp_index_selection selection = {
        .index = index, .separator = sp_index_separator(index), .module = path.module, .module_size = path.size};
    uint32_t *nodes = SP_NEW_ARRAY(arena, index->count.nodes, uint32_t);
    enum sp_status status = SP_OK;
    if (nodes == NULL)
        return sp_fail_memory(err);
    selection.nodes = nodes;
    for (uint32_t n = 0; n < index->count.nodes; n++) {
        if (is_below(name_of(index, n), path.module, path.size, selection.separator))
            nodes[selection.count++] = n;
    }
    if (path.last_child != NO_LAST)
        status = keep_run(&selection, nodes, &path, hash_seed, arena, err);
    if (status != SP_OK)
        return status;
    if (selection.count == 0 && *text != '\0')
        return sp_fail(err, SP_ERR_REQUEST, "NO_SUCH_MODULE", "The model has no module \"%s\".", text);
    if (stage != SP_INDEX_NONE)
        keep_stage(&selection, nodes, stage);
    if (selection.count > 1) {
        const size_t size = sp_index_common_module(&selection, nodes, selection.count);
        selection.is_run = selection.is_run && size == selection.module_size;
        selection.module = name_of(index, nodes[0]);
        selection.module_size = size;
    }
    *ret_selection = selection;
    return SP_OK;
}
