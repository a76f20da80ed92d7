#include "sharding/reshard/reshard.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "build_sharding.h"
#include "reshard_simulator.h"

/* One level: 1 GB/s and 1 us. Two levels: nodes of four devices, a tenth as fast outside. */
static const struct sp_mesh_level flat_levels[] = {{"link", 16, 1e9, 1e-6}};
static const struct sp_mesh_level node_levels[] = {{"node", 2, 1e8, 1e-5}, {"gpu", 4, 1e9, 1e-6}};
static const struct sp_links flat = {1, flat_levels}, nodes = {2, node_levels};

static struct sp_arena *arena;
static struct sp_error err;

static void setup(void)
{
    arena = sp_arena_create(NULL);
    memset(&err, 0, sizeof(err));
}

static void teardown(void)
{
    sp_arena_destroy(arena);
}

TestSuite(reshard, .init = setup, .fini = teardown);

static struct sp_reshard_request request_of(const struct sp_sharding *from, const struct sp_sharding *to, uint32_t rank,
                                            const int64_t *shape)
{
    return (struct sp_reshard_request){.links = &flat,
                                       .rank = rank,
                                       .shape = shape,
                                       .dtype = SP_DTYPE_FLOAT,
                                       .from = from,
                                       .to = to,
                                       .collectives_only = true};
}

static struct sp_reshard *plan(const struct sp_reshard_request *request)
{
    struct sp_reshard *reshard = NULL;
    cr_assert_eq(sp_reshard_plan(arena, request, &reshard, &err), SP_OK, "%s %s", err.code, err.message);
    return reshard;
}

/* The steps as text, one after the other. */
static const char *steps_text(const struct sp_reshard *reshard)
{
    struct sp_buf buf;
    sp_buf_init(&buf, 1 << 16);
    for (uint32_t i = 0; i < reshard->step_count; i++) {
        if (i > 0)
            sp_buf_text(&buf, "; ");
        sp_reshard_step_write(&reshard->steps[i], &buf);
    }
    const char *text = sp_arena_string(arena, buf.data ? buf.data : "", buf.size);
    sp_buf_release(&buf);
    return text;
}

static void expect_seconds(const struct sp_reshard *reshard, double seconds)
{
    cr_expect(fabs(reshard->seconds - seconds) <= 1e-9 * seconds, "%.12g s, expected %.12g: %s", reshard->seconds,
              seconds, steps_text(reshard));
}

/* Real numbers, moved as the plan says. */
static void carry_out(const struct sp_reshard_request *request, const struct sp_reshard *reshard)
{
    struct sp_simulation *simulation;
    int64_t values[4096];
    for (int64_t i = 0; i < 4096; i++)
        values[i] = i * 7919 + 13;
    enum sp_status status = sp_simulation_create(arena, request->from, request->rank, request->shape,
                                                 request->device_count, values, 1, &simulation, &err);
    for (uint32_t i = 0; status == SP_OK && i < reshard->step_count; i++)
        status = sp_simulation_step(simulation, &reshard->steps[i], &err);
    if (status == SP_OK)
        status = sp_simulation_compare(simulation, request->to, values, &err);
    cr_expect_eq(status, SP_OK, "%s %s: %s", err.code, err.message, steps_text(reshard));
}

static void sum_over(struct sp_sharding *sharding, const char *axes)
{
    sharding->partial = build_refs(arena, sharding->mesh, axes);
    sharding->combiner = SP_COMBINE_SUM;
}

/* Mesh x=2 y=4, a tensor of 16 x 16 floats, 1 KiB. */
static struct sp_reshard *plan_axes(const char *from, const char *to, const char *partial_from, const char *partial_to)
{
    static const int64_t shape[] = {16, 16};
    struct sp_mesh *mesh = build_mesh(arena, "x=2 y=4", NULL);
    struct sp_sharding *a = build_axes(arena, mesh, from), *b = build_axes(arena, mesh, to);
    if (*partial_from)
        sum_over(a, partial_from);
    if (*partial_to)
        sum_over(b, partial_to);
    struct sp_reshard_request request = request_of(a, b, 2, shape);
    struct sp_reshard *reshard = plan(&request);
    cr_expect(reshard->is_optimal);
    carry_out(&request, reshard);
    return reshard;
}

Test(reshard, one_step_of_each_kind)
{
    struct sp_reshard *reshard = plan_axes("x | y", "x | y", "", "");
    cr_expect_eq(reshard->step_count, 0);
    cr_expect_eq(reshard->peak_bytes, 128.0, "a tile is held, %g", reshard->peak_bytes);

    reshard = plan_axes(" | ", "x | y", "", "");
    cr_expect_str_eq(steps_text(reshard), "all-slice {\"x\"} on axis 0, {\"y\"} on axis 1: local");
    cr_expect_eq(reshard->seconds, 0.0);
    cr_expect_eq(reshard->peak_bytes, 1024.0);

    /* 4 parts to 1 KiB: 2 rounds, 3/4 of the bytes at 1 GB/s. */
    reshard = plan_axes("y | ", " | ", "", "");
    cr_expect_str_eq(steps_text(reshard), "all-gather {\"y\"} on axis 0: 768 B, 2.77 us");
    expect_seconds(reshard, 2e-6 + 768e-9);
    cr_expect_eq(reshard->steps[0].group_size, 4);
    cr_expect_eq(reshard->total_bytes, 8 * 768.0);
    cr_expect_eq(reshard->peak_bytes, 256.0 + 1024.0);

    reshard = plan_axes("x | ", " | x", "", "");
    cr_expect_str_eq(steps_text(reshard), "all-to-all {\"x\"} from axis 0 to axis 1: 256 B, 1.26 us");
    expect_seconds(reshard, 1e-6 + 256e-9);

    reshard = plan_axes("x y | ", "y x | ", "", "");
    cr_expect_eq(reshard->step_count, 1);
    cr_expect_eq(reshard->steps[0].kind, SP_COLLECTIVE_PERMUTE);
    expect_seconds(reshard, 1e-6 + 128e-9);

    reshard = plan_axes(" | ", " | ", "", "x");
    cr_expect_str_eq(steps_text(reshard), "to-partial {\"x\"}: local");

    reshard = plan_axes(" | ", "x | ", "x", "");
    cr_expect_str_eq(steps_text(reshard), "reduce-scatter {\"x\"} on axis 0: 512 B, 1.51 us");
    expect_seconds(reshard, 1e-6 + 512e-9);
}

/* A sum over x, wanted whole: slicing the unused y first leaves a quarter to reduce, which is gathered in the end. */
Test(reshard, all_reduce_of_a_slice)
{
    struct sp_reshard *reshard = plan_axes("y | ", "y | ", "x", "");
    cr_expect_str_eq(steps_text(reshard), "all-reduce {\"x\"}: 256 B, 2.26 us");
    static const int64_t shape[] = {1024, 1024};
    struct sp_mesh *mesh = build_mesh(arena, "x=4 y=4", NULL);
    struct sp_sharding *from = build_axes(arena, mesh, " | "), *to = build_axes(arena, mesh, " | ");
    sum_over(from, "x");
    struct sp_reshard_request request = request_of(from, to, 2, shape);
    double n = 4.0 * 1024 * 1024;
    reshard = plan(&request);
    /* Sliced by y, scattered over x, gathered over both: 3/4 * n/4 and 15/16 * n, and 2 + 4 rounds. */
    expect_seconds(reshard, 6e-6 + (0.75 / 4 + 15.0 / 16) * n / 1e9);
    cr_expect_lt(reshard->seconds, 4e-6 + 1.5 * n / 1e9, "a plain all-reduce is slower");
}

/* Where collectives were measured the steps take what their forms say: an all-reduce of its own, which is quicker than
   a reduce-scatter and an all-gather here, and slower for large tensors. */
Test(reshard, measured_links)
{
    static const struct sp_link_form items[] = {{SP_ALL_REDUCE, 3e-6, 1e-7, 1e3, {1e9, 1e9, 1e9}},
                                                {SP_ALL_GATHER, 4e-6, 1e-6, 0, {2e9, 2e9, 2e9}},
                                                {SP_REDUCE_SCATTER, 4e-6, 1e-6, 0, {2e9, 2e9, 2e9}}};
    static const struct sp_link_forms forms = {3, items};
    static const int64_t small[] = {16, 16}, large[] = {1024, 1024};
    struct sp_mesh_level level = {.name = "link", .size = 8, .bandwidth = 1e9, .latency = 1e-6};
    struct sp_links measured = {1, &level};
    struct sp_mesh *mesh = build_mesh(arena, "x=8", NULL);
    struct sp_sharding *from = build_axes(arena, mesh, " | "), *to = build_axes(arena, mesh, " | ");
    struct sp_sharding *split = build_axes(arena, mesh, "x | ");
    sp_level_take_forms(&level, &forms);
    sum_over(from, "x");
    struct sp_reshard_request request = request_of(from, to, 2, small);
    request.links = &measured;
    expect_seconds(plan(&request), 3e-6 + 7e-7 + 7 / 4. * (1024 + sqrt(1024 * 1e3)) / 1e9);
    request = request_of(split, to, 2, small);
    request.links = &measured;
    expect_seconds(plan(&request), 4e-6 + 7e-6 + 7 / 8. * 1024 / 2e9);
    request = request_of(from, to, 2, large);
    request.links = &measured;
    expect_seconds(plan(&request), 2 * (4e-6 + 7e-6 + 7 / 8. * 4194304 / 2e9));
}

/* Shardy: a permute to [{"y", "x":(2)2}, {"x":(1)2}], then an all-to-all of "x":(2)2 (swap_diff_size_axes_between_dims
   of its tests). */
Test(reshard, swaps_axes_of_different_size)
{
    struct sp_reshard *reshard = plan_axes("y | x", "x | y", "", "");
    cr_expect_eq(reshard->step_count, 2, "%s", steps_text(reshard));
    expect_seconds(reshard, 2e-6 + 128e-9 + 64e-9);
}

/* Over the slow links only a quarter of what a node needs is brought by each of its four devices. */
Test(reshard, shares_slow_links)
{
    static const int64_t shape[] = {1024, 1024};
    struct sp_mesh *mesh = build_mesh(arena, "x=2 y=4", NULL);
    struct sp_sharding *from = build_axes(arena, mesh, "x | "), *to = build_axes(arena, mesh, " | ");
    struct sp_reshard_request request = request_of(from, to, 2, shape);
    double n = 4.0 * 1024 * 1024;
    request.links = &nodes;
    struct sp_reshard *reshard = plan(&request);
    expect_seconds(reshard, 1e-5 + n / 2 / 4 / 1e8 + 2e-6 + 0.75 * n / 1e9);
}

Test(reshard, uneven_blocks)
{
    static const int64_t shape[] = {13};
    struct sp_mesh *mesh = build_mesh(arena, "x=2 y=2", NULL);
    struct sp_sharding *two = build_axes(arena, mesh, "x"), *four = build_axes(arena, mesh, "x y"),
                       *whole = build_axes(arena, mesh, "");
    whole->dims = two->dims + 1; /* rank 1, nothing split */
    cr_assert_eq(sp_sharding_create_axes(arena, mesh, 1, &whole, &err), SP_OK);
    struct sp_reshard_request request = request_of(four, whole, 1, shape);
    struct sp_reshard *reshard = plan(&request);
    cr_expect_eq(reshard->step_count, 1);
    carry_out(&request, reshard);
    /* Blocks of 7 are not blocks of 4: slicing [0, 7) and [7, 13) further would leave other borders. */
    request = request_of(two, four, 1, shape);
    reshard = plan(&request);
    cr_expect_gt(reshard->seconds, 0.0);
    carry_out(&request, reshard);
    request.collectives_only = false;
    struct sp_reshard *direct = plan(&request);
    cr_expect_eq(direct->steps[0].kind, SP_SEND_RECEIVE, "%s", steps_text(direct));
    cr_expect_lt(direct->seconds, reshard->seconds);
    carry_out(&request, direct);
}

Test(reshard, memory_limit)
{
    static const int64_t shape[] = {16, 16};
    struct sp_mesh *mesh = build_mesh(arena, "x=2 y=4", NULL);
    struct sp_sharding *from = build_axes(arena, mesh, "y | "), *to = build_axes(arena, mesh, " | y");
    struct sp_reshard_request request = request_of(from, to, 2, shape);
    struct sp_reshard *reshard = NULL;
    request.memory_limit_bytes = 512;
    reshard = plan(&request);
    cr_expect_leq(reshard->peak_bytes, 512.0);
    carry_out(&request, reshard);
    /* Slicing by x first halves the tiles, and so the peak; the result alone takes 256 bytes. */
    request.memory_limit_bytes = 300;
    cr_expect_eq(sp_reshard_plan(arena, &request, &reshard, &err), SP_ERR_NOFIT);
    cr_expect_str_eq(err.code, "RESHARD_MEMORY");
    cr_expect_not_null(strstr(err.message, "300 bytes"), "%s", err.message);
    cr_expect_not_null(strstr(err.message, "384 bytes"), "%s", err.message);
}

Test(reshard, other_order_of_the_same_devices)
{
    static const int64_t shape[] = {8, 8}, reversed[] = {3, 2, 1, 0};
    struct sp_device_order order;
    cr_assert_eq(sp_device_order_list(arena, 4, reversed, &order, &err), SP_OK);
    struct sp_mesh *mesh = build_mesh(arena, "x=2 y=2", NULL), *other = build_mesh(arena, "x=2 y=2", &order);
    struct sp_sharding *from = build_axes(arena, mesh, "x | y"), *to = build_axes(arena, other, "x | y");
    struct sp_reshard_request request = request_of(from, to, 2, shape);
    struct sp_reshard *reshard = plan(&request);
    cr_expect_eq(reshard->step_count, 1);
    cr_expect_eq(reshard->steps[0].kind, SP_COLLECTIVE_PERMUTE);
    cr_expect_eq(reshard->steps[0].transfer_count, 4);
    cr_expect_eq(reshard->total_bytes, 4 * 64.0);
    carry_out(&request, reshard);
    /* Shardy: a permute to the other order, then two all-to-alls (reorder_device_ids_then_two_all_to_alls). */
    from = build_axes(arena, mesh, " | ");
    to = build_axes(arena, other, " | ");
    request = request_of(from, to, 2, shape);
    cr_expect_eq(plan(&request)->step_count, 0);
}

Test(reshard, transposed_order_is_the_same_mesh)
{
    static const int64_t shape[] = {16, 16}, dims[] = {4, 2}, perm[] = {1, 0};
    struct sp_device_order order;
    cr_assert_eq(sp_device_order_iota(arena, 2, dims, perm, &order, &err), SP_OK);
    struct sp_mesh *mesh = build_mesh(arena, "x=4 y=2", NULL), *other = build_mesh(arena, "a=2 b=4", &order);
    struct sp_sharding *from = build_axes(arena, mesh, "x | y"), *to = build_axes(arena, other, "b | a");
    struct sp_reshard_request request = request_of(from, to, 2, shape);
    struct sp_reshard *reshard = plan(&request);
    cr_expect_eq(reshard->step_count, 0, "%s", steps_text(reshard));
    carry_out(&request, reshard);
    to = build_axes(arena, other, " | a");
    request = request_of(from, to, 2, shape);
    reshard = plan(&request);
    cr_expect_str_eq(steps_text(reshard), "all-gather {\"x\"} on axis 0: 384 B, 2.38 us");
    carry_out(&request, reshard);
}

Test(reshard, to_one_device_and_back)
{
    static const int64_t shape[] = {16, 16};
    struct sp_mesh *mesh = build_mesh(arena, "x=4", NULL);
    struct sp_sharding *split = build_axes(arena, mesh, "x | "), *whole = build_axes(arena, mesh, " | ");
    struct sp_sharding single = {.kind = SP_SHARDING_SINGLE, .device = 2};
    struct sp_reshard_request request = request_of(split, &single, 2, shape);
    struct sp_reshard *reshard = plan(&request);
    cr_expect_eq(reshard->step_count, 1);
    /* Device 2 receives three messages of 256 bytes. */
    expect_seconds(reshard, 3e-6 + 768e-9);
    cr_expect_eq(reshard->total_bytes, 768.0);
    carry_out(&request, reshard);
    request = request_of(whole, &single, 2, shape);
    reshard = plan(&request);
    cr_expect_eq(reshard->seconds, 0.0, "it has everything");
    carry_out(&request, reshard);
    /* A quarter to each of three, then gathered, rather than three times the whole: 3 + 2 latencies, 2 * 768 bytes. */
    static const int64_t large[] = {32, 32};
    request = request_of(&single, whole, 2, large);
    reshard = plan(&request);
    cr_expect_eq(reshard->step_count, 2, "%s", steps_text(reshard));
    expect_seconds(reshard, 5e-6 + 2 * 3072e-9);
    carry_out(&request, reshard);
}

/* Requests that share what follows a send-receive cost what they cost alone, whichever comes first. */
Test(reshard, shared_arrivals)
{
    static const int64_t shape[] = {64, 64};
    static const char *targets[] = {" | ", "x | ", " | y", "x | y"};
    struct sp_mesh *mesh = build_mesh(arena, "x=2 y=4", NULL);
    uint32_t gathered = 0;
    for (uint32_t t = 0; t < sizeof targets / sizeof targets[0]; t++) {
        struct sp_reshard_arrival arrivals[SP_RESHARD_MAX_ARRIVALS] = {0};
        struct sp_sharding *to = build_axes(arena, mesh, targets[t]);
        for (uint32_t i = 0; i < 10; i++) {
            struct sp_sharding single = {.kind = SP_SHARDING_SINGLE, .device = i};
            const struct sp_sharding *from = i == 8   ? build_blocks(arena, "8 | ", "0; 4; 1; 5; 2; 6; 3; 7")
                                             : i == 9 ? build_blocks(arena, "4 | ", "0; 1; 1; 0")
                                                      : &single;
            struct sp_reshard_request alone = request_of(from, to, 2, shape), shared = alone;
            shared.arrivals = arrivals;
            struct sp_reshard *one = plan(&alone), *other = plan(&shared);
            cr_expect_float_eq(one->seconds, other->seconds, 1e-12, "%s from %u", targets[t], i);
            cr_expect_float_eq(one->bytes, other->bytes, 1e-6, "%s from %u", targets[t], i);
            gathered += one->step_count > other->step_count;
        }
    }
    cr_expect_gt(gathered, 8);
}

Test(reshard, device_lists)
{
    static const int64_t shape[] = {8};
    struct sp_sharding *several = build_blocks(arena, "4", "0; 1; 1; 0"), *pairs = build_blocks(arena, "2", "0 2; 1 3");
    struct sp_mesh *mesh = build_mesh(arena, "x=4", NULL);
    struct sp_sharding *whole, *split = build_axes(arena, mesh, "x");
    cr_assert_eq(sp_sharding_create_axes(arena, mesh, 1, &whole, &err), SP_OK);
    struct sp_reshard_request request = request_of(several, split, 1, shape);
    carry_out(&request, plan(&request));
    request = request_of(split, several, 1, shape);
    carry_out(&request, plan(&request));
    request = request_of(pairs, split, 1, shape);
    struct sp_reshard *reshard = plan(&request);
    carry_out(&request, reshard);
    request = request_of(pairs, whole, 1, shape);
    reshard = plan(&request);
    cr_expect_eq(reshard->steps[0].kind, SP_ALL_GATHER, "%s", steps_text(reshard));
    carry_out(&request, reshard);
}

Test(reshard, kinds_without_devices)
{
    static const int64_t shape[] = {16, 16};
    struct sp_mesh *mesh = build_mesh(arena, "x=2 y=4", NULL);
    struct sp_sharding replicated = {.kind = SP_SHARDING_REPLICATED}, *split = build_axes(arena, mesh, "x | y");
    struct sp_sharding unreduced = {.kind = SP_SHARDING_UNREDUCED, .combiner = SP_COMBINE_MAX};
    struct sp_reshard_request request = request_of(&replicated, &replicated, 2, shape);
    struct sp_reshard *reshard = plan(&request);
    cr_expect_eq(reshard->step_count, 0);
    cr_expect_eq(reshard->peak_bytes, 1024.0);
    request = request_of(split, &replicated, 2, shape);
    cr_expect_str_eq(steps_text(plan(&request)), "all-gather {\"x\"} on axis 0, {\"y\"} on axis 1: 896 B, 3.90 us");
    request = request_of(&unreduced, &replicated, 2, shape);
    request.device_count = 4;
    reshard = plan(&request);
    carry_out(&request, reshard);
    request = request_of(&unreduced, split, 2, shape);
    request.device_count = 8;
    reshard = plan(&request);
    cr_expect_eq(reshard->steps[0].kind, SP_REDUCE_SCATTER, "%s", steps_text(reshard));
    carry_out(&request, reshard);
    request.device_count = 0;
    request.from = &replicated;
    request.to = &unreduced;
    cr_expect_eq(sp_reshard_plan(arena, &request, &reshard, &err), SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "DEVICES_UNKNOWN");
}

Test(reshard, combiners_that_differ)
{
    static const int64_t shape[] = {16};
    struct sp_mesh *mesh = build_mesh(arena, "x=2 y=2", NULL);
    struct sp_sharding *from, *to;
    cr_assert_eq(sp_sharding_create_axes(arena, mesh, 1, &from, &err), SP_OK);
    cr_assert_eq(sp_sharding_create_axes(arena, mesh, 1, &to, &err), SP_OK);
    from->partial = build_refs(arena, mesh, "x");
    from->combiner = SP_COMBINE_SUM;
    to->partial = build_refs(arena, mesh, "x");
    to->combiner = SP_COMBINE_MAX;
    struct sp_reshard_request request = request_of(from, to, 1, shape);
    struct sp_reshard *reshard = plan(&request);
    cr_expect_eq(reshard->steps[reshard->step_count - 1].kind, SP_TO_PARTIAL);
    carry_out(&request, reshard);
    to->combiner = SP_COMBINE_SUM;
    cr_expect_eq(plan(&request)->step_count, 0);
}

Test(reshard, refusals)
{
    static const int64_t shape[] = {16}, negative[] = {-1};
    struct sp_sharding manual = {.kind = SP_SHARDING_MANUAL}, unknown = {.kind = SP_SHARDING_UNKNOWN},
                       tuple = {.kind = SP_SHARDING_TUPLE}, whole = {.kind = SP_SHARDING_REPLICATED};
    struct {
        const struct sp_sharding *from;
        const char *code;
    } cases[] = {{&manual, "HOLDING_UNKNOWN"}, {&unknown, "HOLDING_UNKNOWN"}, {&tuple, "TUPLE_SHARDING"}};
    struct sp_reshard *reshard = NULL;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sp_reshard_request request = request_of(&whole, cases[i].from, 1, shape);
        request.device_count = 4;
        sp_error_clear(&err);
        cr_expect_eq(sp_reshard_plan(arena, &request, &reshard, &err), SP_ERR_REQUEST);
        cr_expect_str_eq(err.code, cases[i].code);
        cr_expect_not_null(strstr(err.message, "'to'"), "%s", err.message);
    }
    struct sp_reshard_request request = request_of(&whole, &whole, 1, negative);
    sp_error_clear(&err);
    cr_expect_eq(sp_reshard_plan(arena, &request, &reshard, &err), SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "EXTENT_NEGATIVE");
    request = request_of(&whole, &whole, 1, shape);
    request.links = NULL;
    sp_error_clear(&err);
    cr_expect_eq(sp_reshard_plan(arena, &request, &reshard, &err), SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "LINKS_MISSING");
    cr_expect_null(reshard);
}

/* 10^12 devices cost nothing; their axes have more prime parts than a search takes. */
Test(reshard, huge_meshes)
{
    static const int64_t shape[] = {1000000, 1000000};
    struct sp_mesh *mesh = build_mesh(arena, "x=1000000 y=1000000", NULL);
    struct sp_sharding *from = build_axes(arena, mesh, "x | "), *to = build_axes(arena, mesh, " | x");
    struct sp_reshard_request request = request_of(from, to, 2, shape);
    request.collectives_only = false;
    struct sp_reshard *reshard = plan(&request);
    cr_expect(!reshard->is_optimal);
    /* Both are a megabyte sent and received, but an all-to-all is a message to each of a million devices. */
    cr_expect_eq(reshard->step_count, 3, "%s", steps_text(reshard));
    cr_expect_lt(reshard->seconds, 0.01);
}

/* More layouts than a search can look at: still no gather of everything. A permute of one tile of 4 bytes; and 64
   slices of another axis, a permute, and a gather of one row's 64 elements (6 messages on a tree), against 22 us for
   all. */
Test(reshard, large_meshes_permute)
{
    const int64_t line[] = {4096}, square[] = {64, 64};
    struct sp_mesh *mesh = build_mesh(arena, "x=4096", NULL);
    struct sp_sharding *reversed = build_axes(arena, mesh,
                                              "x:(2048)2 x:(1024)2 x:(512)2 x:(256)2 x:(128)2 x:(64)2 x:(32)2 x:(16)2 "
                                              "x:(8)2 x:(4)2 x:(2)2 x:(1)2");
    struct sp_reshard_request request = request_of(build_axes(arena, mesh, "x"), reversed, 1, line);
    struct sp_reshard *reshard = plan(&request);
    cr_expect_eq(reshard->step_count, 1);
    cr_expect_eq(reshard->steps[0].kind, SP_COLLECTIVE_PERMUTE);
    expect_seconds(reshard, 1e-6 + 4 / 1e9);
    carry_out(&request, reshard);

    struct sp_sharding *rows = build_axes(arena, mesh, "x:(1)64 | ");
    struct sp_sharding *columns = build_axes(arena, mesh, " | x:(32)2 x:(16)2 x:(8)2 x:(4)2 x:(2)2 x:(1)2");
    request = request_of(rows, columns, 2, square);
    reshard = plan(&request);
    cr_expect_leq(reshard->seconds, 1e-6 + 4 / 1e9 + 6e-6 + 63 * 4 / 1e9 + 1e-12, "%s", steps_text(reshard));
    carry_out(&request, reshard);
}

/* Partial values over many digits, that go into as many shards: one reduce-scatter is found and proved in few steps,
   though the orders of ten digits are millions. It sends all but its own share of the tile, as each of its rows does on
   a ring. */
Test(reshard, many_partial_digits)
{
    static const int64_t shape[] = {2, 4096};
    struct sp_mesh *mesh = build_mesh(arena, "x=1024", NULL);
    struct sp_sharding *from = build_axes(arena, mesh, " | "), *to = build_axes(arena, mesh, " | x");
    uint64_t left = 10000;
    sum_over(from, "x");
    struct sp_reshard_request request = request_of(from, to, 2, shape);
    request.steps_left = &left;
    struct sp_reshard *reshard = plan(&request);
    cr_assert_eq(reshard->step_count, 1, "%s", steps_text(reshard));
    cr_expect_eq(reshard->steps[0].kind, SP_REDUCE_SCATTER);
    cr_expect(reshard->is_optimal);
    cr_expect_float_eq(reshard->bytes, 4.0 * 2 * 4096 * 1023 / 1024, 1e-6);
    cr_expect_gt(left, 0, "the search came to its end by itself");
}

/* 48 elements in 16 blocks of 3 do not nest in blocks of 1024, so partial values over the other digits cannot be
   scattered there: the search looks at no more of the ways to deal them out than it may. */
Test(reshard, many_uneven_partial_digits)
{
    static const int64_t shape[] = {48, 7};
    struct sp_mesh *mesh = build_mesh(arena, "x=1024", NULL);
    struct sp_sharding *from = build_axes(arena, mesh, "x:(1)16 | "), *to = build_axes(arena, mesh, "x | ");
    uint64_t used[2];
    sum_over(from, "x:(16)64");
    struct sp_reshard_request request = request_of(from, to, 2, shape);
    for (int i = 0; i < 2; i++) {
        const uint64_t given = i == 0 ? 500 : 5000;
        uint64_t left = given;
        request.steps_left = &left;
        struct sp_reshard *reshard = plan(&request);
        cr_expect_gt(reshard->step_count, 0); /* found with fewer, joined digits */
        cr_expect(!reshard->is_optimal);
        used[i] = given - left;
    }
    cr_expect_gt(used[0], 250);
    cr_expect_gt(used[1], 2500, "orders of the digits are more than that");
}

Test(reshard, empty_and_scalar)
{
    static const int64_t empty[] = {0, 16};
    struct sp_mesh *mesh = build_mesh(arena, "x=2 y=2", NULL);
    struct sp_sharding *from = build_axes(arena, mesh, "x | y"), *to = build_axes(arena, mesh, "y | x");
    struct sp_reshard_request request = request_of(from, to, 2, empty);
    carry_out(&request, plan(&request));
    from = build_axes(arena, mesh, "");
    to = build_axes(arena, mesh, "");
    sum_over(from, "x y");
    request = request_of(from, to, 0, NULL);
    struct sp_reshard *reshard = plan(&request);
    cr_expect_eq(reshard->steps[0].kind, SP_ALL_REDUCE);
    carry_out(&request, reshard);
}

/* Elements of 4 bits: half a byte each. */
Test(reshard, small_elements)
{
    static const int64_t shape[] = {16, 16};
    struct sp_mesh *mesh = build_mesh(arena, "x=2", NULL);
    struct sp_sharding *from = build_axes(arena, mesh, "x | "), *to = build_axes(arena, mesh, " | ");
    struct sp_reshard_request request = request_of(from, to, 2, shape);
    request.dtype = SP_DTYPE_INT4;
    cr_expect_eq(plan(&request)->bytes, 64.0);
}

/* ---- costs ---- */

static struct sp_reshard_costs *costs_of(const struct sp_mesh *mesh, const struct sp_links *links, size_t cache_bytes)
{
    struct sp_reshard_costs *costs = NULL;
    cr_assert_eq(sp_reshard_costs_create(NULL, links, mesh, cache_bytes, &costs, &err), SP_OK, "%s", err.message);
    return costs;
}

Test(reshard, costs_are_those_of_plans)
{
    static const int64_t shape[] = {24, 24};
    static const char *const texts[] = {" | ",   "x | ",   " | y",   "x | y",
                                        "y | x", "y x | ", "x y | ", "y:(1)2 | x y:(2)2"};
    const size_t count = sizeof(texts) / sizeof(texts[0]);
    struct sp_mesh *mesh = build_mesh(arena, "x=2 y=4", NULL);
    struct sp_reshard_costs *costs = costs_of(mesh, &nodes, 1 << 20);
    cr_expect_eq(sp_reshard_costs_digits(costs), 3);
    for (size_t round = 0; round < 2; round++)
        for (size_t i = 0; i < count; i++)
            for (size_t j = 0; j < count; j++) {
                struct sp_sharding *from = build_axes(arena, mesh, texts[i]), *to = build_axes(arena, mesh, texts[j]);
                struct sp_reshard_request request = request_of(from, to, 2, shape);
                struct sp_layout a, b;
                request.links = &nodes;
                cr_assert_eq(sp_layout_of(costs, from, &a, &err), SP_OK);
                cr_assert_eq(sp_layout_of(costs, to, &b, &err), SP_OK);
                double seconds = sp_reshard_cost(costs, 2, shape, 4, &a, &b, NULL), planned = plan(&request)->seconds;
                cr_expect(fabs(seconds - planned) <= 1e-12 * planned, "[%s] to [%s]: %.15g, planned %.15g", texts[i],
                          texts[j], seconds, planned);
            }
    struct sp_reshard_counts counts = sp_reshard_costs_counts(costs);
    cr_expect_eq(counts.fast + counts.cached + counts.searched, 2 * count * count);
    cr_expect_eq(counts.cached, counts.searched, "each question was searched once and found once");
    cr_expect_gt(counts.fast, count);
    sp_reshard_costs_destroy(costs);
}

/* A table of four entries forgets, and still answers rightly; without a table every question is searched. */
Test(reshard, costs_forget)
{
    struct sp_mesh *mesh = build_mesh(arena, "x=2 y=4", NULL);
    struct sp_reshard_costs *small = costs_of(mesh, &nodes, 1100), *none = costs_of(mesh, &nodes, 0);
    struct sp_layout a, b;
    cr_assert_eq(sp_layout_of(small, build_axes(arena, mesh, "x | y"), &a, &err), SP_OK);
    cr_assert_eq(sp_layout_of(small, build_axes(arena, mesh, "y | x"), &b, &err), SP_OK);
    for (int round = 0; round < 2; round++)
        for (int64_t extent = 8; extent < 64; extent += 8) {
            const int64_t shape[] = {extent, 32};
            double seconds = sp_reshard_cost(small, 2, shape, 4, &a, &b, NULL);
            cr_expect_eq(sp_reshard_cost(small, 2, shape, 4, &a, &b, NULL), seconds);
            cr_expect_eq(sp_reshard_cost(none, 2, shape, 4, &a, &b, NULL), seconds);
        }
    cr_expect_eq(sp_reshard_costs_counts(small).searched, 14, "%d", (int)sp_reshard_costs_counts(small).searched);
    cr_expect_eq(sp_reshard_costs_counts(small).cached, 14);
    cr_expect_eq(sp_reshard_costs_counts(none).searched, 14);
    sp_reshard_costs_destroy(small);
    sp_reshard_costs_destroy(none);
}

Test(reshard, costs_refuse)
{
    struct sp_mesh *mesh = build_mesh(arena, "x=6 y=4", NULL), *large = build_mesh(arena, "x=2097152", NULL);
    struct sp_reshard_costs *costs = costs_of(mesh, &flat, 0), *none = NULL;
    struct sp_layout layout;
    /* 6 is cut in 2 * 3: a part of size 3 at the major end falls between no digits. */
    cr_expect_eq(sp_layout_of(costs, build_axes(arena, mesh, "x:(1)3"), &layout, &err), SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "NO_LAYOUT");
    sp_error_clear(&err);
    cr_expect_eq(sp_reshard_costs_create(NULL, &flat, large, 0, &none, &err), SP_ERR_LIMIT);
    cr_expect_str_eq(err.limit, "SP_RESHARD_MAX_DIGITS");
    cr_expect_null(none);
    sp_reshard_costs_destroy(costs);
    sp_reshard_costs_destroy(NULL);
}
