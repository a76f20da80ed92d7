/* Which symbol stands for which number: what the request binds, the batch, and what has to be assumed. */
#include <inttypes.h>
#include <string.h>

#include "base/array.h"
#include "plan/internal.h"

#define SP_LABEL_SIZE 256 /* of sp_node_label() */

/* How an input's symbol is used. */
enum { AS_FIRST = 1, AS_OTHER = 2 };

struct symbols {
    struct sp_intern *names; /* id = index of the symbol in the model's table */
    unsigned char *use;      /* per id */
    const char **input;      /* per id: the first input that has it */
};

bool sp_note_add(struct sp_bindings *bindings, const struct sp_plan_note *note)
{
    if (!SP_MAKE_ROOM(bindings->arena, bindings->notes, bindings->note_count, bindings->note_capacity, 1))
        return false;
    bindings->notes[bindings->note_count++] = *note;
    return true;
}

static bool bind(struct sp_bindings *bindings, const char *name, int64_t value)
{
    char *copy = sp_arena_string(bindings->arena, name, strlen(name));
    if (copy == NULL || !SP_MAKE_ROOM(bindings->arena, bindings->names, bindings->count, bindings->name_capacity, 1) ||
        !SP_MAKE_ROOM(bindings->arena, bindings->values, bindings->count, bindings->value_capacity, 1))
        return false;
    bindings->names[bindings->count] = copy;
    bindings->values[bindings->count++] = value;
    return true;
}

static const struct sp_shape *declared_shape(const struct sp_value *value)
{
    return value->declared.kind == SP_TYPE_TENSOR && value->declared.shape.has_rank ? &value->declared.shape : NULL;
}

/* ---- what the request gives ---- */

/* The names of the model's symbols, for a message: "batch, seq". */
static void list_symbols(const struct sp_dims *dims, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < sp_dims_symbol_count(dims); i++) {
        if (sp_dims_symbol_is_fresh(dims, i))
            continue;
        int length = snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", sp_dims_symbol_name(dims, i));
        if (length < 0 || (size_t)length >= size - used) {
            text[used] = '\0'; /* the name that did not fit is left out, and so are the rest */
            return;
        }
        used += (size_t)length;
    }
}

static enum sp_status refuse_name(const struct sp_model *model, const char *name, struct sp_error *err)
{
    char known[400];
    list_symbols(model->dims, known, sizeof known);
    if (known[0] == '\0')
        (void)sp_fail(err, SP_ERR_REQUEST, "UNKNOWN_DIMENSION",
                      "The model has no dimension '%.80s': it has no symbolic dimension at all.", name);
    else
        (void)sp_fail(err, SP_ERR_REQUEST, "UNKNOWN_DIMENSION",
                      "The model has no dimension '%.80s'; its symbolic dimensions are: %s.", name, known);
    return sp_error_at(err, "/options/dims");
}

enum sp_status sp_bind_given(const struct sp_model *model, uint32_t count, const char *const *names,
                             const int64_t *values, struct sp_bindings *bindings, struct sp_error *err)
{
    struct sp_intern *known = sp_intern_create(bindings->arena, bindings->hash_seed);
    struct sp_intern *given = sp_intern_create(bindings->arena, bindings->hash_seed);
    if (known == NULL || given == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; count > 0 && i < sp_dims_symbol_count(model->dims); i++) {
        const char *name = sp_dims_symbol_name(model->dims, i);
        if (!sp_dims_symbol_is_fresh(model->dims, i) && sp_intern_add(known, name, strlen(name)) == SP_NO_NAME)
            return sp_fail_memory(err);
    }
    for (uint32_t i = 0; i < count; i++) {
        size_t length = strlen(names[i]);
        if (sp_intern_find(known, names[i], length) == SP_NO_NAME)
            return refuse_name(model, names[i], err);
        if (sp_intern_find(given, names[i], length) != SP_NO_NAME)
            return sp_fail(err, SP_ERR_REQUEST, "DIMENSION_TWICE", "The dimension '%.80s' is given twice.", names[i]);
        if (values[i] < 1)
            return sp_fail(err, SP_ERR_REQUEST, "INVALID_OPTION", "The dimension '%.80s' must be 1 or more.", names[i]);
        if (sp_intern_add(given, names[i], length) == SP_NO_NAME || !bind(bindings, names[i], values[i]))
            return sp_fail_memory(err);
    }
    return SP_OK;
}

/* ---- what the inputs leave open ---- */

/* Marks every symbol that is a dimension of a request's input. */
static bool look_at_inputs(const struct sp_model *model, const struct sp_bindings *bindings, struct symbols *symbols)
{
    uint32_t count = sp_dims_symbol_count(model->dims);
    struct sp_buf text;
    bool ok = true;
    symbols->names = sp_intern_create(bindings->arena, bindings->hash_seed);
    symbols->use = SP_NEW_ARRAY(bindings->arena, count, unsigned char);
    symbols->input = SP_NEW_ARRAY(bindings->arena, count, const char *);
    if (symbols->names == NULL || symbols->use == NULL || symbols->input == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const char *name = sp_dims_symbol_name(model->dims, i);
        if (sp_intern_add(symbols->names, name, strlen(name)) != i)
            return false;
    }
    sp_buf_init(&text, SP_MAX_NAME_BYTES + 64);
    for (uint32_t v = 0; v < model->graph->input_count && ok; v++) {
        const struct sp_value *value = model->graph->inputs[v];
        const struct sp_shape *shape = declared_shape(value);
        for (uint32_t axis = 0; shape != NULL && sp_is_request_input(value) && axis < shape->rank; axis++) {
            if (shape->dims[axis].kind != SP_DIM_SYMBOLIC)
                continue;
            sp_dim_print(shape->dims[axis], &text); /* a dimension of an input is a plain symbol: its name */
            uint32_t id = sp_buf_failed(&text) ? SP_NO_NAME : sp_intern_find(symbols->names, text.data, text.size);
            if (id != SP_NO_NAME) {
                symbols->use[id] |= axis == 0 ? AS_FIRST : AS_OTHER;
                if (symbols->input[id] == NULL)
                    symbols->input[id] = value->name;
            }
            ok = !sp_buf_failed(&text);
            sp_buf_clear(&text);
        }
    }
    sp_buf_release(&text);
    return ok;
}

/* Notes that a dimension of an input was assumed; `hint` is the arena's, NULL without memory. */
static bool note_assumed(struct sp_bindings *bindings, const char *symbol, const char *input, int64_t value,
                         const char *hint)
{
    struct sp_arena *arena = bindings->arena;
    if (!SP_MAKE_ROOM(bindings->arena, bindings->notes, bindings->note_count, bindings->note_capacity, 1))
        return false;
    struct sp_plan_note note = {
        .code = "DIMENSION_ASSUMED",
        .severity = "note",
        .message = sp_arena_printf(arena, "The dimension '%s' of the input '%s' is not bound; %" PRId64 " is assumed.",
                                   symbol, input, value),
        .tensor = sp_arena_string(arena, input, strlen(input)),
        .hint = hint,
    };
    if (note.message == NULL || note.tensor == NULL || note.hint == NULL)
        return false;
    bindings->notes[bindings->note_count++] = note;
    return true;
}

bool sp_note_replaced(const struct sp_model *model, struct sp_bindings *bindings)
{
    bool is_replaced = false;
    if (model == NULL || model->configuration_count == 0)
        return true;
    for (uint32_t i = 0; i < model->configuration_count; i++)
        is_replaced = is_replaced || strcmp(model->configurations[i].name, SP_PLAN_CONFIGURATION) == 0;
    const char *name = model->configurations[0].name;
    const struct sp_plan_note note = {
        .code = "ANNOTATIONS_IGNORED",
        .severity = "note",
        .message = is_replaced
                       ? "The model is annotated already: the plan does not follow what it states, and the annotated "
                         "model has the plan's configuration '" SP_PLAN_CONFIGURATION "' in the place of the one there."
                       : sp_arena_printf(bindings->arena,
                                         "The model is annotated already: the plan does not follow its configuration "
                                         "'%.120s', which the annotated model keeps beside that of the plan.",
                                         name),
        .hint = "To keep shardings, give them as constraints; 'shardplan infer' completes what is there.",
    };
    return note.message != NULL && sp_note_add(bindings, &note);
}

bool sp_note_accepted(const struct sp_accepted *accepted, struct sp_bindings *bindings)
{
    for (uint32_t i = 0; i < accepted->count; i++) {
        const struct sp_plan_note note = {.code = accepted->notes[i].code,
                                          .severity = "note",
                                          .message = accepted->notes[i].message,
                                          .hint = "A check lists each place: the standard forbids it."};
        if (!sp_note_add(bindings, &note))
            return false;
    }
    return true;
}

bool sp_note_unknown_operators(const struct sp_shape_summary *summary, struct sp_bindings *bindings)
{
    char label[SP_LABEL_SIZE];
    const struct sp_node *first = summary->first_unknown_op;
    if (summary->unknown_op_count == 0 || first == NULL)
        return true;
    if (!SP_MAKE_ROOM(bindings->arena, bindings->notes, bindings->note_count, bindings->note_capacity, 1))
        return false;
    struct sp_plan_note note = {
        .code = "OPERATOR_WITHOUT_RULE",
        .severity = "warning",
        .message =
            sp_arena_printf(bindings->arena,
                            "Operators of %" PRIu64 " nodes have no rule, first node %s: their time is taken to be "
                            "that of moving their operands, and results of unknown shape to be as large as what they "
                            "are made of.",
                            summary->unknown_op_count, sp_node_label(first, label, sizeof label)),
        .node = first->name[0] != '\0' ? first->name : NULL,
    };
    if (note.message == NULL)
        return false;
    bindings->notes[bindings->note_count++] = note;
    return true;
}

bool sp_note_profile(const struct sp_profile_use *use, struct sp_bindings *bindings)
{
    struct sp_plan_note used = {
        .code = "PROFILE_USED",
        .severity = "note",
        .message =
            sp_arena_printf(bindings->arena,
                            "Measured times are used for %u nodes (%u names of the profile are those of nodes, %u "
                            "of results, %u of fused operators); %u nodes keep their estimates.",
                            use->measured, use->by_name, use->by_output, use->by_fusion, use->unmeasured),
    };
    if (used.message == NULL || !sp_note_add(bindings, &used))
        return false;
    if (use->unknown == 0)
        return true;
    struct sp_plan_note unknown = {
        .code = "PROFILE_NAMES_UNKNOWN",
        .severity = "warning",
        .message = sp_arena_printf(bindings->arena,
                                   "The profile has times for %u names that no node and no result of a node has, first "
                                   "'%.200s'; they are not used.",
                                   use->unknown, use->first_unknown),
        .hint = "A runtime that optimises renames, fuses and adds nodes; measured without that, names are those of the "
                "model.",
    };
    return unknown.message != NULL && sp_note_add(bindings, &unknown);
}

bool sp_note_search_failed(const struct sp_error *failure, struct sp_bindings *bindings)
{
    const struct sp_plan_note note = {
        .code = "SEARCH_FAILED",
        .severity = "warning",
        .message = sp_arena_printf(bindings->arena,
                                   "A way of searching ended with an error, and the plan is the best of the others: "
                                   "%s [%s]",
                                   failure->message, failure->code),
        .hint = failure->status == SP_ERR_INTERNAL ? "This is a defect of Shardplan: please report it with the model."
                                                   : NULL,
    };
    return note.message != NULL && sp_note_add(bindings, &note);
}

bool sp_note_stopped(struct sp_bindings *bindings)
{
    if (!SP_MAKE_ROOM(bindings->arena, bindings->notes, bindings->note_count, bindings->note_capacity, 1))
        return false;
    bindings->notes[bindings->note_count++] = (struct sp_plan_note){
        .code = "SEARCH_STOPPED",
        .severity = "note",
        .message =
            "The search was ended early, by its time limit or because that was asked for: this is the best placement "
            "found until then.",
        .hint = "Give it more time to look for a better one.",
    };
    return true;
}

static bool is_bound(const struct sp_bindings *bindings, const struct sp_intern *given, const char *name,
                     int64_t *ret_value)
{
    uint32_t id = sp_intern_find(given, name, strlen(name));
    if (id == SP_NO_NAME)
        return false;
    *ret_value = bindings->values[id];
    return true;
}

/* A batch for a model whose inputs leave none open must be the one that they have. */
static enum sp_status check_fixed_batch(const struct sp_model *model, int64_t batch, struct sp_error *err)
{
    for (uint32_t v = 0; v < model->graph->input_count; v++) {
        const struct sp_value *value = model->graph->inputs[v];
        const struct sp_shape *shape = declared_shape(value);
        if (!sp_is_request_input(value) || shape == NULL || shape->rank == 0)
            continue;
        if (shape->dims[0].kind == SP_DIM_UNKNOWN)
            return SP_OK; /* bound by sp_bind_nameless() */
        if (!sp_dim_is_known(shape->dims[0]) || shape->dims[0].value == batch)
            return SP_OK;
        (void)sp_fail(err, SP_ERR_REQUEST, "BATCH_IS_FIXED",
                      "The batch of this model is fixed: the first dimension of the input '%.80s' is %" PRId64
                      ", not %" PRId64 "; leave the batch out or export the model with a symbolic batch.",
                      value->name, shape->dims[0].value, batch);
        return sp_error_at(err, "/options/batch");
    }
    (void)sp_fail(err, SP_ERR_REQUEST, "BATCH_IS_FIXED", "The model has no input with a dimension to take the batch.");
    return sp_error_at(err, "/options/batch");
}

enum sp_status sp_bind_inputs(const struct sp_model *model, int64_t batch, struct sp_bindings *bindings,
                              struct sp_error *err)
{
    struct sp_intern *given = sp_intern_create(bindings->arena, bindings->hash_seed);
    struct symbols symbols;
    bool took_batch = false;
    if (given == NULL || !look_at_inputs(model, bindings, &symbols))
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < bindings->count; i++) {
        if (sp_intern_add(given, bindings->names[i], strlen(bindings->names[i])) != i)
            return sp_fail_memory(err);
    }
    for (uint32_t i = 0; i < sp_dims_symbol_count(model->dims); i++) {
        const char *name = sp_dims_symbol_name(model->dims, i);
        bool is_batch = symbols.use[i] == AS_FIRST;
        int64_t value = 0;
        if (symbols.use[i] == 0)
            continue;
        if (is_bound(bindings, given, name, &value)) {
            if (is_batch && batch > 0 && value != batch)
                return sp_fail(err, SP_ERR_REQUEST, "BATCH_CONTRADICTED",
                               "The batch is given as %" PRId64 ", but its dimension '%.80s' is bound to %" PRId64 ".",
                               batch, name, value);
        } else if (is_batch && batch > 0) {
            if (!bind(bindings, name, batch))
                return sp_fail_memory(err);
        } else {
            value = is_batch ? bindings->assumed_batch : bindings->assumed;
            bindings->assumed_count += is_batch ? 0 : 1;
            bindings->has_assumed_batch = bindings->has_assumed_batch || is_batch;
            const char *hint =
                sp_arena_printf(bindings->arena, "Bind it with %s--dim %s=N (in a request: %soptions.dims).",
                                is_batch ? "--batch N or " : "", name, is_batch ? "options.batch or " : "");
            if (!bind(bindings, name, value) || !note_assumed(bindings, name, symbols.input[i], value, hint))
                return sp_fail_memory(err);
        }
        took_batch = took_batch || is_batch;
    }
    return batch > 0 && !took_batch ? check_fixed_batch(model, batch, err) : SP_OK;
}

enum sp_status sp_bind_nameless(struct sp_model *model, int64_t batch, struct sp_bindings *bindings,
                                struct sp_error *err)
{
    for (uint32_t v = 0; v < model->graph->input_count; v++) {
        struct sp_value *value = model->graph->inputs[v];
        if (!sp_is_request_input(value) || declared_shape(value) == NULL)
            continue;
        struct sp_shape *shape = &value->declared.shape;
        for (uint32_t axis = 0; axis < shape->rank; axis++) {
            if (shape->dims[axis].kind != SP_DIM_UNKNOWN)
                continue;
            int64_t extent = axis > 0 ? bindings->assumed : batch > 0 ? batch : bindings->assumed_batch;
            bindings->assumed_count += axis > 0 ? 1 : 0;
            bindings->has_assumed_batch = bindings->has_assumed_batch || (axis == 0 && batch <= 0);
            char name[16];
            (void)snprintf(name, sizeof name, "axis %u", axis);
            shape->dims[axis] = sp_dim_known(extent);
            model->has_bound_sizes = true;
            if (value->type.kind == SP_TYPE_TENSOR && value->type.shape.has_rank &&
                value->type.shape.rank == shape->rank)
                value->type.shape.dims[axis] = sp_dim_known(extent);
            if (axis == 0 && batch > 0)
                continue;
            const char *hint = axis == 0 ? "Bind it with --batch N (in a request: options.batch)."
                                         : "It has no name: export the model with a named or fixed dimension.";
            if (!note_assumed(bindings, name, value->name, extent, hint))
                return sp_fail_memory(err);
        }
    }
    return SP_OK;
}
