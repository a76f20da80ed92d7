#include "index/rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/sorted.h"
#include "index/modules.h"

#define BIT(table) (1u << (table))
#define ALL        (BIT(SP_INDEX_NODES) | BIT(SP_INDEX_TENSORS) | BIT(SP_INDEX_COLLECTIVES) | BIT(SP_INDEX_FINDINGS))

bool sp_index_table_sorts(enum sp_index_table table, enum sp_index_order order)
{
    static const unsigned tables[] = {
        [SP_INDEX_BY_INDEX] = ALL,
        [SP_INDEX_BY_NAME] = BIT(SP_INDEX_NODES) | BIT(SP_INDEX_TENSORS),
        [SP_INDEX_BY_SECONDS] = BIT(SP_INDEX_NODES) | BIT(SP_INDEX_COLLECTIVES),
        [SP_INDEX_BY_FLOPS] = BIT(SP_INDEX_NODES),
        [SP_INDEX_BY_BYTES] = BIT(SP_INDEX_NODES) | BIT(SP_INDEX_TENSORS) | BIT(SP_INDEX_COLLECTIVES),
        [SP_INDEX_BY_BYTES_PER_DEVICE] = BIT(SP_INDEX_TENSORS),
    };
    return (tables[order] & BIT(table)) != 0;
}

/* ---- a query at work -------------------------------------------------------------------------------------------- */

struct asking {
    const struct sp_index *index;
    const struct sp_index_rows_query *query;
    bool *is_marked;  /* per tensor, where nodes are asked for by one, or tensors by a node or a stage; else NULL */
    bool *is_below;   /* per node, where a path is asked for; else NULL */
    uint32_t *sorted; /* of the other index, with `differs_from`: its tensors that have rows, by name */
    uint32_t sorted_count;
};

static const char *node_name(const struct sp_index *index, uint32_t node)
{
    return node != SP_INDEX_NONE ? sp_index_text(index, index->nodes[node].name) : NULL;
}

static const char *tensor_name(const struct sp_index *index, uint32_t tensor)
{
    return tensor != SP_INDEX_NONE ? sp_index_text(index, index->tensors[tensor].name) : NULL;
}

/* Whether a text is what is asked for, if anything is. */
static bool is_asked(const char *asked, const char *text)
{
    return asked == NULL || (text != NULL && strcmp(asked, text) == 0);
}

static bool is_found(const char *search, const char *text)
{
    return text != NULL && strcasestr(text, search) != NULL;
}

static bool mark_tensors(struct asking *asking, struct sp_arena *arena)
{
    const struct sp_index *index = asking->index;
    const struct sp_index_rows_query *query = asking->query;
    const bool is_of_nodes = query->table == SP_INDEX_TENSORS && (query->node != NULL || query->stage != SP_INDEX_NONE);
    if (!is_of_nodes && (query->table != SP_INDEX_NODES || query->tensor == NULL))
        return true;
    asking->is_marked = SP_NEW_ARRAY(arena, index->count.tensors, bool);
    if (asking->is_marked == NULL)
        return false;
    for (uint32_t t = 0; !is_of_nodes && t < index->count.tensors; t++)
        asking->is_marked[t] = is_asked(query->tensor, tensor_name(index, t));
    for (uint32_t n = 0; is_of_nodes && n < index->count.nodes; n++) {
        const struct sp_index_node *node = &index->nodes[n];
        if (!is_asked(query->node, node_name(index, n)) ||
            (query->stage != SP_INDEX_NONE && node->stage != query->stage))
            continue;
        for (uint32_t i = 0; i < node->input_count + node->output_count; i++)
            asking->is_marked[index->operands[node->first_operand + i]] = true;
    }
    return true;
}

static enum sp_status find_below(struct asking *asking, struct sp_arena *arena, struct sp_error *err)
{
    const struct sp_index_rows_query *query = asking->query;
    struct sp_index_selection selection;
    if (query->path == NULL)
        return SP_OK;
    const enum sp_status status =
        sp_index_select(asking->index, query->path, SP_INDEX_NONE, query->hash_seed, arena, &selection, err);
    if (status != SP_OK)
        return status;
    asking->is_below = SP_NEW_ARRAY(arena, asking->index->count.nodes, bool);
    if (asking->is_below == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < selection.count; i++)
        asking->is_below[selection.nodes[i]] = true;
    return SP_OK;
}

static int by_tensor_name(const void *a, const void *b, void *context)
{
    const struct sp_index *index = context;
    return strcmp(tensor_name(index, *(const uint32_t *)a), tensor_name(index, *(const uint32_t *)b));
}

static bool sort_others(struct asking *asking, struct sp_arena *arena)
{
    const struct sp_index *other = asking->query->differs_from;
    if (other == NULL)
        return true;
    asking->sorted = SP_NEW_ARRAY(arena, other->count.tensors, uint32_t);
    if (asking->sorted == NULL)
        return false;
    for (uint32_t t = 0; t < other->count.tensors; t++) {
        if (other->tensors[t].row.size > 0)
            asking->sorted[asking->sorted_count++] = t;
    }
    if (asking->sorted_count > 1)
        qsort_r(asking->sorted, asking->sorted_count, sizeof asking->sorted[0], by_tensor_name,
                (void *)(uintptr_t)other);
    return true;
}

/* The spec that the other index has of a tensor of this name, as a text of that index. */
static uint32_t other_spec(const struct asking *asking, const char *name)
{
    const struct sp_index *other = asking->query->differs_from;
    uint32_t at;
    SP_LOWER_BOUND(at, asking->sorted_count, strcmp(tensor_name(other, asking->sorted[at]), name) < 0);
    bool is_found = at < asking->sorted_count && strcmp(tensor_name(other, asking->sorted[at]), name) == 0;
    return is_found ? other->tensors[asking->sorted[at]].spec : SP_INDEX_NONE;
}

/* ---- which rows match ------------------------------------------------------------------------------------------- */

static bool has_marked(const struct asking *asking, const struct sp_index_node *node)
{
    for (uint32_t i = 0; i < node->input_count + node->output_count; i++) {
        if (asking->is_marked[asking->index->operands[node->first_operand + i]])
            return true;
    }
    return false;
}

static bool node_matches(const struct asking *asking, uint32_t row)
{
    const struct sp_index_rows_query *query = asking->query;
    const struct sp_index_node *node = &asking->index->nodes[row];
    const char *name = node_name(asking->index, row), *type = sp_index_text(asking->index, node->operator_type);
    return (query->index == SP_INDEX_NONE || query->index == row) &&
           (query->stage == SP_INDEX_NONE || query->stage == node->stage) && is_asked(query->name, name) &&
           is_asked(query->operator_type, type) && (asking->is_below == NULL || asking->is_below[row]) &&
           (asking->is_marked == NULL || has_marked(asking, node)) &&
           (query->search == NULL || is_found(query->search, name) || is_found(query->search, type));
}

/* Those that the plan's JSON has. */
static bool tensor_matches(const struct asking *asking, uint32_t row)
{
    static const char *const kinds[] = {"activation", "input", "weight"};
    const struct sp_index_rows_query *query = asking->query;
    const struct sp_index_tensor *tensor = &asking->index->tensors[row];
    const char *name = tensor_name(asking->index, row), *spec = sp_index_text(asking->index, tensor->spec);
    if (tensor->row.size == 0 || (asking->is_marked != NULL && !asking->is_marked[row]) ||
        (query->split >= 0 && (uint32_t)query->split != tensor->is_split) || !is_asked(query->name, name) ||
        !is_asked(query->kind, kinds[tensor->kind]))
        return false;
    if (query->search != NULL && !is_found(query->search, name) && !is_found(query->search, spec))
        return false;
    if (query->differs_from == NULL)
        return true;
    const char *other = sp_index_text(query->differs_from, other_spec(asking, name));
    return other == NULL || strcmp(other, spec) != 0;
}

static bool collective_matches(const struct asking *asking, uint32_t row)
{
    const struct sp_index *index = asking->index;
    const struct sp_index_rows_query *query = asking->query;
    const struct sp_index_collective *collective = &index->collectives[row];
    const char *kind = sp_index_text(index, collective->kind), *tensor = tensor_name(index, collective->tensor);
    const char *after = node_name(index, collective->after_node), *before = node_name(index, collective->before_node);
    return (query->index == SP_INDEX_NONE || query->index == row) &&
           (query->stage == SP_INDEX_NONE || query->stage == collective->stage ||
            query->stage == collective->to_stage) &&
           is_asked(query->kind, kind) && is_asked(query->tensor, tensor) &&
           (is_asked(query->node, after) || is_asked(query->node, before)) &&
           (query->search == NULL || is_found(query->search, kind) || is_found(query->search, tensor) ||
            is_found(query->search, after) || is_found(query->search, before));
}

static bool finding_matches(const struct asking *asking, uint32_t row)
{
    const struct sp_index *index = asking->index;
    const struct sp_index_rows_query *query = asking->query;
    const struct sp_index_finding *finding = &index->findings[row];
    const char *code = sp_index_text(index, finding->code), *node = node_name(index, finding->node);
    return is_asked(query->severity, sp_index_text(index, finding->severity)) && is_asked(query->code, code) &&
           is_asked(query->node, node) &&
           (query->search == NULL || is_found(query->search, code) || is_found(query->search, node) ||
            is_found(query->search, sp_index_text(index, finding->message)) ||
            is_found(query->search, tensor_name(index, finding->tensor)));
}

/* ---- in which order --------------------------------------------------------------------------------------------- */

struct key {
    uint32_t row;
    const char *text; /* NULL: `number` orders */
    double number;
};

static struct key key_of(const struct asking *asking, uint32_t row)
{
    const struct sp_index *index = asking->index;
    const enum sp_index_table table = asking->query->table;
    const struct sp_index_node *node = table == SP_INDEX_NODES ? &index->nodes[row] : NULL;
    const struct sp_index_tensor *tensor = table == SP_INDEX_TENSORS ? &index->tensors[row] : NULL;
    const struct sp_index_collective *collective = table == SP_INDEX_COLLECTIVES ? &index->collectives[row] : NULL;
    struct key key = {.row = row, .number = row};
    switch (asking->query->order) {
    case SP_INDEX_BY_INDEX:
        break;
    case SP_INDEX_BY_NAME:
        key.text = node != NULL ? node_name(index, row) : tensor != NULL ? tensor_name(index, row) : NULL;
        break;
    case SP_INDEX_BY_SECONDS:
        key.number = node != NULL ? node->seconds : collective != NULL ? collective->seconds : 0;
        break;
    case SP_INDEX_BY_FLOPS:
        key.number = node != NULL ? node->flops : 0;
        break;
    case SP_INDEX_BY_BYTES:
        key.number = node != NULL         ? node->bytes
                     : tensor != NULL     ? tensor->bytes
                     : collective != NULL ? collective->bytes
                                          : 0;
        break;
    case SP_INDEX_BY_BYTES_PER_DEVICE:
        key.number = tensor != NULL ? tensor->bytes_per_device : 0;
        break;
    }
    return key;
}

static int compare_keys(const struct key *a, const struct key *b)
{
    if (a->text != NULL && b->text != NULL)
        return strcmp(a->text, b->text);
    return (a->number > b->number) - (a->number < b->number);
}

/* Equal ones stay in the order of their numbers, whichever way the others go. */
static int ascending(const void *a, const void *b)
{
    const struct key *left = a, *right = b;
    const int order = compare_keys(left, right);
    return order != 0 ? order : (left->row > right->row) - (left->row < right->row);
}

static int descending(const void *a, const void *b)
{
    const struct key *left = a, *right = b;
    const int order = compare_keys(right, left);
    return order != 0 ? order : (left->row > right->row) - (left->row < right->row);
}

/* ---- a page ----------------------------------------------------------------------------------------------------- */

static uint32_t row_count(const struct sp_index *index, enum sp_index_table table)
{
    switch (table) {
    case SP_INDEX_NODES:
        return index->count.nodes;
    case SP_INDEX_TENSORS:
        return index->count.tensors;
    case SP_INDEX_COLLECTIVES:
        return index->count.collectives;
    case SP_INDEX_FINDINGS:
        return index->count.findings;
    }
    return 0;
}

static enum sp_status find_rows(const struct asking *asking, struct sp_arena *arena, struct sp_index_rows *found,
                                struct sp_error *err)
{
    static bool (*const matches[])(const struct asking *asking, uint32_t row) = {
        [SP_INDEX_NODES] = node_matches,
        [SP_INDEX_TENSORS] = tensor_matches,
        [SP_INDEX_COLLECTIVES] = collective_matches,
        [SP_INDEX_FINDINGS] = finding_matches,
    };
    const struct sp_index_rows_query *query = asking->query;
    const uint32_t count = row_count(asking->index, query->table);
    struct key *keys = SP_NEW_ARRAY(arena, count, struct key);
    if (keys == NULL)
        return sp_fail_memory(err);
    found->total = found->count = 0;
    for (uint32_t row = 0; row < count; row++) {
        if (matches[query->table](asking, row))
            keys[found->total++] = key_of(asking, row);
    }
    if (found->total > 1 && (query->order != SP_INDEX_BY_INDEX || query->descending))
        qsort(keys, found->total, sizeof keys[0], query->descending ? descending : ascending);
    for (uint64_t i = query->skip; i < found->total && found->count < query->limit; i++) {
        const uint32_t row = keys[i].row;
        if (query->differs_from != NULL)
            found->others[found->count] = other_spec(asking, tensor_name(asking->index, row));
        found->rows[found->count++] = row;
    }
    return SP_OK;
}

enum sp_status sp_index_rows(const struct sp_index *index, const struct sp_index_rows_query *query,
                             struct sp_index_rows *ret_rows, struct sp_error *err)
{
    struct asking asking = {.index = index, .query = query};
    struct sp_arena *arena = sp_arena_create(NULL);
    enum sp_status status = SP_OK;
    if (arena == NULL || !mark_tensors(&asking, arena) || !sort_others(&asking, arena))
        status = sp_fail_memory(err);
    if (status == SP_OK)
        status = find_below(&asking, arena, err);
    if (status == SP_OK)
        status = find_rows(&asking, arena, ret_rows, err);
    sp_arena_destroy(arena);
    return status;
}

struct sp_index_row sp_index_entry(const struct sp_index *index, enum sp_index_table table, uint32_t row)
{
    if (table == SP_INDEX_TENSORS)
        return index->tensors[row].row;
    if (table == SP_INDEX_COLLECTIVES)
        return index->collectives[row].row;
    return table == SP_INDEX_FINDINGS ? index->findings[row].row : (struct sp_index_row){0};
}

/* Returns how many of them are left out. */
static uint32_t write_names(const struct sp_index *index, uint32_t first, uint32_t count, const char *key,
                            struct sp_json *json)
{
    const uint32_t named = count < SP_INDEX_MOST_OPERANDS ? count : SP_INDEX_MOST_OPERANDS;
    sp_json_key(json, key);
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < named; i++)
        sp_json_string(json, tensor_name(index, index->operands[first + i]));
    sp_json_end_array(json);
    return count - named;
}

void sp_index_write_node(const struct sp_index *index, uint32_t node_number, struct sp_json *json)
{
    const struct sp_index_node *node = &index->nodes[node_number];
    sp_json_begin_object(json);
    sp_json_member_int(json, "index", node_number);
    sp_json_member_string(json, "name", node_name(index, node_number));
    sp_json_member_string(json, "operator", sp_index_text(index, node->operator_type));
    sp_json_member_int(json, "stage", node->stage);
    sp_json_member_bool(json, "folded", node->folded != 0);
    sp_json_member_double(json, "seconds", node->seconds);
    sp_json_member_double(json, "collective_seconds", node->collective_seconds);
    sp_json_member_double(json, "flops", node->flops);
    sp_json_member_double(json, "bytes", node->bytes);
    sp_json_member_double(json, "weights_bytes", node->weights_bytes);
    uint64_t more = write_names(index, node->first_operand, node->input_count, "inputs", json);
    more += write_names(index, node->first_operand + node->input_count, node->output_count, "outputs", json);
    if (more > 0)
        sp_json_member_int(json, "more_operands", (int64_t)more);
    sp_json_end_object(json);
}
