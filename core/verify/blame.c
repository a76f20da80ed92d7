#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "verify/programs.h"

/* ---- what is recognised ----------------------------------------------------------------------------------------- */

/* Elements of the original: of which value first, and for each value where. */
struct recognised {
    struct sp_hash_map values; /* element -> struct sp_value * */
    struct sp_hash_map good;   /* elements of ranks of which something good is made */
    struct sp_hash_map places; /* element and value -> 1 + place in the value; REPEATED where there are several */
};
#define REPEATED UINT64_MAX

static uint64_t place_key(const struct sp_value *value, uint64_t field)
{
    return sp_scramble(field) ^ (uint64_t)(uintptr_t)value;
}

static enum sp_status add_items(struct recognised *known, const struct sp_value *value, const struct sp_numbers *x,
                                struct sp_error *err)
{
    if (!sp_is_variable(x) || (uint64_t)known->places.count + x->count > SP_MAX_RECOGNISED_NUMBERS)
        return SP_OK;
    for (uint64_t i = 0; i < x->count; i++) {
        struct sp_hash_slot *slot = sp_hash_map_put(&known->values, x->items[i].field);
        if (slot == NULL)
            return sp_fail_memory(err);
        if (slot->item == NULL)
            slot->item = (void *)(uintptr_t)value;
        if ((slot = sp_hash_map_put(&known->places, place_key(value, x->items[i].field))) == NULL)
            return sp_fail_memory(err);
        slot->number = slot->number == 0 ? i + 1 : slot->number == i + 1 ? i + 1 : REPEATED;
    }
    return SP_OK;
}

static enum sp_status add_value(struct sp_verification *all, struct recognised *known, const struct sp_value *value,
                                struct sp_error *err)
{
    const struct sp_outcome *outcome = value != NULL ? sp_run_outcome(&all->original, value) : NULL;
    return outcome != NULL ? add_items(known, value, outcome->numbers, err) : SP_OK;
}

static enum sp_status add_original(struct sp_verification *all, struct recognised *known, struct sp_error *err)
{
    const struct sp_graph *graph = all->original.model->graph;
    enum sp_status status = SP_OK;
    known->values.arena = known->places.arena = known->good.arena = all->arena;
    for (uint32_t i = 0; status == SP_OK && i < graph->value_count; i++) {
        if (graph->values[i]->producer == NULL)
            status = add_value(all, known, graph->values[i], err);
    }
    for (uint32_t i = 0; status == SP_OK && i < all->original.order_count; i++) {
        const struct sp_node *node = all->original.order[i];
        for (uint32_t k = 0; status == SP_OK && k < node->output_count; k++)
            status = add_value(all, known, node->outputs[k], err);
    }
    return status;
}

/* The value of the original that the items are of, when all are of some. */
static const struct sp_value *find_items(const struct recognised *known, const struct sp_numbers *x)
{
    const struct sp_value *first = NULL;
    for (uint64_t i = 0; i < x->count; i++) {
        if (x->items[i].field == 0)
            continue; /* padding */
        const struct sp_hash_slot *slot = sp_hash_map_get(&known->values, x->items[i].field);
        if (slot == NULL)
            return NULL;
        first = first == NULL ? slot->item : first;
    }
    return first;
}

/* Whether the items lie in the order that they have in the value. */
static bool are_in_order(const struct recognised *known, const struct sp_value *value, const struct sp_numbers *x)
{
    uint64_t last = 0;
    for (uint64_t i = 0; i < x->count; i++) {
        const struct sp_hash_slot *slot = sp_hash_map_get(&known->places, place_key(value, x->items[i].field));
        if (x->items[i].field == 0)
            continue;
        if (slot == NULL || (slot->number != REPEATED && slot->number <= last))
            return false;
        last = slot->number != REPEATED ? slot->number : last;
    }
    return true;
}

/* What a rank's value is of. One that has the name of a value of the original has its items, in their order; where it
   has others it is scattered. */
static void recognise_value(struct sp_verification *all, const struct recognised *known, const struct sp_value *value,
                            struct sp_outcome *own)
{
    const struct sp_value *named = sp_original_value(all, value->name);
    const struct sp_outcome *outcome = named != NULL ? sp_run_outcome(&all->original, named) : NULL;
    own->of = find_items(known, own->numbers);
    if (own->of == NULL || outcome == NULL || !sp_is_variable(outcome->numbers) ||
        outcome->numbers->rank != own->numbers->rank)
        return;
    own->is_scattered = !are_in_order(known, named, own->numbers);
    own->of = own->is_scattered ? own->of : named;
}

static enum sp_status recognise(struct sp_verification *all, struct recognised *known, struct sp_error *err)
{
    enum sp_status status = add_original(all, known, err);
    for (uint32_t i = 0; status == SP_OK && i < all->run_count; i++) {
        struct sp_verify_run *run = &all->runs[i];
        for (uint32_t v = 0; v < run->model->graph->value_count; v++) {
            const struct sp_value *value = run->model->graph->values[v];
            struct sp_outcome *outcome = sp_variable_of(run, value);
            if (outcome != NULL)
                recognise_value(all, known, value, outcome);
        }
        for (uint32_t n = 0; n < run->order_count; n++) {
            for (uint32_t k = 0; run->order[n]->graph != run->model->graph && k < run->order[n]->output_count; k++) {
                struct sp_outcome *outcome = sp_variable_of(run, run->order[n]->outputs[k]);
                if (outcome != NULL)
                    recognise_value(all, known, run->order[n]->outputs[k], outcome);
            }
        }
    }
    return status;
}

/* ---- what comes of it ------------------------------------------------------------------------------------------- */

static bool is_good_number(const struct recognised *known, uint64_t field)
{
    return field == 0 || sp_hash_map_get(&known->values, field) != NULL || sp_hash_map_get(&known->good, field) != NULL;
}

static bool is_good(const struct recognised *known, const struct sp_outcome *outcome)
{
    for (uint64_t i = 0; outcome != NULL && i < outcome->numbers->count; i++) {
        if (!is_good_number(known, outcome->numbers->items[i].field))
            return false;
    }
    return true;
}

static bool reduces(const struct sp_node *node)
{
    const bool is_dist = strcmp(node->op_type, "DistCollective") == 0;
    const char *name = is_dist ? sp_node_string(node, "collective_operation", "") : node->op_type;
    return strstr(name, "Reduce") != NULL || strstr(name, "reduce") != NULL || strstr(name, "REDUCE") != NULL;
}

/* An operand and a result of a node: what is good of the result vouches for items of the operand. */
struct pair {
    const struct sp_numbers *in, *out;
    uint32_t untied; /* last axes along which items of both are not each other's: sums of products */
};

/* By axes of the same extent: an item of the operand is good where all of the result's with its indices
   are, other than zeros and infinities, which anything may have become. */
static bool vouch_by_axes(struct recognised *known, struct sp_arena *scratch, struct pair pair)
{
    const struct sp_numbers *x = pair.in, *y = pair.out;
    struct sp_strides in = {.rank = x->rank, .tensors = 1}, out = {.rank = y->rank, .tensors = 1};
    const uint32_t rank = x->rank < y->rank ? x->rank : y->rank; /* axes that both have, from the last */
    uint64_t groups = 1;
    bool has_changed = false;
    for (uint32_t i = 0; i < x->rank; i++)
        in.counts[i] = x->axes[i].count;
    for (uint32_t i = 0; i < y->rank; i++)
        out.counts[i] = y->axes[i].count;
    for (uint32_t i = pair.untied; i < rank; i++) {
        const uint32_t a = x->rank - 1 - i, b = y->rank - 1 - i;
        if (!sp_index_equal(&x->axes[a], &y->axes[b]))
            continue;
        in.steps[0][a] = out.steps[0][b] = (int64_t)groups;
        groups *= x->axes[a].count;
    }
    enum { NONE, GOOD, BAD };
    unsigned char *groups_are = SP_NEW_ARRAY(scratch, groups, unsigned char);
    for (uint64_t i = 0; groups_are != NULL && i < y->count; i++, sp_strides_step(&out)) {
        const uint64_t field = y->items[i].field;
        unsigned char *group = &groups_are[out.index[0]];
        if (!is_good_number(known, field))
            *group = BAD;
        else if (*group == NONE && field != 0 && sp_field_is_finite(field))
            *group = GOOD;
    }
    for (uint64_t i = 0; groups_are != NULL && i < x->count; i++, sp_strides_step(&in)) {
        if (groups_are[in.index[0]] != GOOD || is_good_number(known, x->items[i].field))
            continue;
        struct sp_hash_slot *slot = sp_hash_map_put(&known->good, x->items[i].field);
        if (slot == NULL)
            return false; /* less is vouched for */
        slot->number = has_changed = true;
    }
    return has_changed;
}

static uint32_t untied_axes(const struct sp_node *node, uint32_t input)
{
    const char *name = node->op_type;
    if (strcmp(name, "MatMul") == 0 || strcmp(name, "Gemm") == 0 || strcmp(name, "FusedMatMul") == 0)
        return input == 0 ? 1 : 2;
    return strcmp(name, "Einsum") == 0 || strcmp(name, "Conv") == 0 || strcmp(name, "LSTM") == 0 ? UINT32_MAX : 0;
}

/* Whether a product takes some of its second operand times zero, as attention does with what a mask hides. */
static bool hides(const struct sp_verify_run *run, const struct sp_node *node, uint32_t input)
{
    const struct sp_outcome *first =
        input == 1 && strcmp(node->op_type, "MatMul") == 0 ? sp_variable_of(run, node->inputs[0]) : NULL;
    for (uint64_t i = 0; first != NULL && i < first->numbers->count; i++) {
        if (first->numbers->items[i].field == 0)
            return true;
    }
    return false;
}

static bool vouch(struct sp_verification *all, struct recognised *known, const struct sp_verify_run *run,
                  const struct sp_node *node, const struct sp_outcome *out)
{
    bool has_changed = false;
    for (uint32_t i = 0; out != NULL && i < node->input_count; i++) {
        struct sp_outcome *in = sp_variable_of(run, node->inputs[i]);
        if (in == NULL || is_good(known, in) || hides(run, node, i))
            continue;
        /* a sum of what is in another order is the same: it vouches for nothing that has a name in the original */
        if (out->numbers->count < in->numbers->count && strncmp(node->op_type, "Reduce", 6) == 0 &&
            sp_original_value(all, node->inputs[i]->name) != NULL)
            continue;
        const struct sp_arena_mark mark = sp_arena_mark(all->scratch);
        const struct pair pair = {in->numbers, out->numbers, untied_axes(node, i)};
        has_changed = vouch_by_axes(known, all->scratch, pair) || has_changed;
        sp_arena_rewind(all->scratch, mark);
    }
    return has_changed;
}

static bool moves(const struct sp_node *node)
{
    return sp_is_collective(node) ? !reduces(node) : sp_evaluate_is_movement(node);
}

static bool vouch_in_exchange(struct sp_verification *all, struct recognised *known,
                              const struct sp_verify_exchange *exchange)
{
    bool has_changed = false;
    for (uint32_t m = 0; m < exchange->member_count; m++) {
        const struct sp_node *node = exchange->nodes[m];
        const struct sp_outcome *out =
            node->output_count > 0 ? sp_variable_of(exchange->runs[m], node->outputs[0]) : NULL;
        for (uint32_t k = 0; k < exchange->member_count; k++) {
            has_changed =
                (!moves(node) && vouch(all, known, exchange->runs[k], exchange->nodes[k], out)) || has_changed;
        }
    }
    return has_changed;
}

#define MAX_PASSES 64

/* Carries backwards what is vouched for, until nothing changes. */
static void vouch_for_all(struct sp_verification *all, struct recognised *known)
{
    bool has_changed = true;
    for (uint32_t pass = 0; has_changed && pass < MAX_PASSES; pass++) {
        has_changed = false;
        for (uint32_t i = all->exchanges.count; i-- > 0;)
            has_changed = vouch_in_exchange(all, known, &all->exchanges.items[i]) || has_changed;
        for (uint32_t i = all->run_count; i-- > 0;) {
            struct sp_verify_run *run = &all->runs[i];
            for (uint32_t n = run->order_count; n-- > 0;) {
                const struct sp_node *node = run->order[n];
                for (uint32_t k = 0; !sp_is_collective(node) && k < node->output_count; k++) {
                    const struct sp_outcome *out = sp_variable_of(run, node->outputs[k]);
                    has_changed = (!moves(node) && vouch(all, known, run, node, out)) || has_changed;
                }
            }
        }
    }
}

/* ---- what goes wrong -------------------------------------------------------------------------------------------- */

static bool reads_well(const struct recognised *known, const struct sp_verify_run *run, const struct sp_node *node)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (!is_good(known, sp_variable_of(run, node->inputs[i])))
            return false;
    }
    return true;
}

static bool members_read_well(const struct sp_verification *all, const struct recognised *known,
                              const struct sp_node *node)
{
    for (uint32_t i = 0; i < all->exchanges.count; i++) {
        const struct sp_verify_exchange *exchange = &all->exchanges.items[i];
        bool is_member = false, is_well = true;
        for (uint32_t m = 0; m < exchange->member_count; m++) {
            is_member = is_member || exchange->nodes[m] == node;
            is_well = is_well && reads_well(known, exchange->runs[m], exchange->nodes[m]);
        }
        if (is_member)
            return is_well;
    }
    return true;
}

#define MAX_FOLLOWED 64

/* A value of a run on its way through movement and collectives. */
struct place {
    const struct sp_verify_run *run;
    const struct sp_value *value;
};

/* Adds what a collective makes for all its members. */
static void add_members(const struct sp_verification *all, const struct sp_node *node, struct place *queue,
                        uint32_t *count)
{
    for (uint32_t i = 0; i < all->exchanges.count; i++) {
        const struct sp_verify_exchange *exchange = &all->exchanges.items[i];
        bool is_member = false;
        for (uint32_t m = 0; m < exchange->member_count; m++)
            is_member = is_member || exchange->nodes[m] == node;
        for (uint32_t m = 0; is_member && m < exchange->member_count && *count < MAX_FOLLOWED; m++) {
            if (exchange->nodes[m]->output_count > 0 && exchange->nodes[m]->outputs[0] != NULL)
                queue[(*count)++] = (struct place){exchange->runs[m], exchange->nodes[m]->outputs[0]};
        }
        if (is_member)
            return;
    }
}

/* Whether nothing good comes of a node that computes with the value. */
static bool is_spoilt(const struct recognised *known, const struct sp_verify_run *run, const struct sp_node *user)
{
    for (uint32_t k = 0; k < user->output_count; k++) {
        const struct sp_outcome *result = user->outputs[k] != NULL ? sp_run_outcome(run, user->outputs[k]) : NULL;
        if (result != NULL &&
            (result->numbers == NULL || result->is_scattered || !is_good(known, sp_variable_of(run, user->outputs[k]))))
            return true;
    }
    return false;
}

/* Whether a value is a step of an exchange ("X@0.12/3") of the value that it is named after. */
static bool is_repacked(const struct sp_value *value)
{
    const char *at = strrchr(value->name, '@');
    return at != NULL && value->producer != NULL && moves(value->producer) && strchr(at, '/') != NULL;
}

/* Whether what is out of order is computed with, here or behind moves, and nothing good comes of it. */
static bool is_misplaced(const struct sp_verification *all, const struct recognised *known,
                         const struct sp_verify_run *run, const struct sp_value *value)
{
    struct place queue[MAX_FOLLOWED] = {{run, value}};
    const struct sp_outcome *outcome = sp_variable_of(run, value);
    const bool is_followed = !is_repacked(value); /* what is packed for a collective lies in no order */
    uint32_t count = outcome != NULL && outcome->is_scattered ? 1 : 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct place place = queue[i];
        for (uint32_t u = 0; u < place.value->use_count; u++) {
            const struct sp_node *user = place.value->uses[u].node;
            if (sp_is_collective(user) && moves(user) && is_followed)
                add_members(all, user, queue, &count);
            else if (sp_is_collective(user))
                continue;
            else if (!moves(user) && is_spoilt(known, place.run, user))
                return true;
            for (uint32_t k = 0; is_followed && moves(user) && !sp_is_collective(user) && k < user->output_count; k++) {
                if (user->outputs[k] != NULL && count < MAX_FOLLOWED)
                    queue[count++] = (struct place){place.run, user->outputs[k]};
            }
        }
    }
    return false;
}

/* The first of its results that is wrong, or NULL. */
static const struct sp_value *wrong_result(const struct sp_verification *all, const struct recognised *known,
                                           const struct sp_verify_run *run, const struct sp_node *node)
{
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] != NULL &&
            (!is_good(known, sp_variable_of(run, node->outputs[i])) || is_misplaced(all, known, run, node->outputs[i])))
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

/* A node of another rank, or of a simulation, that makes another part of the same value of the original. */
static bool is_peer(struct sp_verification *all, const struct sp_node *a, const struct sp_node *b)
{
    if (a == b || strcmp(a->op_type, b->op_type) != 0 || b->output_count == 0 || b->outputs[0] == NULL)
        return false;
    const struct sp_value *value = sp_original_value(all, a->outputs[0]->name);
    return value != NULL && value == sp_original_value(all, b->outputs[0]->name);
}

/* The value of the original of which the peers' results add up to a part, or NULL. */
static const struct sp_value *partial_of(struct sp_verification *all, const struct recognised *known,
                                         const struct sp_verify_run *run, const struct sp_node *node, uint32_t position)
{
    const struct sp_outcome *own = sp_variable_of(run, node->outputs[0]);
    const struct sp_numbers *sum = own != NULL ? own->numbers : NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; sum != NULL && i < all->run_count; i++) {
        const struct sp_verify_run *other = &all->runs[i];
        for (uint32_t n = 0; n < other->order_count; n++) {
            const struct sp_node *peer = other->order[n];
            const bool is_beside = other != run && n == position && other->program->world == run->program->world &&
                                   strcmp(peer->op_type, node->op_type) == 0 && peer->output_count > 0;
            const struct sp_outcome *outcome =
                is_beside || is_peer(all, node, peer) ? sp_variable_of(other, peer->outputs[0]) : NULL;
            struct sp_numbers *next;
            struct sp_error ignored = {0};
            if (outcome == NULL || outcome->numbers->count != sum->count ||
                sp_numbers_binary(all->arena, sum, outcome->numbers, sum->dtype, sp_number_add, &next, &ignored) !=
                    SP_OK)
                continue;
            sum = next;
            count++;
        }
    }
    return count > 0 ? find_items(known, sum) : NULL;
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
        if (run != &all->original && outcome != NULL && outcome->of == NULL && sp_is_variable(outcome->numbers))
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

/* The numbers of a value that are not variables. */
static const struct sp_numbers *constant_of(const struct sp_verify_run *run, const struct sp_value *value)
{
    const struct sp_outcome *outcome = value != NULL ? sp_run_outcome(run, value) : NULL;
    return outcome != NULL && outcome->numbers != NULL && outcome->numbers->is_known ? outcome->numbers : NULL;
}

static bool has_equal_numbers(const struct sp_numbers *a, const struct sp_numbers *b)
{
    for (uint64_t i = 0; i < a->count; i++) {
        if (a->items[i].field != b->items[i].field)
            return false;
    }
    return true;
}

#define CONSTANT_TOLERANCE 1e-6 /* what rounding to float32 leaves */

/* Whether a node is surely another one than the original's: it reads the same variables, and another single number or
   by another operator of arithmetic. Such a difference may be too small to be seen in the outputs. */
static bool differs_in_form(struct sp_verification *all, const struct sp_verify_run *run, const struct sp_node *node,
                            const struct sp_node *expected)
{
    static const char *const arithmetic[] = {"Add", "Sub", "Mul", "Div", NULL};
    bool is_arithmetic = false, differs = strcmp(node->op_type, expected->op_type) != 0;
    for (uint32_t i = 0; !differs && i < node->attribute_count; i++) { /* the same operator with another number */
        const struct sp_attribute *own = &node->attributes[i];
        const double other = own->type == SP_ATTR_FLOAT ? sp_node_float(expected, own->name, own->f) : 0;
        is_arithmetic =
            is_arithmetic || (own->type == SP_ATTR_FLOAT && fabs(own->f - other) > CONSTANT_TOLERANCE * fabs(other));
    }
    differs = differs || is_arithmetic;
    for (const char *const *name = arithmetic; *name != NULL; name++)
        is_arithmetic = is_arithmetic || strcmp(*name, expected->op_type) == 0;
    if (!is_arithmetic || node->input_count > expected->input_count)
        return false;
    for (uint32_t i = 0; i < expected->input_count; i++) {
        if (i >= node->input_count) { /* left out: a number that changes nothing may be */
            const struct sp_numbers *number = constant_of(&all->original, expected->inputs[i]);
            if (number == NULL || number->count != 1 || number->items[0].real == 0 || number->items[0].real == 1)
                return false;
            continue;
        }
        const struct sp_outcome *own = sp_variable_of(run, node->inputs[i]);
        const struct sp_numbers *a = constant_of(run, node->inputs[i]),
                                *b = constant_of(&all->original, expected->inputs[i]);
        if (own != NULL && own->of != expected->inputs[i])
            return false;
        if (own == NULL && a != NULL && b != NULL && a->count == b->count && has_equal_numbers(a, b))
            continue;
        if (own == NULL && (a == NULL || b == NULL || a->count != 1 || b->count != 1))
            return false;
        differs = differs || (own == NULL &&
                              fabs(a->items[0].real - b->items[0].real) > CONSTANT_TOLERANCE * fabs(b->items[0].real));
    }
    return differs;
}

/* ---- where what was moved comes from ---------------------------------------------------------------------------- */

/* Whether all items are some of the value. */
static bool is_within(const struct recognised *known, const struct sp_value *value, const struct sp_numbers *x)
{
    for (uint64_t i = 0; i < x->count; i++) {
        if (x->items[i].field != 0 && sp_hash_map_get(&known->places, place_key(value, x->items[i].field)) == NULL)
            return false;
    }
    return true;
}

/* Adds what a node moves: its operands, or those of all members of the collective. */
static void add_operands(const struct sp_verification *all, const struct sp_verify_run *run, const struct sp_node *node,
                         struct place *queue, uint32_t *count)
{
    for (uint32_t i = 0; sp_is_collective(node) && i < all->exchanges.count; i++) {
        const struct sp_verify_exchange *exchange = &all->exchanges.items[i];
        bool is_member = false;
        for (uint32_t m = 0; m < exchange->member_count; m++)
            is_member = is_member || exchange->nodes[m] == node;
        for (uint32_t m = 0; is_member && m < exchange->member_count && *count < MAX_FOLLOWED; m++)
            queue[(*count)++] = (struct place){exchange->runs[m], exchange->nodes[m]->inputs[0]};
        if (is_member)
            return;
    }
    for (uint32_t i = 0; i < node->input_count && *count < MAX_FOLLOWED; i++) {
        if (sp_variable_of(run, node->inputs[i]) != NULL)
            queue[(*count)++] = (struct place){run, node->inputs[i]};
    }
}

/*
 * Movement makes nothing wrong but order: where it moves items that are none of the value that its result is named
 * after, the node that made them is the one that is wrong. False where there is none.
 */
static bool find_source(struct sp_verification *all, const struct recognised *known, const struct place *moved,
                        struct place *ret)
{
    const struct sp_value *expected = sp_original_value(all, moved->value->name);
    struct place queue[MAX_FOLLOWED], behind[MAX_FOLLOWED]; /* what a move reads, and what it makes of it */
    uint32_t count = 0;
    if (expected != NULL)
        add_operands(all, moved->run, moved->value->producer, queue, &count);
    for (uint32_t k = 0; k < count; k++)
        behind[k] = *moved;
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_value *value = queue[i].value, *own;
        const struct sp_outcome *outcome = sp_variable_of(queue[i].run, value);
        const struct sp_node *producer = value != NULL ? value->producer : NULL;
        const uint32_t first = count;
        struct sp_verify_run *giver;
        if (outcome == NULL || is_within(known, expected, outcome->numbers))
            continue;
        own = sp_original_value(all, value->name);
        if (own != NULL && own != expected && is_within(known, own, outcome->numbers)) {
            *ret = behind[i]; /* right as it is, and moved where something else belongs */
            return true;
        }
        if (producer != NULL && !moves(producer)) {
            *ret = queue[i];
            return true;
        }
        const struct sp_value *given = producer == NULL ? sp_ports_source(all, queue[i].run, value, &giver) : NULL;
        if (producer != NULL)
            add_operands(all, queue[i].run, producer, queue, &count);
        else if (given != NULL && count < MAX_FOLLOWED)
            queue[count++] = (struct place){giver, given};
        for (uint32_t k = first; k < count; k++)
            behind[k] = queue[i];
    }
    return false;
}

static enum sp_status name_node(struct sp_verification *all, const struct recognised *known,
                                const struct sp_verify_run *run, uint32_t position, struct sp_error *err)
{
    const struct sp_node *node = run->order[position];
    const struct sp_value *result = wrong_result(all, known, run, node);
    struct place source;
    if (result != NULL && moves(node) && find_source(all, known, &(struct place){run, result}, &source) &&
        source.value->producer != NULL) {
        run = source.run;
        node = source.value->producer;
        result = source.value;
    }
    const struct sp_value *whole = sp_is_collective(node) ? NULL : partial_of(all, known, run, node, position);
    const struct sp_node *user = whole != NULL ? first_user(result) : NULL;
    const struct sp_node *named = user != NULL ? user : node,
                         *expected = original_node(all, named, wrong_result(all, known, run, named));
    struct sp_verify_failure failure = {.verdict = verdict_of(all), .run = run, .node = named};
    if (expected != NULL && differs_in_form(all, run, named, expected))
        failure.verdict = SP_REFUTED;
    failure.message =
        whole != NULL && user != NULL && !sp_is_collective(named)
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

/* A node that goes wrong, and where the original has the node that it is a part of. */
struct suspect {
    const struct sp_verify_run *run;
    uint32_t position, place;
};

static int compare_suspects(const void *a, const void *b)
{
    const struct suspect *x = a, *y = b;
    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    return x->run != y->run ? (x->run < y->run ? -1 : 1) : x->position < y->position ? -1 : 1;
}

/* The first node of a run that goes wrong; false where none does. */
static bool suspect_of(struct sp_verification *all, const struct recognised *known, const struct sp_verify_run *run,
                       struct suspect *ret)
{
    *ret = (struct suspect){.run = run};
    for (uint32_t n = 0; n < run->order_count; n++) {
        struct sp_node *node = run->order[n];
        const struct sp_node *original = original_node(all, node, node->output_count > 0 ? node->outputs[0] : NULL);
        if (original != NULL && original->graph == all->original.model->graph)
            ret->place = original->index > ret->place ? original->index : ret->place;
        ret->position = n;
        if (wrong_result(all, known, run, node) != NULL && reads_well(known, run, node) &&
            (!sp_is_collective(node) || members_read_well(all, known, node)))
            return true;
    }
    return false;
}

/* Where a node stands: the last node of the original that it or one before it makes a part of. */
static uint32_t place_of(struct sp_verification *all, const struct sp_verify_run *run, const struct sp_node *node)
{
    uint32_t place = 0;
    for (uint32_t n = 0; n < run->order_count; n++) {
        struct sp_node *own = run->order[n];
        const struct sp_node *original = original_node(all, own, own->output_count > 0 ? own->outputs[0] : NULL);
        if (original != NULL && original->graph == all->original.model->graph && original->index > place)
            place = original->index;
        if (own == node)
            break;
    }
    return place;
}

/* Failures that name nodes, the first one first; those of outputs behind them. */
static enum sp_status order_failures(struct sp_verification *all, struct sp_error *err)
{
    struct sp_verify_failure *items = all->failures.items;
    uint32_t *places = SP_NEW_ARRAY(all->arena, all->failures.count, uint32_t);
    if (places == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < all->failures.count; i++) {
        const struct sp_verify_failure own = items[i];
        const bool names_node = own.run != NULL && own.node != NULL && own.output == NULL;
        const uint32_t place = names_node ? place_of(all, own.run, own.node) : UINT32_MAX;
        uint32_t at = i;
        for (; at > 0 && places[at - 1] > place; at--) {
            items[at] = items[at - 1];
            places[at] = places[at - 1];
        }
        items[at] = own;
        places[at] = place;
    }
    return SP_OK;
}

enum sp_status sp_blame(struct sp_verification *all, struct sp_error *err)
{
    struct recognised known = {0};
    struct suspect *suspects = SP_NEW_ARRAY(all->arena, all->run_count, struct suspect);
    uint32_t count = 0;
    enum sp_status status = suspects != NULL ? recognise(all, &known, err) : sp_fail_memory(err);
    if (status != SP_OK)
        return status;
    vouch_for_all(all, &known);
    for (uint32_t i = 0; i < all->run_count; i++)
        count += suspect_of(all, &known, &all->runs[i], &suspects[count]);
    qsort(suspects, count, sizeof *suspects, compare_suspects);
    for (uint32_t i = 0; status == SP_OK && i < count; i++)
        status = name_node(all, &known, suspects[i].run, suspects[i].position, err);
    return status == SP_OK ? order_failures(all, err) : status;
}
