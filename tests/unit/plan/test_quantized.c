/*
 * Plans of quantised models. A constant that is dequantised takes the memory of its quantised elements, scales and zero
 * points, whatever reads it; and a model with QuantizeLinear and DequantizeLinear around its operators is never slower
 * than the one that it was made of.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "plan/internal.h"
#include "plan/job.h"
#include "search/joint/joint.h"

#define TEXT_SIZE 8192
#define DEVICE    "h100-sxm-80gb"

struct planned {
    struct sp_arena *arena;
    struct sp_job *job;
    struct sp_plan *plan;
};

static struct planned plan_text(const char *text, uint32_t devices, enum sp_search_strategy strategy)
{
    struct planned p = {.arena = sp_arena_create(NULL)};
    const struct sp_job_options model = {.bytes = text, .size = strlen(text), .name = "model.json"};
    struct sp_plan_options options;
    struct sp_cluster *cluster;
    struct sp_error err = {0};
    sp_plan_options_init(&options);
    options.max_replicas = 1; /* one plan, no copies */
    options.strategy = strategy;
    json_t *json = json_pack("{s:s, s:i, s:s}", "device", DEVICE, "count", (int)devices, "runtime", "vllm");
    cr_assert_eq(sp_cluster_parse(p.arena, json, "", &cluster, &err), SP_OK, "%s", err.message);
    json_decref(json);
    cr_assert_eq(sp_job_plan(&model, cluster, &options, &p.job, &p.plan, &err), SP_OK, "%s\n%s", err.message, text);
    return p;
}

static void release(struct planned *p)
{
    sp_job_destroy(p->job);
    sp_arena_destroy(p->arena);
}

/* One input x and one result y, in JSON with ' for ". */
static const char *model_text(const char *x, const char *initializers, const char *nodes)
{
    static char text[TEXT_SIZE];
    const int length = snprintf(text, sizeof text,
                                "{'opset':{'ai.onnx':25,'com.microsoft':1,'own':1},'inputs':[{'name':'x',%s}],"
                                "'initializers':[%s],'nodes':[%s],'outputs':['y']}",
                                x, initializers, nodes);
    cr_assert(length > 0 && (size_t)length < sizeof text);
    for (char *at = strchr(text, '\''); at != NULL; at = strchr(at, '\''))
        *at = '"';
    return text;
}

#define TENSOR(name, type, shape) "{'name':'" name "','dtype':'" type "','shape':[" shape "]}"
#define NODE(op, inputs, output, attributes)                                                                           \
    "{'op':'" op "','inputs':[" inputs "],'outputs':['" output "'],'attributes':{" attributes "}}"
#define Q(from, scale, to)  NODE("QuantizeLinear", "'" from "','" scale "'", to, "'output_dtype':3")
#define DQ(from, scale, to) NODE("DequantizeLinear", "'" from "','" scale "'", to, "")

/* ---- weights ---------------------------------------------------------------------------------------------------- */

#define ROWS                       "'dtype':'float32','shape':[64,512]"
#define W(type)                    TENSOR("w", type, "512,512")
#define S(shape)                   "," TENSOR("s", "float32", shape)
#define F                          DQ("w", "s", "f") ","
#define BLOCKS(inputs, attributes) NODE("DequantizeLinear", inputs, "f", attributes) ","
#define MATMUL                     NODE("MatMul", "'x','f'", "y", "")
#define ELEMENTS                   (512.0 * 512)

/* A branch with the product, or without. */
#define BRANCHES(before)                                                                                               \
    NODE("ReduceMax", "'x'", "m", "'keepdims':0")                                                                      \
    "," NODE(                                                                                                          \
        "Cast", "'m'", "cond",                                                                                         \
        "'to':9") ","                                                                                                  \
                  "{'op':'If','inputs':['cond'],'outputs':['y'],'attributes':{'then_branch':{'graph':{" before NODE(   \
                      "MatMul", "'x','f'", "a",                                                                        \
                      "") "],'outputs':['a']}},'else_branch':{'graph':{'nodes':[" NODE("Mul", "'x','u'", "b",          \
                                                                                       "") "],'outputs':['b']}}}}"

struct weight_case {
    const char *name, *x, *initializers, *nodes;
    double bytes;
};

static const struct weight_case weight_cases[] = {
    {"not quantised", ROWS, W("float32"), NODE("MatMul", "'x','w'", "y", ""), 4 * ELEMENTS},
    {"int8 per tensor", ROWS, W("int8") S(""), F MATMUL, ELEMENTS + 4},
    {"uint8 per axis with zero points", ROWS, W("uint8") S("512") "," TENSOR("z", "uint8", "512"),
     BLOCKS("'w','s','z'", "'axis':1") MATMUL, ELEMENTS + 5 * 512},
    {"int4 in blocks of rows", ROWS, W("int4") S("16,512"), BLOCKS("'w','s'", "'axis':0,'block_size':32") MATMUL,
     ELEMENTS / 2 + 4 * 16 * 512},
    {"uint4 in blocks of columns with zero points", ROWS, W("uint4") S("512,8") "," TENSOR("z", "uint4", "512,8"),
     BLOCKS("'w','s','z'", "'axis':1,'block_size':64") MATMUL, ELEMENTS / 2 + 4.5 * 512 * 8},
    {"int2", ROWS, W("int2") S(""), F MATMUL, ELEMENTS / 4 + 4},
    {"uint16", ROWS, W("uint16") S(""), F MATMUL, 2 * ELEMENTS + 4},
    {"uint16 of com.microsoft", ROWS, W("uint16") S("512"),
     "{'op':'DequantizeLinear','domain':'com.microsoft','inputs':['w','s'],'outputs':['f'],'attributes':{'axis':1}}"
     "," MATMUL,
     2 * ELEMENTS + 4 * 512},
    {"float8e4m3fn", ROWS, W("float8e4m3fn") S(""), F MATMUL, ELEMENTS + 4},
    {"float8e5m2", ROWS, W("float8e5m2") S(""), F MATMUL, ELEMENTS + 4},
    {"float4e2m1 whose scales are float8", ROWS, W("float4e2m1") "," TENSOR("b", "float8e4m3fn", "32,512") S(""),
     DQ("b", "s", "bf") "," BLOCKS("'w','bf'", "'axis':0,'block_size':16") MATMUL, ELEMENTS / 2 + 32 * 512 + 4},
    {"transposed", ROWS, W("int8") S(""), F NODE("Transpose", "'f'", "t", "") "," NODE("MatMul", "'x','t'", "y", ""),
     ELEMENTS + 4},
    {"of another shape and float type", "'dtype':'float16','shape':[64,256]",
     W("int8") S("") ",{'name':'shape','dtype':'int64','shape':[2],'data':[256,1024]}",
     F NODE("Reshape", "'f','shape'", "r", "") "," NODE("Cast", "'r'", "c", "'to':10") "," NODE("MatMul", "'x','c'",
                                                                                                "y", ""),
     ELEMENTS + 4},
    {"Gemm with a bias", ROWS, W("int8") S("512") "," TENSOR("c", "int32", "512"),
     BLOCKS("'w','s'", "'axis':0")
         NODE("DequantizeLinear", "'c','s'", "cf", "'axis':0") "," NODE("Gemm", "'x','f','cf'", "y", "'transB':1"),
     ELEMENTS + 4 * 512 + (4 + 4) * 512},
    {"rows that are looked up", "'dtype':'int64','shape':[64]", W("int8") S("512"),
     BLOCKS("'w','s'", "'axis':0") NODE("Gather", "'f','x'", "y", ""), ELEMENTS + 4 * 512},
    {"dequantised twice", ROWS, W("int8") S(""),
     F DQ("w", "s", "g") "," NODE("MatMul", "'x','f'", "h", "") "," NODE("MatMul", "'h','g'", "y", ""), ELEMENTS + 4},
    {"quantised by the model itself", ROWS, W("float32") S(""), Q("w", "s", "q") "," DQ("q", "s", "f") "," MATMUL,
     ELEMENTS + 4},
    {"used in a branch", ROWS, W("int8") S("") "," TENSOR("u", "float32", "512"), F BRANCHES("'nodes':["),
     ELEMENTS + 4 + 4 * 512},
    {"of a branch", ROWS, TENSOR("u", "float32", "512"), BRANCHES("'initializers':[" W("int8") S("") "],'nodes':[" F),
     ELEMENTS + 4 + 4 * 512},
    /* A result of the model is of its type. */
    {"a result", "'dtype':'float32','shape':[512,512]", W("int8") S(""),
     DQ("w", "s", "y") "," NODE("MatMul", "'x','y'", "other", ""), 4 * ELEMENTS},
};

static double weights_of(const struct planned *p)
{
    double sum = 0;
    for (uint32_t s = 0; s < p->plan->result->evaluation->stage_count; s++)
        sum += p->plan->result->evaluation->stages[s].weights_bytes;
    return sum;
}

Test(quantized, weights_have_the_memory_of_their_quantised_elements)
{
    for (size_t i = 0; i < sizeof weight_cases / sizeof *weight_cases; i++) {
        const struct weight_case *c = &weight_cases[i];
        struct planned p = plan_text(model_text(c->x, c->initializers, c->nodes), 1, SP_STRATEGY_AUTO);
        cr_expect_float_eq(weights_of(&p), c->bytes, 2, "%s: %.1f instead of %.1f bytes", c->name, weights_of(&p),
                           c->bytes);
        release(&p);
    }
}

/* ---- time ------------------------------------------------------------------------------------------------------- */

static double interval_of(const char *text, uint32_t devices)
{
    struct planned p = plan_text(text, devices, SP_STRATEGY_AUTO);
    const double interval = p.plan->result->evaluation->interval_seconds;
    release(&p);
    return interval;
}

#define PRODUCT_X   "'dtype':'float16','shape':[4096,8192]"
#define LARGE(type) TENSOR("w", type, "8192,8192") "," TENSOR("s", "float16", "")

/* NVIDIA H100 SXM data sheet, dense: 989.4e12 FLOP/s in float16, 1978.9e12 in FP8 and INT8; shares of these are
   measured (api/devices), as is what a product takes to start, and a pass that quantises an input. */
Test(quantized, products_of_quantised_operands_run_at_their_rate)
{
    const struct sp_device *h100 = sp_device_find("h100-sxm-80gb");
    const double flops = 2.0 * 4096 * 8192 * 8192,
                 half = flops / 989.4e12 / sp_device_product(h100, SP_DTYPE_FLOAT16).flops_share + 2.926e-6,
                 pass = 2.61e-6 + 3.0 * 4096 * 8192 / 3.35e12 / 0.4284 + 4096 * 5.819e-9,
                 narrow =
                     flops / 1978.9e12 / sp_device_product(h100, SP_DTYPE_FLOAT8E4M3FN).flops_share + 2.926e-6 + pass;
    const struct {
        const char *name, *initializers, *nodes;
        double seconds;
    } cases[] = {
        {"float16", LARGE("float16"), NODE("MatMul", "'x','w'", "y", ""), half},
        {"weights alone", LARGE("int8"), F MATMUL, half},
        {"int8", LARGE("int8"), Q("x", "s", "q") "," DQ("q", "s", "g") "," F NODE("MatMul", "'g','f'", "y", ""),
         narrow},
        {"float8", LARGE("float8e4m3fn"),
         NODE("QuantizeLinear", "'x','s'", "q",
              "'output_dtype':17") "," DQ("q", "s", "g") "," F NODE("MatMul", "'g','f'", "y", ""),
         narrow},
        {"int4 by int8", LARGE("int4"), Q("x", "s", "q") "," DQ("q", "s", "g") "," F NODE("MatMul", "'g','f'", "y", ""),
         narrow},
        {"of 16 bits, for which there is no unit", LARGE("int16"),
         NODE("QuantizeLinear", "'x','s'", "q",
              "'output_dtype':5") "," DQ("q", "s", "g") "," F NODE("MatMul", "'g','f'", "y", ""),
         half},
    };
    /* What was measured with 7168 in place of the second 8192 (aiconfigurator 095f58a51c4c, h100_sxm/gemm/vllm/0.24.0);
       the shares are fitted to many shapes, and meet none of them exactly. */
    cr_expect_float_eq(half * 7168 / 8192, 525.6e-6, 0.2 * 525.6e-6);
    cr_expect_float_eq(narrow * 7168 / 8192, 444.5e-6, 0.1 * 444.5e-6);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double seconds = interval_of(model_text(PRODUCT_X, cases[i].initializers, cases[i].nodes), 1);
        cr_expect_float_eq(seconds, cases[i].seconds, 0.002 * cases[i].seconds, "%s: %g instead of %g", cases[i].name,
                           seconds, cases[i].seconds);
    }
}

/* Large enough that kernels take longer than their starts: a pass that quantises is one more. */
#define IMAGE         "'dtype':'float32','shape':[32,16,112,112]"
#define KERNELS(type) TENSOR("k", type, "16,16,3,3") "," TENSOR("l", type, "16,16,1,1") S("")
#define CONV(x, k, y) NODE("Conv", "'" x "','" k "'", y, "'pads':[1,1,1,1]") ","
#define FLAT(x, k, y) NODE("Conv", "'" x "','" k "'", y, "") ","
#define PAIR(x)       Q(x, "s", x "_q") "," DQ(x "_q", "s", x "_f") ","
#define WEIGHT(w)     DQ(w, "s", w "_f") ","
#define SHAPE         ",{'name':'shape','dtype':'int64','shape':[2],'data':[0,-1]}"

/* Each pair: a model, and the same with QuantizeLinear and DequantizeLinear where quantizers put them. */
static const struct {
    const char *name, *x, *initializers, *nodes, *quantized_initializers, *quantized_nodes;
} pairs[] = {
    {"a residual block", IMAGE, KERNELS("float32"),
     CONV("x", "k", "a") NODE("Relu", "'a'", "b", "") "," FLAT("b", "l", "c") NODE("Add", "'b','c'", "y", ""),
     KERNELS("int8"),
     WEIGHT("k") WEIGHT("l") PAIR("x") CONV("x_f", "k_f", "a") NODE("Relu", "'a'", "b", "") "," PAIR("b")
         FLAT("b_f", "l_f", "c") PAIR("c")
             NODE("Add", "'b_f','c_f'", "d", "") "," Q("d", "s", "d_q") "," DQ("d_q", "s", "y")},
    {"a part that stays as it is", IMAGE, KERNELS("float32"),
     CONV("x", "k", "a") NODE("Sigmoid", "'a'", "b", "") "," FLAT("a", "l", "c") NODE("Mul", "'b','c'", "y", ""),
     KERNELS("int8"),
     WEIGHT("k") WEIGHT("l") PAIR("x") CONV("x_f", "k_f", "a") NODE("Sigmoid", "'a'", "b", "") "," PAIR("a")
         FLAT("a_f", "l_f", "c") NODE("Mul", "'b','c'", "y", "")},
    {"views and a classifier", IMAGE, KERNELS("float32") "," TENSOR("g", "float32", "16,10") SHAPE,
     CONV("x", "k", "a") NODE("GlobalAveragePool", "'a'", "b", "") "," NODE("Reshape", "'b','shape'", "c",
                                                                            "") "," NODE("MatMul", "'c','g'", "y", ""),
     KERNELS("int8") "," TENSOR("g", "int8", "16,10") SHAPE,
     WEIGHT("k") WEIGHT("g") PAIR("x") CONV("x_f", "k_f", "a") PAIR("a")
         NODE("GlobalAveragePool", "'a_f'", "b", "") "," PAIR("b")
             NODE("Reshape", "'b_f','shape'", "c", "") "," PAIR("c") NODE("MatMul", "'c_f','g_f'", "y", "")},
};

Test(quantized, a_model_is_not_slower_than_what_it_was_made_of)
{
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (uint32_t devices = 1; devices <= 2; devices++) {
            const double was = interval_of(model_text(pairs[i].x, pairs[i].initializers, pairs[i].nodes), devices);
            const double is =
                interval_of(model_text(pairs[i].x, pairs[i].quantized_initializers, pairs[i].quantized_nodes), devices);
            cr_expect_leq(is, was, "%s on %u devices: %g instead of %g s", pairs[i].name, devices, is, was);
        }
}

/* ---- parts ------------------------------------------------------------------------------------------------------ */

/* "w[1,2]@2": the shards of each axis, and on how many devices, of an operand of the node with this result. */
static void expect_spec(const struct planned *p, const char *result, const char *operand, const char *want)
{
    struct sp_annotations annotations;
    struct sp_error err = {0};
    char text[256] = "";
    size_t used = 0;
    cr_assert_eq(sp_plan_annotations(p->plan, &annotations, &err), SP_OK, "%s", err.message);
    const struct sp_value *value = sp_graph_value(p->plan->model->graph, result);
    cr_assert_not_null(value);
    const struct sp_node_configuration *configuration = &annotations.nodes[value->producer->index].configuration;
    for (uint32_t s = 0; s < configuration->spec_count; s++) {
        const struct sp_sharding_spec *spec = &configuration->specs[s];
        if (strcmp(spec->tensor_name, operand) != 0)
            continue;
        for (uint32_t a = 0; a < spec->axis_count; a++)
            for (uint32_t i = 0; i < spec->axes[a].part_count; i++)
                used += (size_t)snprintf(text + used, sizeof text - used, "%lld in %lld, ",
                                         (long long)spec->axes[a].axis, (long long)spec->axes[a].parts[i].num_shards);
        (void)snprintf(text + used, sizeof text - used, "%u devices", spec->device_count);
    }
    cr_expect_str_eq(text, want, "%s of %s: %s instead of %s", operand, result, text, want);
}

#define WIDE(type) TENSOR("w", type, "8192,8192")

/* 16 rows by 8192 columns: the columns are split, or with a transposed weight its rows. */
Test(quantized, constants_are_cut_before_they_are_dequantised)
{
    struct planned p = plan_text(model_text("'dtype':'float32','shape':[16,8192]", WIDE("int4") S("64,8192"),
                                            BLOCKS("'w','s'", "'axis':0,'block_size':128") MATMUL),
                                 4, SP_STRATEGY_TENSOR);
    expect_spec(&p, "y", "f", "1 in 4, 4 devices");
    expect_spec(&p, "f", "f", "1 in 4, 4 devices");
    expect_spec(&p, "f", "w", "1 in 4, 4 devices");
    expect_spec(&p, "f", "s", "1 in 4, 4 devices");
    cr_expect_float_eq(p.plan->result->evaluation->stages[0].weights_bytes, (8192.0 * 8192 / 2 + 4 * 64 * 8192) / 4, 1);
    release(&p);
    p = plan_text(model_text("'dtype':'float32','shape':[16,8192]",
                             WIDE("int8") S("8192") "," TENSOR("z", "int8", "8192"),
                             BLOCKS("'w','s','z'", "'axis':0")
                                 NODE("Transpose", "'f'", "t", "") "," NODE("MatMul", "'x','t'", "y", "")),
                  2, SP_STRATEGY_TENSOR);
    expect_spec(&p, "t", "f", "0 in 2, 2 devices");
    expect_spec(&p, "f", "w", "0 in 2, 2 devices");
    expect_spec(&p, "f", "s", "0 in 2, 2 devices");
    expect_spec(&p, "f", "z", "0 in 2, 2 devices");
    release(&p);
    p = plan_text(model_text("'dtype':'float32','shape':[16,8192]", WIDE("int8") S(""), F MATMUL), 2,
                  SP_STRATEGY_TENSOR);
    expect_spec(&p, "f", "w", "1 in 2, 2 devices");
    expect_spec(&p, "f", "s", "2 devices");
    release(&p);
}

/* 3 blocks of columns: an even cut of the columns goes through a block. */
Test(quantized, blocks_stay_whole)
{
    struct planned p =
        plan_text(model_text("'dtype':'float32','shape':[16,32768]", TENSOR("w", "int8", "32768,6144") S("32768,3"),
                             BLOCKS("'w','s'", "'axis':1,'block_size':2048") MATMUL),
                  2, SP_STRATEGY_TENSOR);
    expect_spec(&p, "y", "f", "0 in 2, 2 devices");
    expect_spec(&p, "f", "w", "0 in 2, 2 devices");
    release(&p);
}

/* What two stages use is dequantised in both: nobody sends weights. */
Test(quantized, what_several_stages_use_is_made_in_each)
{
    struct planned p =
        plan_text(model_text("'dtype':'float32','shape':[4096,8192]", WIDE("int8") S(""),
                             F NODE("MatMul", "'x','f'", "a", "") "," NODE("MatMul", "'a','f'", "y", "")),
                  2, SP_STRATEGY_PIPELINE);
    cr_assert_eq(p.plan->result->placement.stage_count, 2);
    cr_expect_eq(p.plan->result->evaluation->transfer_count, 1);
    expect_spec(&p, "f", "w", "2 devices");
    expect_spec(&p, "f", "f", "2 devices");
    release(&p);
}

#define PACKED(w, s) TENSOR(w, "uint8", "8192,64,64") "," TENSOR(s, "float16", "524288")
#define NBITS(x, w, s, y)                                                                                              \
    "{'op':'MatMulNBits','domain':'com.microsoft','inputs':['" x "','" w "','" s "'],'outputs':['" y                   \
    "'],'attributes':{'K':8192,'N':8192,'bits':4,'block_size':128}}"

/* What the first product sums over is cut, and its sums are split by columns in the second, whose result may stay in
   parts; scales lie in one row, [columns, blocks]. */
Test(quantized, scales_in_one_row_are_cut_by_blocks)
{
    struct planned p =
        plan_text(model_text("'dtype':'float16','shape':[1,8192]", PACKED("w1", "s1") "," PACKED("w2", "s2"),
                             NBITS("x", "w1", "s1", "h") "," NBITS("h", "w2", "s2", "y")),
                  2, SP_STRATEGY_TENSOR);
    expect_spec(&p, "h", "w1", "1 in 2, 2 devices");
    expect_spec(&p, "h", "s1", "0 in 1, 0 in 2, 2 devices");
    expect_spec(&p, "y", "w2", "0 in 2, 2 devices");
    expect_spec(&p, "y", "s2", "0 in 2, 2 devices");
    cr_expect_float_eq(p.plan->result->evaluation->stages[0].weights_bytes, 8192.0 * 64 * 64 + 2 * 524288, 1);
    release(&p);
}
