#include <getopt.h>
#include <gnutls/crypto.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "auth/auth.h"
#include "auth/table.h"
#include "server_limits.h"
#include "util/json_memory.h"
#include "util/text.h"

static const char usage[] =
    "Usage: shardpland token NAME [--tenant NAME] [--scopes read,plan,admin] [--days N]\n"
    "\n"
    "Makes a token for a principal. The first line of output is the token, which is stored nowhere: give it to "
    "whoever\n"
    "shall use it. The second line is the entry for \"principals\" in the file of --tokens; it holds no secret.\n"
    "\n"
    "  --tenant NAME  who owns what the principal stores (default: NAME of the principal)\n"
    "  --scopes LIST  read: look and ask; plan: also upload, plan, cancel, delete; admin: all tenants (default: "
    "read,plan)\n"
    "  --days N       until the token expires; 0: never (default: 90)\n";

#define TOKEN_PREFIX "spl_" /* lets scanners for leaked secrets know one */
#define TOKEN_RANDOM 32     /* bytes */

struct wanted {
    const char *name, *tenant;
    unsigned scopes;
    int64_t days;
};

static int wrong(const char *message, const char *value)
{
    (void)fprintf(stderr, "shardpland token: %s: '%s'\nTry 'shardpland token --help'.\n", message, value);
    return 2;
}

/* 0: go on; -1: help was printed; else the exit status. */
static int parse(int argc, char **argv, struct wanted *wanted)
{
    static const struct option options[] = {
        {"tenant", required_argument, NULL, 't'},
        {"scopes", required_argument, NULL, 's'},
        {"days", required_argument, NULL, 'd'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    int id;
    opterr = 0;
    while ((id = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (id == 'h') {
            (void)fputs(usage, stdout);
            return -1;
        }
        if (id == 't')
            wanted->tenant = optarg;
        else if (id == 's' && (wanted->scopes = auth_parse_scopes(optarg)) == 0)
            return wrong("scopes are read, plan and admin, with commas between them", optarg);
        else if (id == 'd' && !text_to_int(optarg, 0, 36500, &wanted->days))
            return wrong("days are a number from 0 to 36500", optarg);
        else if (id == '?')
            return wrong("unknown option, or one without its value", argv[optind - 1]);
    }
    if (optind + 1 != argc)
        return wrong("exactly one name is needed", optind < argc ? argv[optind + 1] : "");
    wanted->name = argv[optind];
    if (wanted->tenant == NULL)
        wanted->tenant = wanted->name;
    if (!auth_is_name(wanted->name))
        return wrong("a name has 1 to 64 letters, digits and ._@-", wanted->name);
    if (!auth_is_name(wanted->tenant))
        return wrong("a tenant has 1 to 64 letters, digits and ._@-", wanted->tenant);
    return 0;
}

/* base64 for URLs without padding; `ret` has room for 4 characters for each 3 bytes begun and a NUL. */
static void encode(const unsigned char *bytes, size_t size, char *ret)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned bits = 0, count = 0;
    for (size_t i = 0; i < size; i++) {
        bits = bits << 8 | bytes[i];
        for (count += 8; count >= 6; count -= 6)
            *ret++ = digits[(bits >> (count - 6)) & 63];
    }
    if (count > 0)
        *ret++ = digits[(bits << (6 - count)) & 63];
    *ret = '\0';
}

static json_t *make_entry(const struct wanted *wanted, const char *token)
{
    unsigned char hash[AUTH_HASH_SIZE];
    char hex[2 * AUTH_HASH_SIZE + 1], expires[32];
    json_t *entry = json_object(), *scopes = json_array();
    if (!auth_hash(token, strlen(token), hash)) {
        json_decref(scopes);
        json_decref(entry);
        return NULL;
    }
    text_to_hex(hash, sizeof hash, hex);
    (void)json_object_set_new(entry, "name", json_string(wanted->name));
    (void)json_object_set_new(entry, "tenant", json_string(wanted->tenant));
    for (unsigned scope = SCOPE_READ; scope <= SCOPE_ADMIN; scope *= 2) {
        if ((wanted->scopes & scope) != 0)
            (void)json_array_append_new(scopes, json_string(auth_scope_name(scope)));
    }
    (void)json_object_set_new(entry, "scopes", scopes);
    time_t end = time(NULL) + (time_t)wanted->days * 86400;
    struct tm utc;
    if (wanted->days > 0 && gmtime_r(&end, &utc) != NULL && strftime(expires, sizeof expires, "%FT%TZ", &utc) > 0)
        (void)json_object_set_new(entry, "expires_at", json_string(expires));
    (void)json_object_set_new(entry, "token_sha256", json_string(hex));
    return entry;
}

int auth_token_command(int argc, char **argv)
{
    struct wanted wanted = {.scopes = SCOPE_READ | SCOPE_PLAN, .days = 90};
    int status = parse(argc, argv, &wanted);
    if (status != 0)
        return status < 0 ? 0 : status;
    unsigned char random[TOKEN_RANDOM];
    char token[sizeof TOKEN_PREFIX + (TOKEN_RANDOM + 2) / 3 * 4] = TOKEN_PREFIX;
    if (gnutls_rnd(GNUTLS_RND_KEY, random, sizeof random) != 0) {
        (void)fputs("shardpland token: there are no random numbers\n", stderr);
        return 4;
    }
    encode(random, sizeof random, token + strlen(TOKEN_PREFIX));
    json_t *entry = make_entry(&wanted, token);
    char *text = entry != NULL ? json_memory_text(entry, JSON_PRESERVE_ORDER) : NULL;
    status = 4;
    if (text != NULL && printf("%s\n%s\n", token, text) > 0 && fflush(stdout) == 0)
        status = 0;
    else
        (void)fputs("shardpland token: the token could not be written\n", stderr);
    free(text);
    json_decref(entry);
    return status;
}
