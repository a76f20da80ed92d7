/*
 * propagate - an assignment completed by propagation.
 *
 *   collect     what is stated, in positions of one mesh (stated_specs.c)
 *   relate      one tensor for each value of the model, and one of its own for an operand that is stated otherwise than
 *               its value, and for each of several uses of a constant; one flow for each relation
 *   refine      tensors by the pieces that rules and stated specs cut their axes in (refine.h)
 *   propagate   (propagate.c)
 *   finish      node by node in order: operands that agree with the rule (resolve_operands.c), on the node's
 *               devices, with the reason (reason.c)
 */
#include <string.h>

#include "base/sorted.h"
#include "infer/propagate/internal.h"
#include "infer/settle.h"
#include "infer/view/axis_cuts.h"
#include "sharding/convert_forms.h"

/* ---- relate ----------------------------------------------------------------------------------------------------- */

/* Of one tensor: whether its axes are cut in the same parts, and these alike. */
static bool is_same_statement(const struct sp_statement *a, const struct sp_statement *b)
{
    const struct sp_refined *p = a->parts, *q = b->parts;
    if (a == b)
        return true;
    if ((p == NULL) != (q == NULL) || a->axes->rank != b->axes->rank ||
        (p != NULL && memcmp(p->shape, q->shape, p->rank * sizeof *p->shape) != 0))
        return false;
    for (uint32_t axis = 0; a->axes != b->axes && axis < a->axes->rank; axis++) {
        const struct sp_axis_list *x = &a->axes->dims[axis].axes, *y = &b->axes->dims[axis].axes;
        if (x->count != y->count || !sp_axes_is_prefix(x, y) || !sp_axes_is_prefix(y, x))
            return false;
    }
    return true;
}

static bool is_output(const struct sp_inference *all, const struct sp_stated *stated)
{
    return stated->operand >= all->assignment->dataflow->nodes[stated->node]->input_count;
}

/* How many operands are stated otherwise than their tensor is. */
static enum sp_status count_odd(struct sp_inference *all, uint32_t *ret_count)
{
    const struct sp_dataflow *dataflow = all->assignment->dataflow;
    struct sp_arena_mark mark = sp_arena_mark(all->passing);
    const struct sp_statement **first = SP_NEW_ARRAY(all->passing, dataflow->tensor_count, const struct sp_statement *);
    uint32_t count = 0;
    if (first == NULL)
        return sp_fail_memory(all->err);
    for (uint32_t pass = 0; pass < 2; pass++) { /* outputs, then inputs */
        for (uint32_t i = 0; i < all->given.stated_count; i++) {
            const struct sp_stated *stated = &all->given.stated[i];
            if (stated->says->axes == NULL || is_output(all, stated) != (pass == 0))
                continue;
            uint32_t tensor =
                sp_dataflow_tensor(dataflow, sp_infer_operand(dataflow->nodes[stated->node], stated->operand));
            if (first[tensor] == NULL)
                first[tensor] = stated->says;
            count += !is_same_statement(first[tensor], stated->says);
        }
    }
    sp_arena_rewind(all->passing, mark);
    *ret_count = count;
    return SP_OK;
}

/* Whether a use of the value gets a tensor of its own. One without axes has nothing to be split. */
static bool is_shared_constant(const struct sp_value *value)
{
    return value != NULL && value->is_constant && value->use_count > 1 &&
           !(sp_infer_has_rank(value) && value->type.shape.rank == 0);
}

static enum sp_status index_operands(struct sp_inference *all)
{
    const struct sp_dataflow *dataflow = all->assignment->dataflow;
    uint32_t total = 0, odd = 0;
    enum sp_status status = count_odd(all, &odd);
    all->first_operand = SP_NEW_ARRAY(all->scratch, (size_t)dataflow->node_count + 1, uint32_t);
    if (status != SP_OK || all->first_operand == NULL)
        return sp_fail_memory(all->err);
    for (uint32_t n = 0; n < dataflow->node_count; n++) {
        all->first_operand[n] = total;
        total += sp_infer_operand_count(dataflow->nodes[n]);
        for (uint32_t i = 0; i < dataflow->nodes[n]->input_count; i++) {
            const struct sp_value *value = dataflow->nodes[n]->inputs[i];
            all->constant_uses += is_shared_constant(value);
            all->copies += is_shared_constant(value) && value->producer != NULL;
        }
    }
    all->first_operand[dataflow->node_count] = total;
    all->stated_of = SP_NEW_ARRAY(all->scratch, total, uint32_t);
    all->tensor.told = SP_NEW_ARRAY(all->scratch, dataflow->tensor_count, struct sp_infer_told);
    all->tensor.capacity = dataflow->tensor_count + odd + all->constant_uses;
    all->tensor.ranks = SP_NEW_ARRAY(all->scratch, all->tensor.capacity, uint32_t);
    all->tensor.shapes = SP_NEW_ARRAY(all->scratch, all->tensor.capacity, const int64_t *);
    all->tensor.values = SP_NEW_ARRAY(all->scratch, all->tensor.capacity, const struct sp_value *);
    all->tensor.shardings = SP_NEW_ARRAY(all->scratch, all->tensor.capacity, const struct sp_sharding *);
    all->tensor.origins = SP_NEW_ARRAY(all->scratch, all->tensor.capacity, struct sp_flow_origin *);
    all->tensor.statement_of = SP_NEW_ARRAY(all->scratch, all->tensor.capacity, uint32_t);
    all->tensor.refined = SP_NEW_ARRAY(all->scratch, all->tensor.capacity, const struct sp_refined *);
    all->tensor.yields = SP_NEW_ARRAY(all->scratch, all->tensor.capacity, bool);
    if (all->stated_of == NULL || all->tensor.told == NULL || all->tensor.ranks == NULL || all->tensor.shapes == NULL ||
        all->tensor.values == NULL || all->tensor.shardings == NULL || all->tensor.origins == NULL ||
        all->tensor.statement_of == NULL || all->tensor.refined == NULL || all->tensor.yields == NULL)
        return sp_fail_memory(all->err);
    return SP_OK;
}

static enum sp_status add_tensor(struct sp_inference *all, const struct sp_value *value)
{
    uint32_t id = all->tensor.count++;
    all->tensor.values[id] = value;
    all->tensor.yields[id] = value->is_constant;
    if (!sp_infer_has_rank(value))
        return SP_OK;
    all->tensor.ranks[id] = value->type.shape.rank;
    return sp_infer_extents(all, value, &all->tensor.shapes[id]);
}

/* Stated specs to tensors: of outputs first, then those of uses that say the same or the first thing; any other use
   gets a tensor of its own, to which a reshard is implied. */
static enum sp_status state_tensors(struct sp_inference *all, bool of_outputs)
{
    const struct sp_dataflow *dataflow = all->assignment->dataflow;
    for (uint32_t i = 0; i < all->given.stated_count; i++) {
        struct sp_stated *stated = &all->given.stated[i];
        const struct sp_node *node = dataflow->nodes[stated->node];
        const struct sp_value *value = sp_infer_operand(node, stated->operand);
        uint32_t tensor = sp_dataflow_tensor(dataflow, value);
        if (is_output(all, stated) != of_outputs)
            continue;
        all->stated_of[all->first_operand[stated->node] + stated->operand] = i + 1;
        stated->tensor = tensor;
        if (stated->says->axes == NULL) {
            stated->tensor = SP_NO_TENSOR;
            continue;
        }
        if (all->tensor.statement_of[tensor] == 0)
            all->tensor.statement_of[tensor] = i + 1;
        if (is_same_statement(all->given.stated[all->tensor.statement_of[tensor] - 1].says, stated->says))
            continue;
        stated->tensor = all->tensor.count;
        enum sp_status status = add_tensor(all, value);
        if (status != SP_OK)
            return status;
        all->tensor.statement_of[stated->tensor] = i + 1;
    }
    return SP_OK;
}

/* Each axis of one is the same axis of the other. *ret_rule is NULL where it is too much to keep. */
static enum sp_status copy_rule(struct sp_inference *all, const struct sp_value *value, struct sp_rule **ret_rule)
{
    struct sp_arena_mark mark = sp_arena_mark(all->passing);
    struct sp_operand_rule *operands = SP_NEW_ARRAY(all->passing, 2, struct sp_operand_rule);
    uint32_t rank = value->type.shape.rank;
    struct sp_rule rule = {.arena = all->passing, .input_count = 1, .output_count = 1, .bytes = -1};
    rule.factors = SP_NEW(all->passing, struct sp_factor);
    if (operands == NULL || rule.factors == NULL)
        return sp_fail_memory(all->err);
    rule.inputs = operands;
    rule.outputs = operands + 1;
    for (uint32_t i = 0; i < 2; i++) {
        operands[i].rank = rank;
        operands[i].axes = SP_NEW_ARRAY(all->passing, rank, struct sp_axis_factors);
        if (operands[i].axes == NULL)
            return sp_fail_memory(all->err);
    }
    for (uint32_t axis = 0; axis < rank; axis++) {
        uint8_t factor = sp_rule_factor(&rule, "d", SP_FACTOR_PARALLEL, value->type.shape.dims[axis]);
        sp_rule_map_input(&rule, 0, axis, factor);
        sp_rule_map_output(&rule, 0, axis, factor);
    }
    if (rule.faults != 0)
        return sp_fail_memory(all->err);
    enum sp_status status = sp_rules_keep(sp_dataflow_rules(all->assignment->dataflow), &rule, ret_rule, all->err);
    sp_arena_rewind(all->passing, mark);
    return status;
}

/* A constant is there before the first step, and each use may take the part of it that it wants: so its uses do not
   speak to each other through it (exporters share equal biases of layers that have nothing to do with each other). What
   is stated of it, or carried to it, reaches them all. */
static enum sp_status separate_use(struct sp_inference *all, uint32_t relation, uint32_t *tensor)
{
    const struct sp_value *value = all->tensor.values[*tensor];
    uint32_t base = *tensor;
    if (!is_shared_constant(value))
        return SP_OK;
    *tensor = all->tensor.count;
    enum sp_status status = add_tensor(all, value);
    if (status != SP_OK)
        return status;
    all->tensor.statement_of[*tensor] = all->tensor.statement_of[base];
    if (value->producer == NULL)
        return SP_OK;
    uint32_t *tensors = SP_NEW_ARRAY(all->scratch, 2, uint32_t);
    struct sp_rule *rule = NULL;
    if (tensors == NULL)
        return sp_fail_memory(all->err);
    tensors[0] = base;
    tensors[1] = *tensor;
    status = copy_rule(all, value, &rule);
    if (status == SP_OK && rule == NULL)
        return sp_infer_leave_out(all, all->assignment->dataflow->relations[relation].node);
    if (status != SP_OK)
        return status;
    all->flow.relation_of[all->flow.count] = relation;
    all->flow.is_copy[all->flow.count] = true;
    all->flow.items[all->flow.count++] = (struct sp_flow){.rule = rule,
                                                          .tensors = tensors,
                                                          .input_count = 1,
                                                          .operand_count = 2,
                                                          .early = SP_DIRECTION_FORWARD,
                                                          .middle = SP_DIRECTION_FORWARD,
                                                          .directions = SP_DIRECTION_FORWARD};
    return SP_OK;
}

/* The tensor that an operand is, which may be one of its own. */
static enum sp_status relate_operand(struct sp_inference *all, const struct sp_relation *relation, uint32_t operand,
                                     uint32_t *ret_tensor)
{
    uint32_t tensor = relation->tensors[operand];
    if (tensor == SP_NO_TENSOR || !sp_infer_has_rank(all->tensor.values[tensor]))
        tensor = SP_NO_TENSOR;
    *ret_tensor = tensor;
    if (relation->kind != SP_RELATION_NODE || tensor == SP_NO_TENSOR)
        return SP_OK;
    uint32_t stated = all->stated_of[all->first_operand[relation->node_id] + operand];
    if (stated > 0)
        *ret_tensor = all->given.stated[stated - 1].tensor;
    else if (operand < relation->input_count)
        return separate_use(all, relation->id, ret_tensor);
    return SP_OK;
}

/* The relation's own list where nothing is different in it. */
static enum sp_status relate_operands(struct sp_inference *all, const struct sp_relation *relation,
                                      const uint32_t **ret_tensors)
{
    uint32_t *own = NULL;
    for (uint32_t i = 0; i < relation->operand_count; i++) {
        uint32_t tensor = SP_NO_TENSOR;
        enum sp_status status = relate_operand(all, relation, i, &tensor);
        if (status != SP_OK)
            return status;
        if (own == NULL && tensor != relation->tensors[i]) {
            own = SP_NEW_ARRAY(all->scratch, relation->operand_count, uint32_t);
            if (own == NULL)
                return sp_fail_memory(all->err);
            memcpy(own, relation->tensors, relation->operand_count * sizeof *own);
        }
        if (own != NULL)
            own[i] = tensor;
    }
    *ret_tensors = own != NULL ? own : relation->tensors;
    return SP_OK;
}

static enum sp_status add_flow(struct sp_inference *all, uint32_t index)
{
    const struct sp_relation *relation = &all->assignment->dataflow->relations[index];
    struct sp_flow flow = {.input_count = relation->input_count, .operand_count = relation->operand_count};
    struct sp_error why = {0};
    enum sp_status status = sp_dataflow_keep_rule(all->assignment->dataflow, relation, all->passing, &flow.rule, &why);
    if (status == SP_ERR_MEMORY || status == SP_ERR_CANCELLED || status == SP_ERR_INTERNAL) {
        *all->err = why;
        return status;
    }
    if (status != SP_OK)
        return sp_assignment_stop(all->assignment, "NO_RULE", relation->node, NULL, all->err, "%.400s", why.message);
    if (flow.rule == NULL)
        return sp_infer_leave_out(all, relation->node);
    status = relate_operands(all, relation, &flow.tensors);
    sp_flow_classify(&flow);
    all->flow.relation_of[all->flow.count] = index;
    all->flow.items[all->flow.count++] = flow;
    return status;
}

static enum sp_status relate(struct sp_inference *all)
{
    const struct sp_dataflow *dataflow = all->assignment->dataflow;
    enum sp_status status = index_operands(all);
    for (uint32_t t = 0; status == SP_OK && t < dataflow->tensor_count; t++)
        status = add_tensor(all, dataflow->tensors[t]);
    if (status == SP_OK)
        status = state_tensors(all, true);
    if (status == SP_OK)
        status = state_tensors(all, false);
    all->flow.items = SP_NEW_ARRAY(all->scratch, (size_t)dataflow->relation_count + all->copies, struct sp_flow);
    all->flow.relation_of = SP_NEW_ARRAY(all->scratch, (size_t)dataflow->relation_count + all->copies, uint32_t);
    all->flow.is_copy = SP_NEW_ARRAY(all->scratch, (size_t)dataflow->relation_count + all->copies, bool);
    if (status == SP_OK && (all->flow.items == NULL || all->flow.relation_of == NULL || all->flow.is_copy == NULL))
        return sp_fail_memory(all->err);
    for (uint32_t r = 0; status == SP_OK && r < dataflow->relation_count; r++)
        status = add_flow(all, r);
    return status;
}

/* ---- places ----------------------------------------------------------------------------------------------------- */

/* Nodes' places from their own specs, then from producers (the one that came latest), then from users. */
static enum sp_status place_nodes(struct sp_inference *all)
{
    const struct sp_dataflow *dataflow = all->assignment->dataflow;
    uint32_t *of_tensor = SP_NEW_ARRAY(all->scratch, all->tensor.capacity, uint32_t); /* place + 1 */
    all->place_of = SP_NEW_ARRAY(all->scratch, dataflow->node_count, uint32_t);
    if (of_tensor == NULL || all->place_of == NULL)
        return sp_fail_memory(all->err);
    for (uint32_t i = all->given.stated_count; i-- > 0;) {
        if (all->given.stated[i].says->axes != NULL)
            all->place_of[all->given.stated[i].node] = all->given.stated[i].says->place + 1;
    }
    for (uint32_t r = 0; r < dataflow->relation_count; r++) {
        const struct sp_relation *relation = &dataflow->relations[r];
        uint32_t own = relation->kind == SP_RELATION_NODE ? all->place_of[relation->node_id] : 0;
        for (uint32_t i = 0; own == 0 && i < relation->input_count; i++) {
            uint32_t place = relation->tensors[i] == SP_NO_TENSOR ? 0 : of_tensor[relation->tensors[i]];
            own = place > own ? place : own;
        }
        if (relation->kind == SP_RELATION_NODE)
            all->place_of[relation->node_id] = own;
        for (uint32_t i = relation->input_count; i < relation->operand_count; i++) {
            if (relation->tensors[i] != SP_NO_TENSOR)
                of_tensor[relation->tensors[i]] = own;
        }
    }
    for (uint32_t r = dataflow->relation_count; r-- > 0;) {
        const struct sp_relation *relation = &dataflow->relations[r];
        uint32_t own = relation->kind == SP_RELATION_NODE ? all->place_of[relation->node_id] : 0;
        for (uint32_t i = relation->input_count; own == 0 && i < relation->operand_count; i++) {
            if (relation->tensors[i] != SP_NO_TENSOR)
                own = of_tensor[relation->tensors[i]];
        }
        if (relation->kind == SP_RELATION_NODE)
            all->place_of[relation->node_id] = own;
        for (uint32_t i = 0; i < relation->input_count; i++) {
            if (relation->tensors[i] != SP_NO_TENSOR && of_tensor[relation->tensors[i]] == 0)
                of_tensor[relation->tensors[i]] = own;
        }
    }
    return SP_OK;
}

/* ---- finish ----------------------------------------------------------------------------------------------------- */

/* The mesh with a place's devices on its positions; with the positions themselves where a device is on several. */
static enum sp_status mesh_of_place(struct sp_inference *all, uint32_t index, const struct sp_mesh **ret_mesh,
                                    bool *ret_has_shares)
{
    struct sp_infer_place *place = &all->given.places[index];
    struct sp_device_order order;
    struct sp_mesh *mesh = NULL;
    *ret_has_shares = place->has_shares;
    if (place->mesh != NULL) {
        *ret_mesh = place->mesh;
        return SP_OK;
    }
    bool is_range = true;
    for (int64_t i = 0; i < place->count && !place->has_shares; i++)
        is_range = is_range && place->devices[i] == i;
    enum sp_status status =
        is_range ? SP_OK : sp_device_order_list(all->arena, place->count, place->devices, &order, all->err);
    if (status == SP_OK)
        status = sp_mesh_create(all->arena, all->mesh->axis_count, all->mesh->axes, is_range ? NULL : &order, &mesh,
                                all->err);
    if (status == SP_OK)
        *ret_mesh = place->mesh = mesh;
    return status;
}

static enum sp_status copy_on(struct sp_inference *all, const struct sp_sharding *sharding, uint32_t rank,
                              const struct sp_mesh *mesh, const struct sp_sharding **ret_sharding)
{
    struct sp_sharding *own = NULL;
    enum sp_status status = sp_sharding_create_axes(all->arena, mesh, rank, &own, all->err);
    for (uint32_t axis = 0; status == SP_OK && sharding != NULL && axis < rank; axis++)
        status = sp_axes_copy(all->arena, &sharding->dims[axis].axes, &own->dims[axis].axes, all->err);
    if (status == SP_OK)
        *ret_sharding = own;
    return status;
}

SP_ASCENDING_NUMBERS(by_number, int64_t)

/* A sharding of positions on the devices that stand on them. Where they are not together what a device may have of an
   axis, it has all. */
static enum sp_status place_shares(struct sp_inference *all, const struct sp_infer_place *place, uint32_t tensor,
                                   const struct sp_sharding **sharding)
{
    const uint32_t rank = all->tensor.values[tensor]->type.shape.rank;
    const struct sp_sharding *regular = NULL;
    struct sp_sharding *blocks = NULL;
    const int64_t *shape = NULL;
    enum sp_status status = sp_sharding_to_blocks(all->arena, *sharding, rank, place->count, &blocks, NULL, all->err);
    if (status != SP_OK)
        return status;
    uint32_t *first = SP_NEW_ARRAY(all->arena, (size_t)blocks->shard_count + 1, uint32_t), used = 0;
    int64_t *devices = SP_NEW_ARRAY(all->arena, blocks->first[blocks->shard_count], int64_t);
    if (first == NULL || devices == NULL)
        return sp_fail_memory(all->err);
    for (int64_t shard = 0; shard < blocks->shard_count; shard++) {
        const uint32_t begin = used;
        for (uint32_t i = blocks->first[shard]; i < blocks->first[shard + 1]; i++)
            devices[used++] = place->devices[blocks->devices[i]];
        sp_sort(devices + begin, used - begin, sizeof *devices, by_number);
        for (uint32_t i = begin, end = used, kept = used = begin; i < end; i++, kept = used)
            if (kept == begin || devices[kept - 1] != devices[i])
                devices[used++] = devices[i];
        first[shard + 1] = used;
    }
    blocks->first = first;
    blocks->devices = devices;
    blocks->run = SP_RUN_UNKNOWN;
    status = sp_infer_extents(all, all->tensor.values[tensor], &shape);
    if (status == SP_OK)
        status = sp_sharding_regular(all->passing, blocks, shape, &regular, all->err);
    if (status == SP_OK && regular == NULL)
        status = sp_view_cache_whole(all->assignment->cache, rank, all->assignment->device_count, 1,
                                     &(const struct sp_sharding *){blocks}, sharding, all->err);
    else
        *sharding = blocks;
    return status;
}

/* A sharding of a tensor of this rank and these pieces, and what it is on the devices of a place. */
struct realized {
    uint32_t place, rank;
    const struct sp_sharding *sharding;
    const struct sp_refined *refined;
    const struct sp_sharding *result;
};

static bool is_same_realized(const void *item, const void *key)
{
    const struct realized *a = item, *b = key;
    return a->place == b->place && a->rank == b->rank && a->sharding == b->sharding && a->refined == b->refined;
}

/* The closed sharding of a node's operand on the node's devices. */
static enum sp_status realize(struct sp_inference *all, uint32_t place, uint32_t tensor,
                              const struct sp_sharding *sharding, const struct sp_sharding **ret_sharding)
{
    const struct sp_mesh *mesh;
    struct realized wanted = {.place = place,
                              .rank = all->tensor.values[tensor]->type.shape.rank,
                              .sharding = sharding,
                              .refined = sharding == NULL ? NULL : all->tensor.refined[tensor]};
    struct sp_digest digest;
    sp_digest_begin(&digest, all->assignment->dataflow->model->hash_seed);
    sp_digest_number(&digest, (uint64_t)wanted.place << 32 | wanted.rank);
    sp_digest_number(&digest, (uint64_t)(uintptr_t)wanted.sharding);
    sp_digest_number(&digest, (uint64_t)(uintptr_t)wanted.refined);
    uint64_t hash = sp_digest_end(&digest);
    const struct realized *same = sp_hash_set_find(&all->realized, hash, is_same_realized, &wanted);
    if (same != NULL) {
        *ret_sharding = same->result;
        return SP_OK;
    }
    bool has_shares = false;
    enum sp_status status = mesh_of_place(all, place, &mesh, &has_shares);
    if (status == SP_OK && wanted.refined != NULL)
        status = sp_infer_join(all->arena, wanted.refined, wanted.rank, sharding, mesh, &wanted.result, all->err);
    else if (status == SP_OK)
        status = copy_on(all, sharding, wanted.rank, mesh, &wanted.result);
    if (status == SP_OK && has_shares)
        status = place_shares(all, &all->given.places[place], tensor, &wanted.result);
    if (status != SP_OK)
        return status;
    struct realized *own = SP_NEW(all->scratch, struct realized);
    if (own == NULL || !sp_hash_set_add(&all->realized, hash, own))
        return sp_fail_memory(all->err);
    *own = wanted;
    *ret_sharding = wanted.result;
    return SP_OK;
}

static enum sp_status write_entry(struct sp_inference *all, uint32_t flow_id, uint32_t operand,
                                  const struct sp_resolve_operand *resolved)
{
    const struct sp_relation *relation = &all->assignment->dataflow->relations[all->flow.relation_of[flow_id]];
    struct sp_spec_entry *entry = sp_spec_of(all->assignment, relation->node_id, operand);
    uint32_t tensor = all->flow.items[flow_id].tensors[operand];
    uint32_t place = all->place_of[relation->node_id];
    enum sp_status status =
        realize(all, place == 0 ? all->given.first_place : place - 1, tensor, resolved->result, &entry->sharding);
    if (status == SP_OK)
        status = sp_infer_reason(all, flow_id, operand, resolved, entry);
    return status;
}

static bool is_split(const struct sp_sharding *sharding)
{
    for (uint32_t axis = 0; sharding != NULL && axis < sharding->rank; axis++) {
        if (sharding->dims[axis].axes.count > 0)
            return true;
    }
    return false;
}

/* As it was done for the last node of which all is the same. */
static enum sp_status recall_node(struct sp_inference *all, const struct sp_flow *flow,
                                  struct sp_resolve_operand *operands)
{
    struct sp_recent_key key = {0};
    uint64_t flags = 0, types = 0;
    bool is_known = false;
    if (flow->operand_count > SP_RECENT_OPERANDS)
        return sp_resolve_node(&all->shardings, all->passing, flow->rule, all->mesh, operands, all->err);
    sp_recent_pointer(&key, flow->rule);
    for (uint32_t i = 0; i < flow->operand_count; i++) {
        flags = flags << 4 | (uint64_t)operands[i].is_constant << 3 | (uint64_t)operands[i].is_fixed << 2 |
                (uint64_t)operands[i].is_absent << 1 | (uint64_t)operands[i].is_stated;
        types = types << 8 | (operands[i].is_absent ? 0 : (uint8_t)all->tensor.values[flow->tensors[i]]->type.dtype);
        sp_recent_pointer(&key, operands[i].sharding);
        sp_recent_pointer(&key, operands[i].shape);
    }
    sp_recent_word(&key, flags);
    sp_recent_word(&key, types);
    uint32_t slot = sp_recent_slot(&all->recent->resolved, &key, &is_known);
    struct sp_infer_resolved *resolved = all->recent->operands[slot];
    enum sp_status status = SP_OK;
    if (!is_known)
        status = sp_resolve_node(&all->shardings, all->passing, flow->rule, all->mesh, operands, all->err);
    for (uint32_t i = 0; status == SP_OK && i < flow->operand_count; i++) {
        if (!is_known)
            resolved[i] = (struct sp_infer_resolved){operands[i].result, operands[i].factor, operands[i].is_combined};
        operands[i].result = resolved[i].result;
        operands[i].factor = resolved[i].factor;
        operands[i].is_combined = resolved[i].is_combined;
    }
    return status;
}

/* By the parts of its axes; extents that are not known count as one. */
static double bytes_of(const struct sp_inference *all, uint32_t tensor)
{
    const int64_t *shape = all->tensor.shapes[tensor];
    double bytes = (double)sp_dtype_bytes(all->tensor.values[tensor]->type.dtype, 1);
    for (uint32_t axis = 0; axis < all->tensor.ranks[tensor]; axis++)
        bytes *= shape[axis] < 0 ? 1 : (double)shape[axis];
    return bytes;
}

static enum sp_status resolve_node(struct sp_inference *all, const struct sp_flow *flow, uint32_t node_id,
                                   struct sp_resolve_operand *operands)
{
    bool is_any_split = false;
    for (uint32_t i = 0; i < flow->operand_count; i++) {
        uint32_t tensor = flow->tensors[i];
        operands[i].is_absent = tensor == SP_NO_TENSOR;
        const struct sp_spec_entry *entry = sp_spec_of(all->assignment, node_id, i);
        operands[i].is_stated = sp_infer_is_stated(entry);
        operands[i].is_fixed =
            entry->origin == SP_SPEC_GIVEN || (entry->origin == SP_SPEC_SET && i >= flow->input_count);
        operands[i].factor = SP_RULE_MAX_FACTORS;
        if (tensor == SP_NO_TENSOR)
            continue;
        operands[i].is_constant = all->tensor.values[tensor]->is_constant;
        operands[i].sharding = operands[i].result =
            operands[i].is_stated ? all->tensor.propagated[tensor] : all->tensor.shardings[tensor];
        operands[i].shape = all->tensor.shapes[tensor];
        operands[i].bytes = bytes_of(all, tensor);
        is_any_split = is_any_split || is_split(operands[i].sharding);
    }
    if (!is_any_split) /* nothing to agree on */
        return SP_OK;
    return recall_node(all, flow, operands);
}

/* Whether a stated spec left axes open, and they were split. */
static bool is_grown(const struct sp_inference *all, uint32_t node_id, uint32_t operand,
                     const struct sp_resolve_operand *resolved)
{
    uint32_t stated = all->stated_of[all->first_operand[node_id] + operand];
    const struct sp_sharding *axes = stated > 0 ? all->given.stated[stated - 1].says->axes : NULL;
    for (uint32_t axis = 0; axes != NULL && resolved->sharding != NULL && axis < axes->rank; axis++) {
        if (axes->dims[axis].is_open &&
            sp_axes_size(&axes->dims[axis].axes) != sp_axes_size(&resolved->sharding->dims[axis].axes))
            return true;
    }
    return false;
}

static enum sp_status finish_node(struct sp_inference *all, uint32_t flow_id)
{
    const struct sp_flow *flow = &all->flow.items[flow_id];
    const struct sp_relation *relation = &all->assignment->dataflow->relations[all->flow.relation_of[flow_id]];
    struct sp_arena_mark mark = sp_arena_mark(all->passing);
    struct sp_resolve_operand *operands = SP_NEW_ARRAY(all->passing, flow->operand_count, struct sp_resolve_operand);
    if (operands == NULL)
        return sp_fail_memory(all->err);
    enum sp_status status = resolve_node(all, flow, relation->node_id, operands);
    for (uint32_t i = 0; status == SP_OK && i < flow->operand_count; i++) {
        bool is_kept = operands[i].is_fixed || (operands[i].is_stated && operands[i].result == operands[i].sharding);
        if (operands[i].is_absent || (is_kept && !is_grown(all, relation->node_id, i, &operands[i])))
            continue;
        status = write_entry(all, flow_id, i, &operands[i]);
        /* What comes later starts from what is really there. */
        if (i >= flow->input_count)
            all->tensor.shardings[flow->tensors[i]] = operands[i].result;
    }
    sp_arena_rewind(all->passing, mark);
    return status;
}

static enum sp_status finish(struct sp_inference *all)
{
    enum sp_status status = SP_OK;
    all->tensor.propagated = SP_NEW_ARRAY(all->scratch, all->tensor.count, const struct sp_sharding *);
    if (all->tensor.propagated == NULL)
        return sp_fail_memory(all->err);
    if (all->tensor.count > 0)
        memcpy(all->tensor.propagated, all->tensor.shardings, all->tensor.count * sizeof(struct sp_sharding *));
    for (uint32_t f = 0; status == SP_OK && f < all->flow.count; f++) {
        if (!all->flow.is_copy[f] && all->flow.items[f].operand_count > 0 &&
            all->assignment->dataflow->relations[all->flow.relation_of[f]].kind == SP_RELATION_NODE)
            status = finish_node(all, f);
    }
    return status;
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

static enum sp_status run(struct sp_inference *all)
{
    struct sp_propagation propagation = {.tensor_count = all->tensor.count,
                                         .flow_count = all->flow.count,
                                         .ranks = all->tensor.ranks,
                                         .shapes = all->tensor.shapes,
                                         .tensors = all->tensor.shardings,
                                         .yields = all->tensor.yields,
                                         .flows = all->flow.items,
                                         .level = SP_PROPAGATE_USER_PRIORITY,
                                         .must_divide = true,
                                         .seed = all->assignment->dataflow->model->hash_seed,
                                         .origins = all->tensor.origins,
                                         .on_stop = sp_infer_stop,
                                         .context = all};
    enum sp_status status = sp_propagate(all->scratch, &propagation, all->err);
    return status == SP_OK ? all->stop_status : status;
}

static enum sp_status complete(struct sp_inference *all, const struct sp_mesh *mesh)
{
    enum sp_status status = sp_infer_collect(all, mesh);
    if (status != SP_OK || all->mesh == NULL)
        return status;
    all->recent = SP_NEW(all->scratch, struct sp_infer_recent);
    if (all->recent == NULL)
        return sp_fail_memory(all->err);
    all->recent->refined.seed = all->recent->resolved.seed = all->assignment->dataflow->model->hash_seed;
    status = relate(all);
    if (status == SP_OK)
        status = sp_infer_refine(all);
    if (status == SP_OK)
        status = place_nodes(all);
    if (status == SP_OK)
        status = run(all);
    if (status == SP_OK)
        status = finish(all);
    return status == SP_OK && all->assignment->gathers_contradictions ? sp_settle_all(all->assignment, all->err)
                                                                      : status;
}

enum sp_status sp_infer_propagate(struct sp_assignment *assignment, const struct sp_mesh *mesh, struct sp_error *err)
{
    struct sp_error own = {0};
    struct sp_budget *budget = sp_arena_budget(assignment->arena);
    const uint64_t seed = assignment->dataflow->model->hash_seed;
    struct sp_inference all = {.assignment = assignment,
                               .arena = assignment->arena,
                               .scratch = sp_arena_create(budget),
                               .passing = sp_arena_create(budget),
                               .err = &own};
    enum sp_status status = SP_ERR_MEMORY;
    if (all.scratch != NULL && all.passing != NULL) {
        all.extents = sp_interned_in(all.scratch, seed);
        all.pieces = sp_interned_in(all.scratch, seed);
        all.shardings = sp_interned_in(all.scratch, seed);
        all.realized.arena = all.scratch;
        status = complete(&all, mesh);
    } else {
        status = sp_fail_memory(&own);
    }
    sp_arena_destroy(all.passing);
    sp_arena_destroy(all.scratch);
    if (status != SP_OK && err != NULL && err->status == SP_OK)
        *err = own;
    return status;
}
