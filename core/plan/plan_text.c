#include <math.h>

#include "plan/internal.h"
#include "plan/text.h"

#define SP_TEXT_COLUMNS   100 /* the terminal that all of this is made for */
#define SP_TEXT_TRANSFERS 16  /* transfers listed before they are only counted */
#define SP_TEXT_NOTES     16  /* notes likewise */
#define SP_NOTE_COLUMNS   200 /* a note's sentence: it quotes names out of the model */
#define SP_WHOLE_RATE     1e3 /* requests per second from which fractions do not matter */
#define SP_TEXT_NAME      34  /* columns of a name in a table */

/* One cell: the text that `write` puts into `cell`, padded to `width` columns. */
static void cell_end(struct sp_buf *buf, struct sp_buf *cell, int width, bool right)
{
    const char *text = cell->size == 0 ? "" : cell->data;
    sp_buf_printf(buf, right ? "%*s" : "%-*s", width, text);
    sp_buf_clear(cell);
}

static void cell_seconds(struct sp_buf *buf, struct sp_buf *cell, double seconds, int width)
{
    if (seconds == 0)
        sp_buf_text(cell, "-");
    else
        sp_text_seconds(cell, seconds);
    cell_end(buf, cell, width, true);
}

static void cell_bytes(struct sp_buf *buf, struct sp_buf *cell, double bytes, int width)
{
    sp_text_bytes(cell, bytes);
    cell_end(buf, cell, width, true);
}

static void head(const struct sp_plan *plan, struct sp_buf *buf)
{
    const struct sp_workload *workload = plan->workload;
    const struct sp_cluster *cluster = plan->cluster;
    sp_buf_text(buf, "Model       ");
    sp_text_cut(buf, plan->model_name, 60);
    sp_buf_text(buf, "\n            ");
    sp_text_integer(buf, workload->node_count);
    sp_buf_text(buf, plan->model != NULL ? " nodes, " : " nodes of a graph of costs, ");
    if (plan->model != NULL) {
        sp_text_scaled(buf, workload->flops);
        sp_buf_text(buf, "FLOP per request, ");
    }
    sp_text_bytes(buf, workload->weight_bytes);
    sp_buf_text(buf, plan->model != NULL ? " of weights\nCluster     " : " of memory\nCluster     ");
    for (uint32_t g = 0; g < cluster->group_count; g++) {
        sp_buf_printf(buf, "%s%u x %s (", g > 0 ? " + " : "", cluster->groups[g].count, cluster->groups[g].device.name);
        sp_text_bytes(buf, cluster->groups[g].device.memory_bytes);
        sp_buf_text(buf, ")");
    }
    sp_buf_text(buf, "; links: ");
    for (uint32_t l = 0; l < cluster->level_count; l++) {
        sp_buf_printf(buf, "%s%u at ", l > 0 ? ", " : "", cluster->levels[l].size);
        sp_text_bytes(buf, cluster->levels[l].bandwidth);
        sp_buf_text(buf, "/s");
    }
    sp_buf_printf(buf, "\nObjective   %s, strategy %s\nFingerprint %s\n", sp_objective_name(plan->objective),
                  plan->strategy, plan->id);
}

static void stage_line(const struct sp_plan *plan, uint32_t stage, const struct sp_borders *borders,
                       struct sp_buf *cell, struct sp_buf *buf)
{
    const struct sp_stage_cost *cost = &plan->result->evaluation->stages[stage];
    const struct sp_work_node *nodes = plan->workload->nodes;
    sp_buf_printf(buf, "%5u  ", stage);
    sp_buf_printf(cell, "%u ", cost->device);
    sp_text_cut(cell, sp_cluster_device(plan->cluster, cost->device)->name, 22);
    cell_end(buf, cell, 25, false);
    sp_buf_printf(buf, "%7u", cost->node_count);
    cell_seconds(buf, cell, cost->compute_seconds, 10);
    cell_seconds(buf, cell, cost->send_seconds, 10);
    cell_seconds(buf, cell, cost->receive_seconds, 10);
    cell_bytes(buf, cell, cost->total_bytes, 11);
    sp_buf_text(buf, " /");
    cell_bytes(buf, cell, cost->capacity_bytes, 9);
    sp_buf_printf(buf, "%4.0f%%\n", cost->capacity_bytes > 0 ? 100 * cost->total_bytes / cost->capacity_bytes : 0);
    if (borders->first[stage] != SP_NO_WORK) {
        sp_buf_text(buf, "       ");
        sp_text_cut(buf, nodes[borders->first[stage]].name, 42);
        if (borders->first[stage] != borders->last[stage]) {
            sp_buf_text(buf, " .. ");
            sp_text_cut(buf, nodes[borders->last[stage]].name, 42);
        }
        sp_buf_text(buf, "\n");
    }
    sp_buf_text(buf, "       because: ");
    sp_reason_stage(plan, stage, borders, cell);
    sp_text_wrapped(buf, cell->size > 0 ? cell->data : "", 16, SP_TEXT_COLUMNS);
    sp_buf_clear(cell);
}

static void transfers(const struct sp_plan *plan, struct sp_buf *cell, struct sp_buf *buf)
{
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    if (evaluation->transfer_count == 0)
        return;
    sp_buf_printf(buf, "\n%-35s%-18s%11s%11s\n", "Transfer", "Devices", "Bytes", "Time");
    for (uint32_t i = 0; i < evaluation->transfer_count && i < SP_TEXT_TRANSFERS; i++) {
        const struct sp_tensor_transfer *t = &evaluation->transfers[i];
        sp_text_cut(cell, plan->workload->tensors[t->tensor].name, SP_TEXT_NAME);
        cell_end(buf, cell, SP_TEXT_NAME + 1, false);
        sp_buf_printf(cell, "%u -> %u", evaluation->stages[t->from_stage].device,
                      evaluation->stages[t->to_stage].device);
        cell_end(buf, cell, 18, false);
        cell_bytes(buf, cell, t->bytes, 11);
        cell_seconds(buf, cell, t->seconds, 11);
        sp_buf_text(buf, "\n");
    }
    if (evaluation->transfer_count > SP_TEXT_TRANSFERS) {
        sp_buf_printf(buf, "and %u more; %u in all, ", evaluation->transfer_count - SP_TEXT_TRANSFERS,
                      evaluation->transfer_count);
        sp_text_bytes(buf, evaluation->communication_bytes);
        sp_buf_text(buf, " per request (the JSON form lists them)\n");
    }
}

static void estimate(const struct sp_plan *plan, struct sp_buf *buf)
{
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    struct sp_plan_gap gap = sp_plan_gap(plan);
    sp_buf_text(buf, "\nEstimate    ");
    double rate = evaluation->interval_seconds > 0 ? 1 / evaluation->interval_seconds : 0;
    if (rate >= SP_WHOLE_RATE && rate < 1e15)
        sp_text_integer(buf, (uint64_t)(rate + 0.5));
    else if (rate > 0)
        sp_buf_printf(buf, "%.4g", rate);
    sp_buf_text(buf, rate > 0 ? " requests per second, one every " : "one request every ");
    sp_text_seconds(buf, evaluation->interval_seconds);
    sp_buf_text(buf, "; latency ");
    sp_text_seconds(buf, evaluation->latency_seconds);
    sp_buf_text(buf, "; ");
    sp_text_bytes(buf, evaluation->communication_bytes);
    sp_buf_printf(buf, " sent per request\nBound       no placement of whole nodes on these devices has %s below ",
                  plan->objective == SP_OBJECTIVE_LATENCY ? "a latency" : "an interval");
    sp_text_seconds(buf, gap.bound_seconds);
    sp_buf_printf(buf, "; gap %.1f%%\n", 100 * gap.gap);
    if (evaluation->stage_count < plan->cluster->device_count)
        sp_buf_printf(buf, "Devices     %u of %u are used\n", evaluation->stage_count, plan->cluster->device_count);
    sp_buf_text(buf, "Bottleneck  ");
    sp_text_wrapped(buf, plan->bottleneck, 12, SP_TEXT_COLUMNS);
}

static void notes(const struct sp_plan *plan, struct sp_buf *buf)
{
    for (uint32_t i = 0; i < plan->note_count && i < SP_TEXT_NOTES; i++) {
        const struct sp_plan_note *note = &plan->notes[i];
        sp_buf_printf(buf, "%s%s: ", i == 0 ? "\n" : "", note->severity);
        sp_text_cut(buf, note->message, SP_NOTE_COLUMNS);
        sp_buf_printf(buf, " [%s]\n", note->code);
        if (note->hint != NULL) {
            sp_buf_text(buf, "      ");
            sp_text_cut(buf, note->hint, SP_NOTE_COLUMNS);
            sp_buf_text(buf, "\n");
        }
    }
    if (plan->note_count > SP_TEXT_NOTES)
        sp_buf_printf(buf, "and %u more notes (the JSON form lists them)\n", plan->note_count - SP_TEXT_NOTES);
}

void sp_plan_write_text(const struct sp_plan *plan, struct sp_buf *buf)
{
    struct sp_arena_mark mark = sp_arena_mark(plan->arena);
    struct sp_borders borders;
    struct sp_buf cell;
    sp_buf_init(&cell, SP_REASON_BYTES);
    if (!sp_borders_init(plan, &borders)) {
        buf->failed = true;
    } else {
        head(plan, buf);
        sp_buf_printf(buf, "\n%5s  %-25s%7s%10s%10s%10s%11s%11s\n", "Stage", "Device", "Nodes", "Compute", "Send",
                      "Receive", "Memory", "of");
        for (uint32_t s = 0; s < plan->result->evaluation->stage_count; s++)
            stage_line(plan, s, &borders, &cell, buf);
        transfers(plan, &cell, buf);
        estimate(plan, buf);
        notes(plan, buf);
    }
    if (sp_buf_failed(&cell))
        buf->failed = true;
    sp_buf_release(&cell);
    sp_arena_rewind(plan->arena, mark);
}
