#include "control_models.h"
#undef EXPECT_RULE
#include "trace_partition.h"

static void open_control(const char *notation, int64_t devices)
{
    start(18);
    open_model(notation);
    build.model = opened.model;
    cr_assert_eq(sp_dataflow_create(build.arena, opened.model, &dataflow, &build.err), SP_OK, "%s", build.err.message);
    cr_assert_eq(sp_assignment_create(build.arena, dataflow, "c", devices, NULL, &assignment, &build.err), SP_OK, "%s",
                 build.err.message);
}

static void close_control(void)
{
    sp_buf_release(&trace);
    close_model();
    stop();
}

/* The node of this operator, whichever graph it is in. */
static const struct sp_node *node_of(const char *op_type)
{
    for (uint32_t n = 0; n < dataflow->node_count; n++)
        if (strcmp(dataflow->nodes[n]->op_type, op_type) == 0)
            return dataflow->nodes[n];
    cr_assert_fail("no %s", op_type);
    return NULL;
}

#define D48                   DIM(4) DIM(8)
#define XW                    IN(F32("x", D48)) IN(F32("w", D48))
#define TURN                  IN(I64("i", "")) IN(BOOL("go", ""))
#define GOES                  NODE("Identity", A("go") R("go_on"), "")
#define ADD(a, b, y)          NODE("Add", A(a) A(b) R(y), "")
#define ONE(op, x, y)         NODE(op, A(x) R(y), "")
#define BODY(graph)           GRAPH_ATTR("body", "2'b' " graph)
#define BRANCHES(t, e)        GRAPH_ATTR("then_branch", "2't' " t) GRAPH_ATTR("else_branch", "2'e' " e)
#define LOOP(operands, graph) INT_CONST("n", 3) NODE("Loop", A("n") A("") operands, BODY(TURN GOES graph))

/* ---- what is told ----------------------------------------------------------------------------------------------- */

/* Rows of the state and of what is captured are split: the devices go around without a word. */
Test(partition_control, splits_a_loop)
{
    open_control(MODEL(18, XW LOOP(A("x") R("y") R("all"), IN(F32("s", D48)) ADD("s", "w", "u") OUT("go_on") OUT("u")
                                                               OUT("u")) OUT("y") OUT("all")),
                 2);
    given(node_of("Add"), "s", "2 |", "0; 1");
    given(node_of("Add"), "w", "2 |", "0; 1");
    given(node_of("Add"), "u", "2 |", "0; 1");
    EXPECT_TRACE("weight n [] -> d0\n"
                 "weight n [] -> d1\n"
                 "input x [0:2, 0:8] -> d0\n"
                 "input x [2:4, 0:8] -> d1\n"
                 "Loop of n d0[] d1[] - x d0[2,8] d1[2,8]\n"
                 "body takes i d0[] d1[] go d0[] d1[] s d0[2,8] d1[2,8]\n"
                 "input w [0:2, 0:8] -> d0\n"
                 "input w [2:4, 0:8] -> d1\n"
                 "Add on d0\n"
                 "Add on d1\n"
                 "constant on d0\n"
                 "constant on d1\n"
                 "body gives go_on d0[] d1[] u d0[2,8] d1[2,8] u d0[2,8] d1[2,8]\n"
                 "Loop makes y d0[2,8] d1[2,8] all d0[3,2,8] d1[3,2,8]\n"
                 "result y: d0 [0:2, 0:8] d1 [2:4, 0:8]\n"
                 "result all: d0 [0:3, 0:2, 0:8] d1 [0:3, 2:4, 0:8]\n");
    close_control();
}

/* A state that is made in columns and taken in rows: each turn exchanges, inside. */
Test(partition_control, exchanges_in_each_turn)
{
    open_control(MODEL(18, XW LOOP(A("x") R("y"), IN(F32("s", D48)) ONE("Tanh", "s", "t") ADD("t", "w", "u")
                                                      OUT("go_on") OUT("u")) OUT("y")),
                 2);
    given(node_of("Tanh"), "s", "2 |", "0; 1");
    given(node_of("Tanh"), "t", "2 |", "0; 1");
    given(node_of("Add"), "t", "| 2", "0; 1");
    given(node_of("Add"), "w", "| 2", "0; 1");
    given(node_of("Add"), "u", "| 2", "0; 1");
    const char *text = trace_partition();
    cr_expect(strstr(text, "Tanh on d1\nall-to-all t: d0(0,1) d1(0,1)\n"), "%s", text);
    cr_expect(strstr(text, "all-to-all u: d0(0,1) d1(0,1)\nbody gives go_on d0[] d1[] u d0[2,8] d1[2,8]\n"), "%s",
              text);
    close_control();
}

/* What one branch brought is not there in the other, nor behind the node. */
Test(partition_control, splits_branches)
{
    open_control(MODEL(18, XW IN(BOOL("c", "")) ONE("Neg", "w", "h") NODE(
                               "If", A("c") R("y"), BRANCHES(ADD("x", "h", "t") OUT("t"), ADD("h", "x", "e") OUT("e")))
                               ADD("y", "h", "z") OUT("z")),
                 2);
    for (uint32_t n = 0; n < dataflow->node_count; n++) {
        const struct sp_node *node = dataflow->nodes[n];
        if (strcmp(node->op_type, "Add") == 0 && node->graph != opened.model->graph) {
            given(node, "x", "| 2", "0; 1");
            given(node, "h", "| 2", "0; 1");
            given(node, node->outputs[0]->name, "| 2", "0; 1");
        }
    }
    EXPECT_TRACE("input w [0:4, 0:8] -> d0\n"
                 "input w [0:4, 0:8] -> d1\n"
                 "Neg on d0\n"
                 "Neg on d1\n"
                 "input c [] -> d0\n"
                 "input c [] -> d1\n"
                 "If of c d0[] d1[]\n"
                 "then_branch takes\n"
                 "input x [0:4, 0:4] -> d0\n"
                 "input x [0:4, 4:8] -> d1\n"
                 "all-slice h: d0(0) d1(1) !\n"
                 "Add on d0\n"
                 "Add on d1\n"
                 "then_branch gives t d0[4,4] d1[4,4]\n"
                 "else_branch takes\n"
                 "all-slice h: d0(0) d1(1) !\n"
                 "input x [0:4, 0:4] -> d0\n"
                 "input x [0:4, 4:8] -> d1\n"
                 "Add on d0\n"
                 "Add on d1\n"
                 "else_branch gives e d0[4,4] d1[4,4]\n"
                 "If makes y d0[4,4] d1[4,4]\n"
                 "all-slice h: d0(0) d1(1) !\n"
                 "Add on d0\n"
                 "Add on d1\n"
                 "result z: d0 [0:4, 0:4] d1 [0:4, 4:8]\n");
    close_control();
}

#define KNOWN_IF(taken)                                                                                                \
    MODEL(18, XW BOOL_CONST("c", taken) ONE("Neg", "x", "g") ONE("Exp", "w", "h")                                      \
                  NODE("If", A("c") R("y"),                                                                            \
                       BRANCHES(ONE("Relu", "g", "r") ONE("Tanh", "r", "t") OUT("t"),                                  \
                                NODE("Concat", A("h") A("h") R("e"), INT_ATTR("axis", 0)) OUT("e")))                   \
                      ONE("Abs", "y", "z") OUT("z"))

/* The branch that is taken runs in place of the node, where the node is; what only the other one uses is not there. */
Test(partition_control, runs_the_branch_of_a_known_condition)
{
    open_control(KNOWN_IF(1), 3);
    given(node_of("Neg"), "x", "|", "0");
    given(node_of("If"), "y", "|", "1");
    given(node_of("Abs"), "y", "|", "2");
    EXPECT_TRACE("input x [0:4, 0:8] -> d0\n"
                 "Neg on d0\n"
                 "send-receive g: d0 d1(0) !\n"
                 "Relu on d1\n"
                 "Tanh on d1\n"
                 "send-receive t: d1 d2(1) !\n"
                 "Abs on d2\n"
                 "result z: d2 [0:4, 0:8]\n");
    close_control();
    open_control(KNOWN_IF(0), 1);
    EXPECT_TRACE("input w [0:4, 0:8] -> d0\n"
                 "Exp on d0\n"
                 "Concat on d0\n"
                 "Abs on d0\n"
                 "result z: d0 [0:8, 0:8]\n");
    close_control();
}

/* It is cut as its nodes say. */
Test(partition_control, splits_the_branch_of_a_known_condition)
{
    open_control(KNOWN_IF(1), 2);
    given(node_of("Tanh"), "r", "2 |", "0; 1");
    given(node_of("Tanh"), "t", "2 |", "0; 1");
    const char *text = trace_partition();
    cr_expect(strstr(text, "If") == NULL && strstr(text, "Exp") == NULL && strstr(text, "Concat") == NULL, "%s", text);
    cr_expect(strstr(text, "Tanh on d0\nTanh on d1\n"), "%s", text);
    cr_expect(strstr(text, "all-slice r: d0(0) d1(1) !\n"), "%s", text);
    close_control();
}

/* What a graph uses by name is there without elements, too. */
Test(partition_control, brings_what_is_captured_without_elements)
{
    open_control(MODEL(18, IN(F32("x", D48)) IN(I64("axes", DIM(0))) IN(BOOL("c", ""))
                               NODE("If", A("c") R("y"),
                                    BRANCHES(NODE("ReduceSum", A("x") A("axes") R("t"), "") OUT("t"),
                                             NODE("ReduceMax", A("x") A("axes") R("e"), "") OUT("e"))) OUT("y")),
                 2);
    const char *text = trace_partition();
    cr_expect(strstr(text, "input axes [] -> d0\ninput axes [] -> d1\n"), "%s", text);
    close_control();
}

/* What a graph gives and takes is cut where both sides can be only. */
Test(partition_control, keeps_whole_what_has_another_extent_outside)
{
    open_control(MODEL(18, XW IN(BOOL("c", "")) NODE("If", A("c") R("y"),
                                                     BRANCHES(ONE("Neg", "x", "t") OUT("t"),
                                                              NODE("Concat", A("x") A("w") R("e"), INT_ATTR("axis", 0))
                                                                  OUT("e"))) OUT("y")),
                 2);
    given(node_of("Neg"), "x", "2 |", "0; 1");
    given(node_of("Neg"), "t", "2 |", "0; 1");
    const char *text = trace_partition();
    cr_expect(strstr(text, "then_branch gives t d0[4,8] d1[4,8]\n"), "%s", text);
    cr_expect(strstr(text, "else_branch gives e d0[8,8] d1[8,8]\n"), "%s", text);
    cr_expect(strstr(text, "If makes y d0[-1,8] d1[-1,8]\n"), "%s", text);
    close_control();
}

/* The node's own operands may be on devices that nothing inside is on. */
Test(partition_control, runs_where_its_operands_are)
{
    open_control(MODEL(18, XW LOOP(A("x") R("y"), IN(F32("s", D48)) ADD("s", "w", "u") OUT("go_on") OUT("u")) OUT("y")),
                 4);
    given(node_of("Loop"), "x", "2 |", "2; 3");
    given(node_of("Add"), "s", "2 |", "0; 1");
    given(node_of("Add"), "w", "2 |", "0; 1");
    const char *text = trace_partition();
    cr_expect(strstr(text, "Loop of n d0[] d1[] d2[] d3[] - x d2[2,8] d3[2,8]\n"), "%s", text);
    cr_expect(strstr(text, "Loop makes y d2[2,8] d3[2,8]\n"), "%s", text);
    close_control();
}

/* A part of the state would be empty. */
Test(partition_control, makes_no_empty_states)
{
    open_control(MODEL(18, IN(F32("x", DIM(5))) LOOP(A("x") R("y"), IN(F32("s", DIM(5))) ONE("Neg", "s", "u")
                                                                        OUT("go_on") OUT("u")) OUT("y")),
                 4);
    given(node_of("Neg"), "s", "4", "0; 1; 2; 3");
    const char *text = trace_partition();
    cr_expect(strstr(text, "Loop makes y d0[5] d1[5] d2[5] d3[5]\n"), "%s", text);
    close_control();
}

/* Nothing inside is cut: it runs whole, as the node it is. */
Test(partition_control, runs_whole_what_is_not_cut_inside)
{
    open_control(MODEL(18, XW LOOP(A("x") R("y"), IN(F32("s", D48)) ADD("s", "w", "u") OUT("go_on") OUT("u")) OUT("y")),
                 2);
    given(node_of("Add"), "s", "|", "0 1");
    const char *text = trace_partition();
    cr_expect(strstr(text, "Loop on d0\n"), "%s", text);
    cr_expect(!strstr(text, "takes"), "%s", text);
    close_control();
}

/* ---- order ------------------------------------------------------------------------------------------------------ */

#define MAX_PIECES 100000
#define MAX_OPEN   256

/* The pieces that are there: those of a graph go with it. */
static struct {
    uint32_t count, open, controls, bodies;
    const struct sp_piece *pieces[MAX_PIECES];
    uint32_t marks[MAX_OPEN];
} there;

static void make(const struct sp_piece *piece)
{
    cr_assert_lt(there.count, MAX_PIECES);
    there.pieces[there.count++] = piece;
}

static void need_piece(const struct sp_piece *piece, int64_t device)
{
    for (uint32_t i = there.count; i-- > 0;)
        if (there.pieces[i] == piece) {
            cr_assert(device < 0 || piece->device == device, "'%s' is on another device", piece->name);
            return;
        }
    cr_assert_fail("'%s' is not there", piece->name);
}

static enum sp_status check_source(void *context, const struct sp_part_source *source, struct sp_error *err)
{
    (void)context, (void)err;
    make(source->piece);
    return SP_OK;
}

static enum sp_status check_constant(void *context, const struct sp_part_constant *constant, struct sp_error *err)
{
    (void)context, (void)err;
    make(constant->piece);
    return SP_OK;
}

static enum sp_status check_op(void *context, const struct sp_part_op *op, struct sp_error *err)
{
    (void)context, (void)err;
    for (uint32_t i = 0; i < op->input_count; i++)
        if (op->inputs[i])
            need_piece(op->inputs[i], op->device);
    for (uint32_t i = 0; i < op->capture_count; i++)
        need_piece(op->captures[i].piece, op->device);
    for (uint32_t o = 0; o < op->output_count; o++)
        if (op->outputs[o])
            make(op->outputs[o]);
    return SP_OK;
}

static enum sp_status check_exchange(void *context, const struct sp_exchange *exchange, struct sp_error *err)
{
    (void)context, (void)err;
    for (uint32_t i = 0; i < exchange->member_count; i++)
        if (exchange->members[i].before)
            need_piece(exchange->members[i].before, exchange->members[i].device);
    for (uint32_t i = 0; i < exchange->member_count; i++)
        if (exchange->members[i].after)
            make(exchange->members[i].after);
    return SP_OK;
}

static enum sp_status check_result(void *context, const struct sp_part_result *result, struct sp_error *err)
{
    (void)context, (void)err;
    cr_assert_eq(there.open, 0);
    for (uint32_t i = 0; i < result->holder_count; i++)
        need_piece(result->holders[i].before, result->holders[i].device);
    return SP_OK;
}

static void each_piece(uint32_t count, const struct sp_part_port *ports, bool is_made)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t at = 0; ports[i].pieces && at < trace_devices; at++)
            if (ports[i].pieces[at] && is_made)
                make(ports[i].pieces[at]);
            else if (ports[i].pieces[at])
                need_piece(ports[i].pieces[at], -1);
}

/* Devices of the nodes at work: one in another may have others. */
static const struct sp_part_control *controls[MAX_OPEN];

static enum sp_status check_control(void *context, const struct sp_part_control *control, struct sp_error *err)
{
    (void)context, (void)err;
    trace_devices = control->device_count;
    each_piece(control->input_count, control->inputs, false);
    cr_assert_lt(there.controls, MAX_OPEN);
    controls[there.controls++] = control;
    return SP_OK;
}

static enum sp_status check_body(void *context, const struct sp_part_body *body, struct sp_error *err)
{
    (void)context, (void)err;
    trace_devices = controls[there.controls - 1]->device_count;
    there.bodies++;
    there.marks[there.open++] = there.count;
    each_piece(body->input_count, body->inputs, true);
    return SP_OK;
}

static enum sp_status check_body_end(void *context, const struct sp_part_body *body, struct sp_error *err)
{
    (void)context, (void)err;
    trace_devices = controls[there.controls - 1]->device_count;
    each_piece(body->output_count, body->outputs, false);
    there.count = there.marks[--there.open];
    return SP_OK;
}

static enum sp_status check_control_end(void *context, const struct sp_part_control *control, struct sp_error *err)
{
    (void)context, (void)err;
    cr_assert_eq(controls[--there.controls], control);
    trace_devices = control->device_count;
    each_piece(control->output_count, control->outputs, true);
    return SP_OK;
}

/* ---- any cuts --------------------------------------------------------------------------------------------------- */

static uint64_t state;

/* xorshift64*. */
static uint32_t below(uint32_t limit)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (uint32_t)((state * UINT64_C(2685821657736338717)) >> 33) % limit;
}

/* Any sharding that the tensor may have: some axis in some shards, on some devices, whatever its node can do. */
static const struct sp_sharding *any_sharding(const struct sp_value *value, uint32_t devices)
{
    struct sp_sharding *blocks = SP_NEW(build.arena, struct sp_sharding);
    uint32_t rank = value->type.shape.rank, shards = 1 + below(devices), axis = below(rank > 0 ? rank : 1);
    struct sp_dim extent = rank > 0 ? value->type.shape.dims[axis] : sp_dim_known(1);
    if (rank == 0 || (sp_dim_is_known(extent) && extent.value < shards))
        shards = 1;
    *blocks = (struct sp_sharding){.kind = SP_SHARDING_BLOCKS, .rank = rank, .shard_count = shards};
    blocks->blocks = SP_NEW_ARRAY(build.arena, rank, struct sp_block_dim);
    if (shards > 1) {
        struct sp_block_part *one = SP_NEW(build.arena, struct sp_block_part);
        *one = (struct sp_block_part){0, NULL, shards};
        blocks->blocks[axis] = (struct sp_block_dim){1, one};
    }
    uint32_t *first = SP_NEW_ARRAY(build.arena, (size_t)shards + 1, uint32_t), from = below(devices - shards + 1);
    int64_t *list = SP_NEW_ARRAY(build.arena, shards, int64_t);
    for (uint32_t i = 0; i < shards; i++) {
        first[i + 1] = i + 1;
        list[i] = from + i;
    }
    blocks->first = first;
    blocks->devices = list;
    return blocks;
}

static void cut_anyhow(uint32_t devices)
{
    for (uint32_t n = 0; n < dataflow->node_count; n++) {
        const struct sp_node *node = dataflow->nodes[n];
        for (uint32_t i = 0; i < node->input_count + node->output_count; i++) {
            const struct sp_value *value =
                i < node->input_count ? node->inputs[i] : node->outputs[i - node->input_count];
            if (value && value->type.kind == SP_TYPE_TENSOR && value->type.shape.has_rank && below(3) > 0)
                *sp_spec_of(assignment, n, i) =
                    (struct sp_spec_entry){any_sharding(value, devices), SP_SPEC_GIVEN, NULL};
        }
    }
}

/* Returns the number of graphs that were run by themselves. */
static uint32_t run_anyhow(void)
{
    static const struct sp_part_sink sink = {.source = check_source,
                                             .constant = check_constant,
                                             .op = check_op,
                                             .exchange = check_exchange,
                                             .result = check_result,
                                             .control_begin = check_control,
                                             .body_begin = check_body,
                                             .body_end = check_body_end,
                                             .control_end = check_control_end};
    struct sp_partition_request request = {.model = build.model, .assignment = assignment};
    memset(&there, 0, sizeof there);
    cr_assert_eq(sp_partition_run(build.arena, &request, &sink, &build.err), SP_OK, "%s", build.err.message);
    cr_assert_eq(there.controls, 0);
    return there.bodies;
}

/* In many ways; false where inference does not take the model. */
static void try_ways(const char *notation, bool is_split)
{
    uint32_t bodies = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        open_control(notation, 4);
        state = seed * UINT64_C(0x9E3779B97F4A7C15);
        cut_anyhow(4);
        bodies += run_anyhow();
        close_control();
    }
    cr_expect_eq(bodies > 0, is_split, "%u graphs", bodies);
}

/* Graphs give what is outside of them, what they take, and one value twice; and take what nobody uses. */
Test(partition_control, takes_graphs_that_do_nothing)
{
    try_ways(MODEL(18, XW ONE("Neg", "w", "h") LOOP(A("x") A("w") R("p") R("q") R("r") R("t"),
                                                    IN(F32("s", D48)) IN(F32("z", D48)) ADD("h", "x", "k") OUT("go_on")
                                                        OUT("s") OUT("w") OUT("h") OUT("h")) OUT("p") OUT("q") OUT("r")
                           OUT("t")),
             true);
    try_ways(MODEL(18, XW LOOP(A("x") A("w") R("p") R("q") R("r"),
                               IN(F32("s", D48)) IN(F32("z", D48)) ADD("s", "x", "k") OUT("go_on") OUT("k") OUT("k")
                                   OUT("k")) OUT("p") OUT("q") OUT("r") OUT("q")),
             true);
    try_ways(MODEL(18, XW LOOP(A("x") R("p"), IN(F32("s", D48)) OUT("go_on") OUT("s")) OUT("p")), false);
    try_ways(MODEL(18, XW IN(BOOL("c", "")) NODE("If", A("c") R("y"), BRANCHES(OUT("x"), OUT("w"))) OUT("y")), false);
    try_ways(MODEL(18, XW IN(BOOL("c", "")) ONE("Tanh", "x", "h")
                           NODE("If", A("c") R("y"), BRANCHES(OUT("h"), ADD("h", "w", "e") OUT("e"))) ADD("y", "h", "z")
                               OUT("z") OUT("y") OUT("h")),
             true);
}

/* Extents and ranks that nobody knows, or that differ from turn to turn. */
Test(partition_control, takes_shapes_that_are_not_known)
{
    try_ways(MODEL(18, IN("1'x' 2{1{1:1 2{1{2'n'} 1{1:8}}}} ") IN(F32("w", DIM(8)))
                           LOOP(A("x") R("y") R("all"), IN("1's' ") ADD("s", "w", "u") OUT("go_on") OUT("u") OUT("u"))
                               OUT("y") OUT("all")),
             true);
    try_ways(MODEL(18, XW LOOP(A("x") R("y"),
                               IN("1's' ") ADD("x", "w", "k") NODE("Concat", A("s") A("k") R("u"), INT_ATTR("axis", 0))
                                   OUT("go_on") OUT("u")) ONE("Neg", "y", "z") OUT("z")),
             true);
    try_ways(MODEL(18, IN("1'x' 2{1{1:1}} ") IN(F32("w", D48))
                           LOOP(A("x") R("y"), IN("1's' ") ADD("w", "w", "k") ADD("s", "k", "u") OUT("go_on") OUT("u"))
                               OUT("y")),
             false);
    try_ways(MODEL(18, XW IN(I64("to", DIM(1)))
                           LOOP(A("x") R("y"), IN("1's' ") ADD("x", "w", "k") NODE("Reshape", A("k") A("to") R("u"), "")
                                                   OUT("go_on") OUT("u")) OUT("y")),
             false);
}

/* Loops in loops, as deep as the reader takes them. */
Test(partition_control, takes_deep_nesting)
{
    char text[40000];
    for (unsigned depth = 1; depth <= 100; depth += depth < 14 ? 1 : 20) {
        int length = snprintf(text, sizeof text, "1:10 7{2'g' " IN(F32("x0", D48)) IN(F32("w", D48)) INT_CONST("n", 2));
        for (unsigned d = 0; d < depth; d++)
            length += snprintf(text + length, sizeof text - (size_t)length,
                               "1{" A("n") A("") "1'%s%u' 2'y%u' 4'Loop' 5{1'body' 20:5 6{2'b' 11{1'i%u'} 11{1'g%u'} "
                                                 "11{"
                                                 "1's%u' 2{" TENSOR(1, D48) "}} 1{1's%u' 1'w' 2't%u' 4'Add'} ",
                               d == 0 ? "x" : "t", d == 0 ? 0 : d - 1, d, d, d, d, d, d);
        for (unsigned d = depth; d-- > 0;)
            length += snprintf(text + length, sizeof text - (size_t)length, "12{1'g%u'} 12{1'%s%u'} }}} ", d,
                               d == depth - 1 ? "t" : "y", d == depth - 1 ? d : d + 1);
        (void)snprintf(text + length, sizeof text - (size_t)length, "12{1'y0'}} 8{2:18}");
        struct sp_buf file = onnx_encode(text);
        struct onnx_model model;
        enum sp_status status = onnx_read(&model, file.data, file.size);
        onnx_release(&model);
        sp_buf_release(&file);
        cr_expect(status == SP_OK || depth > 8, "not read %u deep", depth);
        if (status == SP_OK)
            try_ways(text, true);
    }
}
