/*
 * What nccl-tests print: notes that begin with '#', among them one line for each rank, and a row for each size.
 *
 *   # Collective test starting: all_reduce_perf
 *   #  Rank  0 Group  0 Pid  41 on host device  0 [0x07] NVIDIA H100
 *   #       size         count      type   redop    root     time   algbw   busbw  #wrong     time ..
 *       33554432       8388608     float     sum      -1    151.2  221.9  388.3      0    150.9 ..
 *
 * Of each row the first time counts, that out of place, in microseconds; it is an average of many. Sizes are those of
 * the whole: of an all-gather the result's. A table of several numbers of ranks is several files.
 *
 * Source: NVIDIA/nccl-tests, src/common.cu and doc/PERFORMANCE.md.
 */
#include "calibrate/internal.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_FIELDS 16
#define MAX_WORD   64

#define MICROSECONDS 1e6 /* of a second */
#define COLUMN       5   /* of the time, where no line says it */

static bool has(const char *text, size_t size, const char *word)
{
    const size_t length = strlen(word);
    for (size_t at = 0; at + length <= size; at++) {
        if (memcmp(text + at, word, length) == 0)
            return true;
    }
    return false;
}

/* Its first lines are notes, of which one is that of nccl-tests. */
bool sp_calibrate_is_nccl(const char *text, size_t size)
{
    struct sp_text_line line = {0};
    for (size_t at = 0; sp_text_next_line(text, size, &at, &line) && (line.size == 0 || line.text[0] == '#');) {
        if (has(line.text, line.size, "nThread") || has(line.text, line.size, "Collective test starting"))
            return true;
    }
    return false;
}

/* The kind whose name and "_perf" stand in the text, or whose name the text begins with. */
static const struct sp_kernel_kind *collective_in(const char *text, size_t size, bool is_file)
{
    uint32_t count;
    const struct sp_kernel_kind *kinds = sp_kernel_kinds(&count);
    for (uint32_t k = 0; k < count; k++) {
        char word[MAX_WORD];
        (void)snprintf(word, sizeof word, "%s_perf", kinds[k].name);
        if (kinds[k].group != SP_GROUP_COLLECTIVES)
            continue;
        const size_t length = strlen(kinds[k].name);
        if (is_file ? size >= length && memcmp(text, kinds[k].name, length) == 0 : has(text, size, word))
            return &kinds[k];
        if (!is_file && kinds[k].operation == SP_DEVICE_ALL_TO_ALL && has(text, size, "alltoall_perf"))
            return &kinds[k];
    }
    return NULL;
}

/* The words of a line; the count of them. */
static uint32_t words_of(const struct sp_text_line *line, char words[][MAX_WORD])
{
    uint32_t count = 0;
    for (size_t at = 0; at < line->size && count < MAX_FIELDS;) {
        size_t size = 0;
        while (at < line->size && (line->text[at] == ' ' || line->text[at] == '\t'))
            at++;
        for (; at < line->size && line->text[at] != ' ' && line->text[at] != '\t'; at++) {
            if (size < MAX_WORD - 1)
                words[count][size++] = line->text[at];
        }
        words[count][size] = '\0';
        count += size > 0;
    }
    return count;
}

/* Which word of a row is the time, of the line "# size count type redop root time ..": 0 where it is no such line. */
static uint32_t time_column(const struct sp_text_line *line)
{
    char words[MAX_FIELDS][MAX_WORD];
    const uint32_t count = words_of(line, words);
    for (uint32_t i = 2; i < count && strcmp(words[1], "size") == 0; i++) {
        if (strcmp(words[i], "time") == 0)
            return i - 1;
    }
    return 0;
}

static bool read_row(const struct sp_text_line *line, uint32_t column, int64_t *ret_bytes, double *ret_seconds)
{
    char words[MAX_FIELDS][MAX_WORD], *end, *end_of_time;
    if (words_of(line, words) <= column)
        return false;
    const double bytes = strtod(words[0], &end), time = strtod(words[column], &end_of_time);
    if (*end != '\0' || !(bytes >= 0) || bytes > (double)SP_KERNEL_EXTENT || *end_of_time != '\0' || !(time >= 0) ||
        time > 1e12)
        return false;
    *ret_bytes = (int64_t)bytes;
    *ret_seconds = time / MICROSECONDS;
    return true;
}

static bool is_rank(const struct sp_text_line *line)
{
    size_t at = 1;
    while (at < line->size && line->text[at] == ' ')
        at++;
    return line->size > at + 5 && memcmp(line->text + at, "Rank ", 5) == 0;
}

enum sp_status sp_calibrate_read_nccl(struct sp_calibrate_samples *samples, const char *name, const char *text,
                                      size_t size, struct sp_error *err)
{
    struct sp_text_line line = {0};
    struct sp_kernel_key key = {.dtype = SP_DTYPE_FLOAT, .kind = collective_in(name, strlen(name), true)};
    uint32_t column = COLUMN;
    for (size_t at = 0; sp_text_next_line(text, size, &at, &line);) {
        int64_t bytes;
        double seconds;
        if (line.size == 0)
            continue;
        if (line.text[0] == '#') {
            const struct sp_kernel_kind *kind = collective_in(line.text, line.size, false);
            const uint32_t said = time_column(&line);
            key.kind = kind != NULL ? kind : key.kind;
            key.sizes[0] += is_rank(&line);
            column = said > 0 ? said : column;
            continue;
        }
        if (!read_row(&line, column, &bytes, &seconds)) {
            if (line.text[0] != ' ' && line.text[0] != '\t')
                continue; /* a message of MPI or of the library */
            (void)sp_fail(err, SP_ERR_MALFORMED, "CALIBRATION_FILE",
                          "A row of nccl-tests has a size, a count, a type and a time in microseconds.");
            return sp_error_at(err, "line %u", line.number);
        }
        if (key.kind == NULL || key.sizes[0] < 2)
            return sp_fail(
                err, SP_ERR_MALFORMED, "CALIBRATION_FILE",
                "'%s' does not say %s; name the file after the collective, like all_reduce_8.txt, and keep the "
                "lines of the ranks.",
                name, key.kind == NULL ? "which collective it is" : "on how many ranks it ran");
        key.sizes[1] = bytes;
        if (bytes < 1 || seconds <= 0)
            continue;
        enum sp_status status = sp_calibrate_add(samples, &key, seconds, true, err);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}
