#include "random_worlds.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>

static uint64_t state;

void world_seed(uint64_t seed)
{
    state = seed;
}

uint32_t world_below(uint32_t bound)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % bound;
}

/* Products with weights, one behind the other or side by side, and now and then an elementwise operator. */
void world_model(struct build *build, uint32_t nodes)
{
    char inputs[64], output[16];
    build_init(build, 21);
    build_input(build, "t0", SP_DTYPE_FLOAT, "12,12");
    for (uint32_t i = 0; i < nodes; i++) {
        const uint32_t from = world_below(3) == 0 ? world_below(i + 1) : i;
        (void)snprintf(output, sizeof output, "t%u", i + 1);
        if (world_below(4) == 0) {
            (void)snprintf(inputs, sizeof inputs, "t%u", from);
            build_node(build, world_below(2) == 0 ? "Relu" : "Softmax", inputs, output);
            continue;
        }
        char weight[16];
        (void)snprintf(weight, sizeof weight, "w%u", i);
        build_weight(build, weight, SP_DTYPE_FLOAT, "12,12");
        (void)snprintf(inputs, sizeof inputs, "t%u %s", from, weight);
        build_node(build, "MatMul", inputs, output);
    }
    (void)snprintf(output, sizeof output, "t%u", nodes);
    build_outputs(build, output);
    cr_assert_eq(build_infer(build), SP_OK, "%s", build->err.message);
}

struct figures world_figures(void)
{
    static const double flops[] = {1e8, 1e9, 1e11}, links[] = {1e6, 1e8, 1e10}, memories[] = {3000, 5000, 1e9};
    static const double latencies[] = {0, 1e-7, 1e-5};
    struct figures f = {.devices = 2 + world_below(3),
                        .memory = memories[world_below(3)],
                        .other_memory = memories[world_below(3)],
                        .flops = flops[world_below(3)],
                        .other_flops = flops[world_below(3)],
                        .link = links[world_below(3)],
                        .outer = 1e6,
                        .latency = latencies[world_below(3)],
                        .bandwidth = 1e9};
    f.others = world_below(4) == 0 ? 1 + world_below(f.devices - 1) : 0;
    f.has_levels = f.devices == 4 && world_below(3) == 0;
    return f;
}

/* One thing is another: devices fewer or more, links, memory; or nothing is. */
struct figures world_changed(struct figures f)
{
    switch (world_below(7)) {
    case 0:
        break;
    case 1:
        f.link *= world_below(2) == 0 ? 0.1 : 10;
        break;
    case 2:
        f.memory = fmax(2000, f.memory / 2);
        break;
    case 3:
        f.devices += f.devices < WORLD_DEVICES && !f.has_levels;
        break;
    case 4:
        f.latency *= 10;
        f.flops *= 0.5;
        break;
    default:
        f.devices -= f.devices > 1;
        f.others = f.others < f.devices ? f.others : f.devices - 1;
    }
    f.has_levels = f.has_levels && f.devices > 2;
    return f;
}

static struct sp_cluster *make_cluster(struct sp_arena *arena, const struct figures *f)
{
    char text[1024], second[256] = "", count[32] = "";
    struct sp_cluster *cluster;
    struct sp_error err = {0};
    if (f->others > 0)
        (void)snprintf(second, sizeof second,
                       ",{\"count\":%u,\"device\":{\"name\":\"b\",\"memory_bytes\":%g,\"memory_bandwidth\":%g,"
                       "\"flops\":{\"float32\":%g}}}",
                       f->others, f->other_memory, f->bandwidth, f->other_flops);
    if (f->has_levels && f->devices == 3)
        (void)snprintf(count, sizeof count, ",\"device_count\":3");
    (void)snprintf(text, sizeof text,
                   "{\"groups\":[{\"count\":%u,\"device\":{\"name\":\"a\",\"memory_bytes\":%g,\"memory_bandwidth\":%g,"
                   "\"flops\":{\"float32\":%g}}}%s],\"mesh\":[%s{\"name\":\"in\",\"size\":%u,\"bandwidth\":%g,"
                   "\"latency\":%g}],\"launch_seconds\":1e-6%s}",
                   (f->has_levels ? 4 : f->devices) - f->others, f->memory, f->bandwidth, f->flops, second,
                   f->has_levels ? "{\"name\":\"out\",\"size\":2,\"bandwidth\":1e6,\"latency\":1e-6}," : "",
                   f->has_levels ? 2 : f->devices, f->link, f->latency, count);
    json_t *json = json_loads(text, 0, NULL);
    cr_assert_not_null(json, "%s", text);
    cr_assert_eq(sp_cluster_parse(arena, json, "", &cluster, &err), SP_OK, "%s: %s", text, err.message);
    json_decref(json);
    return cluster;
}

void world_open(struct world *w, struct build *build, const struct figures *figures)
{
    struct sp_error err = {0};
    *w = (struct world){.arena = sp_arena_create(NULL)};
    w->cluster = make_cluster(w->arena, figures);
    cr_assert_eq(sp_workload_from_model(w->arena, build->model, w->cluster, NULL, &w->workload, &err), SP_OK, "%s",
                 err.message);
    cr_assert_eq(sp_dataflow_create(w->arena, build->model, &w->dataflow, &err), SP_OK);
    cr_assert_eq(sp_space_create(w->arena, w->workload, w->cluster, w->cluster->device_count, &w->space, &err), SP_OK);
    const uint32_t blocks = w->space->option_count;
    for (uint32_t i = 0; i < blocks; i++) { /* with each mesh that they may have */
        uint32_t cuts[SP_SPACE_CUTS];
        const uint32_t count = sp_space_cuts(&w->space->options[i], cuts);
        for (uint32_t c = 0; c < count; c++)
            cr_assert_not_null(sp_space_add_mesh(w->space, &w->space->options[i], cuts[c]));
    }
    for (uint32_t i = 0; i < w->space->option_count; i++) {
        if (w->space->options[i].mesh.axis_count > 0)
            cr_assert_eq(sp_strategy_table_create(w->arena, w->workload, w->dataflow, &w->space->options[i].mesh, NULL,
                                                  &w->tables[i], &err),
                         SP_OK, "%s", err.message);
    }
    for (uint32_t n = 0; n < w->workload->node_count; n++)
        w->live[w->live_count++] = n;
}

void world_close(struct world *w)
{
    for (uint32_t i = 0; i < w->space->option_count; i++)
        sp_strategy_table_destroy(w->tables[i]);
    sp_arena_destroy(w->arena);
}
