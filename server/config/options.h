#pragma once
/*
 * options - everything that the daemon can be told, in one table, and how a value is read and written as text.
 *
 * Flags, the environment, the file, --help and --print-config all go through this table, so none of them can know an
 * option that another one lacks.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "config/config.h"

enum option_kind {
    OPTION_ADDRESS, /* struct config_address */
    OPTION_PATH,    /* const char *, made absolute */
    OPTION_TEXT,    /* const char * */
    OPTION_ORIGINS, /* const char *, origins with blanks between them */
    OPTION_WEIGHTS, /* const char *, NAME=NUMBER with blanks between them */
    OPTION_COUNT,   /* unsigned */
    OPTION_SECONDS, /* unsigned; 90, 90s, 15m, 12h or 30d */
    OPTION_BYTES,   /* uint64_t; K, M, G and T are powers of 1024 */
    OPTION_FORMAT,  /* bool: json, not text */
    OPTION_LEVEL,   /* int, of enum log_level */
    OPTION_SWITCH,  /* bool: yes or no; a flag without a value says yes */
};

struct option {
    const char *name; /* of the flag and in the file */
    enum option_kind kind;
    size_t offset; /* of the member of struct config */
    uint64_t least, most;
    uint64_t number;      /* the default of numbers */
    const char *text;     /* the default of the others; NULL: found out by config.c */
    const char *argument; /* what --help calls the value */
    const char *help;
    const char *section; /* of --help, on the first option of each */
};

#define CONFIG_OPTIONS     37 /* entries of the table */
#define CONFIG_OPTION_FILE 0  /* the entry of --config, which the file itself cannot have */
#define CONFIG_PREFIX      "SHARDPLAND_"

extern const struct option config_options[CONFIG_OPTIONS];

/* The entry with this name (`size` bytes), or NULL. */
const struct option *option_find(const char *name, size_t size);

/* The name of the option's variable in the environment, with the prefix; "" when it does not fit, which never happens.
 */
void option_variable(const struct option *option, char *ret, size_t size);

/* Reads `text` into the member; false, with nothing changed, when it is not such a value. Keeps pointers to `text`. */
bool option_set(const struct option *option, const char *text, struct config *config);

/* Sets a number or a text without a look at it: defaults. */
void option_set_default(const struct option *option, struct config *config);

/* Appends what option_set() wants, as the end of a sentence: "a whole number from 1 to 64". */
void option_expected(const struct option *option, struct sp_buf *buf);

/* Appends the member's value as option_set() reads it; quoted where a file needs that. */
void option_write(const struct option *option, const struct config *config, struct sp_buf *buf);
