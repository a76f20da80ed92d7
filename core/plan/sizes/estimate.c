#include <inttypes.h>
#include <string.h>

#include "plan/sizes/bind.h"

struct estimating {
    struct sp_model *model;
    struct sp_bindings *bindings;
    bool *is_used;       /* by symbol: a tensor of the main graph has it */
    bool *is_inner;      /* by symbol: as another axis than the first */
    const char **tensor; /* by symbol: the first tensor that has it as an axis, or NULL */
    bool has_failed;     /* no memory */
};

static bool look_at_tensors(struct estimating *e)
{
    struct sp_dims *dims = e->model->dims;
    const uint32_t count = sp_dims_symbol_count(dims);
    const struct sp_graph *graph = e->model->graph;
    uint32_t symbol;
    e->is_used = SP_NEW_ARRAY(e->bindings->arena, count, bool);
    e->is_inner = SP_NEW_ARRAY(e->bindings->arena, count, bool);
    e->tensor = SP_NEW_ARRAY(e->bindings->arena, count, const char *);
    if (e->is_used == NULL || e->is_inner == NULL || e->tensor == NULL)
        return false;
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const struct sp_shape *shape = &graph->values[v]->type.shape;
        for (uint32_t axis = 0; axis < shape->rank; axis++) {
            sp_dim_mark(shape->dims[axis]);
            if (!sp_dim_is_symbol(dims, shape->dims[axis], &symbol))
                continue;
            e->is_inner[symbol] = e->is_inner[symbol] || axis > 0;
            e->tensor[symbol] = e->tensor[symbol] != NULL ? e->tensor[symbol] : graph->values[v]->name;
        }
    }
    sp_dims_take_marks(dims, e->is_used);
    return true;
}

static bool note_estimate(struct estimating *e, uint32_t symbol, int64_t value, bool is_bound)
{
    struct sp_arena *arena = e->bindings->arena;
    const char *name = sp_dims_symbol_name(e->model->dims, symbol), *tensor = e->tensor[symbol];
    const struct sp_plan_note note = {
        .code = is_bound ? "DIMENSION_BOUNDED" : "DIMENSION_ASSUMED",
        .severity = "note",
        .message = is_bound
                       ? sp_arena_printf(arena,
                                         "The dimension '%s' depends on the data that flows through the model; the "
                                         "plan counts on the most that it can be, %" PRId64 ".",
                                         name, value)
                       : sp_arena_printf(arena,
                                         "The dimension '%s' depends on the data that flows through the model, or "
                                         "nothing says what it is; the plan counts on %" PRId64 ".",
                                         name, value),
        .tensor = tensor,
        .hint = sp_arena_printf(arena, "Bind it with --dim %s=N (in a request: options.dims).", name)};
    return note.message != NULL && note.hint != NULL && sp_note_add(e->bindings, &note);
}

static int64_t choose(void *context, uint32_t symbol, int64_t upper)
{
    struct estimating *e = context;
    const bool is_batch =
        !sp_dims_symbol_is_fresh(e->model->dims, symbol) && e->tensor[symbol] != NULL && !e->is_inner[symbol];
    const int64_t value = upper >= 0 ? upper : is_batch ? SP_ASSUMED_BATCH : SP_ASSUMED_DIMENSION;
    if (e->is_used[symbol] && !note_estimate(e, symbol, value, upper >= 0))
        e->has_failed = true;
    return value;
}

enum sp_status sp_estimate_open(struct sp_model *model, struct sp_bindings *bindings, struct sp_error *err)
{
    struct estimating e = {.model = model, .bindings = bindings};
    const struct sp_dim_chooser chooser = {&e, choose};
    if (!look_at_tensors(&e))
        return sp_fail_memory(err);
    sp_dims_estimate(model->dims, &chooser);
    return e.has_failed ? sp_fail_memory(err) : SP_OK;
}
