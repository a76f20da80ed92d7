/* The file of tokens: what is accepted is sound, and comes back from its own text; what is refused has a reason. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "auth/table.h"
#include "fuzz.h"
#include "util/text.h"

static json_t *scopes_of(unsigned scopes)
{
    json_t *list = json_array();
    for (unsigned scope = SCOPE_READ; scope <= SCOPE_ADMIN; scope <<= 1) {
        if ((scopes & scope) != 0 && json_array_append_new(list, json_string(auth_scope_name(scope))) != 0)
            abort();
    }
    return list;
}

static json_t *entry_of(const struct auth_entry *entry)
{
    char text[2 * AUTH_HASH_SIZE + 1];
    const char *how = entry->by_certificate ? "certificate" : "token_sha256";
    text_to_hex(entry->hash, AUTH_HASH_SIZE, text);
    json_t *object =
        json_pack("{s:s, s:s, s:o, s:s}", "name", entry->principal.name, "tenant", entry->principal.tenant, "scopes",
                  scopes_of(entry->principal.scopes), how, entry->by_certificate ? entry->certificate : text);
    if (entry->expires_ms != INT64_MAX) {
        time_t seconds = (time_t)(entry->expires_ms / 1000);
        struct tm tm;
        if (gmtime_r(&seconds, &tm) == NULL)
            abort();
        (void)snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02dZ", tm.tm_year + 1900, tm.tm_mon + 1,
                       tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
        (void)json_object_set_new(object, "expires_at", json_string(text));
    }
    return object;
}

static void check_round_trip(const struct auth_table *table)
{
    json_t *list = json_array(), *root = json_pack("{s:o}", "principals", list);
    struct auth_table again;
    struct problem problem = {0};
    for (size_t i = 0; i < table->count; i++) {
        const struct auth_entry *entry = &table->entries[i];
        if (!auth_is_name(entry->principal.name) || !auth_is_name(entry->principal.tenant) ||
            (entry->by_certificate && !auth_is_name(entry->certificate)) || entry->principal.scopes == 0)
            abort();
        if (json_array_append_new(list, entry_of(entry)) != 0)
            abort();
    }
    char *text = json_dumps(root, JSON_COMPACT);
    if (text == NULL || !auth_table_parse(text, strlen(text), &again, &problem) || again.count != table->count ||
        (table->count > 0 && memcmp(again.entries, table->entries, table->count * sizeof *again.entries) != 0)) {
        (void)fprintf(stderr, "%s\n%s\n", text, problem.detail);
        abort();
    }
    auth_table_release(&again);
    free(text);
    json_decref(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct auth_table table;
    struct problem problem = {0};
    if (auth_table_parse((const char *)bytes, size, &table, &problem)) {
        check_round_trip(&table);
        auth_table_release(&table);
    } else {
        if (problem.code[0] == '\0' || problem.detail[0] == '\0' || table.count != 0)
            abort();
    }
    return 0;
}
