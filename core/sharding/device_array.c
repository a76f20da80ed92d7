#include <string.h>

#include "sharding/internal.h"

/*
 * A mesh is cut at every border of a ref, so that each ref is a run of atoms. Atoms of size 1 are left out; what
 * remains multiplies to a number of devices, so there are fewer than 64.
 */
#define MAX_ATOMS 64

struct atoms {
    uint32_t count;
    struct sp_axis_ref refs[MAX_ATOMS]; /* in mesh order */
    bool is_used[MAX_ATOMS];
    int64_t perm[MAX_ATOMS]; /* atoms in order of use */
    uint32_t used;
};

/* The borders inside one axis: 1, the ends of refs, the size; each divides the next. */
static void cut_axis(const struct sp_sharding *sharding, uint32_t axis, struct atoms *atoms)
{
    int64_t size = sharding->mesh->axes[axis].size, border = 1;
    while (border < size) {
        int64_t next = size;
        for (uint32_t i = 0; i < sp_sharding_list_count(sharding); i++) {
            const struct sp_axis_list *list = sp_sharding_list(sharding, i);
            for (uint32_t j = 0; j < list->count; j++) {
                struct sp_axis_ref ref = list->refs[j];
                if (ref.axis != axis)
                    continue;
                if (ref.pre > border && ref.pre < next)
                    next = ref.pre;
                if (ref.pre * ref.size > border && ref.pre * ref.size < next)
                    next = ref.pre * ref.size;
            }
        }
        atoms->refs[atoms->count++] = (struct sp_axis_ref){.axis = axis, .pre = border, .size = next / border};
        border = next;
    }
}

/* Uses the atoms of a list; returns the product of their sizes. */
static int64_t use_list(const struct sp_axis_list *list, struct atoms *atoms)
{
    int64_t product = 1;
    for (uint32_t i = 0; i < list->count; i++)
        for (uint32_t j = 0; j < atoms->count; j++)
            if (!atoms->is_used[j] && sp_axis_overlaps(list->refs[i], atoms->refs[j])) {
                atoms->is_used[j] = true;
                atoms->perm[atoms->used++] = j;
                product *= atoms->refs[j].size;
            }
    return product;
}

enum sp_status sp_sharding_device_array(struct sp_arena *arena, const struct sp_sharding *sharding, int64_t *ret_dims,
                                        struct sp_device_order *ret_order, struct sp_error *err)
{
    const struct sp_mesh *mesh = sharding->mesh;
    struct atoms atoms = {0};
    int64_t dims[SP_MAX_RANK + 3], sizes[MAX_ATOMS];
    struct sp_device_order positions;
    for (uint32_t axis = 0; axis < mesh->axis_count; axis++)
        cut_axis(sharding, axis, &atoms);
    for (uint32_t i = 0; i < sharding->rank; i++)
        dims[i] = use_list(&sharding->dims[i].axes, &atoms);
    dims[sharding->rank] = use_list(&sharding->manual, &atoms);
    dims[sharding->rank + 1] = use_list(&sharding->partial, &atoms);
    dims[sharding->rank + 2] = 1;
    for (uint32_t i = 0; i < atoms.count; i++) {
        sizes[i] = atoms.refs[i].size;
        if (!atoms.is_used[i]) {
            atoms.perm[atoms.used++] = i;
            dims[sharding->rank + 2] *= sizes[i];
        }
    }
    if (atoms.count == 0) {
        *ret_order = mesh->order;
    } else {
        enum sp_status status = sp_device_order_iota(arena, atoms.count, sizes, atoms.perm, &positions, err);
        if (status == SP_OK)
            status = sp_device_order_compose(arena, &mesh->order, &positions, ret_order, err);
        if (status != SP_OK)
            return status;
    }
    memcpy(ret_dims, dims, (sharding->rank + 3) * sizeof *dims);
    return SP_OK;
}
