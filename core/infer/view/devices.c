/*
 * Which devices take part in a node, and which part of each loop is theirs.
 *
 * Those that a stated input names, or an input that is split, take part; where nothing is stated or split, those of the
 * inputs as they were made; else those of the inputs that nothing is said of. An input that is whole by inference may
 * be on more devices: they are not asked to do anything.
 */
#include <inttypes.h>
#include <string.h>

#include "base/arith.h"
#include "infer/view/internal.h"

static bool is_stated(const struct sp_view_operand *operand)
{
    return operand->origin == SP_SPEC_GIVEN || operand->origin == SP_SPEC_SET;
}

/* Whether what the input says about devices counts. */
static bool is_heard(const struct sp_view_operand *operand)
{
    return operand->is_seen && operand->origin != SP_SPEC_ASSUMED;
}

/* ---- who takes part ---- */

enum voice { VOICE_SAYS = 0, VOICE_INFERRED, VOICE_ASSUMED, VOICE_COUNT };

static enum voice voice_of(const struct sp_view_operand *operand)
{
    if (operand->origin == SP_SPEC_ASSUMED)
        return VOICE_ASSUMED;
    return is_stated(operand) || operand->level_count > 0 ? VOICE_SAYS : VOICE_INFERRED;
}

/* Adds the input's devices to the participants: both are ascending. */
static enum sp_status add_participants(struct sp_viewer *viewer, const struct sp_view_operand *operand)
{
    int64_t at = 0, own = 0, used = 0;
    int64_t *merged = SP_NEW_ARRAY(viewer->arena, (size_t)(viewer->participant_count + operand->count), int64_t);
    if (merged == NULL)
        return sp_fail_memory(viewer->err);
    while (at < viewer->participant_count || own < operand->count) {
        bool is_own = at == viewer->participant_count ||
                      (own < operand->count && operand->devices[own] <= viewer->participants[at]);
        int64_t device = is_own ? operand->devices[own] : viewer->participants[at];
        while (own < operand->count && operand->devices[own] == device)
            own++;
        at += at < viewer->participant_count && viewer->participants[at] == device;
        merged[used++] = device;
    }
    viewer->participants = merged;
    viewer->participant_count = used;
    return SP_OK;
}

static enum sp_status find_participants(struct sp_viewer *viewer)
{
    enum sp_status status = SP_OK;
    for (int voice = VOICE_SAYS; voice < VOICE_COUNT && viewer->participant_count == 0; voice++)
        for (uint32_t i = 0; i < viewer->rule->input_count && status == SP_OK; i++)
            if (viewer->operands[i].is_seen && (int)voice_of(&viewer->operands[i]) == voice)
                status = add_participants(viewer, &viewer->operands[i]);
    return status;
}

/* ---- coordinates ---- */

/* Which shard of the input each participant has. */
static enum sp_status look_up(struct sp_viewer *viewer, struct sp_view_operand *operand)
{
    int64_t at = 0;
    operand->of_participant = SP_NEW_ARRAY(viewer->arena, (size_t)viewer->participant_count, uint32_t);
    if (operand->of_participant == NULL)
        return sp_fail_memory(viewer->err);
    for (int64_t p = 0; p < viewer->participant_count; p++) {
        while (at < operand->count && operand->devices[at] < viewer->participants[p])
            at++;
        bool is_there = at < operand->count && operand->devices[at] == viewer->participants[p];
        operand->of_participant[p] = is_there ? operand->shards[at] : SP_NOT_THERE;
    }
    return SP_OK;
}

static enum sp_status conflict_places(struct sp_viewer *viewer, uint8_t factor, uint32_t other, int64_t device)
{
    char text[SP_OPERAND_TEXT_SIZE], other_text[SP_OPERAND_TEXT_SIZE];
    uint32_t owner = viewer->owners[factor];
    viewer->is_broken = true;
    return sp_viewer_conflict(
        viewer,
        &(struct sp_conflict){SP_CONFLICT_SPLIT, owner, other, viewer->operands[owner].axis_of[factor], factor, device},
        "takes %s and %s, but device %" PRId64
        " has another part of the one than of the other along the loop that they share (%s).",
        sp_viewer_operand_text(owner, text), sp_viewer_operand_text(other, other_text), device,
        viewer->rule->factors[factor].name);
}

/* One level of an input's numbering: each participant's coordinate in its factor. */
static enum sp_status take_level(struct sp_viewer *viewer, uint32_t index, const struct sp_view_level *level,
                                 int64_t stride)
{
    const struct sp_view_operand *operand = &viewer->operands[index];
    int32_t *coordinates = viewer->coordinates[level->factor];
    int64_t differs = -1;
    if (!sp_cut_equal(&operand->cuts[level->factor], &viewer->view->splits[level->factor]))
        return SP_OK; /* told already */
    if (coordinates == NULL) {
        coordinates = SP_NEW_ARRAY(viewer->arena, (size_t)viewer->participant_count, int32_t);
        if (coordinates == NULL)
            return sp_fail_memory(viewer->err);
        memset(coordinates, 0xff, (size_t)viewer->participant_count * sizeof *coordinates);
        viewer->coordinates[level->factor] = coordinates;
    }
    for (int64_t p = 0; p < viewer->participant_count; p++) {
        if (operand->of_participant[p] == SP_NOT_THERE)
            continue;
        int32_t own = (int32_t)(operand->of_participant[p] / stride % level->shards);
        if (coordinates[p] >= 0 && coordinates[p] != own && differs < 0)
            differs = viewer->participants[p];
        coordinates[p] = own;
    }
    return differs < 0 ? SP_OK : conflict_places(viewer, level->factor, index, differs);
}

static enum sp_status take_coordinates(struct sp_viewer *viewer)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < viewer->rule->input_count && status == SP_OK; i++) {
        struct sp_view_operand *operand = &viewer->operands[i];
        int64_t stride = 1;
        if (!operand->is_seen)
            continue;
        status = look_up(viewer, operand);
        for (uint32_t l = operand->level_count; l-- > 0 && status == SP_OK;) {
            if (operand->levels[l].factor != SP_NO_FACTOR)
                status = take_level(viewer, i, &operand->levels[l], stride);
            stride *= operand->levels[l].shards;
        }
    }
    return status;
}

/* ---- what contradicts ---- */

/* Keeps the participants that have all inputs. */
static void keep_complete(struct sp_viewer *viewer)
{
    int64_t kept = 0;
    for (int64_t p = 0; p < viewer->participant_count; p++) {
        bool has_all = true;
        for (uint32_t i = 0; i < viewer->rule->input_count && has_all; i++)
            has_all = !is_heard(&viewer->operands[i]) || viewer->operands[i].of_participant[p] != SP_NOT_THERE;
        if (!has_all)
            continue;
        for (uint32_t f = 0; f < viewer->rule->factor_count; f++)
            if (viewer->coordinates[f] != NULL)
                viewer->coordinates[f][kept] = viewer->coordinates[f][p];
        viewer->participants[kept++] = viewer->participants[p];
    }
    viewer->participant_count = kept;
}

/* Whether each combination of shards is on a device. */
static enum sp_status is_covered(struct sp_viewer *viewer, bool *ret_covered)
{
    int64_t points = 1, seen = 0;
    *ret_covered = false;
    for (uint32_t f = 0; f < viewer->rule->factor_count; f++)
        if (viewer->coordinates[f] != NULL && (!sp_mul_i64(points, sp_cut_shards(&viewer->view->splits[f]), &points) ||
                                               points > viewer->participant_count))
            return SP_OK;
    uint8_t *is_seen = SP_NEW_ARRAY(viewer->arena, (size_t)points, uint8_t);
    if (is_seen == NULL)
        return sp_fail_memory(viewer->err);
    for (int64_t p = 0; p < viewer->participant_count; p++) {
        int64_t point = 0;
        bool is_placed = true;
        for (uint32_t f = 0; f < viewer->rule->factor_count; f++) {
            if (viewer->coordinates[f] == NULL)
                continue;
            is_placed = is_placed && viewer->coordinates[f][p] >= 0;
            point = point * sp_cut_shards(&viewer->view->splits[f]) + viewer->coordinates[f][p];
        }
        seen += is_placed && !is_seen[point];
        if (is_placed)
            is_seen[point] = 1;
    }
    *ret_covered = seen == points;
    return SP_OK;
}

/* A factor that both inputs cut in the same way, or SP_NO_FACTOR. */
static uint8_t shared_factor(const struct sp_viewer *viewer, uint32_t a, uint32_t b)
{
    for (uint32_t f = 0; f < viewer->rule->factor_count; f++)
        if (viewer->operands[a].cuts[f].part_count > 0 && viewer->operands[b].cuts[f].part_count > 0)
            return (uint8_t)f;
    return SP_NO_FACTOR;
}

static bool have_common_device(const struct sp_view_operand *a, const struct sp_view_operand *b)
{
    int64_t i = 0, j = 0;
    while (i < a->count && j < b->count) {
        if (a->devices[i] == b->devices[j])
            return true;
        if (a->devices[i] < b->devices[j])
            i++;
        else
            j++;
    }
    return false;
}

static enum sp_status conflict_missing(struct sp_viewer *viewer, uint32_t index, int64_t device)
{
    char text[SP_OPERAND_TEXT_SIZE];
    return sp_viewer_conflict(
        viewer, &(struct sp_conflict){SP_CONFLICT_DEVICES, index, SP_NO_TENSOR, 0, SP_NO_FACTOR, device},
        "takes %s, but device %" PRId64 " takes part, as its other inputs say, and does not have it.",
        sp_viewer_operand_text(index, text), device);
}

static enum sp_status conflict_disjoint(struct sp_viewer *viewer, uint8_t factor, uint32_t a, uint32_t b)
{
    char text[SP_OPERAND_TEXT_SIZE], other_text[SP_OPERAND_TEXT_SIZE];
    return sp_viewer_conflict(
        viewer, &(struct sp_conflict){SP_CONFLICT_SPLIT, a, b, viewer->operands[a].axis_of[factor], factor, -1},
        "takes %s and %s, which share a loop (%s) but no device.", sp_viewer_operand_text(a, text),
        sp_viewer_operand_text(b, other_text), viewer->rule->factors[factor].name);
}

static enum sp_status conflict_coverage(struct sp_viewer *viewer)
{
    char text[SP_OPERAND_TEXT_SIZE], other_text[SP_OPERAND_TEXT_SIZE];
    uint32_t pair[2] = {SP_NO_TENSOR, SP_NO_TENSOR};
    for (uint32_t i = 0; i < viewer->rule->input_count; i++) {
        if (!is_heard(&viewer->operands[i]) || !viewer->operands[i].is_cut)
            continue;
        if (pair[0] == SP_NO_TENSOR)
            pair[0] = i;
        else if (pair[1] == SP_NO_TENSOR || !have_common_device(&viewer->operands[pair[0]], &viewer->operands[i]))
            pair[1] = i;
    }
    if (pair[1] == SP_NO_TENSOR)
        return sp_viewer_conflict(viewer,
                                  &(struct sp_conflict){SP_CONFLICT_COVERAGE, pair[0] == SP_NO_TENSOR ? 0 : pair[0],
                                                        SP_NO_TENSOR, 0, SP_NO_FACTOR, -1},
                                  "takes inputs that no device has together: part of its result can be computed "
                                  "nowhere.");
    return sp_viewer_conflict(viewer,
                              &(struct sp_conflict){SP_CONFLICT_COVERAGE, pair[0], pair[1], 0, SP_NO_FACTOR, -1},
                              "takes %s and %s, but for some part of its result no device has what is needed of both.",
                              sp_viewer_operand_text(pair[0], text), sp_viewer_operand_text(pair[1], other_text));
}

/* An input that some participant does not have. */
static enum sp_status check_missing(struct sp_viewer *viewer, uint32_t index)
{
    const struct sp_view_operand *operand = &viewer->operands[index];
    int64_t missing = -1;
    for (int64_t p = 0; p < viewer->participant_count && missing < 0; p++)
        if (operand->of_participant[p] == SP_NOT_THERE)
            missing = viewer->participants[p];
    if (missing < 0)
        return SP_OK;
    if (!operand->is_cut)
        return conflict_missing(viewer, index, missing);
    for (uint32_t i = 0; i < viewer->rule->input_count; i++) {
        uint8_t factor = i != index && is_heard(&viewer->operands[i]) ? shared_factor(viewer, index, i) : SP_NO_FACTOR;
        if (factor == SP_NO_FACTOR || !sp_cut_equal(&operand->cuts[factor], &viewer->operands[i].cuts[factor]))
            continue;
        if (have_common_device(operand, &viewer->operands[i]))
            return conflict_missing(viewer, index, missing);
        return i > index ? conflict_disjoint(viewer, factor, index, i) : SP_OK;
    }
    return SP_OK; /* the intersection of the devices is what counts */
}

/* Inputs that are whole where another is cut could be sliced, if their own cuts left a device for each part; they do
   not, so the two are cut differently: one conflict for each pair. */
static void harden_wholes(struct sp_view *view)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < view->conflict_count; i++) {
        struct sp_conflict conflict = view->conflicts[i];
        bool is_told = false;
        for (uint32_t k = 0; k < kept && conflict.kind == SP_CONFLICT_WHOLE; k++)
            is_told =
                is_told ||
                (view->conflicts[k].kind == SP_CONFLICT_SPLIT &&
                 ((view->conflicts[k].operand == conflict.other && view->conflicts[k].other == conflict.operand) ||
                  (view->conflicts[k].operand == conflict.operand && view->conflicts[k].other == conflict.other)));
        if (conflict.kind == SP_CONFLICT_WHOLE)
            conflict.kind = SP_CONFLICT_SPLIT;
        if (!is_told)
            view->conflicts[kept++] = conflict;
    }
    view->conflict_count = kept;
}

enum sp_status sp_viewer_place(struct sp_viewer *viewer)
{
    bool is_all = false;
    enum sp_status status = find_participants(viewer);
    if (status == SP_OK)
        status = take_coordinates(viewer);
    for (uint32_t i = 0; i < viewer->rule->input_count && status == SP_OK; i++)
        if (is_heard(&viewer->operands[i]))
            status = check_missing(viewer, i);
    if (status != SP_OK)
        return status;
    bool is_anyone = viewer->participant_count > 0;
    keep_complete(viewer);
    status = is_covered(viewer, &is_all);
    if (status == SP_OK && is_anyone && (!is_all || viewer->participant_count == 0)) {
        viewer->is_broken = true;
        if (viewer->view->conflict_count == 0)
            status = conflict_coverage(viewer);
        harden_wholes(viewer->view);
    }
    viewer->view->participant_count = viewer->participant_count;
    viewer->view->participants = viewer->participants;
    viewer->view->coordinates = viewer->coordinates;
    return status;
}
