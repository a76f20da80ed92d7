#include "plan/explain/undivided.h"

#include <inttypes.h>
#include <string.h>

#include "plan/answer/readable_text.h"
#include "search/strategy/strategy.h"

#define MOST_DEVICES 64   /* numbers of devices that are tried */
#define MOST_AXES    16   /* axes of different extents that are looked at */
#define MOST_NAMED   3    /* of them in the sentence */
#define MOST_NUMBERS 8    /* of devices in the sentence */
#define SHARE_TOLD   0.1  /* of the FLOPs, from which it is said */
#define SHARE_LEFT   0.01 /* that may stay undivided by a number that would do */

/* An axis that is not divided, of the largest operator of those with its extent, and the FLOPs of them all. */
struct axis {
    const char *tensor;
    uint32_t axis;
    int64_t extent;
    double flops, largest;
};

struct counting {
    const struct sp_plan *plan;
    const struct sp_dataflow *dataflow;
    uint32_t parts;                     /* devices of a group of equal ones, or blocks that unequal ones share */
    double undivided[MOST_DEVICES + 1]; /* FLOPs, by number of devices */
    uint32_t axis_count;
    struct axis axes[MOST_AXES];
};

static uint32_t largest_group(const struct sp_plan *plan)
{
    const struct sp_cluster *cluster = plan->cluster;
    uint32_t largest = 1;
    for (uint32_t d = 1, size = 1; d < cluster->device_count; d++) {
        const bool is_same = plan->workload->kind_of[d] == plan->workload->kind_of[d - 1] &&
                             sp_cluster_memory(cluster, d) == sp_cluster_memory(cluster, d - 1);
        size = is_same ? size + 1 : 1;
        largest = size > largest ? size : largest;
    }
    return largest;
}

/* ---- one operator ----------------------------------------------------------------------------------------------- */

static void add_axis(struct counting *all, const struct axis *axis)
{
    uint32_t at = 0;
    while (at < all->axis_count && all->axes[at].extent != axis->extent)
        at++;
    if (at == MOST_AXES)
        return;
    if (at == all->axis_count)
        all->axes[all->axis_count++] = (struct axis){.extent = axis->extent};
    if (axis->flops > all->axes[at].largest) {
        all->axes[at].tensor = axis->tensor;
        all->axes[at].axis = axis->axis;
        all->axes[at].largest = axis->flops;
    }
    all->axes[at].flops += axis->flops;
}

/* The axis that one would split: the longest of the weight, else the first of the first input with several elements. */
static void name_axis(struct counting *all, const struct sp_node *node, uint32_t weight, double flops)
{
    const struct sp_value *value = weight != UINT32_MAX ? node->inputs[weight] : node->inputs[0];
    struct axis found = {.flops = flops};
    for (uint32_t a = 0; value != NULL && value->type.shape.has_rank && a < value->type.shape.rank; a++) {
        const struct sp_dim dim = value->type.shape.dims[a];
        if (!sp_dim_is_known(dim) || dim.value < 2 || (found.extent > 0 && weight == UINT32_MAX) ||
            dim.value <= found.extent)
            continue;
        found = (struct axis){value->name, a, dim.value, flops, flops};
    }
    if (found.extent > 0 && found.extent % all->parts != 0)
        add_axis(all, &found);
}

static void count_node(struct counting *all, const struct sp_node *node, const struct sp_rule *rule, double flops)
{
    const uint32_t weight = sp_strategy_weight_of(node);
    const uint64_t numbers = sp_strategy_divisors(rule, weight == UINT32_MAX ? NULL : &rule->inputs[weight]);
    for (uint32_t d = 2; d <= MOST_DEVICES; d++)
        all->undivided[d] += (numbers >> (d - 1) & 1) != 0 ? 0 : flops;
    if ((numbers >> (all->parts - 1) & 1) == 0 && node->input_count > 0)
        name_axis(all, node, weight, flops);
}

static enum sp_status count_all(struct counting *all, struct sp_error *err)
{
    const struct sp_workload *workload = all->plan->workload;
    struct sp_arena *scratch = sp_arena_create(sp_arena_budget(all->plan->arena));
    enum sp_status status = scratch == NULL ? sp_fail_memory(err) : SP_OK;
    for (uint32_t r = 0; status == SP_OK && r < all->dataflow->relation_count; r++) {
        const struct sp_relation *relation = &all->dataflow->relations[r];
        const struct sp_node *node = relation->node;
        struct sp_error why = {0};
        struct sp_rule *rule = NULL;
        if (relation->kind != SP_RELATION_NODE || node->graph != all->plan->model->graph ||
            workload->nodes[node->index].flops <= 0)
            continue;
        struct sp_arena_mark mark = sp_arena_mark(scratch);
        status = sp_dataflow_rule(all->dataflow, relation, scratch, &rule, &why);
        if (status == SP_OK && rule->input_count == node->input_count)
            count_node(all, node, rule, workload->nodes[node->index].flops);
        status = status == SP_ERR_MEMORY ? sp_fail_memory(err) : SP_OK;
        sp_arena_rewind(scratch, mark);
    }
    sp_arena_destroy(scratch);
    return status;
}

/* ---- the sentence ----------------------------------------------------------------------------------------------- */

/* " (axis 1 of 'q': 40, axis 0 of 'w': 5120)", those with most of the FLOPs. */
static void list_axes(struct counting *all, double flops, struct sp_buf *text)
{
    for (uint32_t i = 0; i < MOST_NAMED && i < all->axis_count; i++) {
        uint32_t most = i;
        for (uint32_t k = i + 1; k < all->axis_count; k++)
            most = all->axes[k].flops > all->axes[most].flops ? k : most;
        const struct axis axis = all->axes[most];
        all->axes[most] = all->axes[i];
        all->axes[i] = axis;
        if (i > 0 && axis.flops < SHARE_LEFT * flops)
            break;
        sp_buf_printf(text, "%saxis %" PRIu32 " of '%.80s': %" PRId64, i == 0 ? " (" : ", ", axis.axis, axis.tensor,
                      axis.extent);
    }
    sp_buf_text(text, ")");
}

static void list_numbers(const struct counting *all, double flops, struct sp_buf *text)
{
    uint32_t numbers[MOST_NUMBERS], count = 0;
    for (uint32_t d = 2; d <= MOST_DEVICES && count < MOST_NUMBERS; d++)
        if (all->undivided[d] <= SHARE_LEFT * flops)
            numbers[count++] = d;
    for (uint32_t i = 0; i < count; i++)
        sp_buf_printf(text, "%s%" PRIu32, i == 0 ? "; " : i + 1 == count ? " or " : ", ", numbers[i]);
    sp_buf_printf(text, count > 0 ? " could." : "; no number up to %d could.", MOST_DEVICES);
}

/* So many devices, or the blocks that the unequal devices of a stage have shares of. */
static enum sp_status note_parts(const struct sp_plan *plan, const struct sp_dataflow *dataflow, uint32_t parts,
                                 bool are_blocks, struct sp_bindings *bindings, struct sp_error *err)
{
    struct counting all = {.plan = plan, .dataflow = dataflow, .parts = parts};
    struct sp_buf text;
    if (parts < 2 || parts > MOST_DEVICES)
        return SP_OK;
    enum sp_status status = count_all(&all, err);
    const double share = all.undivided[parts] / plan->workload->flops;
    if (status != SP_OK || share < SHARE_TOLD || all.axis_count == 0)
        return status;
    sp_buf_init(&text, SP_ERROR_MESSAGE_SIZE);
    sp_buf_printf(&text,
                  are_blocks ? "%.0f %% of the FLOPs are in operators that shares of %" PRIu32 " blocks do not divide"
                             : "%.0f %% of the FLOPs are in operators that %" PRIu32 " devices cannot share evenly",
                  100 * share, parts);
    list_axes(&all, plan->workload->flops, &text);
    list_numbers(&all, plan->workload->flops, &text);
    const struct sp_plan_note note = {
        .code = "AXIS_NOT_DIVISIBLE",
        .severity = "note",
        .message = sp_buf_failed(&text) ? NULL : sp_arena_string(bindings->arena, text.data, text.size),
        .tensor = all.axes[0].tensor,
        .hint = are_blocks ? "Pad the axis to a multiple, to split these operators over all devices of the stage."
                           : "Use one of these numbers of devices, or pad the axis, to split these operators over all "
                             "of them.",
    };
    sp_buf_release(&text);
    return note.message != NULL && sp_note_add(bindings, &note) ? SP_OK : sp_fail_memory(err);
}

/* The blocks of a stage of unequal devices; 0: it has none. */
static uint32_t blocks_of(const struct sp_plan *plan, uint32_t stage)
{
    const struct sp_sharded_stage *sharded = sp_plan_sharded(plan, stage);
    const struct sp_strategy_mesh *mesh = sharded == NULL ? NULL : sp_strategy_table_mesh(sharded->table);
    return mesh == NULL || mesh->member_count == 0 ? 0 : mesh->size[0];
}

enum sp_status sp_note_undivided(const struct sp_plan *plan, const struct sp_dataflow *dataflow,
                                 struct sp_bindings *bindings, struct sp_error *err)
{
    const bool splits = strcmp(plan->strategy, "auto") == 0 || strcmp(plan->strategy, "tensor") == 0;
    bool is_told[MOST_DEVICES + 1] = {false};
    if (dataflow == NULL || plan->model == NULL || !splits || plan->result->routes != NULL ||
        plan->workload->flops <= 0)
        return SP_OK;
    enum sp_status status = note_parts(plan, dataflow, largest_group(plan), false, bindings, err);
    for (uint32_t s = 0; status == SP_OK && s < plan->result->placement.stage_count; s++) {
        const uint32_t blocks = blocks_of(plan, s);
        if (blocks > MOST_DEVICES || is_told[blocks])
            continue;
        is_told[blocks] = true;
        status = note_parts(plan, dataflow, blocks, true, bindings, err);
    }
    return status;
}
