/* How the values of options are read from text and written as text. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "auth/table.h"
#include "config/options.h"
#include "observe/log.h"
#include "server_limits.h"

static const char *const level_names[] = {"debug", "info", "warning", "error"};
#define LEVEL_COUNT (sizeof level_names / sizeof level_names[0])

struct unit {
    char suffix;
    uint64_t factor;
};

static const struct unit byte_units[] = {{'T', 1ull << 40}, {'G', 1ull << 30}, {'M', 1ull << 20}, {'K', 1024}, {0}};
static const struct unit time_units[] = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}, {0}};
static const struct unit no_units[] = {{0}};

static const struct unit *units_of(enum option_kind kind)
{
    return kind == OPTION_BYTES ? byte_units : kind == OPTION_SECONDS ? time_units : no_units;
}

/* ---- members ---- */

static void *member(const struct option *option, struct config *config)
{
    return (char *)config + option->offset;
}

static const void *const_member(const struct option *option, const struct config *config)
{
    return (const char *)config + option->offset;
}

static void set_number(const struct option *option, struct config *config, uint64_t number)
{
    if (option->kind == OPTION_BYTES)
        *(uint64_t *)member(option, config) = number;
    else
        *(unsigned *)member(option, config) = (unsigned)number;
}

static uint64_t get_number(const struct option *option, const struct config *config)
{
    if (option->kind == OPTION_BYTES)
        return *(const uint64_t *)const_member(option, config);
    return *(const unsigned *)const_member(option, config);
}

static bool is_number(const struct option *option)
{
    return option->kind == OPTION_COUNT || option->kind == OPTION_SECONDS || option->kind == OPTION_BYTES;
}

/* ---- reading ---- */

/* A whole number with an optional unit, between least and most. */
static bool parse_number(const char *text, const struct unit *units, uint64_t least, uint64_t most, uint64_t *ret)
{
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0)
        return false;
    if (*end != '\0') {
        while (units->suffix != 0 && units->suffix != *end)
            units++;
        if (units->suffix == 0 || end[1] != '\0' || __builtin_mul_overflow(value, units->factor, &value))
            return false;
    }
    if (value < least || value > most)
        return false;
    *ret = value;
    return true;
}

/* "127.0.0.1:8080" or "[::1]:8080"; "" for no address. */
static bool parse_address(const char *text, struct config_address *address)
{
    struct config_address result = {.text = text};
    unsigned char binary[sizeof(struct in6_addr)];
    const char *colon = strrchr(text, ':'), *host = text;
    uint64_t port;
    if (*text == '\0') {
        *address = result;
        return true;
    }
    if (colon == NULL)
        return false;
    size_t length = (size_t)(colon - text);
    bool brackets = length >= 2 && host[0] == '[' && host[length - 1] == ']';
    if (brackets) {
        host++;
        length -= 2;
    }
    if (length >= sizeof result.host || !parse_number(colon + 1, no_units, 0, 65535, &port))
        return false;
    memcpy(result.host, host, length);
    if (inet_pton(brackets ? AF_INET6 : AF_INET, result.host, binary) != 1)
        return false;
    (void)snprintf(result.port, sizeof result.port, "%u", (unsigned)port);
    *address = result;
    return true;
}

/* One line, which a file can say: it has no way to write a text with both kinds of quotes. */
static bool is_line(const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        if (iscntrl((unsigned char)*c))
            return false;
    }
    return strchr(text, '"') == NULL || strchr(text, '\'') == NULL;
}

/* Each is scheme://host or scheme://host:port, as browsers write it: nothing behind, no capitals. */
static bool are_origins(const char *text)
{
    while (*text != '\0') {
        size_t length = strcspn(text, " ");
        size_t scheme = strncmp(text, "https://", 8) == 0 ? 8 : strncmp(text, "http://", 7) == 0 ? 7 : 0;
        if (scheme == 0 || length <= scheme || length > 256 ||
            strspn(text + scheme, "abcdefghijklmnopqrstuvwxyz0123456789.-:[]") < length - scheme)
            return false;
        text += length;
        text += strspn(text, " ");
    }
    return true;
}

/* The next TENANT=WEIGHT of the list, or its end: an empty name. False when it is something else. */
static bool next_weight(const char **at, char tenant[SPD_MAX_PRINCIPAL + 1], uint64_t most, uint64_t *ret_weight)
{
    char number[16];
    *at += strspn(*at, " ");
    const size_t size = strcspn(*at, " "), name = strcspn(*at, "= "), digits = size - name;
    tenant[0] = '\0';
    if (size == 0)
        return true;
    if (name == size || name > SPD_MAX_PRINCIPAL || digits > sizeof number)
        return false;
    memcpy(tenant, *at, name);
    tenant[name] = '\0';
    memcpy(number, *at + name + 1, digits - 1);
    number[digits - 1] = '\0';
    *at += size;
    return auth_is_name(tenant) && parse_number(number, no_units, 1, most, ret_weight);
}

static bool are_weights(const char *text, uint64_t most)
{
    char tenant[SPD_MAX_PRINCIPAL + 1];
    uint64_t weight;
    do {
        if (!next_weight(&text, tenant, most, &weight))
            return false;
    } while (tenant[0] != '\0');
    return true;
}

unsigned config_tenant_weight(const struct config *config, const char *tenant)
{
    char name[SPD_MAX_PRINCIPAL + 1];
    const char *at = config->tenant_weights != NULL ? config->tenant_weights : "";
    uint64_t weight = 1;
    while (next_weight(&at, name, SPD_MAX_WEIGHT, &weight) && name[0] != '\0') {
        if (strcmp(name, tenant) == 0)
            return (unsigned)weight;
    }
    return 1;
}

static bool parse_level(const char *text, int *level)
{
    for (size_t i = 0; i < LEVEL_COUNT; i++) {
        if (strcmp(text, level_names[i]) == 0) {
            *level = (int)i;
            return true;
        }
    }
    return false;
}

bool option_set(const struct option *option, const char *text, struct config *config)
{
    uint64_t number;
    switch (option->kind) {
    case OPTION_ADDRESS:
        return parse_address(text, member(option, config));
    case OPTION_ORIGINS:
        if (!are_origins(text))
            return false;
        break;
    case OPTION_WEIGHTS:
        if (!are_weights(text, option->most))
            return false;
        break;
    case OPTION_FORMAT:
        if (strcmp(text, "json") != 0 && strcmp(text, "text") != 0)
            return false;
        *(bool *)member(option, config) = text[0] == 'j';
        return true;
    case OPTION_LEVEL:
        return parse_level(text, member(option, config));
    case OPTION_SWITCH:
        if (strcmp(text, "yes") != 0 && strcmp(text, "no") != 0)
            return false;
        *(bool *)member(option, config) = text[0] == 'y';
        return true;
    case OPTION_PATH:
    case OPTION_TEXT:
        if (!is_line(text))
            return false;
        break;
    default:
        if (!parse_number(text, units_of(option->kind), option->least, option->most, &number))
            return false;
        set_number(option, config, number);
        return true;
    }
    *(const char **)member(option, config) = text;
    return true;
}

void option_set_default(const struct option *option, struct config *config)
{
    if (is_number(option))
        set_number(option, config, option->number);
    else if (option->text != NULL)
        (void)option_set(option, option->text, config);
}

/* ---- writing ---- */

static void write_number(uint64_t number, const struct unit *units, struct sp_buf *buf)
{
    while (units->suffix != 0 && (number == 0 || number % units->factor != 0))
        units++;
    if (units->suffix != 0 && units->factor > 1)
        sp_buf_printf(buf, "%" PRIu64 "%c", number / units->factor, units->suffix);
    else
        sp_buf_printf(buf, "%" PRIu64, number);
}

void option_expected(const struct option *option, struct sp_buf *buf)
{
    static const char *const texts[] = {
        [OPTION_ADDRESS] = "a numeric address and a port, like 127.0.0.1:8080 or [::1]:0",
        [OPTION_PATH] = "a path without control characters and with one kind of quotes at most",
        [OPTION_TEXT] = "one line of text with one kind of quotes at most",
        [OPTION_ORIGINS] = "origins with blanks between them, like https://plans.example.org",
        [OPTION_WEIGHTS] = "names of tenants and whole numbers from 1 to 100 with blanks between them, like a=2 b=5",
        [OPTION_COUNT] = "a whole number",
        [OPTION_SECONDS] = "a time in seconds, or like 15m, 12h or 30d,",
        [OPTION_BYTES] = "a number of bytes, like 2000000 or 16G,",
        [OPTION_FORMAT] = "text or json",
        [OPTION_LEVEL] = "debug, info, warning or error",
        [OPTION_SWITCH] = "yes or no",
    };
    sp_buf_text(buf, texts[option->kind]);
    if (!is_number(option))
        return;
    sp_buf_text(buf, " from ");
    write_number(option->least, units_of(option->kind), buf);
    if (option->most >= INT64_MAX / 4)
        return; /* what no disk and no memory has */
    sp_buf_text(buf, " to ");
    write_number(option->most, units_of(option->kind), buf);
}

/* Quoted when it is empty or a line of the file would not give it back. */
static void write_text(const char *text, struct sp_buf *buf)
{
    bool plain = *text != '\0' && strpbrk(text, " \t#\"'") == NULL;
    const char *quote = plain ? "" : strchr(text, '"') != NULL ? "'" : "\"";
    sp_buf_printf(buf, "%s%s%s", quote, text, quote);
}

void option_write(const struct option *option, const struct config *config, struct sp_buf *buf)
{
    const void *at = const_member(option, config);
    switch (option->kind) {
    case OPTION_ADDRESS:
        write_text(((const struct config_address *)at)->text, buf);
        break;
    case OPTION_FORMAT:
        sp_buf_text(buf, *(const bool *)at ? "json" : "text");
        break;
    case OPTION_SWITCH:
        sp_buf_text(buf, *(const bool *)at ? "yes" : "no");
        break;
    case OPTION_LEVEL:
        sp_buf_text(buf, level_names[*(const int *)at]);
        break;
    case OPTION_PATH:
    case OPTION_TEXT:
    case OPTION_ORIGINS:
    case OPTION_WEIGHTS:
        write_text(*(const char *const *)at, buf);
        break;
    default:
        write_number(get_number(option, config), units_of(option->kind), buf);
        break;
    }
}
