/* Recipes: what they select is held against plain loops over the elements. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "realize/recipe.h"

#define SOURCE_BYTES 400000

struct world {
    unsigned char *model, *other;
    uint64_t reads, bytes;
};

static bool read_world(void *context, uint32_t source, uint64_t offset, void *bytes, size_t size)
{
    struct world *world = context;
    cr_assert(source <= 1 && offset <= SOURCE_BYTES && size <= SOURCE_BYTES - offset && size <= SP_RECIPE_BUFFER,
              "source %u, %lu bytes at %lu", source, (unsigned long)size, (unsigned long)offset);
    memcpy(bytes, (source == 0 ? world->model : world->other) + offset, size);
    world->reads++;
    world->bytes += size;
    return true;
}

static bool append(void *context, const void *bytes, size_t size)
{
    cr_assert_leq(size, SP_RECIPE_BUFFER);
    sp_buf_append(context, bytes, size);
    return !sp_buf_failed(context);
}

/* xorshift64: the same numbers everywhere. */
static uint64_t state;
static uint64_t next(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static struct world begin(uint64_t seed)
{
    struct world world = {malloc(SOURCE_BYTES), malloc(SOURCE_BYTES)};
    state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (size_t i = 0; i < SOURCE_BYTES; i++) {
        world.model[i] = (unsigned char)next(256);
        world.other[i] = (unsigned char)next(256);
    }
    return world;
}

static void end(struct world *world)
{
    free(world->model);
    free(world->other);
}

static struct sp_buf stream(const struct sp_recipe *recipe, struct world *world)
{
    struct sp_buf buf;
    struct sp_error err = {0};
    const struct sp_recipe_reader reader = {read_world, world};
    sp_buf_init(&buf, (size_t)1 << 28);
    const struct sp_sink sink = {.write = append, .context = &buf};
    cr_assert_eq(sp_recipe_stream(recipe, &reader, &sink, &err), SP_OK, "%s", err.message);
    cr_assert_eq(buf.size, sp_recipe_size(recipe));
    return buf;
}

static void expect(const struct sp_recipe *recipe, struct world *world, const struct sp_buf *wanted)
{
    struct sp_buf buf = stream(recipe, world);
    cr_assert(buf.size == wanted->size && (buf.size == 0 || memcmp(buf.data, wanted->data, buf.size) == 0));
    sp_buf_release(&buf);
}

/* Some ranges of an axis: none at all seldom, all of it often. */
static struct sp_axis_ranges random_ranges(int64_t dim, struct sp_range *room)
{
    struct sp_axis_ranges axis = {0, room};
    if (next(3) == 0) {
        room[0] = (struct sp_range){0, dim};
        return (struct sp_axis_ranges){1, room};
    }
    for (int64_t at = (int64_t)next((uint64_t)dim); at < dim && axis.count < 3;) {
        const int64_t size = 1 + (int64_t)next((uint64_t)(dim - at));
        room[axis.count++] = (struct sp_range){at, at + size};
        at += size + 1 + (int64_t)next(3);
    }
    return axis;
}

static bool is_in(const struct sp_axis_ranges *axis, int64_t index)
{
    for (uint32_t i = 0; i < axis->count; i++) {
        if (index >= axis->ranges[i].start && index < axis->ranges[i].limit)
            return true;
    }
    return false;
}

struct box {
    uint32_t rank;
    int64_t dims[5];
    struct sp_range room[5][3];
    struct sp_axis_ranges axes[5];
    int64_t elements;
};

static void random_box(struct box *box, int64_t most)
{
    box->rank = (uint32_t)next(5);
    box->elements = 1;
    for (uint32_t i = 0; i < box->rank; i++) {
        const int64_t room = most / box->elements;
        box->dims[i] = 1 + (int64_t)next((uint64_t)(room < 40 ? room : next(2) ? 40 : room < 900 ? room : 900));
        box->elements *= box->dims[i];
        box->axes[i] = random_ranges(box->dims[i], box->room[i]);
    }
}

static bool box_has(const struct box *box, int64_t element)
{
    for (uint32_t i = box->rank; i-- > 0;) {
        if (!is_in(&box->axes[i], element % box->dims[i]))
            return false;
        element /= box->dims[i];
    }
    return true;
}

/* Every element is asked whether it is in the box. */
static void naive(const struct box *box, const unsigned char *bytes, uint32_t element_bytes, struct sp_buf *buf)
{
    for (int64_t i = 0; i < box->elements; i++) {
        if (box_has(box, i))
            sp_buf_append(buf, bytes + (size_t)i * element_bytes, element_bytes);
    }
}

/* A recipe of literals, ranges and boxes, and what it stands for. */
static struct sp_recipe *random_recipe(struct world *world, struct sp_buf *wanted)
{
    static const uint32_t sizes[] = {1, 2, 4, 8, 16};
    struct sp_recipe *recipe = sp_recipe_create();
    sp_buf_init(wanted, (size_t)1 << 28);
    for (uint64_t parts = 1 + next(5); parts-- > 0;) {
        uint32_t source = 0;
        const unsigned char *bytes = world->model;
        if (next(2) == 0) {
            cr_assert(sp_recipe_source(recipe, "weights.bin", &source) && source == 1);
            bytes = world->other;
        }
        const uint64_t offset = next(1000), kind = next(4);
        struct box box;
        const uint32_t element_bytes = sizes[next(5)];
        if (kind == 0) {
            const size_t size = (size_t)next(50);
            cr_assert(sp_recipe_add(recipe, bytes + offset, size));
            sp_buf_append(wanted, bytes + offset, size);
        } else if (kind == 1) {
            const uint64_t size = next(5000);
            cr_assert(sp_recipe_keep(recipe, source, offset, size));
            sp_buf_append(wanted, bytes + offset, (size_t)size);
        } else {
            random_box(&box, 20000);
            cr_assert(sp_recipe_box(recipe, source, offset, box.rank, box.dims, 8 * element_bytes, box.axes));
            naive(&box, bytes + offset, element_bytes, wanted);
        }
    }
    return recipe;
}

Test(recipe, selects_what_plain_loops_select)
{
    for (uint64_t seed = 1; seed <= 600; seed++) {
        struct world world = begin(seed);
        struct sp_buf wanted;
        struct sp_recipe *recipe = random_recipe(&world, &wanted);
        expect(recipe, &world, &wanted);
        sp_buf_release(&wanted);
        sp_recipe_destroy(recipe);
        end(&world);
    }
}

Test(recipe, reads_at_any_offset)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct world world = begin(seed);
        struct sp_buf wanted;
        struct sp_recipe *recipe = random_recipe(&world, &wanted);
        const struct sp_recipe_reader reader = {read_world, &world};
        for (int i = 0; i < 200; i++) {
            unsigned char bytes[3000];
            const size_t offset = (size_t)next(wanted.size + 2), size = (size_t)next(sizeof bytes);
            const size_t left = offset < wanted.size ? wanted.size - offset : 0;
            size_t got = 9999;
            cr_assert_eq(sp_recipe_read(recipe, &reader, offset, bytes, size, &got, NULL), SP_OK);
            cr_assert_eq(got, left < size ? left : size);
            cr_assert(got == 0 || memcmp(bytes, wanted.data + offset, got) == 0, "seed %lu", (unsigned long)seed);
        }
        sp_buf_release(&wanted);
        sp_recipe_destroy(recipe);
        end(&world);
    }
}

/* Elements of 4 and 2 bits: the boxes that fit are those whose runs begin and end between bytes. */
Test(recipe, cuts_parts_of_bytes_where_it_can)
{
    struct world world = begin(7);
    uint32_t fitting = 0, refused = 0;
    for (int round = 0; round < 3000; round++) {
        struct box box;
        struct sp_buf wanted;
        const uint32_t bits = next(2) ? 4 : 2;
        random_box(&box, 600);
        sp_buf_init(&wanted, 10000);
        uint64_t have = 0;
        unsigned char byte = 0;
        for (int64_t i = 0; i < box.elements; i++) {
            if (!box_has(&box, i))
                continue;
            const unsigned element = world.model[(size_t)i * bits / 8] >> ((unsigned)i * bits % 8) & ((1U << bits) - 1);
            byte |= (unsigned char)(element << (have * bits % 8));
            if (++have * bits % 8 == 0) {
                sp_buf_append(&wanted, &byte, 1);
                byte = 0;
            }
        }
        if (!sp_recipe_box_fits(box.rank, box.dims, bits, box.axes)) {
            refused++;
        } else {
            struct sp_recipe *recipe = sp_recipe_create();
            fitting++;
            cr_assert(sp_recipe_box(recipe, 0, 0, box.rank, box.dims, bits, box.axes));
            struct sp_buf buf = stream(recipe, &world);
            cr_assert_eq(buf.size, (have * bits + 7) / 8);
            cr_assert(wanted.size == 0 || memcmp(buf.data, wanted.data, wanted.size) == 0);
            if (have * bits % 8 != 0) /* what lies behind the last element is nobody's */
                cr_assert_eq((unsigned char)buf.data[buf.size - 1] & ((1U << (have * bits % 8)) - 1), byte);
            sp_buf_release(&buf);
            sp_recipe_destroy(recipe);
        }
        sp_buf_release(&wanted);
    }
    cr_expect(fitting > 300 && refused > 300, "%u fit, %u do not", fitting, refused);
    end(&world);
}

Test(recipe, reads_small_runs_together)
{
    struct world world = begin(3);
    struct sp_recipe *recipe = sp_recipe_create();
    struct sp_range rows = {0, 100000}, column = {1, 2};
    const struct sp_axis_ranges axes[] = {{1, &rows}, {1, &column}};
    cr_assert(sp_recipe_box(recipe, 0, 0, 2, (int64_t[]){100000, 2}, 8, axes)); /* int8 [100000, 2], second column */
    struct sp_buf buf = stream(recipe, &world);
    cr_expect(world.reads <= 4 && world.bytes <= 200000, "%lu reads of %lu bytes", (unsigned long)world.reads,
              (unsigned long)world.bytes); /* windows of 64 KiB over 200 kB */
    for (size_t i = 0; i < 100000; i++)
        cr_assert_eq((unsigned char)buf.data[i], world.model[2 * i + 1]);
    sp_buf_release(&buf);
    sp_recipe_destroy(recipe);
    /* Runs of 4 bytes, 100 kB from each other: the bytes between them are not read. */
    world.reads = world.bytes = 0;
    recipe = sp_recipe_create();
    struct sp_range all = {0, 3}, few = {10, 14};
    const struct sp_axis_ranges far[] = {{1, &all}, {1, &few}};
    cr_assert(sp_recipe_box(recipe, 0, 0, 2, (int64_t[]){3, 100000}, 8, far));
    buf = stream(recipe, &world);
    cr_expect(world.bytes == 12 && memcmp(buf.data + 4, world.model + 100010, 4) == 0);
    sp_buf_release(&buf);
    sp_recipe_destroy(recipe);
    end(&world);
}

Test(recipe, appends_another)
{
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct world world = begin(seed);
        struct sp_buf first, second;
        struct sp_recipe *a = random_recipe(&world, &first), *b = random_recipe(&world, &second);
        cr_assert(sp_recipe_append(a, b) && sp_recipe_append(a, b));
        for (int i = 0; i < 2; i++)
            sp_buf_append(&first, second.data, second.size);
        expect(a, &world, &first);
        sp_recipe_clear(a);
        cr_expect(sp_recipe_size(a) == 0 && sp_recipe_append(a, b));
        expect(a, &world, &second);
        sp_buf_release(&first);
        sp_buf_release(&second);
        sp_recipe_destroy(a);
        sp_recipe_destroy(b);
        end(&world);
    }
}

static bool copy_range(void *context, uint64_t offset, uint64_t size)
{
    sp_buf_printf(context, "<%lu+%lu>", (unsigned long)offset, (unsigned long)size);
    return true;
}

Test(recipe, lets_a_sink_copy_ranges_of_the_model)
{
    struct world world = begin(5);
    struct sp_recipe *recipe = sp_recipe_create();
    uint32_t source;
    world.model[10] = 'm';
    world.other[20] = 'o';
    cr_assert(sp_recipe_add(recipe, "ab", 2) && sp_recipe_keep(recipe, 0, 100, 50) &&
              sp_recipe_keep(recipe, 0, 150, 5) && sp_recipe_source(recipe, "x", &source) &&
              sp_recipe_keep(recipe, source, 20, 1) && sp_recipe_keep(recipe, 0, 10, 1));
    struct sp_buf buf;
    sp_buf_init(&buf, 1000);
    const struct sp_recipe_reader reader = {read_world, &world};
    const struct sp_sink sink = {append, copy_range, &buf};
    cr_expect_eq(sp_recipe_stream(recipe, &reader, &sink, NULL), SP_OK);
    cr_expect_str_eq(buf.data, "ab<100+55>o<10+1>");
    sp_buf_release(&buf);
    sp_recipe_destroy(recipe);
    end(&world);
}

static bool refuse_read(void *context, uint32_t source, uint64_t offset, void *bytes, size_t size)
{
    (void)offset, (void)bytes, (void)size;
    return source != *(uint32_t *)context;
}

static bool refuse_write(void *context, const void *bytes, size_t size)
{
    (void)context, (void)bytes, (void)size;
    return false;
}

Test(recipe, says_which_source_failed)
{
    struct sp_recipe *recipe = sp_recipe_create();
    uint32_t source, broken = 0;
    struct sp_buf buf;
    sp_buf_init(&buf, 1000);
    cr_assert(sp_recipe_source(recipe, "layers/w.bin", &source) && source == 1);
    cr_assert(sp_recipe_source(recipe, "layers/w.bin", &source) && source == 1 && sp_recipe_source_count(recipe) == 2);
    cr_expect_str_eq(sp_recipe_location(recipe, 1), "layers/w.bin");
    cr_assert(sp_recipe_keep(recipe, 0, 0, 4) && sp_recipe_keep(recipe, 1, 0, 4));
    const struct sp_recipe_reader reader = {refuse_read, &broken};
    const struct sp_sink sink = {.write = append, .context = &buf}, full = {.write = refuse_write};
    struct sp_error err = {0};
    cr_expect_eq(sp_recipe_stream(recipe, &reader, &sink, &err), SP_ERR_IO);
    cr_expect_str_eq(err.message, "The original model could not be read.");
    broken = 1;
    sp_error_clear(&err);
    cr_expect_eq(sp_recipe_stream(recipe, &reader, &sink, &err), SP_ERR_IO);
    cr_expect_str_eq(err.message, "The external data 'layers/w.bin' could not be read.");
    broken = 2;
    sp_error_clear(&err);
    cr_expect_eq(sp_recipe_stream(recipe, &reader, &full, &err), SP_ERR_IO);
    cr_expect_str_eq(err.code, "WRITE_FAILED");
    sp_buf_release(&buf);
    sp_recipe_destroy(recipe);
}

Test(recipe, refuses_boxes_outside_of_their_tensor)
{
    struct sp_range range[] = {{0, 4}, {2, 5}};
    const struct sp_axis_ranges over = {1, &(struct sp_range){0, 5}}, mixed = {2, range},
                                backward = {1, &(struct sp_range){3, 2}}, fine = {1, &(struct sp_range){0, 1}};
    const struct {
        const struct sp_axis_ranges *axis;
        int64_t dim;
    } wrong[] = {{&over, 4}, {&mixed, 8}, {&backward, 8}, {&fine, -1}, {&fine, INT64_MAX}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct sp_recipe *recipe = sp_recipe_create();
        struct sp_error err = {0};
        cr_expect_not(sp_recipe_box(recipe, 0, 0, 1, &wrong[i].dim, 8, wrong[i].axis), "%zu", i);
        cr_expect_not(sp_recipe_add(recipe, "x", 1), "a failure stays");
        cr_expect_eq(sp_recipe_status(recipe, &err), SP_ERR_MODEL);
        sp_recipe_clear(recipe);
        cr_expect(sp_recipe_add(recipe, "x", 1) && sp_recipe_status(recipe, NULL) == SP_OK);
        sp_recipe_destroy(recipe);
    }
}

static struct sp_buf save(const struct sp_recipe *recipe)
{
    struct sp_buf buf;
    sp_buf_init(&buf, (size_t)1 << 24);
    const struct sp_sink sink = {.write = append, .context = &buf};
    cr_assert_eq(sp_recipe_save(recipe, &sink, NULL), SP_OK);
    return buf;
}

Test(recipe, comes_back_from_its_bytes)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct world world = begin(seed);
        struct sp_buf wanted;
        struct sp_recipe *recipe = random_recipe(&world, &wanted), *again;
        struct sp_error err = {0};
        struct sp_buf saved = save(recipe);
        cr_assert_eq(sp_recipe_load(saved.data, saved.size, &again, &err), SP_OK, "%s", err.message);
        expect(again, &world, &wanted);
        cr_expect_eq(sp_recipe_source_count(again), sp_recipe_source_count(recipe));
        struct sp_buf twice = save(again);
        cr_expect(twice.size == saved.size && memcmp(twice.data, saved.data, saved.size) == 0);
        sp_buf_release(&twice);
        sp_buf_release(&saved);
        sp_buf_release(&wanted);
        sp_recipe_destroy(recipe);
        sp_recipe_destroy(again);
        end(&world);
    }
}

/* Any change of any bit, and any end, is noticed. */
Test(recipe, refuses_damaged_bytes)
{
    struct world world = begin(11);
    struct sp_buf wanted;
    struct sp_recipe *recipe = random_recipe(&world, &wanted), *again;
    struct sp_buf saved = save(recipe);
    for (size_t i = 0; i < saved.size * 8; i++) {
        struct sp_error err = {0};
        saved.data[i / 8] = (char)(saved.data[i / 8] ^ 1 << i % 8);
        cr_assert_eq(sp_recipe_load(saved.data, saved.size, &again, &err), SP_ERR_MALFORMED, "bit %zu", i);
        cr_assert_str_eq(err.code, "BAD_RECIPE");
        saved.data[i / 8] = (char)(saved.data[i / 8] ^ 1 << i % 8);
    }
    for (size_t size = 0; size < saved.size; size++)
        cr_assert_eq(sp_recipe_load(saved.data, size, &again, NULL), SP_ERR_MALFORMED, "%zu bytes", size);
    sp_buf_release(&saved);
    sp_buf_release(&wanted);
    sp_recipe_destroy(recipe);
    end(&world);
}

Test(recipe, knows_many_sources)
{
    struct sp_recipe *recipe = sp_recipe_create(), *whole = sp_recipe_create();
    char location[32];
    uint32_t source;
    for (uint32_t i = 1; i <= 2000; i++) {
        (void)snprintf(location, sizeof location, "tensor.%u", i);
        cr_assert(sp_recipe_source(recipe, location, &source) && source == i);
        cr_assert(sp_recipe_keep(recipe, source, i, 1));
    }
    for (uint32_t i = 2000; i >= 1; i--) {
        (void)snprintf(location, sizeof location, "tensor.%u", i);
        cr_assert(sp_recipe_source(recipe, location, &source) && source == i);
    }
    cr_assert(sp_recipe_source(whole, "tensor.7", &source) && sp_recipe_append(whole, recipe));
    cr_expect(sp_recipe_source_count(whole) == 2001 && strcmp(sp_recipe_location(whole, 2), "tensor.1") == 0);
    sp_recipe_destroy(recipe);
    sp_recipe_destroy(whole);
}
