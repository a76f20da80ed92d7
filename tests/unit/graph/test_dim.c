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
    struct sp_dim fresh = sp_dim_fresh(dims, "NonZero", sp_dim_unknown());
    cr_assert_eq(fresh.kind, SP_DIM_SYMBOLIC);
    cr_assert_eq(sp_dims_symbol_count(dims), 2);
    cr_assert_str_eq(sp_dims_symbol_name(dims, 0), "seq");
    cr_assert_not(sp_dims_symbol_is_fresh(dims, 0));
    cr_assert(sp_dims_symbol_is_fresh(dims, 1));
    sp_arena_destroy(arena);
}

/* ---- dimensions as files write them ------------------------------------------------------------------------------ */

static int64_t chosen_value(void *context, uint32_t index, int64_t upper)
{
    struct sp_dims *dims = context;
    const char *name = sp_dims_symbol_name(dims, index);
    (void)upper;
    return strcmp(name, "h") == 0 ? 7 : strcmp(name, "n") == 0 ? 5 : strcmp(name, "past") == 0 ? 3 : 2;
}

/* Values by Python, with h = 7, n = 5, past = 3 and every other name 2. */
Test(dim, texts_are_arithmetic)
{
    static const struct {
        const char *text;
        int64_t value;
    } cases[] = {
        {"past + seq", 5},
        {"past+1", 4},
        {"-1+n", 4},
        {"2*n", 10},
        {"floor(h/2)", 3},
        {"floor(h/2 - 1/2)", 3},
        {"floor(h/2 - 3/4)", 2},
        {"floor(0.5*h)", 3},
        {"ceil(h/2)", 4},
        {"ceiling(h/2) + 1", 5},
        {"ceil(h/n)", 2},
        {"max(1, h//4)", 1},
        {"max(n, h, past)", 7},
        {"Min(n, 2*past)", 5},
        {"Mod(h, n)", 2},
        {"h % n", 2},
        {"FloorDiv(h + 1, 2)", 4},
        {"floordiv(h, 2)", 3},
        {"ceildiv(h, 2)", 4},
        {"(h + 1)*(n - 1)", 32},
        {"h**2 - n", 44},
        {"2**n", -1}, /* a name as an exponent: the whole text is a name */
        {"h - n - past + 2", 1},
        {"h - (n - past)", 5},
        {"12*floor(floor(h/2)/3)", 12},
        {"n/n*h", 7},
        {"((((past))))+0", 3},
    };
    struct fixture f = setup();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct sp_dim dim = sp_dim_parse(f.dims, cases[i].text);
        const struct sp_dim_chooser chooser = {f.dims, chosen_value};
        uint32_t symbol;
        sp_dims_estimate(f.dims, &chooser);
        if (cases[i].value < 0)
            cr_expect(sp_dim_is_symbol(f.dims, dim, &symbol) &&
                          strcmp(sp_dims_symbol_name(f.dims, symbol), cases[i].text) == 0,
                      "%s", cases[i].text);
        else
            cr_expect_eq(sp_dim_estimate(dim), cases[i].value, "%s: %lld", cases[i].text,
                         (long long)sp_dim_estimate(dim));
    }
    teardown(&f);
}

/* What exporters call dimensions without meaning to compute. */
Test(dim, other_texts_are_names)
{
    static const char *const names[] = {
        "batch",
        "batch-size",
        "seq-len-2",
        "decoder/length",
        "MatMul/out_dim_1",
        "unk__5",
        "?",
        "-1",
        "None",
        "input.1",
        "x:0",
        "dim 1",
        "f(x)",
        "1d",
        "128",
        "*",
        "a + ",
        "(a",
        "a)",
        "max()",
        "max(a,)",
        "a,b",
        "+",
        "-a",
        "floor(a, b)",
        "floordiv(a)",
        "a ** 9",
        "1/0 + a",
        "a b + c",
        "()",
        "a+(",
        "1.2.3 + a",
    };
    struct fixture f = setup();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        uint32_t symbol;
        const struct sp_dim dim = sp_dim_parse(f.dims, names[i]);
        cr_expect(sp_dim_is_symbol(f.dims, dim, &symbol) && strcmp(sp_dims_symbol_name(f.dims, symbol), names[i]) == 0,
                  "%s", names[i]);
    }
    teardown(&f);
}

Test(dim, a_hyphen_counts_where_all_words_are_dimensions)
{
    struct fixture f = setup();
    const struct sp_dim before = sp_dim_parse(f.dims, "n-k");
    uint32_t symbol;
    cr_expect(sp_dim_is_symbol(f.dims, before, &symbol));
    const struct sp_dim k = sp_dim_parse(f.dims, "k");
    cr_expect(sp_dim_equal(sp_dim_parse(f.dims, "m-k"), sp_dim_sub(f.dims, f.m, k)));
    cr_expect(sp_dim_equal(sp_dim_parse(f.dims, "m-1"), sp_dim_sub(f.dims, f.m, sp_dim_known(1))));
    cr_expect(sp_dim_equal(sp_dim_parse(f.dims, "m - j"), sp_dim_sub(f.dims, f.m, sp_dim_symbol(f.dims, "j"))));
    cr_expect_eq(sp_dim_find(f.dims, "nobody + 1").kind, SP_DIM_UNKNOWN);
    cr_expect_not(sp_dims_knows(f.dims, "nobody"), "looking makes no symbol");
    cr_expect(sp_dim_equal(sp_dim_find(f.dims, "m + n"), sp_dim_add(f.dims, f.m, f.n)));
    teardown(&f);
}

/* Deep and long texts end as names, without recursion. */
Test(dim, texts_have_limits)
{
    struct fixture f = setup();
    char text[3000];
    uint32_t symbol;
    memset(text, '(', 1000);
    text[1000] = 'n';
    memset(text + 1001, ')', 1000);
    text[2001] = '\0';
    cr_expect(sp_dim_is_symbol(f.dims, sp_dim_parse(f.dims, text), &symbol));
    memset(text, '-', 2000);
    text[2000] = 'n';
    text[2001] = '\0';
    cr_expect(sp_dim_is_symbol(f.dims, sp_dim_parse(f.dims, text), &symbol));
    cr_expect(sp_dim_is_symbol(f.dims, sp_dim_parse(f.dims, "9223372036854775807*n + 9223372036854775807*n"), &symbol));
    teardown(&f);
}

/* What is printed is read as the same. */
Test(dim, printed_dimensions_are_read_back)
{
    static const char *const texts[] = {"2*n + m - 3",         "floordiv(n + 1, 2)", "max(m, n)",
                                        "ceildiv(n*m, 4) - 1", "mod(n, 8)",          "min(n, 64)*m"};
    struct fixture f = setup();
    struct sp_buf text;
    sp_buf_init(&text, 4096);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const struct sp_dim dim = sp_dim_parse(f.dims, texts[i]);
        sp_buf_clear(&text);
        sp_dim_print(dim, &text);
        cr_expect(sp_dim_equal(sp_dim_parse(f.dims, text.data), dim), "%s: %s", texts[i], text.data);
    }
    sp_buf_release(&text);
    teardown(&f);
}

/* ---- equations and estimates --------------------------------------------------------------------------------------- */

static int64_t only_n(void *context, uint32_t index, int64_t upper)
{
    (void)upper;
    return strcmp(sp_dims_symbol_name(context, index), "n") == 0 ? 3 : -1;
}

Test(dim, equations_say_what_one_symbol_is)
{
    struct fixture f = setup();
    const struct sp_dim_chooser chooser = {f.dims, only_n};
    uint32_t symbol = 9;
    int64_t value = -1;
    const struct sp_dim sum = sp_dim_parse(f.dims, "2*m + n"), product = sp_dim_parse(f.dims, "m*n");
    const struct sp_dim two = sp_dim_parse(f.dims, "m + k"), half = sp_dim_parse(f.dims, "floor(m/2)");
    sp_dims_estimate(f.dims, &chooser);
    cr_expect_eq(sp_dim_solve(f.dims, sum, sp_dim_known(13), &symbol, &value), SP_DIM_SOLVED);
    cr_expect_str_eq(sp_dims_symbol_name(f.dims, symbol), "m");
    cr_expect_eq(value, 5);
    cr_expect_eq(sp_dim_solve(f.dims, product, sp_dim_known(12), &symbol, &value), SP_DIM_SOLVED);
    cr_expect_eq(value, 4);
    cr_expect_eq(sp_dim_solve(f.dims, sum, sp_dim_known(12), &symbol, &value), SP_DIM_CONTRADICTS, "no whole number");
    cr_expect_eq(sp_dim_solve(f.dims, sum, sp_dim_known(1), &symbol, &value), SP_DIM_CONTRADICTS, "below 0");
    cr_expect_eq(sp_dim_solve(f.dims, two, sp_dim_known(1), &symbol, &value), SP_DIM_OPEN);
    cr_expect_eq(sp_dim_solve(f.dims, half, sp_dim_known(1), &symbol, &value), SP_DIM_OPEN);
    cr_expect_eq(sp_dim_solve(f.dims, f.n, sp_dim_known(3), &symbol, &value), SP_DIM_HOLDS);
    cr_expect_eq(sp_dim_solve(f.dims, f.n, sp_dim_known(4), &symbol, &value), SP_DIM_CONTRADICTS);
    cr_expect_eq(sp_dim_solve(f.dims, f.n, sp_dim_unknown(), &symbol, &value), SP_DIM_OPEN);
    teardown(&f);
}

static int64_t most(void *context, uint32_t index, int64_t upper)
{
    return upper >= 0 ? upper : chosen_value(context, index, upper);
}

/* Bounds of symbols count on the estimates of older ones: NonZero of what NonZero found. */
Test(dim, estimates_follow_bounds)
{
    struct fixture f = setup();
    const struct sp_dim_chooser chooser = {f.dims, most};
    sp_dims_begin_node(f.dims, 0);
    const struct sp_dim first = sp_dim_fresh(f.dims, "NonZero", sp_dim_mul(f.dims, f.n, sp_dim_known(2)));
    sp_dims_begin_node(f.dims, 1);
    const struct sp_dim second = sp_dim_fresh(f.dims, "NonZero", sp_dim_floordiv(f.dims, first, sp_dim_known(3)));
    const struct sp_dim third = sp_dim_fresh(f.dims, "NonZero", sp_dim_unknown());
    const struct sp_dim sum = sp_dim_add(f.dims, first, sp_dim_floordiv(f.dims, second, sp_dim_known(2)));
    sp_dims_estimate(f.dims, &chooser);
    cr_expect_eq(sp_dim_estimate(first), 10);
    cr_expect_eq(sp_dim_estimate(second), 3);
    cr_expect_eq(sp_dim_estimate(third), 2);
    cr_expect_eq(sp_dim_estimate(sum), 11);
    uint32_t symbol;
    cr_expect(sp_dims_find(f.dims, "NonZero_1_1", &symbol), "the second symbol of a node");
    teardown(&f);
}

Test(dim, new_symbols_are_bound_by_name)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_dims *dims = sp_dims_create(arena);
    uint32_t symbol;
    cr_assert(sp_dims_bind(dims, "NonZero_1", 6));
    cr_assert(sp_dims_bind(dims, "x:0", 0));
    sp_dims_begin_node(dims, 0);
    cr_expect(sp_dim_is_symbol(dims, sp_dim_fresh(dims, "NonZero", sp_dim_unknown()), &symbol));
    sp_dims_begin_node(dims, 1);
    cr_expect(sp_dim_is(sp_dim_fresh(dims, "NonZero", sp_dim_unknown()), 6));
    cr_expect(sp_dim_is(sp_dim_of_axis(dims, "x", 0, sp_dim_unknown()), 0));
    sp_dims_begin_node(dims, 0); /* the next turn of a loop */
    cr_expect(sp_dim_is_symbol(dims, sp_dim_fresh(dims, "NonZero", sp_dim_unknown()), &symbol));
    cr_expect_str_eq(sp_dims_symbol_name(dims, symbol), "NonZero_0@1");
    sp_arena_destroy(arena);
}
