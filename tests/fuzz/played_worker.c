#include "played_worker.h"

#include <dlfcn.h>
#include <microhttpd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "jobs/crashes.h"

#define MAX_ACTORS 16

struct actor {
    uv_process_t *process; /* NULL: it has ended */
    int ends[3];           /* ours, of its standard input, output and error */
    bool spoken;           /* and dies, once that was read */
    int signal_number;     /* that it dies of; 0: it lives */
};

static struct {
    const uint8_t *texts, *end;
    unsigned count; /* texts that were taken */
    struct actor actors[MAX_ACTORS];
    uv_handle_t *closing[MAX_ACTORS];
    uv_close_cb closed[MAX_ACTORS];
    unsigned closing_count;
} play;

void played_begin(const uint8_t *texts, size_t size)
{
    memset(&play, 0, sizeof play);
    play.texts = texts;
    play.end = texts + size;
}

unsigned played_texts(void)
{
    return play.count;
}

static struct actor *actor_of(const uv_process_t *process)
{
    for (unsigned i = 0; i < MAX_ACTORS; i++) {
        if (play.actors[i].process == process)
            return &play.actors[i];
    }
    return NULL;
}

/* ---- in the place of libuv and of what a process leaves behind ---- */

int uv_spawn(uv_loop_t *loop, uv_process_t *process, const uv_process_options_t *options)
{
    struct actor *actor = actor_of(NULL);
    if (actor == NULL)
        return UV_EAGAIN;
    process->loop = loop;
    process->type = UV_PROCESS;
    process->flags = 0;
    process->exit_cb = options->exit_cb;
    process->pid = 0; /* /proc knows none of that number */
    *actor = (struct actor){.process = process};
    for (int i = 0; i < 3; i++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0 ||
            uv_pipe_open((uv_pipe_t *)options->stdio[i].data.stream, pair[0]) != 0)
            abort();
        actor->ends[i] = pair[1];
    }
    return 0;
}

int uv_process_kill(uv_process_t *process, int signal_number)
{
    struct actor *actor = actor_of(process);
    if (actor != NULL && signal_number == SIGKILL)
        actor->signal_number = signal_number;
    return 0;
}

void uv_close(uv_handle_t *handle, uv_close_cb closed)
{
    if (handle->type == UV_PROCESS) {
        if (play.closing_count == MAX_ACTORS)
            abort();
        handle->flags |= 1; /* what uv_is_closing() looks at */
        play.closing[play.closing_count] = handle;
        play.closed[play.closing_count++] = closed;
        return;
    }
    void (*real)(uv_handle_t *, uv_close_cb);
    *(void **)&real = dlsym(RTLD_NEXT, "uv_close");
    real(handle, closed);
}

void MHD_suspend_connection(struct MHD_Connection *connection)
{
    (void)connection;
}

void MHD_resume_connection(struct MHD_Connection *connection)
{
    (void)connection;
}

const union MHD_ConnectionInfo *MHD_get_connection_info(struct MHD_Connection *connection,
                                                        enum MHD_ConnectionInfoType type, ...)
{
    (void)connection;
    (void)type;
    return NULL;
}

void crashes_keep(const char *data, const struct crash *crash)
{
    if (data == NULL || crash->line == NULL || crash->words == NULL || crash->phase == NULL)
        abort();
}

/* ---- the play ---- */

static void write_all(int fd, const uint8_t *bytes, size_t size)
{
    if (size > 0)
        (void)!send(fd, bytes, size, MSG_NOSIGNAL); /* as much as the socket takes */
}

/* Says the next text. Without one it goes on working for ever. */
static void speak(struct actor *actor)
{
    if (play.texts == NULL || play.texts > play.end)
        return;
    size_t size = strnlen((const char *)play.texts, (size_t)(play.end - play.texts));
    const uint8_t *aside = memchr(play.texts, 1, size);
    size_t length = aside != NULL ? (size_t)(aside - play.texts) : size;
    write_all(actor->ends[1], play.texts, length);
    if (aside != NULL)
        write_all(actor->ends[2], aside + 1, size - length - 1);
    actor->spoken = size == 0 || play.texts[size - 1] != '\n';
    play.texts += size + 1;
    play.count++;
}

static void die(struct actor *actor)
{
    uv_process_t *process = actor->process;
    int signal_number = actor->signal_number != 0 ? actor->signal_number : SIGSEGV;
    process->exit_cb(process, 0, signal_number);
    for (int i = 0; i < 3; i++)
        (void)close(actor->ends[i]);
    actor->process = NULL;
}

static bool act(struct actor *actor)
{
    char job[16 * 1024];
    bool given = false;
    if (actor->signal_number != 0 || actor->spoken) {
        die(actor);
        return true;
    }
    while (recv(actor->ends[0], job, sizeof job, 0) > 0)
        given = true;
    if (given)
        speak(actor);
    return given;
}

bool played_step(void)
{
    bool moved = play.closing_count > 0;
    for (unsigned i = 0; i < play.closing_count; i++)
        play.closed[i](play.closing[i]);
    play.closing_count = 0;
    for (unsigned i = 0; i < MAX_ACTORS; i++) {
        if (play.actors[i].process != NULL)
            moved = act(&play.actors[i]) || moved;
    }
    return moved;
}

void played_end(void)
{
    for (unsigned i = 0; i < MAX_ACTORS; i++) {
        if (play.actors[i].process != NULL)
            abort(); /* it was forgotten */
    }
}
