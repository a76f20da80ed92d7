#include <criterion/criterion.h>
#include <ctype.h>
#include <inttypes.h>

#include "graph/dim.h"

/* The oracle: an independent evaluator of the printed form. */
struct parser {
    const char *at;
    int64_t x, y;
};

static int64_t parse_sum(struct parser *parser);

static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}

static void skip(struct parser *parser)
{
    while (*parser->at == ' ')
        parser->at++;
}

static int64_t parse_call(struct parser *parser, const char *name, size_t length)
{
    parser->at++;
    int64_t a = parse_sum(parser);
    skip(parser);
    cr_assert_eq(*parser->at, ',');
    parser->at++;
    int64_t b = parse_sum(parser);
    skip(parser);
    cr_assert_eq(*parser->at, ')');
    parser->at++;
    if (strncmp(name, "floordiv", length) == 0)
        return floor_div(a, b);
    if (strncmp(name, "ceildiv", length) == 0)
        return -floor_div(-a, b);
    if (strncmp(name, "mod", length) == 0)
        return a - b * floor_div(a, b);
    if (strncmp(name, "min", length) == 0)
        return a < b ? a : b;
    cr_assert_eq(strncmp(name, "max", length), 0);
    return a > b ? a : b;
}

static int64_t parse_atom(struct parser *parser)
{
    skip(parser);
    if (isdigit((unsigned char)*parser->at)) {
        char *end;
        int64_t value = strtoll(parser->at, &end, 10);
        parser->at = end;
        return value;
    }
    if (*parser->at == '-') {
        parser->at++;
        return -parse_atom(parser);
    }
    const char *name = parser->at;
    while (isalnum((unsigned char)*parser->at))
        parser->at++;
    size_t length = (size_t)(parser->at - name);
    if (*parser->at == '(')
        return parse_call(parser, name, length);
    cr_assert_eq(length, 1);
    return *name == 'x' ? parser->x : parser->y;
}

static int64_t parse_product(struct parser *parser)
{
    int64_t value = parse_atom(parser);
    while (*parser->at == '*') {
        parser->at++;
        value *= parse_atom(parser);
    }
    return value;
}

static int64_t parse_sum(struct parser *parser)
{
    int64_t value = parse_product(parser);
    for (;;) {
        skip(parser);
        if (*parser->at == '+') {
            parser->at++;
            value += parse_product(parser);
        } else if (*parser->at == '-') {
            parser->at++;
            value -= parse_product(parser);
        } else {
            return value;
        }
    }
}

static const char *text_of(struct sp_dim dim, struct sp_buf *buf)
{
    sp_buf_clear(buf);
    sp_dim_print(dim, buf);
    return buf->data;
}

/* A random expression together with its value for x and y; the value is worked out here, not by the library. */
struct sample {
    struct sp_dim dim;
    int64_t value;
};

static uint32_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

static struct sample combine(struct sp_dims *dims, uint32_t kind, struct sample a, struct sample b)
{
    switch (kind) {
    case 0:
        return (struct sample){sp_dim_add(dims, a.dim, b.dim), a.value + b.value};
    case 1:
        return (struct sample){sp_dim_sub(dims, a.dim, b.dim), a.value - b.value};
    case 2:
        return (struct sample){sp_dim_mul(dims, a.dim, b.dim), a.value * b.value};
    case 3:
        return (struct sample){sp_dim_min(dims, a.dim, b.dim), a.value < b.value ? a.value : b.value};
    case 4:
        return (struct sample){sp_dim_max(dims, a.dim, b.dim), a.value > b.value ? a.value : b.value};
    case 5:
        return b.value == 0 ? a : (struct sample){sp_dim_floordiv(dims, a.dim, b.dim), floor_div(a.value, b.value)};
    case 6:
        return b.value == 0 ? a : (struct sample){sp_dim_ceildiv(dims, a.dim, b.dim), -floor_div(-a.value, b.value)};
    default:
        return b.value == 0
                   ? a
                   : (struct sample){sp_dim_mod(dims, a.dim, b.dim), a.value - b.value * floor_div(a.value, b.value)};
    }
}

Test(dim, random_expressions_have_their_value)
{
    uint64_t state = 7;
    struct sp_buf buf;
    sp_buf_init(&buf, 1 << 20);
    uint32_t symbolic = 0;
    for (int round = 0; round < 4000; round++) {
        struct sp_arena *arena = sp_arena_create(NULL);
        struct sp_dims *dims = sp_dims_create(arena);
        int64_t x = next_random(&state) % 40, y = next_random(&state) % 40;
        struct sample pool[12] = {{sp_dim_symbol(dims, "x"), x}, {sp_dim_symbol(dims, "y"), y}};
        for (int i = 2; i < 5; i++) {
            int64_t number = (int64_t)(next_random(&state) % 9) - 2;
            pool[i] = (struct sample){sp_dim_known(number), number};
        }
        for (int i = 5; i < 12; i++) {
            struct sample a = pool[next_random(&state) % (uint32_t)i], b = pool[next_random(&state) % (uint32_t)i];
            pool[i] = combine(dims, next_random(&state) % 8, a, b);
            if (llabs(pool[i].value) > 1000000000 || pool[i].dim.kind == SP_DIM_UNKNOWN)
                pool[i] = pool[0];
            struct parser parser = {text_of(pool[i].dim, &buf), x, y};
            int64_t value = parse_sum(&parser);
            cr_assert_eq(value, pool[i].value, "%s is %" PRId64 ", not %" PRId64 " at x=%" PRId64 " y=%" PRId64,
                         buf.data, value, pool[i].value, x, y);
            symbolic += pool[i].dim.kind == SP_DIM_SYMBOLIC;
            for (int j = 0; j < i; j++) {
                if (sp_dim_surely_ge(dims, pool[i].dim, pool[j].dim))
                    cr_assert_geq(pool[i].value, pool[j].value);
                if (sp_dim_differs(dims, pool[i].dim, pool[j].dim))
                    cr_assert_neq(pool[i].value, pool[j].value);
                if (sp_dim_equal(pool[i].dim, pool[j].dim))
                    cr_assert_eq(pool[i].value, pool[j].value);
            }
        }
        sp_arena_destroy(arena);
    }
    cr_assert_gt(symbolic, 5000);
    sp_buf_release(&buf);
}

struct fixture {
    struct sp_arena *arena;
    struct sp_dims *dims;
    struct sp_dim n, m;
    struct sp_buf buf;
};

static struct fixture setup(void)
{
    struct fixture f = {.arena = sp_arena_create(NULL)};
    f.dims = sp_dims_create(f.arena);
    f.n = sp_dim_symbol(f.dims, "n");
    f.m = sp_dim_symbol(f.dims, "m");
    sp_buf_init(&f.buf, 4096);
    return f;
}

static void teardown(struct fixture *f)
{
    sp_buf_release(&f->buf);
    sp_arena_destroy(f->arena);
}

Test(dim, equal_expressions_are_one)
{
    struct fixture f = setup();
    struct sp_dim a = sp_dim_mul(f.dims, sp_dim_add(f.dims, f.n, f.m), sp_dim_sub(f.dims, f.n, f.m));
    struct sp_dim b = sp_dim_sub(f.dims, sp_dim_mul(f.dims, f.n, f.n), sp_dim_mul(f.dims, f.m, f.m));
    cr_assert(sp_dim_equal(a, b));
    cr_assert_str_eq(text_of(a, &f.buf), "n*n - m*m");
    cr_assert(sp_dim_is(sp_dim_sub(f.dims, a, b), 0));
    teardown(&f);
}

Test(dim, quotients_simplify)
{
    struct fixture f = setup();
    struct sp_dim six_nm = sp_dim_mul(f.dims, sp_dim_known(6), sp_dim_mul(f.dims, f.n, f.m));
    cr_assert_str_eq(text_of(sp_dim_exact_div(f.dims, six_nm, sp_dim_mul(f.dims, sp_dim_known(2), f.n)), &f.buf),
                     "3*m");
    cr_assert_eq(sp_dim_exact_div(f.dims, f.n, sp_dim_known(2)).kind, SP_DIM_UNKNOWN);
    struct sp_dim half = sp_dim_floordiv(f.dims, f.n, sp_dim_known(2));
    cr_assert_str_eq(text_of(sp_dim_floordiv(f.dims, half, sp_dim_known(3)), &f.buf), "floordiv(n, 6)");
    struct sp_dim shifted = sp_dim_add(f.dims, sp_dim_mul(f.dims, sp_dim_known(4), f.n), sp_dim_known(7));
    cr_assert_str_eq(text_of(sp_dim_floordiv(f.dims, shifted, sp_dim_known(4)), &f.buf), "n + 1");
    cr_assert_str_eq(text_of(sp_dim_ceildiv(f.dims, shifted, sp_dim_known(4)), &f.buf), "n + 2");
    cr_assert(sp_dim_is(sp_dim_mod(f.dims, shifted, sp_dim_known(4)), 3));
    teardown(&f);
}

Test(dim, the_end_of_a_slice_is_the_extent)
{
    struct fixture f = setup();
    cr_assert(sp_dim_equal(sp_dim_min(f.dims, f.n, sp_dim_known(INT64_MAX)), f.n));
    cr_assert(sp_dim_equal(sp_dim_max(f.dims, f.n, sp_dim_known(0)), f.n));
    struct sp_dim more = sp_dim_add(f.dims, f.n, sp_dim_known(1));
    cr_assert(sp_dim_equal(sp_dim_min(f.dims, f.n, more), f.n));
    cr_assert(sp_dim_differs(f.dims, f.n, more));
    cr_assert_not(sp_dim_differs(f.dims, f.n, f.m));
    teardown(&f);
}

Test(dim, overflow_and_zero_are_unknown_not_wrong)
{
    struct fixture f = setup();
    struct sp_dim huge = sp_dim_known(INT64_MAX);
    cr_assert_eq(sp_dim_add(f.dims, huge, sp_dim_known(1)).kind, SP_DIM_UNKNOWN);
    cr_assert_eq(sp_dim_mul(f.dims, huge, sp_dim_known(2)).kind, SP_DIM_UNKNOWN);
    cr_assert_eq(sp_dim_floordiv(f.dims, f.n, sp_dim_known(0)).kind, SP_DIM_UNKNOWN);
    cr_assert_eq(sp_dim_floordiv(f.dims, sp_dim_known(INT64_MIN), sp_dim_known(-1)).kind, SP_DIM_UNKNOWN);
    cr_assert_eq(sp_dim_truncdiv(f.dims, sp_dim_known(INT64_MIN), sp_dim_known(-1)).kind, SP_DIM_UNKNOWN);
    cr_assert(sp_dim_is(sp_dim_truncdiv(f.dims, sp_dim_known(-7), sp_dim_known(2)), -3));
    cr_assert(sp_dim_is(sp_dim_floordiv(f.dims, sp_dim_known(-7), sp_dim_known(2)), -4));
    teardown(&f);
}

Test(dim, growth_is_bounded)
{
    struct fixture f = setup();
    struct sp_dim sum = f.n;
    for (int i = 0; i < 200; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "s%d", i);
        sum = sp_dim_add(f.dims, sum, sp_dim_symbol(f.dims, name));
    }
    cr_assert_eq(sum.kind, SP_DIM_UNKNOWN);
    struct sp_dim nested = f.n;
    for (int i = 0; i < 2000 && nested.kind != SP_DIM_UNKNOWN; i++)
        nested = sp_dim_floordiv(f.dims, sp_dim_add(f.dims, nested, f.m), sp_dim_known(2));
    cr_assert_eq(nested.kind, SP_DIM_UNKNOWN);
    teardown(&f);
}

Test(dim, bindings_replace_symbols)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_dims *dims = sp_dims_create(arena);
    cr_assert(sp_dims_bind(dims, "batch", 8));
    cr_assert_not(sp_dims_bind(dims, "seq", -1));
    cr_assert(sp_dim_is(sp_dim_symbol(dims, "batch"), 8));
    cr_assert_eq(sp_dim_symbol(dims, "seq").kind, SP_DIM_SYMBOLIC);
    cr_assert_not(sp_dims_bind(dims, "seq", 4), "a symbol in use cannot be bound any more");
    struct sp_dim fresh = sp_dim_fresh(dims, "NonZero");
    cr_assert_eq(fresh.kind, SP_DIM_SYMBOLIC);
    cr_assert_eq(sp_dims_symbol_count(dims), 2);
    cr_assert_str_eq(sp_dims_symbol_name(dims, 0), "seq");
    cr_assert_not(sp_dims_symbol_is_fresh(dims, 0));
    cr_assert(sp_dims_symbol_is_fresh(dims, 1));
    sp_arena_destroy(arena);
}
