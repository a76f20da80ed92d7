/*
 * ONNX Runtime's Distributed operators between programs.
 *
 * DistributedX on a mesh computes X of whole tensors, of which each rank has a part and gets a part: "S[0]R" on the mesh
 * [0, 1] cuts the first axis in two, and on [0, 1, 0, 1] in four, of which rank 0 has the first and third. "RR" is whole on
 * each rank, and then all ranks must have the same. So the parts are joined, X is evaluated, and its results are cut.
 * Meshes have one axis, as in all kernels. Which combinations these refuse, or get wrong, is what `check` says.
 *
 * Source: ONNX Runtime, sharding_spec.h and pull requests 17695 (one mesh of a node, as integers) and 18025 (a mesh of each
 * operand, as text).
 */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "verify/programs.h"

#define PREFIX "Distributed"

/* How a tensor is cut. */
struct cut {
    int32_t axis;    /* -1: whole on each rank */
    uint32_t count;  /* pieces along it */
    int64_t *owners; /* of each piece */
};

struct distributed {
    struct sp_verification *all;
    uint32_t member_count;
    struct sp_verify_run **runs;
    struct sp_error *why; /* of the graph */
};

bool sp_is_distributed(const struct sp_node *node)
{
    return strcmp(node->domain, "com.microsoft") == 0 && strncmp(node->op_type, PREFIX, strlen(PREFIX)) == 0;
}

static struct sp_node *node_of(const struct sp_verify_run *run)
{
    return &run->model->graph->nodes[run->next];
}

/* ---- specs ------------------------------------------------------------------------------------------------------ */

static enum sp_status refuse(const struct distributed *one, const char *why)
{
    (void)sp_fail(one->why, SP_ERR_MODEL, "BAD_SPEC", "%s", why);
    return SP_ERR_MODEL; /* said so that an analyser sees it */
}

/* Entry `i` of a list of texts; "" where there is none. */
static const char *text_of(const struct distributed *one, const struct sp_node *node, const char *name, uint32_t i)
{
    const struct sp_attribute *attribute = sp_node_attribute(node, name);
    if (attribute == NULL || attribute->strings == NULL || i >= attribute->count)
        return "";
    const struct sp_string *text = &attribute->strings[i];
    return sp_arena_string(one->all->arena, text->bytes != NULL ? (const char *)text->bytes : "", text->size);
}

/* "[0,1,0,1]" */
static enum sp_status read_elements(const struct distributed *one, const char *text, struct cut *cut)
{
    const size_t most = strlen(text) / 2 + 1;
    char *end = NULL;
    if (text[0] != '[' || most > SP_MAX_DEVICES)
        return refuse(one, "a mesh of it is no list of devices");
    cut->owners = SP_NEW_ARRAY(one->all->arena, most, int64_t);
    if (cut->owners == NULL) {
        (void)sp_fail_memory(one->why);
        return SP_ERR_MEMORY;
    }
    for (const char *at = text + 1; *at != ']'; at = *end == ',' ? end + 1 : end) {
        cut->owners[cut->count++] = strtoll(at, &end, 10);
        if (end == at || (*end != ',' && *end != ']') || cut->count > most)
            return refuse(one, "a mesh of it is no list of devices");
    }
    return SP_OK;
}

/* The mesh of an operand: its own, or the node's. */
static enum sp_status read_mesh(const struct distributed *one, const struct sp_node *node, const char *side, uint32_t i,
                                struct cut *cut)
{
    char name[64];
    uint32_t count = 0, rank = 0;
    const int64_t *elements = sp_node_ints(node, "device_mesh_elements", &count);
    if (elements != NULL) {
        (void)sp_node_ints(node, "device_mesh_shape", &rank);
        if (rank > 1 || count > SP_MAX_DEVICES)
            return sp_fail(one->why, SP_ERR_UNSUPPORTED, "MESH", "its mesh has several axes");
        cut->count = count;
        cut->owners = SP_NEW_ARRAY(one->all->arena, count, int64_t);
        if (cut->owners == NULL)
            return sp_fail_memory(one->why);
        memcpy(cut->owners, elements, count * sizeof *elements);
        return SP_OK;
    }
    (void)snprintf(name, sizeof name, "%s_device_mesh_shapes", side);
    const char *shape = text_of(one, node, name, i);
    (void)snprintf(name, sizeof name, "%s_device_mesh_elements", side);
    const char *list = text_of(one, node, name, i);
    if (shape == NULL || list == NULL)
        return sp_fail_memory(one->why);
    if (strchr(shape, ',') != NULL)
        return sp_fail(one->why, SP_ERR_UNSUPPORTED, "MESH", "a mesh of it has several axes");
    return read_elements(one, list, cut);
}

/* "RS[0]": which axis of `rank` is cut. */
static enum sp_status read_axis(const struct distributed *one, const char *spec, struct cut *cut)
{
    int32_t axis = 0;
    cut->axis = -1;
    for (const char *at = spec; *at != '\0'; axis++) {
        const bool is_cut = strncmp(at, "S[0]", 4) == 0;
        if (!is_cut && *at != 'R')
            return refuse(one, "a shard spec of it is none of a mesh of one axis");
        if (is_cut && cut->axis >= 0)
            return refuse(one, "a shard spec of it cuts two axes over one of its mesh");
        cut->axis = is_cut ? axis : cut->axis;
        at += is_cut ? 4 : 1;
    }
    return SP_OK;
}

static enum sp_status read_cut(const struct distributed *one, const struct sp_node *node, const char *side, uint32_t i,
                               struct cut *cut)
{
    char name[64];
    *cut = (struct cut){.axis = -1};
    (void)snprintf(name, sizeof name, "%s_shard_specs", side);
    const char *spec = text_of(one, node, name, i);
    if (spec == NULL)
        return sp_fail_memory(one->why);
    enum sp_status status = read_mesh(one, node, side, i, cut);
    if (status == SP_OK)
        status = read_axis(one, spec, cut);
    return status == SP_OK && cut->count == 0 ? refuse(one, "a mesh of it has no device") : status;
}

/* How many pieces a rank has. */
static uint32_t pieces_of(const struct cut *cut, int64_t rank)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < cut->count; i++)
        count += cut->owners[i] == rank;
    return count;
}

static struct sp_verify_run *find_owner(const struct distributed *one, int64_t rank, uint32_t *ret_member)
{
    for (uint32_t m = 0; m < one->member_count; m++) {
        if (one->runs[m]->program->rank == rank) {
            *ret_member = m;
            return one->runs[m];
        }
    }
    return NULL;
}

/* ---- whole tensors ---------------------------------------------------------------------------------------------- */

static bool are_equal(const struct sp_numbers *a, const struct sp_numbers *b)
{
    bool is_equal = a->rank == b->rank && a->count == b->count;
    for (uint32_t i = 0; is_equal && i < a->rank; i++)
        is_equal = sp_index_equal(&a->axes[i], &b->axes[i]);
    for (uint64_t i = 0; is_equal && i < a->count; i++)
        is_equal = a->items[i].field == b->items[i].field;
    return is_equal;
}

/* What all ranks of the mesh have, where each has all of it. */
static enum sp_status join_whole(const struct distributed *one, const struct cut *cut,
                                 const struct sp_numbers *const *parts, const struct sp_numbers **ret)
{
    const struct sp_numbers *first = NULL;
    for (uint32_t i = 0; i < cut->count; i++) {
        uint32_t m = 0;
        if (find_owner(one, cut->owners[i], &m) == NULL)
            return refuse(one, "a mesh of it has a rank that is not there");
        if (first != NULL && !are_equal(first, parts[m]))
            return refuse(one, "the ranks have different copies of an operand that is said to be whole on each");
        first = parts[m];
    }
    *ret = first;
    return SP_OK;
}

static enum sp_status join_pieces(const struct distributed *one, const struct cut *cut,
                                  const struct sp_numbers *const *parts, const struct sp_numbers **ret)
{
    struct sp_arena *arena = one->all->arena;
    const struct sp_numbers **pieces = SP_NEW_ARRAY(arena, cut->count, const struct sp_numbers *);
    uint32_t *taken = SP_NEW_ARRAY(arena, one->member_count, uint32_t);
    enum sp_status status = pieces != NULL && taken != NULL ? SP_OK : sp_fail_memory(one->why);
    for (uint32_t i = 0; status == SP_OK && i < cut->count; i++) {
        uint32_t m = 0;
        struct sp_numbers *piece = NULL;
        if (find_owner(one, cut->owners[i], &m) == NULL)
            return refuse(one, "a mesh of it has a rank that is not there");
        const uint32_t own = pieces_of(cut, cut->owners[i]);
        if ((uint32_t)cut->axis >= parts[m]->rank || parts[m]->axes[cut->axis].extent % own != 0)
            return refuse(one, "an operand of it is not in the parts that its shard spec says");
        const int64_t length = parts[m]->axes[cut->axis].extent / own;
        status = sp_numbers_slice(arena, parts[m], (uint32_t)cut->axis,
                                  (struct sp_index_run){taken[m]++ * length, 1, length}, &piece, one->why);
        pieces[i] = piece;
    }
    struct sp_numbers *whole = NULL;
    if (status == SP_OK)
        status = sp_numbers_concat(arena, cut->count, pieces, (uint32_t)cut->axis, &whole, one->why);
    *ret = whole;
    return status == SP_ERR_UNSUPPORTED ? refuse(one, "the ranks' parts of an operand do not fit together") : status;
}

static enum sp_status cut_pieces(const struct distributed *one, const struct cut *cut, const struct sp_numbers *whole,
                                 int64_t rank, struct sp_numbers **ret)
{
    struct sp_arena *arena = one->all->arena;
    const uint32_t own = pieces_of(cut, rank);
    if (own == 0)
        return refuse(one, "a result of it is not for this rank");
    if (cut->axis < 0)
        return sp_numbers_view(arena, whole, whole->rank, whole->axes, ret, one->why);
    if ((uint32_t)cut->axis >= whole->rank || whole->axes[cut->axis].extent % cut->count != 0)
        return refuse(one, "a result of it cannot be cut as its shard spec says");
    const int64_t length = whole->axes[cut->axis].extent / cut->count;
    const struct sp_numbers **pieces = SP_NEW_ARRAY(arena, own, const struct sp_numbers *);
    uint32_t count = 0;
    enum sp_status status = pieces != NULL ? SP_OK : sp_fail_memory(one->why);
    for (uint32_t i = 0; status == SP_OK && i < cut->count; i++) {
        struct sp_numbers *piece = NULL;
        if (cut->owners[i] != rank)
            continue;
        status = sp_numbers_slice(arena, whole, (uint32_t)cut->axis, (struct sp_index_run){i * length, 1, length},
                                  &piece, one->why);
        pieces[count++] = piece;
    }
    return status == SP_OK ? sp_numbers_concat(arena, own, pieces, (uint32_t)cut->axis, ret, one->why) : status;
}

/* ---- the operator ----------------------------------------------------------------------------------------------- */

/* An operand of all ranks as one tensor; *ret NULL where it is omitted, *ret_missing where a rank has none. */
static enum sp_status join_operand(const struct distributed *one, uint32_t i, const struct sp_numbers **ret,
                                   const struct sp_outcome **ret_missing)
{
    const struct sp_node *node = node_of(one->runs[0]);
    const struct sp_numbers **parts = SP_NEW_ARRAY(one->all->arena, one->member_count, const struct sp_numbers *);
    struct cut cut;
    *ret = NULL;
    if (parts == NULL)
        return sp_fail_memory(one->why);
    if (node->inputs[i] == NULL)
        return SP_OK;
    for (uint32_t m = 0; m < one->member_count; m++) {
        const struct sp_node *own = node_of(one->runs[m]);
        if (i >= own->input_count || own->inputs[i] == NULL)
            return refuse(one, "the ranks give it different operands");
        const struct sp_outcome *outcome = sp_run_outcome(one->runs[m], own->inputs[i]);
        if (outcome == NULL || outcome->numbers == NULL) {
            *ret_missing = outcome;
            return outcome != NULL ? SP_OK : refuse(one, "an operand of it is no result of a node");
        }
        parts[m] = outcome->numbers;
    }
    enum sp_status status = read_cut(one, node, "input", i, &cut);
    if (status != SP_OK)
        return status;
    return cut.axis < 0 ? join_whole(one, &cut, parts, ret) : join_pieces(one, &cut, parts, ret);
}

/* The node as the operator of whole tensors that it is. */
static enum sp_status evaluate(const struct distributed *one, const struct sp_numbers **in, struct sp_call *call)
{
    const struct sp_verify_run *run = one->runs[0];
    const struct sp_node *node = node_of(run);
    struct sp_node *whole = SP_NEW(one->all->arena, struct sp_node);
    call->out = SP_NEW_ARRAY(one->all->arena, node->output_count, struct sp_numbers *);
    if (whole == NULL || call->out == NULL)
        return sp_fail_memory(one->why);
    *whole = *node;
    whole->op_type = node->op_type + strlen(PREFIX);
    whole->domain = "";
    whole->op = NULL;
    call->arena = one->all->arena;
    call->model = run->model;
    call->node = whole;
    call->version = sp_graph_opset(node->graph, "");
    call->sets = &one->all->sets;
    call->in_count = node->input_count;
    call->out_count = node->output_count;
    call->in = in;
    call->err = one->why;
    return sp_evaluate_node(call);
}

static enum sp_status give_results(const struct distributed *one, const struct sp_call *call, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < call->out_count; i++) {
        struct cut cut;
        if (call->out[i] != NULL)
            status = read_cut(one, node_of(one->runs[0]), "output", i, &cut);
        for (uint32_t m = 0; status == SP_OK && call->out[i] != NULL && m < one->member_count; m++) {
            struct sp_verify_run *run = one->runs[m];
            struct sp_node *node = node_of(run);
            struct sp_numbers *part = NULL;
            if (i >= node->output_count || node->outputs[i] == NULL)
                continue;
            status = cut_pieces(one, &cut, call->out[i], run->program->rank, &part);
            if (status == SP_OK)
                status = sp_run_set(one->all, run, node->outputs[i],
                                    (struct sp_outcome){.numbers = part, .at = node, .run = run}, err);
        }
    }
    return status;
}

/* All results of all ranks are nothing, for this reason. */
static enum sp_status give_none(const struct distributed *one, const struct sp_outcome *outcome, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    for (uint32_t m = 0; m < one->member_count; m++) {
        struct sp_node *node = node_of(one->runs[m]);
        for (uint32_t i = 0; status == SP_OK && i < node->output_count; i++) {
            if (node->outputs[i] != NULL)
                status = sp_run_set(one->all, one->runs[m], node->outputs[i], *outcome, err);
        }
    }
    return status;
}

enum sp_status sp_distributed_evaluate(struct sp_verification *all, uint32_t member_count, struct sp_verify_run **runs,
                                       struct sp_error *err)
{
    struct sp_error why = {0};
    const struct distributed one = {all, member_count, runs, &why};
    const struct sp_node *node = node_of(runs[0]);
    const struct sp_numbers **in = SP_NEW_ARRAY(all->arena, node->input_count, const struct sp_numbers *);
    const struct sp_outcome *missing = NULL;
    struct sp_call call = {0};
    enum sp_status status = in != NULL ? SP_OK : sp_fail_memory(&why);
    for (uint32_t i = 0; status == SP_OK && missing == NULL && i < node->input_count; i++)
        status = join_operand(&one, i, &in[i], &missing);
    if (status == SP_OK && missing != NULL)
        return give_none(&one, missing, err);
    if (status == SP_OK)
        status = evaluate(&one, in, &call);
    if (status == SP_OK)
        status = give_results(&one, &call, err);
    if (status == SP_OK || status == SP_ERR_MEMORY)
        return status == SP_OK ? SP_OK : sp_fail_memory(err);
    const char *text = sp_arena_printf(all->arena, "%s", why.message);
    const struct sp_outcome outcome = {.why = text, .at = node, .is_wrong = status == SP_ERR_MODEL, .run = runs[0]};
    return text != NULL ? give_none(&one, &outcome, err) : sp_fail_memory(err);
}
