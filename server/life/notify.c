#include "life/notify.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "observe/log.h"
#include "server.h"
#include "util/text.h"

struct notify {
    int fd;
    struct sockaddr_un address;
    socklen_t address_size;
    uint64_t watchdog_ms; /* between signs of life; 0: none are wanted */
    uint64_t told_ms;
    char status[200];
};

/* A path, or with '@' in front a name in Linux' abstract space. */
static bool take_address(struct notify *notify, const char *text)
{
    size_t size = strlen(text);
    if ((text[0] != '/' && text[0] != '@') || size < 2 || size >= sizeof notify->address.sun_path)
        return false;
    notify->address.sun_family = AF_UNIX;
    memcpy(notify->address.sun_path, text, size);
    notify->address_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size + (text[0] == '/'));
    if (text[0] == '@')
        notify->address.sun_path[0] = '\0';
    return true;
}

/* The watchdog may be meant for another process of the service. */
static uint64_t watchdog_interval(void)
{
    const char *text = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    int64_t microseconds, process;
    if (text == NULL || !text_to_int(text, 2000, INT64_MAX / 2, &microseconds))
        return 0;
    if (pid != NULL && (!text_to_int(pid, 1, INT32_MAX, &process) || process != getpid()))
        return 0;
    return (uint64_t)microseconds / 2000;
}

struct notify *notify_create(void)
{
    const char *socket_name = getenv("NOTIFY_SOCKET");
    struct notify *notify = socket_name != NULL ? calloc(1, sizeof *notify) : NULL;
    if (notify != NULL) {
        notify->fd = -1;
        if (take_address(notify, socket_name))
            notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        notify->watchdog_ms = watchdog_interval();
        if (notify->fd < 0) {
            LOG(LOG_WARNING, "service manager not told: NOTIFY_SOCKET is not usable");
            free(notify);
            notify = NULL;
        }
    }
    (void)unsetenv("NOTIFY_SOCKET");
    (void)unsetenv("WATCHDOG_USEC");
    (void)unsetenv("WATCHDOG_PID");
    return notify;
}

void notify_destroy(struct notify *notify)
{
    if (notify == NULL)
        return;
    (void)close(notify->fd);
    free(notify);
}

static void tell(struct notify *notify, const char *text)
{
    if (sendto(notify->fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&notify->address,
               notify->address_size) < 0)
        LOG(LOG_DEBUG, "service manager not told", log_s("message", text));
}

void notify_ready(struct notify *notify)
{
    if (notify != NULL)
        tell(notify, "READY=1");
}

void notify_reloading(struct notify *notify)
{
    char text[64];
    if (notify == NULL)
        return;
    (void)snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, server_now_us());
    tell(notify, text);
}

void notify_stopping(struct notify *notify)
{
    if (notify != NULL)
        tell(notify, "STOPPING=1");
}

void notify_status(struct notify *notify, const char *format, ...)
{
    static const char head[] = "STATUS=";
    char text[sizeof notify->status];
    va_list args;
    if (notify == NULL)
        return;
    memcpy(text, head, sizeof head);
    va_start(args, format);
    (void)vsnprintf(text + sizeof head - 1, sizeof text - sizeof head + 1, format, args);
    va_end(args);
    if (strcmp(text, notify->status) == 0)
        return;
    memcpy(notify->status, text, sizeof text);
    tell(notify, text);
}

void notify_alive(struct notify *notify, uint64_t now_ms)
{
    if (notify == NULL || notify->watchdog_ms == 0 ||
        (notify->told_ms != 0 && now_ms - notify->told_ms < notify->watchdog_ms))
        return;
    notify->told_ms = now_ms;
    tell(notify, "WATCHDOG=1");
}
