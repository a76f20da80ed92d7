#pragma once
/*
 * config - what the command line of the daemon says.
 *
 * Read once at start, constant afterwards; every thread may read it.
 */
#include <stdbool.h>
#include <stdint.h>

struct config {
    const char *listen; /* as given, for messages */
    char host[256];     /* numeric IPv4 or IPv6 address */
    char port[8];       /* "0": any free port, which the log then names */
    char *data;         /* absolute folder; owned */
    unsigned workers;   /* plans that run at a time */
    uint64_t max_upload;
    uint64_t job_memory;
    unsigned job_seconds;
    bool log_json;
};

enum config_result {
    CONFIG_RUN,   /* go on */
    CONFIG_DONE,  /* --help or --version was answered: exit 0 */
    CONFIG_WRONG, /* a message is on standard error: exit 2 */
};

/* Fills `config` from the arguments and the environment (XDG_DATA_HOME, HOME). Release it afterwards. */
enum config_result config_read(int argc, char **argv, struct config *config);
void config_release(struct config *config);
