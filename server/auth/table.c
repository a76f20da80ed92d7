#include "auth/table.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server_limits.h"

static const struct {
    const char *name;
    unsigned scope;
} scopes[] = {{"read", SCOPE_READ}, {"plan", SCOPE_PLAN}, {"admin", SCOPE_ADMIN}};
#define SCOPE_COUNT (sizeof scopes / sizeof scopes[0])

/* ---- words ---- */

bool auth_is_name(const char *text)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._@-";
    size_t length = strspn(text, allowed);
    return length > 0 && length <= SPD_MAX_PRINCIPAL && text[length] == '\0';
}

static unsigned scope_of(const char *name, size_t size)
{
    for (size_t i = 0; i < SCOPE_COUNT; i++) {
        if (strlen(scopes[i].name) == size && memcmp(scopes[i].name, name, size) == 0)
            return scopes[i].scope;
    }
    return 0;
}

unsigned auth_parse_scopes(const char *text)
{
    unsigned found = 0;
    for (;;) {
        size_t size = strcspn(text, ",");
        unsigned scope = scope_of(text, size);
        if (scope == 0 || (found & scope) != 0)
            return 0;
        found |= scope;
        if (text[size] == '\0')
            return found;
        text += size + 1;
    }
}

const char *auth_scope_name(unsigned scope)
{
    for (size_t i = 0; i < SCOPE_COUNT; i++) {
        if (scopes[i].scope == scope)
            return scopes[i].name;
    }
    return "none";
}

bool auth_parse_time(const char *text, int64_t *ret_ms)
{
    static const char form[] = "dddd-dd-ddTdd:dd:ddZ";
    if (strlen(text) != sizeof form - 1)
        return false;
    for (size_t i = 0; form[i] != '\0'; i++) {
        if (form[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != form[i])
            return false;
    }
    struct tm given = {0}, back;
    if (strptime(text, "%Y-%m-%dT%H:%M:%SZ", &given) == NULL)
        return false;
    struct tm copy = given;
    time_t seconds = timegm(&copy);
    /* A day that does not exist (February 30) becomes another one on the way. */
    if (gmtime_r(&seconds, &back) == NULL || back.tm_mday != given.tm_mday || back.tm_sec != given.tm_sec)
        return false;
    *ret_ms = (int64_t)seconds * 1000;
    return true;
}

bool auth_hash(const char *token, size_t size, unsigned char ret_hash[AUTH_HASH_SIZE])
{
    return gnutls_hash_fast(GNUTLS_DIG_SHA256, token, size, ret_hash) == 0;
}

/* ---- one entry ---- */

/* What of a file is being read, for messages. */
struct reading {
    struct auth_table *table;
    struct problem *problem;
    size_t index;
    const char *name; /* of the entry, NULL while it is not known to be a name */
};

__attribute__((format(printf, 2, 3))) static bool wrong(const struct reading *reading, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (reading->name != NULL)
        return problem_set(reading->problem, 500, "BAD_TOKENS", "The file of tokens: principal '%s': %s.",
                           reading->name, text);
    return problem_set(reading->problem, 500, "BAD_TOKENS", "The file of tokens: principal number %zu: %s.",
                       reading->index + 1, text);
}

static bool known_members(const struct reading *reading, const json_t *object)
{
    static const char *const known[] = {"name", "tenant", "scopes", "expires_at", "token_sha256", "certificate"};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        bool found = false;
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
            found = found || strcmp(known[i], key) == 0;
        if (!found)
            return wrong(reading, "the member '%.64s' is not known", key);
    }
    return true;
}

static bool take_scopes(const struct reading *reading, const json_t *list, struct auth_entry *entry)
{
    size_t i;
    json_t *item;
    if (!json_is_array(list) || json_array_size(list) == 0)
        return wrong(reading, "\"scopes\" must be a list of \"read\", \"plan\" and \"admin\", and not an empty one");
    json_array_foreach((json_t *)(uintptr_t)list, i, item)
    {
        const char *text = json_string_value(item);
        unsigned scope = text != NULL ? scope_of(text, strlen(text)) : 0;
        if (scope == 0)
            return wrong(reading, "a scope must be \"read\", \"plan\" or \"admin\"");
        if ((entry->principal.scopes & scope) != 0)
            return wrong(reading, "the scope \"%s\" is given twice", text);
        entry->principal.scopes |= scope;
    }
    return true;
}

static int nibble(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Hashes of what people type where a secret is wanted. A token that was made by a machine is none of these; one that
   is shorter than SPD_MIN_TOKEN_BYTES is never accepted, whatever its hash. */
static bool is_weak(const unsigned char hash[AUTH_HASH_SIZE])
{
    static const char *const words[] = {"",       "admin", "changeme", "change-me", "default", "password",
                                        "secret", "test",  "token",    "shardplan", "12345678"};
    unsigned char other[AUTH_HASH_SIZE];
    bool same = true;
    for (size_t i = 1; i < AUTH_HASH_SIZE; i++)
        same = same && hash[i] == hash[0];
    for (size_t i = 0; i < sizeof words / sizeof words[0] && !same; i++)
        same = auth_hash(words[i], strlen(words[i]), other) && memcmp(hash, other, sizeof other) == 0;
    return same;
}

static bool take_hash(const struct reading *reading, const char *text, struct auth_entry *entry)
{
    if (text == NULL || strlen(text) != 2 * (size_t)AUTH_HASH_SIZE)
        return wrong(reading, "\"token_sha256\" must be 64 hexadecimal digits in small letters");
    for (size_t i = 0; i < AUTH_HASH_SIZE; i++) {
        int high = nibble(text[2 * i]), low = nibble(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return wrong(reading, "\"token_sha256\" must be 64 hexadecimal digits in small letters");
        entry->hash[i] = (unsigned char)(high * 16 + low);
    }
    if (is_weak(entry->hash))
        return wrong(reading, "the token is one that can be guessed; make one with 'shardpland token %s'",
                     reading->name);
    return true;
}

/* How the principal shows who it is: by exactly one of the two. */
static bool take_credential(const struct reading *reading, const json_t *object, struct auth_entry *entry)
{
    const json_t *hash = json_object_get(object, "token_sha256"), *certificate = json_object_get(object, "certificate");
    if ((hash != NULL) == (certificate != NULL))
        return wrong(reading, "either \"token_sha256\" or \"certificate\" must be given");
    if (hash != NULL)
        return take_hash(reading, json_string_value(hash), entry);
    const char *text = json_string_value(certificate);
    if (text == NULL || !auth_is_name(text))
        return wrong(reading, "\"certificate\" must be the common name of a certificate: letters, digits and ._@-");
    entry->by_certificate = true;
    (void)snprintf(entry->certificate, sizeof entry->certificate, "%s", text);
    return true;
}

static bool not_repeated(const struct reading *reading, const struct auth_entry *entry)
{
    for (size_t i = 0; i < reading->index; i++) {
        const struct auth_entry *other = &reading->table->entries[i];
        if (strcmp(other->principal.name, entry->principal.name) == 0)
            return wrong(reading, "the name is given twice; several tokens of one tenant need names of their own");
        if (other->by_certificate != entry->by_certificate)
            continue;
        if (entry->by_certificate ? strcmp(other->certificate, entry->certificate) == 0
                                  : memcmp(other->hash, entry->hash, sizeof entry->hash) == 0)
            return wrong(reading, "it has the same %s as '%s'", entry->by_certificate ? "certificate" : "token",
                         other->principal.name);
    }
    return true;
}

static bool take_entry(struct reading *reading, const json_t *object)
{
    struct auth_entry *entry = &reading->table->entries[reading->index];
    entry->expires_ms = INT64_MAX;
    if (!json_is_object(object))
        return wrong(reading, "it must be an object");
    const char *name = json_string_value(json_object_get(object, "name"));
    if (name == NULL || !auth_is_name(name))
        return wrong(reading, "\"name\" must be 1 to %d letters, digits and ._@-", SPD_MAX_PRINCIPAL);
    reading->name = name;
    const json_t *tenant = json_object_get(object, "tenant"), *expires = json_object_get(object, "expires_at");
    const char *tenant_name = tenant != NULL ? json_string_value(tenant) : name;
    if (tenant_name == NULL || !auth_is_name(tenant_name))
        return wrong(reading, "\"tenant\" must be 1 to %d letters, digits and ._@-", SPD_MAX_PRINCIPAL);
    (void)snprintf(entry->principal.name, sizeof entry->principal.name, "%s", name);
    (void)snprintf(entry->principal.tenant, sizeof entry->principal.tenant, "%s", tenant_name);
    if (expires != NULL &&
        (!json_is_string(expires) || !auth_parse_time(json_string_value(expires), &entry->expires_ms)))
        return wrong(reading, "\"expires_at\" must be a time like 2027-01-31T00:00:00Z");
    return known_members(reading, object) && take_scopes(reading, json_object_get(object, "scopes"), entry) &&
           take_credential(reading, object, entry) && not_repeated(reading, entry);
}

/* ---- the whole ---- */

static bool take_root(const json_t *root, struct auth_table *table, struct problem *problem)
{
    const json_t *list = json_object_get(root, "principals");
    if (!json_is_array(list) || json_object_size(root) != 1)
        return problem_set(problem, 500, "BAD_TOKENS",
                           "The file of tokens must be an object with the one member \"principals\", a list.");
    size_t count = json_array_size(list);
    if (count > SPD_MAX_PRINCIPALS)
        return problem_set(problem, 500, "BAD_TOKENS", "The file of tokens has more than %u principals.",
                           SPD_MAX_PRINCIPALS);
    table->entries = calloc(count > 0 ? count : 1, sizeof *table->entries);
    if (table->entries == NULL)
        return problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory.");
    struct reading reading = {.table = table, .problem = problem};
    for (; reading.index < count; reading.index++) {
        reading.name = NULL;
        if (!take_entry(&reading, json_array_get(list, reading.index)))
            return false;
    }
    table->count = count;
    return true;
}

bool auth_table_parse(const char *text, size_t size, struct auth_table *ret_table, struct problem *problem)
{
    json_error_t error;
    *ret_table = (struct auth_table){0};
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) /* the parser's own message quotes the file, and this one is logged */
        return problem_set(problem, 500, "BAD_TOKENS", "The file of tokens is not JSON (line %d, column %d).",
                           error.line, error.column);
    bool ok = take_root(root, ret_table, problem);
    if (!ok)
        auth_table_release(ret_table);
    json_decref(root);
    return ok;
}

void auth_table_release(struct auth_table *table)
{
    free(table->entries);
    *table = (struct auth_table){0};
}

bool auth_table_read(const char *path, struct auth_table *ret_table, struct problem *problem)
{
    *ret_table = (struct auth_table){0};
    char *text = malloc(SPD_MAX_TOKENS_BYTES + 1);
    if (text == NULL)
        return problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory.");
    size_t size = 0;
    ssize_t got = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && size <= SPD_MAX_TOKENS_BYTES) {
        got = read(fd, text + size, SPD_MAX_TOKENS_BYTES + 1 - size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        size += (size_t)got;
    }
    int error = errno;
    if (fd >= 0)
        (void)close(fd);
    bool ok;
    if (fd < 0 || got < 0)
        ok = problem_set(problem, 500, "BAD_TOKENS", "The file of tokens %s cannot be read: %s.", path,
                         strerrordesc_np(error));
    else if (size > SPD_MAX_TOKENS_BYTES)
        ok = problem_set(problem, 500, "BAD_TOKENS", "The file of tokens %s is larger than %u bytes.", path,
                         SPD_MAX_TOKENS_BYTES);
    else
        ok = auth_table_parse(text, size, ret_table, problem);
    free(text);
    return ok;
}
