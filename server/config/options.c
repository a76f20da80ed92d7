#include "config/options.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "server_limits.h"

#define MEMBER(name)   offsetof(struct config, name)
#define MAX_OBJECTS    1000000000u
#define MAX_SECONDS    (10u * 365 * 86400)
#define MAX_QUEUE      1000000u
#define LEAST_LEASE    3u /* a shorter one ends at the first slow flush of a disk */
#define MAX_LEASE      3600u
#define MAX_JOB        86400u
#define LEAST_MEMORY   (1u << 20)
#define DEFAULT_LISTEN "127.0.0.1:8080"

const struct option config_options[CONFIG_OPTIONS] = {
    {"config", OPTION_PATH, MEMBER(file), 0, 0, 0, "", "FILE",
     "more options, lines of NAME = VALUE with the names below", NULL},

    {"listen", OPTION_ADDRESS, MEMBER(listen), 0, 0, 0, DEFAULT_LISTEN, "ADDR:PORT",
     "address to serve on; port 0: any free one", "Serving"},
    {"admin-listen", OPTION_ADDRESS, MEMBER(admin_listen), 0, 0, 0, "", "ADDR:PORT",
     "metrics and health without credentials on this address too", NULL},
    {"max-connections", OPTION_COUNT, MEMBER(max_connections), 8, SPD_MAX_CONNECTIONS, SPD_DEFAULT_CONNECTIONS, NULL,
     "N", "connections that are open at a time", NULL},
    {"max-upload", OPTION_BYTES, MEMBER(max_upload), 1, INT64_MAX, SPD_DEFAULT_MAX_UPLOAD, NULL, "BYTES",
     "largest model that is accepted", NULL},
    {"cors-origins", OPTION_ORIGINS, MEMBER(cors_origins), 0, 0, 0, "", "ORIGINS",
     "origins of web pages that may ask, with blanks between them", NULL},

    {"tokens", OPTION_PATH, MEMBER(tokens), 0, 0, 0, "", "FILE", "who may ask: hashes of tokens, names of certificates",
     "Who may ask"},
    {"tls-certificate", OPTION_PATH, MEMBER(tls_certificate), 0, 0, 0, "", "FILE", "PEM certificate chain: serve HTTPS",
     NULL},
    {"tls-key", OPTION_PATH, MEMBER(tls_key), 0, 0, 0, "", "FILE", "PEM private key of the certificate", NULL},
    {"tls-client-ca", OPTION_PATH, MEMBER(tls_client_ca), 0, 0, 0, "", "FILE",
     "PEM authority of the client certificates that are asked for", NULL},

    {"data", OPTION_PATH, MEMBER(data), 0, 0, 0, NULL, "DIR", "where models and plans are kept", "Storing"},
    {"store", OPTION_TEXT, MEMBER(store), 0, 0, 0, "", "CONNECTION",
     "PostgreSQL instead of SQLite: a connection string of libpq without a password", NULL},
    {"store-password-file", OPTION_PATH, MEMBER(store_password_file), 0, 0, 0, "", "FILE", "password of --store", NULL},
    {"blobs", OPTION_TEXT, MEMBER(blobs), 0, 0, 0, "", "s3://BUCKET/PREFIX",
     "keep the files of models in an object store, and copies of those in use in --data", NULL},
    {"blobs-endpoint", OPTION_TEXT, MEMBER(blobs_endpoint), 0, 0, 0, "", "URL",
     "of an object store that is not AWS's; {bucket} in it stands for the bucket", NULL},
    {"blobs-region", OPTION_TEXT, MEMBER(blobs_region), 0, 0, 0, "", "NAME",
     "its region; else AWS_REGION, else us-east-1", NULL},
    {"blobs-credentials-file", OPTION_PATH, MEMBER(blobs_credentials_file), 0, 0, 0, "", "FILE",
     "aws_access_key_id and aws_secret_access_key; else AWS_.. variables", NULL},
    {"blob-cache-bytes", OPTION_BYTES, MEMBER(blob_cache_bytes), 0, INT64_MAX, SPD_DEFAULT_BLOB_CACHE, NULL, "BYTES",
     "of the copies of models, when they are in an object store; 0: no limit", NULL},
    {"quarantine-bytes", OPTION_BYTES, MEMBER(quarantine_bytes), 0, INT64_MAX, SPD_DEFAULT_QUARANTINE, NULL, "BYTES",
     "of files that were found damaged and are kept in --data/quarantine", NULL},
    {"scrub-rate", OPTION_BYTES, MEMBER(scrub_rate), 0, INT64_MAX, SPD_DEFAULT_SCRUB_RATE, NULL, "BYTES",
     "of stored files that are read in a second to find damage; 0: none", NULL},
    {"model-sources", OPTION_TEXT, MEMBER(model_sources), 0, 0, 0, "", "SOURCES",
     "where models may be fetched: s3://BUCKET/PREFIX/ .., with {tenant} for who asks", NULL},
    {"lease-seconds", OPTION_SECONDS, MEMBER(lease_seconds), LEAST_LEASE, MAX_LEASE, SPD_DEFAULT_LEASE_SECONDS, NULL,
     "TIME", "a daemon that is silent so long loses its plans to another one", NULL},
    {"max-store", OPTION_BYTES, MEMBER(max_store), 0, INT64_MAX, 0, NULL, "BYTES",
     "of all models; what no plan needs goes for new ones; 0: no limit", NULL},
    {"keep-plans", OPTION_SECONDS, MEMBER(keep_seconds), 0, MAX_SECONDS, SPD_DEFAULT_KEEP_SECONDS, NULL, "TIME",
     "a finished plan is deleted so long after; 0: never", NULL},

    {"workers", OPTION_COUNT, MEMBER(workers), 1, SPD_MAX_WORKERS, 0, NULL, "N", "plans that run at a time", "Working"},
    {"job-memory", OPTION_BYTES, MEMBER(job_memory), LEAST_MEMORY, INT64_MAX / 4, SPD_DEFAULT_JOB_MEMORY, NULL, "BYTES",
     "memory of one job beside the model file", NULL},
    {"job-seconds", OPTION_SECONDS, MEMBER(job_seconds), 1, MAX_JOB, SPD_DEFAULT_JOB_SECONDS, NULL, "TIME",
     "time of one job", NULL},
    {"max-queued-plans", OPTION_COUNT, MEMBER(max_queued_plans), 1, MAX_QUEUE, SPD_DEFAULT_QUEUED_PLANS, NULL, "N",
     "plans that wait, of all tenants", NULL},
    {"require-sandbox", OPTION_SWITCH, MEMBER(require_sandbox), 0, 0, 0, "no", "",
     "do not start where the kernel lacks a wall around the workers", NULL},
    {"tenant-plans", OPTION_COUNT, MEMBER(tenant_plans), 0, MAX_QUEUE, 0, NULL, "N",
     "plans of one tenant that wait and run; 0: no limit", NULL},
    {"tenant-models", OPTION_COUNT, MEMBER(tenant_models), 0, MAX_OBJECTS, 0, NULL, "N",
     "stored models of one tenant; 0: no limit", NULL},
    {"tenant-bytes", OPTION_BYTES, MEMBER(tenant_bytes), 0, INT64_MAX, 0, NULL, "BYTES",
     "of the stored models of one tenant; 0: no limit", NULL},
    {"tenant-weights", OPTION_WEIGHTS, MEMBER(tenant_weights), 1, SPD_MAX_WEIGHT, 0, "", "WEIGHTS",
     "shares of the workers where several tenants wait: TENANT=N ..; others have 1", NULL},

    {"shutdown-delay", OPTION_SECONDS, MEMBER(shutdown_delay_seconds), 0, MAX_LEASE, 0, NULL, "TIME",
     "from SIGTERM, when /readyz says so, to taking no more connections", "Life"},
    {"drain", OPTION_SECONDS, MEMBER(drain_seconds), 0, MAX_JOB, SPD_DEFAULT_DRAIN_SECONDS, NULL, "TIME",
     "how long running plans may then go on; then they are queued again", NULL},
    {"log-format", OPTION_FORMAT, MEMBER(log_json), 0, 0, 0, "text", "FORMAT",
     "text or json, one line per event on standard error", NULL},
    {"log-level", OPTION_LEVEL, MEMBER(log_level), 0, 0, 0, "info", "LEVEL", "debug, info, warning or error", NULL},
};

const struct option *option_find(const char *name, size_t size)
{
    for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
        if (strlen(config_options[i].name) == size && memcmp(config_options[i].name, name, size) == 0)
            return &config_options[i];
    }
    return NULL;
}

void option_variable(const struct option *option, char *ret, size_t size)
{
    (void)snprintf(ret, size, CONFIG_PREFIX "%s", option->name);
    for (char *c = ret; *c != '\0'; c++)
        *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
}
