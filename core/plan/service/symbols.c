#include "plan/service/symbols.h"

#include <string.h>
#include <strings.h>

#include "graph/dtype.h"
#include "graph/states.h"

#define SP_SYMBOL_BYTES ((size_t)64 << 10) /* of one dimension as text */

struct finding {
    struct sp_arena *arena;
    const struct sp_model *model;
    const struct sp_traffic *traffic;
    struct sp_states states;
    struct sp_dim dims[SP_SYMBOL_COUNT];
    bool is_found[SP_SYMBOL_COUNT];
    struct sp_error *err;
};

static const struct sp_shape *shape_of(const struct sp_value *value)
{
    return value->type.kind == SP_TYPE_TENSOR && value->type.shape.has_rank ? &value->type.shape : NULL;
}

static void take(struct finding *f, enum sp_traffic_symbol symbol, struct sp_dim dim)
{
    if (f->is_found[symbol])
        return;
    f->dims[symbol] = dim;
    f->is_found[symbol] = true;
}

static bool is_state(const struct finding *f, const struct sp_value *value)
{
    for (uint32_t i = 0; i < f->states.count; i++) {
        if (f->states.items[i].past == value)
            return true;
    }
    return false;
}

static void take_states(struct finding *f)
{
    for (uint32_t i = 0; i < f->states.count; i++) {
        const struct sp_state *state = &f->states.items[i];
        const struct sp_shape *shape = shape_of(state->past);
        if (shape == NULL || state->axis == SP_STATE_FIXED || state->axis >= shape->rank)
            continue;
        take(f, SP_SYMBOL_PAST, shape->dims[state->axis]);
        for (uint32_t a = 0; a < shape->rank; a++) { /* heads and their sizes are numbers */
            if (a != state->axis && shape->dims[a].kind == SP_DIM_SYMBOLIC)
                take(f, SP_SYMBOL_BATCH, shape->dims[a]);
        }
    }
}

static bool is_mask(const struct sp_value *input)
{
    return strcasestr(input->name, "mask") != NULL;
}

/* How much an input looks like the tokens of a step; 0: not at all. */
static int token_rank(const struct finding *f, const struct sp_value *input)
{
    const struct sp_shape *shape = shape_of(input);
    if (shape == NULL || shape->rank < 2 || shape->rank > 3 || input->tensor != NULL || is_mask(input) ||
        is_state(f, input))
        return 0;
    const bool is_named = strcasestr(input->name, "ids") != NULL || strcasestr(input->name, "token") != NULL ||
                          strcasestr(input->name, "embed") != NULL;
    return 1 + is_named + 2 * sp_dtype_is_integer(input->type.dtype);
}

static void take_inputs(struct finding *f)
{
    const struct sp_graph *graph = f->model->graph;
    const struct sp_value *tokens = NULL;
    int best = 0;
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const int rank = token_rank(f, graph->inputs[i]);
        if (rank > best) {
            best = rank;
            tokens = graph->inputs[i];
        }
    }
    if (tokens == NULL)
        return;
    take(f, SP_SYMBOL_BATCH, shape_of(tokens)->dims[0]);
    take(f, SP_SYMBOL_POSITIONS, shape_of(tokens)->dims[1]);
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const struct sp_value *input = graph->inputs[i];
        const struct sp_shape *shape = shape_of(input);
        if (shape != NULL && shape->rank == 2 && input->tensor == NULL && is_mask(input))
            take(f, SP_SYMBOL_TOTAL, shape->dims[1]);
    }
}

/* What follows from the others needs no number of its own. */
static bool follows(const struct finding *f)
{
    const struct sp_dim total = f->dims[SP_SYMBOL_TOTAL], positions = f->dims[SP_SYMBOL_POSITIONS];
    if (!f->is_found[SP_SYMBOL_TOTAL] || total.kind != SP_DIM_SYMBOLIC)
        return true;
    if (!f->is_found[SP_SYMBOL_PAST])
        return sp_dim_equal(total, positions);
    return sp_dim_equal(total, positions) || sp_dim_equal(total, f->dims[SP_SYMBOL_PAST]) ||
           sp_dim_equal(total, sp_dim_add(f->model->dims, positions, f->dims[SP_SYMBOL_PAST]));
}

static const char *text_of(struct sp_arena *arena, struct sp_dim dim)
{
    struct sp_buf buf;
    sp_buf_init(&buf, SP_SYMBOL_BYTES);
    sp_dim_print(dim, &buf);
    const char *text = sp_buf_failed(&buf) ? NULL : sp_arena_string(arena, buf.data, buf.size);
    sp_buf_release(&buf);
    return text;
}

static enum sp_status name_symbol(const struct finding *f, enum sp_traffic_symbol symbol,
                                  struct sp_decoder_symbols *symbols)
{
    const char *name = sp_traffic_symbol_name(symbol);
    if (f->traffic->symbols[symbol] != NULL) {
        symbols->dims[symbol] = f->traffic->symbols[symbol];
        return SP_OK;
    }
    if (!f->is_found[symbol] && (symbol == SP_SYMBOL_PAST || symbol == SP_SYMBOL_TOTAL))
        return SP_OK;
    if (!f->is_found[symbol])
        (void)sp_fail(f->err, SP_ERR_REQUEST, "WORKLOAD_SYMBOLS",
                      "No input of the model says which of its dimensions is the %s of a step: name it in \"symbols\".",
                      name);
    else if (f->dims[symbol].kind != SP_DIM_SYMBOLIC)
        (void)sp_fail(f->err, SP_ERR_REQUEST, "WORKLOAD_SYMBOLS",
                      "The %s of the model is fixed, or not known: a workload needs a model whose sizes are symbols, "
                      "or the phases in full.",
                      name);
    if (!f->is_found[symbol] || f->dims[symbol].kind != SP_DIM_SYMBOLIC)
        return sp_error_at(f->err, "/workload/symbols");
    symbols->dims[symbol] = text_of(f->arena, f->dims[symbol]);
    return symbols->dims[symbol] != NULL ? SP_OK : sp_fail_memory(f->err);
}

enum sp_status sp_decoder_symbols(struct sp_arena *arena, const struct sp_model *model,
                                  const struct sp_traffic *traffic, struct sp_decoder_symbols *ret_symbols,
                                  struct sp_error *err)
{
    struct finding f = {.arena = arena, .model = model, .traffic = traffic, .err = err};
    struct sp_decoder_symbols symbols = {0};
    enum sp_status status = sp_model_states(arena, model, &f.states, err);
    if (status != SP_OK)
        return status;
    take_states(&f);
    take_inputs(&f);
    f.is_found[SP_SYMBOL_TOTAL] = !follows(&f);
    for (int i = 0; status == SP_OK && i < SP_SYMBOL_COUNT; i++)
        status = name_symbol(&f, (enum sp_traffic_symbol)i, &symbols);
    if (status == SP_OK)
        *ret_symbols = symbols;
    return status;
}
