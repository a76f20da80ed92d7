/* Files of measured times: which form one has, ONNX Runtime's profiles, and CSV. */
#include "calibrate/internal.h"

#include <jansson.h>
#include <stdlib.h>

#define KERNEL       "_kernel_time"
#define REORDERED    "_nchwc" /* behind the name of a convolution's result, where ONNX Runtime changes its layout */
#define MICROSECONDS 1e6      /* of a second */
#define MAX_FIELD    256
#define MAX_NOTE     256

static enum sp_status refuse_line(const struct sp_text_line *line, const char *code, const char *message,
                                  struct sp_error *err)
{
    (void)sp_fail(err, strcmp(code, "CALIBRATION_KERNEL") == 0 ? SP_ERR_REQUEST : SP_ERR_MALFORMED, code, "%s",
                  message);
    return sp_error_at(err, "line %u", line->number);
}

/* ---- CSV -----------------------------------------------------------------------------------------------------------
 */

enum { KIND, DTYPE, SHAPE, SECONDS, COLUMNS };
static const char *const column_names[COLUMNS] = {"kernel", "dtype", "shape", "seconds"};

#define MAX_COLUMNS 64

/* The fields of a line; blanks around them and quotes are left out. */
static uint32_t split(const struct sp_text_line *line, char fields[][MAX_FIELD], uint32_t most)
{
    uint32_t count = 0;
    for (size_t at = 0; at <= line->size && count < most; count++) {
        const char *comma = memchr(line->text + at, ',', line->size - at);
        size_t begin = at, end = comma != NULL ? (size_t)(comma - line->text) : line->size;
        at = end + 1;
        while (begin < end && strchr(" \t\"", line->text[begin]) != NULL)
            begin++;
        while (begin < end && strchr(" \t\"", line->text[end - 1]) != NULL)
            end--;
        const size_t size = end - begin < MAX_FIELD - 1 ? end - begin : MAX_FIELD - 1;
        memcpy(fields[count], line->text + begin, size);
        fields[count][size] = '\0';
    }
    return count;
}

/* Where the columns are; false: some are missing, or stand too far on the right. */
static bool read_head(const struct sp_text_line *line, uint32_t columns[COLUMNS])
{
    char fields[MAX_COLUMNS][MAX_FIELD];
    const uint32_t count = split(line, fields, MAX_COLUMNS);
    for (uint32_t c = 0; c < COLUMNS; c++) {
        columns[c] = UINT32_MAX;
        for (uint32_t i = 0; i < count && columns[c] == UINT32_MAX; i++) {
            if (strcmp(fields[i], column_names[c]) == 0)
                columns[c] = i;
        }
        if (columns[c] == UINT32_MAX)
            return false;
    }
    return true;
}

/* "# NAME: TEXT" */
static enum sp_status keep_note(const struct sp_calibrate_samples *samples, const struct sp_text_line *line,
                                const char *name, const char **ret_text, struct sp_error *err)
{
    size_t begin = 1, size = strlen(name);
    while (begin < line->size && line->text[begin] == ' ')
        begin++;
    if (begin + size >= line->size || memcmp(line->text + begin, name, size) != 0 || line->text[begin + size] != ':')
        return SP_OK;
    begin += size + 1;
    while (begin < line->size && line->text[begin] == ' ')
        begin++;
    size = line->size - begin < MAX_NOTE ? line->size - begin : MAX_NOTE;
    char *copy = sp_arena_string(samples->arena, line->text + begin, size);
    if (copy == NULL)
        return sp_fail_memory(err);
    sp_make_printable(copy, size + 1);
    *ret_text = copy;
    return SP_OK;
}

static bool read_seconds(const char *text, double *ret_seconds)
{
    char *end;
    *ret_seconds = strtod(text, &end);
    return end != text && *end == '\0' && *ret_seconds >= 0 && *ret_seconds <= SP_MAX_SECONDS;
}

static enum sp_status read_row(struct sp_calibrate_samples *samples, const struct sp_text_line *line,
                               const uint32_t columns[COLUMNS], struct sp_error *err)
{
    char fields[MAX_COLUMNS][MAX_FIELD];
    const uint32_t count = split(line, fields, MAX_COLUMNS);
    struct sp_kernel_key key;
    double seconds;
    for (uint32_t c = 0; c < COLUMNS; c++) {
        if (columns[c] >= count)
            return refuse_line(line, "CALIBRATION_FILE", "This row has fewer fields than the head of the file.", err);
    }
    if (!sp_kernel_key_read(fields[columns[KIND]], fields[columns[DTYPE]], fields[columns[SHAPE]], &key))
        return refuse_line(
            line, "CALIBRATION_KERNEL",
            "No kernel is called so: a row is like product,float32,128x768x3072,0.004, with the kinds and "
            "sizes that 'calibrate --help' lists.",
            err);
    if (!read_seconds(fields[columns[SECONDS]], &seconds))
        return refuse_line(line, "CALIBRATION_FILE", "The seconds of a row are a number from 0 to 1000000.", err);
    return sp_calibrate_add(samples, &key, seconds, false, err);
}

static enum sp_status read_csv(struct sp_calibrate_samples *samples, const char *text, size_t size,
                               struct sp_error *err)
{
    struct sp_text_line line = {0};
    uint32_t columns[COLUMNS];
    bool has_head = false;
    enum sp_status status = SP_OK;
    for (size_t at = 0; status == SP_OK && sp_text_next_line(text, size, &at, &line);) {
        if (line.size == 0)
            continue;
        if (line.text[0] == '#') {
            status = keep_note(samples, &line, "runtime", &samples->runtime, err);
            if (status == SP_OK)
                status = keep_note(samples, &line, "date", &samples->date, err);
        } else if (has_head) {
            status = read_row(samples, &line, columns, err);
        } else if (!read_head(&line, columns)) {
            status =
                refuse_line(&line, "CALIBRATION_FILE",
                            "This is no file of times: a profile of ONNX Runtime, the text that nccl-tests print, or "
                            "CSV whose head is kernel,dtype,shape,seconds.",
                            err);
        } else {
            has_head = true;
        }
    }
    return status;
}

/* ---- profiles -----------------------------------------------------------------------------------------------------
 */

/* The kernel of an event "NAME_kernel_time"; false: it is none of ours. */
static bool kernel_of_event(const json_t *event, struct sp_kernel_key *ret_key)
{
    const char *category = json_string_value(json_object_get(event, "cat"));
    const char *name = json_string_value(json_object_get(event, "name"));
    const size_t suffix = sizeof KERNEL - 1;
    size_t size = name != NULL ? strlen(name) : 0;
    if (category == NULL || strcmp(category, "Node") != 0 || size <= suffix ||
        strcmp(name + size - suffix, KERNEL) != 0)
        return false;
    size -= suffix;
    if (size > sizeof REORDERED - 1 &&
        memcmp(name + size - (sizeof REORDERED - 1), REORDERED, sizeof REORDERED - 1) == 0)
        size -= sizeof REORDERED - 1;
    return sp_kernel_key_of_name(name, size, ret_key);
}

static enum sp_status read_profile(struct sp_calibrate_samples *samples, const char *text, size_t size,
                                   struct sp_error *err)
{
    json_error_t detail;
    json_t *events = json_loadb(text, size, JSON_REJECT_DUPLICATES, &detail), *event;
    size_t i;
    enum sp_status status = SP_OK;
    if (events == NULL) {
        (void)sp_fail(err, SP_ERR_MALFORMED, "CALIBRATION_FILE", "This profile is no JSON: %s.", detail.text);
        return sp_error_at(err, "line %d", detail.line);
    }
    json_array_foreach(events, i, event)
    {
        struct sp_kernel_key key;
        const json_t *duration = json_object_get(event, "dur");
        const double seconds = json_number_value(duration) / MICROSECONDS;
        if (!kernel_of_event(event, &key))
            continue;
        if (!json_is_number(duration) || !(seconds >= 0) || seconds > SP_MAX_SECONDS) {
            (void)sp_fail(err, SP_ERR_MALFORMED, "CALIBRATION_FILE",
                          "The event of a kernel needs 'dur', its microseconds.");
            status = sp_error_at(err, "event %zu", i);
            break;
        }
        status = sp_calibrate_add(samples, &key, seconds, false, err);
        if (status != SP_OK)
            break;
    }
    json_decref(events);
    return status;
}

enum sp_status sp_calibrate_read(struct sp_calibrate_samples *samples, const char *name, const char *text, size_t size,
                                 struct sp_error *err)
{
    size_t at = 0;
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        at = 3;
    while (at < size && strchr(" \t\r\n", text[at]) != NULL && text[at] != '\0')
        at++;
    if (at < size && text[at] == '[')
        return read_profile(samples, text + at, size - at, err);
    if (sp_calibrate_is_nccl(text + at, size - at))
        return sp_calibrate_read_nccl(samples, name, text + at, size - at, err);
    return read_csv(samples, text + at, size - at, err);
}
