#include "search/grouping/grouping.h"

void sp_initial_division(uint32_t count, const double *bytes, uint32_t groups, uint32_t *ret_group)
{
    if (groups > count)
        groups = count;
    double left = 0, items = count; /* what is not in a closed group yet */
    for (uint32_t i = 0; i < count; i++)
        left += bytes[i];

    uint32_t group = 0;
    double running = 0, running_items = 0;
    for (uint32_t i = 0; i < count; i++) {
        ret_group[i] = group;
        running += bytes[i];
        running_items++;
        uint32_t later = groups - 1 - group;
        if (later == 0)
            continue;
        /* Where nothing weighs anything, items count alike. */
        bool full = left > 0 ? running * (later + 1) >= left : running_items * (later + 1) >= items;
        bool last_chance = count - 1 - i <= later;
        if (full || last_chance) {
            left -= running;
            items -= running_items;
            running = running_items = 0;
            group++;
        }
    }
}
