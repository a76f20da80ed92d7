#pragma once
/* reader - what the files of the configuration share while it is read. */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "config/config.h"
#include "config/options.h"

struct config_reader {
    struct config *config;
    struct sp_buf *output, *errors;
    const char *
        origins[CONFIG_OPTIONS]; /* where the value came from: "--workers", "environment ..", "FILE:3"; NULL: default */
    bool wrong;                  /* something was: the errors say what */
};

/* A copy that lives as long as the configuration; NULL without memory. */
char *config_keep(struct config *config, const char *text, size_t size);

/* Adds a sentence to the errors. */
__attribute__((format(printf, 2, 3))) void config_wrong(struct config_reader *reader, const char *format, ...);

/* Sets an option, or says that the value is wrong. */
void config_apply(struct config_reader *reader, const struct option *option, const char *text, const char *origin);

/* Reads a file of lines `name = value`. */
void config_read_file(struct config_reader *reader, const char *path);

void config_write_help(struct sp_buf *buf);
void config_write(const struct config_reader *reader, struct sp_buf *buf); /* --print-config */
