/*
 * Collectives between programs.
 */
#include <string.h>
#include <strings.h>

#include "base/limits.h"
#include "verify/programs.h"

enum kind {
    ALL_REDUCE,
    ALL_GATHER,
    ALL_TO_ALL,
    REDUCE_SCATTER,
    BROADCAST,
    REDUCE,
    GATHER,
    SCATTER,
    DISTRIBUTED,
    NO_KIND
};

struct form {
    enum kind kind;
    const char *reduce; /* "SUM", "MAX", .., in any case; of a Distributed operator its name */
    int64_t axis, root;
    uint32_t count;       /* members */
    const int64_t *ranks; /* of the world; NULL: all */
};

/* DistCollective's values are written in either case: NVIDIA's writer has the lower one, the operator's page the upper
   one. */
static enum kind kind_named(const char *name)
{
    static const struct {
        const char *name;
        enum kind kind;
    } kinds[] = {
        {"AllReduce", ALL_REDUCE},
        {"ALL_REDUCE", ALL_REDUCE},
        {"AllGather", ALL_GATHER},
        {"ALL_GATHER", ALL_GATHER},
        {"AllToAll", ALL_TO_ALL},
        {"ALL_TO_ALL", ALL_TO_ALL},
        {"ReduceScatter", REDUCE_SCATTER},
        {"REDUCE_SCATTER", REDUCE_SCATTER},
        {"Broadcast", BROADCAST},
        {"BROADCAST", BROADCAST},
        {"REDUCE", REDUCE},
        {"GATHER", GATHER},
        {"SCATTER", SCATTER},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcasecmp(kinds[i].name, name) == 0)
            return kinds[i].kind;
    }
    return NO_KIND;
}

static bool is_dist(const struct sp_node *node)
{
    return strcmp(node->op_type, "DistCollective") == 0;
}

bool sp_is_collective(const struct sp_node *node)
{
    const char *name = node->op_type;
    if (is_dist(node) || sp_is_distributed(node))
        return true;
    if (strcmp(node->domain, "com.microsoft") != 0)
        return false;
    const enum kind kind = kind_named(strncmp(name, "Nccl", 4) == 0 ? name + 4 : name);
    return kind == ALL_REDUCE || kind == ALL_GATHER || kind == ALL_TO_ALL || kind == REDUCE_SCATTER ||
           kind == BROADCAST;
}

static bool has_root(enum kind kind)
{
    return kind == BROADCAST || kind == REDUCE || kind == GATHER || kind == SCATTER;
}

static uint32_t world_size(const struct sp_verification *all, const struct sp_verify_run *run)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < all->run_count; i++)
        count += all->runs[i].program->world == run->program->world && all->runs[i].program->part == run->program->part;
    return count;
}

static struct sp_verify_run *find_rank(struct sp_verification *all, const struct sp_verify_run *run, int64_t rank)
{
    for (uint32_t i = 0; i < all->run_count; i++) {
        const struct sp_verify_program *other = all->runs[i].program;
        if (other->world == run->program->world && other->part == run->program->part && other->rank == rank)
            return &all->runs[i];
    }
    return NULL;
}

/* Reads the node that a run waits at. */
static struct form read_form(const struct sp_verification *all, const struct sp_verify_run *run)
{
    const struct sp_node *node = &run->model->graph->nodes[run->next];
    const char *name = is_dist(node) ? sp_node_string(node, "collective_operation", "") : node->op_type;
    struct form form = {.kind = kind_named(strncmp(name, "Nccl", 4) == 0 ? name + 4 : name),
                        .reduce = sp_node_string(node, "reduce_op", is_dist(node) ? "NONE" : "SUM"),
                        .axis = sp_node_int(node, "axis", 0),
                        .root = sp_node_int(node, "root", -1)};
    if (sp_is_distributed(node))
        return (struct form){DISTRIBUTED, node->op_type, 0, -1, world_size(all, run), NULL};
    if (!has_root(form.kind))
        form.root = -1; /* nobody reads it there */
    if (form.kind == ALL_GATHER || form.kind == ALL_TO_ALL || form.kind == GATHER || form.kind == SCATTER)
        form.reduce = ""; /* nor this: writers have "sum" or "NONE" */
    uint32_t listed;
    const int64_t *groups = sp_node_ints(node, "groups", &listed);
    const int64_t size = sp_node_int(node, "group_size", listed);
    form.count = world_size(all, run);
    if (!is_dist(node) && kind_named("AllReduce") != form.kind && sp_node_attribute(node, "group_size") != NULL)
        form.count = size > 0 && size <= SP_MAX_DEVICES ? (uint32_t)size : 0;
    if (groups == NULL || listed == 0)
        return form;
    /* a flat list of groups of this size: the one that the rank is in, once */
    const uint32_t step = size > 0 && size < listed ? (uint32_t)size : listed;
    uint32_t found = 0;
    for (uint32_t first = 0; first + step <= listed; first += step) {
        for (uint32_t i = 0; i < step; i++) {
            if (groups[first + i] != run->program->rank)
                continue;
            form.ranks = groups + first;
            found++;
        }
    }
    form.count = found == 1 && size <= listed ? step : 0;
    return form;
}

/* ---- carrying out ----------------------------------------------------------------------------------------------- */

struct exchange {
    struct sp_verification *all;
    struct form form;
    struct sp_verify_run **runs; /* members in the order of the group */
    struct sp_error *err;        /* of this program */
};

static struct sp_node *node_of(const struct sp_verify_run *run)
{
    return &run->model->graph->nodes[run->next];
}

static sp_number2 reduction(const struct exchange *exchange, const struct sp_numbers *x)
{
    const char *name = exchange->form.reduce;
    const bool is_float = sp_dtype_is_float(x->dtype);
    return strcasecmp(name, "MAX") == 0    ? is_float ? sp_number_max : sp_integer_max
           : strcasecmp(name, "MIN") == 0  ? is_float ? sp_number_min : sp_integer_min
           : strcasecmp(name, "PROD") == 0 ? is_float ? sp_number_multiply : sp_integer_multiply
           : strcasecmp(name, "SUM") == 0  ? is_float ? sp_number_add : sp_integer_add
                                           : NULL;
}

/* Another piece of the same shape into a sum. */
static void add_piece(struct sp_numbers *sum, const struct sp_numbers *piece, sp_number2 function)
{
    for (uint64_t i = 0; i < sum->count; i++)
        sum->items[i] = function(sum->items[i], piece->items[i]);
    sum->is_known = sum->is_known && piece->is_known;
}

/* All members' pieces joined, or their pieces one behind the other. */
static enum sp_status join(const struct exchange *exchange, const struct sp_numbers *const *pieces,
                           struct sp_numbers **ret, struct sp_error *why)
{
    const struct form *form = &exchange->form;
    struct sp_arena *arena = exchange->all->arena;
    enum sp_status status = SP_OK;
    if (form->kind == ALL_GATHER || form->kind == ALL_TO_ALL || form->kind == GATHER) {
        const int64_t axis = form->axis < 0 ? form->axis + pieces[0]->rank : form->axis;
        if (axis < 0 || axis >= pieces[0]->rank) {
            (void)sp_fail(why, SP_ERR_MODEL, "AXIS_MISSING", "It gathers along an axis that its input does not have.");
            return SP_ERR_MODEL; /* said so that an analyser sees it */
        }
        status = sp_numbers_concat(arena, form->count, pieces, (uint32_t)axis, ret, why);
        return status == SP_ERR_UNSUPPORTED ? SP_ERR_MODEL : status; /* the members' inputs have other shapes */
    }
    const sp_number2 function = reduction(exchange, pieces[0]);
    struct sp_numbers *sum;
    if (strcasecmp(form->reduce, "AVG") == 0) {
        (void)sp_fail(why, SP_ERR_UNSUPPORTED, "REDUCTION_UNKNOWN", "Averages of ranks are not evaluated.");
        return SP_ERR_UNSUPPORTED;
    }
    if (function == NULL) {
        (void)sp_fail(why, SP_ERR_MODEL, "NO_REDUCTION", "It reduces by '%s', which is no reduction.", form->reduce);
        return SP_ERR_MODEL; /* said so that an analyser sees it */
    }
    status = sp_numbers_view(arena, pieces[0], pieces[0]->rank, pieces[0]->axes, &sum, why);
    for (uint32_t i = 1; status == SP_OK && i < form->count; i++) {
        bool fits = pieces[i]->rank == sum->rank;
        for (uint32_t k = 0; fits && k < sum->rank; k++)
            fits = sp_index_equal(&pieces[i]->axes[k], &sum->axes[k]);
        if (!fits)
            status = sp_fail(why, SP_ERR_MODEL, "PARTS_DIFFER", "The members' inputs have different shapes.");
        else if (i == 1)
            status = sp_numbers_binary(arena, sum, pieces[i], sum->dtype, function, &sum, why);
        else
            add_piece(sum, pieces[i], function);
    }
    if (status == SP_OK)
        *ret = sum;
    return status;
}

/* What one member gets out of its input `i`. */
static enum sp_status result_of(const struct exchange *exchange, uint32_t member,
                                const struct sp_numbers *const *pieces, const struct sp_numbers *joined,
                                struct sp_numbers **ret, struct sp_error *why)
{
    const struct form *form = &exchange->form;
    struct sp_arena *arena = exchange->all->arena;
    const struct sp_numbers *x = form->kind == BROADCAST || form->kind == SCATTER ? pieces[form->root] : joined;
    if ((form->kind == REDUCE || form->kind == GATHER) && member != form->root)
        return sp_fail(why, SP_ERR_UNSUPPORTED, "NOT_AT_ROOT", "Only the root of its group gets a result.");
    if (form->kind != ALL_TO_ALL && form->kind != REDUCE_SCATTER && form->kind != SCATTER)
        return sp_numbers_view(arena, x, x->rank, x->axes, ret, why);
    const int64_t own = pieces[0]->rank > 0 ? pieces[0]->axes[0].extent : 0, block = own / form->count;
    if (pieces[0]->rank == 0 || own % form->count != 0)
        return sp_fail(why, SP_ERR_MODEL, "PARTS_DIFFER", "Its first axis of %lld elements is not divisible by %u.",
                       (long long)own, form->count);
    if (form->kind == REDUCE_SCATTER || form->kind == SCATTER)
        return sp_numbers_slice(arena, x, 0, (struct sp_index_run){member * block, 1, block}, ret, why);
    const struct sp_numbers **parts = SP_NEW_ARRAY(arena, form->count, const struct sp_numbers *);
    enum sp_status status = parts != NULL ? SP_OK : sp_fail_memory(why);
    for (uint32_t i = 0; status == SP_OK && i < form->count; i++) {
        struct sp_numbers *part = NULL;
        status = sp_numbers_slice(arena, pieces[i], 0, (struct sp_index_run){member * block, 1, block}, &part, why);
        parts[i] = part;
    }
    return status == SP_OK ? sp_numbers_concat(arena, form->count, parts, 0, ret, why) : status;
}

static enum sp_status set_all(const struct exchange *exchange, uint32_t i, struct sp_outcome outcome)
{
    enum sp_status status = SP_OK;
    for (uint32_t m = 0; status == SP_OK && m < exchange->form.count; m++) {
        struct sp_node *node = node_of(exchange->runs[m]);
        if (i < node->output_count && node->outputs[i] != NULL)
            status = sp_run_set(exchange->all, exchange->runs[m], node->outputs[i], outcome, exchange->err);
    }
    return status;
}

static bool have_same_extents(const struct sp_numbers *a, const struct sp_numbers *b)
{
    bool is_same = a->rank == b->rank;
    for (uint32_t i = 0; is_same && i < a->rank; i++)
        is_same = a->axes[i].extent == b->axes[i].extent;
    return is_same;
}

/* The member whose piece has a shape that the fewest have. */
static uint32_t odd_member(uint32_t count, const struct sp_numbers *const *pieces)
{
    uint32_t odd = 0, least = UINT32_MAX;
    for (uint32_t m = 0; m < count; m++) {
        uint32_t like = 0;
        for (uint32_t k = 0; k < count; k++)
            like += have_same_extents(pieces[m], pieces[k]);
        if (like < least) {
            odd = m;
            least = like;
        }
    }
    return odd;
}

static enum sp_status exchange_operand(const struct exchange *exchange, uint32_t i)
{
    struct sp_verification *all = exchange->all;
    const struct sp_numbers **pieces = SP_NEW_ARRAY(all->arena, exchange->form.count, const struct sp_numbers *);
    struct sp_numbers *joined = NULL;
    struct sp_error why = {0};
    if (pieces == NULL)
        return sp_fail_memory(exchange->err);
    for (uint32_t m = 0; m < exchange->form.count; m++) {
        const struct sp_node *node = node_of(exchange->runs[m]);
        const struct sp_outcome *outcome;
        if (sp_run_operand(all, exchange->runs[m], i < node->input_count ? node->inputs[i] : NULL, &outcome,
                           exchange->err) != SP_OK)
            return SP_ERR_MEMORY;
        if (outcome == NULL || outcome->numbers == NULL)
            return set_all(exchange, i,
                           outcome != NULL
                               ? *outcome
                               : (struct sp_outcome){.why = "an input of a collective is nothing that is computed",
                                                     .at = node,
                                                     .run = exchange->runs[m]});
        pieces[m] = outcome->numbers;
    }
    enum sp_status status = SP_OK;
    const enum kind kind = exchange->form.kind;
    if (kind != BROADCAST && kind != SCATTER && kind != ALL_TO_ALL)
        status = join(exchange, pieces, &joined, &why);
    for (uint32_t m = 0; status == SP_OK && m < exchange->form.count; m++) {
        struct sp_node *node = node_of(exchange->runs[m]);
        struct sp_numbers *result = NULL;
        status = result_of(exchange, m, pieces, joined, &result, &why);
        if (status == SP_ERR_UNSUPPORTED && m != exchange->form.root && has_root(kind)) {
            status = i < node->output_count && node->outputs[i] != NULL
                         ? sp_run_set(all, exchange->runs[m], node->outputs[i],
                                      (struct sp_outcome){.why = "only the root of a group gets a result",
                                                          .at = node,
                                                          .run = exchange->runs[m]},
                                      exchange->err)
                         : SP_OK;
            continue;
        }
        if (status == SP_OK && i < node->output_count && node->outputs[i] != NULL)
            status =
                sp_run_set(all, exchange->runs[m], node->outputs[i],
                           (struct sp_outcome){.numbers = result, .at = node, .run = exchange->runs[m]}, exchange->err);
    }
    if (status == SP_OK || status == SP_ERR_MEMORY)
        return status == SP_OK ? SP_OK : sp_fail_memory(exchange->err);
    const char *text = sp_arena_printf(all->arena, "%s", why.message);
    struct sp_verify_run *odd = exchange->runs[odd_member(exchange->form.count, pieces)];
    return text == NULL ? sp_fail_memory(exchange->err)
                        : set_all(exchange, i,
                                  (struct sp_outcome){
                                      .why = text, .at = node_of(odd), .is_wrong = status == SP_ERR_MODEL, .run = odd});
}

/* The members of the group of a waiting run, where all of them wait at the same collective; NULL where not yet.
   `*ret_clash` is set where they never will. */
static struct sp_verify_run **members_of(struct sp_verification *all, struct sp_verify_run *run,
                                         const struct form *form, const char **ret_clash)
{
    struct sp_verify_run **runs = SP_NEW_ARRAY(all->arena, form->count + (size_t)1, struct sp_verify_run *);
    *ret_clash = NULL;
    if (form->kind == NO_KIND || form->count == 0 || runs == NULL || form->root >= (int64_t)form->count ||
        (has_root(form->kind) && form->root < 0)) {
        *ret_clash = "its kind, group or root is none of its world";
        return NULL;
    }
    for (uint32_t i = 0; i < form->count; i++) {
        runs[i] = find_rank(all, run, form->ranks != NULL ? form->ranks[i] : i);
        if (runs[i] == NULL) {
            *ret_clash = "its group has a rank that is not there";
            return NULL;
        }
        if (runs[i]->state == SP_RUN_DONE)
            *ret_clash = "another member of its group has no such collective any more";
        if (runs[i]->state != SP_RUN_WAITS)
            return NULL;
        const struct form other = read_form(all, runs[i]);
        bool is_same = other.count == form->count;
        for (uint32_t k = 0; is_same && k < form->count; k++)
            is_same = (other.ranks != NULL ? other.ranks[k] : k) == (form->ranks != NULL ? form->ranks[k] : k);
        if (!is_same)
            return NULL;
        if (other.kind != form->kind || strcasecmp(other.reduce, form->reduce) != 0 || other.axis != form->axis ||
            other.root != form->root) {
            *ret_clash = "another member of its group is at a collective of another kind";
            return NULL;
        }
    }
    return runs;
}

static enum sp_status carry_out(struct sp_verification *all, const struct form *form, struct sp_verify_run **runs,
                                struct sp_error *err)
{
    const struct exchange exchange = {all, *form, runs, err};
    struct sp_node **nodes = SP_NEW_ARRAY(all->arena, form->count, struct sp_node *);
    enum sp_status status = nodes != NULL ? SP_OK : sp_fail_memory(err);
    if (status == SP_OK && form->kind == DISTRIBUTED)
        status = sp_distributed_evaluate(all, form->count, runs, err);
    for (uint32_t i = 0; form->kind != DISTRIBUTED && status == SP_OK && i < node_of(runs[0])->input_count; i++)
        status = exchange_operand(&exchange, i);
    for (uint32_t m = 0; status == SP_OK && m < form->count; m++) {
        nodes[m] = node_of(runs[m]);
        if (!SP_MAKE_ROOM(all->arena, runs[m]->order, runs[m]->order_count, runs[m]->order_capacity, 1))
            return sp_fail_memory(err);
        runs[m]->order[runs[m]->order_count++] = nodes[m];
        runs[m]->next++;
        runs[m]->collectives++;
        runs[m]->state = SP_RUN_READY;
    }
    if (status == SP_OK && !SP_PUSH(all->arena, &all->exchanges, (struct sp_verify_exchange){form->count, runs, nodes}))
        status = sp_fail_memory(err);
    return status;
}

enum sp_status sp_exchange_all(struct sp_verification *all, bool *ret_any, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    *ret_any = false;
    for (uint32_t i = 0; status == SP_OK && i < all->run_count; i++) {
        const char *clash;
        if (all->runs[i].state != SP_RUN_WAITS)
            continue;
        const struct form form = read_form(all, &all->runs[i]);
        struct sp_verify_run **runs = members_of(all, &all->runs[i], &form, &clash);
        if (runs == NULL)
            continue;
        status = carry_out(all, &form, runs, err);
        *ret_any = true;
    }
    return status;
}

/* How many ranks wait at the same collective as this one. */
static uint32_t count_like(const struct sp_verification *all, const struct sp_verify_run *run)
{
    const struct form own = read_form(all, run);
    uint32_t count = 0;
    for (uint32_t i = 0; i < all->run_count; i++) {
        if (all->runs[i].state != SP_RUN_WAITS || all->runs[i].program->world != run->program->world)
            continue;
        const struct form other = read_form(all, &all->runs[i]);
        count += other.kind == own.kind && other.axis == own.axis && other.root == own.root &&
                 other.count == own.count && strcmp(other.reduce, own.reduce) == 0;
    }
    return count;
}

static enum sp_status tell_stuck(struct sp_verification *all, struct sp_verify_run *run, struct sp_error *err)
{
    const char *clash;
    const struct form form = read_form(all, run);
    (void)members_of(all, run, &form, &clash);
    const char *text = sp_arena_printf(all->arena, "The collective is never carried out: %s.",
                                       clash != NULL ? clash : "the ranks wait for each other at different ones");
    return text == NULL ? sp_fail_memory(err)
                        : sp_verify_fail(all,
                                         (struct sp_verify_failure){
                                             .verdict = SP_REFUTED, .run = run, .node = node_of(run), .message = text},
                                         err);
}

/* First those that wait at what the fewest others do: the others are where they should be. */
enum sp_status sp_exchange_tell_stuck(struct sp_verification *all, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    for (uint32_t like = 1, told = 0; status == SP_OK && told < all->run_count && like <= all->run_count; like++) {
        for (uint32_t i = 0; status == SP_OK && i < all->run_count; i++) {
            if (all->runs[i].state != SP_RUN_WAITS || count_like(all, &all->runs[i]) != like)
                continue;
            status = tell_stuck(all, &all->runs[i], err);
            told++;
        }
    }
    return status;
}
