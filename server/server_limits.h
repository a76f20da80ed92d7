#pragma once
/*
 * server_limits - every named limit of the daemon, in one place (those of the library are in core/base/limits.h).
 *
 * Nothing that a client or a worker sends may size a buffer, a table, a queue or a wait without one of these.
 */

/* HTTP. */
#define SPD_CONNECTION_BYTES   (256u * 1024) /* MHD's memory per connection: headers and the read buffer */
#define SPD_MAX_CONNECTIONS    128u          /* times SPD_CONNECTION_BYTES bounds the HTTP side's memory */
#define SPD_HTTP_THREADS       4u            /* threads of the HTTP library's pool */
#define SPD_MAX_URI_BYTES      8192          /* request target */
#define SPD_MAX_JSON_BYTES     (256u * 1024) /* body of a JSON request; jansson takes up to 70 times as much */
#define SPD_MAX_SHARDING_BODY  (1u << 20)    /* body of a request about shardings; only workers look into it */
#define SPD_MAX_IGNORED_BODY   (64u * 1024)  /* body of a request that has no use for one */
#define SPD_MAX_REQUEST_ID     64            /* X-Request-Id that is echoed */
#define SPD_MAX_KEY_BYTES      255           /* Idempotency-Key */
#define SPD_MAX_MODEL_NAME     255           /* ?name= */
#define SPD_IDLE_SECONDS       30            /* silence on a connection */
#define SPD_HEADER_SECONDS     15            /* from connect, or the last answer, to a complete header */
#define SPD_SLOW_BODY_SECONDS  30            /* after that a body must have come at SPD_SLOW_BODY_RATE on average */
#define SPD_SLOW_BODY_RATE     1024          /* bytes per second */
#define SPD_MAX_WAIT_SECONDS   60            /* Prefer: wait */
#define SPD_LINGER_SECONDS     2             /* reading on after an early refusal, so that the answer arrives */
#define SPD_LINGER_BYTES       (256u << 20) /* and how much of it: reading and dropping is cheap, the time is the limit */
#define SPD_MAX_LINGERING      32           /* connections at a time in that state */
#define SPD_DEFAULT_MAX_UPLOAD (16ull << 30) /* bytes of one uploaded model */
#define SPD_MAX_TABLE_BYTES    (8u << 20)    /* the table of operators as an answer */
#define SPD_MAX_PAGE           500           /* items of one page */
#define SPD_DEFAULT_PAGE       50
#define SPD_MAX_LOADED_SPLICES (256u << 20) /* bytes of splices that downloads hold in memory together */
#define SPD_READ_BLOCK         (64u * 1024) /* bytes per read of a streamed answer */

/* Jobs. */
#define SPD_MAX_QUEUED_PLANS    1000u /* accepted and not started; more are answered 503 */
#define SPD_MAX_WAITING_TASKS   64u   /* requests that wait for a worker; more are answered 503 */
#define SPD_MAX_CRASHES         2     /* workers that may die over one job before it fails */
#define SPD_MAX_ATTEMPTS        20    /* starts of one job, restarts of the daemon included */
#define SPD_MAX_WORKERS         64
#define SPD_DEFAULT_JOB_MEMORY  (2ull << 30) /* bytes: the graph, its shapes and the search */
#define SPD_DEFAULT_JOB_SECONDS 300u
#define SPD_SHARDING_SECONDS    30u   /* of one convert or reshard request, when jobs may take longer */
#define SPD_JOB_GRACE_SECONDS   5u    /* a worker that is silent so long after its time budget is killed */
#define SPD_STORE_RETRY_MS      1000u /* between attempts to tell a full disk how a plan ended */
#define SPD_DRAIN_SECONDS       10u   /* how long SIGTERM lets running jobs finish before they are queued again */
#define SPD_RETRY_AFTER_SECONDS 5u    /* what Retry-After says */

/* Worker processes. */
#define SPD_MAX_LINE_BYTES       (1u << 20)     /* one line of the worker protocol, either way */
#define SPD_WORKER_RECYCLE_BYTES (48ull << 20)  /* a worker that stays larger than this after a job is replaced */
#define SPD_PROGRESS_INTERVAL_MS 100            /* between progress lines */
#define SPD_WORKER_RESPAWN_MS    500            /* pause before a worker that died idle is replaced */
#define SPD_ADDRESS_SPACE_SLACK  (256ull << 20) /* code, stacks and libraries on top of file and budget */
#define SPD_MAX_RESULT_BYTES     (4ull << 30)   /* one file that a worker writes */
#define SPD_MAX_TEXT_BYTES       (64u << 20)    /* an answer as text */

/* Disk. */
#define SPD_MIN_FREE_BYTES  (64ull << 20) /* below that the daemon is not ready */
#define SPD_WRITEBACK_BYTES (32ull << 20) /* an upload's pages are sent to the disk after so many bytes */
