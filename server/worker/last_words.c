#include "worker/last_words.h"

#include <execinfo.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "util/sanitized.h"

#define MAX_FRAMES 64

#if !SPD_SANITIZED

static void say(const char *text)
{
    (void)!write(STDERR_FILENO, text, strlen(text)); /* there is nobody to tell that it failed */
}

static void say_number(uint64_t value, unsigned base)
{
    static const char digits[] = "0123456789abcdef";
    char text[24];
    size_t at = sizeof text;
    text[--at] = '\0';
    do {
        text[--at] = digits[value % base];
        value /= base;
    } while (value > 0);
    say(text + at);
}

/* Only what may be called in a handler of signals: backtrace() may since it was called once before. */
static void fault(int signal_number, siginfo_t *info, void *context)
{
    void *frames[MAX_FRAMES];
    (void)context;
    say("died of signal ");
    say_number((uint64_t)signal_number, 10);
    if (info->si_code <= 0) {
        say(" that a process sent");
    } else {
        say(" at address 0x");
        say_number((uint64_t)(uintptr_t)info->si_addr, 16);
    }
    say("\n");
    backtrace_symbols_fd(frames, backtrace(frames, MAX_FRAMES), STDERR_FILENO);
    (void)raise(signal_number); /* the handler is gone: SA_RESETHAND */
}

void last_words_set_up(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
    static unsigned char stack[64 * 1024];
    void *frames[MAX_FRAMES];
    (void)backtrace(frames, MAX_FRAMES); /* loads the library that knows how */
    if (sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL) != 0)
        return;
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction action = {.sa_sigaction = fault,
                                   .sa_flags = SA_SIGINFO | SA_ONSTACK | (int)SA_RESETHAND | SA_NODEFER};
        (void)sigaction(signals[i], &action, NULL);
    }
}

#else

void last_words_set_up(void)
{
}

#endif
