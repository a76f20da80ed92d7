/* array, hash_map, heap, union_find, rows, gcd and random numbers: each beside a second way that is simple. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/array.h"
#include "base/hash_map.h"
#include "base/heap.h"
#include "base/random.h"
#include "base/rows.h"
#include "base/union_find.h"
#include "infer/propagate/recent.h"

enum { COUNT = 3000 };

static struct sp_arena *arena;

static void open_arena(void)
{
    arena = sp_arena_create(NULL);
}

static void close_arena(void)
{
    sp_arena_destroy(arena);
}

TestSuite(containers, .init = open_arena, .fini = close_arena);

/* ---- arrays ----------------------------------------------------------------------------------------------------- */

struct pair {
    uint32_t from;
    double weight;
};

Test(containers, arrays_hold_what_was_pushed)
{
    SP_ARRAY(struct pair) pairs = {0};
    struct pair expected[COUNT];
    uint64_t random = 1;
    uint32_t count = 0;
    for (uint32_t step = 0; step < 2 * COUNT; step++) {
        if (count == COUNT || (count > 0 && sp_random_below(&random, 3) == 0)) {
            count--;
            pairs.count--;
        } else {
            expected[count] = (struct pair){sp_random_below(&random, 1000), sp_random_fraction(&random)};
            cr_assert(SP_PUSH(arena, &pairs, (struct pair){expected[count].from, expected[count].weight}));
            count++;
        }
        cr_assert_eq(pairs.count, count);
        cr_assert_leq(pairs.count, pairs.capacity);
    }
    for (uint32_t i = 0; i < count; i++) {
        cr_assert_eq(pairs.items[i].from, expected[i].from);
        cr_assert_eq(pairs.items[i].weight, expected[i].weight);
    }
}

Test(containers, arrays_have_the_room_that_was_reserved)
{
    SP_ARRAY(uint32_t) numbers = {0};
    cr_assert(SP_RESERVE(arena, &numbers, 100));
    cr_assert_geq(numbers.capacity, 100);
    const uint32_t *items = numbers.items;
    for (uint32_t i = 0; i < 100; i++)
        cr_assert(SP_PUSH(arena, &numbers, i));
    cr_expect_eq(numbers.items, items, "nothing moved");
    cr_expect(SP_RESERVE(arena, &numbers, 7), "there already");
    cr_expect(SP_MAKE_ROOM(arena, numbers.items, numbers.count, numbers.capacity, 1000));
    cr_expect_geq(numbers.capacity, 1100);
    cr_expect_eq(numbers.items[99], 99);
    cr_expect_not(SP_RESERVE(arena, &numbers, (size_t)UINT32_MAX + 1), "more than can be counted");
    cr_expect_eq(numbers.count, 100);
}

/* Filled until the budget refuses: what was there stays, and goes on when there is more. */
Test(containers, arrays_stay_when_memory_is_refused)
{
    struct sp_budget budget = {.limit = 40000};
    struct sp_arena *small = sp_arena_create(&budget);
    SP_ARRAY(uint64_t) numbers = {0};
    while (SP_PUSH(small, &numbers, numbers.count * 3u))
        cr_assert_lt(numbers.count, 40000 / sizeof(uint64_t));
    cr_expect(budget.is_refused);
    const uint32_t count = numbers.count;
    cr_expect_eq(numbers.capacity, count);
    cr_expect_not(SP_PUSH(small, &numbers, 1), "and again");
    for (uint32_t i = 0; i < count; i++)
        cr_assert_eq(numbers.items[i], i * 3u);
    budget.limit = 0;
    cr_expect(SP_PUSH(small, &numbers, 5));
    cr_expect_eq(numbers.items[count], 5);
    sp_arena_destroy(small);
}

/* ---- hash tables ------------------------------------------------------------------------------------------------ */

Test(containers, maps_know_each_key_once)
{
    struct sp_hash_map map = {.arena = arena};
    static uint64_t keys[COUNT], numbers[COUNT];
    uint64_t random = 2;
    uint32_t count = 0;
    cr_expect_null(sp_hash_map_get(&map, 0));
    for (uint32_t step = 0; step < 2 * COUNT; step++) {
        /* Small numbers, addresses, two indices: what keys are like. */
        const uint64_t some = sp_random_below(&random, COUNT / 3);
        const uint64_t key = step % 3 == 0   ? some
                             : step % 3 == 1 ? (uint64_t)(uintptr_t)&keys[some]
                                             : some << 32 | some;
        uint32_t at = 0;
        while (at < count && keys[at] != key)
            at++;
        const struct sp_hash_slot *found = sp_hash_map_get(&map, key);
        cr_assert_eq(found != NULL, at < count);
        struct sp_hash_slot *slot = sp_hash_map_put(&map, key);
        cr_assert_not_null(slot);
        cr_assert_eq(slot->number, at < count ? numbers[at] : 0);
        keys[at] = key;
        numbers[at] = slot->number = step + 1;
        count += at == count;
        cr_assert_eq(map.count, count);
    }
    for (uint32_t i = 0; i < count; i++)
        cr_assert_eq(sp_hash_map_get(&map, keys[i])->number, numbers[i]);
}

Test(containers, maps_do_not_grow_within_what_was_reserved)
{
    struct sp_hash_map map = {.arena = arena};
    cr_assert(sp_hash_map_reserve(&map, COUNT));
    const struct sp_hash_slot *slots = map.slots;
    for (uint32_t i = 0; i < COUNT; i++)
        sp_hash_map_put(&map, i)->number = 1;
    cr_expect_eq(map.slots, slots);
    cr_expect_not(sp_hash_map_reserve(&map, UINT32_MAX), "more than a table may have");
    cr_expect_eq(map.slots, slots);
}

Test(containers, maps_stay_when_memory_is_refused)
{
    struct sp_budget budget = {.limit = 40000};
    struct sp_arena *small = sp_arena_create(&budget);
    struct sp_hash_map map = {.arena = small};
    struct sp_hash_slot *slot;
    while ((slot = sp_hash_map_put(&map, map.count)) != NULL)
        slot->number = map.count;
    cr_expect(budget.is_refused);
    const uint32_t count = map.count;
    cr_expect_gt(count, 100);
    cr_expect_not(sp_hash_set_add(&map, 1, &budget));
    cr_expect_eq(map.count, count);
    for (uint32_t i = 0; i < count; i++)
        cr_assert_eq(sp_hash_map_get(&map, i)->number, i + 1);
    cr_expect_null(sp_hash_map_get(&map, count));
    sp_arena_destroy(small);
}

static bool is_same_int(const void *item, const void *key)
{
    return *(const int *)item == *(const int *)key;
}

Test(containers, sets_find_what_is_equal)
{
    static int numbers[COUNT];
    struct sp_hash_map set = {.arena = arena};
    int missing = COUNT;
    cr_expect_null(sp_hash_set_find(&set, 0, is_same_int, &missing));
    for (int i = 0; i < COUNT; i++) {
        numbers[i] = i;
        cr_assert(sp_hash_set_add(&set, (uint64_t)(i / 4) * 64, &numbers[i])); /* four of each digest */
    }
    for (int i = 0; i < COUNT; i++) {
        int key = i;
        cr_assert_eq(sp_hash_set_find(&set, (uint64_t)(i / 4) * 64, is_same_int, &key), &numbers[i]);
        cr_assert_null(sp_hash_set_find(&set, (uint64_t)(i / 4) * 64, is_same_int, &missing));
    }
}

/* Somebody who makes digests equal gets copies, and no long search. */
Test(containers, few_of_one_digest_are_compared)
{
    static int numbers[COUNT];
    struct sp_hash_map set = {.arena = arena};
    for (int i = 0; i < COUNT; i++) {
        numbers[i] = i;
        cr_assert(sp_hash_set_add(&set, 5, &numbers[i]));
    }
    int first = 0, sixteenth = 15, next = 16;
    cr_expect_eq(sp_hash_set_find(&set, 5, is_same_int, &first), &numbers[0]);
    cr_expect_eq(sp_hash_set_find(&set, 5, is_same_int, &sixteenth), &numbers[15]);
    cr_expect_null(sp_hash_set_find(&set, 5, is_same_int, &next));
}

static uint64_t digest_of(uint64_t seed, const unsigned char *bytes, size_t size, size_t step)
{
    struct sp_digest digest;
    sp_digest_begin(&digest, seed);
    for (size_t at = 0; at < size; at += step)
        sp_digest_add(&digest, bytes + at, at + step < size ? step : size - at);
    return sp_digest_end(&digest);
}

/* In which steps bytes come does not matter; each of them does, also behind the first block. */
Test(containers, digests_are_of_bytes)
{
    unsigned char bytes[3 * SP_DIGEST_BLOCK + 1];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7);
    uint64_t whole = digest_of(1, bytes, sizeof bytes, sizeof bytes);
    cr_expect_eq(digest_of(1, bytes, sizeof bytes, 1), whole);
    cr_expect_eq(digest_of(1, bytes, sizeof bytes, SP_DIGEST_BLOCK), whole);
    cr_expect_neq(digest_of(2, bytes, sizeof bytes, 1), whole);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] ^= 1;
        cr_expect_neq(digest_of(1, bytes, sizeof bytes, 64), whole, "byte %zu", i);
        bytes[i] ^= 1;
    }
}

Test(containers, remembers_what_was_asked_last)
{
    struct sp_recent *recent = SP_NEW(arena, struct sp_recent);
    struct sp_recent_key key = {0}, other = {0};
    bool is_known = true;
    sp_recent_word(&key, 3);
    sp_recent_pointer(&key, recent);
    sp_recent_word(&other, 4);
    sp_recent_pointer(&other, recent);
    uint32_t slot = sp_recent_slot(recent, &key, &is_known);
    cr_expect_not(is_known);
    cr_expect_eq(sp_recent_slot(recent, &key, &is_known), slot);
    cr_expect(is_known);
    (void)sp_recent_slot(recent, &other, &is_known);
    cr_expect_not(is_known);
    slot = sp_recent_slot(recent, &key, &is_known);
    sp_recent_forget(recent, slot);
    (void)sp_recent_slot(recent, &key, &is_known);
    cr_expect_not(is_known);
}

/* ---- heaps ------------------------------------------------------------------------------------------------------ */

static bool is_earlier(const uint32_t *key, uint32_t a, uint32_t b)
{
    return key[a] != key[b] ? key[a] < key[b] : a < b;
}

SP_HEAP(waiting, uint32_t, const uint32_t *, is_earlier)

Test(containers, heaps_give_the_first_of_what_waits)
{
    static uint32_t key[COUNT], heap[COUNT];
    static bool is_in[COUNT];
    uint64_t random = 3;
    uint32_t count = 0;
    for (uint32_t i = 0; i < COUNT; i++)
        key[i] = sp_random_below(&random, COUNT / 2); /* many are equal */
    for (uint32_t step = 0; step < COUNT; step++) {
        const uint32_t item = sp_random_below(&random, COUNT);
        if (!is_in[item]) {
            is_in[item] = true;
            waiting_push(heap, count++, item, key);
        }
        if (sp_random_below(&random, 3) != 0 && count > 0) {
            uint32_t first = UINT32_MAX;
            for (uint32_t i = 0; i < COUNT; i++)
                if (is_in[i] && (first == UINT32_MAX || is_earlier(key, i, first)))
                    first = i;
            cr_assert_eq(waiting_pop(heap, count--, key), first);
            is_in[first] = false;
        }
    }
    for (uint32_t before = waiting_pop(heap, count--, key); count > 0;) {
        const uint32_t next = waiting_pop(heap, count--, key);
        cr_assert(is_earlier(key, before, next));
        before = next;
    }
}

/* ---- sets of numbers, and rows ---------------------------------------------------------------------------------- */

Test(containers, joined_numbers_have_one_root)
{
    enum { NUMBERS = 300 };
    uint32_t *parent = sp_union_find(arena, NUMBERS), set[NUMBERS];
    uint64_t random = 4;
    for (uint32_t i = 0; i < NUMBERS; i++)
        set[i] = i;
    for (uint32_t round = 0; round < NUMBERS; round++) {
        const uint32_t a = sp_random_below(&random, NUMBERS), b = sp_random_below(&random, NUMBERS);
        const uint32_t least = set[a] < set[b] ? set[a] : set[b], other = set[a] < set[b] ? set[b] : set[a];
        sp_union_join(parent, a, b);
        for (uint32_t i = 0; i < NUMBERS; i++)
            set[i] = set[i] == other ? least : set[i];
        for (uint32_t i = 0; i < NUMBERS; i++)
            cr_assert_eq(sp_union_root(parent, i), set[i]);
    }
    struct sp_budget budget = {.limit = 1000};
    struct sp_arena *small = sp_arena_create(&budget);
    cr_expect_null(sp_union_find(small, NUMBERS));
    sp_arena_destroy(small);
}

Test(containers, rows_list_numbers_in_their_order)
{
    static uint32_t row_of[COUNT];
    uint64_t random = 5;
    for (uint32_t rows = 1; rows < 2 * COUNT; rows *= 7) {
        struct sp_rows sorted, put, again;
        for (uint32_t i = 0; i < COUNT; i++)
            row_of[i] = sp_random_below(&random, 9) == 0 ? SP_NO_ROW : sp_random_below(&random, rows);
        cr_assert(sp_rows_sort(arena, row_of, COUNT, rows, &sorted));
        cr_assert(sp_rows_begin(arena, rows, &put));
        for (uint32_t i = 0; i < COUNT; i++)
            if (row_of[i] != SP_NO_ROW)
                sp_rows_count(&put, row_of[i]);
        cr_assert(sp_rows_end_count(arena, rows, &put));
        for (uint32_t i = 0; i < COUNT; i++)
            if (row_of[i] != SP_NO_ROW)
                sp_rows_put(&put, row_of[i], i);
        again.start = SP_NEW_ARRAY(arena, rows + 2, uint32_t);
        again.items = SP_NEW_ARRAY(arena, COUNT, uint32_t);
        again.start[rows + 1] = 5; /* left from before */
        sp_rows_fill(row_of, COUNT, rows, &again);
        cr_assert_eq(memcmp(again.start, sorted.start, (rows + 2) * sizeof *again.start), 0);
        cr_assert_eq(memcmp(again.items, sorted.items, sorted.start[rows] * sizeof *again.items), 0);
        uint32_t at = 0;
        for (uint32_t row = 0; row < rows; row++) {
            cr_assert_eq(sorted.start[row], at);
            cr_assert_eq(put.start[row], at);
            for (uint32_t i = 0; i < COUNT && rows < 100; i++) {
                if (row_of[i] != row)
                    continue;
                cr_assert_eq(sorted.items[at], i);
                cr_assert_eq(put.items[at++], i);
            }
            at = rows < 100 ? at : sorted.start[row + 1];
        }
        cr_assert_eq(sorted.start[rows], at);
        for (uint32_t row = 0; row < rows; row++)
            for (uint32_t i = sorted.start[row]; i < sorted.start[row + 1]; i++)
                cr_assert_eq(row_of[sorted.items[i]], row);
    }
}

Test(containers, rows_may_be_empty_and_memory_refused)
{
    struct sp_rows rows;
    const uint32_t none[] = {SP_NO_ROW, SP_NO_ROW};
    cr_assert(sp_rows_sort(arena, none, 2, 3, &rows));
    cr_expect_eq(rows.start[3], 0);
    cr_assert(sp_rows_sort(arena, NULL, 0, 0, &rows));
    cr_expect_eq(rows.start[0], 0);
    static const uint32_t zeros[COUNT];
    struct sp_budget budget = {.limit = 6000};
    struct sp_arena *small = sp_arena_create(&budget);
    struct sp_rows *kept = &rows;
    const struct sp_rows before = rows;
    cr_expect_not(sp_rows_sort(small, zeros, COUNT, 1, kept), "no room for the items");
    cr_expect_not(sp_rows_sort(small, zeros, 1, COUNT, kept), "nor for the starts");
    cr_expect_eq(memcmp(&rows, &before, sizeof rows), 0);
    sp_arena_destroy(small);
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

Test(containers, greatest_common_divisors)
{
    for (int64_t a = 0; a < 60; a++)
        for (int64_t b = 0; b < 60; b++) {
            int64_t most = a > b ? a : b;
            while (most > 1 && (a % most != 0 || b % most != 0))
                most--;
            cr_assert_eq(sp_gcd(a, b), most, "%ld %ld", (long)a, (long)b);
        }
    cr_expect_eq(sp_gcd(INT64_MAX, INT64_MAX - 1), 1);
}

/* The series are those that are published for the generator: plans follow from them. */
Test(containers, random_numbers_are_splitmix64)
{
    static const uint64_t published[] = {UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
                                         UINT64_C(9817491932198370423), UINT64_C(4593380528125082431)};
    uint64_t state = 1234567, below = 7, fraction = 7, plain = 7;
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++)
        cr_expect_eq(sp_random(&state), published[i]);
    uint32_t seen[10] = {0};
    for (int i = 0; i < 10000; i++) {
        const uint64_t number = sp_random(&plain);
        const uint32_t small = sp_random_below(&below, 10);
        const double part = sp_random_fraction(&fraction);
        cr_assert_eq(small, (uint32_t)((double)(number >> 32) / 4294967296.0 * 10));
        cr_assert(part >= 0 && part < 1);
        cr_assert_eq((uint64_t)(part * 1024), number >> 54);
        seen[small]++;
    }
    for (int i = 0; i < 10; i++)
        cr_expect(seen[i] > 850 && seen[i] < 1150, "%d came %u times", i, seen[i]);
    cr_expect_eq(sp_random_below(&state, 0), 0);
    cr_expect_eq(sp_random_below(&state, 1), 0);
}
