#include "simulate_run.h"

#include <string.h>

#include "infer/propagate/propagate.h"
#include "simulate_random.h"

/* ---- lines ------------------------------------------------------------------------------------------------------ */

static const char *const kind_names[] = {"parallel", "reduction", "replicate", "halo", "permutation", "sequential"};

/* "spatial2" and "spatial3" are one row of the report. */
static void family_of(const char *name, char *family)
{
    (void)snprintf(family, SP_FACTOR_NAME_SIZE, "%s", name);
    for (size_t size = strlen(family); size > 1 && family[size - 1] >= '0' && family[size - 1] <= '9';)
        family[--size] = '\0';
}

/* How a factor is cut: as its kind says, but for what is seen apart. */
static const char *cut_kind(const struct simulate_way *way, uint32_t i, const struct sp_factor *factor)
{
    return way->cuts[i].shares != NULL ? "in shares"
           : way->cuts[i].row > 0      ? "in rows"
           : way->scatters             ? "scattered"
                                       : kind_names[factor->kind];
}

static json_t *cuts_line(const struct sp_rule *rule, const struct simulate_way *way)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < way->count; i++) {
        const struct sp_factor *factor = &rule->factors[way->cuts[i].factor];
        char family[SP_FACTOR_NAME_SIZE];
        family_of(factor->name, family);
        json_t *item = json_pack("{s:s, s:s, s:s, s:I, s:I}", "factor", factor->name, "family", family, "kind",
                                 cut_kind(way, i, factor), "extent", (json_int_t)factor->extent.value, "shards",
                                 (json_int_t)way->cuts[i].shards);
        (void)json_array_append_new(list, item);
    }
    return list;
}

static json_t *start_line(const struct simulate_subject *subject)
{
    return json_pack("{s:s, s:s, s:s}", "case", subject->case_name, "variant", subject->name, "op", subject->op_name);
}

void simulate_op_name(const struct sp_node *node, char *name, size_t size)
{
    (void)snprintf(name, size, "%s%s%s", node->domain, node->domain[0] == '\0' ? "" : ".", node->op_type);
}

void simulate_skip(struct simulate_program *program, const struct simulate_subject *subject, const char *why)
{
    json_t *line = start_line(subject);
    (void)json_object_set_new(line, "skip", json_string(why));
    simulate_tell(program->list, line);
}

/* ---- one simulation --------------------------------------------------------------------------------------------- */

/* "test_matmul_2d-k.2-m.2", which is a file's name too. */
static void name_run(const struct simulate_subject *subject, const struct simulate_way *way, char *name, size_t size)
{
    size_t length = (size_t)snprintf(name, size, "%s", subject->name);
    for (uint32_t i = 0; i < way->count && length < size; i++)
        length +=
            (size_t)snprintf(name + length, size - length, "-%s.%lld%s",
                             subject->opened.rule->factors[way->cuts[i].factor].name, (long long)way->cuts[i].shards,
                             way->cuts[i].row > 0 ? "-rows"
                             : way->scatters      ? "-scatter"
                                                  : "");
    for (int64_t i = 0; way->count > 0 && way->cuts[0].shares != NULL && i < way->cuts[0].shards && length < size; i++)
        length += (size_t)snprintf(name + length, size - length, "%s%lld", i == 0 ? "-shares" : "_",
                                   (long long)way->cuts[0].shares[i]);
    for (char *at = name; *at != '\0'; at++)
        *at = *at == '/' ? '_' : *at;
}

/* Dropout with a third input may be training. */
static bool is_random(const struct sp_graph *graph)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const struct sp_node *node = &graph->nodes[i];
        if ((node->op != NULL && (node->op->flags & SP_OP_RANDOM) != 0) ||
            (strcmp(node->op_type, "Dropout") == 0 && node->input_count > 2))
            return true;
    }
    return false;
}

/* What is fed and compared, and what is known of the splitting. */
static void tell_run(struct simulate_program *program, const struct simulate_subject *subject, json_t *cuts,
                     const char *name, const char *path, const struct simulate_account *account,
                     const struct sp_error *err)
{
    json_t *line = start_line(subject);
    json_t *more =
        json_pack("{s:s, s:o, s:s, s:s, s:o, s:b, s:b, s:i, s:i, s:O*}", "name", name, "cuts", cuts, "model", path,
                  "original", subject->path, "outputs", simulate_outputs(subject->opened.model), "shapesOnly",
                  is_random(subject->opened.model->graph), "isWhole", account->is_whole, "ops", (int)account->ops,
                  "cutParts", (int)(account->cut_sources + account->cut_results), "notes", account->notes);
    (void)json_object_update(line, more);
    (void)json_object_update(line, subject->inputs);
    json_decref(more);
    if (err->status != SP_OK)
        (void)json_object_set_new(line, "failure", json_sprintf("%s: %s", err->code, err->message));
    simulate_tell(program->list, line);
    program->progress->runs++;
    program->progress->failures += err->status != SP_OK;
}

static enum sp_status write_run(const struct simulate_subject *subject, struct sp_arena *arena,
                                const struct simulate_way *way, const char *path, struct simulate_account *account,
                                const char **ret_reason, struct sp_error *err)
{
    const struct simulate_case *opened = &subject->opened;
    struct sp_assignment *assignment = NULL;
    int64_t devices = 1;
    for (uint32_t i = 0; i < way->count; i++)
        devices *= way->cuts[i].shards;
    enum sp_status status = sp_assignment_create(arena, opened->dataflow, NULL, devices, NULL, &assignment, err);
    if (status != SP_OK)
        return status;
    if (!simulate_give(assignment, opened->relation, opened->rule, way, ret_reason))
        return SP_OK;
    return simulate_write(arena, opened->model, assignment, path, account, err);
}

static bool is_taken(struct simulate_program *program, bool is_further)
{
    return (!is_further || program->progress->further_ways++ % program->further == 0) &&
           program->progress->ways++ % program->every == 0;
}

/* Of ways with unequal shares others are taken. */
static bool is_share_taken(struct simulate_program *program)
{
    return program->shares > 0 && program->progress->share_ways++ % program->shares == 0;
}

static void run_way(struct simulate_program *program, const struct simulate_subject *subject,
                    const struct simulate_way *way, bool is_further)
{
    if (way->count > 0 && way->cuts[0].shares != NULL ? !is_share_taken(program) : !is_taken(program, is_further))
        return;
    struct sp_arena *arena = sp_arena_create(NULL);
    struct simulate_account account = {0};
    struct sp_error err = {0};
    const char *reason = NULL;
    char name[256], path[MAX_PATH + 300];
    name_run(subject, way, name, sizeof(name));
    (void)snprintf(path, sizeof(path), "%s/%s.onnx", program->folder, name);
    (void)snprintf(program->progress->run, sizeof(program->progress->run), "%s", name);
    (void)write_run(subject, arena, way, path, &account, &reason, &err);
    if (reason == NULL)
        tell_run(program, subject, cuts_line(subject->opened.rule, way), name, path, &account, &err);
    simulate_account_release(&account);
    sp_arena_destroy(arena);
}

/* ---- which cuts ------------------------------------------------------------------------------------------------- */

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return hash;
}

static bool add_seen(struct simulate_progress *progress, uint64_t hash)
{
    for (uint32_t i = 0; i < progress->pair_count; i++) {
        if (progress->pairs[i] == hash)
            return false;
    }
    if (progress->pair_count < SIMULATE_MAX_PAIRS)
        progress->pairs[progress->pair_count++] = hash;
    return true;
}

/* Whether two factors of such a node, with these ranks and attributes, come for the first time. */
static bool is_new_pair(struct simulate_program *program, const struct simulate_subject *subject, uint32_t a,
                        uint32_t b)
{
    const struct sp_node *node = subject->opened.relation->node;
    char text[128];
    uint64_t hash = hash_text(UINT64_C(14695981039346656037), subject->op_name);
    (void)snprintf(text, sizeof(text), "/%s/%s/%u/%u", subject->opened.rule->factors[a].name,
                   subject->opened.rule->factors[b].name, node->input_count, node->output_count);
    hash = hash_text(hash, text);
    for (uint32_t i = 0; i < node->input_count; i++) {
        (void)snprintf(text, sizeof(text), "/%u", node->inputs[i] == NULL ? 99 : node->inputs[i]->type.shape.rank);
        hash = hash_text(hash, text);
    }
    for (uint32_t i = 0; i < node->attribute_count; i++) {
        const struct sp_attribute *attribute = &node->attributes[i];
        (void)snprintf(text, sizeof(text), "/%s=%lld,%g,%.60s", attribute->name, (long long)attribute->i, attribute->f,
                       attribute->s.bytes == NULL ? "" : attribute->s.bytes);
        hash = hash_text(hash, text);
        for (uint32_t k = 0; k < attribute->count && attribute->ints != NULL; k++) {
            (void)snprintf(text, sizeof(text), ",%lld", (long long)attribute->ints[k]);
            hash = hash_text(hash, text);
        }
    }
    return add_seen(program->progress, hash);
}

static void run_pairs(struct simulate_program *program, const struct simulate_subject *subject)
{
    const struct sp_rule *rule = subject->opened.rule;
    for (uint8_t i = 0; i < rule->factor_count; i++) {
        for (uint8_t k = (uint8_t)(i + 1); k < rule->factor_count; k++) {
            struct simulate_way way = {.count = 2, .cuts = {{i, 2}, {k, 2}}};
            if (simulate_may_cut(&rule->factors[i], 2) && simulate_may_cut(&rule->factors[k], 2) &&
                (strcmp(program->pairs, "all") == 0 || is_new_pair(program, subject, i, k)))
                run_way(program, subject, &way, true);
        }
    }
}

/* A factor in shards of unequal size, whole and in rows, with results in parts too; and with another in two. */
static void run_shares(struct simulate_program *program, const struct simulate_subject *subject, uint8_t factor)
{
    static const int64_t patterns[][3] = {{3, 1}, {2, 1}, {1, 2, 1}};
    const struct sp_rule *rule = subject->opened.rule;
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        struct simulate_cut cut = {.factor = factor, .shards = patterns[i][2] > 0 ? 3 : 2, .shares = patterns[i]};
        struct simulate_way way = {.count = 1, .cuts = {cut}};
        if (!simulate_may_cut(&rule->factors[factor], simulate_blocks(&cut)))
            continue;
        run_way(program, subject, &way, true);
        way.scatters = true;
        if (rule->factors[factor].kind == SP_FACTOR_REDUCTION)
            run_way(program, subject, &way, true);
        way.scatters = false;
        way.cuts[0].row = simulate_row(&rule->factors[factor], simulate_blocks(&cut));
        if (way.cuts[0].row > 0)
            run_way(program, subject, &way, true);
        way.cuts[0].row = 0;
        for (uint8_t k = 0; k < rule->factor_count && i == 0; k++) {
            way.count = 2;
            way.cuts[1] = (struct simulate_cut){.factor = k, .shards = 2};
            if (k != factor && simulate_may_cut(&rule->factors[k], 2))
                run_way(program, subject, &way, true);
        }
    }
}

void simulate_node(struct simulate_program *program, struct simulate_subject *subject)
{
    const struct sp_rule *rule = subject->opened.rule;
    bool is_any_cut = false;
    for (uint8_t i = 0; i < rule->factor_count; i++) {
        bool is_cut = false;
        for (int64_t shards = 2; shards <= 4; shards++) {
            struct simulate_way way = {.count = 1, .cuts = {{i, shards}}};
            if (!simulate_may_cut(&rule->factors[i], shards))
                continue;
            run_way(program, subject, &way, is_cut);
            is_cut = true;
            way.scatters = true;
            if (rule->factors[i].kind == SP_FACTOR_REDUCTION && shards <= 3)
                run_way(program, subject, &way, true);
            way.scatters = false;
            way.cuts[0].row = shards == 2 ? simulate_row(&rule->factors[i], shards) : 0;
            if (way.cuts[0].row > 0)
                run_way(program, subject, &way, true);
        }
        is_any_cut = is_any_cut || is_cut;
        run_shares(program, subject, i);
    }
    if (!is_any_cut) /* computed whole on each of two devices */
        run_way(program, subject, &(struct simulate_way){0}, false);
    if (strcmp(program->pairs, "none") != 0)
        run_pairs(program, subject);
}

/* ---- graphs ----------------------------------------------------------------------------------------------------- */

/* One axis in four blocks, three on device 0 and one on device 1. */
static struct sp_sharding *in_shares(struct sp_arena *arena, uint32_t rank, uint32_t axis)
{
    static const uint32_t first[] = {0, 1, 2, 3, 4};
    static const int64_t devices[] = {0, 0, 0, 1};
    struct sp_sharding *blocks = SP_NEW(arena, struct sp_sharding);
    *blocks = (struct sp_sharding){
        .kind = SP_SHARDING_BLOCKS, .rank = rank, .shard_count = 4, .first = first, .devices = devices};
    blocks->blocks = SP_NEW_ARRAY(arena, rank, struct sp_block_dim);
    blocks->blocks[axis] = (struct sp_block_dim){1, SP_NEW(arena, struct sp_block_part)};
    blocks->blocks[axis].parts[0].shards = 4;
    return blocks;
}

/* The axis of a model input in so many shards, 1: in shares; propagation finds the rest. */
static enum sp_status write_axis(const struct simulate_subject *subject, struct sp_arena *arena,
                                 const struct sp_value *input, uint32_t axis, int64_t shards, const char *path,
                                 struct simulate_account *account, struct sp_error *err)
{
    struct sp_mesh_axis mesh_axis = {"x", shards};
    struct sp_mesh *mesh = NULL;
    struct sp_sharding *sharding = NULL;
    struct sp_assignment *assignment = NULL;
    struct sp_axis_ref *ref = SP_NEW(arena, struct sp_axis_ref);
    enum sp_status status = shards == 1 ? SP_OK : sp_mesh_create(arena, 1, &mesh_axis, NULL, &mesh, err);
    if (status == SP_OK && shards > 1)
        status = sp_sharding_create_axes(arena, mesh, input->type.shape.rank, &sharding, err);
    if (status != SP_OK)
        return status;
    if (shards > 1) {
        *ref = sp_axis_full(mesh, 0);
        sharding->dims[axis].axes = (struct sp_axis_list){1, ref};
    } else {
        sharding = in_shares(arena, input->type.shape.rank, axis);
    }
    struct sp_set_spec set = {input->name, sharding};
    status = sp_assignment_create(arena, subject->opened.dataflow, NULL, shards == 1 ? 2 : shards,
                                  &(struct sp_set_specs){1, &set}, &assignment, err);
    if (status == SP_OK)
        status = sp_infer_propagate(assignment, mesh, err);
    return status == SP_OK ? simulate_write(arena, subject->opened.model, assignment, path, account, err) : status;
}

static void run_axis(struct simulate_program *program, const struct simulate_subject *subject,
                     const struct sp_value *input, uint32_t axis, int64_t shards)
{
    if (shards == 1 ? !is_share_taken(program) : !is_taken(program, true))
        return;
    struct sp_arena *arena = sp_arena_create(NULL);
    struct simulate_account account = {0};
    struct sp_error err = {0};
    char name[256], path[MAX_PATH + 300], factor[64];
    (void)snprintf(name, sizeof(name), "%s-%.60s.%u.%lld", subject->name, input->name, axis, (long long)shards);
    for (char *at = name; *at != '\0'; at++)
        *at = *at == '/' ? '_' : *at;
    (void)snprintf(path, sizeof(path), "%s/%s.onnx", program->folder, name);
    (void)snprintf(factor, sizeof(factor), "%.40s.%u", input->name, axis);
    (void)snprintf(program->progress->run, sizeof(program->progress->run), "%s", name);
    (void)write_axis(subject, arena, input, axis, shards, path, &account, &err);
    json_t *cut = json_pack("{s:s, s:s, s:s, s:I, s:I}", "factor", factor, "family", "an input", "kind", "propagated",
                            "extent", (json_int_t)input->type.shape.dims[axis].value, "shards", (json_int_t)shards);
    tell_run(program, subject, json_pack("[o]", cut), name, path, &account, &err);
    simulate_account_release(&account);
    sp_arena_destroy(arena);
}

/* Every node in a way of its own. */
static void run_any(struct simulate_program *program, const struct simulate_subject *subject, int64_t devices)
{
    if (!is_taken(program, true))
        return;
    struct sp_arena *arena = sp_arena_create(NULL);
    struct simulate_account account = {0};
    struct sp_assignment *assignment = NULL;
    struct sp_error err = {0};
    char name[256], path[MAX_PATH + 300];
    (void)snprintf(name, sizeof(name), "%s-any.%lld", subject->name, (long long)devices);
    (void)snprintf(path, sizeof(path), "%s/%s.onnx", program->folder, name);
    (void)snprintf(program->progress->run, sizeof(program->progress->run), "%s", name);
    enum sp_status status =
        sp_assignment_create(arena, subject->opened.dataflow, NULL, devices, NULL, &assignment, &err);
    if (status == SP_OK)
        status = simulate_random(assignment, hash_text((uint64_t)devices, subject->name), 0, UINT32_MAX, &err);
    if (status == SP_OK)
        (void)simulate_write(arena, subject->opened.model, assignment, path, &account, &err);
    json_t *cut = json_pack("{s:s, s:s, s:s, s:I, s:I}", "factor", "any", "family", "every node", "kind", "any way",
                            "extent", (json_int_t)0, "shards", (json_int_t)devices);
    tell_run(program, subject, json_pack("[o]", cut), name, path, &account, &err);
    simulate_account_release(&account);
    sp_arena_destroy(arena);
}

void simulate_graph(struct simulate_program *program, struct simulate_subject *subject)
{
    const struct sp_graph *graph = subject->opened.model->graph;
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const struct sp_value *input = graph->inputs[i];
        for (uint32_t axis = 0; input->tensor == NULL && axis < input->type.shape.rank; axis++) {
            struct sp_dim extent = input->type.shape.dims[axis];
            if (sp_dim_is_known(extent) && extent.value > 0 && extent.value % 4 == 0)
                run_axis(program, subject, input, axis, 1);
            for (int64_t shards = 2; shards <= 3; shards++) {
                if (sp_dim_is_known(extent) && extent.value >= shards && (shards == 2 || extent.value != 4))
                    run_axis(program, subject, input, axis, shards);
            }
        }
    }
    for (int64_t devices = 2; devices <= 4; devices++)
        run_any(program, subject, devices);
}
