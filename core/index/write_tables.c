/* The tables of an index that are lists of the plan's: tensors, nodes, findings. */
#include "index/write_internal.h"

static enum sp_index_kind kind_of(enum sp_work_kind kind)
{
    return kind == SP_WORK_INPUT ? SP_INDEX_INPUT : kind == SP_WORK_WEIGHT ? SP_INDEX_WEIGHT : SP_INDEX_ACTIVATION;
}

static uint32_t node_or_none(uint32_t node)
{
    return node == SP_NO_WORK ? SP_INDEX_NONE : node;
}

/* ---- tensors ---------------------------------------------------------------------------------------------------- */

/* Numbers the tensors that nodes name or that have an entry in the plan's JSON; false without memory. */
static bool number_tensors(struct sp_writing *writing, struct sp_places *places)
{
    const struct sp_workload *workload = writing->plan->workload;
    uint32_t count = 0;
    writing->tensor_of = SP_NEW_ARRAY(writing->arena, workload->tensor_count, uint32_t);
    writing->tensors_in = SP_NEW_ARRAY(writing->arena, workload->tensor_count, uint32_t);
    if (writing->tensor_of == NULL || writing->tensors_in == NULL)
        return false;
    for (uint32_t n = 0; n < workload->node_count; n++) {
        const struct sp_work_node *node = &workload->nodes[n];
        for (uint32_t i = 0; i < node->input_count; i++)
            writing->tensor_of[node->inputs[i]] = 1;
        for (uint32_t i = 0; i < node->output_count; i++)
            writing->tensor_of[node->outputs[i]] = 1;
    }
    for (uint32_t t = 0; t < workload->tensor_count; t++) {
        if (writing->tensor_of[t] == 0 && workload->tensors[t].kind != SP_WORK_INPUT) {
            if (!sp_plan_places(writing->plan, t, places))
                return false;
            writing->tensor_of[t] = places->count > 0;
        }
        const bool is_listed = writing->tensor_of[t] != 0 || workload->tensors[t].kind == SP_WORK_INPUT;
        writing->tensor_of[t] = is_listed ? count : SP_INDEX_NONE;
        if (is_listed)
            writing->tensors_in[count++] = t;
    }
    return sp_writing_add(writing, SP_TABLE_TENSORS, count) != NULL;
}

/* How the tensor lies where it is made, or used first. */
static void describe_places(struct sp_writing *writing, uint32_t t, const struct sp_places *places, struct sp_buf *text,
                            struct sp_index_tensor *tensor)
{
    const struct sp_value *value = writing->plan->workload->tensors[t].value;
    const uint32_t rank = value != NULL && value->type.shape.has_rank ? value->type.shape.rank : 0;
    const struct sp_plan_place whole = {0}, *first = &whole;
    for (uint32_t i = 0; i < places->place_count; i++) {
        if (places->places[i].layout != 0)
            tensor->is_split = 1;
    }
    if (tensor->is_split) {
        first = places->places;
        tensor->bytes_per_device =
            sp_writing_number(sp_plan_local_bytes(writing->plan, first->stage, first->layout, t));
    }
    sp_buf_clear(text);
    enum sp_status status = sp_plan_spec_text(writing->plan, first->stage, first->layout, rank, text, writing->err);
    if (status == SP_OK && sp_buf_failed(text))
        status = sp_fail_memory(writing->err);
    if (status != SP_OK && writing->status == SP_OK)
        writing->status = status;
    tensor->spec = sp_writing_text(writing, text->size > 0 ? text->data : "");
    writing->split_tensors += tensor->is_split;
    writing->tensor_rows++;
}

static void describe_tensor(struct sp_writing *writing, uint32_t t, struct sp_places *places, struct sp_buf *text,
                            struct sp_index_tensor *tensor)
{
    const struct sp_work_tensor *work = &writing->plan->workload->tensors[t];
    *tensor = (struct sp_index_tensor){.name = sp_writing_text(writing, work->name),
                                       .spec = SP_INDEX_NONE,
                                       .kind = kind_of(work->kind),
                                       .producer = node_or_none(work->producer),
                                       .first_consumer = (uint32_t)writing->counts[SP_TABLE_CONSUMERS],
                                       .consumer_count = work->consumer_count,
                                       .bytes = sp_writing_number(work->bytes),
                                       .bytes_per_device = sp_writing_number(work->bytes)};
    uint32_t *consumers = sp_writing_add(writing, SP_TABLE_CONSUMERS, work->consumer_count);
    if (consumers != NULL && work->consumer_count > 0)
        memcpy(consumers, work->consumers, work->consumer_count * sizeof *consumers);
    if (!sp_plan_places(writing->plan, t, places))
        writing->status = sp_fail_memory(writing->err);
    else if (places->count > 0 || work->kind == SP_WORK_INPUT) /* as plan_json_tensors() */
        describe_places(writing, t, places, text, tensor);
}

void sp_writing_tensors(struct sp_writing *writing)
{
    struct sp_places places;
    struct sp_buf text;
    if (writing->status != SP_OK)
        return;
    if (!sp_places_init(writing->plan, &places) || !number_tensors(writing, &places)) {
        if (writing->status == SP_OK)
            writing->status = sp_fail_memory(writing->err);
        return;
    }
    sp_buf_init(&text, SP_REASON_BYTES);
    for (uint64_t t = 0; writing->status == SP_OK && t < writing->counts[SP_TABLE_TENSORS]; t++)
        describe_tensor(writing, writing->tensors_in[t], &places, &text,
                        (struct sp_index_tensor *)writing->tables[SP_TABLE_TENSORS] + t);
    sp_buf_release(&text);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------ */

/* Of the weights among its inputs, and inside it. */
static double weight_bytes(const struct sp_plan *plan, uint32_t n)
{
    const struct sp_work_node *node = &plan->workload->nodes[n];
    const uint32_t stage = plan->result->placement.stage_of[n];
    double bytes = node->inner_weight_bytes;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const uint32_t t = node->inputs[i];
        if (plan->workload->tensors[t].kind == SP_WORK_WEIGHT)
            bytes += sp_plan_local_bytes(plan, stage, sp_plan_lies(plan, n, t), t);
    }
    return bytes;
}

static void describe_node(struct sp_writing *writing, uint32_t n, struct sp_index_node *node)
{
    const struct sp_plan *plan = writing->plan;
    const struct sp_work_node *work = &plan->workload->nodes[n];
    const struct sp_strategy *strategy = sp_plan_strategy(plan, n);
    *node = (struct sp_index_node){
        .name = sp_writing_text(writing, work->name),
        .operator_type = sp_writing_text(writing, work->node != NULL ? work->node->op_type : NULL),
        .stage = plan->result->placement.stage_of[n],
        .folded = work->folded,
        .first_operand = (uint32_t)writing->counts[SP_TABLE_OPERANDS],
        .input_count = work->input_count,
        .output_count = work->output_count,
    };
    uint32_t *operands = sp_writing_add(writing, SP_TABLE_OPERANDS, (uint64_t)work->input_count + work->output_count);
    for (uint32_t i = 0; operands != NULL && i < work->input_count; i++)
        operands[i] = writing->tensor_of[work->inputs[i]];
    for (uint32_t i = 0; operands != NULL && i < work->output_count; i++)
        operands[work->input_count + i] = writing->tensor_of[work->outputs[i]];
    if (work->folded)
        return;
    node->seconds = sp_writing_number(sp_plan_node_seconds(plan, n));
    node->flops = sp_writing_number(strategy != NULL ? strategy->flops : work->flops);
    node->bytes = sp_writing_number(sp_plan_node_bytes(plan, n));
    node->weights_bytes = sp_writing_number(weight_bytes(plan, n));
}

void sp_writing_nodes(struct sp_writing *writing)
{
    const uint32_t count = writing->plan->workload->node_count;
    struct sp_index_node *nodes = sp_writing_add(writing, SP_TABLE_NODES, count);
    for (uint32_t n = 0; nodes != NULL && writing->status == SP_OK && n < count; n++)
        describe_node(writing, n, &nodes[n]);
}

/* ---- findings --------------------------------------------------------------------------------------------------- */

/* Where findings name nodes or tensors: the first one of each name. */
struct names {
    struct sp_intern *names;
    uint32_t *first; /* of each name */
};

static bool names_init(struct sp_writing *writing, uint32_t count, struct names *names)
{
    names->names = sp_intern_create(writing->scratch, writing->source->hash_seed);
    names->first = SP_NEW_ARRAY(writing->scratch, count, uint32_t);
    return names->names != NULL && names->first != NULL;
}

static bool names_add(struct names *names, const char *name, uint32_t index)
{
    const uint32_t known = sp_intern_count(names->names), id = sp_intern_add(names->names, name, strlen(name));
    if (id == known)
        names->first[id] = index;
    return id != SP_NO_NAME;
}

static uint32_t names_find(const struct names *names, const char *name)
{
    const uint32_t id = name != NULL ? sp_intern_find(names->names, name, strlen(name)) : SP_NO_NAME;
    return id != SP_NO_NAME ? names->first[id] : SP_INDEX_NONE;
}

static bool read_names(struct sp_writing *writing, struct names *nodes, struct names *tensors)
{
    const struct sp_workload *workload = writing->plan->workload;
    bool done = names_init(writing, workload->node_count, nodes) &&
                names_init(writing, (uint32_t)writing->counts[SP_TABLE_TENSORS], tensors);
    for (uint32_t n = 0; done && n < workload->node_count; n++)
        done = names_add(nodes, workload->nodes[n].name, n);
    for (uint32_t t = 0; done && t < writing->counts[SP_TABLE_TENSORS]; t++)
        done = names_add(tensors, workload->tensors[writing->tensors_in[t]].name, t);
    return done;
}

void sp_writing_findings(struct sp_writing *writing)
{
    const struct sp_plan *plan = writing->plan;
    struct names nodes, tensors;
    struct sp_index_finding *findings = sp_writing_add(writing, SP_TABLE_FINDINGS, plan->note_count);
    if (findings == NULL || plan->note_count == 0)
        return;
    const struct sp_arena_mark mark = sp_arena_mark(writing->scratch);
    if (!read_names(writing, &nodes, &tensors)) {
        writing->status = sp_fail_memory(writing->err);
        return;
    }
    for (uint32_t i = 0; i < plan->note_count; i++) {
        const struct sp_plan_note *note = &plan->notes[i];
        findings[i] = (struct sp_index_finding){.severity = sp_writing_text(writing, note->severity),
                                                .code = sp_writing_text(writing, note->code),
                                                .message = sp_writing_text(writing, note->message),
                                                .node = names_find(&nodes, note->node),
                                                .tensor = names_find(&tensors, note->tensor)};
    }
    sp_arena_rewind(writing->scratch, mark);
}
