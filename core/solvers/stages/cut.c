/* Minimum cuts by Dinic's algorithm. */
#include "solvers/stages/cut.h"

#include <math.h>
#include <string.h>

#define NONE UINT32_MAX

struct sp_cut *sp_cut_create(struct sp_arena *arena, uint32_t vertex_room, uint32_t pair_room)
{
    struct sp_cut *cut = SP_NEW(arena, struct sp_cut);
    if (cut == NULL || pair_room > UINT32_MAX / 2 || vertex_room < 2)
        return NULL;
    cut->vertex_room = vertex_room;
    cut->arc_room = 2 * pair_room;
    cut->head = SP_NEW_ARRAY(arena, vertex_room, uint32_t);
    cut->level = SP_NEW_ARRAY(arena, vertex_room, uint32_t);
    cut->at = SP_NEW_ARRAY(arena, vertex_room, uint32_t);
    cut->path = SP_NEW_ARRAY(arena, vertex_room, uint32_t);
    cut->line = SP_NEW_ARRAY(arena, vertex_room, uint32_t);
    cut->next = SP_NEW_ARRAY(arena, cut->arc_room, uint32_t);
    cut->to = SP_NEW_ARRAY(arena, cut->arc_room, uint32_t);
    cut->capacity = SP_NEW_ARRAY(arena, cut->arc_room, double);
    cut->left = SP_NEW_ARRAY(arena, cut->arc_room, double);
    if (cut->head == NULL || cut->level == NULL || cut->at == NULL || cut->path == NULL || cut->line == NULL ||
        cut->next == NULL || cut->to == NULL || cut->capacity == NULL || cut->left == NULL)
        return NULL;
    sp_cut_vertex(cut);
    sp_cut_vertex(cut);
    return cut;
}

uint32_t sp_cut_vertex(struct sp_cut *cut)
{
    cut->head[cut->vertex_count] = NONE;
    return cut->vertex_count++;
}

static void add(struct sp_cut *cut, uint32_t from, uint32_t to, double capacity)
{
    uint32_t arc = cut->arc_count++;
    cut->to[arc] = to;
    cut->capacity[arc] = capacity;
    cut->next[arc] = cut->head[from];
    cut->head[from] = arc;
}

uint32_t sp_cut_arc(struct sp_cut *cut, uint32_t a, uint32_t b, double forth, double back)
{
    uint32_t arc = cut->arc_count;
    add(cut, a, b, forth);
    add(cut, b, a, back);
    return arc;
}

/* Levels by breadth from the source: false where the sink is out of reach. */
static bool find_levels(struct sp_cut *cut)
{
    memset(cut->level, 0xFF, cut->vertex_count * sizeof *cut->level);
    uint32_t count = 1;
    cut->level[SP_CUT_SOURCE] = 0;
    cut->line[0] = SP_CUT_SOURCE;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t arc = cut->head[cut->line[i]]; arc != NONE; arc = cut->next[arc]) {
            cut->work++;
            if (cut->left[arc] > 0 && cut->level[cut->to[arc]] == NONE) {
                cut->level[cut->to[arc]] = cut->level[cut->line[i]] + 1;
                cut->line[count++] = cut->to[arc];
            }
        }
    return cut->level[SP_CUT_SINK] != NONE;
}

/* Sends what the path takes, and returns how many of its arcs still lead on from the source. */
static uint32_t send(struct sp_cut *cut, uint32_t length, double *ret_sent)
{
    double least = INFINITY;
    uint32_t keeps = length;
    for (uint32_t i = 0; i < length; i++)
        least = fmin(least, cut->left[cut->path[i]]);
    for (uint32_t i = length; i-- > 0;) {
        uint32_t arc = cut->path[i];
        if (!(least < INFINITY))
            continue;
        cut->left[arc] -= least;
        cut->left[arc ^ 1] += least;
        if (!(cut->left[arc] > 0))
            keeps = i;
    }
    *ret_sent = least;
    return keeps;
}

/* Paths of rising levels until none is left, or `enough` is sent. */
static double block(struct sp_cut *cut, double sent, double enough)
{
    memcpy(cut->at, cut->head, cut->vertex_count * sizeof *cut->at);
    uint32_t vertex = SP_CUT_SOURCE, length = 0;
    while (sent < enough) {
        if (vertex == SP_CUT_SINK) {
            double more;
            length = send(cut, length, &more);
            sent += more;
            vertex = length > 0 ? cut->to[cut->path[length - 1]] : SP_CUT_SOURCE;
            continue;
        }
        uint32_t arc = cut->at[vertex];
        if (arc == NONE) {
            if (vertex == SP_CUT_SOURCE)
                break;
            vertex = cut->to[cut->path[--length] ^ 1];
            cut->at[vertex] = cut->next[cut->at[vertex]];
            continue;
        }
        cut->work++;
        if (cut->left[arc] > 0 && cut->level[cut->to[arc]] == cut->level[vertex] + 1) {
            cut->path[length++] = arc;
            vertex = cut->to[arc];
        } else {
            cut->at[vertex] = cut->next[arc];
        }
    }
    return sent;
}

double sp_cut_value(struct sp_cut *cut, double enough)
{
    double sent = 0;
    memcpy(cut->left, cut->capacity, cut->arc_count * sizeof *cut->left);
    while (sent < enough && find_levels(cut))
        sent = block(cut, sent, enough);
    return sent;
}
