#pragma once
/*
 * config - how the daemon is set up.
 *
 * A value comes from a flag, else from the environment, else from the file, else from its default. Read once at start
 * and constant afterwards, so every thread may read it; what a SIGHUP reads again (the files of tokens and of the
 * certificate) is read from the same paths. Secrets are never values: only the path of a file that holds one is.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* An address to listen on. */
struct config_address {
    const char *text; /* as given, for messages; "" when there is none */
    char host[256];   /* numeric IPv4 or IPv6 address */
    char port[8];     /* "0": any free port, which the log then names */
};

struct config {
    const char *file; /* of --config, "" without one */
    struct config_address listen;
    struct config_address admin_listen; /* metrics and health without credentials; "" when not wanted */
    const char *data;                   /* absolute folder; with PostgreSQL shared by all daemons */

    /* The store: "" for SQLite in the data folder, else a connection string of libpq without a password. */
    const char *store;
    const char *store_password_file; /* "" or a path */
    /* The object store: "" for the data folder, else s3://BUCKET/PREFIX (store/s3/s3.h). */
    const char *blobs;
    const char *blobs_endpoint, *blobs_region, *blobs_credentials_file; /* "" or what s3.h says */
    const char *model_sources; /* what models may be fetched from (references/sources.h), "" nothing */
    uint64_t blob_cache_bytes; /* of copies of models; 0: no limit */

    uint64_t quarantine_bytes; /* of files that were found wrong and are kept */
    uint64_t scrub_rate;       /* bytes of stored files that are read in a second although nobody asks; 0: none */

    unsigned lease_seconds; /* a daemon that is silent so long loses its plans to another one */

    /* Work. */
    unsigned workers; /* plans that run at a time */
    uint64_t max_upload;
    uint64_t job_memory;
    unsigned job_seconds;
    bool require_sandbox;      /* do not start when a wall of the workers is missing */
    unsigned max_queued_plans; /* accepted and not started, of all tenants */
    unsigned keep_seconds;     /* a finished plan is deleted so long after; 0: never */

    /* Of each tenant; 0: no limit of its own. */
    unsigned tenant_plans;  /* queued and running */
    unsigned tenant_models; /* stored */
    uint64_t tenant_bytes;  /* of stored models */

    const char *tenant_weights; /* shares of the workers: TENANT=WEIGHT with blanks between them, "" all have 1 */
    uint64_t max_store;         /* bytes of all blobs; what no plan needs is evicted for new ones; 0: no limit */

    /* Who may ask. Paths, "" when not given. */
    const char *tokens;          /* tokens and certificates that are known (auth.h) */
    const char *tls_certificate; /* PEM chain; TLS is on when given */
    const char *tls_key;
    const char *tls_client_ca; /* PEM; client certificates of this authority are asked for */
    const char *cors_origins;  /* origins with blanks between them, "" none */
    unsigned max_connections;

    /* Life. */
    unsigned shutdown_delay_seconds; /* from SIGTERM, not ready, to taking no more connections */
    unsigned drain_seconds;          /* how long running plans may then go on */
    bool log_json;
    int log_level; /* of enum log_level */

    const char *health_url; /* of --healthcheck; "": the daemon of this configuration */
    void *owned;            /* memory of the strings */
};

enum config_result {
    CONFIG_RUN,    /* serve */
    CONFIG_CHECK,  /* --check-config: look at the files that are named too */
    CONFIG_HEALTH, /* --healthcheck */
    CONFIG_DONE,   /* --help, --version or --print-config was answered: exit 0 */
    CONFIG_WRONG,  /* messages are on standard error: exit 2 */
};

/* The share of the workers that this tenant has where several wait: 1 unless --tenant-weights says more. */
unsigned config_tenant_weight(const struct config *config, const char *tenant);

/* Fills `config` from the arguments, the environment and the file. Release it afterwards, whatever the result. The
   arguments must live as long as the configuration. */
enum config_result config_read(int argc, char **argv, struct config *config);
void config_release(struct config *config);

/* The same from this environment (ended by NULL), with all output in two buffers. Errors are whole sentences, one per
   line, and all of them: not only the first. */
enum config_result config_read_from(int argc, char **argv, char **environment, struct config *config,
                                    struct sp_buf *output, struct sp_buf *errors);
