#pragma once
/*
 * server_limits - every named limit of the daemon, in one place (those of the library are in core/base/limits.h).
 *
 * Nothing that a client or a worker sends may size a buffer, a table, a queue or a wait without one of these.
 */

/* What the daemon is told. */
#define SPD_MAX_CONFIG_BYTES (64u * 1024) /* the file of --config */
#define SPD_LOG_REPEATS      500          /* lines of one event in a second; more become a count */
#define SPD_HEARTBEAT_MS     10000u       /* /livez fails when the main loop has not turned for so long */
#define SPD_READY_MS         200u         /* between looks of /readyz at the store */
#define SPD_HEALTH_SECONDS   5            /* --healthcheck gives up */

/* Who may ask. */
#define SPD_MAX_TOKENS_BYTES (1u << 20) /* the file of tokens */
#define SPD_MAX_PRINCIPALS   2000u      /* in it */
#define SPD_MIN_TOKEN_BYTES  32u        /* of a token: shorter ones are not made by a machine */
#define SPD_MAX_TOKEN_BYTES  512u
#define SPD_MAX_SHARES       16u        /* parts of what tenants share (net/accounts.h) */
#define SPD_MAX_PEM_BYTES    (1u << 20) /* a file of certificates or a key */

/* HTTP. */
#define SPD_CONNECTION_BYTES      (256u * 1024) /* MHD's memory per connection: headers and the read buffer */
#define SPD_DEFAULT_CONNECTIONS   2048u         /* times SPD_CONNECTION_BYTES bounds the HTTP side's memory */
#define SPD_MAX_CONNECTIONS       20000u        /* what --max-connections may say */
#define SPD_SPARE_DESCRIPTORS     1024u         /* open files beside the connections: uploads, downloads, workers */
#define SPD_MIN_DESCRIPTORS       128u          /* with fewer the daemon does not start */
#define SPD_MAX_ADMIN_CONNECTIONS 64u           /* of --admin-listen, on top of the others */
#define SPD_PEER_SHARE            2u            /* one address may have this part of all connections: a half */
#define SPD_UNKNOWN_SHARE         2u   /* and those of whom nothing is known yet, where credentials are asked for */
#define SPD_MAX_PUSHED_OUT        256u /* connections that were pushed out and are not closed yet */
#define SPD_OWN_DESCRIPTORS       256u /* of SPD_SPARE_DESCRIPTORS: the daemon's own */
#define SPD_LISTEN_BACKLOG        511  /* connections that wait to be accepted */
#define SPD_HTTP_THREADS          4u   /* threads of the HTTP library's pool */
#define SPD_MAX_URI_BYTES         8192 /* request target */
#define SPD_MAX_JSON_BYTES        (256u * 1024) /* body of a JSON request; jansson takes up to 70 times as much */
#define SPD_MAX_SHARDING_BODY     (1u << 20)    /* body of a request about shardings; only workers look into it */
#define SPD_MAX_IGNORED_BODY      (64u * 1024)  /* body of a request that has no use for one */
#define SPD_MAX_REQUEST_ID        64            /* X-Request-Id that is echoed */
#define SPD_MAX_KEY_BYTES         255           /* Idempotency-Key */
#define SPD_MAX_MODEL_NAME        255           /* ?name= */
#define SPD_IDLE_SECONDS          30            /* silence on a connection */
#define SPD_HEADER_SECONDS        15            /* from connect, or the last answer, to a complete header */
#define SPD_SLOW_BODY_SECONDS     30            /* after that a body must have come at SPD_SLOW_BODY_RATE on average */
#define SPD_SLOW_BODY_RATE        1024          /* bytes per second */
#define SPD_BODY_SECONDS          21600u       /* a body that comes evenly is taken for so long: it must keep that up */
#define SPD_RATE_SECONDS          45           /* the window in which the rate of bodies and answers is measured */
#define SPD_MAX_HEADERS           100u         /* of one request */
#define SPD_MAX_HEADER_BYTES      (32u * 1024) /* request line and headers together */
#define SPD_CERTIFICATE_LOOK_MS   2000u        /* between looks whether certificate or key have changed */
#define SPD_MAX_WAIT_SECONDS      60           /* Prefer: wait */
#define SPD_LINGER_SECONDS        2            /* reading on after an early refusal, so that the answer arrives */
#define SPD_LINGER_BYTES          (256u << 20) /* and how much of it: reading and dropping is cheap, the time is the limit */
#define SPD_MAX_LINGERING         64           /* connections at a time in that state */
#define SPD_DEFAULT_MAX_UPLOAD    (16ull << 30) /* bytes of one uploaded model */
#define SPD_MAX_TABLE_BYTES       (8u << 20)    /* the table of operators as an answer */
#define SPD_MAX_PAGE              500           /* items of one page */
#define SPD_DEFAULT_PAGE          50
#define SPD_MAX_LOOKED_AT         5000         /* rows that are looked at for one page with a filter */
#define SPD_SENT_BYTES            (256u << 20) /* of answers on their way that are held in memory, */
#define SPD_MIN_SENT_BYTES        (64u * 1024) /* without smaller ones */
#define SPD_BODIES_BYTES          (128u << 20) /* of bodies that are held in memory */
#define SPD_ANSWERS_BYTES         (32u << 20)  /* of finished plans that are kept in memory as they are sent */
#define SPD_MAX_ANSWER_BYTES      (2u << 20)   /* of one of them */
#define SPD_SHEETS_BYTES          (256u << 20) /* of indexes of plans (core/index) in memory, those in use included */
#define SPD_MAX_INDEXES           512u         /* that are kept */
#define SPD_MAX_SLICE_BYTES       (64u << 20)  /* an answer made of an index */
#define SPD_TABLE_PAGE_BYTES      (4u << 20)   /* a page of a plan's table ends earlier when it is larger */
#define SPD_DEFAULT_TABLE_PAGE    100          /* rows of one */
#define SPD_DEFAULT_BOXES         200u         /* of a graph, */
#define SPD_DEFAULT_LANES         64u          /* of a timeline, */
#define SPD_DEFAULT_POINTS        1000u        /* of memory in the course of a request */
#define SPD_MAX_INDEX_LINE        (64u * 1024) /* what a list of plans reads of an index */
#define SPD_READ_BLOCK            (64u * 1024) /* bytes per read of a streamed answer */

/* Uploads by parts. */
#define SPD_MAX_TENANT_UPLOADS  256u                 /* of one tenant at a time */
#define SPD_UPLOAD_KEEP_MS      (24ll * 3600 * 1000) /* one expires after that, */
#define SPD_UPLOAD_RATE         (64ll * 1024)        /* and the time that its bytes take at so many per second */
#define SPD_UPLOAD_THREADS      2u                   /* that compare complete ones with their digests, */
#define SPD_UPLOAD_BLOCK        ((size_t)1 << 20)    /* reading so much at a time */
#define SPD_MAX_MODEL_FILES     4096u                /* beside one model, */
#define SPD_MAX_LOCATION        1024                 /* whose locations have so many bytes at most */
#define SPD_MAX_SOURCE_URL      1024u                /* where a model is */
#define SPD_MAX_SOURCES         64u                  /* entries of --model-sources */
#define SPD_FETCH_THREADS       8u                   /* that fetch files which a reference names, */
#define SPD_FETCHES_AT_ONCE     2u                   /* so many of them for one tenant, */
#define SPD_MAX_FETCHES         64u                  /* of which so many may wait or run */
#define SPD_FETCH_MS            60000                /* a file may take that, */
#define SPD_FETCH_RATE          (64ll * 1024)        /* and the time that its bytes take at so many per second */
#define SPD_MAX_REFERENCE_BYTES 4096u                /* of a body that says where a model is */

/* Compressed bodies and answers. */
#define SPD_MAX_CODINGS      2u           /* in one Content-Encoding */
#define SPD_CODING_BLOCK     (64u * 1024) /* bytes that a decoder hands on at a time */
#define SPD_WINDOW_LOG       23           /* of zstd frames that are read: 8 MiB, as RFC 9659 says */
#define SPD_MAX_RATIO        250u         /* bytes that come out for each that came in, */
#define SPD_RATIO_FREE_BYTES (64u << 20)  /* beyond so many */
#define SPD_MAX_DECODERS     48u          /* at a time; each may hold SPD_MAX_CODINGS windows */
#define SPD_MAX_ENCODERS     64u          /* at a time; more answers are sent as they are */
#define SPD_MIN_CODED_BYTES  1024u        /* of an answer: smaller ones are not compressed */
#define SPD_ZSTD_LEVEL       3
#define SPD_GZIP_LEVEL       6

#define SPD_TRIM_MS      3000u       /* between looks whether memory is to be given back to the system, */
#define SPD_TRIM_BYTES   (16u << 20) /* which it is after so many bytes of JSON */
#define SPD_JSON_RESERVE (1u << 20)  /* what reading and writing JSON goes on with when memory runs out */

/* Jobs. */
#define SPD_DEFAULT_QUEUED_PLANS  1000u   /* accepted and not started; more are answered 503 */
#define SPD_MAX_WAITING_ERRANDS   64u     /* requests of one tenant that wait for a worker; more are answered 429 */
#define SPD_QUANTUM_US            100000u /* of a worker that a tenant of weight 1 gets in a round (jobs/schedule.h) */
#define SPD_ERRANDS_PER_PLAN      4u      /* errands of a tenant that may go before a plan of its own */
#define SPD_MAX_ACCOUNTS          4096u   /* tenants that the schedule knows */
#define SPD_MAX_OFFERED           2048u   /* tenants with queued plans that are looked at together */
#define SPD_SPARE_WORKERS         2u      /* worker processes beside --workers: one for each class of errands */
#define SPD_MAX_WEIGHT            100u    /* of a tenant */
#define SPD_MAX_CRASHES           2       /* workers that may die over one job before it fails */
#define SPD_MAX_ATTEMPTS          20      /* starts of one job, restarts of the daemon included */
#define SPD_MAX_VERIFY_FILES      512u    /* beside the models of one question, whose weights are compared */
#define SPD_MAX_FILES_BESIDE      1024u   /* of both, of all verify requests, that are open; more are answered 503 */
#define SPD_MAX_WORKERS           64
#define SPD_MAX_HELD              (2 * SPD_MAX_WORKERS) /* plans that run, or ended and the store does not know yet */
#define SPD_DEFAULT_JOB_MEMORY    (2ull << 30)          /* bytes: the graph, its shapes and the search */
#define SPD_DEFAULT_JOB_SECONDS   300u
#define SPD_SHARDING_SECONDS      30u   /* of one convert or reshard request, when jobs may take longer */
#define SPD_JOB_GRACE_SECONDS     5u    /* a worker that is silent so long after its time budget is killed */
#define SPD_STORE_RETRY_MS        1000u /* between attempts at a store that refused or is away */
#define SPD_DEFAULT_DRAIN_SECONDS 10u   /* how long SIGTERM lets running jobs finish before they are queued again */
#define SPD_DEFAULT_LEASE_SECONDS 15u   /* a daemon that is silent so long loses its plans */
#define SPD_DEFAULT_KEEP_SECONDS  (30u * 86400) /* a finished plan is deleted so long after */
#define SPD_RETRY_AFTER_SECONDS   5u            /* what Retry-After says */
#define SPD_CANCEL_GRACE_MS       5000u         /* a worker that was asked to stop and does not is killed after that */
#define SPD_RESULT_SHARE          10u           /* a part of --job-seconds, one in ten, is left for writing results */
#define SPD_MAX_RESULT_SECONDS    10u           /* but at most so much of it */
#define SPD_CLAIM_MS              1000u         /* between looks for queued plans of which nobody told */
#define SPD_HEARD_MS              25u           /* a plan that another daemon queued is left to it so long, */
#define SPD_HEARD_SPREAD_MS       100u          /* and up to so much longer, each daemon for a time of its own */
#define SPD_MAX_HEARD             4096u         /* such plans; with more, the queue is looked at */
#define SPD_MAX_UNENDED           4096u         /* reservations of files that the store could not be told to end */
#define SPD_MAX_LOOKS             4096u         /* changes of plans that are looked at singly; with more, at all */

/* Events. */
#define SPD_EVENT_RING        64    /* events of a plan that are kept for clients that come back */
#define SPD_EVENT_INTERVAL_MS 500u  /* between events of progress in one phase */
#define SPD_EVENT_RETRY_MS    2000  /* after that a client that lost its stream comes back */
#define SPD_HEARTBEAT_SECONDS 15u   /* of silence on a stream, then a comment is sent */
#define SPD_STREAM_SHARE      2u    /* streams may be this part of the connections: a half */
#define SPD_STREAM_BYTES      2048u /* the library's buffer for what is read from a stream */

/* The store. */
#define SPD_STORE_PATIENCE_MS  2000u        /* a call gives up when the server of the store is silent so long */
#define SPD_STORE_OPEN_MS      10000u       /* at start it may be away so long */
#define SPD_STORE_MIGRATE_MS   600000u      /* bringing the schema up to date may take so long */
#define SPD_STORE_CONNECTIONS  8u           /* to PostgreSQL, beside the one that listens */
#define SPD_KEEP_KEY_SECONDS   (24u * 3600) /* an Idempotency-Key is remembered so long */
#define SPD_TOUCH_MS           60000        /* a download marks a model as used when it was not for so long */
#define SPD_MAX_EVICTED        4096u        /* unused models that are looked at to make room for one */
#define SPD_MAX_SUBMISSIONS    32u          /* of one request, when its plan is deleted before the answer; */
#define SPD_WAITED_SUBMISSIONS 8u           /* those that are waited for */
#define SPD_MAX_EVICTIONS      4            /* looks at what can be evicted for one model, the last one included */
#define SPD_MAX_ROOM_LOOKS     8u           /* at what is stored and reserved, while both change */
#define SPD_BEAT_MS            1000u        /* between renewals of leases; less than a third of --lease-seconds */
#define SPD_EXPIRE_MS          60000u       /* between looks for plans that are kept no longer */
#define SPD_EXPIRE_BATCH       200          /* of which so many go at a time */
#define SPD_STORE_STOP_MS      5000u        /* a daemon that ends tells the store for so long how its plans ended */
#define SPD_PROGRESS_MS        1000u        /* between what the store is told of a running plan */
#define SPD_SWEEP_MS           3600000u     /* between sweeps of a shared data folder */
#define SPD_SWEEP_RETRY_MS     30000u       /* until the next one when the object store did not answer */

/* What is stored is checked. */
#define SPD_CHECK_WHOLE_BYTES   (16u << 20) /* a model up to this size is read whole before a worker gets it */
#define SPD_DEFAULT_QUARANTINE  (1ull << 30)
#define SPD_DEFAULT_SCRUB_RATE  (8ull << 20) /* bytes in a second that are read although nobody asks */
#define SPD_SCRUB_ROUND_SECONDS 86400        /* from the beginning of one round to the next, */
#define SPD_SCRUB_AGE_SECONDS   43200        /* which leaves out what was read so late; */
#define SPD_SCRUB_RETRY_SECONDS 600          /* and when another daemon is at it, or something is away */
#define SPD_SCRUB_BATCH         4096u        /* files that are looked for at a time */

/* The object store. */
#define SPD_DEFAULT_BLOB_CACHE     (16ull << 30) /* bytes of copies in the data folder */
#define SPD_MAX_OBJECT_KEY         191u          /* below the prefix */
#define SPD_MAX_RESULT_LIST        1024u         /* what a row says of the files of its plan */
#define SPD_BLOB_THREADS           8u            /* that wait for it, or read models whole */
#define SPD_BLOB_LOOK_MS           5000u         /* between looks whether it answers */
#define SPD_FETCH_RETRY_MS         5000u         /* between attempts to get the model of a plan */
#define SPD_MAX_S3_KEY             128u          /* an access key id, and a secret */
#define SPD_MAX_S3_TOKEN           8192u         /* the token of a session or of a web identity */
#define SPD_MAX_S3_URL             4096u
#define SPD_MAX_S3_ANSWER          (4u << 20)    /* text of an answer; a list of 1000 keys has half a megabyte */
#define SPD_S3_HANDLES             16u           /* connections that are kept */
#define SPD_S3_BLOCK               (256u * 1024) /* of a transfer */
#define SPD_S3_CONNECT_MS          5000u
#define SPD_S3_LEAST_RATE          1024u /* bytes in a second; a transfer that is slower for */
#define SPD_S3_SILENCE_SECONDS     20u   /* so long is given up */
#define SPD_S3_WORK_SECONDS        300u  /* the same where the server copies, or makes an object of parts */
#define SPD_S3_RETRIES             6u    /* of one request, */
#define SPD_S3_PAUSE_MS            200u  /* at most before the first, doubled before each that follows, up to */
#define SPD_S3_MAX_PAUSE_MS        20000u
#define SPD_S3_RETRY_BUDGET        500u          /* of all requests together; */
#define SPD_S3_RETRY_COST          5u            /* a retry takes so much of it, and a success gives one back */
#define SPD_S3_RESUMES             100u          /* requests that one download may take when they break */
#define SPD_S3_PART_BYTES          (16ull << 20) /* a larger object is sent in parts, */
#define SPD_S3_PARTS_AT_ONCE       4u            /* so many at a time, of all uploads together; */
#define SPD_S3_MAX_COPY            (5ull << 30)  /* the server copies no more */
#define SPD_S3_FORGOTTEN_MS        86400000      /* an upload that is so old has no daemon that sends it */
#define SPD_S3_MAX_PARTS           10000u        /* at most so many */
#define SPD_S3_FILE_SECONDS        300           /* a file of credentials is read again so often */
#define SPD_S3_RENEW_SECONDS       300           /* a session is renewed so long before it ends, */
#define SPD_S3_RENEW_RETRY_SECONDS 30            /* and so much later when that failed */

/* Worker processes. */
#define SPD_MAX_LINE_BYTES       (1u << 20)    /* one line of the worker protocol, either way */
#define SPD_MAX_JOB_FILES        1032u         /* that a job is handed: 512 models, files beside them, and its answer */
#define SPD_MAX_WORKER_LINE      (32u * 1024)  /* one that a worker sends: a problem is the longest */
#define SPD_WORKER_RECYCLE_BYTES (48ull << 20) /* a worker that stays larger than this after a job is replaced */
#define SPD_MAX_WORKER_WORDS     (64u * 1024)  /* of what one writes to standard error over a job */
#define SPD_MAX_CRASH_REPORTS    20u           /* kept in DATA/crashes; the oldest goes first */
#define SPD_PROGRESS_INTERVAL_MS 100           /* between progress lines */
#define SPD_KEPT_WORKERS         12u           /* idle ones beside those that may have a job (pool.h) */
#define SPD_KEPT_BYTES           (24ull << 20) /* one of these that stays larger than this ends */
#define SPD_KEPT_MS              60000         /* and when it was idle so long */
#define SPD_WORKER_RESPAWN_MS    500           /* pause before a worker that died idle is replaced */
#define SPD_ADDRESS_SPACE_SLACK  (256ull << 20) /* code, stacks and libraries on top of file and budget */
#define SPD_MAX_RESULT_BYTES     (4ull << 30)   /* one file that a worker writes */
#define SPD_MAX_TEXT_BYTES       (64u << 20)    /* an answer as text */
#define SPD_MADE_BYTES           (64u << 20)    /* what a worker adds to a model: so much, and */
#define SPD_MADE_PER_BYTE        8u             /* for each byte of the model so many, up to SPD_SENT_BYTES */

/* Disk. */
#define SPD_MIN_FREE_BYTES  (64ull << 20) /* below that the daemon is not ready */
#define SPD_WRITEBACK_BYTES (32ull << 20) /* an upload's pages are sent to the disk after so many bytes */
