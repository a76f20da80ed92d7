#include "search/joint/mesh_variants.h"

#define FAR_SLOWER 2     /* than the best block: is not looked at */
#define GAIN       0.999 /* of the time on the block's own mesh */

/* The second profile of an option is the one within a limit. */
static bool is_second(const struct sp_model_choice *const *profiles, uint32_t i)
{
    return i > 0 && profiles[i - 1]->option == profiles[i]->option;
}

/* The best ones of a class by time, ascending. */
static uint32_t rank_class(uint32_t class_index, uint32_t profile_count, const struct sp_model_choice *const *profiles,
                           const struct sp_model_choice *ret_best[SP_MESH_VARIANTS_BLOCKS])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < profile_count; i++) {
        uint32_t cuts[SP_SPACE_CUTS], at = count;
        const double seconds = profiles[i]->total_seconds;
        if (profiles[i]->option->class_index != class_index || is_second(profiles, i) ||
            sp_space_cuts(profiles[i]->option, cuts) == 0)
            continue;
        if (count == SP_MESH_VARIANTS_BLOCKS && seconds >= ret_best[count - 1]->total_seconds)
            continue;
        if (count == SP_MESH_VARIANTS_BLOCKS)
            at--;
        else
            count++;
        for (; at > 0 && seconds < ret_best[at - 1]->total_seconds; at--)
            ret_best[at] = ret_best[at - 1];
        ret_best[at] = profiles[i];
    }
    return count;
}

uint32_t sp_mesh_variants_blocks(const struct sp_joint *joint, uint32_t profile_count,
                                 const struct sp_model_choice *const *profiles,
                                 const struct sp_space_option *ret_options[SP_MESH_VARIANTS_MOST])
{
    uint32_t count = 0;
    for (uint32_t c = 0; c < joint->space->class_count; c++) {
        const struct sp_model_choice *best[SP_MESH_VARIANTS_BLOCKS];
        const uint32_t best_count = rank_class(c, profile_count, profiles, best);
        for (uint32_t i = 0; i < best_count && count < SP_MESH_VARIANTS_MOST; i++) {
            if (best[i]->total_seconds <= FAR_SLOWER * best[0]->total_seconds)
                ret_options[count++] = best[i]->option;
        }
    }
    return count;
}

static double held(const struct sp_model_choice *profile)
{
    return profile->total_weight_bytes + profile->peak_bytes;
}

bool sp_mesh_variants_gains(uint32_t first, uint32_t next, const struct sp_model_choice *const *profiles)
{
    const struct sp_space_option *option = profiles[first]->option;
    const struct sp_model_choice *limited = profiles[next - 1];
    uint32_t own = 0;
    if (!option->is_further) /* shares of unequal devices are no further meshes either */
        return true;
    while (profiles[own]->option->class_index != option->class_index || profiles[own]->option->size != option->size)
        own++;
    if (profiles[first]->total_seconds < GAIN * profiles[own]->total_seconds)
        return true;
    /* Within the limit. Where the block's own mesh has no second profile, its first is within it, or nothing is. */
    if (is_second(profiles, own + 1))
        return limited->total_seconds < GAIN * profiles[own + 1]->total_seconds;
    return held(limited) < held(profiles[own]);
}
