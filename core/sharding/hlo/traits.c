#include "sharding/hlo/hlo.h"
#include "sharding/transform_internal.h"

/* Whether the list names every device of the mesh: all axes of more than one. */
static bool is_all_of_mesh(const struct sp_sharding *named, const struct sp_axis_list *list)
{
    return list->count > 0 && sp_axes_size(list) == named->mesh->order.count;
}

struct sp_hlo_traits sp_hlo_named_traits(const struct sp_sharding *named)
{
    struct sp_hlo_traits traits = {.single_device = named->kind == SP_SHARDING_SINGLE,
                                   .replicated = named->kind == SP_SHARDING_REPLICATED,
                                   .manual = named->kind == SP_SHARDING_MANUAL,
                                   .unreduced = named->kind == SP_SHARDING_UNREDUCED};
    if (named->kind != SP_SHARDING_AXES)
        return traits;
    if (named->mesh->axis_count == 0 && named->mesh->order.count == 1) {
        traits.single_device = true;
        return traits;
    }
    traits.manual = is_all_of_mesh(named, &named->manual);
    traits.unreduced = is_all_of_mesh(named, &named->partial);
    int64_t used = 1;
    for (uint32_t i = 0; i < sp_sharding_list_count(named); i++)
        if (i != named->rank) /* explicitly replicated axes are replicated */
            used *= sp_axes_size(sp_sharding_list(named, i));
    traits.replicated = used == 1 && !traits.manual && !traits.unreduced;
    traits.partial_replication = used > 1 && used < named->mesh->order.count;
    return traits;
}

bool sp_hlo_named_equal(const struct sp_sharding *a, const struct sp_sharding *b)
{
    if (sp_hlo_named_traits(a).replicated || sp_hlo_named_traits(b).replicated)
        return sp_hlo_named_traits(a).replicated && sp_hlo_named_traits(b).replicated;
    if (a->kind != b->kind)
        return false;
    if (a->kind == SP_SHARDING_SINGLE)
        return a->device == b->device;
    if (a->kind != SP_SHARDING_AXES) /* all of a mesh is manual or unreduced */
        return a->combiner == b->combiner && (!a->mesh || !b->mesh || sp_mesh_equal(a->mesh, b->mesh, false));
    if (a->rank != b->rank || a->combiner != b->combiner || !sp_mesh_equal(a->mesh, b->mesh, false))
        return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->dims[i].is_open != b->dims[i].is_open || !sp_transform_same_list(&a->dims[i].axes, &b->dims[i].axes))
            return false;
    return sp_transform_same_list(&a->partial, &b->partial) && sp_transform_same_list(&a->manual, &b->manual);
}
