/*
 * The catalog against its files, which are read here by jansson: what the generator made of them at build time, what
 * the parser makes of the same file as a described device, and what is written of either.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <math.h>
#include <stddef.h>

#include "cost/cluster/cluster.h"
#include "support/data_files.h"

#define FOLDER SOURCE_ROOT "/api/devices"

static struct sp_arena *arena;
static struct sp_error err;

static void setup(void)
{
    arena = sp_arena_create(0);
    sp_error_clear(&err);
}

static void teardown(void)
{
    sp_arena_destroy(arena);
}

TestSuite(catalog, .init = setup, .fini = teardown);

static json_t *file_of(const char *name)
{
    char path[sizeof FOLDER + SP_DEVICE_NAME_SIZE + sizeof "/.json"];
    size_t size;

    (void)snprintf(path, sizeof path, FOLDER "/%s.json", name);
    unsigned char *text = data_read(path, &size);
    cr_assert_not_null(text, "%s", path);
    json_t *json = json_loadb((const char *)text, size, JSON_REJECT_DUPLICATES, NULL);
    free(text);
    cr_assert_not_null(json, "%s is no JSON", path);
    return json;
}

static double number_of(const json_t *object, const char *member)
{
    return json_number_value(json_object_get(object, member)); /* 0 where it is absent */
}

/* Every plain number of the file, member by member: a mistake that the generator, the parser and the writer share. */
static void expect_numbers(const json_t *file, const struct sp_device *device)
{
    static const struct {
        const char *member;
        size_t offset;
    } numbers[] = {{"memory_bytes", offsetof(struct sp_device, memory_bytes)},
                   {"memory_reported_bytes", offsetof(struct sp_device, memory_reported_bytes)},
                   {"memory_bandwidth", offsetof(struct sp_device, memory_bandwidth)},
                   {"flops_tf32", offsetof(struct sp_device, flops_tf32)},
                   {"link_bandwidth", offsetof(struct sp_device, link_bandwidth)},
                   {"host_bandwidth", offsetof(struct sp_device, host_bandwidth)},
                   {"watts", offsetof(struct sp_device, watts)},
                   {"permuted_bandwidth", offsetof(struct sp_device, permuted_bandwidth)},
                   {"functions_per_second", offsetof(struct sp_device, functions_per_second)},
                   {"unhidden", offsetof(struct sp_device, unhidden)}};
    const json_t *attention = json_object_get(file, "attention"), *prefill = json_object_get(attention, "prefill"),
                 *decode = json_object_get(attention, "decode"), *price = json_object_get(file, "price_per_hour");

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        cr_expect_eq(*(const double *)((const char *)device + numbers[i].offset), number_of(file, numbers[i].member),
                     "%s %s", device->name, numbers[i].member);
    cr_expect_eq(device->link_latency,
                 json_object_get(file, "link_latency") != NULL ? number_of(file, "link_latency") : SP_HOST_LATENCY);
    cr_expect_eq(device->units, number_of(file, "units"), "%s", device->name);
    cr_expect_eq(device->link_group, number_of(file, "link_group"), "%s", device->name);
    cr_expect_eq(device->price.usd, number_of(price, "usd"), "%s", device->name);
    cr_expect_eq(device->prefill.start_seconds, number_of(prefill, "start_seconds"));
    cr_expect_eq(device->prefill.flops_share, number_of(prefill, "flops_share"));
    cr_expect_eq(device->prefill.memory_share, number_of(prefill, "memory_share"));
    cr_expect_eq(device->prefill.half_queries, number_of(prefill, "half_queries"));
    cr_expect_eq(device->decode.start_seconds, number_of(decode, "start_seconds"));
    cr_expect_eq(device->decode.memory_share, number_of(decode, "memory_share"));
    cr_expect_eq(device->decode.tile_keys, number_of(decode, "tile_keys"));
}

static void expect_types(const json_t *file, const struct sp_device *device)
{
    const json_t *flops = json_object_get(file, "flops"), *products = json_object_get(file, "products");

    for (int dtype = 0; dtype < SP_DTYPE_COUNT; dtype++) {
        const char *name = sp_dtype_name(dtype);
        const struct sp_device_product *product = &device->products[dtype];
        const json_t *figures = json_object_get(products, name);
        cr_expect_eq(device->flops[dtype], number_of(flops, name), "%s %s", device->name, name);
        cr_expect_eq(product->start_seconds, number_of(figures, "start_seconds"), "%s %s", device->name, name);
        cr_expect_eq(product->flops_share, number_of(figures, "flops_share"), "%s %s", device->name, name);
        cr_expect_eq(product->memory_share, number_of(figures, "memory_share"), "%s %s", device->name, name);
    }
}

static void expect_residuals(const json_t *file, const struct sp_device *device)
{
    static const char *const classes[SP_DEVICE_CLASS_COUNT] = {
        "products", "narrow_products", "prefill",           "decode", "other",
        "norm",     "collectives",     "eager_collectives", "memory"};
    const json_t *residuals = json_object_get(file, "residuals"), *narrowing = json_object_get(file, "narrowing");

    for (int i = 0; i < SP_DEVICE_CLASS_COUNT; i++) {
        const json_t *residual = json_object_get(residuals, classes[i]);
        cr_expect_eq(device->residuals[i].low, number_of(residual, "low"), "%s %s", device->name, classes[i]);
        cr_expect_eq(device->residuals[i].high, number_of(residual, "high"), "%s %s", device->name, classes[i]);
    }
    cr_expect_eq(device->narrowing_count, json_object_size(narrowing), "%s", device->name);
    for (uint32_t i = 0; i < device->narrowing_count; i++) {
        const json_t *pass = json_object_get(narrowing, device->narrowings[i].runtime);
        cr_expect_eq(device->narrowings[i].start_seconds, number_of(pass, "start_seconds"));
        cr_expect_eq(device->narrowings[i].memory_share, number_of(pass, "memory_share"));
        cr_expect_eq(device->narrowings[i].row_seconds, number_of(pass, "row_seconds"));
    }
}

static void expect_collectives(const json_t *file, const struct sp_device *device)
{
    static const char *const operations[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"};
    const json_t *collectives = json_object_get(file, "collectives");

    cr_expect_eq(device->library_count, json_object_size(collectives), "%s", device->name);
    for (uint32_t i = 0; i < device->library_count; i++) {
        const json_t *library = json_object_get(collectives, device->libraries[i].name);
        for (int k = 0; k < SP_DEVICE_OPERATION_COUNT; k++) {
            const struct sp_device_collective *collective = &device->libraries[i].operations[k];
            const json_t *figures = json_object_get(library, operations[k]),
                         *shares = json_object_get(figures, "link_share");
            cr_expect_eq(collective->start_seconds, number_of(figures, "start_seconds"));
            cr_expect_eq(collective->rank_seconds, number_of(figures, "rank_seconds"));
            cr_expect_eq(collective->half_bytes, number_of(figures, "half_bytes"));
            cr_expect_eq(collective->link_share[0], number_of(shares, "2"));
            cr_expect_eq(collective->link_share[1], number_of(shares, "4"));
            cr_expect_eq(collective->link_share[2], number_of(shares, "8"));
        }
    }
}

/* What a device is as text, from malloc. */
static char *written(const struct sp_device *device)
{
    struct sp_buf buf;
    struct sp_json json;

    sp_buf_init(&buf, 1u << 20);
    sp_json_init_buf(&json, false, &buf);
    sp_device_write(device, true, &json);
    cr_assert_eq(sp_json_finish(&json, NULL), SP_OK);
    cr_assert_not(sp_buf_failed(&buf));
    return buf.data;
}

/* The described device `json`, as a cluster takes it. */
static const struct sp_device *parsed(json_t *json)
{
    struct sp_cluster *cluster;
    json_t *request = json_pack("{s:O, s:i}", "device", json, "count", 1);

    cr_assert_eq(sp_cluster_parse(arena, request, "", &cluster, &err), SP_OK, "%s: %s", err.where, err.message);
    json_decref(request);
    return sp_cluster_device(cluster, 0);
}

/* The same values, integers and reals alike; what `a` lacks is 0 in `b`, or the latency that is assumed. */
static bool same(const json_t *a, const json_t *b)
{
    const char *name;
    json_t *value;

    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) == json_number_value(b);
    if (!json_is_object(a) || !json_is_object(b))
        return json_equal(a, b);
    json_object_foreach((json_t *)(uintptr_t)a, name, value)
    {
        if (!same(value, json_object_get(b, name)))
            return false;
    }
    json_object_foreach((json_t *)(uintptr_t)b, name, value)
    {
        const bool is_nothing =
            json_is_number(value) && (json_number_value(value) == 0 || strcmp(name, "link_latency") == 0);
        if (json_object_get(a, name) == NULL && !is_nothing)
            return false;
    }
    return true;
}

Test(catalog, every_file_is_its_entry)
{
    uint32_t count;
    const struct sp_device *catalog = sp_device_catalog(&count);

    for (uint32_t i = 0; i < count; i++) {
        json_t *file = file_of(catalog[i].name);
        expect_numbers(file, &catalog[i]);
        expect_types(file, &catalog[i]);
        expect_collectives(file, &catalog[i]);
        expect_residuals(file, &catalog[i]);
        cr_expect_str_eq(sp_device_kind_name(catalog[i].kind), json_string_value(json_object_get(file, "kind")));

        char *built = written(&catalog[i]), *read = written(parsed(file));
        json_t *again = json_loads(built, 0, NULL);
        cr_expect_str_eq(built, read, "%s: the parser and the generator differ", catalog[i].name);
        cr_expect(same(file, again), "%s: %s", catalog[i].name, built);
        char *twice = written(parsed(again));
        cr_expect_str_eq(twice, built, "%s", catalog[i].name);
        json_decref(again);
        free(twice);
        free(read);
        free(built);
        json_decref(file);
    }
}

Test(catalog, every_file_is_in_it)
{
    DIR *folder = opendir(FOLDER);
    const struct dirent *entry;
    uint32_t files = 0, count;

    cr_assert_not_null(folder);
    while ((entry = readdir(folder)) != NULL) {
        const char *end = strstr(entry->d_name, ".json");
        char name[SP_DEVICE_NAME_SIZE];
        if (end == NULL)
            continue;
        (void)snprintf(name, sizeof name, "%.*s", (int)(end - entry->d_name), entry->d_name);
        cr_expect_not_null(sp_device_find(name), "%s", entry->d_name);
        files++;
    }
    (void)closedir(folder);
    (void)sp_device_catalog(&count);
    cr_expect_eq(files, count);
}

/* Each figure says where it comes from, in so many words. */
Test(catalog, every_figure_has_a_source)
{
    static const char *const figures[] = {"memory_bytes",
                                          "memory_reported_bytes",
                                          "memory_bandwidth",
                                          "flops_tf32",
                                          "link_bandwidth",
                                          "link_group",
                                          "host_bandwidth",
                                          "watts",
                                          "units",
                                          "permuted_bandwidth",
                                          "functions_per_second",
                                          "unhidden",
                                          "products",
                                          "attention",
                                          "other",
                                          "norm",
                                          "collectives",
                                          "price_per_hour"};
    uint32_t count;
    const struct sp_device *catalog = sp_device_catalog(&count);

    for (uint32_t i = 0; i < count; i++) {
        json_t *file = file_of(catalog[i].name);
        const json_t *sources = json_object_get(file, "sources");
        for (size_t k = 0; k < sizeof figures / sizeof figures[0]; k++)
            cr_expect(json_object_get(file, figures[k]) == NULL ||
                          json_string_length(json_object_get(sources, figures[k])) > 10,
                      "%s %s", catalog[i].name, figures[k]);
        for (int dtype = 0; dtype < SP_DTYPE_COUNT; dtype++) {
            char path[64];
            (void)snprintf(path, sizeof path, "flops.%s", sp_dtype_name(dtype));
            cr_expect((catalog[i].flops[dtype] > 0) == (json_object_get(sources, path) != NULL), "%s %s",
                      catalog[i].name, path);
        }
        json_decref(file);
    }
}
