#pragma once
/*
 * internal - what the readers of placements share; private to core/import.
 *
 *   read.c            which file it is
 *   yaml.c            YAML as JSON
 *   places.c          places, nodes by name, findings
 *   walk.c            nodes that lead to a node
 *   mdp.c ort_layers.c poprt.c genai.c hints.c    a reader each
 *   annotate.c        an import as annotations
 *   constraints.c     as constraints of a plan
 *   stages.c          a pipeline's models as a manifest
 */
#include "base/array.h"
#include "base/hash_map.h"
#include "base/json_reader.h"
#include "import/import.h"

#define SP_IMPORT_NAME "placement" /* of the configuration */

struct sp_import_reader {
    struct sp_arena *arena;
    struct sp_model *model;
    struct sp_diagnostics *list;
    struct sp_members_reader json;
    struct sp_error *err;
    const char *tool;
    SP_ARRAY(struct sp_import_place) places;
    SP_ARRAY(struct sp_import_split) splits;
    uint32_t *place_of;
    int64_t device_count;
    bool has_stages;
    struct sp_intern *names;       /* of nodes; mark: the node */
    struct sp_intern *place_names; /* ids are places */
};

/* ---- yaml.c ---- */

/* One document of maps, lists and scalars without anchors; a new reference. Plain scalars that read as integers are
   integers, all else is text. */
enum sp_status sp_yaml_read(const char *text, size_t size, json_t **ret_json, struct sp_error *err);

/* ---- places.c ---- */

/* SP_ERR_REQUEST "PLACEMENT_FILE" at a JSON pointer. */
__attribute__((format(printf, 3, 4))) enum sp_status sp_import_refuse(struct sp_import_reader *reader,
                                                                      const char *where, const char *format, ...);
__attribute__((format(printf, 4, 5))) enum sp_status
sp_import_find(struct sp_import_reader *reader, const char *code, const struct sp_node *node, const char *format, ...);
/* The number of a new place; its stage is that number, until something else is said. */
enum sp_status sp_import_add_place(struct sp_import_reader *reader, const struct sp_import_place *place,
                                   uint32_t *ret_place);
/* SP_NOT_PLACED where none is called so. */
uint32_t sp_import_place_named(const struct sp_import_reader *reader, const char *name);
/* "2" as the number of a device; -1 where it is none. */
int64_t sp_import_device_number(const char *text);
/* The place has this device. */
enum sp_status sp_import_one_device(struct sp_import_reader *reader, int64_t device, struct sp_import_place *place);
/* A node of the main graph of this name, or NULL; the first of several. */
struct sp_node *sp_import_node(struct sp_import_reader *reader, const char *name, size_t size);
/* Puts a node in a place; a finding where it is in another one. */
enum sp_status sp_import_place(struct sp_import_reader *reader, const struct sp_node *node, uint32_t place);
/* A required text of an object. */
enum sp_status sp_import_text(struct sp_import_reader *reader, const json_t *json, const char *pointer,
                              const char *member, const char **ret_text);
/* An integer of an object from 0 to `high`; `otherwise` where it is absent, which is an error for -1. */
enum sp_status sp_import_integer(struct sp_import_reader *reader, const json_t *json, const char *pointer,
                                 const char *member, int64_t high, int64_t otherwise, int64_t *ret_value);
/* Stages in the order of each place's first node, for files that say none. */
enum sp_status sp_import_number_stages(struct sp_import_reader *reader);

/* ---- walk.c ---- */

/* Takes a node, and those that it leads to towards the inputs, as far as nothing has taken them and a border allows. */
struct sp_import_walk {
    uint32_t *stack;           /* made by the first walk */
    const uint32_t *is_border; /* by value: `border` where the walk ends; NULL: none does */
    uint32_t border;
};
enum sp_status sp_import_walk(struct sp_import_reader *reader, struct sp_import_walk *walk, const struct sp_node *node,
                              uint32_t place);

/* ---- the readers ---- */

enum sp_status sp_import_mdp(struct sp_import_reader *reader, const json_t *json);
enum sp_status sp_import_ort_names(struct sp_import_reader *reader, const char *setting);
enum sp_status sp_import_ort_layers(struct sp_import_reader *reader, const char *setting);
enum sp_status sp_import_poprt(struct sp_import_reader *reader, const json_t *json);
enum sp_status sp_import_genai(struct sp_import_reader *reader, const json_t *json);
enum sp_status sp_import_hints(struct sp_import_reader *reader, const json_t *json);

/* ---- genai.c ---- */

/* A stage of a pipeline. */
struct sp_genai_stage {
    const char *name, *file;
    const json_t *inputs, *outputs; /* lists of names */
    const json_t *forwarder;        /* {output: name for later stages}, or NULL */
    const json_t *options;          /* of the session, or NULL */
    bool on_prompt, on_token;
};
enum sp_status sp_genai_stages(struct sp_members_reader *reader, const json_t *config, uint32_t *ret_count,
                               struct sp_genai_stage **ret_stages);
/* What later stages call an output. */
const char *sp_genai_forwarded(const struct sp_genai_stage *stage, const char *output);
