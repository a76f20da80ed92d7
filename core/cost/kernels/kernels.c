#include "cost/cluster/device.h"
#include "cost/kernels/kernels_internal.h"

static double elements_of(const struct sp_value *value)
{
    const int64_t count = value == NULL ? 0 : sp_shape_estimate(&value->type.shape);
    return count > 0 ? (double)count : 0;
}

static uint32_t find(const struct sp_kernels_run *run, uint32_t node)
{
    while (run->nodes[node].kernel != node)
        node = run->nodes[node].kernel = run->nodes[run->nodes[node].kernel].kernel;
    return node;
}

/* ---- whether a kernel would have to run before itself ------------------------------------------------------------ */

/* Whether anything of a kernel is needed for a value, other than by the kernel's own results; true when that is not
   known after SP_KERNELS_MOST_SEARCHED nodes. Producers come first in the order, so that nothing before its first
   node needs it. */
static bool needs(struct sp_kernels_run *run, const struct sp_value *value, uint32_t kernel)
{
    const struct sp_node *stack[SP_KERNELS_MOST_SEARCHED];
    const struct sp_node *start = sp_kernels_maker(run, value);
    uint32_t depth = 0, looked = 0;
    if (start == NULL || find(run, start->index) == kernel || start->index < kernel)
        return false;
    run->search++;
    stack[depth++] = start;
    while (depth > 0) {
        const struct sp_node *node = stack[--depth];
        if (find(run, node->index) == kernel)
            return true;
        for (uint32_t i = 0; i < node->input_count; i++) {
            const struct sp_node *before = sp_kernels_maker(run, node->inputs[i]);
            if (before == NULL || before->index < kernel || run->seen[before->index] == run->search)
                continue;
            run->seen[before->index] = run->search;
            if (++looked >= SP_KERNELS_MOST_SEARCHED)
                return true;
            stack[depth++] = before;
        }
    }
    return false;
}

static bool can_wait(struct sp_kernels_run *run, const struct sp_node *node, uint32_t kernel)
{
    for (uint32_t i = 0; i < node->input_count; i++)
        if (needs(run, node->inputs[i], kernel))
            return false;
    return true;
}

/* ---- joins ------------------------------------------------------------------------------------------------------- */

static bool is_made_in(const struct sp_kernels_run *run, const struct sp_value *value, uint32_t kernel)
{
    const struct sp_node *node = sp_kernels_maker(run, value);
    return node != NULL && find(run, node->index) == kernel;
}

/* All that a node takes is constant, made in the kernel, or `root`. */
static bool takes_only(const struct sp_kernels_run *run, const struct sp_node *node, uint32_t kernel,
                       const struct sp_value *root)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        const struct sp_value *value = node->inputs[i];
        if (value != NULL && !value->is_constant && value->tensor == NULL && value != root &&
            !is_made_in(run, value, kernel))
            return false;
    }
    return true;
}

static bool takes_constants(const struct sp_node *node)
{
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->inputs[i] != NULL && (node->inputs[i]->is_constant || node->inputs[i]->tensor != NULL))
            return true;
    return false;
}

/* Takes what the product itself makes, with no other operator between. */
static bool takes_product(const struct sp_kernels_run *run, const struct sp_node *node, uint32_t at)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        const struct sp_node *before = sp_kernels_maker(run, node->inputs[i]);
        if (before != NULL && before->index == run->kernels[at].payer)
            return true;
    }
    return false;
}

static bool joins_product(const struct sp_kernels_run *run, const struct sp_node *node, uint32_t at)
{
    const struct sp_kernels_kernel *kernel = &run->kernels[at];
    if (run->roles[node->index] != SP_ROLE_ELEMENTWISE || elements_of(node->outputs[0]) != kernel->elements)
        return false;
    switch (run->runtime->epilogue) {
    case SP_EPILOGUE_ANY:
        return true;
    case SP_EPILOGUE_CONSTANTS:
        return takes_only(run, node, at, NULL) &&
               (kernel->role == SP_ROLE_CONVOLUTION || (takes_constants(node) && takes_product(run, node, at)));
    case SP_EPILOGUE_NONE:
        break;
    }
    return false;
}

static bool joins_chain(const struct sp_kernels_run *run, const struct sp_node *node, uint32_t at)
{
    const struct sp_kernels_kernel *kernel = &run->kernels[at];
    if (elements_of(node->outputs[0]) > kernel->elements)
        return false;
    if (run->runtime->joins_chains)
        return true;
    return run->runtime->joins_functions && !kernel->has_many_roots && takes_only(run, node, at, kernel->root);
}

static bool joins(struct sp_kernels_run *run, const struct sp_node *node, uint32_t at)
{
    switch (run->kernels[at].role) {
    case SP_ROLE_PRODUCT:
    case SP_ROLE_CONVOLUTION:
        return joins_product(run, node, at) && can_wait(run, node, at);
    case SP_ROLE_ELEMENTWISE:
    case SP_ROLE_NORMALISATION:
        return joins_chain(run, node, at) && can_wait(run, node, at);
    case SP_ROLE_ALONE:
    case SP_ROLE_VIEW:
    case SP_ROLE_ATTENTION:
        break;
    }
    return false;
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* The kernel whose whole result this value is, used by nothing but one other kernel; UINT32_MAX: there is none. */
static uint32_t only_source(const struct sp_kernels_run *run, const struct sp_value *value, uint32_t user)
{
    const struct sp_node *node = sp_kernels_maker(run, value);
    if (node == NULL || value->is_graph_output)
        return UINT32_MAX;
    for (uint32_t i = 0; i < value->use_count; i++) {
        const struct sp_node *other = value->uses[i].node;
        if (other->graph != run->graph || find(run, other->index) != user)
            return UINT32_MAX;
    }
    return find(run, node->index);
}

static bool is_softmax(const struct sp_kernels_run *run, uint32_t kernel)
{
    return run->kernels[kernel].role == SP_ROLE_NORMALISATION && run->kernels[kernel].root != NULL;
}

/* A product of the weights that a softmax gives joins the product that made the scores. */
static void join_attention(struct sp_kernels_run *run, const struct sp_node *node)
{
    uint32_t softmax, product;
    if (!run->runtime->joins_attention || run->roles[node->index] != SP_ROLE_PRODUCT || takes_constants(node))
        return;
    softmax = only_source(run, node->inputs[0], node->index);
    if (softmax == UINT32_MAX || !is_softmax(run, softmax))
        return;
    product = only_source(run, run->kernels[softmax].root, softmax);
    if (product == UINT32_MAX || run->kernels[product].role != SP_ROLE_PRODUCT ||
        takes_constants(&run->graph->nodes[product]) || needs(run, node->inputs[1], product))
        return;
    run->nodes[softmax].kernel = product;
    run->nodes[node->index].kernel = product;
    run->kernels[product].role = SP_ROLE_ATTENTION;
}

/* ---- the graph --------------------------------------------------------------------------------------------------- */

static enum sp_status classify(struct sp_kernels_run *run, struct sp_node *node, struct sp_error *err)
{
    const uint32_t free_of_work = SP_OP_METADATA | SP_OP_CONSTANT | SP_OP_CONTROL;
    const struct sp_arena_mark mark = sp_arena_mark(run->arena);
    struct sp_rule *rule;
    enum sp_status status;
    run->roles[node->index] = SP_ROLE_ALONE;
    if (sp_inner_is_view(node)) {
        run->roles[node->index] = SP_ROLE_VIEW;
        return SP_OK;
    }
    if (node->op == NULL || (node->op->flags & free_of_work) != 0 || node->body != NULL || node->output_count == 0 ||
        node->outputs[0] == NULL || sp_inner_is_folded(node))
        return SP_OK;
    status = sp_op_rule(run->model, node, run->arena, &rule, err);
    if (status == SP_OK)
        run->roles[node->index] = sp_kernel_role(node, rule);
    sp_arena_rewind(run->arena, mark);
    return status;
}

/* What a node adds to what is known of its kernel. */
static void add_to_kernel(struct sp_kernels_run *run, const struct sp_node *node, uint32_t at)
{
    struct sp_kernels_kernel *kernel = &run->kernels[at];
    if (run->roles[node->index] == SP_ROLE_VIEW)
        return;
    if (kernel->payer == UINT32_MAX)
        kernel->payer = node->index;
    kernel->has_function = kernel->has_function || (node->op != NULL && (node->op->flags & SP_OP_FUNCTION) != 0);
    if (run->roles[node->index] == SP_ROLE_NORMALISATION && kernel->role == SP_ROLE_ELEMENTWISE)
        kernel->role = SP_ROLE_NORMALISATION;
    if (kernel->role != SP_ROLE_PRODUCT && kernel->role != SP_ROLE_CONVOLUTION)
        for (uint32_t i = 0; i < node->input_count; i++) {
            const struct sp_value *value = node->inputs[i];
            if (value == NULL || value->is_constant || value->tensor != NULL || is_made_in(run, value, at) ||
                value == kernel->root)
                continue;
            kernel->has_many_roots = kernel->root != NULL;
            if (kernel->root == NULL || elements_of(value) > elements_of(kernel->root))
                kernel->root = value;
            kernel->elements = elements_of(value) > kernel->elements ? elements_of(value) : kernel->elements;
        }
    if (elements_of(node->outputs[0]) > kernel->elements)
        kernel->elements = elements_of(node->outputs[0]);
}

/* The kernel that a node joins: that of the last of its producers that takes it; itself when none does. */
static uint32_t choose_kernel(struct sp_kernels_run *run, const struct sp_node *node)
{
    const enum sp_kernel_role role = run->roles[node->index];
    uint32_t chosen = node->index, latest = 0;
    if (role == SP_ROLE_VIEW) {
        const struct sp_node *before = sp_kernels_maker(run, node->inputs[0]);
        return before == NULL ? node->index : find(run, before->index);
    }
    if (role != SP_ROLE_ELEMENTWISE && role != SP_ROLE_NORMALISATION)
        return node->index;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const struct sp_node *before = sp_kernels_maker(run, node->inputs[i]);
        const uint32_t at = before == NULL ? UINT32_MAX : find(run, before->index);
        if (before != NULL && before->index >= latest && joins(run, node, at)) {
            chosen = at;
            latest = before->index;
        }
    }
    return chosen;
}

static void join_node(struct sp_kernels_run *run, const struct sp_node *node)
{
    const uint32_t at = choose_kernel(run, node);
    if (at == node->index)
        run->kernels[at] = (struct sp_kernels_kernel){.role = run->roles[at], .payer = UINT32_MAX};
    run->nodes[node->index].kernel = at;
    add_to_kernel(run, node, at);
    join_attention(run, node);
}

/* Whether a value is used in its kernel alone: of a view, what is made of it. */
static bool stays_inside(const struct sp_kernels_run *run, const struct sp_value *value, uint32_t kernel)
{
    if (value == NULL || value->is_graph_output || value->use_count == 0)
        return false;
    for (uint32_t i = 0; i < value->use_count; i++) {
        const struct sp_node *user = value->uses[i].node;
        if (value->uses[i].input == UINT32_MAX || user->graph != run->graph || find(run, user->index) != kernel)
            return false;
        if (run->roles[user->index] == SP_ROLE_VIEW && !run->nodes[user->index].keeps_output)
            return false;
    }
    return true;
}

/* Whether a node of the kernel that does work uses a value: as it is, or a view of it. */
static bool is_handed_on(const struct sp_kernels_run *run, const struct sp_value *value, uint32_t kernel)
{
    for (uint32_t i = 0; value != NULL && i < value->use_count; i++) {
        const struct sp_node *user = value->uses[i].node;
        if (user != NULL && user->graph == run->graph && find(run, user->index) == kernel &&
            (run->roles[user->index] != SP_ROLE_VIEW || run->nodes[user->index].hands_on))
            return true;
    }
    return false;
}

/* What a product's kernel makes has the product's own size (joins_product()): it counts as written by the product, so
   that it is hidden behind the arithmetic as what the kernel reads is. */
static void write_by_products(struct sp_kernels_run *run)
{
    for (uint32_t n = run->graph->node_count; n-- > 0;) {
        const struct sp_kernels_kernel *kernel = &run->kernels[run->nodes[n].kernel];
        const bool is_product = kernel->role == SP_ROLE_PRODUCT || kernel->role == SP_ROLE_CONVOLUTION;
        if (!is_product || kernel->payer == n || kernel->payer == UINT32_MAX || run->nodes[n].keeps_output ||
            run->roles[n] == SP_ROLE_VIEW || !run->nodes[kernel->payer].keeps_output)
            continue;
        run->nodes[n].keeps_output = true;
        run->nodes[kernel->payer].keeps_output = false;
    }
}

/* Whether a node of the kernel before this one, or this one by an operand before this, has read the value already: a
   gate that is multiplied by its own sigmoid. A normalisation goes through its rows twice. */
static bool is_read_already(const struct sp_kernels_run *run, const struct sp_node *node, uint32_t input)
{
    const struct sp_value *value = node->inputs[input];
    const uint32_t kernel = find(run, node->index);
    if (value == NULL || run->kernels[kernel].role == SP_ROLE_NORMALISATION)
        return false;
    for (uint32_t i = 0; i < value->use_count && i < SP_KERNELS_MOST_SEARCHED; i++) {
        const struct sp_use *use = &value->uses[i];
        const bool is_before = use->node->index < node->index || (use->node == node && use->input < input);
        if (use->node->graph == run->graph && use->input != UINT32_MAX && is_before &&
            run->roles[use->node->index] != SP_ROLE_VIEW && find(run, use->node->index) == kernel)
            return true;
    }
    return false;
}

static bool goes_by_rows(const struct sp_kernels_kernel *kernel)
{
    return kernel->role == SP_ROLE_NORMALISATION ||
           (kernel->role == SP_ROLE_ELEMENTWISE && kernel->has_function && kernel->has_many_roots);
}

/* Users come behind their producers, so that a view is known before what it looks at. */
static void describe_nodes(struct sp_kernels_run *run)
{
    for (uint32_t n = run->graph->node_count; n-- > 0;) {
        const struct sp_node *node = &run->graph->nodes[n];
        struct sp_node_kernel *of = &run->nodes[n];
        const uint32_t kernel = find(run, n);
        of->keeps_output = stays_inside(run, node->outputs[0], kernel);
        of->pays_no_start = run->kernels[kernel].payer != n;
        of->hands_on = is_handed_on(run, node->outputs[0], kernel);
        of->is_in_attention = run->kernels[kernel].role == SP_ROLE_ATTENTION;
        of->goes_by_rows = goes_by_rows(&run->kernels[kernel]);
        for (uint32_t i = 0; i < node->input_count && i < SP_KERNEL_MAX_INPUTS; i++)
            of->inside |=
                is_made_in(run, node->inputs[i], kernel) || is_read_already(run, node, i) ? UINT32_C(1) << i : 0;
    }
    for (uint32_t n = 0; n < run->graph->node_count; n++)
        run->nodes[n].kernel = find(run, n);
    write_by_products(run);
}

enum sp_status sp_kernels_find(struct sp_arena *arena, struct sp_model *model, const struct sp_graph *graph,
                               const struct sp_runtime *runtime, struct sp_kernels **ret_kernels, struct sp_error *err)
{
    const uint32_t count = graph->node_count;
    struct sp_kernels *kernels = SP_NEW(arena, struct sp_kernels);
    struct sp_node_kernel *nodes = SP_NEW_ARRAY(arena, count, struct sp_node_kernel);
    const struct sp_arena_mark mark = sp_arena_mark(arena);
    struct sp_kernels_run run = {.arena = arena,
                                 .model = model,
                                 .graph = graph,
                                 .runtime = runtime,
                                 .nodes = nodes,
                                 .kernels = SP_NEW_ARRAY(arena, count, struct sp_kernels_kernel),
                                 .roles = SP_NEW_ARRAY(arena, count, enum sp_kernel_role),
                                 .seen = SP_NEW_ARRAY(arena, count, uint32_t)};
    enum sp_status status = SP_OK;

    if (kernels == NULL || nodes == NULL || run.kernels == NULL || run.roles == NULL || run.seen == NULL)
        return sp_fail_memory(err);
    for (uint32_t n = 0; status == SP_OK && n < count; n++) {
        run.nodes[n].kernel = n;
        status = classify(&run, &graph->nodes[n], err);
        if (status == SP_OK)
            join_node(&run, &graph->nodes[n]);
    }
    if (status == SP_OK) {
        describe_nodes(&run);
        sp_kernels_join_starts(&run);
        *kernels = (struct sp_kernels){count, nodes};
        *ret_kernels = kernels;
    }
    sp_arena_rewind(arena, mark);
    return status;
}

enum sp_status sp_kernels_of_devices(struct sp_arena *arena, struct sp_model *model, const struct sp_graph *graph,
                                     const struct sp_device *const *devices, uint32_t count,
                                     const struct sp_kernels ***ret_kernels, struct sp_error *err)
{
    const struct sp_kernels **kernels = SP_NEW_ARRAY(arena, count, const struct sp_kernels *);
    if (kernels == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_runtime *runtime = sp_device_joins(devices[i]);
        struct sp_kernels *found = NULL;
        uint32_t same = 0;
        while (sp_device_joins(devices[same]) != runtime)
            same++;
        enum sp_status status = SP_OK;
        if (runtime != sp_runtime(SP_RUNTIME_GENERIC) && same == i)
            status = sp_kernels_find(arena, model, graph, runtime, &found, err);
        if (status != SP_OK)
            return status;
        kernels[i] = same == i ? found : kernels[same];
    }
    *ret_kernels = kernels;
    return SP_OK;
}
