/* What becomes of the devices, as JSON and as text. */
#include <math.h>
#include <string.h>

#include "plan/answer/readable_text.h"
#include "plan/internal.h"
#include "plan/replan/replan.h"
#include "plan/replan/write.h"

#define TEXT_COLUMNS 100
#define NAME_COLUMNS 25
#define TEXT_INDENT  12

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static void write_figures(const char *name, const struct sp_replan_figures *figures, struct sp_json *json)
{
    sp_json_key(json, name);
    if (figures->description == NULL) {
        sp_json_null(json);
        return;
    }
    sp_json_begin_object(json);
    sp_json_member_string(json, "description", figures->description);
    sp_json_member_double(json, "latency_seconds", figures->latency_seconds);
    sp_json_member_double(json, "interval_seconds", figures->interval_seconds);
    sp_json_member_int(json, "devices_used", figures->devices_used);
    sp_json_member_double(json, "moved_bytes", figures->bytes);
    sp_json_member_double(json, "moving_seconds", figures->seconds);
    sp_json_end_object(json);
}

static void write_number(const char *name, int64_t number, struct sp_json *json)
{
    sp_json_key(json, name);
    if (number < 0)
        sp_json_null(json);
    else
        sp_json_int(json, number);
}

static void write_devices(const struct sp_plan *plan, struct sp_json *json)
{
    const struct sp_migration *migration = plan->migration;
    sp_json_key(json, "devices");
    sp_json_begin_array(json);
    for (uint32_t d = 0; d < plan->cluster->device_count; d++) {
        const struct sp_seat *seat = &migration->moves.seats[d];
        sp_json_begin_object(json);
        sp_json_member_int(json, "id", sp_cluster_number(plan->cluster, d));
        write_number("was", migration->was[d], json);
        if (migration->numbers != NULL)
            sp_json_member_int(json, "number", migration->numbers[d]);
        sp_json_member_double(json, "kept_bytes", seat->kept_bytes);
        sp_json_member_double(json, "received_bytes", seat->received_bytes);
        sp_json_member_double(json, "sent_bytes", seat->sent_bytes);
        sp_json_member_double(json, "freed_bytes", seat->freed_bytes);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

static void write_sender(const struct sp_plan *plan, uint32_t from, struct sp_json *json)
{
    sp_json_key(json, "from");
    if (from == SP_FROM_STORE)
        sp_json_string(json, "store");
    else
        sp_json_int(json, sp_cluster_number(plan->cluster, from));
}

/* What each device gets of each other one, all its moves together: moves are by device that gets. */
static void write_sums(const struct sp_plan *plan, struct sp_json *json)
{
    const struct sp_moves *moves = &plan->migration->moves;
    const uint32_t store = plan->cluster->device_count;
    struct sp_arena_mark mark = sp_arena_mark(plan->arena);
    struct sum {
        double bytes;
        uint32_t count;
    } *sums = SP_NEW_ARRAY(plan->arena, (size_t)store + 1, struct sum);
    json->failed = json->failed || sums == NULL;
    sp_json_key(json, "sums");
    sp_json_begin_array(json);
    for (uint32_t i = 0, end; sums != NULL && i < moves->count; i = end) {
        memset(sums, 0, ((size_t)store + 1) * sizeof *sums);
        for (end = i; end < moves->count && moves->items[end].to == moves->items[i].to; end++) {
            struct sum *sum = &sums[moves->items[end].from == SP_FROM_STORE ? store : moves->items[end].from];
            sum->bytes += moves->items[end].bytes;
            sum->count++;
        }
        for (uint32_t from = 0; from <= store; from++) {
            if (sums[from].count == 0)
                continue;
            sp_json_begin_object(json);
            write_sender(plan, from == store ? SP_FROM_STORE : from, json);
            sp_json_member_int(json, "to", sp_cluster_number(plan->cluster, moves->items[i].to));
            sp_json_member_double(json, "bytes", sums[from].bytes);
            sp_json_member_int(json, "moves", sums[from].count);
            sp_json_end_object(json);
        }
    }
    sp_json_end_array(json);
    sp_arena_rewind(plan->arena, mark);
}

static void write_move(const struct sp_plan *plan, const struct sp_move *move, struct sp_json *json)
{
    const struct sp_workload *workload = plan->workload;
    sp_json_begin_object(json);
    sp_json_member_string(json, "tensor", sp_weight_name(workload, move->weight));
    sp_json_key(json, "box");
    if (move->box == NULL) {
        sp_json_null(json);
    } else {
        sp_json_begin_array(json);
        for (uint32_t a = 0; a < workload->tensors[move->weight].value->type.shape.rank; a++) {
            sp_json_begin_array(json);
            sp_json_int(json, move->box[a].start);
            sp_json_int(json, move->box[a].limit);
            sp_json_end_array(json);
        }
        sp_json_end_array(json);
    }
    write_sender(plan, move->from, json);
    sp_json_member_int(json, "to", sp_cluster_number(plan->cluster, move->to));
    sp_json_member_double(json, "bytes", move->bytes);
    sp_json_end_object(json);
}

void sp_replan_write_json(const struct sp_plan *plan, struct sp_json *json)
{
    const struct sp_migration *migration = plan->migration;
    if (migration == NULL)
        return;
    const struct sp_moves *moves = &migration->moves;
    sp_json_key(json, "replan");
    sp_json_begin_object(json);
    sp_json_member_string(json, "from", migration->terms->from);
    sp_json_member_double(json, "horizon_seconds", migration->terms->horizon_seconds);
    sp_json_member_string(json, "choice", sp_replan_choice_name(migration->choice));
    sp_json_member_double(json, "moving_seconds", moves->seconds);
    sp_json_member_double(json, "moving_seconds_bound", moves->seconds_bound);
    sp_json_member_double(json, "kept_bytes", moves->kept_bytes);
    sp_json_member_double(json, "store_bytes", moves->store_bytes);
    sp_json_member_bool(json, "fits_beside", migration->fits_beside);
    sp_json_member_double(json, "break_even_seconds", migration->break_even_seconds);
    write_figures("without_past", &migration->fresh, json);
    write_figures("stay", &migration->stay, json);
    write_devices(plan, json);
    write_sums(plan, json);
    sp_json_end_object(json);
    sp_json_member_double(json, "moved_bytes", moves->bytes);
    sp_json_member_double(json, "moved_bytes_bound", moves->bytes_bound);
    sp_json_key(json, "moves");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < moves->count; i++)
        write_move(plan, &moves->items[i], json);
    sp_json_end_array(json);
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

static void bytes_cell(struct sp_buf *buf, struct sp_buf *cell, double bytes)
{
    sp_text_bytes(cell, bytes);
    sp_buf_printf(buf, "%11s", cell->size > 0 ? cell->data : "");
    sp_buf_clear(cell);
}

static void paragraph(struct sp_buf *buf, const char *head, struct sp_buf *cell)
{
    sp_buf_printf(buf, "%-*s", TEXT_INDENT, head);
    sp_text_wrapped(buf, cell->size > 0 ? cell->data : "", TEXT_INDENT, TEXT_COLUMNS);
    sp_buf_clear(cell);
}

static void device_lines(const struct sp_plan *plan, struct sp_buf *cell, struct sp_buf *buf)
{
    const struct sp_migration *migration = plan->migration;
    sp_buf_printf(buf, "\n%6s  %-*s%8s%11s%11s%11s%11s\n", "Device", NAME_COLUMNS, "", "Was", "Keeps", "Receives",
                  "Sends", "Frees");
    for (uint32_t d = 0; d < plan->cluster->device_count; d++) {
        const struct sp_seat *seat = &migration->moves.seats[d];
        sp_text_cut(cell, sp_cluster_device(plan->cluster, d)->name, NAME_COLUMNS);
        sp_buf_printf(buf, "%6u  %-*s", sp_cluster_number(plan->cluster, d), NAME_COLUMNS,
                      cell->size > 0 ? cell->data : "");
        sp_buf_clear(cell);
        if (migration->was[d] < 0)
            sp_buf_printf(buf, "%8s", "new");
        else
            sp_buf_printf(buf, "%8lld", (long long)migration->was[d]);
        bytes_cell(buf, cell, seat->kept_bytes);
        bytes_cell(buf, cell, seat->received_bytes);
        bytes_cell(buf, cell, seat->sent_bytes);
        bytes_cell(buf, cell, seat->freed_bytes);
        sp_buf_text(buf, "\n");
    }
}

static void say_moves(const struct sp_moves *moves, bool fits_beside, struct sp_buf *buf)
{
    if (moves->bytes <= 0) {
        sp_buf_text(buf, "nothing has to be moved");
        return;
    }
    sp_text_bytes(buf, moves->bytes);
    sp_buf_printf(buf, " in %u messages, ", moves->count);
    sp_text_seconds(buf, moves->seconds);
    sp_buf_text(buf, " (at least ");
    sp_text_seconds(buf, moves->seconds_bound);
    sp_buf_text(buf, ")");
    if (moves->store_bytes > 0) {
        sp_buf_text(buf, "; ");
        sp_text_bytes(buf, moves->store_bytes);
        sp_buf_text(buf, " of them are on no device any more and come from the store");
    }
    if (moves->bytes_bound > 0) {
        sp_buf_text(buf, "; no plan moves less than ");
        sp_text_bytes(buf, moves->bytes_bound);
    }
    if (!fits_beside)
        sp_buf_text(buf,
                    "; some device has no room for old and new weights at once, and frees some before it receives");
}

static void say_figures(const struct sp_replan_figures *figures, struct sp_buf *buf)
{
    sp_buf_printf(buf, "%s: one request every ", figures->description);
    sp_text_seconds(buf, figures->interval_seconds);
    sp_buf_text(buf, ", latency ");
    sp_text_seconds(buf, figures->latency_seconds);
    if (figures->bytes <= 0) {
        sp_buf_text(buf, ", nothing to move");
        return;
    }
    sp_buf_text(buf, ", ");
    sp_text_bytes(buf, figures->bytes);
    sp_buf_text(buf, " to move in ");
    sp_text_seconds(buf, figures->seconds);
}

static void say_horizon(double seconds, struct sp_buf *buf)
{
    if (seconds >= 3600)
        sp_buf_printf(buf, "%.4g h", seconds / 3600);
    else if (seconds >= 60)
        sp_buf_printf(buf, "%.4g min", seconds / 60);
    else
        sp_text_seconds(buf, seconds);
}

static void say_choice(const struct sp_migration *migration, struct sp_buf *buf)
{
    static const char *const texts[] = {
        [SP_REPLAN_FRESH] = "the plan that is best without the past",
        [SP_REPLAN_SEEN] = "one of the plans that the search found, with fewer moves for what it is worth",
        [SP_REPLAN_STAY] = "the plan of before, as it is",
        [SP_REPLAN_REPAIRED] = "the plan of before without what is lost",
    };
    sp_buf_printf(buf, "%s, for ", texts[migration->choice]);
    say_horizon(migration->terms->horizon_seconds, buf);
}

void sp_replan_write_text(const struct sp_plan *plan, struct sp_buf *buf)
{
    const struct sp_migration *migration = plan->migration;
    struct sp_buf cell;
    if (migration == NULL)
        return;
    sp_buf_init(&cell, SP_REASON_BYTES);
    device_lines(plan, &cell, buf);
    sp_buf_text(buf, "\n");
    say_choice(migration, &cell);
    paragraph(buf, "Replan", &cell);
    say_moves(&migration->moves, migration->fits_beside, &cell);
    paragraph(buf, "Moves", &cell);
    if (migration->choice != SP_REPLAN_FRESH && migration->fresh.description != NULL) {
        say_figures(&migration->fresh, &cell);
        paragraph(buf, "Fresh", &cell);
    }
    if (migration->choice != SP_REPLAN_STAY) {
        if (migration->stay.description == NULL)
            sp_buf_text(&cell, "the plan of before cannot be laid on these devices as it is");
        else
            say_figures(&migration->stay, &cell);
        if (isfinite(migration->break_even_seconds)) {
            sp_buf_text(&cell, "; this one is better from a horizon of ");
            say_horizon(migration->break_even_seconds, &cell);
            sp_buf_text(&cell, " on");
        }
        paragraph(buf, "Stay", &cell);
    }
    if (sp_buf_failed(&cell))
        buf->failed = true;
    sp_buf_release(&cell);
}
