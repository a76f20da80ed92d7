#include "plan/replan/fleet.h"

#include <math.h>
#include <string.h>

bool sp_fleet_pair(const struct sp_fleet *fleet, uint32_t seat, uint32_t holder)
{
    const struct sp_device *now = sp_cluster_device(fleet->now, seat),
                           *before = sp_cluster_device(fleet->before, holder);
    if (!fleet->is_known)
        return strcmp(now->name, before->name) == 0;
    return (fleet->now->group_of[seat] == fleet->now->group_of[holder] || strcmp(now->name, before->name) == 0) &&
           sp_cluster_memory(fleet->now, seat) == sp_cluster_memory(fleet->now, holder);
}

/* Whether the tree of links counts. */
static bool has_tree(const struct sp_fleet *fleet)
{
    return fleet->now->level_count == fleet->before->level_count;
}

bool sp_fleet_allows(const struct sp_fleet *fleet, const uint32_t *holder_of)
{
    const struct sp_links now = sp_cluster_links(fleet->now), before = sp_cluster_links(fleet->before);
    for (uint32_t a = 0; a < fleet->now->device_count; a++) {
        if (holder_of[a] == SP_NO_HOLDER) {
            if (fleet->is_known)
                return false;
            continue;
        }
        if (!sp_fleet_pair(fleet, a, holder_of[a]))
            return false;
        for (uint32_t b = 0; b < a; b++) {
            if (holder_of[b] == SP_NO_HOLDER)
                continue;
            if (holder_of[a] == holder_of[b])
                return false;
            if (has_tree(fleet) &&
                sp_links_between(&now, a, b) != sp_links_between(&before, holder_of[a], holder_of[b]))
                return false;
        }
    }
    return true;
}

/* ---- one assignment --------------------------------------------------------------------------------------------- */

/*
 * The Hungarian method by shortest augmenting paths (Jonker, Volgenant): rows are given columns at the least total
 * cost. columns >= rows. Arrays are 1-based, with room for `columns` + 1.
 */
struct assignment {
    uint32_t rows, columns;
    const double *cost; /* [row * columns + column] */
    double *u, *v, *least;
    uint32_t *row_of, *way;
    bool *done;
};

static void augment(struct assignment *a, uint32_t row)
{
    uint32_t column = 0;
    a->row_of[0] = row;
    for (uint32_t j = 0; j <= a->columns; j++) {
        a->least[j] = INFINITY;
        a->done[j] = false;
    }
    do {
        const uint32_t i = a->row_of[column];
        double delta = INFINITY;
        uint32_t next = 0;
        a->done[column] = true;
        for (uint32_t j = 1; j <= a->columns; j++) {
            if (a->done[j])
                continue;
            const double reduced = a->cost[(size_t)(i - 1) * a->columns + j - 1] - a->u[i] - a->v[j];
            if (reduced < a->least[j]) {
                a->least[j] = reduced;
                a->way[j] = column;
            }
            if (a->least[j] < delta) {
                delta = a->least[j];
                next = j;
            }
        }
        for (uint32_t j = 0; j <= a->columns; j++) {
            if (a->done[j]) {
                a->u[a->row_of[j]] += delta;
                a->v[j] -= delta;
            } else {
                a->least[j] -= delta;
            }
        }
        column = next;
    } while (a->row_of[column] != 0);
    do {
        const uint32_t before = a->way[column];
        a->row_of[column] = a->row_of[before];
        column = before;
    } while (column != 0);
}

static bool make_assignment(struct sp_arena *arena, uint32_t rows, uint32_t columns, struct assignment *a)
{
    const size_t room = (size_t)columns + 1;
    *a = (struct assignment){.rows = rows,
                             .columns = columns,
                             .u = SP_NEW_ARRAY(arena, room, double),
                             .v = SP_NEW_ARRAY(arena, room, double),
                             .least = SP_NEW_ARRAY(arena, room, double),
                             .row_of = SP_NEW_ARRAY(arena, room, uint32_t),
                             .way = SP_NEW_ARRAY(arena, room, uint32_t),
                             .done = SP_NEW_ARRAY(arena, room, bool)};
    return a->u != NULL && a->v != NULL && a->least != NULL && a->row_of != NULL && a->way != NULL && a->done != NULL;
}

/* ---- the tree --------------------------------------------------------------------------------------------------- */

/* One level of both trees. */
struct level {
    uint64_t inner[2]; /* devices of a child */
    uint32_t size[2];  /* children of a part, at most */
    uint32_t parts[2]; /* parts of this level */
    double *value;     /* [part now * parts before + part before]: what it keeps at most; below 0: it cannot be */
    uint32_t *child;   /* [.. * size now + child]: which child of the other part */
};

struct tree {
    const struct sp_fleet *fleet;
    const double *keep;
    double forbidden; /* more than all bytes */
    uint32_t *at[2];  /* per side and place of the mesh: the device there, or SP_NO_HOLDER */
    uint32_t places[2];
    uint32_t level_count;
    struct level *levels;
};

static uint32_t place_of(const struct tree *tree, const struct sp_cluster *cluster, uint32_t device)
{
    return has_tree(tree->fleet) && cluster->place != NULL ? cluster->place[device] : device;
}

/* Which device is at which place; some places of a mesh may be empty. */
static bool find_places(struct sp_arena *scratch, struct tree *tree)
{
    const struct sp_cluster *clusters[2] = {tree->fleet->now, tree->fleet->before};
    for (uint32_t side = 0; side < 2; side++) {
        const uint32_t count = clusters[side]->device_count;
        tree->places[side] = place_of(tree, clusters[side], count - 1) + 1;
        tree->at[side] = SP_NEW_ARRAY(scratch, tree->places[side], uint32_t);
        if (tree->at[side] == NULL)
            return false;
        memset(tree->at[side], 0xff, tree->places[side] * sizeof *tree->at[side]);
        for (uint32_t d = 0; d < count; d++)
            tree->at[side][place_of(tree, clusters[side], d)] = d;
    }
    return true;
}

static uint32_t parts_of(uint64_t devices, uint64_t inner)
{
    return inner > 0 ? (uint32_t)((devices + inner - 1) / inner) : 0;
}

/* From the innermost level to the outermost; without a tree one level of all devices. */
static void list_levels(struct tree *tree)
{
    const struct sp_cluster *clusters[2] = {tree->fleet->now, tree->fleet->before};
    uint64_t inner[2] = {1, 1};
    tree->level_count = has_tree(tree->fleet) ? clusters[0]->level_count : 1;
    for (uint32_t l = 0; l < tree->level_count; l++) {
        struct level *level = &tree->levels[l];
        for (uint32_t side = 0; side < 2; side++) {
            const struct sp_cluster *cluster = clusters[side];
            const bool is_outermost = l + 1 == tree->level_count;
            level->inner[side] = inner[side];
            level->size[side] = is_outermost ? parts_of(tree->places[side], inner[side])
                                             : cluster->levels[cluster->level_count - 1 - l].size;
            inner[side] *= level->size[side];
            level->parts[side] = parts_of(tree->places[side], inner[side]);
        }
    }
}

/* Children of a part; the last one of a cluster that is cut may have fewer. */
static uint32_t children_of(const struct tree *tree, const struct level *level, uint32_t side, uint32_t part)
{
    const uint64_t first = (uint64_t)part * level->size[side];
    const uint64_t all = parts_of(tree->places[side], level->inner[side]);
    return (uint32_t)(all - first < level->size[side] ? all - first : level->size[side]);
}

/* What one child keeps of another; a little more where numbers stay, so that ties do. */
static double value_of(const struct tree *tree, uint32_t l, uint32_t now, uint32_t before)
{
    if (l > 0) {
        const struct level *below = &tree->levels[l - 1];
        return below->value[(size_t)now * below->parts[1] + before];
    }
    const uint32_t seat = tree->at[0][now], holder = tree->at[1][before];
    if (seat == SP_NO_HOLDER || holder == SP_NO_HOLDER) /* both are empty, and stay so */
        return tree->fleet->is_known && seat == holder ? 0 : -1;
    if (!sp_fleet_pair(tree->fleet, seat, holder))
        return -1;
    return tree->keep[(size_t)seat * tree->fleet->before->device_count + holder] +
           (seat == holder ? 0.5 / tree->fleet->now->device_count : 0);
}

/* The assignment of the children of two parts. Where the seats are known, every child has one, and parts are equal. */
static enum sp_status match_parts(struct sp_arena *arena, struct tree *tree, uint32_t l, const uint32_t parts[2],
                                  struct sp_error *err)
{
    struct level *level = &tree->levels[l];
    const size_t at = (size_t)parts[0] * level->parts[1] + parts[1];
    const uint32_t rows = children_of(tree, level, 0, parts[0]), others = children_of(tree, level, 1, parts[1]);
    const uint32_t columns = others + (tree->fleet->is_known ? 0 : rows); /* those behind are no one's */
    uint32_t *child = &level->child[at * level->size[0]];
    struct sp_arena_mark mark = sp_arena_mark(arena);
    struct assignment a;
    level->value[at] = tree->fleet->is_known && rows != others ? -1 : 0;
    if (level->value[at] < 0)
        return SP_OK;
    double *cost = SP_NEW_ARRAY(arena, (size_t)rows * columns, double);
    if (cost == NULL || !make_assignment(arena, rows, columns, &a))
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t j = 0; j < others; j++) {
            const double value = value_of(tree, l, parts[0] * level->size[0] + i, parts[1] * level->size[1] + j);
            cost[(size_t)i * columns + j] = value < 0 ? tree->forbidden : -value;
        }
    }
    a.cost = cost;
    for (uint32_t i = 1; i <= rows && rows <= SP_FLEET_MATCHED && columns <= 2 * SP_FLEET_MATCHED; i++)
        augment(&a, i);
    for (uint32_t j = 1; j <= columns && rows > 0 && (rows > SP_FLEET_MATCHED || columns > 2 * SP_FLEET_MATCHED); j++)
        a.row_of[j] = j <= rows ? j : 0;
    for (uint32_t i = 0; i < rows; i++)
        child[i] = SP_NO_HOLDER;
    for (uint32_t j = 1; j <= others; j++) {
        if (a.row_of[j] == 0)
            continue;
        const double paid = cost[(size_t)(a.row_of[j] - 1) * columns + j - 1];
        if (paid < tree->forbidden) {
            child[a.row_of[j] - 1] = j - 1;
            level->value[at] -= paid;
        } else if (tree->fleet->is_known) {
            level->value[at] = -1;
            break;
        }
    }
    sp_arena_rewind(arena, mark);
    return SP_OK;
}

static enum sp_status match_level(struct sp_arena *arena, struct tree *tree, uint32_t l, struct sp_error *err)
{
    struct level *level = &tree->levels[l];
    const size_t pairs = (size_t)level->parts[0] * level->parts[1];
    enum sp_status status = SP_OK;
    level->value = SP_NEW_ARRAY(arena, pairs, double);
    level->child = SP_NEW_ARRAY(arena, pairs * level->size[0], uint32_t);
    if (level->value == NULL || level->child == NULL)
        return sp_fail_memory(err);
    for (uint32_t now = 0; status == SP_OK && now < level->parts[0]; now++) {
        for (uint32_t before = 0; status == SP_OK && before < level->parts[1]; before++)
            status = match_parts(arena, tree, l, (const uint32_t[2]){now, before}, err);
    }
    return status;
}

enum sp_status sp_fleet_match(struct sp_arena *scratch, const struct sp_fleet *fleet, const double *keep,
                              uint32_t *ret_holder_of, struct sp_error *err)
{
    const uint32_t seats = fleet->now->device_count, holders = fleet->before->device_count;
    struct sp_arena_mark mark = sp_arena_mark(scratch);
    struct tree tree = {.fleet = fleet, .keep = keep, .forbidden = 1};
    for (size_t i = 0; i < (size_t)seats * holders; i++)
        tree.forbidden += keep[i];
    tree.levels = SP_NEW_ARRAY(scratch, fleet->now->level_count, struct level);
    if (tree.levels == NULL || !find_places(scratch, &tree))
        return sp_fail_memory(err);
    list_levels(&tree);
    enum sp_status status = SP_OK;
    for (uint32_t l = 0; status == SP_OK && l < tree.level_count; l++)
        status = match_level(scratch, &tree, l, err);
    for (uint32_t seat = 0; status == SP_OK && seat < seats; seat++) {
        uint32_t before = 0; /* the part of the level at hand, from the outermost */
        for (uint32_t l = tree.level_count; l-- > 0 && before != SP_NO_HOLDER;) {
            const struct level *level = &tree.levels[l];
            const uint32_t now = (uint32_t)(place_of(&tree, fleet->now, seat) / level->inner[0]),
                           part = now / level->size[0];
            const uint32_t child =
                level->child[((size_t)part * level->parts[1] + before) * level->size[0] + now % level->size[0]];
            before = child == SP_NO_HOLDER ? SP_NO_HOLDER : before * level->size[1] + child;
        }
        ret_holder_of[seat] = before == SP_NO_HOLDER ? SP_NO_HOLDER : tree.at[1][before];
    }
    sp_arena_rewind(scratch, mark);
    return status;
}
