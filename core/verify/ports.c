/*
 * Inputs and outputs of programs: which part of which tensor they are.
 */
#include <string.h>

#include "base/limits.h"
#include "verify/programs.h"
#include "verify/sources.h"

static const json_t *entry_named(const json_t *list, const char *name)
{
    size_t i;
    json_t *entry;
    json_array_foreach(list, i, entry)
    {
        const char *own = json_string_value(json_object_get(entry, "name"));
        if (own != NULL && strcmp(own, name) == 0)
            return entry;
    }
    return NULL;
}

/* Of an axis of this extent; a limit of null is its end. */
static bool read_range(const json_t *json, int64_t extent, struct sp_range *ret)
{
    const json_t *start = json_array_get(json, 0), *limit = json_array_get(json, 1);
    if (json_array_size(json) != 2 || !json_is_integer(start) || (!json_is_integer(limit) && !json_is_null(limit)))
        return false;
    *ret = (struct sp_range){json_integer_value(start), json_is_null(limit) ? extent : json_integer_value(limit)};
    return true;
}

/* The box that a manifest's entry has of a tensor; *ret NULL where it is whole. */
static enum sp_status read_box(struct sp_arena *arena, const json_t *json, const struct sp_numbers *whole,
                               struct sp_axis_ranges **ret, struct sp_error *err)
{
    const uint32_t rank = whole->rank;
    *ret = NULL;
    if (json == NULL || json_is_null(json))
        return SP_OK;
    struct sp_axis_ranges *box = SP_NEW_ARRAY(arena, rank, struct sp_axis_ranges);
    if (box == NULL)
        return sp_fail_memory(err);
    bool is_sound = json_array_size(json) == rank;
    for (uint32_t i = 0; is_sound && i < rank; i++) {
        const json_t *axis = json_array_get(json, i);
        const bool is_list = json_is_array(json_array_get(axis, 0));
        const size_t count = is_list ? json_array_size(axis) : 1;
        const bool is_empty = json_is_array(axis) && json_array_size(axis) == 0; /* no range: no elements */
        is_sound = count <= UINT32_MAX;
        box[i] = (struct sp_axis_ranges){(uint32_t)count, SP_NEW_ARRAY(arena, count, struct sp_range)};
        if (box[i].ranges == NULL)
            return sp_fail_memory(err);
        if (is_empty)
            box[i].ranges[0] = (struct sp_range){0, 0};
        for (size_t k = 0; is_sound && !is_empty && k < count; k++)
            is_sound = read_range(is_list ? json_array_get(axis, k) : axis, whole->axes[i].extent, &box[i].ranges[k]);
    }
    *ret = box;
    return is_sound ? SP_OK
                    : sp_fail(err, SP_ERR_MALFORMED, "BAD_MANIFEST", "A box of the manifest is none of its tensor.");
}

static const struct sp_value *named_in(struct sp_value *const *values, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(values[i]->name, name) == 0)
            return values[i];
    }
    return NULL;
}

/* Each entry of a list is about an input or output that the model has. */
static enum sp_status check_names(const struct sp_verify_run *run, const json_t *list, struct sp_value *const *values,
                                  uint32_t count, const char *what, struct sp_error *err)
{
    size_t i;
    json_t *entry;
    json_array_foreach(list, i, entry)
    {
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (name == NULL || named_in(values, count, name) == NULL)
            return sp_fail(err, SP_ERR_MALFORMED, "BAD_MANIFEST",
                           "The manifest lists the %s '%.200s' of '%.200s', which has none of that name.", what,
                           name != NULL ? name : "", run->program->name);
    }
    return SP_OK;
}

enum sp_status sp_ports_check(const struct sp_verify_run *run, struct sp_error *err)
{
    const struct sp_graph *graph = run->model->graph;
    enum sp_status status = check_names(run, run->program->inputs, graph->inputs, graph->input_count, "input", err);
    return status == SP_OK ? check_names(run, run->program->outputs, graph->outputs, graph->output_count, "output", err)
                           : status;
}

/* ---- inputs ----------------------------------------------------------------------------------------------------- */

/* Whether a program's input may be what it is given of an original's: integers are no fractions, and an extent that both
   files state is the same. Sizes that the original leaves open are the ranks' affair. */
static bool fits_original(const struct sp_value *value, const struct sp_value *whole, const struct sp_numbers *own)
{
    const struct sp_shape *shape = &value->declared.shape, *of = &whole->declared.shape;
    if (value->declared.kind != SP_TYPE_TENSOR || whole->declared.kind != SP_TYPE_TENSOR)
        return true;
    if (sp_dtype_is_float(value->declared.dtype) != sp_dtype_is_float(whole->declared.dtype))
        return false;
    bool fits = !shape->has_rank || shape->rank == own->rank;
    for (uint32_t i = 0; fits && shape->has_rank && i < shape->rank && of->has_rank && i < of->rank; i++)
        fits = !sp_dim_is_known(of->dims[i]) || !sp_dim_is_known(shape->dims[i]) ||
               shape->dims[i].value == own->axes[i].extent;
    return fits;
}

static enum sp_status give_of_model(struct sp_verification *all, struct sp_verify_run *run, struct sp_value *value,
                                    const json_t *entry, struct sp_error *err)
{
    const struct sp_graph *original = all->original.model->graph;
    const char *tensor = entry != NULL ? json_string_value(json_object_get(entry, "tensor")) : value->name;
    const struct sp_value *whole = tensor != NULL ? named_in(original->inputs, original->input_count, tensor) : NULL;
    const struct sp_outcome *outcome = whole != NULL ? sp_run_outcome(&all->original, whole) : NULL;
    struct sp_axis_ranges *box = NULL;
    int64_t extents[SP_MAX_RANK];
    if (outcome == NULL || outcome->numbers == NULL) {
        const char *why = sp_arena_printf(all->arena, "the input '%s' is none of the original model's", value->name);
        return why == NULL ? sp_fail_memory(err)
                           : sp_run_set(all, run, value, (struct sp_outcome){.why = why, .run = run}, err);
    }
    const struct sp_shape *shape = &value->type.shape;
    for (uint32_t i = 0; i < shape->rank && i < SP_MAX_RANK; i++)
        extents[i] = sp_dim_is_known(shape->dims[i]) ? shape->dims[i].value : -1;
    enum sp_status status = entry != NULL
                                ? read_box(all->arena, json_object_get(entry, "box"), outcome->numbers, &box, err)
                            : shape->has_rank && shape->rank <= SP_MAX_RANK
                                ? sp_guess_box(all, run, outcome->numbers, shape->rank, extents, &box, err)
                                : SP_OK;
    struct sp_outcome own = *outcome;
    struct sp_numbers *part = NULL;
    if (status == SP_OK && box != NULL) {
        status = sp_numbers_of_box(all->arena, outcome->numbers, box, &part, err);
        own.numbers = part;
    }
    if (status == SP_OK && !fits_original(value, whole, own.numbers))
        own = (struct sp_outcome){.why = "an input has another type or shape than its part of the original's",
                                  .is_wrong = true,
                                  .at = value->use_count > 0 ? value->uses[0].node : NULL,
                                  .run = run};
    return status == SP_OK ? sp_run_set(all, run, value, own, err) : status;
}

/* The run that gives what an entry asks of another device; NULL where there is none. */
static struct sp_verify_run *giver_of(struct sp_verification *all, const json_t *entry)
{
    const json_int_t device = json_integer_value(json_object_get(entry, "device")),
                     part = json_integer_value(json_object_get(entry, "part"));
    for (uint32_t i = 0; i < all->run_count; i++) {
        if (all->runs[i].program->device == device && all->runs[i].program->part == part)
            return &all->runs[i];
    }
    return NULL;
}

static bool is_of_device(const json_t *entry)
{
    const char *from = json_string_value(json_object_get(entry, "from"));
    return from != NULL && strcmp(from, "device") == 0;
}

/* Whether numbers have the shape that a program says of an input. */
static bool fits_declared(const struct sp_value *value, const struct sp_numbers *x)
{
    const struct sp_shape *shape = &value->declared.shape;
    bool fits = x == NULL || value->declared.kind != SP_TYPE_TENSOR || !shape->has_rank || shape->rank == x->rank;
    for (uint32_t i = 0; fits && x != NULL && shape->has_rank && i < shape->rank; i++)
        fits = !sp_dim_is_known(shape->dims[i]) || shape->dims[i].value == x->axes[i].extent;
    return fits;
}

const struct sp_value *sp_ports_source(struct sp_verification *all, const struct sp_verify_run *run,
                                       const struct sp_value *input, struct sp_verify_run **ret_giver)
{
    const json_t *entry = entry_named(run->program->inputs, input->name);
    const char *from = json_string_value(json_object_get(entry, "from")),
               *name = json_string_value(json_object_get(entry, "output"));
    if (from == NULL || strcmp(from, "device") != 0 || name == NULL || (*ret_giver = giver_of(all, entry)) == NULL)
        return NULL;
    return named_in((*ret_giver)->model->graph->outputs, (*ret_giver)->model->graph->output_count, name);
}

/* Gives what an output of another program came to, once it is there. */
static enum sp_status take_over(struct sp_verification *all, struct sp_verify_run *run, struct sp_value *value,
                                struct sp_verify_run *giver, const struct sp_value *output, bool *ret_given,
                                struct sp_error *err)
{
    const struct sp_outcome *outcome = NULL;
    enum sp_status status = giver->state == SP_RUN_DONE ? sp_run_operand(all, giver, output, &outcome, err) : SP_OK;
    *ret_given = outcome != NULL;
    if (status != SP_OK)
        return status;
    if (*ret_given && !fits_declared(value, outcome->numbers)) {
        /* who is wrong: whoever gives what it does not declare, else who reads it */
        const bool is_giver = !fits_declared(output, outcome->numbers);
        return sp_run_set(all, run, value,
                          (struct sp_outcome){.why = "an input has another shape than what is given for it",
                                              .is_wrong = true,
                                              .at = is_giver               ? output->producer
                                                    : value->use_count > 0 ? value->uses[0].node
                                                                           : NULL,
                                              .run = is_giver ? giver : run},
                          err);
    }
    return *ret_given ? sp_run_set(all, run, value, *outcome, err) : SP_OK;
}

static enum sp_status give_of_device(struct sp_verification *all, struct sp_verify_run *run, struct sp_value *value,
                                     const json_t *entry, bool *ret_given, struct sp_error *err)
{
    struct sp_verify_run *giver = giver_of(all, entry);
    const char *name = json_string_value(json_object_get(entry, "output"));
    const struct sp_graph *graph = giver != NULL ? giver->model->graph : NULL;
    const struct sp_value *output =
        graph != NULL && name != NULL ? named_in(graph->outputs, graph->output_count, name) : NULL;
    if (output != NULL)
        return take_over(all, run, value, giver, output, ret_given, err);
    const char *why = sp_arena_printf(all->arena, "the input '%s' is no output of another rank", value->name);
    return why == NULL
               ? sp_fail_memory(err)
               : sp_run_set(all, run, value, (struct sp_outcome){.why = why, .is_wrong = true, .run = run}, err);
}

/* Without a manifest: the one other program that has an output of the name of an input that the original does not have,
   as the models of a pipeline have; NULL where there is none, or several. */
static const struct sp_value *find_stage(struct sp_verification *all, const struct sp_verify_run *run,
                                         const struct sp_value *input, struct sp_verify_run **ret_giver)
{
    const struct sp_graph *original = all->original.model->graph;
    const struct sp_value *found = NULL;
    if (run->program->inputs != NULL || named_in(original->inputs, original->input_count, input->name) != NULL)
        return NULL;
    for (uint32_t i = 0; i < all->run_count; i++) {
        struct sp_verify_run *other = &all->runs[i];
        const struct sp_graph *graph = other->model->graph;
        const struct sp_value *output = named_in(graph->outputs, graph->output_count, input->name);
        if (other == run || output == NULL)
            continue;
        if (found != NULL)
            return NULL;
        found = output;
        *ret_giver = other;
    }
    return found;
}

enum sp_status sp_ports_give(struct sp_verification *all, struct sp_verify_run *run, bool *ret_given,
                             struct sp_error *err)
{
    const struct sp_graph *graph = run->model->graph;
    enum sp_status status = SP_OK;
    *ret_given = true;
    for (uint32_t i = 0; status == SP_OK && i < graph->input_count; i++) {
        struct sp_value *value = graph->inputs[i];
        const json_t *entry = entry_named(run->program->inputs, value->name);
        struct sp_verify_run *giver;
        bool is_given = true;
        if (entry == NULL && value->tensor != NULL)
            continue; /* a weight */
        const struct sp_value *output = find_stage(all, run, value, &giver);
        status = output != NULL                         ? take_over(all, run, value, giver, output, &is_given, err)
                 : entry != NULL && is_of_device(entry) ? give_of_device(all, run, value, entry, &is_given, err)
                                                        : give_of_model(all, run, value, entry, err);
        *ret_given = *ret_given && is_given;
    }
    return status;
}

bool sp_ports_read(const struct sp_verify_run *run, const char *input)
{
    const struct sp_graph *graph = run->model->graph;
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const json_t *entry = entry_named(run->program->inputs, graph->inputs[i]->name);
        const char *tensor =
            entry != NULL ? json_string_value(json_object_get(entry, "tensor")) : graph->inputs[i]->name;
        if (tensor != NULL && strcmp(tensor, input) == 0 && graph->inputs[i]->use_count > 0)
            return true;
    }
    return false;
}

/* ---- outputs ---------------------------------------------------------------------------------------------------- */

struct result {
    const struct sp_value *value;
    const struct sp_numbers *numbers;
    double size;      /* root of the mean square of its real parts */
    bool *is_covered; /* of each item */
};

static enum sp_status begin_result(struct sp_verification *all, const struct sp_value *value, struct result *result,
                                   struct sp_error *err)
{
    const struct sp_outcome *outcome = sp_run_outcome(&all->original, value);
    *result = (struct result){.value = value, .numbers = outcome != NULL ? outcome->numbers : NULL};
    if (result->numbers == NULL) {
        const char *why = outcome != NULL ? outcome->why : "it is not computed";
        char label[256];
        const char *text = outcome != NULL && outcome->at != NULL
                               ? sp_arena_printf(all->arena, "The original cannot be evaluated at %s: %s.",
                                                 sp_node_label(outcome->at, label, sizeof label), why)
                               : sp_arena_printf(all->arena, "The original cannot be evaluated: %s.", why);
        return text == NULL ? sp_fail_memory(err)
                            : sp_verify_fail(all,
                                             (struct sp_verify_failure){
                                                 .verdict = SP_UNDECIDED, .output = value->name, .message = text},
                                             err);
    }
    double sum = 0;
    for (uint64_t i = 0; i < result->numbers->count; i++)
        sum += isfinite(result->numbers->items[i].real)
                   ? result->numbers->items[i].real * result->numbers->items[i].real
                   : 0;
    result->size = sqrt(sum / (double)(result->numbers->count > 0 ? result->numbers->count : 1));
    result->is_covered = SP_NEW_ARRAY(all->arena, result->numbers->count, bool);
    return result->is_covered != NULL ? SP_OK : sp_fail_memory(err);
}

/* Constants of narrow types are rounded more. */
static double tolerance_of(enum sp_dtype dtype)
{
    return dtype == SP_DTYPE_FLOAT16    ? SP_VERIFY_TOLERANCE * 0x1p13
           : dtype == SP_DTYPE_BFLOAT16 ? SP_VERIFY_TOLERANCE * 0x1p16
                                        : SP_VERIFY_TOLERANCE;
}

static bool differ_surely(const struct result *result, struct sp_number a, struct sp_number b)
{
    return isfinite(a.real) && isfinite(b.real) &&
           fabs(a.real - b.real) > tolerance_of(result->numbers->dtype) * (result->size + fabs(b.real));
}

/* How a rank's numbers compare with those that they have to be; marks what they cover. */
static enum sp_verdict compare(struct sp_verification *all, const struct result *result, const struct sp_numbers *own,
                               const struct sp_numbers *whole, const struct sp_numbers *places)
{
    enum sp_verdict verdict = SP_PROVED;
    for (uint64_t i = 0; i < whole->count; i++) {
        result->is_covered[places->items[i].field] = true;
        all->compared++;
        if (own->items[i].field == whole->items[i].field)
            continue;
        if (differ_surely(result, own->items[i], whole->items[i]))
            return SP_REFUTED;
        verdict = SP_UNDECIDED;
    }
    return verdict;
}

static bool have_same_axes(const struct sp_numbers *a, const struct sp_numbers *b)
{
    bool is_same = a->rank == b->rank;
    for (uint32_t i = 0; is_same && i < a->rank; i++)
        is_same = sp_index_equal(&a->axes[i], &b->axes[i]);
    return is_same;
}

/* Each item's place in the whole. */
static enum sp_status number_places(struct sp_verification *all, const struct sp_numbers *x, struct sp_numbers **ret,
                                    struct sp_error *err)
{
    enum sp_status status = sp_numbers_create(all->arena, SP_DTYPE_INT64, x->rank, x->axes, ret, err);
    for (uint64_t i = 0; status == SP_OK && i < x->count; i++)
        (*ret)->items[i] = sp_number_of_int((int64_t)i);
    return status;
}

static enum sp_status compare_output(struct sp_verification *all, struct sp_verify_run *run,
                                     const struct sp_value *value, const json_t *box_json, struct result *result,
                                     struct sp_error *err)
{
    const struct sp_outcome *outcome = sp_run_outcome(run, value);
    struct sp_axis_ranges *box = NULL;
    struct sp_numbers *part = NULL, *places = NULL;
    int64_t extents[SP_MAX_RANK];
    struct sp_verify_failure failure = {.run = run, .output = result->value->name};
    if (outcome == NULL || outcome->numbers == NULL) {
        const char *why = outcome != NULL ? outcome->why : "it is not computed";
        failure.verdict = outcome != NULL && outcome->is_wrong && !all->is_original_wrong ? SP_REFUTED : SP_UNDECIDED;
        failure.node = outcome != NULL ? outcome->at : NULL;
        failure.run = outcome != NULL && outcome->run != NULL ? outcome->run : run;
        failure.message = sp_arena_printf(
            all->arena, failure.verdict == SP_REFUTED ? "It cannot run: %s" : "It cannot be evaluated: %s", why);
        return failure.message != NULL ? sp_verify_fail(all, failure, err) : sp_fail_memory(err);
    }
    for (uint32_t i = 0; i < outcome->numbers->rank; i++)
        extents[i] = outcome->numbers->axes[i].extent;
    enum sp_status status = box_json != NULL
                                ? read_box(all->arena, box_json, result->numbers, &box, err)
                                : sp_guess_box(all, run, result->numbers, outcome->numbers->rank, extents, &box, err);
    const struct sp_numbers *whole = result->numbers;
    if (status == SP_OK)
        status = number_places(all, whole, &places, err);
    if (status == SP_OK && box != NULL)
        status = sp_numbers_of_box(all->arena, whole, box, &part, err);
    if (status == SP_OK && box != NULL)
        status = sp_numbers_of_box(all->arena, places, box, &places, err);
    if (status != SP_OK)
        return status;
    whole = box != NULL ? part : whole;
    if (!have_same_axes(whole, outcome->numbers)) {
        /* where the shape follows from values of inputs, ranks may be made for other values */
        failure.verdict = sp_shape_extents(&result->value->type.shape, extents) ? SP_REFUTED : SP_UNDECIDED;
        failure.node = value->producer;
        failure.message = "The output has another shape than its part of the original's.";
        return sp_verify_fail(all, failure, err);
    }
    failure.verdict = compare(all, result, outcome->numbers, whole, places);
    failure.node = value->producer;
    failure.message = failure.verdict == SP_REFUTED ? "The output has other values than the original's."
                                                    : "The output equals the original's in an evaluation with "
                                                      "numbers, but is no rearrangement of the same sums.";
    return failure.verdict == SP_PROVED ? SP_OK : sp_verify_fail(all, failure, err);
}

/* Whether some node of the original does not run on the inputs that were chosen, which it may read as sizes or axes. */
static bool original_fails(const struct sp_verification *all)
{
    for (uint32_t n = 0; n < all->original.order_count; n++) {
        const struct sp_node *node = all->original.order[n];
        for (uint32_t i = 0; i < node->output_count; i++) {
            const struct sp_outcome *outcome =
                node->outputs[i] != NULL ? sp_run_outcome(&all->original, node->outputs[i]) : NULL;
            if (outcome != NULL && outcome->is_wrong)
                return true;
        }
    }
    return false;
}

/* What cannot run at all, whatever it is for. */
static enum sp_status tell_wrong(struct sp_verification *all, const struct sp_verify_run *run, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    for (uint32_t n = 0; status == SP_OK && n < run->order_count; n++) {
        const struct sp_node *node = run->order[n];
        const struct sp_value *value = node->output_count > 0 ? node->outputs[0] : NULL;
        const struct sp_outcome *outcome = value != NULL ? sp_run_outcome(run, value) : NULL;
        if (outcome == NULL || !outcome->is_wrong || outcome->at != node)
            continue;
        const struct sp_verify_failure failure = {.verdict = SP_REFUTED,
                                                  .run = run,
                                                  .node = node,
                                                  .message =
                                                      sp_arena_printf(all->arena, "It cannot run: %s", outcome->why)};
        status = failure.message != NULL ? sp_verify_fail(all, failure, err) : sp_fail_memory(err);
    }
    return status;
}

enum sp_status sp_ports_compare(struct sp_verification *all, struct sp_error *err)
{
    const struct sp_graph *original = all->original.model->graph;
    enum sp_status status = SP_OK;
    all->is_original_wrong = original_fails(all);
    for (uint32_t i = 0; status == SP_OK && !all->is_original_wrong && i < all->run_count; i++)
        status = tell_wrong(all, &all->runs[i], err);
    for (uint32_t i = 0; status == SP_OK && i < original->output_count; i++) {
        struct result result;
        const char *name = original->outputs[i]->name;
        status = begin_result(all, original->outputs[i], &result, err);
        if (status != SP_OK || result.numbers == NULL)
            continue;
        for (uint32_t k = 0; status == SP_OK && k < all->run_count; k++) {
            struct sp_verify_run *run = &all->runs[k];
            const struct sp_graph *graph = run->model->graph;
            for (uint32_t o = 0; status == SP_OK && o < graph->output_count; o++) {
                const json_t *entry = entry_named(run->program->outputs, graph->outputs[o]->name);
                const char *tensor = run->program->outputs == NULL
                                         ? graph->outputs[o]->name
                                         : json_string_value(json_object_get(entry, "tensor"));
                if (tensor != NULL && strcmp(tensor, name) == 0)
                    status = compare_output(all, run, graph->outputs[o], json_object_get(entry, "box"), &result, err);
            }
        }
        bool is_covered = true;
        for (uint64_t n = 0; n < result.numbers->count; n++)
            is_covered = is_covered && result.is_covered[n];
        if (status == SP_OK && !is_covered && all->failures.count == 0)
            status =
                sp_verify_fail(all,
                               (struct sp_verify_failure){
                                   .verdict = SP_REFUTED, .output = name, .message = "No rank has all of this output."},
                               err);
    }
    return status;
}
