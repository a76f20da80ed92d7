#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "auth/auth.h"
#include "base/arena.h"
#include "config/config.h"
#include "faults/faults.h"
#include "life/life.h"
#include "server_limits.h"
#include "util/json_memory.h"
#include "util/text.h"
#include "worker/worker.h"

/* At once: what else runs at the end of a program, as a sanitizer's look for leaks, wants more than the sandbox lets
   pass. */
static _Noreturn void end_locked_up(int status)
{
    (void)fflush(NULL);
    _exit(status);
}

/* --replay JOB [OPTION]...: of the options only --data matters. */
static _Noreturn void replay(int argc, char **argv)
{
    struct config config;
    const char *job = argv[2];
    argv[2] = argv[0];
    int status = config_read(argc - 2, argv + 2, &config) == CONFIG_RUN ? worker_replay(config.data, job) : 2;
    config_release(&config);
    end_locked_up(status);
}

int main(int argc, char **argv)
{
    const bool is_worker = argc == 4 && strcmp(argv[1], "--worker") == 0;
    sp_arena_set_up_process();
    faults_set_up(is_worker);
    json_memory_set_up();
    if (is_worker) {
        int64_t parent, memory;
        const bool is_told = text_to_int(argv[2], 1, INT32_MAX, &parent) && text_to_int(argv[3], 1, INT64_MAX, &memory);
        end_locked_up(is_told ? worker_main((long)parent, (uint64_t)memory) : 2);
    }
    if (argc >= 2 && strcmp(argv[1], "token") == 0)
        return auth_token_command(argc - 1, argv + 1);
    if (argc >= 3 && strcmp(argv[1], "--replay") == 0)
        replay(argc, argv);
    struct config config;
    int status = 2;
    switch (config_read(argc, argv, &config)) {
    case CONFIG_RUN:
        status = life_serve(&config);
        break;
    case CONFIG_CHECK:
        status = life_check(&config);
        break;
    case CONFIG_HEALTH:
        status = life_health(&config);
        break;
    case CONFIG_DONE:
        status = 0;
        break;
    case CONFIG_WRONG:
        break;
    }
    config_release(&config);
    return status;
}
