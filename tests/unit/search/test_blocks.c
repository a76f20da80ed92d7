/*
 * Repeated blocks of models: small decoders described in JSON, in which one thing is different, and real exports.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "build_workload.h"
#include "data_files.h"
#include "onnx_files.h"
#include "ops/shapes/shapes.h"
#include "search/strategy/blocks.h"
#include "json/json.h"

/* ---- models ----------------------------------------------------------------------------------------------------- */

struct text {
    struct sp_buf weights, nodes, outputs;
};

static struct sp_budget budget;
static struct sp_arena *arena;
static struct sp_cluster *cluster;
static struct text text;
static struct sp_buf file; /* the bytes of the model at hand */
static struct sp_workload *workload;
static struct sp_blocks *blocks;

static void set_up(void)
{
    arena = sp_arena_create(NULL);
    cluster = build_cluster(arena, 2, 1e15, 1e11, 2e-6);
    sp_buf_init(&text.weights, 1 << 20);
    sp_buf_init(&text.nodes, 1 << 20);
    sp_buf_init(&text.outputs, 1 << 20);
}

static void tear_down(void)
{
    sp_buf_release(&text.weights);
    sp_buf_release(&text.nodes);
    sp_buf_release(&text.outputs);
    sp_buf_release(&file);
    sp_arena_destroy(arena);
}

TestSuite(blocks, .init = set_up, .fini = tear_down);

/* Appends a member of a list, in the notation of printf; quotes are written as '. */
#define ADD(list, ...) (sp_buf_text(list, (list)->size > 0 ? "," : ""), sp_buf_printf(list, __VA_ARGS__))

#define WEIGHT(name, dims, ...)                                                                                        \
    ADD(&text.weights, "{'name':'" name "','dtype':'float32','shape':[" dims "]}", __VA_ARGS__)
#define INTS(name, count, data, ...)                                                                                   \
    ADD(&text.weights, "{'name':'" name "','dtype':'int64','shape':[" count "],'data':[" data "]}", __VA_ARGS__)
#define NODE(body, ...) ADD(&text.nodes, "{" body "}", __VA_ARGS__)

static enum sp_status read_workload(const struct sp_read_options *options, struct sp_error *err)
{
    struct sp_model *model;
    struct sp_shape_summary summary;
    enum sp_status status = sp_onnx_read(arena, file.data, file.size, options, &model, err);
    if (status == SP_OK)
        status = sp_infer_shapes(model, NULL, &summary, err);
    return status == SP_OK ? sp_workload_from_model(arena, model, cluster, NULL, &workload, err) : status;
}

static void find(void)
{
    struct sp_error err = {0};
    cr_assert_eq(sp_blocks_find(arena, workload, &blocks, &err), SP_OK, "%s", err.message);
}

/* The model of the text. Its inputs: x [8, 32], two masks [8, 8], rows [9, 8, 32] and a condition. */
static void read_text(void)
{
    struct sp_buf all;
    struct sp_error err = {0};
    sp_buf_init(&all, 1 << 22);
    sp_buf_printf(&all,
                  "{\"opset\":21,\"inputs\":[{\"name\":\"x\",\"dtype\":\"float32\",\"shape\":[8,32]},"
                  "{\"name\":\"mask\",\"dtype\":\"float32\",\"shape\":[8,8]},"
                  "{\"name\":\"other\",\"dtype\":\"float32\",\"shape\":[8,8]},"
                  "{\"name\":\"rows\",\"dtype\":\"float32\",\"shape\":[9,8,32]},"
                  "{\"name\":\"flag\",\"dtype\":\"bool\",\"shape\":[]}],"
                  "\"initializers\":[%s],\"nodes\":[%s],\"outputs\":[%s]}",
                  text.weights.size > 0 ? text.weights.data : "", text.nodes.data, text.outputs.data);
    cr_assert(!sp_buf_failed(&all) && !sp_buf_failed(&text.nodes));
    for (size_t i = 0; i < all.size; i++)
        all.data[i] = all.data[i] == '\'' ? '"' : all.data[i];
    cr_assert_eq(sp_json_to_onnx(&budget, all.data, all.size, NULL, &file, &err), SP_OK, "%s at %s", err.message,
                 err.where);
    cr_assert_eq(read_workload(NULL, &err), SP_OK, "%s", err.message);
    sp_buf_release(&all);
}

/* "12x50" for 12 blocks of 50 nodes; several are separated by blanks. */
static const char *runs(void)
{
    static char said[256];
    size_t size = 0;
    said[0] = '\0';
    for (uint32_t i = 0; i < blocks->run_count; i++)
        size += (size_t)snprintf(said + size, sizeof said - size, "%s%ux%u", i > 0 ? " " : "", blocks->runs[i].count,
                                 blocks->runs[i].length);
    return said;
}

/* A corresponding node has the same name behind the layer's: "l3.q" is "l0.q". */
static void expect_names(void)
{
    for (uint32_t n = 0; n < workload->node_count; n++) {
        const char *name = workload->nodes[n].name, *same = workload->nodes[blocks->same_as[n]].name;
        cr_assert(blocks->same_as[n] <= n);
        if (blocks->same_as[n] != n)
            cr_assert_str_eq(strchr(name, '.'), strchr(same, '.'), "%s is not %s", name, same);
    }
}

static void expect(const char *expected)
{
    read_text();
    find();
    cr_assert_str_eq(runs(), expected);
    expect_names();
}

/* ---- a decoder -------------------------------------------------------------------------------------------------- */

enum oddity { NOTHING, WIDTH, ATTRIBUTE, OPERATOR, MASK, SAME_WEIGHT, ORDER };

struct decoder {
    int layers;
    const char *stack;    /* of names: "l" */
    const char *masks[2]; /* of even layers, and of odd ones; NULL: of the first layer's making */
    int inner;            /* width of the products */
    int odd;              /* the layer in which something is different, -1: none */
    enum oddity oddity;
    bool has_branch; /* a result of each layer is an output */
};

#define LAYER_NODES 13

static void add_weights(const struct decoder *d, int i, int inner)
{
    const bool is_same = d->oddity == SAME_WEIGHT && i == d->odd;
    WEIGHT("%s%d_scale", "32", d->stack, i);
    if (!is_same)
        WEIGHT("w%d_of_%s", "32,32", 7 * i % 5 + 10 * i, d->stack); /* names without any order */
    WEIGHT("%s%d_up", "32,%d", d->stack, i, inner);
    WEIGHT("%s%d_down", "%d,32", d->stack, i, inner);
    if (i % 3 != 1) /* some layers share the shape with the one before */
        INTS("%s%d_shape", "2", "8,32", d->stack, i);
}

static void add_attention(const struct decoder *d, int i, const char *x, const char *mask)
{
    const char *s = d->stack;
    const bool is_odd = i == d->odd;
    int q = d->oddity == SAME_WEIGHT && is_odd ? i - 1 : i;
    NODE("'name':'%s%d.n','op':'LayerNormalization','inputs':['%s','%s%d_scale'],'outputs':['%s%d_n']", s, i, x, s, i,
         s, i);
    NODE("'name':'%s%d.q','op':'MatMul','inputs':['%s%d_n','w%d_of_%s'],'outputs':['%s%d_q']", s, i, s, i,
         7 * q % 5 + 10 * q, s, s, i);
    NODE("'name':'%s%d.k','op':'Transpose','inputs':['%s%d_n'],'outputs':['%s%d_k'],'attributes':{'perm':[1,0]}", s, i,
         s, i, s, i);
    NODE("'name':'%s%d.s','op':'MatMul','inputs':['%s%d_q','%s%d_k'],'outputs':['%s%d_s']", s, i, s, i, s, i, s, i);
    NODE("'name':'%s%d.m','op':'Add','inputs':['%s%d_s','%s'],'outputs':['%s%d_m']", s, i, s, i,
         d->oddity == MASK && is_odd ? "other" : mask, s, i);
    NODE("'name':'%s%d.p','op':'Softmax','inputs':['%s%d_m'],'outputs':['%s%d_p'],'attributes':{'axis':%d}", s, i, s, i,
         s, i, d->oddity == ATTRIBUTE && is_odd ? 0 : 1);
    NODE("'name':'%s%d.o','op':'MatMul','inputs':['%s%d_p','%s%d_n'],'outputs':['%s%d_o']", s, i, s, i, s, i, s, i);
    NODE("'name':'%s%d.r','op':'Add','inputs':['%s','%s%d_o'],'outputs':['%s%d_r']", s, i, x, s, i, s, i);
}

static void add_products(const struct decoder *d, int i)
{
    const char *s = d->stack;
    const char *bend = d->oddity == OPERATOR && i == d->odd ? "Tanh" : "Relu";
    const bool is_swapped = d->oddity == ORDER && i == d->odd;
    NODE("'name':'%s%d.u','op':'MatMul','inputs':['%s%d_r','%s%d_up'],'outputs':['%s%d_u']", s, i, s, i, s, i, s, i);
    NODE("'name':'%s%d.g','op':'%s','inputs':['%s%d_u'],'outputs':['%s%d_g']", s, i, bend, s, i, s, i);
    NODE("'name':'%s%d.d','op':'MatMul','inputs':['%s%d_g','%s%d_down'],'outputs':['%s%d_d']", s, i, s, i, s, i, s, i);
    NODE("'name':'%s%d.a','op':'Sub','inputs':['%s%d_%c','%s%d_%c'],'outputs':['%s%d_a']", s, i, s, i,
         is_swapped ? 'd' : 'r', s, i, is_swapped ? 'r' : 'd', s, i);
    NODE("'name':'%s%d.y','op':'Reshape','inputs':['%s%d_a','%s%d_shape'],'outputs':['%s%d_y']", s, i, s, i, s,
         i % 3 == 1 ? i - 1 : i, s, i);
    if (d->has_branch) {
        NODE("'name':'%s%d.c','op':'Exp','inputs':['%s%d_k'],'outputs':['%s%d_c']", s, i, s, i, s, i);
        ADD(&text.outputs, "'%s%d_c'", s, i);
    }
}

/* Layers on the value x; returns the name of the result. */
static const char *add_layers(const struct decoder *d, const char *x)
{
    static char names[2][32];
    (void)snprintf(names[1], sizeof names[1], "%s", x);
    for (int i = 0; i < d->layers; i++) {
        add_weights(d, i, d->oddity == WIDTH && i == d->odd ? 2 * d->inner : d->inner);
        if (i == 0 && d->masks[0] == NULL)
            NODE("'name':'%s.table','op':'Neg','inputs':['mask'],'outputs':['table']", d->stack);
        add_attention(d, i, names[1], d->masks[0] == NULL ? "table" : d->masks[i % 2]);
        add_products(d, i);
        (void)snprintf(names[1], sizeof names[1], "%s%d_y", d->stack, i);
    }
    (void)snprintf(names[0], sizeof names[0], "%s", names[1]);
    return names[0];
}

static struct decoder plain(int layers)
{
    return (struct decoder){
        .layers = layers, .stack = "l", .masks = {"far", "far"}, .inner = 64, .odd = -1, .oddity = NOTHING};
}

/* Something before the layers, that all of them read too, and something behind. */
static void add_decoder(const struct decoder *d)
{
    NODE("'name':'p.far','op':'%s','inputs':['mask'],'outputs':['far']", "Neg");
    NODE("'name':'p.x','op':'%s','inputs':['x'],'outputs':['begin']", "Abs");
    NODE("'name':'p.more','op':'%s','inputs':['begin'],'outputs':['first']", "Neg");
    WEIGHT("head", "32,%d", 100);
    const char *last = add_layers(d, "first");
    NODE("'name':'p.head','op':'MatMul','inputs':['%s','head'],'outputs':['logits']", last);
    ADD(&text.outputs, "'%s'", "logits");
}

static void expect_decoder(const struct decoder *d, const char *expected)
{
    add_decoder(d);
    expect(expected);
}

Test(blocks, layers_between_a_prefix_and_a_suffix)
{
    struct decoder d = plain(6);
    expect_decoder(&d, "6x13");
    cr_assert_eq(blocks->order_count, 6 * LAYER_NODES + 4);
    cr_assert_eq(blocks->runs[0].first_node, 3);
    cr_assert_str_eq(workload->nodes[blocks->order[blocks->runs[0].first_node]].name, "l0.n");
}

Test(blocks, two_layers_are_enough)
{
    struct decoder d = plain(2);
    expect_decoder(&d, "2x13");
}

Test(blocks, one_layer_is_none)
{
    struct decoder d = plain(1);
    expect_decoder(&d, "");
}

Test(blocks, a_branch_of_each_layer)
{
    struct decoder d = plain(5);
    d.has_branch = true;
    expect_decoder(&d, "5x14");
}

/* Eight layers of which the fourth is another: three before and four behind it. */
static void expect_split(enum oddity oddity)
{
    struct decoder d = plain(8);
    d.odd = 3;
    d.oddity = oddity;
    expect_decoder(&d, "3x13 4x13");
}

Test(blocks, another_shape)
{
    expect_split(WIDTH);
}

Test(blocks, another_operator)
{
    expect_split(OPERATOR);
}

/* The runs may reach into what is alike on both sides of the difference, but it is in none of them. */
static void expect_difference(const char *name)
{
    uint32_t saved = 0;
    for (uint32_t i = 0; i < blocks->run_count; i++)
        saved += blocks->runs[i].length * (blocks->runs[i].count - 1);
    cr_assert_geq(saved, 5 * LAYER_NODES, "%s", runs());
    for (uint32_t n = 0; n < workload->node_count; n++) {
        if (strcmp(workload->nodes[n].name, name) == 0)
            cr_assert_eq(blocks->same_as[n], n);
        cr_assert_str_neq(blocks->same_as[n] != n ? workload->nodes[blocks->same_as[n]].name : "", name);
    }
}

static void expect_odd(enum oddity oddity, const char *name)
{
    struct decoder d = plain(8);
    d.odd = 3;
    d.oddity = oddity;
    add_decoder(&d);
    read_text();
    find();
    expect_difference(name);
    expect_names();
}

Test(blocks, another_attribute)
{
    expect_odd(ATTRIBUTE, "l3.p");
}

Test(blocks, another_mask)
{
    expect_odd(MASK, "l3.m");
}

Test(blocks, operands_in_another_order)
{
    expect_odd(ORDER, "l3.a");
}

/* The weight of two layers is kept once: these are not like the others, whose weights are their own. */
Test(blocks, a_weight_of_two_layers)
{
    struct decoder d = plain(8);
    d.odd = 3;
    d.oddity = SAME_WEIGHT;
    expect_decoder(&d, "2x13 2x13 4x13");
}

/* As in models with windows in every second layer. */
Test(blocks, masks_that_alternate)
{
    struct decoder d = plain(8);
    d.masks[1] = "other";
    expect_decoder(&d, "4x26");
}

/* As in T5, where the first layer makes the table of positions for all. */
Test(blocks, a_table_that_the_first_layer_makes)
{
    struct decoder d = plain(6);
    d.masks[0] = d.masks[1] = NULL;
    expect_decoder(&d, "6x13");
    cr_assert_str_eq(workload->nodes[blocks->order[blocks->runs[0].first_node]].name, "l0.n");
}

Test(blocks, an_encoder_and_a_decoder)
{
    struct decoder d = plain(4), e = plain(3);
    e.stack = "e";
    e.inner = 96;
    NODE("'name':'p.far','op':'%s','inputs':['mask'],'outputs':['far']", "Neg");
    char between[32];
    (void)snprintf(between, sizeof between, "%s", add_layers(&e, "x"));
    const char *last = add_layers(&d, between);
    ADD(&text.outputs, "'%s'", last);
    expect("3x13 4x13");
}

/* ---- nodes ------------------------------------------------------------------------------------------------------ */

static uint32_t class_of(const char *name)
{
    for (uint32_t n = 0; n < workload->node_count; n++) {
        if (strcmp(workload->nodes[n].name, name) == 0)
            return blocks->class_of[n];
    }
    cr_assert_fail("no node %s", name);
    return SP_NO_WORK;
}

/* Which row is gathered makes no difference; which axis is summed up does. */
Test(blocks, known_integers_count_where_the_rule_does)
{
    for (int i = 0; i < 3; i++) {
        INTS("row%d", "1", "%d", i, i);
        INTS("axes%d", "1", "%d", i, i % 2);
        INTS("shape%d", "2", "%d,32", i, i == 2 ? -1 : 8);
        NODE("'name':'gather%d','op':'Gather','inputs':['rows','row%d'],'outputs':['g%d']", i, i, i);
        NODE("'name':'sum%d','op':'ReduceSum','inputs':['mask','axes%d'],'outputs':['s%d'],'attributes':{'keepdims':0}",
             i, i, i);
        NODE("'name':'reshape%d','op':'Reshape','inputs':['x','shape%d'],'outputs':['r%d']", i, i, i);
        ADD(&text.outputs, "'g%d','s%d','r%d'", i, i, i);
    }
    read_text();
    find();
    cr_assert_eq(class_of("gather0"), class_of("gather1"));
    cr_assert_eq(class_of("sum0"), class_of("sum2"));
    cr_assert_neq(class_of("sum0"), class_of("sum1"));
    cr_assert_eq(class_of("reshape0"), class_of("reshape1"));
    cr_assert_eq(class_of("reshape0"), class_of("reshape2")); /* -1 and 8 are the same rows */
}

/* Operands that are one tensor, or two. */
Test(blocks, the_same_operand_twice)
{
    NODE("'name':'twice','op':'Concat','inputs':['mask','mask','%s'],'outputs':['a'],'attributes':{'axis':0}", "other");
    NODE("'name':'behind','op':'Concat','inputs':['mask','%s','other'],'outputs':['b'],'attributes':{'axis':0}",
         "other");
    NODE("'name':'again','op':'Concat','inputs':['other','%s','mask'],'outputs':['c'],'attributes':{'axis':0}",
         "other");
    ADD(&text.outputs, "'a','b','%s'", "c");
    read_text();
    find();
    cr_assert_neq(class_of("twice"), class_of("behind"));
    cr_assert_eq(class_of("twice"), class_of("again"));
}

/* Four nodes to a block, one of them with graphs inside that read from around them. */
static void add_conditions(int count, int odd, const char *odd_op, const char *odd_reads)
{
    char x[32] = "x";
    for (int i = 0; i < count; i++) {
        const char *op = i == odd ? odd_op : "Exp";
        NODE("'name':'c%d.a','op':'Neg','inputs':['%s'],'outputs':['a%d']", i, x, i);
        NODE("'name':'c%d.b','op':'Abs','inputs':['a%d'],'outputs':['b%d']", i, i, i);
        NODE("'name':'c%d.if','op':'If','inputs':['flag'],'outputs':['i%d'],'attributes':{"
             "'then_branch':{'graph':{'nodes':[{'op':'%s','inputs':['a%d'],'outputs':['t%d']},"
             "{'op':'Add','inputs':['t%d','%s%d'],'outputs':['u%d']}],'outputs':['u%d']}},"
             "'else_branch':{'graph':{'nodes':[{'op':'Sub','inputs':['a%d','b%d'],'outputs':['e%d']}],"
             "'outputs':['e%d']}}}",
             i, i, op, i, i, i, i == odd ? odd_reads : "b", i, i, i, i, i, i, i);
        NODE("'name':'c%d.y','op':'Relu','inputs':['i%d'],'outputs':['y%d']", i, i, i);
        (void)snprintf(x, sizeof x, "y%d", i);
    }
    ADD(&text.outputs, "'%s'", x);
}

Test(blocks, graphs_inside_nodes)
{
    add_conditions(7, -1, "", "");
    expect("7x4");
}

Test(blocks, another_operator_inside)
{
    add_conditions(7, 3, "Log", "b");
    expect("3x4 3x4");
}

Test(blocks, another_operand_inside)
{
    add_conditions(7, 3, "Exp", "a");
    expect("3x4 3x4");
}

/* Sixteen products side by side and nothing else: small blocks are found when they save enough, and not else. */
Test(blocks, nodes_side_by_side)
{
    for (int i = 0; i < 16; i++) {
        WEIGHT("w%d", "32,32", i);
        NODE("'name':'m%d.m','op':'MatMul','inputs':['x','w%d'],'outputs':['y%d']", i, i, i);
        ADD(&text.outputs, "'y%d'", i);
    }
    expect("16x1");
}

Test(blocks, small_savings_are_left_out)
{
    for (int i = 0; i < SP_BLOCKS_LEAST_SAVED; i++) {
        WEIGHT("w%d", "32,32", i);
        NODE("'name':'m%d.m','op':'MatMul','inputs':['x','w%d'],'outputs':['y%d']", i, i, i);
        ADD(&text.outputs, "'y%d'", i);
    }
    expect("");
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

Test(blocks, nothing_at_all)
{
    struct work_builder builder;
    work_init(&builder, arena, 1, 1, 1);
    work_input(&builder, 8);
    workload = work_finish(&builder, cluster);
    find();
    cr_assert(blocks->order_count == 0 && blocks->run_count == 0 && blocks->class_count == 0);
}

Test(blocks, the_seed_makes_no_difference)
{
    struct decoder d = plain(5);
    expect_decoder(&d, "5x13");
    const struct sp_blocks *first = blocks;
    struct sp_error err = {0};
    const struct sp_read_options options = {.hash_seed = 0x123456789abcdef};
    cr_assert_eq(read_workload(&options, &err), SP_OK);
    find();
    cr_assert_str_eq(runs(), "5x13");
    cr_assert_eq(first->class_count, blocks->class_count);
    for (uint32_t n = 0; n < workload->node_count; n++)
        cr_assert(first->class_of[n] == blocks->class_of[n] && first->same_as[n] == blocks->same_as[n]);
}

Test(blocks, missing_memory_is_an_error)
{
    struct decoder d = plain(5);
    expect_decoder(&d, "5x13");
    bool is_enough = false;
    for (size_t limit = 1024; !is_enough; limit += limit / 4) {
        struct sp_budget small = {.limit = limit};
        struct sp_arena *own = sp_arena_create(&small);
        struct sp_blocks *result = NULL;
        struct sp_error err = {0};
        enum sp_status status = own != NULL ? sp_blocks_find(own, workload, &result, &err) : SP_ERR_MEMORY;
        is_enough = status == SP_OK;
        cr_assert(is_enough || (status == SP_ERR_MEMORY && result == NULL));
        sp_arena_destroy(own);
        cr_assert_leq(limit, (size_t)1 << 26);
    }
}

/* ---- real exports ----------------------------------------------------------------------------------------------- */

static bool read_model(const char *name)
{
    size_t size;
    struct sp_error err = {0};
    char path[64];
    (void)snprintf(path, sizeof path, "models/%s", name);
    unsigned char *bytes = data_read(onnx_data(path), &size);
    if (bytes == NULL)
        return false;
    sp_buf_init(&file, (size_t)1 << 30);
    sp_buf_append(&file, bytes, size);
    free(bytes);
    cr_assert_eq(read_workload(NULL, &err), SP_OK, "%s", err.message);
    find();
    return true;
}

/* Layers are those of the published models (BERT base and ViT-B/16: 12) and of the scripts that made the small ones. */
Test(blocks, exported_transformers)
{
    static const struct {
        const char *name, *runs;
        uint32_t outside; /* nodes in no run: embeddings, masks, heads */
    } cases[] = {{"bert_base.onnx", "12x50", 21}, {"bert_tiny.onnx", "2x50", 21}, {"gpt2_tiny.onnx", "3x47", 12},
                 {"llama_tiny.onnx", "2x60", 9},  {"moe_tiny.onnx", "2x67", 9},   {"vit_b_16.onnx", "12x50", 16}};
    uint32_t tested = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (!read_model(cases[i].name))
            continue;
        cr_expect_str_eq(runs(), cases[i].runs, "%s: %s", cases[i].name, runs());
        cr_expect_eq(blocks->order_count - blocks->runs[0].count * blocks->runs[0].length, cases[i].outside,
                     "%s: %u of %u", cases[i].name, blocks->runs[0].count * blocks->runs[0].length,
                     blocks->order_count);
        sp_buf_release(&file);
        tested++;
    }
    if (tested == 0)
        cr_skip_test("no %s", data_folder());
}

/* Four stages of different widths; pairs of layers, as every second one shifts its windows. */
Test(blocks, an_exported_pyramid)
{
    if (!read_model("swin_t.onnx"))
        cr_skip_test("no %s", data_folder());
    cr_assert_not_null(strstr(runs(), "3x129"), "%s", runs());
}
