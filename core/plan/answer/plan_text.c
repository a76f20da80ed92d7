#include <math.h>
#include <string.h>

#include "plan/answer/readable_text.h"
#include "plan/explain/assumptions.h"
#include "plan/explain/why.h"
#include "plan/internal.h"
#include "plan/micro/micro.h"
#include "plan/replan/write.h"
#include "plan/service/service.h"
#include "plan/stage_strategies.h"
#include "plan/variants/variants.h"

#define SP_TEXT_COLUMNS   100 /* the terminal that all of this is made for */
#define SP_TEXT_TRANSFERS 16  /* transfers listed before they are only counted */
#define SP_TEXT_NOTES     16  /* notes likewise */
#define SP_TEXT_COPIES    16  /* and copies */
#define SP_NOTE_COLUMNS   200 /* a note's sentence: it quotes names out of the model */
#define SP_TEXT_BORDER    24  /* columns of the name of a node at which a holder begins or ends */
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
        sp_text_scaled(buf, sp_plan_runs(plan) * workload->flops);
        sp_buf_text(buf, "FLOP per request, ");
    }
    sp_text_bytes(buf, workload->weight_bytes);
    sp_buf_text(buf, plan->model != NULL ? " of weights\nCluster     " : " of memory\nCluster     ");
    for (uint32_t g = 0; g < cluster->group_count; g++) {
        sp_buf_printf(buf, "%s%u x %s (", g > 0 ? " + " : "", cluster->groups[g].count, cluster->groups[g].device.name);
        sp_text_bytes(buf, cluster->groups[g].device.memory_bytes);
        sp_buf_text(buf, ")");
        if (cluster->groups[g].device.names_runtime)
            sp_buf_printf(buf, " with %s", sp_device_runtime(&cluster->groups[g].device)->name);
    }
    sp_buf_text(buf, "; links: ");
    for (uint32_t l = 0; l < cluster->level_count; l++) {
        sp_buf_printf(buf, "%s%u at ", l > 0 ? ", " : "", cluster->levels[l].size);
        sp_text_bytes(buf, sp_level_bandwidth(&cluster->levels[l]));
        sp_buf_text(buf, "/s");
    }
    sp_buf_printf(buf, "\nObjective   %s, strategy %s%s\nFingerprint %s\n", sp_objective_name(plan->objective),
                  plan->strategy, plan->result->placement.shares_devices ? ", placement any" : "", plan->id);
}

/* "       2 replicas of 4 devices, mesh x 2, y 2; 1.20 ms of computing are collectives": for stages of several. */
static void block_line(const struct sp_plan *plan, uint32_t stage, struct sp_buf *buf)
{
    const struct sp_placement *placement = &plan->result->placement;
    const struct sp_stage_cost *cost = &plan->result->evaluation->stages[stage];
    const uint32_t size = sp_placement_size(placement, stage), replicas = sp_placement_replicas(placement, stage);
    const struct sp_arena_mark mark = sp_arena_mark(plan->arena);
    const struct sp_mesh *mesh = NULL;
    struct sp_error none = {0};
    if (size * replicas == 1)
        return;
    if (sp_plan_mesh(plan, plan->arena, stage, &mesh, &none) != SP_OK)
        buf->failed = true;
    sp_buf_text(buf, "       ");
    if (replicas > 1)
        sp_buf_printf(buf, "%u replicas of ", replicas);
    sp_buf_printf(buf, "%u device%s", size, size == 1 ? "" : "s");
    for (uint32_t a = 0; mesh != NULL && a < mesh->axis_count; a++)
        sp_buf_printf(buf, "%s %s %lld", a == 0 ? ", mesh" : ",", mesh->axes[a].name, (long long)mesh->axes[a].size);
    if (cost->collective_seconds > 0) {
        sp_buf_text(buf, "; ");
        sp_text_seconds(buf, sp_plan_runs(plan) * cost->collective_seconds);
        sp_buf_text(buf, " of computing are collectives");
    }
    sp_buf_text(buf, "\n");
    sp_arena_rewind(plan->arena, mark);
}

/* Of a stage's unequal devices; 0: they are equal. */
static uint32_t member_count(const struct sp_plan *plan, uint32_t stage)
{
    const struct sp_sharded_stage *sharded = sp_plan_sharded(plan, stage);
    return sharded == NULL ? 0 : sp_strategy_table_mesh(sharded->table)->member_count;
}

/* "       1 l4: share 1 of 4, 4.23 MFLOP, 229.9 kB of 24.0 GB": for each of them. */
static void member_lines(const struct sp_plan *plan, uint32_t stage, struct sp_buf *buf)
{
    for (uint32_t m = 0; m < member_count(plan, stage); m++) {
        const struct sp_strategy_mesh *mesh = sp_strategy_table_mesh(sp_plan_sharded(plan, stage)->table);
        const uint32_t device = plan->result->placement.stage_device[stage] + m;
        const struct sp_stage_cost *own = sp_evaluation_on(plan->result->evaluation, stage, device);
        sp_buf_printf(buf, "       %u ", sp_cluster_number(plan->cluster, device));
        sp_text_cut(buf, mesh->members[m].device->name, 22);
        sp_buf_printf(buf, ": share %u of %u, ", mesh->members[m].share, mesh->size[0]);
        sp_text_scaled(buf, own->flops);
        sp_buf_text(buf, "FLOP, ");
        sp_text_bytes(buf, own->total_bytes);
        sp_buf_text(buf, " of ");
        sp_text_bytes(buf, own->capacity_bytes);
        sp_buf_text(buf, "\n");
    }
}

static void stage_line(const struct sp_plan *plan, uint32_t stage, const struct sp_borders *borders,
                       struct sp_buf *cell, struct sp_buf *buf)
{
    const struct sp_stage_cost *cost = &plan->result->evaluation->stages[stage];
    const struct sp_work_node *nodes = plan->workload->nodes;
    const uint32_t members = member_count(plan, stage);
    const double runs = sp_plan_runs(plan);
    sp_buf_printf(buf, "%5u  ", stage);
    sp_reason_devices(plan, stage, cell);
    sp_buf_text(cell, " ");
    sp_text_cut(cell, sp_cluster_device(plan->cluster, cost->device)->name, members > 0 ? 12 : 22);
    if (members > 0)
        sp_buf_printf(cell, " + %u more", members - 1);
    cell_end(buf, cell, 25, false);
    sp_buf_printf(buf, "%7u", cost->node_count);
    cell_seconds(buf, cell, runs * cost->compute_seconds, 10);
    cell_seconds(buf, cell, runs * cost->send_seconds, 10);
    cell_seconds(buf, cell, runs * cost->receive_seconds, 10);
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
    block_line(plan, stage, buf);
    member_lines(plan, stage, buf);
    if (cost->cache_bytes > 0) {
        sp_buf_text(buf, "       of the memory of each device ");
        sp_text_bytes(buf, cost->cache_bytes);
        sp_buf_text(buf, plan->micro != NULL ? " are states of other micro-batches\n" : " are keys and values\n");
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
        sp_reason_devices(plan, t->from_stage, cell);
        sp_buf_text(cell, " -> ");
        sp_reason_devices(plan, t->to_stage, cell);
        cell_end(buf, cell, 18, false);
        cell_bytes(buf, cell, sp_plan_runs(plan) * t->bytes, 11);
        cell_seconds(buf, cell, sp_plan_runs(plan) * t->seconds, 11);
        sp_buf_text(buf, "\n");
    }
    if (evaluation->transfer_count > SP_TEXT_TRANSFERS) {
        sp_buf_printf(buf, "and %u more; %u in all, ", evaluation->transfer_count - SP_TEXT_TRANSFERS,
                      evaluation->transfer_count);
        sp_text_bytes(buf, sp_plan_sent_bytes(plan));
        sp_buf_text(buf, " per request (the JSON form lists them)\n");
    }
}

/* ---- routes ----------------------------------------------------------------------------------------------------- */

/* "0 a100-sxm4-40gb    62.00 %   4.10 ms  .." and the nodes that it holds. */
static void holder_line(const struct sp_plan *plan, const struct sp_route_holder *holder, struct sp_buf *cell,
                        struct sp_buf *buf)
{
    const struct sp_work_node *nodes = plan->workload->nodes;
    sp_buf_printf(cell, "%u ", sp_cluster_number(plan->cluster, holder->device));
    sp_text_cut(cell, sp_cluster_device(plan->cluster, holder->device)->name, 22);
    cell_end(buf, cell, 25, false);
    sp_buf_printf(buf, "%7.2f %%", 100 * holder->share);
    cell_seconds(buf, cell, holder->compute_seconds, 10);
    cell_seconds(buf, cell, holder->send_seconds, 10);
    cell_seconds(buf, cell, holder->receive_seconds, 10);
    cell_seconds(buf, cell, sp_route_holder_interval(holder), 10);
    cell_bytes(buf, cell, holder->cost->total_bytes, 11);
    sp_buf_text(buf, " /");
    cell_bytes(buf, cell, holder->cost->capacity_bytes, 9);
    sp_buf_text(buf, "\n       ");
    sp_text_cut(buf, nodes[holder->first].name, 42);
    sp_buf_text(buf, " .. ");
    sp_text_cut(buf, nodes[holder->end - 1].name, 42);
    sp_buf_text(buf, "\n");
}

/* In place of stages and transfers, which are those of one route: what each device holds, and the routes. */
static void routes(const struct sp_plan *plan, struct sp_buf *cell, struct sp_buf *buf)
{
    const struct sp_routed *routed = plan->result->routes;
    sp_buf_printf(buf, "\n%-25s%9s%10s%10s%10s%10s%11s%11s\n", "Holder", "Requests", "Compute", "Send", "Receive",
                  "Busy", "Memory", "of");
    for (uint32_t h = 0; h < routed->holder_count; h++)
        holder_line(plan, &routed->holders[h], cell, buf);
    sp_buf_text(buf, "(compute: of a request that comes there; send, receive, busy: of any request, on average)\n");
    sp_buf_printf(buf, "\n%5s%11s%11s  %s\n", "Route", "Requests", "Latency", "Devices");
    for (uint32_t r = 0; r < routed->route_count && r < SP_TEXT_TRANSFERS; r++) {
        const struct sp_route *route = &routed->routes[r];
        sp_buf_printf(buf, "%5u%9.2f %%", r, 100 * route->share);
        cell_seconds(buf, cell, route->evaluation->latency_seconds, 11);
        for (uint32_t s = 0; s < route->count; s++)
            sp_buf_printf(cell, "%s%u", s == 0 ? "" : " -> ", sp_cluster_number(plan->cluster, route->devices[s]));
        sp_buf_text(buf, "  ");
        sp_text_wrapped(buf, cell->size > 0 ? cell->data : "", 29, SP_TEXT_COLUMNS);
        sp_buf_clear(cell);
    }
    if (routed->route_count > SP_TEXT_TRANSFERS)
        sp_buf_printf(buf, "and %u more (the JSON form lists them)\n", routed->route_count - SP_TEXT_TRANSFERS);
}

static void stages(const struct sp_plan *plan, const struct sp_borders *borders, struct sp_buf *cell,
                   struct sp_buf *buf)
{
    sp_buf_printf(buf, "\n%5s  %-25s%7s%10s%10s%10s%11s%11s\n", "Stage", "Device", "Nodes", "Compute", "Send",
                  "Receive", "Memory", "of");
    for (uint32_t s = 0; s < plan->result->evaluation->stage_count; s++)
        stage_line(plan, s, borders, cell, buf);
    transfers(plan, cell, buf);
}

/* ---- collectives ------------------------------------------------------------------------------------------------ */

/* Those of one stage and kind together: a model has hundreds of them. */
struct collective_sum {
    const char *kind;
    uint32_t count;
    double bytes, seconds;
};
#define SP_TEXT_KINDS 16 /* more than there are */

struct collective_sums {
    uint32_t count;
    struct collective_sum sums[SP_TEXT_KINDS];
};

static enum sp_status add_collective(void *context, const struct sp_plan_collective *collective, struct sp_error *err)
{
    struct collective_sums *all = context;
    uint32_t i = 0;
    (void)err;
    while (i < all->count && strcmp(all->sums[i].kind, collective->kind) != 0)
        i++;
    if (i == SP_TEXT_KINDS)
        return SP_OK;
    if (i == all->count)
        all->sums[all->count++] = (struct collective_sum){.kind = collective->kind};
    all->sums[i].count++;
    all->sums[i].bytes += collective->bytes;
    all->sums[i].seconds += collective->seconds;
    return SP_OK;
}

static void collectives(const struct sp_plan *plan, struct sp_buf *cell, struct sp_buf *buf)
{
    bool has_head = false;
    for (uint32_t s = 0; s < plan->result->placement.stage_count; s++) {
        struct collective_sums all = {0};
        struct sp_error none = {0};
        if (sp_plan_collectives(plan, s, add_collective, &all, &none) != SP_OK)
            buf->failed = true;
        for (uint32_t i = 0; i < all.count; i++) {
            if (!has_head)
                sp_buf_printf(buf, "\n%-35s%-18s%11s%11s%11s\n", "Collective", "Devices", "Times", "Bytes", "Time");
            has_head = true;
            sp_buf_printf(buf, "%-35s", all.sums[i].kind);
            sp_reason_devices(plan, s, cell);
            cell_end(buf, cell, 18, false);
            sp_buf_printf(buf, "%11u", all.sums[i].count);
            cell_bytes(buf, cell, all.sums[i].bytes, 11);
            cell_seconds(buf, cell, all.sums[i].seconds, 11);
            sp_buf_text(buf, "\n");
        }
    }
    if (has_head)
        sp_buf_text(buf, "(bytes that each device sends per request)\n");
}

static void alternatives(const struct sp_plan *plan, struct sp_buf *cell, struct sp_buf *buf)
{
    const struct sp_search_result *result = plan->result;
    if (result->front_count < 2)
        return;
    sp_buf_printf(buf, "\n%-35s%9s%11s%11s%11s\n", "Plans that were found", "Devices", "Latency", "Interval", "Memory");
    for (uint32_t i = 0; i < result->front_count; i++) {
        const struct sp_front_plan *front = &result->front[i];
        sp_text_cut(cell, front->description, SP_TEXT_NAME);
        cell_end(buf, cell, SP_TEXT_NAME + 1, false);
        sp_buf_printf(buf, "%9u", front->devices_used);
        cell_seconds(buf, cell, front->latency_seconds, 11);
        cell_seconds(buf, cell, front->interval_seconds, 11);
        cell_bytes(buf, cell, front->memory_bytes, 11);
        sp_buf_text(buf, front->is_chosen ? "  this plan\n" : "\n");
    }
}

/* " (90%: 10.9 ms to 14.2 ms)", where it is an estimate. */
static void range(struct sp_buf *buf, const struct sp_error_bar *bar, void (*write)(struct sp_buf *, double))
{
    if (!(bar->low < bar->high))
        return;
    sp_buf_text(buf, " (90%: ");
    write(buf, bar->low);
    sp_buf_text(buf, " to ");
    write(buf, bar->high);
    sp_buf_text(buf, ")");
}

static void figures(const struct sp_plan *plan, struct sp_buf *buf)
{
    const struct sp_error_bars *bars = &plan->bars;
    const bool has_rate = bars->interval_seconds.value > 0;
    if (has_rate) {
        sp_text_rate(buf, bars->throughput_per_second.value);
        sp_buf_text(buf, " requests per second");
        range(buf, &bars->throughput_per_second, sp_text_rate);
        sp_buf_text(buf, ", one every ");
    } else {
        sp_buf_text(buf, "one request every ");
    }
    sp_text_seconds(buf, bars->interval_seconds.value);
    sp_buf_text(buf, "; latency ");
    sp_text_seconds(buf, bars->latency_seconds.value);
    range(buf, &bars->latency_seconds, sp_text_seconds);
    sp_buf_text(buf, "; ");
    sp_text_bytes(buf, sp_plan_sent_bytes(plan));
    sp_buf_text(buf, " sent per request");
}

/* "4 take requests in turn, on devices 0-1; 2-3; 4-5; 6-7": stages and devices below are those of the first. */
static void copies(const struct sp_plan *plan, struct sp_buf *cell, struct sp_buf *buf)
{
    const struct sp_placement *placement = &plan->result->placement;
    const uint32_t count = sp_placement_copies(placement);
    if (count < 2)
        return;
    sp_buf_printf(cell, "%u take requests in turn, on devices ", count);
    for (uint32_t copy = 0; copy < count && copy < SP_TEXT_COPIES; copy++) {
        sp_buf_text(cell, copy > 0 ? "; " : "");
        for (uint32_t s = 0; s < placement->stage_count; s++) {
            sp_buf_text(cell, s > 0 ? ", " : "");
            sp_text_numbers(cell, plan->cluster->number, sp_placement_device(placement, s, copy),
                            sp_plan_stage_devices(plan, s));
        }
    }
    sp_buf_text(cell, count > SP_TEXT_COPIES ? "; and others; stages are those of the first"
                                             : "; stages are those of the first");
    sp_buf_text(buf, "Copies      ");
    sp_text_wrapped(buf, cell->data, 12, SP_TEXT_COLUMNS);
    sp_buf_clear(cell);
}

static void estimate(const struct sp_plan *plan, struct sp_buf *cell, struct sp_buf *buf)
{
    struct sp_plan_gap gap = sp_plan_gap(plan);
    sp_buf_text(buf, "\nEstimate    ");
    figures(plan, cell);
    sp_text_wrapped(buf, cell->size > 0 ? cell->data : "", 12, SP_TEXT_COLUMNS);
    sp_buf_clear(cell);
    sp_buf_text(buf, "Memory      ");
    sp_text_bytes(cell, plan->bars.memory_bytes.value);
    range(cell, &plan->bars.memory_bytes, sp_text_bytes);
    sp_buf_text(cell, " on the fullest device, beside what the runtime's process takes");
    sp_text_wrapped(buf, cell->size > 0 ? cell->data : "", 12, SP_TEXT_COLUMNS);
    sp_buf_clear(cell);
    sp_buf_printf(buf, "Bound       no %s on these devices has %s below ",
                  plan->result->strategy == SP_STRATEGY_GROUPING ? "placement of whole nodes" : "plan",
                  plan->objective == SP_OBJECTIVE_LATENCY ? "a latency" : "an interval");
    sp_text_seconds(buf, gap.bound_seconds);
    sp_buf_printf(buf, "; gap %.1f%%\n", 100 * gap.gap);
    sp_micro_batches_write_text(plan, buf);
    copies(plan, cell, buf);
    if (sp_plan_devices_used(plan) < plan->cluster->device_count)
        sp_buf_printf(buf, "Devices     %u of %u are used\n", sp_plan_devices_used(plan), plan->cluster->device_count);
    if (sp_plan_price(plan) > 0)
        sp_buf_printf(buf, "Price       %.2f US dollars an hour for the devices that are used\n", sp_plan_price(plan));
    sp_buf_text(buf, "Bottleneck  ");
    sp_text_wrapped(buf, plan->bottleneck, 12, SP_TEXT_COLUMNS);
}

static void proof(const struct sp_plan *plan, struct sp_buf *cell, struct sp_buf *buf)
{
    if (plan->proof == NULL)
        return;
    sp_buf_text(buf, "Proof       ");
    if (plan->proof->reason_count == 0)
        sp_buf_text(cell, "the devices compute what the model computes, up to the order of sums");
    else
        sp_buf_printf(cell, "undecided: %s", plan->proof->reasons[0]);
    sp_text_wrapped(buf, sp_buf_failed(cell) ? "" : cell->data, 12, SP_TEXT_COLUMNS);
    sp_buf_clear(cell);
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
        if (plan->result->routes != NULL)
            routes(plan, &cell, buf);
        else
            stages(plan, &borders, &cell, buf);
        collectives(plan, &cell, buf);
        alternatives(plan, &cell, buf);
        estimate(plan, &cell, buf);
        proof(plan, &cell, buf);
        sp_assumptions_write_text(plan, buf);
        sp_why_write_text(plan, buf);
        sp_answers_write_text(plan, buf);
        sp_variants_write_text(plan, buf);
        sp_replan_write_text(plan, buf);
        sp_service_write_text(plan, buf);
        notes(plan, buf);
    }
    if (sp_buf_failed(&cell))
        buf->failed = true;
    sp_buf_release(&cell);
    sp_arena_rewind(plan->arena, mark);
}
