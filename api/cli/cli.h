#pragma once
/*
 * cli - the `shardplan` command: what its sources share.
 *
 * Every command ends with one of the exit codes below; what went wrong is one line on standard error, and with --json
 * also an object {"error": {...}} on standard output. Results go to standard output, everything else (progress, notes)
 * to standard error.
 */
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cancel.h"
#include "base/error.h"
#include "base/json_writer.h"
#include "export/files.h"
#include "onnx/splice.h"
#include "plan/job.h"

enum exit_code {
    EXIT_DONE = 0,
    EXIT_MODEL = 1,  /* the model or the plan has errors */
    EXIT_USAGE = 2,  /* wrong usage or unreadable input */
    EXIT_NOFIT = 3,  /* no plan fits */
    EXIT_FAILED = 4, /* server or I/O failure, memory */
};

#define CLI_MAX_MANIFEST_BYTES    ((size_t)64 << 20)  /* of a manifest that an earlier plan left */
#define CLI_MAX_CLUSTER_BYTES     ((size_t)16 << 20)  /* of a --cluster file */
#define CLI_MAX_SHAPES_BYTES      ((size_t)64 << 20)  /* of a --shapes file */
#define CLI_MAX_OPTION_BYTES      ((size_t)64 << 10)  /* of the text of a --value, or an extent of a --shape */
#define CLI_MAX_WORKLOAD_BYTES    ((size_t)4 << 20)   /* of a --workload file */
#define CLI_MAX_CONSTRAINTS_BYTES ((size_t)16 << 20)  /* of a --constraints file */
#define CLI_MAX_PROFILE_BYTES     ((size_t)256 << 20) /* of a --profile file */
#define CLI_MAX_TEXT_BYTES        ((size_t)1 << 30)   /* of one answer held in memory */
#define CLI_MAX_TIME_LIMIT        1e9                 /* seconds */
#define CLI_MAX_BYTES             1e24                /* of a limit on memory */
/* A plan of this size would be of a model of many millions of nodes. */
#define MAX_PLAN_BYTES     ((size_t)1 << 29)
#define CLI_DEFAULT_DEVICE "a100-sxm4-80gb"

/* What all commands take. Credentials come from files or the environment: a command line is there for all to read. */
struct common {
    const char *command; /* "plan" */
    bool json;
    const char *server;      /* URL without a trailing slash, or NULL: offline */
    const char *token_file;  /* holds a bearer token; NULL: SHARDPLAN_TOKEN, or none */
    const char *ca_file;     /* authorities of the server's certificate; NULL: the system's */
    const char *certificate; /* of the client, or NULL */
    const char *key;         /* its private key; NULL: in the same file */
};

/* ---- report.c ---- */

/* Prints the error and returns its exit code. `hint` may be NULL. */
int report_error(const struct common *common, const struct sp_error *err, const char *hint);
/* Replaces what is not well-formed UTF-8 by '?': arguments and file names are any bytes, JSON is not. */
void make_utf8(char *text);
/* Wrong usage: the sentence, and where help is. Returns EXIT_USAGE. */
__attribute__((format(printf, 2, 3))) int report_usage(const struct common *common, const char *format, ...);
/* What getopt_long() found wrong (':' or '?') with `argument`. */
int report_bad_option(const struct common *common, int option, const char *argument);
__attribute__((format(printf, 1, 2))) void print_note(const char *format, ...);

/* ---- args.c ---- */

/* A whole number of `least` or more, nothing behind it. */
bool parse_integer(const char *text, int64_t least, int64_t *ret_value);
bool parse_seconds(const char *text, double *ret_value);
/* 0 to 1. */
bool parse_share(const char *text, double *ret_value);
/* A number of bytes of 1 or more, like 80e9. */
bool parse_bytes(const char *text, double *ret_value);

/* ---- server_options.c: which daemon, and who asks it ---- */

enum { OPT_SERVER = 1000, OPT_TOKEN_FILE, OPT_CA_FILE, OPT_CERTIFICATE, OPT_KEY };

/* In the option table of every command that a daemon can do. */
#define SERVER_OPTIONS                                                                                                 \
    {"server", required_argument, NULL, OPT_SERVER}, {"token-file", required_argument, NULL, OPT_TOKEN_FILE},          \
        {"ca-file", required_argument, NULL, OPT_CA_FILE},                                                             \
        {"client-certificate", required_argument, NULL, OPT_CERTIFICATE},                                              \
    {                                                                                                                  \
        "client-key", required_argument, NULL, OPT_KEY                                                                 \
    }
#define SERVER_OPTION_COUNT 5

/* Keeps the value of one of these; false when it is another option. */
bool take_server_option(struct common *common, int option, const char *value);
/* What was not given is taken from the environment, and the URL's trailing slashes are cut off. EXIT_DONE, or what is
   wrong with them has been told. */
int complete_server_options(struct common *common);
/* The same for a command that only a daemon can do. */
int need_server(struct common *common);
/* Whether the URL leads to this machine and nowhere else. */
bool is_loopback_url(const char *url);

/* ---- input.c ---- */

/* A model file, mapped. */
struct input {
    int fd;
    char name[256]; /* last part of the path as UTF-8, "stdin" */
    const void *bytes;
    uint64_t size;
    char sha256[65]; /* "" until input_hash() */
    char *folder;    /* its path; NULL for standard input */
};
/* `path` "-" is standard input; what cannot be mapped is copied to a nameless temporary file first. */
enum sp_status input_open(const char *path, struct input *ret_input, struct sp_error *err);
void input_close(struct input *input);
/* Reads through the descriptor, in pieces: hashing must not make a large file resident. */
enum sp_status input_hash(struct input *input, struct sp_error *err);
/* Reads a small file as a whole, at most `ceiling` bytes, the limit of this name; *buf is initialised here and released
   by the caller, always. */
enum sp_status read_small_file(const char *path, size_t ceiling, const char *limit, struct sp_buf *buf,
                               struct sp_error *err);

/* ---- output.c ---- */

/* A file that appears under its name when it is complete, or not at all. "-" is standard output. */
struct output {
    int fd;
    char *path, *temporary; /* NULL where the target is written in place (a pipe, a device) */
    const struct input *input;
    bool is_standard;
};
enum sp_status output_open(const char *path, const struct input *input, struct output *ret_output,
                           struct sp_error *err);
/* Streams a splice over the input. */
enum sp_status output_splice(struct output *output, const struct sp_splice *splice, struct sp_error *err);
bool output_write(void *output, const void *bytes, size_t size);
/* Empties it, so that it can be written from the start again; false where what was written is gone. */
bool output_restart(struct output *output);
/* Puts the file in its place. */
enum sp_status output_commit(struct output *output, struct sp_error *err);
/* Tells people that what was committed refers to files of weights that are beside the input, if it does and is not. */
void output_tell_weights(const struct output *output, const struct sp_model *model);
/* Drops what was not committed. */
void output_close(struct output *output);

/* ---- sources.c: the bytes of recipes ---- */

struct sources {
    const struct input *input; /* source 0, unless */
    const char *converted;     /* the model was described in JSON: what was made of it; set by emit_init() */
    uint64_t converted_size;
    int folder;                     /* of the model; -1: it has none */
    const struct sp_recipe *recipe; /* at work */
    uint32_t count;
    int *files; /* open ones of the recipe at work */
};
/* Files beside several models, opened when they are first read; the one that was opened first is closed for another. */
#define CLI_MAX_BESIDE 64
struct beside {
    uint32_t count, next;
    struct beside_file {
        const struct input *input;
        const char *location; /* of the model */
        int fd;
    } files[CLI_MAX_BESIDE];
};
bool beside_read(struct beside *beside, const struct input *input, const char *location, uint64_t offset, void *bytes,
                 size_t size);
void beside_close(struct beside *beside);

/* The input must stay open. */
struct sources sources_open(const struct input *input);
void sources_close(struct sources *sources);
/* The first of the files that hold the model's weights and are not there, or NULL. SP_ERR_MODEL for one that ends before
   a weight does. */
enum sp_status sources_have(const struct sources *sources, const struct sp_model *model, const char **ret_missing,
                            struct sp_error *err);
/* The same for a model alone, or NULL; files that are not there are not needed, and a note says so. */
enum sp_status sources_look(const struct input *input, const struct sp_model *model, struct sp_error *err);
/* Reads exactly so many bytes; false where there are fewer, or no file. */
bool read_at(int fd, uint64_t offset, void *bytes, size_t size);
/* Opens the file at a location below the model's folder; -1 where there is none. */
int open_data_of(const struct input *input, const char *location);
/* Streams a recipe into an output. */
enum sp_status output_recipe(struct output *output, const struct sp_recipe *recipe, struct sources *sources,
                             struct sp_error *err);

/* ---- emit.c: the files of a plan ---- */

struct emit {
    const struct sp_subject *subject;
    struct sources *sources;
    const struct sp_watch *watch;
    enum sp_realize_external external; /* set by emit_init() */
    bool uses_data;                    /* weights go into files of their own */
    bool is_large;                     /* weights should not be written more often than they have to be */
    bool with_simulation;              /* emit_file() writes one behind emit_devices(): where it is large, the
                                          simulation refers to the weights of the devices; set by the caller */
    bool has_phases;                   /* devices have models of several phases of a service; set by emit_devices() */
    struct sp_arena *arena;
    struct sp_weight_places *places; /* in the data files of the devices */
    bool is_told;                    /* that they are not there */
    struct sp_file_forms forms;      /* set by the caller, as the next one */
    int64_t device;                  /* whose model the format "ort" writes; set to none by emit_init() */
    uint32_t file_count;             /* of a repository: where models go; else 0 */
    const struct sp_repository_file *files;
    json_t *notes; /* [{"code", "node", "message"}], each sentence once */
    json_t *told;  /* their sentences */
};
/* Looks where the weights are. */
enum sp_status emit_init(struct emit *emit, const struct sp_subject *subject, struct sources *sources,
                         const struct sp_watch *watch, struct sp_error *err);
void emit_release(struct emit *emit);
/* One file, made by `format` of export/files.h; "-" is standard output. */
enum sp_status emit_file(struct emit *emit, const char *path, const char *format, struct sp_error *err);
/* manifest.json and the models of all devices, with what their weights lie in; of the plan of a service those of each
   phase. */
enum sp_status emit_devices(struct emit *emit, const char *folder, const char *format, struct sp_error *err);
/* Finds the files of a repository, makes its folders and writes what is no model. (emit_repository.c) */
enum sp_status emit_repository(struct emit *emit, const char *folder, const char *format,
                               const struct sp_device_plan *plan, struct sp_error *err);
/* Where a device's model goes in the folder, and the file of its weights, as paths from malloc; NULL without memory. Of a
   model with files beside it Triton wants a folder, model.onnx/, with all of them. (emit_repository.c) */
char *emit_model_path(const struct emit *emit, const char *folder, int64_t device, uint32_t part, const char *data_name,
                      char **ret_data);
/* Prints the notes. */
void emit_print_notes(const struct emit *emit);
/* Removes the simulation that an earlier plan left, whose weights may lie in files that are written anew; says so unless
   a new one follows. */
void emitted_remove_simulation(const char *folder, bool is_followed);
/* The models of devices that the folder's manifest names, as the keys of an object; empty without a manifest of ours. */
json_t *emitted_models(const char *folder);
/* Removes those of `before`, which it takes over, that the new manifest does not name, and says so. */
void emitted_remove(const char *folder, json_t *before);
/* FOLDER/NAME, from malloc. */
char *path_in(const char *folder, const char *name);
/* Makes the folder unless it is there. */
enum sp_status emit_folder(const char *folder, struct sp_error *err);

/* Standard output as the sink of a JSON writer. */
bool write_stdout(void *context, const char *bytes, size_t size);
/* Flushes it; SP_ERR_IO when anything was lost. */
enum sp_status finish_stdout(struct sp_error *err);
enum sp_status print_buf(const struct sp_buf *buf, struct sp_error *err);

/* ---- progress.c ---- */

/* A bar on the terminal, the time limit and the interrupt key, as the library's watch. */
struct progress {
    struct sp_watch watch;
    double start, limit; /* seconds; limit 0: none */
    double shown;        /* when the bar was drawn last */
    bool visible, drawn, timed_out;
};
void progress_init(struct progress *progress, double limit_seconds);
/* Draws; the phases of the library, or of a server. */
void progress_draw(struct progress *progress, const char *phase, double fraction, double best, double bound);
void progress_clear(struct progress *progress);
double progress_elapsed(const struct progress *progress);

/* Set by SIGINT and SIGTERM. */
extern volatile sig_atomic_t interrupted;
/* Set with that, and when a time limit is over: for watches. */
extern volatile bool is_time_to_stop;
/* A signal ends it early. */
void pause_seconds(double seconds);

/* ---- sharding.c: options that become a request, and requests to convert and reshard ---- */

#define MAX_MEMBER_OPTIONS 16

/* An option that becomes a member of a request. */
struct member_option {
    const char *name;   /* without the dashes */
    const char *member; /* NULL for MEMBER_LOCAL */
    enum {
        MEMBER_TEXT,
        MEMBER_COUNT, /* a whole number of `least` or more */
        MEMBER_BYTES,
        MEMBER_SHAPE,
        MEMBER_FLAG,
        MEMBER_LOCAL, /* kept in *value for the command */
        MEMBER_EACH,  /* may be repeated: put() adds each to the request */
    } kind;
    int least; /* MEMBER_LOCAL: a letter that means the same, or 0 */
    const char **value;
    enum sp_status (*put)(json_t *request, char *text, struct sp_error *err);
};

/* What a command takes, and its help. */
struct member_options {
    const struct member_option *members;
    size_t count;
    const char *help;
};
#define OPTIONS_AND_HELP(options, help) ((struct member_options){options, sizeof options / sizeof *options, help})

/* Takes these options, --help, --json and --server; `optind` is then at the first argument. *ret_help says that help
   was asked for and has been printed: the command is done. */
int parse_members(struct common *common, int argc, char **argv, const struct member_options *taken, json_t *request,
                  bool *ret_help);

/* ---- sizes.c: options that say what the sizes of a model are ---- */

enum sp_status put_dim(json_t *request, char *text, struct sp_error *err);
enum sp_status put_input_value(json_t *request, char *text, struct sp_error *err);
enum sp_status put_shape(json_t *request, char *text, struct sp_error *err);
enum sp_status put_shapes(json_t *request, char *text, struct sp_error *err);
enum sp_status put_operators(json_t *request, char *path, struct sp_error *err);
enum sp_status put_state(json_t *request, char *text, struct sp_error *err);
/* What the genai_config.json beside a model says of its states, where there is one for it and the options name none. */
enum sp_status put_config_beside(json_t *request, const char *model, struct sp_error *err);
/* ---- placement_file.c ---- */

/* --placement-file of `check`: the text of the file becomes a member of the request. */
enum sp_status put_placement(json_t *request, char *path, struct sp_error *err);
/* That of `plan`: pins and specs beside the constraints. */
struct plan_request;
enum sp_status add_placed_constraints(struct plan_request *request, json_t *constraints, struct sp_error *err);
#define SIZE_OPTION_LIST(ITEM)                                                                                         \
    ITEM("dim", put_dim), ITEM("value", put_input_value), ITEM("shape", put_shape), ITEM("shapes", put_shapes),        \
        ITEM("operators", put_operators), ITEM("state", put_state)
#define SIZE_MEMBER_OPTION(name_, put_)                                                                                \
    {                                                                                                                  \
        name_, NULL, MEMBER_EACH, 0, NULL, put_                                                                        \
    }
#define SIZE_OPTIONS SIZE_OPTION_LIST(SIZE_MEMBER_OPTION)
/* The one of this name, which is in the list. */
enum sp_status put_size(json_t *request, const char *name, char *text, struct sp_error *err);
/* Their help. */
#define SIZE_HELP                                                                                                      \
    "  --dim NAME=N         bind a dimension: a symbol that 'inspect' shows, an axis like x:1, or\n"                   \
    "                       arithmetic like 'past + seq'; 0 is a size; may be repeated, like the next\n"               \
    "  --value INPUT=V      what an input is (true, 1 or 2,3): what follows from it is known\n"                        \
    "  --shape TENSOR=S     the shape of a tensor that nobody knows, like 2,seq,64\n"                                  \
    "  --shapes FILE        such shapes as JSON: {\"TENSOR\": [2, \"seq\", 64]}\n"                                     \
    "  --operators FILE     rules of operators of your own, as JSON: {\"operators\": [{\"domain\", \"name\",\n"        \
    "                       \"rule\": \"[b.., k] [k, n] -> [b.., n]; k sum\"}]}\n"                                     \
    "  --state IN=OUT       the output OUT of a step is the input IN of the next: names, or patterns with one *\n"     \
    "                       in both; may be repeated. Without it, exporters' names and the genai_config.json\n"        \
    "                       beside the model say so\n"

/* A sharding that was given as text; "-" is standard input. */
enum sp_status put_spec(json_t *request, const char *member, const char *spec, struct sp_error *err);
/* Asks the library or the server and prints the answer; returns the exit code. */
int answer_sharding(const struct common *common, bool is_reshard, const json_t *request);

/* ---- verbs.c: commands with verbs of their own, like `models show ID` ---- */

struct verb {
    const char *name; /* NULL ends a table */
    bool takes_one;   /* an id, or a file */
};

/* How a daemon is reached and who asks it, for the help of commands that only a daemon can do. */
#define SERVER_HELP                                                                                                    \
    "  --server URL         the daemon (or the variable SHARDPLAN_SERVER)\n"                                           \
    "  --token-file FILE    holds the token that it asks for (or SHARDPLAN_TOKEN_FILE, or the token itself\n"          \
    "                       in SHARDPLAN_TOKEN)\n"                                                                     \
    "  --ca-file FILE       the authority of its certificate, when it is your own (or SHARDPLAN_CA_FILE)\n"            \
    "  --client-certificate FILE, --client-key FILE\n"                                                                 \
    "                       who asks, for daemons that want a certificate\n"

/* The verb behind the options, "list" where there is none, and its argument, NULL where it takes none. */
int take_verb(const struct common *common, int argc, char **argv, const struct verb *verbs, const char **ret_verb,
              const char **ret_argument);
/* A time as a server writes it, cut to seconds: "2026-11-22 18:30:05". */
void write_time(const char *stamp, char *text, size_t size);
enum sp_status print_value(const json_t *json, struct sp_error *err);
/* {"NAME": value} */
enum sp_status print_list(const char *name, json_t *value, struct sp_error *err);
/* How the thing with this id is now: a line for people, {"id", "state"} for machines. */
enum sp_status print_done(const struct common *common, const char *id, const char *state, struct sp_error *err);

/* ---- runners of calibrate, of api/examples ---- */

extern const char text_calibrate_mjs[], text_calibrate_py[];

/* ---- commands ---- */

int cmd_calibrate(int argc, char **argv, struct common *common);
int cmd_check(int argc, char **argv, struct common *common);
int cmd_infer(int argc, char **argv, struct common *common);
int cmd_operators(int argc, char **argv, struct common *common);
int cmd_convert(int argc, char **argv, struct common *common);
int cmd_export(int argc, char **argv, struct common *common);
int cmd_inspect(int argc, char **argv, struct common *common);
int cmd_jobs(int argc, char **argv, struct common *common);
int cmd_models(int argc, char **argv, struct common *common);
int cmd_plans(int argc, char **argv, struct common *common);
int cmd_plan(int argc, char **argv, struct common *common);
int cmd_devices(int argc, char **argv, struct common *common);
int cmd_replan(int argc, char **argv, struct common *common);
int cmd_reshard(int argc, char **argv, struct common *common);
int cmd_simulate(int argc, char **argv, struct common *common);
int cmd_strip(int argc, char **argv, struct common *common);
int cmd_verify(int argc, char **argv, struct common *common);
int cmd_cluster(int argc, char **argv, struct common *common);

/* What a plan is asked for; the same for both ways of getting it. */
struct plan_request {
    struct input input;
    struct sp_plan_options options;
    json_t *sizes;                             /* members of plan/sizes/sizes.h */
    json_t *target;                            /* the request's member "cluster", or */
    bool is_sweep;                             /* "sweep" */
    const char *annotated;                     /* -o, or NULL */
    const char *plan_path;                     /* --plan, or NULL */
    bool skips_simulation;                     /* --no-simulation: of --emit */
    const char *emit;                          /* --emit, or NULL */
    const char *model;                         /* its path */
    const char *profile_path, *profile_device; /* or NULL */
    const char *constraints_path;              /* or NULL */
    const char *placement_path;                /* of a file of another tool that places nodes, or NULL */
    const char *workload_path;                 /* likewise */
    double max_latency_seconds;                /* beside these; 0: not given */
    const char *priority;                      /* among a daemon's plans, or NULL */
    const char *follows;                       /* the id of the plan on a daemon that it follows, or NULL */
    const json_t *terms;                       /* of that: plan/replan/replan.h */
    struct sp_arena *arena;                    /* of the profile and the constraints, or NULL */
    struct progress progress;                  /* started */
};

/* ---- plan_files.c ---- */

/* Whether it is standard input or output; NULL is not. */
bool is_dash(const char *text);
/* Verifies a plan that was made here, unless that is not wanted; SP_ERR_INTERNAL where it is refuted. */
enum sp_status prove_plan(struct plan_request *request, struct sp_job *job, struct sp_plan *plan, struct sp_error *err);
/* The files that the request names, and the plan on standard output, or on standard error where a file is there. */
enum sp_status deliver_plan(const struct common *common, const struct plan_request *request, struct sp_job *job,
                            const struct sp_plan *plan, double seconds, struct sp_error *err);

/* The JSON of a plan, the caller's. */
enum sp_status read_plan_file(const struct input *input, json_t **ret_json, struct sp_error *err);

/* ---- plan_target.c ---- */

/* What the options say of devices; NULL where one is not given. */
struct plan_devices {
    const char *devices; /* a number, or several: "1,2,4" */
    const char *device;  /* a name, or several */
    const char *cluster; /* a file */
    const char *runtime; /* of all devices; NULL: as they say */
    const char *choose;  /* "smallest" or "best" */
};
/* Puts the figures of files in place of the paths that a target has as devices: a cluster of either form, or types of a
   sweep. Paths are below `folder`. */
enum sp_status fill_in_devices(json_t *target, const char *folder, struct sp_error *err);

/* The cluster of a file, with devices in files beside it. The caller's, after an error too. */
enum sp_status load_cluster(const char *path, json_t **ret_cluster, struct sp_error *err);

/* The member "cluster", or "sweep", of the request; the caller's. Devices are there, or a file. */
enum sp_status load_target(const struct plan_devices *given, json_t **ret_target, bool *ret_is_sweep,
                           struct sp_error *err);

/* ---- remote.c ---- */

int remote_inspect(const struct common *common, struct input *input, bool values, const json_t *sizes);
int remote_plan(const struct common *common, struct plan_request *request);
/* Whether the text can be the name of a plan on a server. */
bool is_plan_id(const char *text);
/* A file of a plan of the server, or the folder of its devices' models; `device` is of the format "ort", or none. */
/* What is exported: `forms` are words of export/forms.h, which are known to be such. */
struct remote_file {
    const char *format, *forms, *path;
    int64_t device; /* of the format "ort", or none */
};
int remote_export(const struct common *common, const char *id, const struct remote_file *file);
/* A table of the server at this path, or what `name` says of it; NULL: all. */
int remote_table(const struct common *common, const char *table, const char *name);
/* The model goes to the server, the request with it; `path` is where the completed model is written, or NULL. */
int remote_check(const struct common *common, struct input *input, const json_t *request);
int remote_infer(const struct common *common, struct input *input, const json_t *request, const char *path);
/* What printing the list of completed shardings came to. For people the model at `path` (NULL: none) is the answer
   where the list is too long: that is told, and is SP_OK then. */
enum sp_status infer_printed(const struct common *common, const char *path, enum sp_status status,
                             struct sp_error *err);
/* Posts a JSON request; *answer is text, or JSON when that is wanted. It is released by the caller, always. */
enum sp_status remote_ask(const struct common *common, const char *path, const struct sp_buf *body,
                          struct sp_buf *answer, struct sp_error *err);
