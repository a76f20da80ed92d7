/* Units and links as flat arrays, and the same with units joined. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"
#include "solvers/stages/assign.h"

static struct sp_assign_model *allocate(struct sp_arena *arena, const struct sp_stages_problem *problem, uint32_t units,
                                        uint32_t links)
{
    struct sp_assign_model *model = SP_NEW(arena, struct sp_assign_model);
    if (model == NULL)
        return NULL;
    model->problem = problem;
    model->unit_count = units;
    model->link_count = links;
    model->producer = SP_NEW_ARRAY(arena, links, uint32_t);
    model->tensors = SP_NEW_ARRAY(arena, links, double);
    model->bytes = SP_NEW_ARRAY(arena, links, double);
    model->weight = SP_NEW_ARRAY(arena, problem->option_count, double *);
    model->held = SP_NEW_ARRAY(arena, problem->option_count, double *);
    model->seconds = SP_NEW_ARRAY(arena, problem->option_count, double *);
    model->transfer = SP_NEW_ARRAY(arena, problem->option_count, double *);
    bool is_complete = model->producer != NULL && model->tensors != NULL && model->bytes != NULL &&
                       model->weight != NULL && model->held != NULL && model->seconds != NULL &&
                       model->transfer != NULL;
    for (uint32_t o = 0; is_complete && o < problem->option_count; o++) {
        model->seconds[o] = SP_NEW_ARRAY(arena, units, double);
        model->transfer[o] = SP_NEW_ARRAY(arena, links, double);
        model->weight[o] = SP_NEW_ARRAY(arena, units, double);
        model->held[o] = SP_NEW_ARRAY(arena, units, double);
        is_complete = model->seconds[o] != NULL && model->transfer[o] != NULL && model->weight[o] != NULL &&
                      model->held[o] != NULL;
    }
    return is_complete ? model : NULL;
}

/* What follows from the units' and links' figures. */
static void sum_up(struct sp_assign_model *model)
{
    const struct sp_stages_problem *problem = model->problem;
    for (uint32_t o = 0; o < problem->option_count; o++)
        for (uint32_t l = 0; l < model->link_count && !sp_assign_is_free(problem, o); l++)
            model->transfer[o][l] = problem->options[o].transfer_fixed * model->tensors[l] +
                                    problem->options[o].transfer_per_byte * model->bytes[l];
}

enum sp_status sp_assign_model_create(struct sp_arena *arena, const struct sp_stages_prepared *prepared,
                                      struct sp_assign_model **ret_model, struct sp_error *err)
{
    const struct sp_stages_problem *problem = prepared->problem;
    struct sp_assign_model *model = allocate(arena, problem, prepared->unit_count, prepared->link_count);
    if (model == NULL)
        return sp_fail_memory(err);
    for (uint32_t l = 0; l < prepared->link_count; l++) {
        model->producer[l] = prepared->links[l].producer;
        model->bytes[l] = prepared->links[l].bytes;
        model->tensors[l] = 1;
    }
    for (uint32_t u = 0; u < prepared->unit_count; u++) {
        for (uint32_t o = 0; o < problem->option_count; o++) {
            model->seconds[o][u] = prepared->seconds[o][u];
            model->weight[o][u] = prepared->weight_bytes[o][u];
            model->held[o][u] = prepared->held_bytes[o][u];
        }
    }
    model->nodes = problem->memory != NULL ? &prepared->nodes : NULL;
    model->makes = prepared->makes;
    model->takes = prepared->takes;
    model->users = prepared->users;
    model->shared = prepared->shared;
    model->shared_count = problem->weight_count;
    model->shared_bytes = SP_NEW_ARRAY(arena, problem->weight_count, double);
    if (model->shared_bytes == NULL)
        return sp_fail_memory(err);
    /* those of one unit are in its weight already */
    for (uint32_t u = 0; u < prepared->unit_count; u++)
        for (uint32_t i = prepared->shared.start[u]; i < prepared->shared.start[u + 1]; i++)
            model->shared_bytes[prepared->shared.items[i]] = problem->weights[prepared->shared.items[i]].bytes;
    sum_up(model);
    *ret_model = model;
    return SP_OK;
}

SP_ASCENDING_NUMBERS(compare_numbers, uint32_t)

/* The links that stay, with the joined users, sorted; equal ones of a producer become one. */
struct joined_links {
    uint32_t count;
    uint32_t *producer, *start, *users;
    double *tensors, *bytes;
};

static bool same_users(const struct joined_links *links, uint32_t a, uint32_t b)
{
    uint32_t count = links->start[a + 1] - links->start[a];
    return count == links->start[b + 1] - links->start[b] &&
           memcmp(&links->users[links->start[a]], &links->users[links->start[b]], count * sizeof(uint32_t)) == 0;
}

/* Appends link `l` of `fine`, unless it is within its unit or joins one of those from `first` on. */
static void join_link(const struct sp_assign_model *fine, const uint32_t *map, uint32_t l, uint32_t first,
                      struct joined_links *links)
{
    uint32_t producer = map[fine->producer[l]], begin = links->start[links->count], end = begin;
    for (uint32_t i = fine->users.start[l]; i < fine->users.start[l + 1]; i++)
        if (map[fine->users.items[i]] != producer)
            links->users[end++] = map[fine->users.items[i]];
    if (end == begin)
        return;
    qsort(&links->users[begin], end - begin, sizeof(uint32_t), compare_numbers);
    uint32_t kept = begin + 1;
    for (uint32_t i = begin + 1; i < end; i++)
        if (links->users[i] != links->users[kept - 1])
            links->users[kept++] = links->users[i];
    uint32_t added = links->count;
    links->start[added + 1] = kept;
    for (uint32_t other = first; other < added; other++)
        if (same_users(links, other, added)) {
            links->tensors[other] += fine->tensors[l];
            links->bytes[other] += fine->bytes[l];
            return;
        }
    links->producer[added] = producer;
    links->tensors[added] = fine->tensors[l];
    links->bytes[added] = fine->bytes[l];
    links->count++;
}

/* Beyond so many links of one producer, equal ones are not looked for. */
#define COMPARED_LINKS 64

static bool join_links(struct sp_arena *arena, const struct sp_assign_model *fine, const uint32_t *map,
                       const struct sp_rows *members, uint32_t unit_count, struct joined_links *links)
{
    uint32_t all = fine->users.start[fine->link_count];
    links->producer = SP_NEW_ARRAY(arena, fine->link_count, uint32_t);
    links->start = SP_NEW_ARRAY(arena, (size_t)fine->link_count + 2, uint32_t);
    links->users = SP_NEW_ARRAY(arena, all, uint32_t);
    links->tensors = SP_NEW_ARRAY(arena, fine->link_count, double);
    links->bytes = SP_NEW_ARRAY(arena, fine->link_count, double);
    if (links->producer == NULL || links->start == NULL || links->users == NULL || links->tensors == NULL ||
        links->bytes == NULL)
        return false;
    for (uint32_t c = 0; c < unit_count; c++) {
        uint32_t first = links->count;
        for (uint32_t m = members->start[c]; m < members->start[c + 1]; m++) {
            uint32_t u = members->items[m];
            for (uint32_t i = fine->makes.start[u]; i < fine->makes.start[u + 1]; i++)
                join_link(fine, map, fine->makes.items[i],
                          links->count - first > COMPARED_LINKS ? links->count - COMPARED_LINKS : first, links);
        }
    }
    return true;
}

/* The lists makes, takes and users of the joined links. */
static bool list_links(struct sp_arena *arena, const struct joined_links *links, struct sp_assign_model *model)
{
    const uint32_t units = model->unit_count, uses = links->start[links->count];
    model->users.start = links->start;
    model->users.items = links->users;
    if (!sp_rows_sort(arena, links->producer, links->count, units, &model->makes) ||
        !sp_rows_begin(arena, units, &model->takes))
        return false;
    for (uint32_t i = 0; i < uses; i++)
        sp_rows_count(&model->takes, links->users[i]);
    if (!sp_rows_end_count(arena, units, &model->takes))
        return false;
    for (uint32_t l = 0; l < links->count; l++) {
        for (uint32_t i = links->start[l]; i < links->start[l + 1]; i++)
            sp_rows_put(&model->takes, links->users[i], l);
    }
    return true;
}

/* A weight is still shared where its users are in several joined units; else it is the one unit's own. */
static bool join_shared(struct sp_arena *arena, const struct sp_assign_model *fine, const struct sp_rows *members,
                        struct sp_assign_model *model)
{
    uint32_t units = model->unit_count;
    model->shared_count = fine->shared_count;
    model->shared_bytes = fine->shared_bytes;
    model->shared.start = SP_NEW_ARRAY(arena, (size_t)units + 1, uint32_t);
    model->shared.items = SP_NEW_ARRAY(arena, fine->shared.start[fine->unit_count], uint32_t);
    uint32_t *seen = SP_NEW_ARRAY(arena, fine->shared_count, uint32_t); /* joined unit + 1 */
    if (model->shared.start == NULL || model->shared.items == NULL || seen == NULL)
        return false;
    uint32_t count = 0;
    for (uint32_t c = 0; c < units; c++) {
        for (uint32_t m = members->start[c]; m < members->start[c + 1]; m++) {
            uint32_t u = members->items[m];
            for (uint32_t i = fine->shared.start[u]; i < fine->shared.start[u + 1]; i++)
                if (seen[fine->shared.items[i]] != c + 1) {
                    seen[fine->shared.items[i]] = c + 1;
                    model->shared.items[count++] = fine->shared.items[i];
                }
        }
        model->shared.start[c + 1] = count;
    }
    return true;
}

enum sp_status sp_assign_model_contract(struct sp_arena *arena, const struct sp_assign_model *fine, const uint32_t *map,
                                        uint32_t unit_count, struct sp_assign_model **ret_model, struct sp_error *err)
{
    struct joined_links links = {0};
    struct sp_rows members;
    if (!sp_rows_sort(arena, map, fine->unit_count, unit_count, &members) ||
        !join_links(arena, fine, map, &members, unit_count, &links))
        return sp_fail_memory(err);
    struct sp_assign_model *model = allocate(arena, fine->problem, unit_count, links.count);
    uint32_t *unit_of = SP_NEW_ARRAY(arena, fine->unit_count, uint32_t);
    if (model == NULL || unit_of == NULL || !list_links(arena, &links, model) ||
        !join_shared(arena, fine, &members, model))
        return sp_fail_memory(err);
    memcpy(unit_of, map, fine->unit_count * sizeof *map);
    model->unit_of = unit_of;
    memcpy(model->producer, links.producer, links.count * sizeof *links.producer);
    memcpy(model->tensors, links.tensors, links.count * sizeof *links.tensors);
    memcpy(model->bytes, links.bytes, links.count * sizeof *links.bytes);
    for (uint32_t u = 0; u < fine->unit_count; u++) {
        uint32_t c = map[u];
        for (uint32_t o = 0; o < fine->problem->option_count; o++) {
            model->seconds[o][c] += fine->seconds[o][u];
            model->weight[o][c] += fine->weight[o][u];
            model->held[o][c] = fmax(model->held[o][c], fine->held[o][u]);
        }
    }
    sum_up(model);
    *ret_model = model;
    return SP_OK;
}
