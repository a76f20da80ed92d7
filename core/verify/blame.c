#include <string.h>

#include "base/limits.h"
#include "verify/programs.h"

/* ---- what is recognised ----------------------------------------------------------------------------------------- */

static bool is_variable(const struct sp_numbers *x)
{
    return x != NULL && !x->is_known && sp_dtype_is_float(x->dtype) && x->count > 0;
}

static enum sp_status add_items(struct sp_hash_map *items, const struct sp_value *value, const struct sp_numbers *x,
                                struct sp_error *err)
{
    if (!is_variable(x) || (uint64_t)items->count + x->count > SP_MAX_RECOGNISED_NUMBERS)
        return SP_OK;
    for (uint64_t i = 0; i < x->count; i++) {
        struct sp_hash_slot *slot = sp_hash_map_put(items, x->items[i].field);
        if (slot == NULL)
            return sp_fail_memory(err);
        if (slot->item == NULL)
            slot->item = (void *)(uintptr_t)value;
    }
    return SP_OK;
}

static enum sp_status add_value(struct sp_verification *all, struct sp_hash_map *items, const struct sp_value *value,
                                struct sp_error *err)
{
    const struct sp_outcome *outcome = value != NULL ? sp_run_outcome(&all->original, value) : NULL;
    return outcome != NULL ? add_items(items, value, outcome->numbers, err) : SP_OK;
}

static enum sp_status add_original(struct sp_verification *all, struct sp_hash_map *items, struct sp_error *err)
{
    const struct sp_graph *graph = all->original.model->graph;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < graph->value_count; i++)
        status = add_value(all, items, graph->values[i], err);
    for (uint32_t i = 0; status == SP_OK && i < all->original.order_count; i++) {
        const struct sp_node *node = all->original.order[i];
        for (uint32_t k = 0; status == SP_OK && k < node->output_count; k++)
            status = add_value(all, items, node->outputs[k], err);
    }
    return status;
}

/* The value of the original that the items are of, when all are of some. */
static const struct sp_value *find_items(const struct sp_hash_map *items, const struct sp_numbers *x)
{
    const struct sp_value *first = NULL;
    for (uint64_t i = 0; i < x->count; i++) {
        if (x->items[i].field == 0)
            continue; /* padding */
        const struct sp_hash_slot *slot = sp_hash_map_get(items, x->items[i].field);
        if (slot == NULL)
            return NULL;
        first = first == NULL ? slot->item : first;
    }
    return first;
}

static struct sp_outcome *variable_of(const struct sp_verify_run *run, const struct sp_value *value)
{
    struct sp_outcome *outcome = value != NULL ? sp_run_outcome(run, value) : NULL;
    return outcome != NULL && is_variable(outcome->numbers) ? outcome : NULL;
}

static enum sp_status recognise(struct sp_verification *all, struct sp_hash_map *items, struct sp_error *err)
{
    items->arena = all->arena;
    enum sp_status status = add_original(all, items, err);
    for (uint32_t i = 0; status == SP_OK && i < all->run_count; i++) {
        struct sp_verify_run *run = &all->runs[i];
        for (uint32_t v = 0; v < run->model->graph->value_count; v++) {
            struct sp_outcome *outcome = variable_of(run, run->model->graph->values[v]);
            if (outcome != NULL)
                outcome->of = find_items(items, outcome->numbers);
        }
        for (uint32_t n = 0; n < run->order_count; n++) {
            for (uint32_t k = 0; run->order[n]->graph != run->model->graph && k < run->order[n]->output_count; k++) {
                struct sp_outcome *outcome = variable_of(run, run->order[n]->outputs[k]);
                if (outcome != NULL)
                    outcome->of = find_items(items, outcome->numbers);
            }
        }
    }
    return status;
}

enum sp_status sp_recognise(struct sp_verification *all, struct sp_error *err)
{
    struct sp_hash_map items = {0};
    return recognise(all, &items, err);
}

/* ---- what comes of it ------------------------------------------------------------------------------------------- */

static bool is_good(const struct sp_outcome *outcome)
{
    return outcome == NULL || outcome->of != NULL || outcome->is_used_well;
}

/* Whether the results of a node vouch for what it reads. */
static bool vouches(const struct sp_verify_run *run, const struct sp_node *node, bool moves)
{
    for (uint32_t i = 0; i < node->output_count; i++) {
        const struct sp_outcome *outcome = variable_of(run, node->outputs[i]);
        if (outcome != NULL && (outcome->is_used_well || (!moves && outcome->of != NULL)))
            return true;
    }
    return false;
}

static bool mark_inputs(const struct sp_verify_run *run, const struct sp_node *node)
{
    bool has_changed = false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        struct sp_outcome *outcome = variable_of(run, node->inputs[i]);
        if (outcome == NULL || outcome->is_used_well)
            continue;
        outcome->is_used_well = has_changed = true;
    }
    return has_changed;
}

static bool reduces(const struct sp_node *node)
{
    const char *name = strcmp(node->op_type, "DistCollective") == 0 ? sp_node_string(node, "reduce_op", "NONE") : "";
    return strstr(node->op_type, "Reduce") != NULL || (name[0] != '\0' && strcmp(name, "NONE") != 0);
}

static bool mark_exchange(const struct sp_verify_exchange *exchange)
{
    bool is_vouched = false, has_changed = false;
    for (uint32_t m = 0; m < exchange->member_count; m++)
        is_vouched = is_vouched || vouches(exchange->runs[m], exchange->nodes[m], !reduces(exchange->nodes[m]));
    for (uint32_t m = 0; is_vouched && m < exchange->member_count; m++)
        has_changed = mark_inputs(exchange->runs[m], exchange->nodes[m]) || has_changed;
    return has_changed;
}

#define MAX_PASSES 256

/* Carries backwards what is vouched for, until nothing changes. */
static void mark_all(struct sp_verification *all)
{
    bool has_changed = true;
    for (uint32_t pass = 0; has_changed && pass < MAX_PASSES; pass++) {
        has_changed = false;
        for (uint32_t i = all->links.count; i-- > 0;) {
            struct sp_outcome *given = (struct sp_outcome *)(uintptr_t)all->links.items[i].given;
            if (all->links.items[i].taken->is_used_well && !given->is_used_well)
                given->is_used_well = has_changed = true;
        }
        for (uint32_t i = all->exchanges.count; i-- > 0;)
            has_changed = mark_exchange(&all->exchanges.items[i]) || has_changed;
        for (uint32_t i = all->run_count; i-- > 0;) {
            struct sp_verify_run *run = &all->runs[i];
            for (uint32_t n = run->order_count; n-- > 0;) {
                struct sp_node *node = run->order[n];
                if (!sp_is_collective(node) && vouches(run, node, sp_evaluate_is_movement(node)))
                    has_changed = mark_inputs(run, node) || has_changed;
            }
        }
    }
}

/* ---- what goes wrong -------------------------------------------------------------------------------------------- */

static bool reads_well(const struct sp_verify_run *run, const struct sp_node *node)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (!is_good(variable_of(run, node->inputs[i])))
            return false;
    }
    return true;
}

static bool members_read_well(const struct sp_verification *all, const struct sp_node *node)
{
    for (uint32_t i = 0; i < all->exchanges.count; i++) {
        const struct sp_verify_exchange *exchange = &all->exchanges.items[i];
        bool is_member = false, is_well = true;
        for (uint32_t m = 0; m < exchange->member_count; m++) {
            is_member = is_member || exchange->nodes[m] == node;
            is_well = is_well && reads_well(exchange->runs[m], exchange->nodes[m]);
        }
        if (is_member)
            return is_well;
    }
    return true;
}

/* The first of its results that is not recognised, or NULL. */
static const struct sp_value *wrong_result(const struct sp_verify_run *run, const struct sp_node *node)
{
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (!is_good(variable_of(run, node->outputs[i])))
            return node->outputs[i];
    }
    return NULL;
}

static const char *base_name(struct sp_verification *all, const char *name)
{
    const char *at = strrchr(name, '@');
    const char *base = at != NULL && at != name ? sp_arena_string(all->arena, name, (size_t)(at - name)) : name;
    return base != NULL ? base : name;
}

/* The value of the original of which the runs' results add up to a part, or NULL. */
static const struct sp_value *partial_of(struct sp_verification *all, const struct sp_hash_map *items,
                                         const struct sp_verify_run *run, const struct sp_node *node, uint32_t position)
{
    const struct sp_outcome *own = variable_of(run, node->outputs[0]);
    const struct sp_numbers *sum = own != NULL ? own->numbers : NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; sum != NULL && i < all->run_count; i++) {
        const struct sp_verify_run *other = &all->runs[i];
        struct sp_numbers *next;
        if (other == run || other->program->world != run->program->world || position >= other->order_count)
            continue;
        const struct sp_node *peer = other->order[position];
        const struct sp_outcome *outcome = peer->output_count > 0 ? variable_of(other, peer->outputs[0]) : NULL;
        struct sp_error ignored = {0};
        if (outcome == NULL || strcmp(peer->op_type, node->op_type) != 0 || outcome->numbers->count != sum->count ||
            sp_numbers_binary(all->arena, sum, outcome->numbers, sum->dtype, sp_number_add, &next, &ignored) != SP_OK)
            return NULL;
        sum = next;
        count++;
    }
    return count > 0 ? find_items(items, sum) : NULL;
}

static const struct sp_node *original_node(struct sp_verification *all, const struct sp_node *node,
                                           const struct sp_value *result)
{
    const struct sp_graph *graph = all->original.model->graph;
    const struct sp_value *value = result != NULL ? sp_original_value(all, result->name) : NULL;
    const char *name = base_name(all, node->name);
    if (value != NULL && value->producer != NULL)
        return value->producer;
    for (uint32_t i = 0; name[0] != '\0' && i < graph->node_count; i++) {
        if (strcmp(graph->nodes[i].name, name) == 0)
            return &graph->nodes[i];
    }
    return NULL;
}

/* "Add of 'a' and 'b'", by the values of the original. */
static const char *describe(struct sp_verification *all, const struct sp_verify_run *run, const struct sp_node *node)
{
    struct sp_buf buf;
    sp_buf_init(&buf, 4096);
    sp_buf_printf(&buf, "%s of", node->op_type);
    for (uint32_t i = 0; i < node->input_count && i < 8; i++) {
        const struct sp_value *value = node->inputs[i];
        const struct sp_outcome *outcome = value != NULL ? sp_run_outcome(run, value) : NULL;
        if (value == NULL)
            continue;
        if (run != &all->original && outcome != NULL && outcome->of == NULL && is_variable(outcome->numbers))
            sp_buf_printf(&buf, "%s '%.200s' (no part of the original)", i > 0 ? "," : "", value->name);
        else
            sp_buf_printf(&buf, "%s '%.200s'", i > 0 ? "," : "",
                          outcome != NULL && outcome->of != NULL ? outcome->of->name : value->name);
    }
    for (uint32_t i = 0; i < node->attribute_count; i++) {
        const struct sp_attribute *a = &node->attributes[i];
        if (a->type == SP_ATTR_INT)
            sp_buf_printf(&buf, ", %.60s %lld", a->name, (long long)a->i);
        else if (a->type == SP_ATTR_FLOAT)
            sp_buf_printf(&buf, ", %.60s %g", a->name, a->f);
    }
    const char *text = buf.failed ? NULL : sp_arena_string(all->arena, buf.data, buf.size);
    sp_buf_release(&buf);
    return text;
}

static enum sp_verdict verdict_of(const struct sp_verification *all)
{
    for (uint32_t i = 0; i < all->failures.count; i++) {
        if (all->failures.items[i].verdict == SP_REFUTED)
            return SP_REFUTED;
    }
    return SP_UNDECIDED;
}

/* The first node behind it that computes with the value. */
static const struct sp_node *first_user(const struct sp_value *value)
{
    for (uint32_t hops = 0; value->use_count > 0 && hops < 16; hops++) {
        const struct sp_node *node = value->uses[0].node;
        if (!sp_evaluate_is_movement(node) || node->output_count == 0 || node->outputs[0] == NULL)
            return node;
        value = node->outputs[0];
    }
    return value->use_count > 0 ? value->uses[0].node : NULL;
}

static enum sp_status name_node(struct sp_verification *all, const struct sp_hash_map *items,
                                const struct sp_verify_run *run, uint32_t position, struct sp_error *err)
{
    const struct sp_node *node = run->order[position];
    const struct sp_value *result = wrong_result(run, node);
    const struct sp_value *whole = sp_is_collective(node) ? NULL : partial_of(all, items, run, node, position);
    const struct sp_node *user = whole != NULL ? first_user(result) : NULL;
    const struct sp_node *named = user != NULL ? user : node,
                         *expected = original_node(all, named, wrong_result(run, named));
    struct sp_verify_failure failure = {.verdict = verdict_of(all), .run = run, .node = named};
    failure.message =
        user != NULL && !sp_is_collective(named)
            ? sp_arena_printf(all->arena,
                              "It reads a partial sum of '%s', which has to be added up over the ranks first.",
                              whole->name)
        : sp_is_collective(named)
            ? sp_arena_printf(all->arena,
                              "What it makes of its members' tensors is nothing that the original computes.")
            : sp_arena_printf(all->arena, "Its result is nothing that the original computes.");
    failure.nearest = describe(all, run, named);
    failure.expected = expected != NULL ? describe(all, &all->original, expected) : NULL;
    if (failure.message == NULL || failure.nearest == NULL)
        return sp_fail_memory(err);
    return sp_verify_fail(all, failure, err);
}

enum sp_status sp_blame(struct sp_verification *all, struct sp_error *err)
{
    struct sp_hash_map items = {0};
    enum sp_status status = recognise(all, &items, err);
    if (status != SP_OK)
        return status;
    mark_all(all);
    for (uint32_t i = 0; status == SP_OK && i < all->run_count; i++) {
        const struct sp_verify_run *run = &all->runs[i];
        for (uint32_t n = 0; n < run->order_count; n++) {
            struct sp_node *node = run->order[n];
            if (wrong_result(run, node) == NULL || !reads_well(run, node) ||
                (sp_is_collective(node) && !members_read_well(all, node)))
                continue;
            status = name_node(all, &items, run, n, err);
            break;
        }
    }
    return status;
}
