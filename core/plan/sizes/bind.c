#include "plan/sizes/bind.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "onnx/reader.h"

#define MAX_ROUNDS 256 /* of looking what follows; each binds a symbol */

/* How an input's symbol is used. */
enum { AS_FIRST = 1, AS_OTHER = 2 };

struct equation {
    const char *text; /* what the request calls the left side */
    struct sp_dim side;
    int64_t value;
};

struct binder {
    struct sp_model *model;
    const struct sp_sizes *sizes;
    struct sp_bindings *bindings;
    struct sp_error *err;
    bool has_shapes; /* inferred */
    bool assumes;
    uint32_t value_capacity, follower_capacity, equation_count, equation_capacity;
    int64_t *values;   /* by symbol: 1 + its number, 0: open */
    bool *is_follower; /* by symbol: a tie says its number */
    struct equation *equations;
};

static bool bind_name(struct sp_bindings *bindings, const char *name, size_t length, int64_t value)
{
    char *copy = sp_arena_string(bindings->arena, name, length);
    if (copy == NULL || !SP_MAKE_ROOM(bindings->arena, bindings->names, bindings->count, bindings->name_capacity, 1) ||
        !SP_MAKE_ROOM(bindings->arena, bindings->values, bindings->count, bindings->value_capacity, 1))
        return false;
    bindings->names[bindings->count] = copy;
    bindings->values[bindings->count++] = value;
    return true;
}

static bool has_room(struct binder *b)
{
    const uint32_t count = sp_dims_symbol_count(b->model->dims);
    struct sp_arena *arena = b->bindings->arena;
    return count == 0 || (SP_MAKE_PLACE(arena, b->values, b->value_capacity, count - 1) &&
                          SP_MAKE_PLACE(arena, b->is_follower, b->follower_capacity, count - 1));
}

static const struct sp_shape *declared_shape(const struct sp_value *value)
{
    return value->declared.kind == SP_TYPE_TENSOR && value->declared.shape.has_rank ? &value->declared.shape : NULL;
}

static struct sp_value *find_input(const struct sp_model *model, const char *name, size_t length)
{
    for (uint32_t i = 0; i < model->graph->input_count; i++) {
        struct sp_value *input = model->graph->inputs[i];
        if (strncmp(input->name, name, length) == 0 && input->name[length] == '\0')
            return input;
    }
    return NULL;
}

/* ---- inference, to see what symbols there are and what they are tied to --------------------------------------- */

static enum sp_status go_on(void *context, const struct sp_node *node, const struct sp_error *error)
{
    (void)context;
    (void)node;
    (void)error; /* it is told when shapes are inferred with numbers */
    return SP_OK;
}

static enum sp_status infer(struct binder *b)
{
    const struct sp_shape_options options = {.watch = b->bindings->watch, .report = go_on};
    struct sp_shape_summary summary;
    if (b->has_shapes)
        return SP_OK;
    b->has_shapes = b->bindings->is_inferred = true;
    sp_dims_keep_ties(b->model->dims);
    enum sp_status status = sp_infer_shapes_with(b->model, &options, &summary, b->err);
    return status != SP_OK ? status : has_room(b) ? SP_OK : sp_fail_memory(b->err);
}

/* ---- what the request says ------------------------------------------------------------------------------------- */

static enum sp_status refuse(struct sp_error *err, const char *member)
{
    return sp_error_at(err, "/options/%s", member);
}

/* The names of the model's symbols, for a message: "batch, seq". */
static void list_symbols(const struct sp_dims *dims, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < sp_dims_symbol_count(dims); i++) {
        int length = snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", sp_dims_symbol_name(dims, i));
        if (length < 0 || (size_t)length >= size - used) {
            text[used] = '\0'; /* the name that did not fit is left out, and so are the rest */
            return;
        }
        used += (size_t)length;
    }
}

static enum sp_status refuse_name(const struct binder *b, const char *name)
{
    char known[400];
    list_symbols(b->model->dims, known, sizeof known);
    if (known[0] == '\0')
        (void)sp_fail(b->err, SP_ERR_REQUEST, "UNKNOWN_DIMENSION",
                      "The model has no dimension '%.80s': it has no symbolic dimension at all.", name);
    else
        (void)sp_fail(b->err, SP_ERR_REQUEST, "UNKNOWN_DIMENSION",
                      "The model has no dimension '%.80s'; its symbolic dimensions are: %s.", name, known);
    return refuse(b->err, "dims");
}

static enum sp_status contradicted(const struct binder *b, const char *text, int64_t value, const char *member)
{
    (void)sp_fail(b->err, SP_ERR_REQUEST, "DIMENSIONS_CONTRADICT",
                  "'%.200s' is given as %" PRId64 ", but that contradicts the model or the other sizes that are given.",
                  text, value);
    return refuse(b->err, member);
}

static enum sp_status add_equation(struct binder *b, const char *text, struct sp_dim side, int64_t value)
{
    if (sp_dim_is_known(side))
        return side.value == value ? SP_OK : contradicted(b, text, value, "dims");
    if (!SP_MAKE_ROOM(b->bindings->arena, b->equations, b->equation_count, b->equation_capacity, 1))
        return sp_fail_memory(b->err);
    b->equations[b->equation_count++] = (struct equation){text, side, value};
    return SP_OK;
}

/* "TENSOR:AXIS": an axis with a number or a name is an equation, one of which nothing is known is bound by that name. */
static enum sp_status take_axis(struct binder *b, const char *name, int64_t value, bool *ret_found)
{
    const char *colon = strrchr(name, ':');
    char *end;
    if (colon == NULL || colon[1] < '0' || colon[1] > '9')
        return SP_OK;
    const unsigned long axis = strtoul(colon + 1, &end, 10);
    const size_t length = (size_t)(colon - name);
    struct sp_value *input = find_input(b->model, name, length);
    const struct sp_shape *shape = input != NULL ? declared_shape(input) : NULL;
    for (uint32_t i = 0; b->has_shapes && shape == NULL && i < b->model->graph->value_count; i++) {
        const struct sp_value *other = b->model->graph->values[i];
        if (strncmp(other->name, name, length) == 0 && other->name[length] == '\0' &&
            other->type.kind == SP_TYPE_TENSOR && other->type.shape.has_rank)
            shape = &other->type.shape;
    }
    if (shape == NULL || *end != '\0' || axis >= shape->rank)
        return SP_OK;
    *ret_found = true;
    if (shape->dims[axis].kind != SP_DIM_UNKNOWN)
        return add_equation(b, name, shape->dims[axis], value);
    return bind_name(b->bindings, name, strlen(name), value) ? SP_OK : sp_fail_memory(b->err);
}

/* One name that is given, where it can be told what it is so far. */
static enum sp_status take_name(struct binder *b, const char *name, int64_t value, bool *ret_found)
{
    const struct sp_dim side = sp_dim_find(b->model->dims, name);
    *ret_found = side.kind != SP_DIM_UNKNOWN;
    return *ret_found ? add_equation(b, name, side, value) : take_axis(b, name, value, ret_found);
}

static enum sp_status take_dims(struct binder *b)
{
    const struct sp_sizes *sizes = b->sizes;
    enum sp_status status = SP_OK;
    bool is_found;
    for (uint32_t i = 0; status == SP_OK && i < sizes->dim_count; i++) {
        const char *name = sizes->dim_names[i];
        for (uint32_t j = 0; j < i; j++) {
            if (strcmp(name, sizes->dim_names[j]) == 0)
                return sp_fail(b->err, SP_ERR_REQUEST, "DIMENSION_TWICE", "The dimension '%.80s' is given twice.",
                               name);
        }
        status = take_name(b, name, sizes->dim_values[i], &is_found);
        if (status == SP_OK && !is_found)
            status = infer(b);
        if (status == SP_OK && !is_found)
            status = take_name(b, name, sizes->dim_values[i], &is_found);
        if (status == SP_OK && !is_found)
            status = refuse_name(b, name);
    }
    return status;
}

/* The value of an input says what its axes are; a shape that is given says it of a tensor. */
static enum sp_status take_given(struct binder *b)
{
    const struct sp_given *given = &b->sizes->given;
    enum sp_status status = given->shape_count > 0 ? infer(b) : SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < given->value_count; i++) {
        const struct sp_given_value *value = &given->values[i];
        const struct sp_value *input = find_input(b->model, value->input, strlen(value->input));
        const struct sp_shape *shape = input != NULL ? declared_shape(input) : NULL;
        for (uint32_t axis = 0; status == SP_OK && shape != NULL && axis < value->rank && axis < shape->rank; axis++)
            status = add_equation(b, value->input, shape->dims[axis], value->dims[axis]);
    }
    for (uint32_t i = 0; status == SP_OK && b->model->given != NULL && i < b->model->given->count; i++) {
        const struct sp_given_type *item = &b->model->given->items[i];
        const struct sp_shape *own = item->value != NULL ? &item->value->type.shape : NULL;
        for (uint32_t axis = 0;
             status == SP_OK && own != NULL && own->rank == item->type.shape.rank && axis < own->rank; axis++) {
            const struct sp_dim number = item->type.shape.dims[axis];
            if (sp_dim_is_known(number) && own->dims[axis].kind == SP_DIM_SYMBOLIC)
                status = add_equation(b, item->tensor, own->dims[axis], number.value);
        }
    }
    return status;
}

/* ---- what follows ---------------------------------------------------------------------------------------------- */

static int64_t bound_value(void *context, uint32_t index, int64_t upper)
{
    const struct binder *b = context;
    (void)upper;
    return b->values[index] - 1;
}

/* Whether an equation, or a tie, binds a symbol. What ties say is no proof: a size that depends on data is not bound. */
static enum sp_dim_solution solve(struct binder *b, struct sp_dim left, struct sp_dim right, bool is_tie)
{
    uint32_t symbol;
    int64_t value;
    enum sp_dim_solution found = sp_dim_solve(b->model->dims, left, right, &symbol, &value);
    if (found != SP_DIM_SOLVED)
        return found;
    if (is_tie && sp_dims_symbol_is_fresh(b->model->dims, symbol))
        return SP_DIM_OPEN;
    b->values[symbol] = 1 + value;
    b->is_follower[symbol] = is_tie;
    return found;
}

static enum sp_status follow(struct binder *b)
{
    const struct sp_dim_chooser known = {b, bound_value};
    uint32_t tie_count;
    const struct sp_dim_tie *ties = sp_dims_ties(b->model->dims, &tie_count);
    bool is_changed = true;
    for (uint32_t round = 0; is_changed && round < MAX_ROUNDS; round++) {
        is_changed = false;
        sp_dims_estimate(b->model->dims, &known);
        for (uint32_t i = 0; i < b->equation_count; i++) {
            const struct equation *equation = &b->equations[i];
            const enum sp_dim_solution found = solve(b, equation->side, sp_dim_known(equation->value), false);
            if (found == SP_DIM_CONTRADICTS)
                return contradicted(b, equation->text, equation->value, "dims");
            if (found == SP_DIM_SOLVED) {
                is_changed = true;
                sp_dims_estimate(b->model->dims, &known);
            }
        }
        for (uint32_t i = 0; !is_changed && i < tie_count; i++)
            is_changed = solve(b, ties[i].a, ties[i].b, true) == SP_DIM_SOLVED;
    }
    return SP_OK;
}

/* Equations that are still open say too little. */
static enum sp_status check_equations(struct binder *b)
{
    const struct sp_dim_chooser known = {b, bound_value};
    sp_dims_estimate(b->model->dims, &known);
    for (uint32_t i = 0; i < b->equation_count; i++) {
        const struct equation *equation = &b->equations[i];
        const enum sp_dim_solution found = solve(b, equation->side, sp_dim_known(equation->value), false);
        if (found == SP_DIM_HOLDS)
            continue;
        if (found != SP_DIM_OPEN)
            return contradicted(b, equation->text, equation->value, "dims");
        (void)sp_fail(b->err, SP_ERR_REQUEST, "DIMENSIONS_OPEN",
                      "'%.200s' = %" PRId64 " does not say what the dimensions in it are; give all of them but one.",
                      equation->text, equation->value);
        return refuse(b->err, "dims");
    }
    return SP_OK;
}

/* ---- what the inputs leave open -------------------------------------------------------------------------------- */

struct input_use {
    unsigned char *use; /* per symbol */
    const char **input; /* per symbol: the first input that has it */
};

/* Marks every symbol that is a dimension of a request's input, or a part of one. */
static enum sp_status look_at_inputs(const struct binder *b, struct input_use *use)
{
    struct sp_dims *dims = b->model->dims;
    const uint32_t count = sp_dims_symbol_count(dims);
    bool *inside = SP_NEW_ARRAY(b->bindings->arena, count, bool);
    const char *first = NULL;
    use->use = SP_NEW_ARRAY(b->bindings->arena, count, unsigned char);
    use->input = SP_NEW_ARRAY(b->bindings->arena, count, const char *);
    if (inside == NULL || use->use == NULL || use->input == NULL)
        return sp_fail_memory(b->err);
    for (uint32_t v = 0; v < b->model->graph->input_count; v++) {
        const struct sp_value *value = b->model->graph->inputs[v];
        const struct sp_shape *shape = declared_shape(value);
        for (uint32_t axis = 0; shape != NULL && sp_is_request_input(value) && axis < shape->rank; axis++) {
            uint32_t symbol;
            if (sp_dim_is_symbol(dims, shape->dims[axis], &symbol)) {
                use->use[symbol] |= axis == 0 ? AS_FIRST : AS_OTHER;
                use->input[symbol] = use->input[symbol] != NULL ? use->input[symbol] : value->name;
            } else if (shape->dims[axis].kind == SP_DIM_SYMBOLIC) {
                sp_dim_mark(shape->dims[axis]);
                first = first != NULL ? first : value->name;
            }
        }
    }
    sp_dims_take_marks(dims, inside);
    for (uint32_t i = 0; i < count; i++) {
        if (inside[i] && use->use[i] == 0) { /* only in arithmetic */
            use->use[i] = AS_OTHER;
            use->input[i] = first;
        }
    }
    return SP_OK;
}

static bool note_dimension(struct sp_bindings *bindings, const char *code, const char *message, const char *input,
                           const char *hint)
{
    const struct sp_plan_note note = {.code = code,
                                      .severity = "note",
                                      .message = message,
                                      .tensor = sp_arena_string(bindings->arena, input, strlen(input)),
                                      .hint = hint};
    return message != NULL && note.tensor != NULL && hint != NULL && sp_note_add(bindings, &note);
}

/* Notes that a dimension of an input was assumed. */
static bool note_assumed(struct sp_bindings *bindings, const char *symbol, const char *input, int64_t value,
                         bool is_batch)
{
    return note_dimension(
        bindings, "DIMENSION_ASSUMED",
        sp_arena_printf(bindings->arena, "The dimension '%s' of the input '%s' is not bound; %" PRId64 " is assumed.",
                        symbol, input, value),
        input,
        sp_arena_printf(bindings->arena, "Bind it with %s--dim %s=N (in a request: %soptions.dims).",
                        is_batch ? "--batch N or " : "", symbol, is_batch ? "options.batch or " : ""));
}

/* A batch for a model whose inputs leave none open must be the one that they have. */
static enum sp_status check_fixed_batch(const struct sp_model *model, int64_t batch, struct sp_error *err)
{
    for (uint32_t v = 0; v < model->graph->input_count; v++) {
        const struct sp_value *value = model->graph->inputs[v];
        const struct sp_shape *shape = declared_shape(value);
        if (!sp_is_request_input(value) || shape == NULL || shape->rank == 0)
            continue;
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

/* Symbols that are the sum of others, as ties say ("total" of a past and a sequence): they are assumed last. */
static bool find_sums(const struct binder *b, bool **ret_sums)
{
    uint32_t tie_count, symbol, other;
    const struct sp_dim_tie *ties = sp_dims_ties(b->model->dims, &tie_count);
    bool *sums = SP_NEW_ARRAY(b->bindings->arena, sp_dims_symbol_count(b->model->dims), bool);
    for (uint32_t i = 0; sums != NULL && i < tie_count; i++) {
        const struct sp_dim sides[] = {ties[i].a, ties[i].b};
        for (uint32_t side = 0; side < 2; side++) {
            if (sp_dim_is_symbol(b->model->dims, sides[side], &symbol) && !sp_dim_is_known(sides[1 - side]) &&
                !sp_dim_is_symbol(b->model->dims, sides[1 - side], &other))
                sums[symbol] = true;
        }
    }
    *ret_sums = sums;
    return sums != NULL;
}

/* The symbols of the inputs, one after the other: what follows from those before it comes first. */
static enum sp_status assume_symbols(struct binder *b, const struct input_use *use, int64_t batch, bool *ret_took_batch)
{
    struct sp_dims *dims = b->model->dims;
    struct sp_bindings *bindings = b->bindings;
    const uint32_t count = sp_dims_symbol_count(dims);
    bool *is_sum;
    enum sp_status status = find_sums(b, &is_sum) ? SP_OK : sp_fail_memory(b->err);
    for (uint32_t turn = 0; status == SP_OK && turn < 2 * count; turn++) {
        const uint32_t i = turn < count ? turn : turn - count;
        const bool is_batch = use->use[i] == AS_FIRST;
        const char *name = sp_dims_symbol_name(dims, i);
        if (use->use[i] == 0 || is_sum[i] != (turn >= count))
            continue;
        *ret_took_batch = *ret_took_batch || is_batch;
        if (b->values[i] != 0) {
            if (is_batch && batch > 0 && b->values[i] - 1 != batch)
                return sp_fail(b->err, SP_ERR_REQUEST, "BATCH_CONTRADICTED",
                               "The batch is given as %" PRId64 ", but its dimension '%.80s' is bound to %" PRId64 ".",
                               batch, name, b->values[i] - 1);
            continue;
        }
        const int64_t value = is_batch && batch > 0 ? batch : is_batch ? bindings->assumed_batch : bindings->assumed;
        b->values[i] = 1 + value;
        if (!is_batch || batch == 0) {
            bindings->assumed_count += is_batch ? 0 : 1;
            bindings->has_assumed_batch = bindings->has_assumed_batch || is_batch;
            if (!note_assumed(bindings, name, use->input[i], value, is_batch))
                return sp_fail_memory(b->err);
        }
        status = follow(b);
    }
    return status;
}

/* Axes of inputs without a name are bound by their place; a first one is the batch. */
static enum sp_status assume_nameless(struct binder *b, int64_t batch, bool *ret_took_batch)
{
    struct sp_bindings *bindings = b->bindings;
    const uint32_t given = bindings->count;
    for (uint32_t v = 0; v < b->model->graph->input_count; v++) {
        const struct sp_value *value = b->model->graph->inputs[v];
        const struct sp_shape *shape = declared_shape(value);
        for (uint32_t axis = 0; shape != NULL && sp_is_request_input(value) && axis < shape->rank; axis++) {
            if (shape->dims[axis].kind != SP_DIM_UNKNOWN)
                continue;
            const char *name = sp_arena_printf(bindings->arena, "%s:%u", value->name, axis);
            const int64_t extent = axis > 0 ? bindings->assumed : batch > 0 ? batch : bindings->assumed_batch;
            uint32_t symbol;
            bool is_given = name != NULL && sp_dims_find(b->model->dims, name, &symbol) && b->values[symbol] != 0;
            *ret_took_batch = *ret_took_batch || axis == 0;
            for (uint32_t i = 0; name != NULL && i < given; i++)
                is_given = is_given || strcmp(bindings->names[i], name) == 0;
            if (is_given)
                continue;
            bindings->assumed_count += axis > 0 ? 1 : 0;
            bindings->has_assumed_batch = bindings->has_assumed_batch || (axis == 0 && batch == 0);
            if (name == NULL || !bind_name(bindings, name, strlen(name), extent) ||
                ((axis > 0 || batch == 0) && !note_assumed(bindings, name, value->name, extent, axis == 0)))
                return sp_fail_memory(b->err);
        }
    }
    return SP_OK;
}

/* Notes what follows for inputs' symbols that nobody bound. */
static enum sp_status note_followers(struct binder *b, const struct input_use *use)
{
    for (uint32_t i = 0; i < sp_dims_symbol_count(b->model->dims); i++) {
        const char *name = sp_dims_symbol_name(b->model->dims, i);
        if (use->use[i] == 0 || b->values[i] == 0 || !b->is_follower[i])
            continue;
        if (!note_dimension(
                b->bindings, "DIMENSION_FOLLOWS",
                sp_arena_printf(b->bindings->arena,
                                "The dimension '%s' of the input '%s' is taken to be %" PRId64
                                ", which follows from the others.",
                                name, use->input[i], b->values[i] - 1),
                use->input[i],
                sp_arena_printf(b->bindings->arena, "Bind it with --dim %s=N (in a request: options.dims).", name)))
            return sp_fail_memory(b->err);
    }
    return SP_OK;
}

static enum sp_status assume(struct binder *b, int64_t batch)
{
    struct input_use use;
    bool took_batch = false;
    uint32_t open = 0;
    enum sp_status status = look_at_inputs(b, &use);
    for (uint32_t i = 0; status == SP_OK && i < sp_dims_symbol_count(b->model->dims); i++)
        open += use.use[i] >= AS_OTHER && b->values[i] == 0;
    if (status == SP_OK && open > 0 && open + b->sizes->dim_count >= 2) { /* then one may follow from another */
        status = infer(b);
        if (status == SP_OK)
            status = look_at_inputs(b, &use);
        if (status == SP_OK)
            status = follow(b);
    }
    if (status == SP_OK)
        status = assume_symbols(b, &use, batch, &took_batch);
    if (status == SP_OK)
        status = note_followers(b, &use);
    if (status == SP_OK)
        status = assume_nameless(b, batch, &took_batch);
    return status == SP_OK && batch > 0 && !took_batch ? check_fixed_batch(b->model, batch, b->err) : status;
}

/* ---- all of it ------------------------------------------------------------------------------------------------- */

/* A symbol that a later turn of a loop made has a number behind '@'; it is bound where it is made first. */
static enum sp_status bind_symbols(struct binder *b)
{
    const struct sp_dims *dims = b->model->dims;
    for (uint32_t i = 0; i < sp_dims_symbol_count(dims); i++) {
        const char *name = sp_dims_symbol_name(dims, i), *at = strrchr(name, '@');
        const bool is_repeat = sp_dims_symbol_is_fresh(dims, i) && at != NULL;
        bool is_bound = false;
        for (uint32_t j = 0; is_repeat && j < b->bindings->count; j++)
            is_bound = is_bound || strncmp(b->bindings->names[j], name, (size_t)(at - name)) == 0;
        if (b->values[i] != 0 && !is_bound &&
            !bind_name(b->bindings, name, is_repeat ? (size_t)(at - name) : strlen(name), b->values[i] - 1))
            return sp_fail_memory(b->err);
    }
    return SP_OK;
}

enum sp_status sp_bind(struct sp_model *model, const struct sp_sizes *sizes, bool assumes, int64_t batch,
                       struct sp_bindings *bindings, struct sp_error *err)
{
    struct binder b = {.model = model, .sizes = sizes, .bindings = bindings, .err = err};
    if (!has_room(&b))
        return sp_fail_memory(err);
    enum sp_status status = take_given(&b);
    if (status == SP_OK)
        status = take_dims(&b);
    if (status == SP_OK && sizes->dim_count > 0 && !assumes && sp_dims_symbol_count(model->dims) > sizes->dim_count)
        status = infer(&b);
    if (status == SP_OK)
        status = follow(&b);
    if (status == SP_OK && assumes)
        status = assume(&b, batch);
    if (status == SP_OK)
        status = check_equations(&b);
    return status == SP_OK ? bind_symbols(&b) : status;
}

enum sp_status sp_sizes_read_options(struct sp_arena *arena, const void *bytes, uint64_t size,
                                     const struct sp_read_options *base, const struct sp_sizes *sizes,
                                     struct sp_read_options *ret_options, struct sp_error *err)
{
    struct sp_read_options options = *base;
    struct sp_bindings bindings = {.arena = arena, .hash_seed = base->hash_seed, .watch = base->watch};
    struct sp_model *model = NULL;
    enum sp_status status = SP_OK;
    if (sizes != NULL)
        options.given = &sizes->given;
    if (sizes != NULL && sizes->dim_count + sizes->given.value_count + sizes->given.shape_count > 0) {
        struct sp_arena *first = sp_arena_create(sp_arena_budget(arena));
        status = first != NULL ? sp_onnx_read(first, bytes, size, &options, &model, err) : sp_fail_memory(err);
        if (status == SP_OK && model != NULL)
            status = sp_bind(model, sizes, false, 0, &bindings, err);
        sp_arena_destroy(first);
        options.binding_count = bindings.count;
        options.binding_names = bindings.names;
        options.binding_values = bindings.values;
    }
    if (status == SP_OK)
        *ret_options = options;
    return status;
}
