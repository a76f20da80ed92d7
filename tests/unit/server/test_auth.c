/* Tokens and certificates: what the file may say, who is let in, and as whom. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "auth/auth.h"
#include "auth/table.h"
#include "util/text.h"

/* Two tokens of the form that `shardpland token` prints. */
static const char token_a[] = "spl_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
static const char token_b[] = "spl_BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB";

#define NOW 1800000000000 /* 2027-01-15T08:00:00Z */

static const char *hash_of(const char *token)
{
    static char texts[4][65];
    static unsigned next;
    unsigned char hash[AUTH_HASH_SIZE];
    char *text = texts[next++ % 4];
    cr_assert(auth_hash(token, strlen(token), hash));
    text_to_hex(hash, sizeof hash, text);
    return text;
}

Test(auth, a_hash_is_sha256_of_the_token)
{
    /* FIPS 180-2, appendix B.1. */
    cr_assert_str_eq(hash_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

/* ---- the file ---- */

static bool parses(const char *text, struct problem *problem)
{
    struct auth_table table;
    *problem = (struct problem){0};
    bool ok = auth_table_parse(text, strlen(text), &table, problem);
    cr_assert(ok || (table.entries == NULL && table.count == 0));
    auth_table_release(&table);
    return ok;
}

/* One entry "ci" whose members after the name are given. */
static const char *entry(const char *members)
{
    static char text[2048];
    (void)snprintf(text, sizeof text, "{\"principals\": [{\"name\": \"ci\", %s}]}", members);
    return text;
}

static void refuses(const char *text, const char *what)
{
    struct problem problem;
    cr_expect_not(parses(text, &problem), "taken: %s", text);
    cr_expect_str_eq(problem.code, "BAD_TOKENS");
    cr_expect_not_null(strstr(problem.detail, what), "'%s' is not in: %s", what, problem.detail);
}

Test(auth, an_entry_with_everything)
{
    char text[1024];
    struct auth_table table;
    struct problem problem = {0};
    (void)snprintf(text, sizeof text,
                   "{\"principals\": [{\"name\": \"ci\", \"tenant\": \"vision\", \"scopes\": [\"read\", \"plan\"], "
                   "\"expires_at\": \"2027-01-31T00:00:00Z\", \"token_sha256\": \"%s\"}, "
                   "{\"name\": \"trainer-7\", \"scopes\": [\"admin\"], \"certificate\": \"trainer-7.local\"}]}",
                   hash_of(token_a));
    cr_assert(auth_table_parse(text, strlen(text), &table, &problem), "%s", problem.detail);
    cr_assert_eq(table.count, 2);
    cr_expect_str_eq(table.entries[0].principal.tenant, "vision");
    cr_expect_eq(table.entries[0].principal.scopes, SCOPE_READ | SCOPE_PLAN);
    cr_expect_eq(table.entries[0].expires_ms, 1801353600000); /* date -ud 2027-01-31 +%s */
    cr_expect_str_eq(table.entries[1].principal.tenant, "trainer-7");
    cr_expect_eq(table.entries[1].principal.scopes, SCOPE_ADMIN);
    cr_expect(table.entries[1].by_certificate);
    cr_expect_eq(table.entries[1].expires_ms, INT64_MAX);
    auth_table_release(&table);
}

Test(auth, nobody_is_a_list_too)
{
    struct problem problem;
    cr_expect(parses("{\"principals\": []}", &problem));
}

Test(auth, a_file_of_another_form_is_refused)
{
    refuses("", "not JSON");
    refuses("{\"principals\": [", "not JSON (line 1");
    refuses("[]", "one member");
    refuses("{}", "one member");
    refuses("{\"principals\": {}}", "one member");
    refuses("{\"principals\": [], \"version\": 1}", "one member");
    refuses("{\"principals\": [], \"principals\": []}", "not JSON");
    refuses("{\"principals\": [1]}", "number 1: it must be an object");
    refuses("{\"principals\": [{}]}", "number 1: \"name\"");
    refuses("{\"principals\": [{\"name\": \"a b\"}]}", "\"name\" must be");
    refuses("{\"principals\": [{\"name\": \"\"}]}", "\"name\" must be");
}

Test(auth, an_entry_of_another_form_is_refused_by_its_name)
{
    char members[512];
    const char *hash = hash_of(token_a);
    refuses(entry("\"token_sha256\": \"00\""), "'ci': \"scopes\"");
    refuses(entry("\"scopes\": []"), "'ci': \"scopes\"");
    refuses(entry("\"scopes\": [\"write\"]"), "'ci': a scope must be");
    refuses(entry("\"scopes\": [\"read\", \"read\"]"), "'ci': the scope \"read\" is given twice");
    refuses(entry("\"scopes\": [\"read\"]"), "'ci': either");
    refuses(entry("\"scopes\": [\"read\"], \"token\": \"x\""), "'ci': the member 'token' is not known");
    refuses(entry("\"scopes\": [\"read\"], \"tenant\": 7"), "'ci': \"tenant\"");
    refuses(entry("\"scopes\": [\"read\"], \"tenant\": \"../x\""), "'ci': \"tenant\"");
    refuses(entry("\"scopes\": [\"read\"], \"certificate\": \"CN=a\""), "'ci': \"certificate\"");
    refuses(entry("\"scopes\": [\"read\"], \"token_sha256\": \"abc\""), "'ci': \"token_sha256\" must be 64");
    refuses(entry("\"scopes\": [\"read\"], \"token_sha256\": 5"), "'ci': \"token_sha256\" must be 64");
    (void)snprintf(members, sizeof members, "\"scopes\": [\"read\"], \"token_sha256\": \"%.63sG\"", hash);
    refuses(entry(members), "'ci': \"token_sha256\" must be 64");
    (void)snprintf(members, sizeof members, "\"scopes\": [\"read\"], \"token_sha256\": \"%s\", \"certificate\": \"a\"",
                   hash);
    refuses(entry(members), "'ci': either");
}

Test(auth, tokens_that_can_be_guessed_are_refused)
{
    static const char *const weak[] = {"", "password", "changeme"};
    char members[512];
    for (size_t i = 0; i < sizeof weak / sizeof weak[0]; i++) {
        (void)snprintf(members, sizeof members, "\"scopes\": [\"read\"], \"token_sha256\": \"%s\"", hash_of(weak[i]));
        refuses(entry(members), "'ci': the token is one that can be guessed");
    }
    refuses(entry("\"scopes\": [\"read\"], \"token_sha256\": "
                  "\"0000000000000000000000000000000000000000000000000000000000000000\""),
            "can be guessed");
}

Test(auth, dates_are_strict)
{
    static const char *const bad[] = {
        "2027-01-31",           "2027-01-31 00:00:00Z", "2027-02-30T00:00:00Z", "2027-01-31T00:00:00",
        "2027-13-01T00:00:00Z", "2027-01-31T24:00:00Z", "2027-01-31T00:00:61Z", "",
        "2027-01-31T00:00:00z"};
    int64_t ms;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_expect_not(auth_parse_time(bad[i], &ms), "%s", bad[i]);
    cr_expect(auth_parse_time("2028-02-29T12:34:56Z", &ms));
    cr_expect_eq(ms, 1835440496000); /* date -ud 2028-02-29T12:34:56 +%s */
    refuses(entry("\"scopes\": [\"read\"], \"expires_at\": \"tomorrow\""), "'ci': \"expires_at\"");
    refuses(entry("\"scopes\": [\"read\"], \"expires_at\": null"), "'ci': \"expires_at\"");
}

Test(auth, repeated_entries_are_refused)
{
    char text[1024];
    static const char form[] = "{\"principals\": [{\"name\": \"%s\", \"scopes\": [\"read\"], \"%s\": \"%s\"}, "
                               "{\"name\": \"%s\", \"scopes\": [\"plan\"], \"%s\": \"%s\"}]}";
    const char *a = hash_of(token_a), *b = hash_of(token_b);
    (void)snprintf(text, sizeof text, form, "x", "token_sha256", a, "x", "token_sha256", b);
    refuses(text, "'x': the name is given twice");
    (void)snprintf(text, sizeof text, form, "x", "token_sha256", a, "y", "token_sha256", a);
    refuses(text, "'y': it has the same token as 'x'");
    (void)snprintf(text, sizeof text, form, "x", "certificate", "cn", "y", "certificate", "cn");
    refuses(text, "'y': it has the same certificate as 'x'");
}

Test(auth, scopes_as_text)
{
    cr_expect_eq(auth_parse_scopes("read"), SCOPE_READ);
    cr_expect_eq(auth_parse_scopes("plan,read"), SCOPE_READ | SCOPE_PLAN);
    cr_expect_eq(auth_parse_scopes("read,plan,admin"), SCOPE_READ | SCOPE_PLAN | SCOPE_ADMIN);
    static const char *const bad[] = {"", "read,", ",read", "read,read", "READ", "read plan", "all"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_expect_eq(auth_parse_scopes(bad[i]), 0, "%s", bad[i]);
}

/* ---- who is let in ---- */

static struct config config_of(const char *tokens, const char *authority, const char *host)
{
    struct config config = {.tokens = tokens, .tls_client_ca = authority};
    config.listen.text = host;
    (void)snprintf(config.listen.host, sizeof config.listen.host, "%s", host);
    return config;
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    cr_assert(fputs(text, file) >= 0);
    cr_assert_eq(fclose(file), 0);
}

/* A file with "ci" (token a, until the end of January 2027) and "trainer" (a certificate). */
static const char *tokens_file(void)
{
    static char path[] = "/tmp/shardplan-auth-XXXXXX";
    char text[1024];
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    (void)close(fd);
    (void)snprintf(text, sizeof text,
                   "{\"principals\": [{\"name\": \"ci\", \"tenant\": \"vision\", \"scopes\": [\"read\"], "
                   "\"expires_at\": \"2027-01-31T00:00:00Z\", \"token_sha256\": \"%s\"}, "
                   "{\"name\": \"trainer\", \"scopes\": [\"plan\"], \"certificate\": \"trainer.local\"}]}",
                   hash_of(token_a));
    write_file(path, text);
    return path;
}

static struct auth *make(const char *tokens, const char *authority)
{
    struct config config = config_of(tokens, authority, "127.0.0.1");
    struct problem problem = {0};
    struct auth *auth = NULL;
    cr_assert(auth_create(&config, &auth, &problem), "%s", problem.detail);
    return auth;
}

Test(auth, strangers_need_credentials_beyond_loopback)
{
    static const char *const open[] = {"0.0.0.0", "::", "192.168.1.4", "2001:db8::1", "::ffff:10.0.0.1", "128.0.0.1"};
    static const char *const closed[] = {"127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"};
    struct auth *auth = NULL;
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++) {
        struct config config = config_of("", "", open[i]);
        struct problem problem = {0};
        cr_expect_not(auth_create(&config, &auth, &problem), "%s", open[i]);
        cr_expect_str_eq(problem.code, "OPEN_TO_ALL");
        cr_expect_not_null(strstr(problem.detail, "--tokens"), "%s", problem.detail);
        config.tls_client_ca = "ca.pem";
        problem = (struct problem){0};
        cr_assert(auth_create(&config, &auth, &problem), "%s", problem.detail);
        cr_expect(auth_is_on(auth));
        auth_destroy(auth);
    }
    for (size_t i = 0; i < sizeof closed / sizeof closed[0]; i++) {
        struct config config = config_of("", "", closed[i]);
        struct problem problem = {0};
        cr_assert(auth_create(&config, &auth, &problem), "%s", closed[i]);
        cr_expect_not(auth_is_on(auth));
        auth_destroy(auth);
    }
}

Test(auth, a_bad_file_keeps_the_daemon_from_starting)
{
    struct config config = config_of("/nonexistent/tokens.json", "", "127.0.0.1");
    struct problem problem = {0};
    struct auth *auth = NULL;
    cr_expect_not(auth_create(&config, &auth, &problem));
    cr_expect_not_null(strstr(problem.detail, "/nonexistent/tokens.json"), "%s", problem.detail);
}

static enum auth_result ask(struct auth *auth, const char *authorization, const char *certificate, int64_t now,
                            struct principal *who)
{
    memset(who, 0, sizeof *who);
    enum auth_result result = auth_identify(auth, authorization, certificate, now, who);
    if (result != AUTH_OK) /* nothing of a principal may be left behind */
        cr_expect(who->name[0] == '\0' && who->scopes == 0);
    return result;
}

Test(auth, tokens)
{
    const char *path = tokens_file();
    struct auth *auth = make(path, "");
    struct principal who;
    char header[700];
    (void)snprintf(header, sizeof header, "Bearer %s", token_a);
    cr_expect_eq(ask(auth, header, NULL, NOW, &who), AUTH_OK);
    cr_expect_str_eq(who.name, "ci");
    cr_expect_str_eq(who.tenant, "vision");
    cr_expect_eq(who.scopes, SCOPE_READ);
    header[0] = 'b'; /* schemes have no case */
    cr_expect_eq(ask(auth, header, NULL, NOW, &who), AUTH_OK);
    cr_expect_eq(ask(auth, header, NULL, 1801353600000 - 1, &who), AUTH_OK);
    cr_expect_eq(ask(auth, header, NULL, 1801353600000, &who), AUTH_WRONG, "it has expired");
    cr_expect_eq(ask(auth, NULL, NULL, NOW, &who), AUTH_MISSING);
    (void)snprintf(header, sizeof header, "Bearer %s", token_b);
    cr_expect_eq(ask(auth, header, NULL, NOW, &who), AUTH_WRONG);
    (void)snprintf(header, sizeof header, "Bearer %.*s", (int)strlen(token_a) - 1, token_a);
    cr_expect_eq(ask(auth, header, NULL, NOW, &who), AUTH_WRONG);
    (void)snprintf(header, sizeof header, "Bearer %s %s", token_a, token_a);
    cr_expect_eq(ask(auth, header, NULL, NOW, &who), AUTH_WRONG);
    (void)snprintf(header, sizeof header, "Basic %s", token_a);
    cr_expect_eq(ask(auth, header, NULL, NOW, &who), AUTH_WRONG);
    (void)snprintf(header, sizeof header, "Bearer %s", hash_of(token_a));
    cr_expect_eq(ask(auth, header, NULL, NOW, &who), AUTH_WRONG, "the hash itself is no credential");
    memset(header + 7, 'A', 600);
    header[607] = '\0';
    cr_expect_eq(ask(auth, header, NULL, NOW, &who), AUTH_WRONG);
    static const char *const bad[] = {"", "Bearer", "Bearer ", "Bearer \xff", "Bearer x", token_a};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_expect_eq(ask(auth, bad[i], NULL, NOW, &who), AUTH_WRONG, "%s", bad[i]);
    auth_destroy(auth);
    (void)unlink(path);
}

Test(auth, short_tokens_are_refused_even_when_their_hash_is_listed)
{
    char path[] = "/tmp/shardplan-auth-XXXXXX", text[512];
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    (void)close(fd);
    (void)snprintf(text, sizeof text,
                   "{\"principals\": [{\"name\": \"a\", \"scopes\": [\"read\"], \"token_sha256\": \"%s\"}]}",
                   hash_of("correct-horse"));
    write_file(path, text);
    struct auth *auth = make(path, "");
    struct principal who;
    cr_expect_eq(ask(auth, "Bearer correct-horse", NULL, NOW, &who), AUTH_WRONG);
    auth_destroy(auth);
    (void)unlink(path);
}

Test(auth, certificates)
{
    const char *path = tokens_file();
    struct auth *auth = make(path, "ca.pem");
    struct principal who;
    char header[128];
    (void)snprintf(header, sizeof header, "Bearer %s", token_a);
    cr_expect_eq(ask(auth, NULL, "trainer.local", NOW, &who), AUTH_OK);
    cr_expect_str_eq(who.name, "trainer");
    cr_expect_eq(who.scopes, SCOPE_PLAN);
    cr_expect_eq(ask(auth, header, "trainer.local", NOW, &who), AUTH_OK);
    cr_expect_str_eq(who.name, "trainer", "a certificate goes first");
    cr_expect_eq(ask(auth, header, "other.local", NOW, &who), AUTH_OK);
    cr_expect_str_eq(who.name, "ci", "one that the file does not know leaves the token");
    cr_expect_eq(ask(auth, NULL, "other.local", NOW, &who), AUTH_WRONG);
    auth_destroy(auth);
    (void)unlink(path);

    auth = make("", "ca.pem");
    cr_expect_eq(ask(auth, NULL, "other.local", NOW, &who), AUTH_OK);
    cr_expect_str_eq(who.name, "other.local");
    cr_expect_str_eq(who.tenant, "other.local");
    cr_expect_eq(who.scopes, SCOPE_READ | SCOPE_PLAN);
    cr_expect_eq(ask(auth, NULL, "a name\nwith lines", NOW, &who), AUTH_WRONG);
    cr_expect_eq(ask(auth, header, NULL, NOW, &who), AUTH_WRONG);
    cr_expect_eq(ask(auth, NULL, NULL, NOW, &who), AUTH_MISSING);
    auth_destroy(auth);
}

Test(auth, a_reload_takes_the_new_file_and_keeps_the_old_table_when_it_is_bad)
{
    const char *path = tokens_file();
    struct auth *auth = make(path, "");
    struct principal who;
    struct problem problem = {0};
    char a[128], b[128], text[512];
    (void)snprintf(a, sizeof a, "Bearer %s", token_a);
    (void)snprintf(b, sizeof b, "Bearer %s", token_b);
    write_file(path, "{\"principals\": [{\"name\": \"half");
    cr_expect_not(auth_reload(auth, &problem));
    cr_expect_str_eq(problem.code, "BAD_TOKENS");
    cr_expect_eq(ask(auth, a, NULL, NOW, &who), AUTH_OK);
    (void)snprintf(text, sizeof text,
                   "{\"principals\": [{\"name\": \"b\", \"scopes\": [\"admin\"], \"token_sha256\": \"%s\"}]}",
                   hash_of(token_b));
    write_file(path, text);
    problem = (struct problem){0};
    cr_expect(auth_reload(auth, &problem), "%s", problem.detail);
    cr_expect_eq(ask(auth, a, NULL, NOW, &who), AUTH_WRONG, "what was revoked");
    cr_expect_eq(ask(auth, b, NULL, NOW, &who), AUTH_OK);
    auth_destroy(auth);
    (void)unlink(path);
}

/* Both files let "b" in, so whatever the other threads see of a reload, they must be let in as "b". */
static void *ask_often(void *context)
{
    char b[128];
    struct principal who;
    (void)snprintf(b, sizeof b, "Bearer %s", token_b);
    for (int i = 0; i < 2000; i++) {
        if (auth_identify(context, b, NULL, NOW, &who) != AUTH_OK || strcmp(who.name, "b") != 0)
            return context;
    }
    return NULL;
}

Test(auth, reloads_and_requests_at_once)
{
    const char *path = tokens_file();
    char text[512];
    pthread_t threads[3];
    (void)snprintf(text, sizeof text,
                   "{\"principals\": [{\"name\": \"b\", \"scopes\": [\"admin\"], \"token_sha256\": \"%s\"}]}",
                   hash_of(token_b));
    write_file(path, text);
    struct auth *auth = make(path, "");
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, ask_often, auth), 0);
    for (int i = 0; i < 200; i++) {
        struct problem problem = {0};
        cr_expect(auth_reload(auth, &problem), "%s", problem.detail);
    }
    for (size_t i = 0; i < 3; i++) {
        void *result;
        cr_assert_eq(pthread_join(threads[i], &result), 0);
        cr_expect_null(result);
    }
    auth_destroy(auth);
    (void)unlink(path);
}
