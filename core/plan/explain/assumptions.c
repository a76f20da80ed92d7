#include "plan/explain/assumptions.h"

#include <string.h>

#include "plan/answer/readable_text.h"

#define SP_ASSUMED_BYTES   2048 /* of one sentence: names and sources are at most some hundred bytes each */
#define SP_ASSUMED_COLUMNS 100
#define SP_ASSUMED_INDENT  12
#define SP_SOURCE_COLUMNS  200 /* of a text about a device's figures that its owner gave */

/* Where what is told goes: a member of the plan's JSON, or paragraphs. */
struct telling {
    const struct sp_plan *plan;
    struct sp_json *json;    /* or NULL */
    struct sp_buf sentence;  /* the assumption that is being written */
    struct sp_buf paragraph; /* those of one device, in text */
};

/* The sentence is complete. */
static void tell(struct telling *telling, const char *device, const char *member)
{
    const char *text = telling->sentence.size > 0 ? telling->sentence.data : "";
    if (telling->json != NULL) {
        sp_json_begin_object(telling->json);
        sp_json_member_string(telling->json, "device", device);
        sp_json_member_string(telling->json, "text", text);
        sp_json_member_string(telling->json, "member", member);
        sp_json_end_object(telling->json);
    } else {
        sp_buf_printf(&telling->paragraph, "%s%s (%s)", telling->paragraph.size > 0 ? "; " : "", text, member);
    }
    sp_buf_clear(&telling->sentence);
}

static void add_share(struct sp_buf *text, double share)
{
    sp_buf_printf(text, "%.3g %%", 100 * share);
}

static void tell_runtime(struct telling *telling, const struct sp_device *device)
{
    struct sp_buf *text = &telling->sentence;
    sp_buf_printf(text, "%s%s runs the model", sp_device_runtime(device)->name,
                  device->names_runtime ? "" : ", the default,");
    if (sp_device_joins(device) == sp_runtime(SP_RUNTIME_GENERIC))
        sp_buf_text(text, ", each operator as a kernel of its own");
    if (sp_device_context_bytes(device) > 0) {
        sp_buf_text(text, " and takes ");
        sp_text_bytes(text, sp_device_context_bytes(device));
        sp_buf_text(text, " of each device's memory");
    }
    tell(telling, device->name, "runtime");
}

/* The element type of most of the model's FLOPs on a device. */
static enum sp_dtype main_type(const struct sp_workload *workload, const struct sp_device *device)
{
    double flops[SP_DTYPE_COUNT] = {0};
    int most = SP_DTYPE_FLOAT;
    for (uint32_t n = 0; n < workload->node_count; n++) {
        const struct sp_work_node *node = &workload->nodes[n];
        if (node->node != NULL && !node->folded)
            flops[sp_node_dtype(device, node->node)] += node->flops;
    }
    for (int dtype = 0; dtype < SP_DTYPE_COUNT; dtype++) {
        if (flops[dtype] > flops[most])
            most = dtype;
    }
    return (enum sp_dtype)most;
}

/* Figures of its own, of any type. */
static bool has_products(const struct sp_device *device)
{
    bool is_any = false;
    for (int dtype = 0; dtype < SP_DTYPE_COUNT; dtype++) {
        const struct sp_device_product *own = &device->products[dtype];
        is_any = is_any || own->start_seconds > 0 || own->flops_share > 0 || own->memory_share > 0;
    }
    return is_any;
}

static void tell_kernels(struct telling *telling, const struct sp_device *device)
{
    const struct sp_cluster *cluster = telling->plan->cluster;
    const enum sp_dtype dtype = main_type(telling->plan->workload, device);
    const struct sp_kernel_reach product = sp_roofline_reach(device, cluster, dtype, SP_KERNEL_PRODUCT);
    const struct sp_kernel_reach other = sp_roofline_reach(device, cluster, dtype, SP_KERNEL_OTHER);
    struct sp_buf *text = &telling->sentence;

    sp_buf_printf(text, "%s products reach ", sp_dtype_name(dtype));
    add_share(text, product.flops_share);
    sp_buf_text(text, " of peak and ");
    add_share(text, product.memory_share);
    sp_buf_text(text, " of memory bandwidth");
    if (cluster->efficiency > 0)
        sp_buf_text(text, ", as the cluster states");
    else if (device->products[dtype].flops_share <= 0 && has_products(device))
        sp_buf_text(text, ", as in the nearest type with figures");
    tell(telling, device->name, "efficiency");
    sp_buf_text(text, "a kernel takes ");
    sp_text_seconds(text, product.start_seconds);
    sp_buf_text(text, " to start");
    if (other.start_seconds != product.start_seconds) {
        sp_buf_text(text, ", ");
        sp_text_seconds(text, other.start_seconds);
        sp_buf_text(text, " where it is no product");
    }
    tell(telling, device->name, "launch_seconds");
}

static void tell_tf32(struct telling *telling, const struct sp_device *device)
{
    const bool is_stated = device->flops_tf32 > 0 && device->flops[SP_DTYPE_FLOAT] >= device->flops_tf32;
    const bool is_rounded = sp_device_rounds_products(device);
    if (device->kind != SP_DEVICE_GPU && device->flops_tf32 <= 0)
        return;
    if (device->products[SP_DTYPE_FLOAT].flops_share > 0)
        sp_buf_text(&telling->sentence, "float32 products with TF32 or not as they were measured");
    else
        sp_buf_printf(&telling->sentence, "float32 products %s TF32", is_stated || is_rounded ? "use" : "do not use");
    if (is_rounded)
        sp_buf_printf(&telling->sentence, ", as is the default of %s", sp_device_runtime(device)->name);
    else if (device->flops_tf32 <= 0 && sp_device_runtime(device)->rounds_products)
        sp_buf_text(&telling->sentence, ", for which there is no figure");
    tell(telling, device->name, is_rounded ? "device.flops_tf32" : "device.flops.float32");
}

/* ---- where figures come from ------------------------------------------------------------------------------------ */

enum origin { MEASURED, ESTIMATED, OF_KIND, NOT_STATED, ORIGIN_COUNT };

static enum origin origin_of(const struct sp_device *device, enum sp_device_figures figures)
{
    bool is_own = device->library_count > 0;
    uint32_t count = 0;
    if (figures == SP_DEVICE_ATTENTION)
        is_own = device->prefill.memory_share > 0 || device->decode.memory_share > 0;
    if (figures == SP_DEVICE_OTHER)
        is_own = device->other.memory_share > 0;
    if (figures == SP_DEVICE_PRODUCTS)
        is_own = has_products(device);
    if (is_own)
        return device->measured[figures] ? MEASURED : ESTIMATED;
    if (figures == SP_DEVICE_COLLECTIVES)
        (void)sp_device_libraries(device, &count);
    return device->kind == SP_DEVICE_OF_NO_KIND || (figures == SP_DEVICE_COLLECTIVES && count == 0) ? NOT_STATED
                                                                                                    : OF_KIND;
}

/* "products, attention". Collectives between devices of a cluster of one do not matter. */
static bool add_parts(struct sp_buf *text, const struct sp_device *device, enum origin origin, bool has_links)
{
    bool is_any = false;
    for (int part = 0; part < SP_DEVICE_FIGURES_COUNT; part++) {
        if ((part == SP_DEVICE_COLLECTIVES && !has_links) || origin_of(device, (enum sp_device_figures)part) != origin)
            continue;
        sp_buf_printf(text, "%s%s", is_any ? ", " : "",
                      part == SP_DEVICE_OTHER ? "other kernels" : sp_device_figures_name((enum sp_device_figures)part));
        is_any = true;
    }
    return is_any;
}

static void tell_origin(struct telling *telling, const struct sp_device *device)
{
    static const char *const origins[] = {[MEASURED] = "measured", [ESTIMATED] = "estimated", [OF_KIND] = "defaults"};
    const struct sp_device *known = sp_device_find(device->name);
    const bool is_known = known != NULL && strcmp(known->source, device->source) == 0;
    const bool has_links = telling->plan->cluster->device_count > 1;
    struct sp_buf *text = &telling->sentence, parts;

    sp_buf_init(&parts, SP_ASSUMED_BYTES);
    if (is_known)
        sp_buf_text(text, "peaks of data sheets");
    else if (device->source[0] != '\0')
        sp_text_cut(text, device->source, SP_SOURCE_COLUMNS);
    else
        sp_buf_text(text, "described by the user");
    for (int origin = MEASURED; origin < NOT_STATED; origin++) {
        sp_buf_clear(&parts);
        if (!add_parts(&parts, device, (enum origin)origin, has_links))
            continue;
        sp_buf_printf(text, "; %s", origins[origin]);
        if (origin == OF_KIND)
            sp_buf_printf(text, " of the kind %s", sp_device_kind_name(device->kind));
        sp_buf_printf(text, ": %s", sp_buf_failed(&parts) ? "" : parts.data);
    }
    if (sp_buf_failed(&parts))
        text->failed = true;
    sp_buf_release(&parts);
    tell(telling, device->name, "device");
}

/* ---- links ------------------------------------------------------------------------------------------------------ */

/* A group whose devices have another name than those of the first. */
static bool has_several_types(const struct sp_cluster *cluster)
{
    for (uint32_t g = 1; g < cluster->group_count; g++) {
        if (strcmp(cluster->groups[0].device.name, cluster->groups[g].device.name) != 0)
            return true;
    }
    return false;
}

/* Devices of one scale-up link, where the cluster has more of them; else 0. */
static uint32_t exceeded_group(const struct sp_cluster *cluster)
{
    const struct sp_device *device = &cluster->groups[0].device;
    const bool is_scale_up = device->link_bandwidth > 0 && !has_several_types(cluster);
    return is_scale_up && device->link_group > 0 && cluster->device_count > device->link_group ? device->link_group : 0;
}

/* "450.0 GB/s and 2.0 us a message between any two devices, as the link of ..". */
static void add_links(const struct sp_cluster *cluster, struct sp_buf *text)
{
    const struct sp_mesh_level *level = &cluster->levels[0];
    const char *slowest = cluster->groups[0].device.name;
    bool is_host = false;
    for (uint32_t g = 0; g < cluster->group_count; g++) {
        const struct sp_device *device = &cluster->groups[g].device;
        const double own = device->link_bandwidth > 0 ? device->link_bandwidth : device->host_bandwidth;
        if (own == sp_level_bandwidth(level)) {
            slowest = device->name;
            is_host = device->link_bandwidth <= 0;
        }
    }
    sp_text_bytes(text, sp_level_bandwidth(level));
    sp_buf_text(text, "/s and ");
    sp_text_seconds(text, level->forms != NULL ? level->stated_latency : level->latency);
    if (cluster->level_count > 1) /* some are stated */
        sp_buf_text(text, " a message between devices that no stated link joins, over the host");
    else
        sp_buf_printf(text, " a message between any two devices, as the %s of %s has", is_host ? "host link" : "link",
                      slowest);
}

static void tell_links(struct telling *telling)
{
    const struct sp_cluster *cluster = telling->plan->cluster;
    if (!cluster->links_assumed || cluster->device_count < 2)
        return;
    sp_buf_text(&telling->sentence, "links: ");
    add_links(cluster, &telling->sentence);
    tell(telling, NULL, "mesh");
}

bool sp_note_links(const struct sp_cluster *cluster, struct sp_bindings *bindings)
{
    const uint32_t group = exceeded_group(cluster);
    struct sp_buf text;
    if (!cluster->links_assumed || cluster->device_count < 2 || cluster->level_count > 1 ||
        (group == 0 && !has_several_types(cluster)))
        return true;
    sp_buf_init(&text, SP_ASSUMED_BYTES);
    sp_buf_text(&text, "The cluster states no links; assumed: ");
    add_links(cluster, &text);
    if (group > 0)
        sp_buf_printf(&text, ". That link joins %u devices, and the cluster has %u", group, cluster->device_count);
    sp_buf_text(&text, ".");
    const struct sp_plan_note note = {
        .code = "LINKS_ASSUMED",
        .severity = "warning",
        .message = sp_buf_failed(&text) ? NULL : sp_arena_string(bindings->arena, text.data, text.size),
        .hint = "Give the cluster a mesh: its levels of links with their bandwidth and latency.",
    };
    sp_buf_release(&text);
    return note.message != NULL && sp_note_add(bindings, &note);
}

/* ---- all -------------------------------------------------------------------------------------------------------- */

/* The paragraph is complete. */
static void end_paragraph(struct telling *telling, const char *device, bool *is_first, struct sp_buf *buf)
{
    if (telling->json == NULL && buf != NULL && telling->paragraph.size > 0) {
        struct sp_buf line;
        sp_buf_init(&line, SP_ASSUMED_BYTES * 8);
        sp_buf_printf(&line, "%s%s%s", device, device[0] != '\0' ? ": " : "", telling->paragraph.data);
        sp_buf_printf(buf, "%-*s", SP_ASSUMED_INDENT, *is_first ? "Assumed" : "");
        sp_text_wrapped(buf, sp_buf_failed(&line) ? "" : line.data, SP_ASSUMED_INDENT, SP_ASSUMED_COLUMNS);
        if (sp_buf_failed(&line))
            buf->failed = true;
        sp_buf_release(&line);
        *is_first = false;
    }
    sp_buf_clear(&telling->paragraph);
}

/* Whether a group before has devices of the same figures and runtime. */
static bool is_told(const struct sp_plan *plan, uint32_t first)
{
    for (uint32_t d = 0; d < first; d++) {
        if (plan->workload->kind_of[d] == plan->workload->kind_of[first])
            return true;
    }
    return false;
}

static bool tell_all(const struct sp_plan *plan, struct sp_json *json, struct sp_buf *buf)
{
    struct telling telling = {.plan = plan, .json = json};
    bool is_first = true;
    sp_buf_init(&telling.sentence, SP_ASSUMED_BYTES);
    sp_buf_init(&telling.paragraph, SP_ASSUMED_BYTES * 4);
    for (uint32_t g = 0, first = 0; plan->model != NULL && g < plan->cluster->group_count; g++) {
        const struct sp_device *device = &plan->cluster->groups[g].device;
        if (!is_told(plan, first)) {
            tell_runtime(&telling, device);
            tell_kernels(&telling, device);
            tell_tf32(&telling, device);
            tell_origin(&telling, device);
            end_paragraph(&telling, device->name, &is_first, buf);
        }
        first += plan->cluster->groups[g].count;
    }
    tell_links(&telling);
    end_paragraph(&telling, "", &is_first, buf);
    const bool ok = !sp_buf_failed(&telling.sentence) && !sp_buf_failed(&telling.paragraph);
    sp_buf_release(&telling.sentence);
    sp_buf_release(&telling.paragraph);
    return ok;
}

void sp_assumptions_write_json(const struct sp_plan *plan, struct sp_json *json)
{
    sp_json_key(json, "assumptions");
    sp_json_begin_array(json);
    if (!tell_all(plan, json, NULL))
        json->failed = true;
    sp_json_end_array(json);
}

void sp_assumptions_write_text(const struct sp_plan *plan, struct sp_buf *buf)
{
    if (!tell_all(plan, NULL, buf))
        buf->failed = true;
}
