#include <dirent.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "calibrate/calibrate.h"
#include "cli.h"
#include "cost/cluster/cluster.h"

static const char help_head[] =
    "Usage: shardplan calibrate --emit DIR [--size small|large] [--dtypes LIST] [--devices N]\n"
    "       shardplan calibrate --from DIR --name NAME [-o FILE] [OPTIONS]\n"
    "\n"
    "Describes a device by what it really takes. --emit writes small models and runners, to be run where the device "
    "is;\n"
    "--from reads what was measured and writes a file for 'plan --device FILE'.\n"
    "\n"
    "  --emit DIR           write the models, set.csv, README.md and runners for Python and Node\n"
    "  --size SIZE          small (default): seconds on one core; large: also kernels that keep an accelerator busy\n"
    "  --dtypes LIST        of products and other kernels, like float16,float32,int8; float32 when not given\n"
    "  --devices N          with collectives of up to N devices\n"
    "\n"
    "  --from DIR           read the .csv, .json and .txt files there: kernel,dtype,shape,seconds; profiles of ONNX\n"
    "                       Runtime; what nccl-tests print\n"
    "  --name NAME          what the device is to be called\n"
    "  -o, --output FILE    the device's file; standard output when it is not given\n"
    "  --device DATA        its data sheet, of the catalog or a file: peaks stay, shares of them are fitted. Without "
    "it\n"
    "                       the peaks are what was reached\n"
    "  --memory BYTES       its memory, where no data sheet says it\n"
    "  --kind KIND          gpu, tpu, npu or cpu: whose defaults count for what was not measured\n"
    "  --threads N          with which it was measured, for the file's sources\n"
    "  --library NAME       of the collectives; nccl when not given\n"
    "\n"
    "The shortest of a kernel's times counts, where the three shortest agree within 15 %. A measurement in which "
    "these\n"
    "differ for more than a quarter of a class is refused. What was not measured keeps the defaults of the kind, and\n"
    "the report says so. Everything is done here, no daemon is asked.\n"
    "\n"
    "Kernels, and the sizes that name them:\n";

#define MAX_FILES  4096 /* of one folder */
#define MAX_DTYPES 8
#define BLOCK      ((size_t)1 << 20)

struct calibration {
    const char *emit, *size, *dtypes, *devices;
    const char *from, *name, *output, *device, *memory, *kind, *threads, *library;
};

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static enum sp_status write_file(const char *folder, const char *name, const void *bytes, size_t size,
                                 struct sp_error *err)
{
    struct output output;
    char *path = path_in(folder, name);
    enum sp_status status = path != NULL ? output_open(path, NULL, &output, err) : sp_fail_memory(err);
    if (status == SP_OK) {
        status = output_write(&output, bytes, size)
                     ? output_commit(&output, err)
                     : sp_fail(err, SP_ERR_IO, "FILE_NOT_WRITABLE", "Cannot write '%s'.", path);
        output_close(&output);
    }
    free(path);
    return status;
}

/* Numbers of about 1 in each floating type, of 0x3b.. and 0x3c.. with signs: none is no number, or slow. */
static void fill_block(unsigned char *block)
{
    uint32_t state = 1;
    for (size_t i = 0; i < BLOCK; i += 2) {
        state = state * 1664525 + 1013904223;
        block[i] = (unsigned char)(state >> 24);
        block[i + 1] = (unsigned char)((state >> 16 & 1 ? 0x3b : 0x3c) | (state >> 17 & 1 ? 0x80 : 0));
    }
}

static enum sp_status write_weights(const char *folder, double bytes, struct sp_error *err)
{
    struct output output;
    unsigned char *block = malloc(BLOCK);
    char *path = path_in(folder, "weights.bin");
    enum sp_status status = block != NULL && path != NULL ? output_open(path, NULL, &output, err) : sp_fail_memory(err);
    if (status == SP_OK && block != NULL) {
        bool is_written = true;
        fill_block(block);
        for (double at = 0; at < bytes && is_written; at += (double)BLOCK)
            is_written = output_write(&output, block, BLOCK);
        status = is_written ? output_commit(&output, err)
                            : sp_fail(err, SP_ERR_IO, "FILE_NOT_WRITABLE", "Cannot write '%s'.", path);
        output_close(&output);
    }
    free(path);
    free(block);
    return status;
}

static enum sp_status write_models(const char *folder, const struct sp_calibrate_entry *entries, uint32_t count,
                                   struct sp_error *err)
{
    double most = 0;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < count; i++) {
        char name[sizeof entries[i].name + sizeof ".onnx"];
        struct sp_buf bytes;
        double weights;
        status = sp_calibrate_model(&entries[i], &bytes, &weights, err);
        if (status != SP_OK)
            break;
        (void)snprintf(name, sizeof name, "%s.onnx", entries[i].name);
        status = write_file(folder, name, bytes.data, bytes.size, err);
        sp_buf_release(&bytes);
        most = weights > most ? weights : most;
    }
    return status == SP_OK ? write_weights(folder, most, err) : status;
}

static enum sp_status write_texts(const char *folder, const struct sp_calibrate_wish *wish,
                                  const struct sp_calibrate_entry *entries, uint32_t count, struct sp_error *err)
{
    struct sp_buf list, readme, commands;
    sp_buf_init(&list, CLI_MAX_TEXT_BYTES);
    sp_buf_init(&readme, CLI_MAX_TEXT_BYTES);
    sp_buf_init(&commands, CLI_MAX_TEXT_BYTES);
    sp_calibrate_list(entries, count, &list);
    sp_calibrate_readme(wish, &readme);
    sp_calibrate_commands(wish, &commands);
    enum sp_status status = SP_OK;
    if (sp_buf_failed(&list) || sp_buf_failed(&readme) || sp_buf_failed(&commands))
        status = sp_fail_memory(err);
    if (status == SP_OK)
        status = write_file(folder, "set.csv", list.data, list.size, err);
    if (status == SP_OK)
        status = write_file(folder, "README.md", readme.data, readme.size, err);
    if (status == SP_OK && commands.size > 0)
        status = write_file(folder, "collectives.txt", commands.data, commands.size, err);
    if (status == SP_OK)
        status = write_file(folder, "calibrate.py", text_calibrate_py, strlen(text_calibrate_py), err);
    if (status == SP_OK)
        status = write_file(folder, "calibrate.mjs", text_calibrate_mjs, strlen(text_calibrate_mjs), err);
    sp_buf_release(&commands);
    sp_buf_release(&readme);
    sp_buf_release(&list);
    return status;
}

static enum sp_status read_dtypes(const char *list, enum sp_dtype *dtypes, uint32_t *ret_count, struct sp_error *err)
{
    uint32_t count = 0;
    for (const char *at = list; *at != '\0';) {
        char name[32];
        const size_t size = strcspn(at, ",");
        (void)snprintf(name, sizeof name, "%.*s", (int)(size < sizeof name ? size : sizeof name - 1), at);
        if (count == MAX_DTYPES || sp_dtype_parse(name) == SP_DTYPE_UNDEFINED)
            return sp_fail(err, SP_ERR_REQUEST, "CALIBRATION_DTYPE",
                           "--dtypes takes up to %d names of element types, like float16,float32,int8.", MAX_DTYPES);
        dtypes[count++] = sp_dtype_parse(name);
        at += size + (at[size] == ',');
    }
    *ret_count = count;
    return SP_OK;
}

static enum sp_status emit_set(struct sp_arena *arena, const struct calibration *given, struct sp_error *err)
{
    enum sp_dtype dtypes[MAX_DTYPES] = {SP_DTYPE_FLOAT};
    struct sp_calibrate_wish wish = {.dtype_count = 1, .dtypes = dtypes, .devices = 1};
    struct sp_calibrate_entry *entries;
    uint32_t count;
    int64_t devices = 1;
    enum sp_status status = SP_OK;
    if (given->size != NULL && strcmp(given->size, "small") != 0 && strcmp(given->size, "large") != 0)
        return sp_fail(err, SP_ERR_REQUEST, "CALIBRATION_SIZE", "--size is small or large.");
    if (given->size != NULL && strcmp(given->size, "large") == 0)
        wish.size = SP_CALIBRATE_LARGE;
    if (given->devices != NULL && (!parse_integer(given->devices, 1, &devices) || devices > 1024))
        return sp_fail(err, SP_ERR_REQUEST, "CALIBRATION_DEVICES", "--devices is a number from 1 to 1024.");
    wish.devices = (uint32_t)devices;
    if (given->dtypes != NULL)
        status = read_dtypes(given->dtypes, dtypes, &wish.dtype_count, err);
    if (status == SP_OK)
        status = sp_calibrate_set(arena, &wish, &entries, &count, err);
    if (status == SP_OK)
        status = emit_folder(given->emit, err);
    if (status == SP_OK)
        status = write_models(given->emit, entries, count, err);
    if (status == SP_OK)
        status = write_texts(given->emit, &wish, entries, count, err);
    if (status == SP_OK)
        print_note("%u models in '%s'; README.md there says how to run them.", count, given->emit);
    return status;
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static bool ends_with(const char *name, const char *end)
{
    const size_t size = strlen(name), length = strlen(end);
    return size > length && strcmp(name + size - length, end) == 0;
}

/* Files that hold times; of our own, set.csv, and collectives.txt do not. */
static int is_wanted(const struct dirent *entry)
{
    const char *name = entry->d_name;
    return name[0] != '.' && strcmp(name, "set.csv") != 0 && strcmp(name, "collectives.txt") != 0 &&
           (ends_with(name, ".csv") || ends_with(name, ".json") || ends_with(name, ".txt"));
}

static enum sp_status read_one(struct sp_calibrate_samples *samples, const char *folder, const char *name,
                               struct sp_error *err)
{
    struct sp_buf text = {0};
    char *path = path_in(folder, name);
    if (path == NULL)
        return sp_fail_memory(err);
    enum sp_status status = read_small_file(path, CLI_MAX_PROFILE_BYTES, "CLI_MAX_PROFILE_BYTES", &text, err);
    if (status == SP_OK)
        status = sp_calibrate_read(samples, name, text.data != NULL ? text.data : "", text.size, err);
    if (status != SP_OK && status != SP_ERR_MEMORY) {
        char where[SP_ERROR_WHERE_SIZE];
        (void)snprintf(where, sizeof where, "%.100s%s%.100s", err->where, err->where[0] != '\0' ? " of " : "", name);
        (void)snprintf(err->where, sizeof err->where, "%s", where);
        make_utf8(err->where);
    }
    sp_buf_release(&text);
    free(path);
    return status;
}

/* In the order of their names, so that the same folder gives the same device. */
static enum sp_status read_folder(struct sp_calibrate_samples *samples, const char *folder, struct sp_error *err)
{
    struct dirent **entries;
    const int count = scandir(folder, &entries, is_wanted, alphasort);
    enum sp_status status = SP_OK;
    if (count < 0)
        return sp_fail(err, SP_ERR_REQUEST, "CALIBRATION_FOLDER", "The folder '%.200s' cannot be read.", folder);
    if (count == 0 || count > MAX_FILES)
        status =
            sp_fail(err, SP_ERR_REQUEST, "CALIBRATION_FOLDER",
                    "The folder '%.200s' has %s files of times (.csv, .json, .txt); a runner of 'calibrate --emit' "
                    "writes them.",
                    folder, count == 0 ? "no" : "too many");
    for (int i = 0; i < count; i++) {
        if (status == SP_OK)
            status = read_one(samples, folder, entries[i]->d_name, err);
        free(entries[i]);
    }
    free(entries);
    return status;
}

/* The data sheet: of the catalog, or of a file. */
static enum sp_status find_data(struct sp_arena *arena, const char *name, const struct sp_device **ret_data,
                                struct sp_error *err)
{
    json_t *target = json_pack("{s:s, s:i}", "device", name, "count", 1);
    struct sp_cluster *cluster = NULL;
    enum sp_status status = target != NULL ? fill_in_devices(target, ".", err)
                                           : sp_fail(err, SP_ERR_REQUEST, "CALIBRATION_DEVICE",
                                                     "--device takes the name of a device or a file.");
    if (status == SP_OK)
        status = sp_cluster_parse(arena, target, "", &cluster, err);
    if (status == SP_OK)
        *ret_data = sp_cluster_device(cluster, 0);
    json_decref(target);
    return status;
}

static enum sp_status write_device(const struct calibration *given, const struct sp_device *device,
                                   struct sp_error *err)
{
    struct output output;
    struct sp_json json;
    struct sp_buf text;
    sp_buf_init(&text, CLI_MAX_TEXT_BYTES);
    sp_json_init_buf(&json, true, &text);
    sp_device_write(device, true, &json);
    enum sp_status status = sp_json_finish(&json, err);
    sp_buf_text(&text, "\n");
    if (status == SP_OK && sp_buf_failed(&text))
        status = sp_fail_memory(err);
    if (status == SP_OK)
        status = output_open(given->output != NULL ? given->output : "-", NULL, &output, err);
    if (status == SP_OK) {
        status = output_write(&output, text.data, text.size)
                     ? output_commit(&output, err)
                     : sp_fail(err, SP_ERR_IO, "FILE_NOT_WRITABLE", "The device cannot be written.");
        output_close(&output);
    }
    sp_buf_release(&text);
    return status;
}

static enum sp_status read_options(struct sp_arena *arena, const struct calibration *given,
                                   struct sp_calibrate_options *options, struct sp_error *err)
{
    if (strlen(given->name) >= SP_DEVICE_NAME_SIZE || given->name[0] == '\0')
        return sp_fail(err, SP_ERR_REQUEST, "CALIBRATION_NAME", "The name of a device has 1 to %d bytes.",
                       SP_DEVICE_NAME_SIZE - 1);
    options->name = given->name;
    options->library = given->library;
    if (given->kind != NULL) {
        options->kind = sp_device_kind_parse(given->kind);
        if (options->kind == SP_DEVICE_OF_NO_KIND)
            return sp_fail(err, SP_ERR_REQUEST, "CALIBRATION_KIND", "--kind is gpu, tpu, npu or cpu.");
    }
    if (given->memory != NULL && !parse_bytes(given->memory, &options->memory_bytes))
        return sp_fail(err, SP_ERR_REQUEST, "CALIBRATION_MEMORY", "--memory is a number of bytes, like 16e9.");
    return given->device != NULL ? find_data(arena, given->device, &options->data, err) : SP_OK;
}

static enum sp_status fit_device(struct sp_arena *arena, const struct calibration *given, struct sp_error *err)
{
    struct sp_calibrate_samples *samples = sp_calibrate_samples_create(arena);
    struct sp_calibrate_options options = {0};
    struct sp_device device;
    struct sp_buf report;
    char date[16], threads[64];
    int64_t count = 0;
    const time_t now = time(NULL);
    struct tm calendar;
    if (samples == NULL)
        return sp_fail_memory(err);
    (void)strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &calendar));
    options.date = date;
    if (given->threads != NULL && !parse_integer(given->threads, 1, &count))
        return sp_fail(err, SP_ERR_REQUEST, "CALIBRATION_THREADS", "--threads is a number of 1 or more.");
    (void)snprintf(threads, sizeof threads, "%lld thread%s", (long long)count, count == 1 ? "" : "s");
    options.conditions = count > 0 ? threads : NULL;
    enum sp_status status = read_options(arena, given, &options, err);
    if (status == SP_OK)
        status = read_folder(samples, given->from, err);
    sp_buf_init(&report, CLI_MAX_TEXT_BYTES);
    if (status == SP_OK)
        status = sp_calibrate_fit(arena, samples, &options, &device, &report, err);
    if (status == SP_OK && sp_buf_failed(&report))
        status = sp_fail_memory(err);
    if (status == SP_OK)
        (void)fputs(report.data, stderr);
    sp_buf_release(&report);
    return status == SP_OK ? write_device(given, &device, err) : status;
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

int cmd_calibrate(int argc, char **argv, struct common *common)
{
    struct calibration given = {0};
    const struct member_option members[] = {
        {"emit", NULL, MEMBER_LOCAL, 0, &given.emit, NULL},
        {"size", NULL, MEMBER_LOCAL, 0, &given.size, NULL},
        {"dtypes", NULL, MEMBER_LOCAL, 0, &given.dtypes, NULL},
        {"devices", NULL, MEMBER_LOCAL, 0, &given.devices, NULL},
        {"from", NULL, MEMBER_LOCAL, 0, &given.from, NULL},
        {"name", NULL, MEMBER_LOCAL, 0, &given.name, NULL},
        {"output", NULL, MEMBER_LOCAL, 'o', &given.output, NULL},
        {"device", NULL, MEMBER_LOCAL, 0, &given.device, NULL},
        {"memory", NULL, MEMBER_LOCAL, 0, &given.memory, NULL},
        {"kind", NULL, MEMBER_LOCAL, 0, &given.kind, NULL},
        {"threads", NULL, MEMBER_LOCAL, 0, &given.threads, NULL},
        {"library", NULL, MEMBER_LOCAL, 0, &given.library, NULL},
    };
    struct sp_error err = {0};
    struct sp_buf help;
    bool wants_help = false;
    sp_buf_init(&help, CLI_MAX_TEXT_BYTES);
    sp_buf_text(&help, help_head);
    sp_calibrate_kinds(&help);
    int code = sp_buf_failed(&help)
                   ? report_error(common, (sp_fail_memory(&err), &err), NULL)
                   : parse_members(common, argc, argv, &OPTIONS_AND_HELP(members, help.data), NULL, &wants_help);
    sp_buf_release(&help);
    if (code != EXIT_DONE || wants_help)
        return code;
    if (optind < argc)
        return report_usage(common, "'calibrate' takes options only.");
    if ((given.emit == NULL) == (given.from == NULL))
        return report_usage(common, "'calibrate' takes --emit DIR, to write models, or --from DIR, to read times.");
    if (given.from != NULL && given.name == NULL)
        return report_usage(common, "--from needs the device's name: --name NAME.");
    struct sp_arena *arena = sp_arena_create(NULL);
    enum sp_status status = arena == NULL        ? sp_fail_memory(&err)
                            : given.emit != NULL ? emit_set(arena, &given, &err)
                                                 : fit_device(arena, &given, &err);
    sp_arena_destroy(arena);
    return status == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
}
