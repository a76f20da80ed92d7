/*
 * ONNX Runtime's two session options that place nodes, "DEVICE(RULE, ..); DEVICE(..)":
 *
 *   by names    a rule is a part of nodes' names; the longest that is in a name counts
 *   by layers   a rule is the beginning of nodes' metadata `layer_ann`, or all of it behind '='; beginnings come before
 *               whole ones, then the first rule
 *
 * What no rule fits runs wherever ONNX Runtime takes it.
 */
#include <inttypes.h>
#include <string.h>

#include "base/intern.h"
#include "base/limits.h"
#include "import/internal.h"

#define OF_NAMES  "/session.name_based_layer_assignment"
#define OF_LAYERS "/session.layer_assignment_settings"

struct rule {
    const char *text;
    size_t size;
    bool is_exact;
    uint32_t place;
    uint32_t fits; /* nodes */
};

struct rules {
    struct sp_import_reader *reader;
    const char *where;
    SP_ARRAY(struct rule) items;
    uint64_t steps;
};

/* ---- the setting ------------------------------------------------------------------------------------------------ */

/* The text between two places without blanks around it. */
static const char *trimmed(const char *from, const char *to, size_t *ret_size)
{
    while (from < to && (*from == ' ' || *from == '\t' || *from == '\n'))
        from++;
    while (to > from && (to[-1] == ' ' || to[-1] == '\t' || to[-1] == '\n'))
        to--;
    *ret_size = (size_t)(to - from);
    return from;
}

/* The place of a device; "gpu:2" is device 2. */
static enum sp_status find_place(struct rules *rules, const char *text, size_t size, uint32_t *ret_place)
{
    struct sp_import_reader *reader = rules->reader;
    struct sp_import_place place = {.name = sp_arena_string(reader->arena, text, size)};
    if (place.name == NULL)
        return sp_fail_memory(reader->err);
    *ret_place = sp_import_place_named(reader, place.name);
    if (*ret_place != SP_NOT_PLACED)
        return SP_OK;
    const char *colon = strchr(place.name, ':');
    const int64_t device = colon != NULL ? sp_import_device_number(colon + 1) : -1;
    enum sp_status status = device >= 0 ? sp_import_one_device(reader, device, &place) : SP_OK;
    return status == SP_OK ? sp_import_add_place(reader, &place, ret_place) : status;
}

static enum sp_status add_rule(struct rules *rules, const char *text, size_t size, bool by_layers, uint32_t place)
{
    struct sp_import_reader *reader = rules->reader;
    struct rule rule = {.place = place};
    rule.is_exact = size > 0 && text[0] == '=';
    if (rule.is_exact && !by_layers)
        return sp_import_refuse(reader, rules->where, "Rules by names have no '='.");
    rule.text = trimmed(text + rule.is_exact, text + size, &rule.size);
    if (rule.size == 0)
        return sp_import_refuse(reader, rules->where, "A rule of '%.80s' is empty.", reader->places.items[place].name);
    if (rules->items.count == SP_MAX_IMPORT_RULES)
        return sp_fail_limit(reader->err, "TOO_MANY_RULES", "SP_MAX_IMPORT_RULES", SP_MAX_IMPORT_RULES,
                             SP_MAX_IMPORT_RULES + 1, "The setting has more than %d rules.", SP_MAX_IMPORT_RULES);
    if (SP_PUSH(reader->arena, &rules->items, rule))
        return SP_OK;
    (void)sp_fail_memory(reader->err);
    return SP_ERR_MEMORY;
}

/* "DEVICE(RULE, ..)" of `text` to `end`. */
static enum sp_status read_device(struct rules *rules, const char *text, const char *end, bool by_layers)
{
    const char *open = memchr(text, '(', (size_t)(end - text));
    const char *close = open != NULL ? memchr(open, ')', (size_t)(end - open)) : NULL;
    size_t name_size = 0, rest = 0;
    const char *name = open != NULL ? trimmed(text, open, &name_size) : NULL;
    uint32_t place = 0;
    if (close != NULL)
        (void)trimmed(close + 1, end, &rest);
    if (close == NULL || name_size == 0 || rest > 0)
        return sp_import_refuse(rules->reader, rules->where,
                                "The setting must be \"DEVICE(RULE, ..); DEVICE(RULE, ..)\" and has '%.60s'.", text);
    enum sp_status status = find_place(rules, name, name_size, &place);
    for (const char *at = open + 1; status == SP_OK && at <= close;) {
        const char *comma = memchr(at, ',', (size_t)(close - at));
        size_t size;
        const char *stop = comma != NULL ? comma : close;
        const char *rule = trimmed(at, stop, &size);
        status = add_rule(rules, rule, size, by_layers, place);
        at = stop + 1;
    }
    return status;
}

static enum sp_status read_setting(struct rules *rules, const char *setting, bool by_layers)
{
    enum sp_status status = SP_OK;
    for (const char *at = setting; status == SP_OK && *at != '\0';) {
        const char *end = at + strcspn(at, ";");
        size_t size;
        (void)trimmed(at, end, &size);
        if (size > 0)
            status = read_device(rules, at, end, by_layers);
        at = end + (*end == ';');
    }
    if (status == SP_OK && rules->items.count == 0)
        status = sp_import_refuse(rules->reader, rules->where, "The setting has no rule.");
    return status;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------ */

static enum sp_status count_step(struct rules *rules)
{
    if (++rules->steps <= SP_MAX_IMPORT_STEPS)
        return SP_OK;
    return sp_fail_limit(rules->reader->err, "TOO_MANY_RULES", "SP_MAX_IMPORT_STEPS", SP_MAX_IMPORT_STEPS,
                         (int64_t)rules->steps, "The setting has too many rules for so many nodes.");
}

/* The longest part of the name; NULL where none is in it. A rule that is all of it is found at once. */
static enum sp_status rule_of_name(struct rules *rules, struct sp_intern *whole, const char *name, struct rule **ret)
{
    const uint32_t id = sp_intern_find(whole, name, strlen(name));
    enum sp_status status = SP_OK;
    *ret = id != SP_NO_NAME ? *sp_intern_mark(sp_intern_name(whole, id)) : NULL;
    if (*ret != NULL)
        return SP_OK;
    const size_t length = strlen(name);
    for (uint32_t i = 0; status == SP_OK && i < rules->items.count; i++) {
        struct rule *rule = &rules->items.items[i];
        status = count_step(rules);
        if (rule->size < length && (*ret == NULL || rule->size > (*ret)->size) &&
            memmem(name, length, rule->text, rule->size) != NULL)
            *ret = rule;
    }
    return status;
}

static enum sp_status rule_of_layer(struct rules *rules, const char *layer, struct rule **ret)
{
    const size_t length = strlen(layer);
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < rules->items.count; i++) {
        struct rule *rule = &rules->items.items[i];
        status = count_step(rules);
        if (rule->size > length || (rule->is_exact && rule->size < length) ||
            memcmp(layer, rule->text, rule->size) != 0 || (*ret != NULL && (rule->is_exact || !(*ret)->is_exact)))
            continue;
        *ret = rule;
    }
    return status;
}

static const char *layer_of(const struct sp_node *node)
{
    for (uint32_t i = 0; node->metadata != NULL && i < node->metadata->count; i++) {
        if (strcmp(node->metadata->items[i].key, "layer_ann") == 0)
            return node->metadata->items[i].value;
    }
    return NULL;
}

static enum sp_status report_unused(struct rules *rules)
{
    struct sp_import_reader *reader = rules->reader;
    const struct rule *first = NULL;
    uint64_t count = 0;
    for (uint32_t i = 0; i < rules->items.count; i++) {
        const struct rule *rule = &rules->items.items[i];
        count += rule->fits == 0;
        first = rule->fits == 0 && first == NULL ? rule : first;
    }
    if (count == 0)
        return SP_OK;
    return sp_import_find(reader, "PLACED_NAME_IGNORED", NULL,
                          "%" PRIu64 " rules place no node of the model; the first is '%.*s' of '%.80s'.", count,
                          first->size < 200 ? (int)first->size : 200, first->text,
                          reader->places.items[first->place].name);
}

/* Rules by their text; the first of equal ones counts. */
static enum sp_status index_rules(struct rules *rules, struct sp_intern *whole)
{
    for (uint32_t i = 0; i < rules->items.count; i++) {
        struct rule *rule = &rules->items.items[i];
        const char *own = sp_intern_text(whole, rule->text, rule->size);
        if (own == NULL)
            return sp_fail_memory(rules->reader->err);
        void **mark = sp_intern_mark(own);
        struct rule *other = *mark;
        if (other != NULL && other->is_exact == rule->is_exact)
            return sp_import_refuse(rules->reader, rules->where, "The rule '%.*s' is there twice.",
                                    rule->size < 200 ? (int)rule->size : 200, rule->text);
        *mark = other != NULL ? other : rule;
    }
    return SP_OK;
}

static enum sp_status place_by_rules(struct sp_import_reader *reader, const char *setting, const char *where,
                                     bool by_layers)
{
    struct rules rules = {.reader = reader, .where = where};
    const struct sp_graph *graph = reader->model->graph;
    struct sp_intern *whole = sp_intern_create(reader->arena, reader->model->hash_seed);
    enum sp_status status = whole != NULL ? read_setting(&rules, setting, by_layers) : sp_fail_memory(reader->err);
    if (status == SP_OK)
        status = index_rules(&rules, whole);
    for (uint32_t i = 0; status == SP_OK && i < graph->node_count; i++) {
        const struct sp_node *node = &graph->nodes[i];
        const char *text = by_layers ? layer_of(node) : node->name;
        struct rule *rule = NULL;
        if (text == NULL || text[0] == '\0')
            continue;
        status = by_layers ? rule_of_layer(&rules, text, &rule) : rule_of_name(&rules, whole, text, &rule);
        if (status == SP_OK && rule != NULL) {
            rule->fits++;
            reader->place_of[i] = rule->place;
        }
    }
    return status == SP_OK ? report_unused(&rules) : status;
}

enum sp_status sp_import_ort_names(struct sp_import_reader *reader, const char *setting)
{
    reader->tool = "ONNX Runtime's layer assignment by names";
    enum sp_status status = place_by_rules(reader, setting, OF_NAMES, false);
    return status == SP_OK ? sp_import_number_stages(reader) : status;
}

enum sp_status sp_import_ort_layers(struct sp_import_reader *reader, const char *setting)
{
    reader->tool = "ONNX Runtime's layer assignment";
    enum sp_status status = place_by_rules(reader, setting, OF_LAYERS, true);
    return status == SP_OK ? sp_import_number_stages(reader) : status;
}
