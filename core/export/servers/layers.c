#include "export/servers/layers.h"

#include <string.h>

#include "base/array.h"

#define NO_LAYER    UINT32_MAX
#define MOST_LAYERS 100000 /* numbers above are no layers' */

/* ---- which layer ------------------------------------------------------------------------------------------------ */

/* Names that end in a number say which of several nodes this is, and not which layer. */
struct number {
    size_t prefix; /* bytes before it, without what separates them */
    uint32_t value;
    size_t next; /* where to look on */
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool separates(char c)
{
    return c == '.' || c == '/' || c == '_';
}

static bool next_number(const char *name, size_t from, struct number *ret_number)
{
    for (size_t at = from; name[at] != '\0'; at++) {
        if (at == 0 || !is_digit(name[at]) || !separates(name[at - 1]))
            continue;
        uint64_t value = 0;
        const size_t first = at;
        for (; is_digit(name[at]) && value <= MOST_LAYERS; at++)
            value = value * 10 + (uint64_t)(name[at] - '0');
        if ((name[at] == '.' || name[at] == '/' || name[at] == '_') && value <= MOST_LAYERS) {
            *ret_number = (struct number){first - 1, (uint32_t)value, at};
            return true;
        }
        if (name[at] == '\0')
            return false;
    }
    return false;
}

struct prefix {
    uint32_t id;   /* of its text */
    uint32_t last; /* the largest number */
    uint64_t uses;
};

struct search {
    struct sp_export *out;
    const char *tool;
    struct sp_intern *texts;
    struct prefix *prefixes; /* by id */
    uint32_t capacity;
    const char *chosen; /* the prefix, and its length */
    size_t length;
    uint32_t *layer_of; /* by node */
    uint32_t *stage_of; /* by layer; NO_LAYER: none yet */
};

static const char *weight_of(const struct sp_node *node)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        const struct sp_value *value = node->inputs[i];
        if (value != NULL && value->kind == SP_VALUE_INITIALIZER && value->name != NULL)
            return value->name;
    }
    return "";
}

static enum sp_status count_name(struct search *search, const char *name, struct sp_error *err)
{
    struct number number;
    for (size_t at = 0; next_number(name, at, &number); at = number.next) {
        const uint32_t id = sp_intern_add(search->texts, name, number.prefix);
        if (id == SP_NO_NAME)
            return sp_fail_memory(err);
        if (!SP_MAKE_PLACE(search->out->scratch, search->prefixes, search->capacity, id))
            return sp_fail_memory(err);
        struct prefix *prefix = &search->prefixes[id];
        prefix->id = id;
        prefix->uses++;
        prefix->last = number.value > prefix->last ? number.value : prefix->last;
    }
    return SP_OK;
}

/* The largest numbers, and among these the most uses: layers, and not the parts of each. */
static enum sp_status choose_prefix(struct search *search, struct sp_error *err)
{
    const struct sp_graph *graph = search->out->subject->model->graph;
    const struct prefix *best = NULL;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < graph->node_count; i++) {
        status = count_name(search, graph->nodes[i].name, err);
        if (status == SP_OK)
            status = count_name(search, weight_of(&graph->nodes[i]), err);
    }
    for (uint32_t i = 0; status == SP_OK && i < sp_intern_count(search->texts); i++) {
        const struct prefix *at = &search->prefixes[i];
        if (best == NULL || at->uses > best->uses || (at->uses == best->uses && at->last > best->last))
            best = at;
    }
    if (status != SP_OK)
        return status;
    if (best == NULL)
        return sp_fail(err, SP_ERR_UNSUPPORTED, "LAYERS_UNKNOWN",
                       "%s divides models by layers, and no name of a node or a weight says which layer it is of, as "
                       "'layers.3.' would.",
                       search->tool);
    search->chosen = sp_intern_name(search->texts, best->id);
    search->length = strlen(search->chosen);
    return SP_OK;
}

/* Behind the last part of a prefix: nodes and weights of a layer have different ones before it. */
static const char *last_word(const char *text, size_t size)
{
    size_t at = size;
    while (at > 0 && !separates(text[at - 1]))
        at--;
    return text + at;
}

static uint32_t layer_named(const struct search *search, const char *name)
{
    const char *word = last_word(search->chosen, search->length);
    const size_t size = search->length - (size_t)(word - search->chosen);
    struct number number;
    for (size_t at = 0; next_number(name, at, &number); at = number.next) {
        const char *own = last_word(name, number.prefix);
        if (number.prefix - (size_t)(own - name) == size && strncmp(own, word, size) == 0)
            return number.value;
    }
    return NO_LAYER;
}

/* ---- which stage ------------------------------------------------------------------------------------------------ */

static enum sp_status place_layer(struct search *search, uint32_t node, uint32_t stage, struct sp_error *err)
{
    const struct sp_node *at = &search->out->subject->model->graph->nodes[node];
    char label[264];
    uint32_t *known = &search->stage_of[search->layer_of[node]];
    if (*known == NO_LAYER)
        *known = stage;
    if (*known != stage)
        return sp_fail(err, SP_ERR_UNSUPPORTED, "LAYER_IS_CUT",
                       "%s divides models between layers, and layer %u is on the stages %u and %u: %s is on stage %u.",
                       search->tool, search->layer_of[node], *known < stage ? *known : stage,
                       *known < stage ? stage : *known, sp_node_label(at, label, sizeof label), stage);
    return SP_OK;
}

static enum sp_status check_outside(const struct search *search, uint32_t node, uint32_t stage, uint32_t stages,
                                    struct sp_error *err)
{
    const struct sp_node *at = &search->out->subject->model->graph->nodes[node];
    char label[264];
    if (stage == 0 || stage + 1 == stages || weight_of(at)[0] == '\0')
        return SP_OK;
    for (uint32_t i = 0; i < at->input_count; i++) {
        const struct sp_value *value = at->inputs[i];
        if (value != NULL && value->kind == SP_VALUE_INITIALIZER && value->type.shape.rank >= 2)
            return sp_fail(err, SP_ERR_UNSUPPORTED, "LAYER_IS_CUT",
                           "%s has weights outside of layers on the first and the last stage, and %s is on stage %u of "
                           "%u.",
                           search->tool, sp_node_label(at, label, sizeof label), stage, stages);
    }
    return SP_OK;
}

static enum sp_status find_layers(struct search *search, struct sp_layered *layered, struct sp_error *err)
{
    const struct sp_graph *graph = search->out->subject->model->graph;
    enum sp_status status = choose_prefix(search, err);
    search->layer_of = SP_NEW_ARRAY(search->out->scratch, graph->node_count, uint32_t);
    if (status == SP_OK && search->layer_of == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; status == SP_OK && i < graph->node_count; i++) {
        const uint32_t own = layer_named(search, graph->nodes[i].name);
        search->layer_of[i] = own != NO_LAYER ? own : layer_named(search, weight_of(&graph->nodes[i]));
        if (search->layer_of[i] != NO_LAYER && search->layer_of[i] >= layered->layers)
            layered->layers = search->layer_of[i] + 1;
    }
    search->stage_of = SP_NEW_ARRAY(search->out->scratch, (size_t)layered->layers + 1, uint32_t);
    if (status == SP_OK && search->stage_of == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; status == SP_OK && i < layered->layers; i++)
        search->stage_of[i] = NO_LAYER;
    for (uint32_t i = 0; status == SP_OK && i < graph->node_count; i++) {
        const uint32_t stage = (uint32_t)sp_export_stage(search->out, i);
        if (graph->nodes[i].is_folded)
            continue;
        status = search->layer_of[i] != NO_LAYER ? place_layer(search, i, stage, err)
                                                 : check_outside(search, i, stage, layered->stages, err);
    }
    return status;
}

static enum sp_status count_layers(struct search *search, struct sp_layered *layered, struct sp_error *err)
{
    uint32_t *counts = SP_NEW_ARRAY(search->out->scratch, layered->stages, uint32_t);
    if (counts == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < layered->layers; i++) {
        if (search->stage_of[i] == NO_LAYER || (i > 0 && search->stage_of[i] < search->stage_of[i - 1]))
            return sp_fail(err, SP_ERR_UNSUPPORTED, "LAYERS_UNORDERED",
                           "%s has layers in their order on stages, and layer %u %s.", search->tool, i,
                           search->stage_of[i] == NO_LAYER ? "has no nodes"
                                                           : "is on an earlier stage than the one before");
        counts[search->stage_of[i]]++;
    }
    layered->counts = counts;
    layered->is_even = true;
    for (uint32_t s = 0; s < layered->stages; s++) {
        if (counts[s] == 0)
            return sp_fail(err, SP_ERR_UNSUPPORTED, "LAYERS_UNORDERED",
                           "%s has layers on every stage, and stage %u has none.", search->tool, s);
        layered->is_even = layered->is_even && counts[s] == counts[0];
    }
    return SP_OK;
}

/* ---- devices ---------------------------------------------------------------------------------------------------- */

static enum sp_status find_devices(struct sp_export *out, const char *tool, struct sp_layered *layered,
                                   struct sp_error *err)
{
    const struct sp_subject *subject = out->subject;
    const int64_t **devices = SP_NEW_ARRAY(out->scratch, layered->stages, const int64_t *);
    uint32_t *counts = SP_NEW_ARRAY(out->scratch, layered->stages, uint32_t);
    char label[264];
    if (devices == NULL || counts == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < subject->model->graph->node_count; i++) {
        const struct sp_subject_node *place = &subject->nodes[i];
        const int32_t stage = sp_export_stage(out, i);
        if (subject->model->graph->nodes[i].is_folded) /* it may be on those of several stages */
            continue;
        if (place->device_count == 0) {
            int64_t none;
            return sp_export_device(out, i, tool, &none, err);
        }
        if (place->device_count > counts[stage]) {
            counts[stage] = (uint32_t)place->device_count;
            devices[stage] = place->devices;
        }
    }
    for (uint32_t i = 0; i < subject->model->graph->node_count; i++) {
        const struct sp_subject_node *place = &subject->nodes[i];
        const int64_t *of = devices[sp_export_stage(out, i)];
        uint32_t k = 0;
        if (subject->model->graph->nodes[i].is_folded)
            continue;
        for (int64_t d = 0; d < place->device_count; d++) {
            while (k < counts[sp_export_stage(out, i)] && of[k] != place->devices[d])
                k++;
        }
        if (k == counts[sp_export_stage(out, i)])
            return sp_fail(err, SP_ERR_UNSUPPORTED, "DEGREES_DIFFER",
                           "%s has one block of devices on each stage, and %s runs on others of its stage.", tool,
                           sp_node_label(&subject->model->graph->nodes[i], label, sizeof label));
    }
    for (uint32_t s = 0; s < layered->stages; s++) {
        if (counts[s] != counts[0])
            return sp_fail(err, SP_ERR_UNSUPPORTED, "DEGREES_DIFFER",
                           "%s has as many devices on each stage, and stage 0 has %u and stage %u has %u.", tool,
                           counts[0], s, counts[s]);
    }
    layered->tensor = counts[0];
    layered->devices = devices;
    return SP_OK;
}

struct weights {
    const struct sp_layered *layered;
    double whole, split; /* bytes of weights of products, and of those that are split over all devices */
    bool has_experts;
};

static enum sp_status count_weight(struct sp_export *out, const struct sp_export_value *item, void *context,
                                   struct sp_error *err)
{
    struct weights *weights = context;
    int64_t shards = 1, elements = 1;
    (void)out, (void)err;
    if (item->value->kind != SP_VALUE_INITIALIZER || item->rank < 2 || item->is_other)
        return SP_OK;
    for (uint32_t i = 0; i < item->rank; i++) {
        shards *= sp_sharding_shards(item->sharding, i);
        elements *= item->shape[i] > 0 ? item->shape[i] : 1;
    }
    weights->whole += (double)elements;
    if (shards < weights->layered->tensor)
        return SP_OK;
    weights->split += (double)elements;
    weights->has_experts |= item->rank == 3 && sp_sharding_shards(item->sharding, 0) == weights->layered->tensor;
    return SP_OK;
}

static enum sp_status check_weights(struct sp_export *out, const char *tool, struct sp_layered *layered,
                                    struct sp_error *err)
{
    struct weights weights = {.layered = layered};
    if (layered->tensor == 1)
        return SP_OK;
    enum sp_status status = sp_export_values(out, count_weight, &weights, err);
    if (status == SP_OK && 2 * weights.split < weights.whole)
        return sp_fail(
            err, SP_ERR_UNSUPPORTED, "NOT_BY_WEIGHTS",
            "%s splits weights over the %u devices of a stage, and in this plan most of them are whole on each: "
            "it splits requests or positions.",
            tool, layered->tensor);
    layered->has_experts = weights.has_experts;
    return status;
}

enum sp_status sp_layered_find(struct sp_export *out, const char *tool, struct sp_layered *ret_layered,
                               struct sp_error *err)
{
    const struct sp_subject *subject = out->subject;
    const struct sp_placement *placement = subject->plan != NULL ? &subject->plan->result->placement : NULL;
    struct sp_layered layered = {.stages = subject->stage_count > 0 ? (uint32_t)subject->stage_count : 1, .copies = 1};
    struct search search = {.out = out, .tool = tool};
    if (subject->stage_count > SP_MAX_EXPORT_MESHES)
        return sp_fail_limit(err, "TOO_MANY_GROUPS", "SP_MAX_EXPORT_MESHES", SP_MAX_EXPORT_MESHES, subject->stage_count,
                             "The model is in more than %d stages.", SP_MAX_EXPORT_MESHES);
    search.texts = sp_intern_create(out->scratch, subject->model->hash_seed);
    enum sp_status status = search.texts != NULL ? find_devices(out, tool, &layered, err) : sp_fail_memory(err);
    if (status == SP_OK)
        status = find_layers(&search, &layered, err);
    if (status == SP_OK)
        status = count_layers(&search, &layered, err);
    if (status == SP_OK)
        status = check_weights(out, tool, &layered, err);
    if (status != SP_OK)
        return status;
    if (placement != NULL && sp_placement_copies(placement) > 1)
        layered.copies = sp_placement_copies(placement);
    *ret_layered = layered;
    return SP_OK;
}
