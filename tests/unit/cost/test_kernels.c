/*
 * Kernels (cost/kernels/kernels.h): what each runtime computes at once, in graphs as exporters write them. Expected are
 * the fusions that the runtimes document (runtime.c names the pages). What the kernel of a product writes counts
 * where the product is.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "build_model.h"
#include "cost/kernels/kernels.h"
#include "cost/workload.h"
#include "ops/shapes/shapes.h"

/* The kernels of the main graph in words: names of nodes joined by "+", those whose result is written to memory with a
   "!", the node that has the start first in brackets; kernels apart by blanks. */
static void describe(struct build *build, enum sp_runtime_id id, size_t size, char *text)
{
    struct sp_kernels *kernels = NULL;
    size_t used = 0;
    cr_assert_eq(sp_kernels_find(build->arena, build->model, build->graph, sp_runtime(id), &kernels, &build->err),
                 SP_OK, "%s", build->err.message);
    cr_assert_eq(kernels->node_count, build->graph->node_count);
    text[0] = '\0';
    for (uint32_t first = 0; first < kernels->node_count; first++) {
        bool is_begun = false;
        for (uint32_t n = 0; n < kernels->node_count; n++) {
            const struct sp_node_kernel *of = &kernels->nodes[n];
            const char *name = build->graph->nodes[n].outputs[0]->name;
            if (of->kernel != first)
                continue;
            const char *between = is_begun ? "+" : used > 0 ? " " : "";
            used += (size_t)snprintf(text + used, size - used, of->pays_no_start ? "%s%s%s" : "%s(%s)%s", between, name,
                                     of->keeps_output ? "" : "!");
            cr_assert_lt(used, size);
            is_begun = true;
        }
    }
}

static void expect(struct build *build, enum sp_runtime_id id, const char *expected)
{
    char text[512];
    describe(build, id, sizeof text, text);
    cr_expect_str_eq(text, expected, "%s: '%s', expected '%s'", sp_runtime(id)->name, text, expected);
}

static void infer(struct build *build, const char *outputs)
{
    build_outputs(build, outputs);
    cr_assert_eq(build_infer(build), SP_OK, "%s", build->err.message);
}

static const float half = 0.5F, one = 1, two = 2;

/* y = x/sqrt(2) .. as PyTorch writes it, behind a product with a bias. */
static void gelu(struct build *build)
{
    build_init(build, 17);
    build_input(build, "x", SP_DTYPE_FLOAT, "8,64,256");
    build_weight(build, "w", SP_DTYPE_FLOAT, "256,1024");
    build_weight(build, "b", SP_DTYPE_FLOAT, "1024");
    build_floats(build, "root2", -1, &two);
    build_floats(build, "one", -1, &one);
    build_floats(build, "half", -1, &half);
    build_node(build, "MatMul", "x w", "mm");
    build_node(build, "Add", "b mm", "bias");
    build_node(build, "Div", "bias root2", "div");
    build_node(build, "Erf", "div", "erf");
    build_node(build, "Add", "erf one", "plus");
    build_node(build, "Mul", "bias plus", "times");
    build_node(build, "Mul", "times half", "y");
    infer(build, "y");
}

Test(kernels, a_gelu_written_out)
{
    struct build build;
    gelu(&build);
    expect(&build, SP_RUNTIME_GENERIC, "(mm)! (bias)! (div)! (erf)! (plus)! (times)! (y)!");
    expect(&build, SP_RUNTIME_ONNXRUNTIME, "(mm)!+bias (div)+erf+plus+times+y!");
    expect(&build, SP_RUNTIME_TENSORRT, "(mm)!+bias+div+erf+plus+times+y");
    expect(&build, SP_RUNTIME_VLLM, "(mm)! (bias)+div+erf+plus+times+y!");
    build_release(&build);
}

/* A normalisation behind a residual, whose sum goes on. */
static void normalisation(struct build *build)
{
    build_init(build, 17);
    build_input(build, "x", SP_DTYPE_FLOAT, "8,64,256");
    build_input(build, "residual", SP_DTYPE_FLOAT, "8,64,256");
    build_weight(build, "scale", SP_DTYPE_FLOAT, "256");
    build_floats(build, "two", -1, &two);
    build_floats(build, "epsilon", -1, &one);
    build_node(build, "Add", "x residual", "sum");
    struct sp_node *mean = build_node(build, "ReduceMean", "sum", "mean");
    build_attr_ints(build, mean, "axes", 1, (int64_t[]){-1});
    build_node(build, "Sub", "sum mean", "centred");
    build_node(build, "Pow", "centred two", "square");
    struct sp_node *variance = build_node(build, "ReduceMean", "square", "variance");
    build_attr_ints(build, variance, "axes", 1, (int64_t[]){-1});
    build_node(build, "Add", "variance epsilon", "above");
    build_node(build, "Sqrt", "above", "deviation");
    build_node(build, "Div", "centred deviation", "even");
    build_node(build, "Mul", "even scale", "y");
    infer(build, "sum y");
}

Test(kernels, a_normalisation_written_out)
{
    struct build build;
    normalisation(&build);
    const char *all = "(sum)!+mean+centred+square+variance+above+deviation+even+y!";
    expect(&build, SP_RUNTIME_ONNXRUNTIME, "(sum)! (mean)+centred+square+variance+above+deviation+even+y!");
    expect(&build, SP_RUNTIME_TENSORRT, all);
    expect(&build, SP_RUNTIME_VLLM, all);
    build_release(&build);
}

/* One input per query and key, as a cache brings them, a scale and a mask. */
static void attention(struct build *build, const char *scores_go_to)
{
    build_init(build, 17);
    build_input(build, "q", SP_DTYPE_FLOAT16, "2,8,128,64");
    build_input(build, "k", SP_DTYPE_FLOAT16, "2,8,64,128");
    build_input(build, "v", SP_DTYPE_FLOAT16, "2,8,128,64");
    build_input(build, "mask", SP_DTYPE_FLOAT16, "1,1,128,128");
    build_weight(build, "scale", SP_DTYPE_FLOAT16, "1");
    build_node(build, "MatMul", "q k", "scores");
    build_node(build, "Div", "scores scale", "scaled");
    build_node(build, "Add", "scaled mask", "masked");
    struct sp_node *softmax = build_node(build, "Softmax", "masked", "weights");
    build_attr_int(build, softmax, "axis", -1);
    build_node(build, "MatMul", "weights v", "y");
    infer(build, scores_go_to);
}

Test(kernels, attention_written_out)
{
    struct build build;
    attention(&build, "y");
    expect(&build, SP_RUNTIME_ONNXRUNTIME, "(scores)!+scaled (masked)! (weights)! (y)!");
    expect(&build, SP_RUNTIME_TENSORRT, "(scores)+scaled+masked+weights+y!");
    expect(&build, SP_RUNTIME_VLLM, "(scores)+scaled+masked+weights+y!");
    build_release(&build);
}

Test(kernels, scores_that_are_asked_for_are_written)
{
    struct build build;
    attention(&build, "y weights");
    expect(&build, SP_RUNTIME_TENSORRT, "(scores)!+scaled+masked (weights)! (y)!");
    build_release(&build);
}

/* Two products and a gate: one kernel cannot wait for the other product unless that is there before. */
Test(kernels, a_gate)
{
    struct build build;
    build_init(&build, 17);
    build_input(&build, "x", SP_DTYPE_FLOAT16, "64,256");
    build_weight(&build, "w1", SP_DTYPE_FLOAT16, "256,1024");
    build_weight(&build, "w2", SP_DTYPE_FLOAT16, "256,1024");
    build_node(&build, "MatMul", "x w1", "gate");
    build_node(&build, "MatMul", "x w2", "up");
    build_node(&build, "Sigmoid", "gate", "open");
    build_node(&build, "Mul", "gate open", "silu");
    build_node(&build, "Mul", "silu up", "y");
    infer(&build, "y");
    expect(&build, SP_RUNTIME_ONNXRUNTIME, "(gate)! (up)! (open)+silu! (y)!");
    expect(&build, SP_RUNTIME_VLLM, "(gate)! up! (open)+silu+y!"); /* gate and up are one product */
    expect(&build, SP_RUNTIME_TENSORRT, "(gate)!+open+silu+y up!");
    build_release(&build);
}

Test(kernels, a_convolution_and_what_turns_its_result)
{
    struct build build;
    build_init(&build, 17);
    build_input(&build, "x", SP_DTYPE_FLOAT, "1,64,56,56");
    build_weight(&build, "w", SP_DTYPE_FLOAT, "64,64,3,3");
    struct sp_node *conv = build_node(&build, "Conv", "x w", "conv");
    build_attr_ints(&build, conv, "pads", 4, (int64_t[]){1, 1, 1, 1});
    build_node(&build, "Relu", "conv", "relu");
    build_node(&build, "Add", "relu x", "sum");
    struct sp_node *turn = build_node(&build, "Transpose", "sum", "turned");
    build_attr_ints(&build, turn, "perm", 4, (int64_t[]){0, 2, 3, 1});
    build_node(&build, "Relu", "turned", "y");
    infer(&build, "y");
    expect(&build, SP_RUNTIME_ONNXRUNTIME, "(conv)!+relu (sum)! (turned)! (y)!");
    expect(&build, SP_RUNTIME_TENSORRT, "(conv)!+relu+sum (turned)! (y)!");
    build_release(&build);
}

/* What a kernel hands on comes back to it through another: it cannot be one. */
Test(kernels, no_kernel_waits_for_itself)
{
    struct build build;
    build_init(&build, 17);
    build_input(&build, "x", SP_DTYPE_FLOAT, "64,64");
    build_node(&build, "Exp", "x", "e");
    struct sp_node *turn = build_node(&build, "Transpose", "e", "turned");
    build_attr_ints(&build, turn, "perm", 2, (int64_t[]){1, 0});
    build_node(&build, "Add", "e turned", "y");
    infer(&build, "y");
    expect(&build, SP_RUNTIME_TENSORRT, "(e)! (turned)! (y)!");
    build_release(&build);
}

/* Products of quantised operands, behind a norm, an attention and an input: who has a pass of its own for activations.
   vLLM joins it to norms and not to attention (docs.vllm.ai, design/fusions), TensorRT-LLM to both. */
static void narrow_product(struct build *build, const char *x, const char *name)
{
    char text[3][64], in[3][128];
    for (int i = 0; i < 3; i++)
        (void)snprintf(text[i], sizeof text[i], "%s_%c", name, "qdv"[i]);
    (void)snprintf(in[0], sizeof in[0], "%s scale zero", x);
    (void)snprintf(in[1], sizeof in[1], "%s scale zero", text[0]);
    (void)snprintf(in[2], sizeof in[2], "%s weight", text[1]);
    build_node(build, "QuantizeLinear", in[0], text[0]);
    build_node(build, "DequantizeLinear", in[1], text[1]);
    build_node(build, "MatMul", in[2], name);
}

static void expect_passes(struct build *build, enum sp_runtime_id id, const char *expected)
{
    struct sp_kernels *kernels = NULL;
    char text[256] = "";
    cr_assert_eq(sp_kernels_find(build->arena, build->model, build->graph, sp_runtime(id), &kernels, &build->err),
                 SP_OK, "%s", build->err.message);
    for (uint32_t n = 0; n < kernels->node_count; n++)
        if (kernels->nodes[n].narrows)
            (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", text[0] != '\0' ? " " : "",
                           build->graph->nodes[n].outputs[0]->name);
    cr_expect_str_eq(text, expected, "%s: '%s', expected '%s'", sp_runtime(id)->name, text, expected);
}

static void narrow_model(struct build *build)
{
    build_init(build, 23);
    for (int i = 0; i < 4; i++)
        build_input(build, (const char *[]){"x", "query", "key", "value"}[i], SP_DTYPE_BFLOAT16,
                    i == 0 ? "16,512" : "16,4,64,128");
    build_weight(build, "gain", SP_DTYPE_BFLOAT16, "512");
    build_weight(build, "scale", SP_DTYPE_BFLOAT16, "");
    build_weight(build, "zero", SP_DTYPE_FLOAT8E4M3FN, "");
    build_weight(build, "narrow", SP_DTYPE_FLOAT8E4M3FN, "512,512");
    build_node(build, "DequantizeLinear", "narrow scale zero", "weight");
    build_node(build, "RMSNormalization", "x gain", "norm");
    build_node(build, "Attention", "query key value", "heads");
    struct sp_node *turn = build_node(build, "Transpose", "heads", "turned");
    build_attr_ints(build, turn, "perm", 4, (int64_t[]){0, 2, 1, 3});
    build_ints(build, "flat", 2, (int64_t[]){-1, 512});
    build_node(build, "Reshape", "turned flat", "mixed");
    narrow_product(build, "norm", "a");
    narrow_product(build, "norm", "b");
    narrow_product(build, "mixed", "c");
    narrow_product(build, "x", "d");
    narrow_product(build, "x", "e");
    build_outputs(build, "a b c d e");
    struct sp_shape_summary summary;
    cr_assert_eq(sp_infer_shapes(build->model, NULL, &summary, &build->err), SP_OK, "%s", build->err.message);
}

Test(kernels, activations_that_are_narrowed)
{
    struct build build;
    narrow_model(&build);
    expect_passes(&build, SP_RUNTIME_VLLM, "c_q d_q");
    expect_passes(&build, SP_RUNTIME_TENSORRT, "d_q");
    expect_passes(&build, SP_RUNTIME_ONNXRUNTIME, "");
    build_release(&build);
}

/* A gate reads what it turns into a factor once, and goes through rows; a function or a sum alone does not. */
Test(kernels, a_gate_is_one_kernel_that_reads_each_operand_once)
{
    struct build build;
    struct sp_kernels *kernels = NULL;
    build_init(&build, 17);
    build_input(&build, "gate", SP_DTYPE_FLOAT, "64,256");
    build_input(&build, "up", SP_DTYPE_FLOAT, "64,256");
    build_input(&build, "x", SP_DTYPE_FLOAT, "64,256");
    const struct sp_node *sigmoid = build_node(&build, "Sigmoid", "gate", "sigmoid");
    const struct sp_node *silu = build_node(&build, "Mul", "gate sigmoid", "silu");
    const struct sp_node *gated = build_node(&build, "Mul", "silu up", "gated");
    const struct sp_node *sum = build_node(&build, "Add", "x up", "sum"),
                         *tanh = build_node(&build, "Tanh", "x", "tanh");
    infer(&build, "gated sum tanh");
    expect(&build, SP_RUNTIME_VLLM, "(sigmoid)+silu+gated! (sum)! (tanh)!");
    cr_assert_eq(
        sp_kernels_find(build.arena, build.model, build.graph, sp_runtime(SP_RUNTIME_VLLM), &kernels, &build.err),
        SP_OK);
    cr_expect_eq(kernels->nodes[sigmoid->index].inside, 0);
    cr_expect_eq(kernels->nodes[silu->index].inside, 3); /* `gate` was read for its sigmoid */
    cr_expect_eq(kernels->nodes[gated->index].inside, 1);
    cr_expect(kernels->nodes[sigmoid->index].goes_by_rows && kernels->nodes[gated->index].goes_by_rows);
    cr_expect_not(kernels->nodes[sum->index].goes_by_rows || kernels->nodes[tanh->index].goes_by_rows);
    build_release(&build);
}

/* By hand, with the figures of the device's file: bytes that are read and written, rows, the start. */
Test(kernels, the_time_of_a_narrowing)
{
    const struct sp_kernel_work work = {.bytes = 3.0 * 4096 * 8192, .rows = 4096, .kind = SP_KERNEL_NARROWING};
    const struct sp_device *known = sp_device_find("h100-sxm-80gb");
    const struct sp_cluster cluster = {.launch_seconds = -1};
    struct sp_device device = *known;
    device.runtime = SP_RUNTIME_VLLM;
    cr_assert_str_eq(known->narrowings[0].runtime, "vllm");
    const struct sp_device_narrowing *pass = &known->narrowings[0];
    const double seconds = pass->start_seconds + work.bytes / (3.35e12 * pass->memory_share) + 4096 * pass->row_seconds;
    cr_expect_float_eq(sp_roofline_seconds(&device, &cluster, SP_DTYPE_BFLOAT16, &work), seconds, 1e-15);
    device.narrowing_count = 0; /* as any other pass over memory */
    const struct sp_device_other other = sp_device_other(&device);
    cr_expect_float_eq(sp_roofline_seconds(&device, &cluster, SP_DTYPE_BFLOAT16, &work),
                       other.start_seconds + work.bytes / (3.35e12 * other.memory_share), 1e-15);
}

/*
 * Kernels of cuDNN on an H100 in float16, channels last, batch 64, that we measured: 49 taps on 96 channels of 56 x 56
 * each for itself 135 us; 3x3 with 64 channels of 56 x 56 and a batch of 8, with bias and activation, 11.8 us. As
 * products they would take 20 and 8 us.
 */
Test(kernels, the_time_of_convolutions)
{
    const double places = 56 * 56;
    const struct sp_kernel_work each = {.flops = 2 * 49 * 96 * places * 64,
                                        .bytes = 2 * (2 * 96 * places * 64 + 49 * 96),
                                        .kind = SP_KERNEL_GROUPED_CONVOLUTION},
                                dense = {.flops = 2.0 * 9 * 64 * 64 * places * 8,
                                         .bytes = 2 * (2 * 64 * places * 8 + 9 * 64 * 64),
                                         .kind = SP_KERNEL_CONVOLUTION};
    const struct sp_cluster cluster = {.launch_seconds = -1};
    struct sp_device device = *sp_device_find("h100-sxm-80gb");
    device.runtime = SP_RUNTIME_TENSORRT;
    cr_expect_float_eq(sp_roofline_seconds(&device, &cluster, SP_DTYPE_FLOAT16, &each), 135e-6, 0.2 * 135e-6);
    cr_expect_float_eq(sp_roofline_seconds(&device, &cluster, SP_DTYPE_FLOAT16, &dense), 11.8e-6, 0.35 * 11.8e-6);
    device.dense = (struct sp_device_convolution){1, 1, 1}; /* its own come before the kind's */
    struct sp_kernel_work product = dense;
    product.kind = SP_KERNEL_PRODUCT;
    cr_expect_eq(sp_roofline_seconds(&device, &cluster, SP_DTYPE_FLOAT16, &dense),
                 sp_roofline_seconds(&device, &cluster, SP_DTYPE_FLOAT16, &product));
    device.kind = SP_DEVICE_OF_NO_KIND; /* without ratios: as products */
    device.grouped = (struct sp_device_convolution){0};
    product = each;
    product.kind = SP_KERNEL_PRODUCT;
    cr_expect_eq(sp_roofline_seconds(&device, &cluster, SP_DTYPE_FLOAT16, &each),
                 sp_roofline_seconds(&device, &cluster, SP_DTYPE_FLOAT16, &product));
}

Test(kernels, names)
{
    cr_expect_eq(sp_runtime_find("vllm"), SP_RUNTIME_VLLM);
    cr_expect_eq(sp_runtime_find("trt"), SP_RUNTIME_COUNT);
}
