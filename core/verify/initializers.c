/*
 * Initializers: what a program's weights and constants are, and which part of the original's a rank has.
 */
#include <string.h>

#include "base/limits.h"
#include "verify/programs.h"
#include "verify/sources.h"

static bool is_filled(const struct sp_numbers *x)
{
    if (x->count == 0)
        return false;
    for (uint64_t i = 1; i < x->count; i++) {
        if (x->items[i].field != x->items[0].field)
            return false;
    }
    return true;
}

/* Whether each element is one of some weight of the original. */
static enum sp_status is_of_weights(struct sp_verification *all, const struct sp_numbers *x, bool *ret,
                                    struct sp_error *err)
{
    const struct sp_graph *graph = all->original.model->graph;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; !all->has_weights && status == SP_OK && i < graph->initializer_count; i++) {
        const struct sp_value *value = graph->initializers[i];
        struct sp_numbers *numbers;
        struct sp_error ignored = {0};
        if (sp_source_kind_of(value) != SP_SOURCE_WEIGHT)
            continue;
        struct sp_tensor_data data = sp_run_data(all, &all->original, value->tensor);
        if (sp_numbers_of_data(all->arena, &data, SP_SOURCE_WEIGHT, &numbers, &ignored) != SP_OK) {
            all->lacks_weights = true;
            continue;
        }
        all->known_weights.arena = all->arena;
        for (uint64_t k = 0; status == SP_OK && k < numbers->count; k++) {
            struct sp_hash_slot *slot = sp_hash_map_put(&all->known_weights, numbers->items[k].field);
            if (slot == NULL)
                status = sp_fail_memory(err);
            else
                slot->number = 1;
        }
    }
    all->has_weights = true;
    *ret = true;
    for (uint64_t k = 0; *ret && k < x->count; k++)
        *ret = sp_hash_map_get(&all->known_weights, x->items[k].field) != NULL;
    return status;
}

static bool has_number(const struct sp_numbers *x, uint64_t field)
{
    for (uint64_t i = 0; i < x->count; i++) {
        if (x->items[i].field == field)
            return true;
    }
    return false;
}

#define MAX_BOXES 4096 /* that are compared with a rank's data */

/* The box of this number among those of these extents, side by side. */
static bool nth_box(const struct sp_numbers *whole, const int64_t *extents, uint32_t number, struct sp_axis_ranges *box)
{
    for (uint32_t i = whole->rank; i-- > 0;) {
        const int64_t own = extents[i] > 0 ? extents[i] : 1, parts = whole->axes[i].extent / own;
        if (parts < 1)
            return false;
        const int64_t start = number % parts * own;
        number /= (uint32_t)parts;
        box[i].count = 1;
        box[i].ranges[0] = (struct sp_range){start, start + own};
    }
    return number == 0;
}

/* Room for a box of one range on each axis. */
static enum sp_status new_box(struct sp_verification *all, uint32_t rank, struct sp_axis_ranges **ret,
                              struct sp_error *err)
{
    struct sp_axis_ranges *box = SP_NEW_ARRAY(all->arena, rank, struct sp_axis_ranges);
    struct sp_range *ranges = SP_NEW_ARRAY(all->arena, rank, struct sp_range);
    if (box == NULL || ranges == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < rank; i++)
        box[i] = (struct sp_axis_ranges){1, &ranges[i]};
    *ret = box;
    return SP_OK;
}

static bool original_has_data(struct sp_verification *all, const struct sp_value *value)
{
    struct sp_tensor_data data = sp_run_data(all, &all->original, value->tensor);
    return sp_source_has_data(&data);
}

struct sp_tensor_data sp_run_data(struct sp_verification *all, const struct sp_verify_run *run,
                                  const struct sp_tensor *tensor)
{
    const uint32_t program = run == &all->original ? SP_VERIFY_ORIGINAL : (uint32_t)(run - all->runs);
    return (struct sp_tensor_data){
        run->model, tensor, all->request->weights, program, all->window, SP_VERIFY_WINDOW_BYTES, 0, 0};
}

/* Whether the elements at the indices of a box of the original's weight are the rank's. */
static bool holds(struct sp_tensor_data *data, const struct sp_numbers *part)
{
    for (uint32_t i = 0; i < part->rank; i++) {
        if (part->axes[i].extent != data->tensor->dims[i])
            return false;
    }
    return sp_numbers_read_weight((struct sp_numbers *)(uintptr_t)part, data, false);
}

/* Looks among the boxes side by side for the one that a rank has; `box` has room for it. *ret_part stays where there is
   none. */
static enum sp_status search_box(struct sp_verification *all, struct sp_tensor_data *data,
                                 const struct sp_numbers *whole, struct sp_axis_ranges *box,
                                 struct sp_numbers **ret_part, bool *ret_found, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    for (uint32_t n = 0; status == SP_OK && !*ret_found && n < MAX_BOXES; n++) {
        struct sp_numbers *part = NULL;
        if (!nth_box(whole, data->tensor->dims, n, box))
            break;
        status = sp_numbers_of_box(all->arena, whole, box, &part, err);
        *ret_found = status == SP_OK && holds(data, part);
        if (*ret_found)
            *ret_part = part;
    }
    return status;
}

/* The box that a rank's tensor declares, or the rank's fraction in the order of ranks; NULL: it is whole. */
static enum sp_status declared_box(struct sp_verification *all, const struct sp_verify_run *run,
                                   const struct sp_tensor *tensor, const struct sp_numbers *whole,
                                   struct sp_axis_ranges **ret, struct sp_error *err)
{
    if (tensor->rank != whole->rank)
        return sp_fail(err, SP_ERR_UNSUPPORTED, "PART_UNKNOWN", "the tensor '%s' has another rank than the original's",
                       tensor->name);
    enum sp_status status = sp_source_box(all->arena, run->model, tensor, ret, err);
    return status == SP_OK && *ret == NULL ? sp_guess_box(all, run, whole, tensor->rank, tensor->dims, ret, err)
                                           : status;
}

/* Keeps what a rank's weight is taken for, to be compared (weights.c). */
static enum sp_status note_part(struct sp_verification *all, const struct sp_verify_part *part, struct sp_error *err)
{
    return all->request->weights == NULL || SP_PUSH(all->arena, &all->parts, *part) ? SP_OK : sp_fail_memory(err);
}

/* The part of the original's weight that a rank has: the box whose elements at the indices that are looked at are the
   rank's; without data of both, or where there is none, the one that is declared. *ret has the original's numbers. */
static enum sp_status find_part(struct sp_verification *all, struct sp_verify_part *part,
                                const struct sp_numbers *whole, bool has_data, struct sp_numbers **ret,
                                struct sp_error *err)
{
    const struct sp_tensor *tensor = part->value->tensor;
    struct sp_tensor_data data = sp_run_data(all, part->run, tensor);
    struct sp_axis_ranges *box = NULL, *found = NULL;
    enum sp_status status = declared_box(all, part->run, tensor, whole, &box, err);
    part->box = box;
    if (status == SP_OK && box == NULL)
        status = sp_numbers_view(all->arena, whole, whole->rank, whole->axes, ret, err);
    else if (status == SP_OK)
        status = sp_numbers_of_box(all->arena, whole, box, ret, err);
    for (uint32_t i = 0; status == SP_OK && i < tensor->rank; i++) {
        if ((*ret)->axes[i].extent != tensor->dims[i])
            return sp_fail(err, SP_ERR_UNSUPPORTED, "PART_UNKNOWN", "the tensor '%s' is no even part of the original's",
                           tensor->name);
    }
    part->is_slice = status == SP_OK && has_data && holds(&data, *ret);
    if (status != SP_OK || !has_data || part->is_slice || box == NULL)
        return status;
    status = new_box(all, tensor->rank, &found, err);
    if (status == SP_OK)
        status = search_box(all, &data, whole, found, ret, &part->is_slice, err);
    if (part->is_slice)
        part->box = found;
    return status;
}

/* Takes a rank's tensor for the number that it is throughout, and the original's is not: as the bias of a rank that adds
   none. *ret_filled says whether it is one. */
static enum sp_status fill(struct sp_verification *all, struct sp_tensor_data data, const struct sp_numbers *whole,
                           struct sp_numbers *own, bool *ret_filled, struct sp_error *err)
{
    struct sp_numbers *literal;
    struct sp_error ignored = {0};
    *ret_filled = false;
    if (!is_filled(own) || has_number(whole, own->items[0].field))
        return SP_OK;
    const struct sp_arena_mark mark = sp_arena_mark(all->scratch);
    data.filled = 0; /* others may have been read through its window */
    const enum sp_status status = sp_numbers_of_data(all->scratch, &data, SP_SOURCE_LITERAL, &literal, &ignored);
    *ret_filled = status == SP_OK && is_filled(literal);
    for (uint64_t i = 0; *ret_filled && i < own->count; i++)
        own->items[i] = literal->items[0];
    sp_arena_rewind(all->scratch, mark);
    return status == SP_ERR_MEMORY ? sp_fail_memory(err) : SP_OK;
}

/* A rank's part of a weight of a large model, or of one without data. One that is no part is what the rank has, at the
   indices of its fraction. */
static enum sp_status part_of_weight(struct sp_verification *all, struct sp_verify_part *part,
                                     const struct sp_numbers *whole, struct sp_numbers **ret, struct sp_error *err)
{
    struct sp_tensor_data data = sp_run_data(all, part->run, part->value->tensor),
                          other = sp_run_data(all, &all->original, part->original->tensor);
    const bool has_data = sp_source_has_data(&data) && sp_source_has_data(&other);
    struct sp_numbers *own = NULL;
    bool is_number = false;
    enum sp_status status = find_part(all, part, whole, has_data, ret, err);
    if (status == SP_OK && has_data && !part->is_slice) {
        status = sp_numbers_create(all->arena, data.tensor->dtype, data.tensor->rank, (*ret)->axes, &own, err);
        if (status == SP_OK && sp_numbers_read_weight(own, &data, true)) {
            *ret = own;
            status = fill(all, data, whole, own, &is_number, err);
        }
    }
    return status == SP_OK && !is_number ? note_part(all, part, err) : status;
}

/* Keeps the part of a rank's weight that is evaluated element by element; what is no part needs none. */
static enum sp_status note_evaluated(struct sp_verification *all, struct sp_verify_part *part,
                                     const struct sp_numbers *whole, struct sp_error *err)
{
    struct sp_error ignored = {0};
    struct sp_numbers *numbers;
    if (all->request->weights == NULL)
        return SP_OK;
    const enum sp_status status = find_part(all, part, whole, true, &numbers, &ignored);
    return status == SP_ERR_MEMORY ? sp_fail_memory(err) : status == SP_OK ? note_part(all, part, err) : SP_OK;
}

/* Whether a tensor may be what the original's is: under a name that was made of the original's, its type and its number of
   axes are the same, or it is a number beside it, as the start of a slice. */
static bool is_alike(const struct sp_value *original, const struct sp_value *value)
{
    return original->tensor == NULL || strcmp(original->name, value->name) == 0 ||
           (original->tensor->rank == value->tensor->rank && original->tensor->dtype == value->tensor->dtype);
}

/*
 * The numbers of an initializer. A rank's are literal where the original's are, and where they are one number that the
 * original's are not, as the bias of a rank that adds none. Under a name that the original does not have, what it has is
 * recognised by its elements.
 */
static enum sp_status initializer_numbers(struct sp_verification *all, struct sp_verify_run *run,
                                          const struct sp_value *value, struct sp_numbers **ret, struct sp_error *err)
{
    const bool is_original = run == &all->original;
    const struct sp_value *found = is_original ? value : sp_original_value(all, value->name);
    const struct sp_value *whole = found != NULL && !is_alike(found, value) ? NULL : found;
    const struct sp_outcome *outcome = whole != NULL ? sp_run_outcome(&all->original, whole) : NULL;
    const struct sp_numbers *numbers = outcome != NULL ? outcome->numbers : NULL;
    enum sp_source_kind kind = sp_source_kind_of(whole != NULL ? whole : value);
    bool is_weight = kind == SP_SOURCE_WEIGHT;
    struct sp_verify_part part = {.run = run, .value = value, .original = whole};
    struct sp_tensor_data data = sp_run_data(all, run, value->tensor);
    if (is_weight && is_original)
        return sp_numbers_of_weight(&all->sets, &data, ret, err);
    const bool is_part = is_weight && numbers != NULL && !numbers->is_known && whole->tensor != NULL;
    if (is_part && (all->sets.is_used || !sp_source_has_data(&data) || !original_has_data(all, whole)))
        return part_of_weight(all, &part, numbers, ret, err);
    enum sp_status status = sp_numbers_of_data(all->arena, &data, kind, ret, err);
    if (status != SP_OK || !is_weight)
        return status;
    if (is_filled(*ret))
        is_weight = numbers != NULL && has_number(numbers, (*ret)->items[0].field);
    else if (whole == NULL)
        status = is_of_weights(all, *ret, &is_weight, err);
    if (status == SP_OK && is_part && is_weight)
        status = note_evaluated(all, &part, numbers, err);
    if (status == SP_OK && !is_weight && whole == NULL && all->lacks_weights && !is_filled(*ret))
        return sp_fail(err, SP_ERR_UNSUPPORTED, "DATA_MISSING",
                       "the original has no tensor '%s', and lacks the data to tell which of its weights it is",
                       value->name);
    if (status == SP_OK && is_weight && whole == NULL && all->sets.is_used)
        status = note_part(all, &part, err);
    if (status != SP_OK || is_weight)
        return status;
    data = sp_run_data(all, run, value->tensor); /* others were read through its window */
    return sp_numbers_of_data(all->arena, &data, SP_SOURCE_LITERAL, ret, err);
}

static enum sp_status read_initializer(struct sp_verification *all, struct sp_verify_run *run,
                                       const struct sp_value *value, struct sp_error *err)
{
    struct sp_outcome outcome = {0};
    struct sp_numbers *numbers = NULL;
    struct sp_error why = {0};
    enum sp_status status = value->tensor == NULL ? sp_fail(&why, SP_ERR_UNSUPPORTED, "SPARSE",
                                                            "the tensor '%s' is a sparse one", value->name)
                                                  : initializer_numbers(all, run, value, &numbers, &why);
    if (status == SP_ERR_MEMORY)
        return sp_fail_memory(err);
    outcome.numbers = numbers;
    if (status != SP_OK && (outcome.why = sp_arena_printf(all->arena, "%s", why.message)) == NULL)
        return sp_fail_memory(err);
    return sp_run_set(all, run, value, outcome, err);
}

enum sp_status sp_run_operand(struct sp_verification *all, struct sp_verify_run *run, const struct sp_value *value,
                              const struct sp_outcome **ret, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    *ret = value != NULL ? sp_run_outcome(run, value) : NULL;
    if (value != NULL && *ret == NULL && (value->tensor != NULL || value->sparse != NULL)) {
        status = read_initializer(all, run, value, err);
        *ret = status == SP_OK ? sp_run_outcome(run, value) : NULL;
    }
    return status;
}
