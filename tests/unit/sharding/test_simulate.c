#include <criterion/criterion.h>
#include <string.h>

#include "reshard_simulator.h"

/*
 * One arena and one simulation per test. The tensor has the elements 0, 1, 2, .. in row-major order, so that a number
 * says where it comes from.
 */
static struct sp_arena *arena;
static struct sp_error err;
static int64_t values[64];

static void setup(void)
{
    arena = sp_arena_create(NULL);
    memset(&err, 0, sizeof(err));
    for (int64_t i = 0; i < 64; i++)
        values[i] = i;
}

static void teardown(void)
{
    sp_arena_destroy(arena);
}

TestSuite(simulate, .init = setup, .fini = teardown);

/* <["x"=2, "y"=2]>, the devices 0..3 or in the order of `ids`. */
static struct sp_mesh *mesh_2x2(const int64_t *ids)
{
    struct sp_mesh_axis axes[] = {{"x", 2}, {"y", 2}};
    struct sp_device_order order;
    struct sp_mesh *mesh;
    if (ids)
        cr_assert_eq(sp_device_order_list(arena, 4, ids, &order, &err), SP_OK, "%s", err.message);
    cr_assert_eq(sp_mesh_create(arena, 2, axes, ids ? &order : NULL, &mesh, &err), SP_OK, "%s", err.message);
    return mesh;
}

/* Axes by letter: "x", "xy", "" per tensor axis; the last text names the partial ones. */
static struct sp_sharding *split(const struct sp_mesh *mesh, uint32_t rank, const char *const *dims,
                                 const char *partial)
{
    struct sp_sharding *sharding;
    cr_assert_eq(sp_sharding_create_axes(arena, mesh, rank, &sharding, &err), SP_OK, "%s", err.message);
    for (uint32_t a = 0; a <= rank; a++) {
        struct sp_axis_list *list = a < rank ? &sharding->dims[a].axes : &sharding->partial;
        const char *text = a < rank ? dims[a] : partial;
        list->refs = SP_NEW_ARRAY(arena, strlen(text), struct sp_axis_ref);
        for (; *text; text++)
            list->refs[list->count++] = sp_axis_full(mesh, *text == 'x' ? 0 : 1);
    }
    sharding->combiner = *partial ? SP_COMBINE_SUM : SP_COMBINE_NONE;
    cr_assert_eq(sp_sharding_check(sharding, rank, NULL, 0, &err), SP_OK, "%s", err.message);
    return sharding;
}

#define DIMS(...) ((const char *const[]){__VA_ARGS__})

static struct sp_axis_list axes_of(const struct sp_mesh *mesh, const char *text)
{
    struct sp_axis_list list = {.refs = SP_NEW_ARRAY(arena, strlen(text), struct sp_axis_ref)};
    for (; *text; text++)
        list.refs[list.count++] = sp_axis_full(mesh, *text == 'x' ? 0 : 1);
    return list;
}

static struct sp_simulation *simulate(const struct sp_sharding *sharding, uint32_t rank, const int64_t *shape)
{
    struct sp_simulation *simulation;
    cr_assert_eq(sp_simulation_create(arena, sharding, rank, shape, 4, values, 7, &simulation, &err), SP_OK, "%s",
                 err.message);
    return simulation;
}

static void expect_local(const struct sp_simulation *simulation, int64_t device, uint64_t count,
                         const int64_t *expected)
{
    uint64_t got_count;
    const int64_t *got;
    cr_assert_eq(sp_simulation_local(simulation, device, &got_count, &got, &err), SP_OK, "%s", err.message);
    cr_assert_eq(got_count, count, "device %lld holds %llu numbers", (long long)device, (unsigned long long)got_count);
    for (uint64_t i = 0; i < count; i++)
        cr_expect_eq(got[i], expected[i], "device %lld, number %llu: %lld", (long long)device, (unsigned long long)i,
                     (long long)got[i]);
}

static void expect_step(struct sp_simulation *simulation, const struct sp_reshard_step *step)
{
    cr_assert_eq(sp_simulation_step(simulation, step, &err), SP_OK, "%s: %s", err.code, err.message);
}

static void expect_refused(struct sp_simulation *simulation, const struct sp_reshard_step *step, const char *code)
{
    cr_assert_eq(sp_simulation_step(simulation, step, &err), SP_ERR_INTERNAL, "the step is carried out");
    cr_expect_str_eq(err.code, code, "%s: %s", err.code, err.message);
    memset(&err, 0, sizeof(err));
}

static void expect_right(const struct sp_simulation *simulation, const struct sp_sharding *sharding)
{
    cr_assert_eq(sp_simulation_compare(simulation, sharding, values, &err), SP_OK, "%s: %s", err.code, err.message);
}

/* ---- what devices hold ---- */

Test(simulate, the_example_of_onnx_runtimes_header)
{
    /* sharding_spec.h: S[1]S[0] of [[5, 6], [7, 8]] on [[0, 1], [2, 3]] puts 5, 7, 6, 8 on the devices 0..3. */
    struct sp_mesh *mesh = mesh_2x2(NULL);
    memcpy(values, (int64_t[]){5, 6, 7, 8}, 4 * sizeof(*values));
    struct sp_simulation *simulation = simulate(split(mesh, 2, DIMS("y", "x"), ""), 2, (int64_t[]){2, 2});
    expect_local(simulation, 0, 1, (int64_t[]){5});
    expect_local(simulation, 1, 1, (int64_t[]){7});
    expect_local(simulation, 2, 1, (int64_t[]){6});
    expect_local(simulation, 3, 1, (int64_t[]){8});
}

Test(simulate, uneven_blocks_are_shorter_or_empty)
{
    /* 5 elements in 4 blocks of ceil(5/4) = 2: 2, 2, 1 and none. */
    struct sp_sharding *sharding = split(mesh_2x2(NULL), 1, DIMS("xy"), "");
    struct sp_simulation *simulation = simulate(sharding, 1, (int64_t[]){5});
    expect_local(simulation, 0, 2, (int64_t[]){0, 1});
    expect_local(simulation, 2, 1, (int64_t[]){4});
    expect_local(simulation, 3, 0, NULL);
    expect_right(simulation, sharding);
}

Test(simulate, addends_combine_to_the_value)
{
    static const enum sp_combiner combiners[] = {SP_COMBINE_SUM, SP_COMBINE_MAX, SP_COMBINE_MIN};
    struct sp_mesh *mesh = mesh_2x2(NULL);
    for (uint32_t i = 0; i < 3; i++) {
        struct sp_sharding *sharding = split(mesh, 1, DIMS("y"), "x");
        sharding->combiner = combiners[i];
        struct sp_simulation *simulation = simulate(sharding, 1, (int64_t[]){4});
        uint64_t count;
        const int64_t *a, *b;
        expect_right(simulation, sharding);
        cr_assert_eq(sp_simulation_local(simulation, 0, &count, &a, &err), SP_OK);
        cr_assert_eq(sp_simulation_local(simulation, 2, &count, &b, &err), SP_OK);
        cr_expect(a[0] != 0 || b[0] != 0 || a[1] != 1 || b[1] != 1, "nobody holds a share");
        cr_expect(a[0] != b[0] || a[1] != b[1], "both hold the same");
        /* A share is not the value: as a whole tensor it is wrong. */
        cr_expect_eq(sp_simulation_compare(simulation, split(mesh, 1, DIMS("y"), ""), values, &err), SP_ERR_INTERNAL);
        cr_expect_str_eq(err.code, "SIMULATION_DIFFERS");
        memset(&err, 0, sizeof(err));
    }
}

Test(simulate, a_device_with_several_shards_holds_them_in_their_order)
{
    /* Four shards of a vector of 8, the shards 3 and 1 on device 5, 0 and 2 on device 2. */
    struct sp_block_part part = {.shards = 4};
    struct sp_block_dim dim = {.part_count = 1, .parts = &part};
    struct sp_sharding blocks = {.kind = SP_SHARDING_BLOCKS,
                                 .rank = 1,
                                 .blocks = &dim,
                                 .shard_count = 4,
                                 .first = (uint32_t[]){0, 1, 2, 3, 4},
                                 .devices = (int64_t[]){2, 5, 2, 5}};
    struct sp_simulation *simulation = simulate(&blocks, 1, (int64_t[]){8});
    expect_local(simulation, 2, 4, (int64_t[]){0, 1, 4, 5});
    expect_local(simulation, 5, 4, (int64_t[]){2, 3, 6, 7});
    expect_right(simulation, &blocks);
}

/* ---- steps that are right ---- */

Test(simulate, slice_exchange_gather)
{
    struct sp_mesh *mesh = mesh_2x2(NULL);
    int64_t shape[] = {4, 4};
    struct sp_sharding *whole = split(mesh, 2, DIMS("", ""), ""), *rows = split(mesh, 2, DIMS("x", ""), "");
    struct sp_sharding *columns = split(mesh, 2, DIMS("", "x"), "");
    struct sp_simulation *simulation = simulate(whole, 2, shape);
    expect_step(simulation, &(struct sp_reshard_step){
                                .kind = SP_ALL_SLICE, .before = whole, .after = rows, .axes = axes_of(mesh, "x")});
    expect_local(simulation, 3, 8, (int64_t[]){8, 9, 10, 11, 12, 13, 14, 15});
    expect_right(simulation, rows);
    expect_step(simulation, &(struct sp_reshard_step){
                                .kind = SP_ALL_TO_ALL, .before = rows, .after = columns, .axes = axes_of(mesh, "x")});
    expect_local(simulation, 1, 8, (int64_t[]){0, 1, 4, 5, 8, 9, 12, 13});
    expect_right(simulation, columns);
    expect_step(simulation, &(struct sp_reshard_step){
                                .kind = SP_ALL_GATHER, .before = columns, .after = whole, .axes = axes_of(mesh, "x")});
    expect_right(simulation, whole);
}

Test(simulate, reduce_scatter_and_all_reduce_and_back)
{
    struct sp_mesh *mesh = mesh_2x2((int64_t[]){3, 1, 0, 2});
    int64_t shape[] = {4};
    struct sp_sharding *both = split(mesh, 1, DIMS(""), "xy"), *one = split(mesh, 1, DIMS("x"), "y");
    struct sp_sharding *none = split(mesh, 1, DIMS("x"), "");
    struct sp_simulation *simulation = simulate(both, 1, shape);
    expect_step(simulation, &(struct sp_reshard_step){
                                .kind = SP_REDUCE_SCATTER, .before = both, .after = one, .axes = axes_of(mesh, "x")});
    expect_right(simulation, one);
    expect_step(simulation, &(struct sp_reshard_step){
                                .kind = SP_ALL_REDUCE, .before = one, .after = none, .axes = axes_of(mesh, "y")});
    expect_right(simulation, none);
    /* x is the major axis and 3, 1 stand at x = 0: they have the first half. */
    expect_local(simulation, 3, 2, (int64_t[]){0, 1});
    expect_local(simulation, 0, 2, (int64_t[]){2, 3});
    expect_step(simulation, &(struct sp_reshard_step){
                                .kind = SP_TO_PARTIAL, .before = none, .after = one, .axes = axes_of(mesh, "y")});
    expect_local(simulation, 1, 2, (int64_t[]){0, 0});
    expect_right(simulation, one);
}

/* Whole pieces of a vector of 8 on four devices, from the device before each. */
static void make_ring(struct sp_range boxes[4], struct sp_transfer transfers[4])
{
    for (int64_t d = 0; d < 4; d++) {
        boxes[d] = (struct sp_range){d * 2, d * 2 + 2};
        transfers[d] = (struct sp_transfer){.source = d, .target = (d + 1) % 4, .box = &boxes[d], .bytes = 16};
    }
}

Test(simulate, permute_to_the_neighbour)
{
    struct sp_sharding *from = split(mesh_2x2(NULL), 1, DIMS("xy"), "");
    struct sp_sharding *to = split(mesh_2x2((int64_t[]){1, 2, 3, 0}), 1, DIMS("xy"), "");
    struct sp_range boxes[4];
    struct sp_transfer transfers[4];
    struct sp_simulation *simulation = simulate(from, 1, (int64_t[]){8});
    make_ring(boxes, transfers);
    expect_step(
        simulation,
        &(struct sp_reshard_step){
            .kind = SP_COLLECTIVE_PERMUTE, .before = from, .after = to, .transfer_count = 4, .transfers = transfers});
    expect_local(simulation, 0, 2, (int64_t[]){6, 7});
    expect_right(simulation, to);
}

Test(simulate, send_to_a_device_that_had_nothing)
{
    struct sp_sharding *from = split(mesh_2x2(NULL), 1, DIMS("x"), "");
    struct sp_sharding to = {.kind = SP_SHARDING_SINGLE, .device = 9};
    struct sp_transfer transfers[] = {{.source = 1, .target = 9, .box = &(struct sp_range){0, 4}},
                                      {.source = 2, .target = 9, .box = &(struct sp_range){4, 8}}};
    struct sp_simulation *simulation = simulate(from, 1, (int64_t[]){8});
    expect_step(
        simulation,
        &(struct sp_reshard_step){
            .kind = SP_SEND_RECEIVE, .before = from, .after = &to, .transfer_count = 2, .transfers = transfers});
    expect_right(simulation, &to);
    expect_local(simulation, 9, 8, (int64_t[]){0, 1, 2, 3, 4, 5, 6, 7});
}

/* ---- steps that are wrong ---- */

Test(simulate, a_slice_may_not_communicate)
{
    struct sp_mesh *mesh = mesh_2x2(NULL);
    struct sp_sharding *from = split(mesh, 2, DIMS("x", ""), ""), *to = split(mesh, 2, DIMS("", "x"), "");
    struct sp_simulation *simulation = simulate(from, 2, (int64_t[]){4, 4});
    expect_refused(
        simulation,
        &(struct sp_reshard_step){.kind = SP_ALL_SLICE, .before = from, .after = to, .axes = axes_of(mesh, "x")},
        "SIMULATION_MISSING");
    expect_right(simulation, from);
}

Test(simulate, a_gather_may_not_look_outside_its_group)
{
    /* The pieces along x are with devices that differ in x; the step says that it talks along y. */
    struct sp_mesh *mesh = mesh_2x2(NULL);
    struct sp_sharding *from = split(mesh, 1, DIMS("x"), ""), *to = split(mesh, 1, DIMS(""), "");
    struct sp_simulation *simulation = simulate(from, 1, (int64_t[]){4});
    expect_refused(
        simulation,
        &(struct sp_reshard_step){.kind = SP_ALL_GATHER, .before = from, .after = to, .axes = axes_of(mesh, "y")},
        "SIMULATION_MISSING");
}

Test(simulate, a_gather_may_not_pick_one_of_several_addends)
{
    struct sp_mesh *mesh = mesh_2x2(NULL);
    struct sp_sharding *from = split(mesh, 1, DIMS("y"), "x"), *to = split(mesh, 1, DIMS(""), "");
    struct sp_simulation *simulation = simulate(from, 1, (int64_t[]){4});
    expect_refused(
        simulation,
        &(struct sp_reshard_step){.kind = SP_ALL_GATHER, .before = from, .after = to, .axes = axes_of(mesh, "xy")},
        "SIMULATION_AMBIGUOUS");
}

Test(simulate, a_reduction_over_replicas_is_wrong)
{
    struct sp_mesh *mesh = mesh_2x2(NULL);
    struct sp_sharding *from = split(mesh, 1, DIMS(""), "x"), *to = split(mesh, 1, DIMS(""), "");
    struct sp_simulation *simulation = simulate(from, 1, (int64_t[]){4});
    expect_step(simulation, &(struct sp_reshard_step){
                                .kind = SP_ALL_REDUCE, .before = from, .after = to, .axes = axes_of(mesh, "xy")});
    cr_expect_eq(sp_simulation_compare(simulation, to, values, &err), SP_ERR_INTERNAL);
    cr_expect_str_eq(err.code, "SIMULATION_DIFFERS");
    cr_expect(strstr(err.message, "holds 2, not 1"), "%s", err.message);
}

Test(simulate, a_reduction_needs_an_addend_of_everyone)
{
    struct sp_mesh *mesh = mesh_2x2(NULL);
    struct sp_sharding *from = split(mesh, 1, DIMS("y"), "x"), *to = split(mesh, 1, DIMS("y"), "");
    struct sp_simulation *simulation = simulate(from, 1, (int64_t[]){4});
    expect_refused(
        simulation,
        &(struct sp_reshard_step){.kind = SP_ALL_REDUCE, .before = from, .after = to, .axes = axes_of(mesh, "xy")},
        "SIMULATION_MISSING");
}

Test(simulate, a_missing_transfer_leaves_something_undefined)
{
    struct sp_sharding *from = split(mesh_2x2(NULL), 1, DIMS("xy"), "");
    struct sp_sharding *to = split(mesh_2x2((int64_t[]){1, 2, 3, 0}), 1, DIMS("xy"), "");
    struct sp_range boxes[4];
    struct sp_transfer transfers[4];
    struct sp_simulation *simulation = simulate(from, 1, (int64_t[]){8});
    make_ring(boxes, transfers);
    struct sp_reshard_step step = {
        .kind = SP_SEND_RECEIVE, .before = from, .after = to, .transfer_count = 3, .transfers = transfers};
    expect_refused(simulation, &step, "SIMULATION_UNDEFINED");
    step.transfer_count = 4;
    boxes[2].limit--; /* an element short */
    expect_refused(simulation, &step, "SIMULATION_UNDEFINED");
    boxes[2].limit += 2; /* of the next device's piece */
    expect_refused(simulation, &step, "SIMULATION_MISSING");
    make_ring(boxes, transfers);
    transfers[1].target = 3; /* device 2 gets nothing, device 3 what it is not to have */
    expect_refused(simulation, &step, "SIMULATION_UNDEFINED");
    step.transfers = NULL;
    expect_refused(simulation, &step, "SIMULATION_UNLISTED");
    expect_right(simulation, from);
}

Test(simulate, a_device_gets_only_what_it_is_to_hold)
{
    struct sp_mesh *mesh = mesh_2x2(NULL);
    struct sp_sharding *from = split(mesh, 1, DIMS("x"), "");
    struct sp_sharding to = {.kind = SP_SHARDING_SINGLE, .device = 0};
    struct sp_transfer transfers[] = {{.source = 0, .target = 0, .box = &(struct sp_range){0, 4}},
                                      {.source = 2, .target = 0, .box = &(struct sp_range){4, 8}},
                                      {.source = 2, .target = 0, .box = &(struct sp_range){7, 8}}};
    struct sp_reshard_step step = {
        .kind = SP_SEND_RECEIVE, .before = from, .after = &to, .transfer_count = 3, .transfers = transfers};
    expect_step(simulate(from, 1, (int64_t[]){8}), &step); /* twice the same is no harm */
    struct sp_sharding *half = split(mesh, 1, DIMS("y"), "");
    step.after = half;
    expect_refused(simulate(from, 1, (int64_t[]){8}), &step, "SIMULATION_UNWANTED");
}

Test(simulate, a_permute_has_one_source_per_device)
{
    struct sp_mesh *mesh = mesh_2x2(NULL);
    struct sp_sharding *from = split(mesh, 1, DIMS("xy"), ""), *to = split(mesh, 1, DIMS("yx"), "");
    struct sp_range boxes[4];
    struct sp_transfer transfers[5];
    make_ring(boxes, transfers);
    transfers[0] = (struct sp_transfer){.source = 0, .target = 0, .box = &boxes[0]};
    transfers[1] = (struct sp_transfer){.source = 2, .target = 1, .box = &boxes[2]};
    transfers[2] = (struct sp_transfer){.source = 1, .target = 2, .box = &boxes[1]};
    transfers[3] = (struct sp_transfer){.source = 3, .target = 3, .box = &(struct sp_range){6, 7}};
    transfers[4] = (struct sp_transfer){.source = 2, .target = 3, .box = &(struct sp_range){7, 8}};
    struct sp_reshard_step step = {
        .kind = SP_COLLECTIVE_PERMUTE, .before = from, .after = to, .transfer_count = 5, .transfers = transfers};
    expect_refused(simulate(from, 1, (int64_t[]){8}), &step, "SIMULATION_SOURCES");
    transfers[3] = (struct sp_transfer){.source = 3, .target = 3, .box = &boxes[3]};
    step.transfer_count = 4;
    struct sp_simulation *simulation = simulate(from, 1, (int64_t[]){8});
    expect_step(simulation, &step);
    expect_right(simulation, to);
}

Test(simulate, a_combiner_that_is_not_named)
{
    struct sp_mesh *mesh = mesh_2x2(NULL);
    struct sp_sharding *from = split(mesh, 1, DIMS(""), ""), *to = split(mesh, 1, DIMS(""), "x");
    struct sp_reshard_step step = {.kind = SP_TO_PARTIAL, .before = from, .after = to, .axes = axes_of(mesh, "x")};
    to->combiner = SP_COMBINE_NONE;
    expect_refused(simulate(from, 1, (int64_t[]){4}), &step, "SIMULATION_COMBINER");
    to->combiner = SP_COMBINE_MIN;
    struct sp_simulation *simulation = simulate(from, 1, (int64_t[]){4});
    expect_step(simulation, &step);
    expect_right(simulation, to);
    step = (struct sp_reshard_step){.kind = SP_ALL_REDUCE, .before = to, .after = from, .axes = step.axes};
    expect_step(simulation, &step);
    expect_right(simulation, from);
}

Test(simulate, a_step_starts_where_the_devices_are)
{
    struct sp_mesh *mesh = mesh_2x2(NULL);
    struct sp_sharding *from = split(mesh, 1, DIMS("x"), ""), *other = split(mesh, 1, DIMS("y"), "");
    struct sp_sharding *to = split(mesh, 1, DIMS(""), "");
    expect_refused(
        simulate(from, 1, (int64_t[]){4}),
        &(struct sp_reshard_step){.kind = SP_ALL_GATHER, .before = other, .after = to, .axes = axes_of(mesh, "y")},
        "SIMULATION_BEFORE");
}

Test(simulate, axes_that_the_mesh_does_not_have)
{
    struct sp_mesh *mesh = mesh_2x2(NULL);
    struct sp_sharding *from = split(mesh, 1, DIMS("x"), ""), *to = split(mesh, 1, DIMS(""), "");
    struct sp_axis_ref wrong = {.axis = 2, .pre = 1, .size = 2}, twice[2] = {{0, 1, 2}, {0, 1, 2}};
    struct sp_reshard_step step = {.kind = SP_ALL_GATHER, .before = from, .after = to, .axes = {1, &wrong}};
    expect_refused(simulate(from, 1, (int64_t[]){4}), &step, "SIMULATION_AXES");
    step.axes = (struct sp_axis_list){2, twice};
    expect_refused(simulate(from, 1, (int64_t[]){4}), &step, "SIMULATION_AXES");
}

Test(simulate, a_wrong_result_names_the_element)
{
    struct sp_mesh *mesh = mesh_2x2(NULL);
    struct sp_sharding *rows = split(mesh, 2, DIMS("x", ""), ""), *columns = split(mesh, 2, DIMS("", "x"), "");
    struct sp_simulation *simulation = simulate(rows, 2, (int64_t[]){2, 2});
    cr_assert_eq(sp_simulation_compare(simulation, columns, values, &err), SP_ERR_INTERNAL);
    cr_expect(strstr(err.message, "Device 0 at index [1, 0]"), "%s", err.message);
    memset(&err, 0, sizeof(err));
    values[3] = 77;
    cr_assert_eq(sp_simulation_compare(simulation, rows, values, &err), SP_ERR_INTERNAL);
    cr_expect_str_eq(err.message, "Device 2 at index [1, 1] holds 3, not 77.");
}

Test(simulate, tensors_that_are_too_large_are_refused)
{
    struct sp_sharding *sharding = split(mesh_2x2(NULL), 2, DIMS("x", ""), "");
    struct sp_simulation *simulation;
    cr_expect_eq(
        sp_simulation_create(arena, sharding, 2, (int64_t[]){1 << 20, 1 << 20}, 0, values, 1, &simulation, &err),
        SP_ERR_LIMIT);
    cr_expect_str_eq(err.limit, "SP_MAX_SIMULATED_VALUES");
}
