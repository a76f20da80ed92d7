/*
 * How fast shardings are read, written and compared. Each figure is also given as a ratio to something measured in the
 * same run: copying the text and reading JSON of the same length for the notations, hashing a key of the same size for
 * the costs of reshards.
 */
#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "sharding/dialect.h"
#include "sharding/reshard/reshard.h"

#define SECONDS 0.3 /* that each measurement takes about */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- notations ---- */

struct text {
    enum sp_dialect dialect;
    const char *text;
    struct sp_arena *arena;
    struct sp_dialect_context context;
};

static bool read_and_write(struct text *text)
{
    struct sp_arena_mark mark = sp_arena_mark(text->arena);
    struct sp_sharding *sharding;
    struct sp_error err = {SP_OK};
    struct sp_losses losses = {0};
    struct sp_buf buf;
    size_t size = strlen(text->text);
    sp_buf_init(&buf, 1 << 20);
    bool done = sp_dialect_read(text->arena, &(struct sp_dialect_text){text->dialect, text->text, size}, &text->context,
                                &sharding, &losses, &err) == SP_OK &&
                sp_dialect_write(text->arena, text->dialect, sharding, &text->context, &buf, &losses, &err) == SP_OK;
    if (!done)
        (void)fprintf(stderr, "%s: %s %s\n", sp_dialect_name(text->dialect), err.where, err.message);
    sp_buf_release(&buf);
    sp_arena_rewind(text->arena, mark);
    return done;
}

static double texts_per_second(struct text *text)
{
    double start = now(), end;
    uint64_t count = 0;
    do {
        for (int i = 0; i < 100; i++, count++)
            if (!read_and_write(text))
                return 0;
        end = now();
    } while (end - start < SECONDS);
    return (double)count / (end - start);
}

/* A list of numbers as long as the text. */
static double json_per_second(size_t size)
{
    char text[4096];
    size_t at = 0;
    assert(size + 8 < sizeof(text));
    text[at++] = '[';
    while (at + 3 < size) {
        text[at++] = '7';
        text[at++] = ',';
    }
    text[at++] = '7';
    text[at++] = ']';
    double start = now(), end;
    uint64_t count = 0;
    do {
        for (int i = 0; i < 100; i++, count++)
            json_decref(json_loadb(text, at, 0, NULL));
        end = now();
    } while (end - start < SECONDS);
    return (double)count / (end - start);
}

static double copies_per_second(const char *text)
{
    char copy[4096];
    uint64_t sum = 0;
    size_t size = strlen(text);
    double start = now(), end;
    uint64_t count = 0;
    do {
        for (int i = 0; i < 10000; i++, count++) {
            memcpy(copy, text, size);
            __asm__ volatile("" : : "r"(copy) : "memory"); /* the copy is wanted */
            sum += (unsigned char)copy[0];
        }
        end = now();
    } while (end - start < SECONDS);
    return sum > 0 ? (double)count / (end - start) : 0;
}

static bool measure_texts(void)
{
    static const int64_t shape[] = {64, 32, 16};
    static const struct {
        enum sp_dialect dialect;
        const char *text;
    } texts[] = {
        {SP_DIALECT_ONNX, "{\"tensorName\":\"x\",\"device\":[0,1,2,3,4,5,6,7],\"shardedDim\":[{\"axis\":0,"
                          "\"simpleSharding\":[{\"dimValue\":64,\"numShards\":4}]},{\"axis\":1,\"simpleSharding\":"
                          "[{\"dimValue\":32,\"numShards\":2}]}]}"},
        {SP_DIALECT_ORT, "S[0]S[1]R device_mesh_shape=[4,2] device_mesh_elements=[0,1,2,3,4,5,6,7]"},
        {SP_DIALECT_OP_SHARDING, "\\08\\03\\1A\\03\\04\\02\\01\\22\\08\\00\\01\\02\\03\\04\\05\\06\\07"},
        {SP_DIALECT_HLO, "{devices=[4,2,1,2]<=[2,4,2]T(1,0,2) last_tile_dim_replicate}"},
        {SP_DIALECT_SHARDY, "#sdy.sharding<mesh<[\"x\"=4, \"y\"=4, \"z\"=2]>, [{\"x\"}, {\"y\":(1)2, ?}, {}], "
                            "replicated={\"z\"}>"},
    };
    printf("%-12s %6s %12s %10s %12s\n", "notation", "bytes", "parse+print", "x copying", "x JSON");
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct text text = {.dialect = texts[i].dialect, .text = texts[i].text, .arena = sp_arena_create(NULL)};
        text.context = (struct sp_dialect_context){.rank = 3, .shape = shape, .hlo_version = 0};
        size_t size = strlen(text.text);
        double rate = texts_per_second(&text);
        sp_arena_destroy(text.arena);
        if (rate == 0)
            return false;
        printf("%-12s %6zu %10.0f/s %10.5f %12.3f\n", sp_dialect_name(text.dialect), size, rate,
               rate / copies_per_second(text.text), rate / json_per_second(size));
    }
    return true;
}

/* ---- costs of reshards ---- */

struct pair {
    struct sp_layout from, to;
};

#define PAIRS 512

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Digits dealt out at random to the axes' lists. */
static void deal(uint64_t *random, uint32_t digits, uint32_t rank, struct sp_layout *layout)
{
    uint8_t order[SP_RESHARD_MAX_DIGITS], places[8] = {0};
    memset(layout, 0, sizeof(*layout));
    memset(layout->axis, SP_LAYOUT_REPLICATED, sizeof(layout->axis));
    for (uint32_t d = 0; d < digits; d++)
        order[d] = (uint8_t)d;
    for (uint32_t d = digits; d > 1; d--) {
        uint32_t other = (uint32_t)(next_random(random) % d);
        uint8_t digit = order[d - 1];
        order[d - 1] = order[other];
        order[other] = digit;
    }
    for (uint32_t i = 0; i < digits; i++) {
        uint32_t axis = (uint32_t)(next_random(random) % (rank + 1));
        if (axis == rank)
            continue;
        layout->axis[order[i]] = (uint8_t)axis;
        layout->place[order[i]] = places[axis]++;
    }
}

/* Drops or adds one digit at a minor end: what the closed forms know. */
static void nudge(uint64_t *random, uint32_t digits, struct pair *pair)
{
    uint32_t d = (uint32_t)(next_random(random) % digits);
    pair->to = pair->from;
    for (uint32_t e = 0; e < digits; e++)
        if (pair->to.axis[e] == pair->to.axis[d] && pair->to.place[e] > pair->to.place[d])
            d = e;
    if (pair->to.axis[d] != SP_LAYOUT_REPLICATED) {
        pair->to.axis[d] = SP_LAYOUT_REPLICATED;
        pair->to.place[d] = 0;
    }
}

static double costs_per_second(struct sp_reshard_costs *costs, const struct pair *pairs, uint64_t least)
{
    static const int64_t shape[] = {4096, 4096, 512};
    double start = now(), end, sum = 0;
    uint64_t count = 0;
    do {
        for (size_t i = 0; i < PAIRS; i++, count++)
            sum += sp_reshard_cost(costs, 3, shape, 2, &pairs[i].from, &pairs[i].to, NULL);
        end = now();
    } while (end - start < SECONDS || count < least);
    return sum >= 0 ? (double)count / (end - start) : 0;
}

/* What no table is faster than: mixing a question's bytes. */
static double hashes_per_second(const struct pair *pairs)
{
    double start = now(), end;
    uint64_t count = 0, hash = 1;
    do {
        for (size_t i = 0; i < PAIRS; i++, count++) {
            const unsigned char *bytes = (const unsigned char *)&pairs[i];
            for (size_t at = 0; at + 8 <= sizeof(pairs[i]); at += 8) {
                uint64_t word;
                memcpy(&word, bytes + at, 8);
                hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
                hash ^= hash >> 32;
            }
            __asm__ volatile("" : : "r"(hash));
        }
        end = now();
    } while (end - start < SECONDS);
    return (double)count / (end - start);
}

static bool measure_mesh(const char *name, uint32_t axis_count, const struct sp_mesh_axis *axes,
                         const struct sp_links *links)
{
    static struct pair pairs[PAIRS], near[PAIRS];
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_mesh *mesh;
    struct sp_reshard_costs *cold = NULL, *cached = NULL;
    struct sp_error err = {SP_OK};
    uint64_t random = 1;
    bool done = sp_mesh_create(arena, axis_count, axes, NULL, &mesh, &err) == SP_OK &&
                sp_reshard_costs_create(NULL, links, mesh, 0, &cold, &err) == SP_OK &&
                sp_reshard_costs_create(NULL, links, mesh, (size_t)16 << 20, &cached, &err) == SP_OK;
    if (done) {
        uint32_t digits = sp_reshard_costs_digits(cold);
        for (size_t i = 0; i < PAIRS; i++) {
            deal(&random, digits, 3, &pairs[i].from);
            deal(&random, digits, 3, &pairs[i].to);
            near[i].from = pairs[i].from;
            nudge(&random, digits, &near[i]);
        }
        double searched = costs_per_second(cold, pairs, PAIRS), hashed = hashes_per_second(pairs);
        struct sp_reshard_counts counts = sp_reshard_costs_counts(cold);
        (void)costs_per_second(cached, pairs, PAIRS);
        double known = costs_per_second(cached, pairs, PAIRS), fast = costs_per_second(cached, near, PAIRS);
        printf("%-12s %6u %10.0f/s %10.0f/s %10.0f/s %8.4f %8.4f %8.1f%%\n", name, digits, searched, known, fast,
               known / hashed, fast / hashed,
               100.0 * (double)counts.searched / (double)(counts.searched + counts.fast));
    } else {
        (void)fprintf(stderr, "%s\n", err.message);
    }
    sp_reshard_costs_destroy(cold);
    sp_reshard_costs_destroy(cached);
    sp_arena_destroy(arena);
    return done;
}

static bool measure_costs(void)
{
    static const struct sp_mesh_level levels[] = {{"node", 2, 25e9, 5e-6}, {"gpu", 8, 300e9, 2e-6}};
    static const struct sp_mesh_level many[] = {{"node", 8, 25e9, 5e-6}, {"gpu", 8, 300e9, 2e-6}};
    static const struct sp_mesh_level flat[] = {{"link", 16, 300e9, 2e-6}};
    static const struct sp_mesh_axis two[] = {{"x", 2}, {"y", 8}}, three[] = {{"x", 4}, {"y", 2}, {"z", 4}},
                                     six[] = {{"x", 8}, {"y", 8}};
    printf("\n%-12s %6s %12s %12s %12s %8s %8s %9s\n", "mesh", "digits", "cold", "cached", "closed", "cached/h",
           "closed/h", "searched");
    return measure_mesh("8 flat", 1, two + 1, &(struct sp_links){1, flat}) &&
           measure_mesh("2x8 flat", 2, two, &(struct sp_links){1, flat}) &&
           measure_mesh("2x8 nodes", 2, two, &(struct sp_links){2, levels}) &&
           measure_mesh("4x2x4 nodes", 3, three, &(struct sp_links){2, many}) &&
           measure_mesh("8x8 nodes", 2, six, &(struct sp_links){2, many});
}

int main(void)
{
    return measure_texts() && measure_costs() ? 0 : 1;
}
