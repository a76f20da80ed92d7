/* Log lines, trace context and the tables behind the metrics. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "http/trace.h"
#include "observe/log.h"
#include "observe/metrics.h"
#include "observe/series.h"
#include "server_limits.h"

/* ---- log ---- */

/* Standard error goes into a file from here on; the file. */
static FILE *catch_lines(void)
{
    FILE *file = tmpfile();
    cr_assert_not_null(file);
    cr_assert_geq(dup2(fileno(file), STDERR_FILENO), 0);
    return file;
}

/* The next line as JSON; NULL at the end. */
static json_t *next_line(FILE *file)
{
    char line[8192];
    json_error_t error;
    if (fgets(line, sizeof line, file) == NULL)
        return NULL;
    json_t *json = json_loads(line, 0, &error);
    cr_assert_not_null(json, "%s: %s", error.text, line);
    return json;
}

static const char *text_of(const json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));
    return text != NULL ? text : "(none)";
}

Test(log, fields)
{
    FILE *file = catch_lines();
    log_init(true, LOG_INFO);
    LOG(LOG_DEBUG, "not this");
    LOG(LOG_WARNING, "this", log_s("text", "a\"b\\c\nd\x01\xff"), log_i("number", -5), log_maybe("empty", ""),
        log_maybe("full", "x"));
    rewind(file);
    json_t *line = next_line(file);
    cr_expect_str_eq(text_of(line, "event"), "this");
    cr_expect_str_eq(text_of(line, "level"), "warning");
    cr_expect_str_eq(text_of(line, "text"), "a\"b\\c\nd\x01\u00ff");
    cr_expect_eq(json_integer_value(json_object_get(line, "number")), -5);
    cr_expect_null(json_object_get(line, "empty"));
    cr_expect_str_eq(text_of(line, "full"), "x");
    json_decref(line);
    cr_expect_null(next_line(file));
    (void)fclose(file);
}

Test(log, a_long_field_leaves_a_whole_line)
{
    char text[10000];
    FILE *file = catch_lines();
    memset(text, '"', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    log_init(true, LOG_INFO);
    LOG(LOG_INFO, "long", log_s("first", "kept"), log_s("text", text), log_s("last", "lost"));
    rewind(file);
    json_t *line = next_line(file);
    cr_expect_str_eq(text_of(line, "first"), "kept");
    cr_expect_gt(strlen(text_of(line, "text")), 1000);
    json_decref(line);
    (void)fclose(file);
}

Test(log, repeats_become_a_count)
{
    const unsigned more = 25;
    unsigned written = 0, others = 0;
    json_int_t counted = 0;
    FILE *file = catch_lines();
    log_init(true, LOG_INFO);
    for (unsigned i = 0; i < SPD_LOG_REPEATS + more; i++)
        LOG(LOG_ERROR, "again", log_i("i", i));
    LOG(LOG_INFO, "another");
    log_end();
    rewind(file);
    for (json_t *line; (line = next_line(file)) != NULL; json_decref(line)) {
        written += strcmp(text_of(line, "event"), "again") == 0;
        others += strcmp(text_of(line, "event"), "another") == 0;
        if (strcmp(text_of(line, "event"), "not logged") == 0) {
            cr_expect_str_eq(text_of(line, "of"), "again");
            cr_expect_str_eq(text_of(line, "level"), "error");
            counted += json_integer_value(json_object_get(line, "count"));
        }
    }
    /* A second that ended in between lets more through; nothing is lost either way. */
    cr_expect_geq(written, SPD_LOG_REPEATS);
    cr_expect_eq(written + counted, SPD_LOG_REPEATS + more);
    cr_expect_eq(others, 1);
    (void)fclose(file);
}

Test(log, the_count_comes_by_itself)
{
    const unsigned lines = 2 * SPD_LOG_REPEATS + 1; /* more than may be written in two seconds */
    FILE *file = catch_lines();
    json_int_t counted = 0, written = 0;
    log_init(true, LOG_INFO);
    for (unsigned i = 0; i < lines; i++)
        LOG(LOG_INFO, "again");
    log_tick();
    (void)usleep(1100 * 1000);
    log_tick();
    rewind(file);
    for (json_t *line; (line = next_line(file)) != NULL; json_decref(line)) {
        written += strcmp(text_of(line, "event"), "again") == 0;
        counted += json_integer_value(json_object_get(line, "count"));
    }
    cr_expect_gt(counted, 0);
    cr_expect_eq(written + counted, lines);
    (void)fclose(file);
}

/* ---- trace context ---- */

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736" /* the example of W3C trace context, 3.2 */
#define SPAN  "00f067aa0ba902b7"

Test(trace, sound)
{
    static const char *const sound[] = {"00-" TRACE "-" SPAN "-01", "00-" TRACE "-" SPAN "-ff",
                                        "01-" TRACE "-" SPAN "-01", "fe-" TRACE "-" SPAN "-00-more-and-more"};
    for (size_t i = 0; i < sizeof sound / sizeof sound[0]; i++) {
        char trace[33] = "";
        cr_expect(trace_parse(sound[i], trace), "%s", sound[i]);
        cr_expect_str_eq(trace, TRACE);
    }
}

Test(trace, unsound)
{
    static const char *const unsound[] = {
        "",
        "00",
        "00-" TRACE "-" SPAN,
        "00-" TRACE "-" SPAN "-1",
        "00-" TRACE "-" SPAN "-0g",
        "00-" TRACE "-" SPAN "-01-",
        "00-" TRACE "-" SPAN "-011",
        "01-" TRACE "-" SPAN "-011",
        "ff-" TRACE "-" SPAN "-01",
        "0-" TRACE "-" SPAN "-01",
        "000-" TRACE "-" SPAN "-01",
        "00-00000000000000000000000000000000-" SPAN "-01",
        "00-" TRACE "-0000000000000000-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN "-01",
        "00-" TRACE "-00F067AA0BA902B7-01",
        "00-" TRACE "_" SPAN "-01",
        "00-" TRACE "a-" SPAN "-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473-" SPAN "-01a",
        " 00-" TRACE "-" SPAN "-01",
    };
    for (size_t i = 0; i < sizeof unsound / sizeof unsound[0]; i++) {
        char trace[33] = "untouched";
        cr_expect_not(trace_parse(unsound[i], trace), "%s", unsound[i]);
        cr_expect_str_eq(trace, "untouched");
    }
}

/* ---- metrics ---- */

Test(metrics, buckets)
{
    struct metrics *metrics = metrics_create();
    static const double times[] = {-1, 0, 0.001, 0.0011, 0.5, 1800, 1801};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        metrics_request(metrics, "GET", "/", 200, times[i]);
    const struct series *series = &metrics->requests.series[0];
    cr_assert_eq(metrics->requests.count, 1);
    cr_expect_eq(series->count, 7);
    cr_expect_eq(series->seconds.counts[0], 3); /* up to a millisecond, the border and times of clocks that jump */
    cr_expect_eq(series->seconds.counts[1], 1);
    cr_expect_eq(series->seconds.counts[4], 1);
    cr_expect_eq(series->seconds.counts[METRICS_BOUNDS - 1], 1);
    cr_expect_eq(series->seconds.counts[METRICS_BOUNDS], 1);
    cr_expect_eq(series->seconds.total, 7);
    cr_expect_float_eq(series->seconds.sum, 0.001 + 0.0011 + 0.5 + 1800 + 1801, 1e-9);
    metrics_destroy(metrics);
}

Test(metrics, codes_that_are_made_up_do_not_grow)
{
    struct metrics *metrics = metrics_create();
    char code[200];
    uint64_t total = 0;
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(code, sizeof code, "CODE_%d", i);
        metrics_upload_refused(metrics, code);
    }
    memset(code, 'X', sizeof code - 1);
    code[sizeof code - 1] = '\0';
    metrics_upload_refused(metrics, code);
    cr_expect_eq(metrics->refused_uploads.count, METRICS_MAX_SERIES);
    for (unsigned i = 0; i < metrics->refused_uploads.count; i++)
        total += metrics->refused_uploads.series[i].count;
    cr_expect_eq(total, 1001);
    cr_expect_str_eq(metrics->refused_uploads.series[METRICS_MAX_SERIES - 1].first, "other");
    metrics_destroy(metrics);
}

Test(metrics, requests_in_flight)
{
    struct metrics *metrics = metrics_create();
    metrics_request_began(metrics, "GET", "/a");
    metrics_request_began(metrics, "GET", "/a");
    metrics_request_began(metrics, "GET", "/b");
    metrics_request_ended(metrics, "GET", "/a");
    cr_expect_eq(metrics->in_flight.series[0].now, 1);
    cr_expect_eq(metrics->in_flight.series[1].now, 1);
    metrics_destroy(metrics);
}

Test(metrics, calls_of_the_store)
{
    struct metrics *metrics = metrics_create();
    metrics_store_call(metrics, "claim", true, 0.01);
    metrics_store_call(metrics, "claim", false, 2.5);
    metrics_store_call(metrics, "beat", true, 0.0001);
    cr_expect_eq(metrics->store.count, 2);
    cr_expect_eq(metrics->store.series[0].count, 2);
    cr_expect_eq(metrics->store.series[0].failed, 1);
    cr_expect_eq(metrics->store.series[1].failed, 0);
    metrics_destroy(metrics);
}
