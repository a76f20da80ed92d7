/* The table of codes: which arrays it is made of, and the page that explains them. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check/diagnostic.h"

/* One array a line, in the order of the page. */
static const struct {
    const struct sp_diagnostic_code *codes;
    const char *title, *about;
} arrays[] = {
    {sp_codes_model, "The model",
     "What is wrong with the file, its graphs, operators, tensors and functions, whether or not it is annotated. These "
     "rules include all that `onnx.checker` applies to a model in memory; external data is never opened, so what only "
     "the files themselves could tell (links, sizes) is not looked at."},
    {sp_codes_annotations, "The structure of annotations",
     "What contradicts itself in the multi-device data of a model: configurations, sharding specs, devices, stages."},
    {sp_codes_meaning, "The meaning of annotations",
     "Where shardings that are sound one by one do not fit the operators, each other or the devices."},
    {sp_codes_foreign, "Shardings of other programs",
     "What ONNX Runtime's Distributed* operators and XLA's shardings in metadata say, and what becomes of it."},
    {sp_codes_placed, "Files that place nodes",
     "What `--placement-file` reads: Qualcomm's partition configuration, ONNX Runtime's layer assignment, PopRT's "
     "points, GenAI's pipeline, Polygraphy's hints. Their stages and devices are then checked as annotations are."},
};

#define ARRAY_COUNT (sizeof arrays / sizeof arrays[0])
#define MAX_CODES   512

/* Built once, by whoever asks first, and read-only from then on. */
static pthread_once_t built = PTHREAD_ONCE_INIT;
static const struct sp_diagnostic_code *in_order[MAX_CODES];
static const struct sp_diagnostic_code *by_code[MAX_CODES];
static uint32_t code_count;

static int compare_codes(const void *a, const void *b)
{
    const struct sp_diagnostic_code *left = *(const struct sp_diagnostic_code *const *)a,
                                    *right = *(const struct sp_diagnostic_code *const *)b;
    return strcmp(left->code, right->code);
}

static void build(void)
{
    for (size_t a = 0; a < ARRAY_COUNT; a++) {
        for (const struct sp_diagnostic_code *entry = arrays[a].codes; entry->code != NULL; entry++) {
            if (code_count < MAX_CODES)
                in_order[code_count++] = entry;
        }
    }
    memcpy(by_code, in_order, code_count * sizeof by_code[0]);
    qsort(by_code, code_count, sizeof by_code[0], compare_codes);
}

const struct sp_diagnostic_code *sp_diagnostic_find(const char *code)
{
    (void)pthread_once(&built, build);
    const struct sp_diagnostic_code wanted = {.code = code}, *key = &wanted;
    const struct sp_diagnostic_code *const *found =
        bsearch(&key, by_code, code_count, sizeof by_code[0], compare_codes);
    return found == NULL ? NULL : *found;
}

const struct sp_diagnostic_code *const *sp_diagnostic_all(uint32_t *ret_count)
{
    (void)pthread_once(&built, build);
    *ret_count = code_count;
    return in_order;
}

static void write_entry(struct sp_buf *buf, const struct sp_diagnostic_code *entry)
{
    sp_buf_printf(buf, "\n### %s\n\n", entry->code);
    sp_buf_printf(buf, "*%s.* %s\n", sp_severity_name(entry->severity), entry->meaning);
    sp_buf_printf(buf, "\n**What to do.** %s\n", entry->remedy);
    if (entry->source != NULL)
        sp_buf_printf(buf, "\nSource: %s\n", entry->source);
}

void sp_diagnostics_write_page(struct sp_buf *buf)
{
    sp_buf_text(buf,
                "# Diagnostics\n"
                "\n"
                "What `shardplan check` and the daemon's checks can find. Every finding has one of these codes; codes "
                "are stable, the words of a message are not.\n"
                "\n"
                "An *error* means that the model or its annotations are wrong. A *warning* means that they are valid, "
                "but cost something or probably do not say what was meant. A *note* only informs.\n"
                "\n"
                "This page is generated from the table in `core/check`; do not edit it.\n");
    for (size_t a = 0; a < ARRAY_COUNT; a++) {
        sp_buf_printf(buf, "\n## %s\n\n%s\n", arrays[a].title, arrays[a].about);
        for (const struct sp_diagnostic_code *entry = arrays[a].codes; entry->code != NULL; entry++)
            write_entry(buf, entry);
    }
}

const char *sp_severity_name(enum sp_severity severity)
{
    static const char *const names[] = {"note", "warning", "error"};
    return names[severity];
}
