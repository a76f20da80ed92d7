#include "plan/proof/verified.h"

#include <stdlib.h>
#include <string.h>

#include "import/import.h"
#include "onnx/reader.h"
#include "plan/proof/proof.h"

struct sp_verified {
    struct sp_arena *arena;
    json_t *stages; /* the manifest of a pipeline, or NULL */
    uint32_t program_count;
    struct sp_verify_program *programs;
    struct sp_verify_request request;
    struct sp_verify_weights weights;
    struct sp_verification *verification; /* or that of the proof: */
    struct sp_subject *subject;
    struct sp_proof *proof;
};

/* Where the models of a manifest come from. */
struct listed {
    const struct sp_verify_question *question;
    const struct sp_verify_access *access;
};

static bool read_nothing(void *context, uint32_t program, const char *location, uint64_t offset, void *bytes,
                         size_t size)
{
    (void)context;
    (void)program;
    (void)location;
    (void)offset;
    (void)bytes;
    (void)size;
    return false;
}

static enum sp_status find_listed(void *context, const char *name, const void **ret_bytes, uint64_t *ret_size,
                                  struct sp_error *err)
{
    const struct listed *listed = context;
    const struct sp_verify_question *question = listed->question;
    if (question->names == NULL)
        return listed->access->find(listed->access->context, name, ret_bytes, ret_size, err);
    for (uint32_t i = 0; i < question->rank_count; i++) {
        if (strcmp(question->names[i], name) == 0)
            return listed->access->find(listed->access->context, question->ranks[i], ret_bytes, ret_size, err);
    }
    (void)sp_fail(err, SP_ERR_REQUEST, "RANK_MISSING", "The manifest names the model '%.200s', which \"ranks\" lacks.",
                  name);
    return sp_error_at(err, "/ranks");
}

/* The manifest, or that of the stages that a pipeline lists. */
static enum sp_status find_manifest(struct sp_verified *verified, const struct sp_job_options *original,
                                    const struct sp_verify_question *question, const json_t **ret_manifest,
                                    struct sp_error *err)
{
    const struct sp_read_options options = {.hash_seed = original->hash_seed, .watch = original->watch};
    const enum sp_import_phase phase = question->phase == NULL     ? SP_PHASE_ANY
                                       : question->phase[0] == 'p' ? SP_PHASE_PROMPT
                                                                   : SP_PHASE_TOKEN;
    struct sp_model *model = NULL;
    *ret_manifest = question->manifest;
    if (!sp_import_is_pipeline(question->manifest))
        return phase == SP_PHASE_ANY ? SP_OK
                                     : sp_fail(err, SP_ERR_REQUEST, "BAD_MANIFEST",
                                               "A phase is chosen of the pipeline of a genai_config.json.");
    struct sp_arena *arena = sp_arena_create(NULL);
    enum sp_status status = arena != NULL ? sp_onnx_read(arena, original->bytes, original->size, &options, &model, err)
                                          : sp_fail_memory(err);
    if (status == SP_OK)
        status = sp_import_stages(question->manifest, model, phase, &verified->stages, err);
    sp_arena_destroy(arena);
    *ret_manifest = verified->stages;
    return status;
}

/* The programs of the ranks, in their order, or as the manifest says. */
static enum sp_status find_programs(struct sp_verified *verified, const struct sp_job_options *original,
                                    const struct listed *listed, struct sp_error *err)
{
    const struct sp_verify_question *question = listed->question;
    const json_t *manifest = NULL;
    enum sp_status status =
        question->manifest != NULL ? find_manifest(verified, original, question, &manifest, err) : SP_OK;
    if (status != SP_OK)
        return status;
    verified->request.inputs = json_object_get(manifest, "inputs");
    if (manifest != NULL)
        return sp_verify_read_manifest(verified->arena, manifest, find_listed, (void *)(uintptr_t)listed,
                                       &verified->program_count, &verified->programs, err);
    verified->program_count = question->rank_count;
    verified->programs = SP_NEW_ARRAY(verified->arena, question->rank_count, struct sp_verify_program);
    if (verified->programs == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; status == SP_OK && i < question->rank_count; i++) {
        struct sp_verify_program *program = &verified->programs[i];
        *program = (struct sp_verify_program){.name = question->ranks[i], .device = i, .rank = i};
        status =
            listed->access->find(listed->access->context, question->ranks[i], &program->bytes, &program->size, err);
    }
    return status;
}

static enum sp_status verify_ranks(struct sp_verified *verified, const struct sp_job_options *original,
                                   const struct listed *listed, bool explains, struct sp_error *err)
{
    const struct sp_sizes *sizes = &listed->question->sizes;
    const struct sp_verify_access *access = listed->access;
    enum sp_status status = find_programs(verified, original, listed, err);
    verified->weights = (struct sp_verify_weights){access->read != NULL ? access->read : read_nothing, access->context};
    verified->request = (struct sp_verify_request){.bytes = original->bytes,
                                                   .size = original->size,
                                                   .hash_seed = original->hash_seed,
                                                   .program_count = verified->program_count,
                                                   .programs = verified->programs,
                                                   .binding_count = sizes->dim_count,
                                                   .binding_names = sizes->dim_names,
                                                   .binding_values = sizes->dim_values,
                                                   .inputs = verified->request.inputs,
                                                   .given = &sizes->given,
                                                   .weights = listed->question->weights ? &verified->weights : NULL,
                                                   .memory_budget = original->memory_budget,
                                                   .watch = original->watch,
                                                   .explains = explains};
    return status == SP_OK ? sp_verify(&verified->request, &verified->verification, err) : status;
}

/* The sharded model that the annotations say, against the model itself. */
static enum sp_status verify_annotations(struct sp_verified *verified, const struct sp_job_options *original,
                                         const struct sp_verify_question *question, struct sp_error *err)
{
    const struct sp_proof_options proof = {.watch = original->watch, .number_bytes = original->memory_budget};
    struct sp_job_options options = *original;
    options.sizes = &question->sizes;
    enum sp_status status = sp_subject_from_model(&options, NULL, &verified->subject, err);
    return status == SP_OK ? sp_proof_create(verified->subject, &proof, &verified->proof, err) : status;
}

enum sp_status sp_verified_create(const struct sp_job_options *original, const struct sp_verify_question *question,
                                  const struct sp_verify_access *access, bool explains,
                                  struct sp_verified **ret_verified, struct sp_error *err)
{
    const struct listed listed = {question, access};
    struct sp_verified *verified = calloc(1, sizeof *verified);
    if (verified == NULL)
        return sp_fail_memory(err);
    verified->arena = sp_arena_create(NULL);
    enum sp_status status = verified->arena == NULL  ? sp_fail_memory(err)
                            : question->is_annotated ? verify_annotations(verified, original, question, err)
                                                     : verify_ranks(verified, original, &listed, explains, err);
    if (status == SP_OK)
        *ret_verified = verified;
    else
        sp_verified_destroy(verified);
    return status;
}

void sp_verified_destroy(struct sp_verified *verified)
{
    if (verified == NULL)
        return;
    sp_proof_destroy(verified->proof);
    sp_subject_destroy(verified->subject);
    sp_verification_destroy(verified->verification);
    sp_arena_destroy(verified->arena);
    json_decref(verified->stages);
    free(verified);
}

const struct sp_verification *sp_verified_verification(const struct sp_verified *verified)
{
    return verified->proof != NULL ? sp_proof_verification(verified->proof) : verified->verification;
}
