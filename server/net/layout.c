#include "net/layout.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Set once before the first request. */
static atomic_bool looked_into;

struct walk {
    uintptr_t next; /* where the next header's name must begin */
    bool sound;
};

/* What was a line end in front of this place, of which it is known that it lies in the buffer. */
static bool behind_line_end(uintptr_t place)
{
    const char *text = (const char *)place;
    return text[-2] == '\0' && text[-1] == '\0';
}

static enum MHD_Result step(void *context, enum MHD_ValueKind kind, const char *key, size_t key_size, const char *value,
                            size_t value_size)
{
    (void)kind;
    struct walk *walk = context;
    uintptr_t name = (uintptr_t)key, text = (uintptr_t)value;
    if (name != walk->next || !behind_line_end(name) || value == NULL || text <= name + key_size) {
        walk->sound = false;
        return MHD_NO;
    }
    walk->next = text + value_size + 2;
    return MHD_YES;
}

static bool lines_are_sound(struct MHD_Connection *connection, const struct layout *layout)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    uintptr_t method = (uintptr_t)layout->method, target = (uintptr_t)layout->target,
              version = (uintptr_t)layout->version;
    if (info == NULL || target != method + strlen(layout->method) + 1 || version != target + layout->target_size + 1)
        return false;
    struct walk walk = {.next = version + strlen(layout->version) + 2, .sound = true};
    (void)MHD_get_connection_values_n(connection, MHD_HEADER_KIND, step, &walk);
    return walk.sound && method + info->header_size == walk.next + 2 && behind_line_end(walk.next) &&
           behind_line_end(walk.next + 2);
}

bool layout_is_sound(struct MHD_Connection *connection, const struct layout *layout)
{
    return !atomic_load_explicit(&looked_into, memory_order_relaxed) || lines_are_sound(connection, layout);
}

/* ---- the trial ---- */

enum outcome {
    OUTCOME_REFUSED, /* by the library, before anything was asked of us */
    OUTCOME_SOUND,
    OUTCOME_UNSOUND,
};

struct trial {
    struct layout layout;
    enum outcome outcome;
};

static void *trial_arrives(void *context, const char *target, struct MHD_Connection *connection)
{
    (void)connection;
    struct trial *trial = context;
    trial->layout.target = target;
    trial->layout.target_size = target != NULL ? strlen(target) : 0;
    return trial;
}

static enum MHD_Result trial_access(void *context, struct MHD_Connection *connection, const char *url,
                                    const char *method, const char *version, const char *upload_data,
                                    size_t *upload_data_size, void **request_context)
{
    (void)url;
    (void)upload_data;
    (void)request_context;
    *upload_data_size = 0;
    struct trial *trial = context;
    trial->layout.method = method;
    trial->layout.version = version;
    trial->outcome = lines_are_sound(connection, &trial->layout) ? OUTCOME_SOUND : OUTCOME_UNSOUND;
    return MHD_NO; /* that is all we wanted to know */
}

int layout_strictness(void)
{
    return strtol(MHD_get_version(), NULL, 10) >= 1 ? 1 : 0;
}

static enum outcome try_request(const char *text)
{
    struct trial trial = {.outcome = OUTCOME_REFUSED};
    struct sockaddr_un nobody = {.sun_family = AF_UNIX};
    int ends[2];
    struct MHD_Daemon *daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL, trial_access,
                                                 &trial, MHD_OPTION_URI_LOG_CALLBACK, trial_arrives, &trial,
                                                 MHD_OPTION_STRICT_FOR_CLIENT, layout_strictness(), MHD_OPTION_END);
    if (daemon == NULL)
        return OUTCOME_REFUSED;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0) {
        size_t size = strlen(text);
        if (send(ends[0], text, size, MSG_NOSIGNAL) == (ssize_t)size &&
            MHD_add_connection(daemon, ends[1], (const struct sockaddr *)&nobody, sizeof nobody) == MHD_YES) {
            for (int i = 0; i < 4; i++)
                (void)MHD_run(daemon);
        }
        (void)close(ends[0]); /* the other one is the library's */
    }
    MHD_stop_daemon(daemon);
    return trial.outcome;
}

bool layout_learn(void)
{
    static const char *const unsound[] = {
        "GET /x HTTP/1.1\nHost: a\r\nAccept: b\r\n\r\n",    "GET /x HTTP/1.1\r\nHost: a\nAccept: b\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: a\r\nAccept: b\n\r\n",    "GET /x HTTP/1.1\r\nHost: a\r\nAccept: b\r\n\n",
        "GET /x HTTP/1.1\r\nHost: a\r\n c\r\nX: b\r\n\r\n", "GET  /x HTTP/1.1\r\nHost: a\r\nAccept: b\r\n\r\n",
    };
    bool sound = try_request("GET /x?y=z&a HTTP/1.1\r\nHost: a\r\nAccept:\t  b \r\nX-Empty:\r\n\r\n") == OUTCOME_SOUND;
    bool told_apart = true;
    for (size_t i = 0; i < sizeof unsound / sizeof unsound[0]; i++)
        told_apart = told_apart && try_request(unsound[i]) != OUTCOME_SOUND;
    atomic_store(&looked_into, sound);
    return told_apart;
}
