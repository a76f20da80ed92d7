/* Traces as people publish them, and texts that are none. */
#include <criterion/criterion.h>
#include <string.h>

#include "service/trace.h"

static enum sp_status parse(struct sp_arena *arena, const char *text, struct sp_trace *ret, struct sp_error *err)
{
    return sp_trace_parse(arena, text, strlen(text), ret, err);
}

static void expect_trace(const char *text, uint32_t count, const struct sp_trace_request *expected)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_error err = {0};
    struct sp_trace trace;
    cr_assert_eq(parse(arena, text, &trace, &err), SP_OK, "%s", err.message);
    cr_assert_eq(trace.count, count, "%u of '%s'", trace.count, text);
    for (uint32_t i = 0; i < count; i++) {
        cr_expect_float_eq(trace.requests[i].seconds, expected[i].seconds, 1e-5, "%.9g", trace.requests[i].seconds);
        cr_expect_eq(trace.requests[i].input, expected[i].input);
        cr_expect_eq(trace.requests[i].output, expected[i].output);
    }
    sp_arena_destroy(arena);
}

Test(trace, has_columns_in_any_order_and_requests_too)
{
    const struct sp_trace_request two[] = {{0, 10, 5}, {1.5, 7, 1}};
    expect_trace("seconds,input,output\n3,10,5\n4.5,7,1\n", 2, two);
    expect_trace("# mine\n\noutput, id ,Seconds,\"input\"\r\n1,x,4.5,7\r\n5,,3,10", 2, two);
    expect_trace("time,input_tokens,output_tokens\n1e0,10,5\n2.5,7,1\n2.6,9,0\n", 2, two);
}

/* The first lines of the traces that Azure, BurstGPT and Vidur published. */
Test(trace, is_read_as_it_was_published)
{
    const struct sp_trace_request azure[] = {{0, 4808, 10}, {0.052, 3180, 8}, {86400, 110, 27}};
    expect_trace("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-12-31 18:17:03.9799600,4808,10\n"
                 "2023-12-31 18:17:04.0319600,3180,8\n2024-01-01 18:17:03.9799600,110,27\n",
                 3, azure);
    const struct sp_trace_request burst[] = {{0, 472, 18}, {40, 1087, 230}};
    expect_trace(
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n"
        "45,ChatGPT,1087,230,1317,Conversation log\n",
        2, burst);
    const struct sp_trace_request vidur[] = {{0, 374, 44}};
    expect_trace("arrived_at,num_prefill_tokens,num_decode_tokens,pd_ratio\n0.1,374,44,8.5\n", 1, vidur);
}

Test(trace, counts_days_as_the_calendar_does)
{
    const struct sp_trace_request leap[] = {{0, 1, 1}, {2 * 86400, 1, 1}, {367 * 86400.0, 1, 1}};
    expect_trace("seconds,input,output\n2024-02-28T00:00:00Z,1,1\n2024-03-01 00:00:00,1,1\n2025-03-01 00:00:00,1,1\n",
                 3, leap);
}

static void expect_refusal(const char *text, const char *code, const char *part)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_error err = {0};
    struct sp_trace trace;
    cr_assert_neq(parse(arena, text, &trace, &err), SP_OK, "%s", text);
    cr_expect_str_eq(err.code, code, "%s", err.code);
    cr_expect(strstr(err.message, part) != NULL, "'%s' is not in '%s'", part, err.message);
    sp_arena_destroy(arena);
}

Test(trace, that_is_none_is_refused_with_the_line)
{
    expect_refusal("", "TRACE_INVALID", "empty");
    expect_refusal("# nothing\n", "TRACE_INVALID", "empty");
    expect_refusal("seconds,input\n1,2\n", "TRACE_INVALID", "output");
    expect_refusal("seconds,time,input,output\n", "TRACE_INVALID", "two columns");
    expect_refusal("seconds,input,output\n", "TRACE_INVALID", "no request");
    expect_refusal("seconds,input,output\n1,2,0\n", "TRACE_INVALID", "no request");
    expect_refusal("seconds,input,output\n1,2,3\n1,2\n", "TRACE_INVALID", "Line 3");
    expect_refusal("seconds,input,output\n1,0,3\n", "TRACE_INVALID", "whole number of tokens from 1");
    expect_refusal("seconds,input,output\n1,2.5,3\n", "TRACE_INVALID", "2.5");
    expect_refusal("seconds,input,output\n1,2,99999999\n", "TRACE_INVALID", "99999999");
    expect_refusal("seconds,input,output\nnan,2,3\n", "TRACE_INVALID", "nan");
    expect_refusal("seconds,input,output\n0x10,2,3\n", "TRACE_INVALID", "0x10");
    expect_refusal("seconds,input,output\n2024-13-01 00:00:00,2,3\n", "TRACE_INVALID", "2024-13-01");
    expect_refusal("seconds,input,output\n1e300,2,3\n", "TRACE_INVALID", "1e300");
    char many[512] = "seconds,input,output";
    memset(many + 20, ',', 80);
    expect_refusal(many, "TRACE_COLUMNS", "64");
}
