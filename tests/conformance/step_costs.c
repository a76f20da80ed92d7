#include "step_costs.h"

#include <math.h>
#include <string.h>

static int64_t digit_of(const struct sp_mesh *mesh, struct sp_axis_ref ref, int64_t position)
{
    int64_t stride = mesh->axes[ref.axis].size / (ref.pre * ref.size);
    for (uint32_t i = ref.axis + 1; i < mesh->axis_count; i++)
        stride *= mesh->axes[i].size;
    return position / stride % ref.size;
}

/* What is left of a position without these axes' digits: the same for all members of a group. */
static int64_t group_of(const struct sp_mesh *mesh, const struct sp_axis_list *axes, int64_t position)
{
    for (uint32_t i = 0; i < axes->count; i++) {
        struct sp_axis_ref ref = axes->refs[i];
        int64_t stride = mesh->axes[ref.axis].size / (ref.pre * ref.size);
        for (uint32_t j = ref.axis + 1; j < mesh->axis_count; j++)
            stride *= mesh->axes[j].size;
        position -= digit_of(mesh, ref, position) * stride;
    }
    return position;
}

/* The span of the group whose member 0 stands at `base`. Level sizes up to 256. */
static void span_of(const struct sp_links *links, const struct sp_mesh *mesh, const struct sp_axis_list *axes,
                    int64_t base, uint32_t *span)
{
    bool seen[SP_MAX_MESH_AXES][256] = {{false}};
    uint32_t size = 0, product = 1, outermost = links->level_count - 1;
    int64_t first = -1;
    for (int64_t p = 0; p < mesh->order.count; p++) {
        if (group_of(mesh, axes, p) != base)
            continue;
        int64_t device = sp_device_order_at(&mesh->order, p), rest = device;
        first = size == 0 ? device : first;
        size++;
        if (sp_links_between(links, first, device) < outermost)
            outermost = sp_links_between(links, first, device);
        for (uint32_t l = links->level_count; l-- > 0;) {
            span[l] += !seen[l][rest % links->levels[l].size];
            seen[l][rest % links->levels[l].size] = true;
            rest /= links->levels[l].size;
        }
    }
    for (uint32_t l = 0; l < links->level_count; l++)
        product *= span[l];
    for (uint32_t l = 0; product != size && l < links->level_count; l++)
        span[l] = l == outermost ? size : 1;
}

uint32_t step_spans(const struct sp_links *links, const struct sp_mesh *mesh, const struct sp_axis_list *axes,
                    uint32_t spans[STEP_COSTS_MAX_SPANS][SP_MAX_MESH_AXES])
{
    uint32_t count = 0;
    for (int64_t p = 0; p < mesh->order.count; p++) {
        uint32_t span[SP_MAX_MESH_AXES] = {0}, known = 0;
        if (group_of(mesh, axes, p) != p)
            continue;
        span_of(links, mesh, axes, p, span);
        while (known < count && memcmp(spans[known], span, sizeof(span)) != 0)
            known++;
        if (known == count && count < STEP_COSTS_MAX_SPANS)
            memcpy(spans[count++], span, sizeof(span));
    }
    return count;
}

double step_seconds(const struct sp_links *links, const struct sp_mesh *mesh, const struct sp_axis_list *axes,
                    enum sp_collective kind, double bytes)
{
    uint32_t spans[STEP_COSTS_MAX_SPANS][SP_MAX_MESH_AXES], count = step_spans(links, mesh, axes, spans);
    double worst = 0;
    for (uint32_t i = 0; i < count; i++)
        worst = fmax(worst, sp_collective_seconds(links, kind, spans[i], bytes));
    return worst;
}
