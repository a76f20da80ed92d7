#include "base/components.h"

struct walk {
    const struct sp_rows *after;
    uint32_t *number, *low, *component; /* number 0: not seen */
    uint32_t *path, *next;              /* items under way, and how far each has looked */
    uint32_t *open;                     /* seen, and without component */
    uint32_t path_count, open_count, seen, components;
};

static void enter(struct walk *walk, uint32_t item)
{
    walk->number[item] = walk->low[item] = ++walk->seen;
    walk->next[item] = walk->after->start[item];
    walk->path[walk->path_count++] = item;
    walk->open[walk->open_count++] = item;
}

static void leave(struct walk *walk, uint32_t item)
{
    walk->path_count--;
    if (walk->low[item] == walk->number[item]) {
        uint32_t member;
        do {
            member = walk->open[--walk->open_count];
            walk->component[member] = walk->components;
        } while (member != item);
        walk->components++;
    }
    if (walk->path_count > 0) {
        uint32_t above = walk->path[walk->path_count - 1];
        if (walk->low[item] < walk->low[above])
            walk->low[above] = walk->low[item];
    }
}

bool sp_components(struct sp_arena *scratch, const struct sp_rows *after, uint32_t count, uint32_t *component,
                   uint32_t *ret_count)
{
    struct walk walk = {.after = after, .component = component};
    walk.number = SP_NEW_ARRAY(scratch, count, uint32_t);
    walk.low = SP_NEW_ARRAY(scratch, count, uint32_t);
    walk.path = SP_NEW_ARRAY(scratch, count, uint32_t);
    walk.next = SP_NEW_ARRAY(scratch, count, uint32_t);
    walk.open = SP_NEW_ARRAY(scratch, count, uint32_t);
    if (walk.number == NULL || walk.low == NULL || walk.path == NULL || walk.next == NULL || walk.open == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++)
        component[i] = UINT32_MAX;
    for (uint32_t root = 0; root < count; root++) {
        if (walk.number[root] != 0)
            continue;
        enter(&walk, root);
        while (walk.path_count > 0) {
            uint32_t item = walk.path[walk.path_count - 1];
            if (walk.next[item] == after->start[item + 1]) {
                leave(&walk, item);
                continue;
            }
            uint32_t other = after->items[walk.next[item]++];
            if (walk.number[other] == 0)
                enter(&walk, other);
            else if (component[other] == UINT32_MAX && walk.number[other] < walk.low[item])
                walk.low[item] = walk.number[other];
        }
    }
    *ret_count = walk.components;
    return true;
}
