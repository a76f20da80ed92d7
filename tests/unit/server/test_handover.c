/* The files of a job (jobs/handover.h): who can change a result, and what stays of one. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "jobs/handover.h"

static char folder[] = "/tmp/shardplan-handover-XXXXXX";
static struct handover *handover;

static char *path_of(const char *name)
{
    char *path = NULL;
    cr_assert_geq(asprintf(&path, "%s/%s", folder, name), 0);
    return path;
}

/* A new file, open for writing. */
static int make(const char *name)
{
    char *path = path_of(name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    free(path);
    return fd;
}

static bool is_there(const char *name)
{
    char *path = path_of(name);
    const bool there = access(path, F_OK) == 0;
    free(path);
    return there;
}

static void begin(void)
{
    struct problem problem = {0};
    cr_assert_not_null(mkdtemp(folder));
    handover = handover_create();
    cr_assert_not_null(handover);
    cr_assert(handover_add_result(handover, "result", path_of("a"), &problem), "%s", problem.detail);
}

static void end(void)
{
    handover_destroy(handover);
    cr_expect_eq(rmdir(folder), 0, "something was left");
}

TestSuite(handover, .init = begin, .fini = end);

/* What a worker has: a descriptor of its own for the file that the daemon gives. */
static int worker_has(void)
{
    int given;
    handover_descriptors(handover, &given);
    const int taken = fcntl(given, F_DUPFD_CLOEXEC, 0);
    cr_assert_geq(taken, 0);
    handover_given(handover);
    return taken;
}

Test(handover, a_result_is_sealed_when_nobody_can_write)
{
    cr_expect_not(handover_seal(handover), "it was not even given");
    const int worker = worker_has();
    cr_expect_eq(write(worker, "12345", 5), 5);
    cr_expect_not(handover_seal(handover));
    cr_expect_eq(close(worker), 0);
    cr_expect(handover_seal(handover));
    cr_expect_eq(handover->results[0].size, 5);
}

Test(handover, a_message_on_its_way_can_be_taken_up)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    char zero = '\0';
    struct iovec vector = {&zero, 1};
    struct msghdr message = {
        .msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    const int worker = worker_has();
    int ends[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    *CMSG_FIRSTHDR(&message) =
        (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &worker, sizeof worker);
    cr_assert_eq(sendmsg(ends[0], &message, 0), 1);
    cr_expect_eq(close(worker), 0);
    cr_expect_not(handover_seal(handover), "who receives it can write");
    (void)close(ends[0]);
    (void)close(ends[1]);
    cr_expect(handover_seal(handover));
}

Test(handover, the_next_attempt_has_files_of_its_own)
{
    struct problem problem = {0};
    const int first = worker_has();
    cr_expect_eq(write(first, "first", 5), 5);
    cr_assert(handover_renew(handover, &problem), "%s", problem.detail);
    const int second = worker_has();
    cr_expect_eq(write(first, "late", 4), 4);
    cr_expect_eq(close(second), 0);
    cr_expect(handover_seal(handover), "what the first attempt writes is no matter of this one");
    cr_expect_eq(handover->results[0].size, 0);
    (void)close(first);
}

Test(handover, a_file_of_that_name_is_not_taken)
{
    struct problem problem = {0};
    char *path = path_of("b");
    cr_assert_eq(symlink("a", path), 0);
    cr_expect_not(handover_add_result(handover, "other", path_of("b"), &problem));
    handover->result_count--; /* the link is not the handover's to remove */
    free(handover->results[1].path);
    cr_expect_eq(unlink(path), 0);
    free(path);
}

Test(handover, what_was_not_stored_goes)
{
    cr_expect(is_there("a"));
    handover_destroy(handover);
    handover = NULL;
    cr_expect_not(is_there("a"));
}

Test(handover, names_and_descriptors_in_one_order)
{
    int files[3];
    struct problem problem = {0};
    cr_assert(handover_add_result(handover, "second", path_of("b"), &problem));
    const int made = make("model");
    cr_expect_eq(write(made, "model", 5), 5);
    (void)close(made);
    cr_assert(handover_add_input(handover, "model", path_of("model")));
    cr_assert_eq(handover_count(handover), 3);
    handover_descriptors(handover, files);
    json_t *names = handover_names(handover);
    static const char *const wanted[] = {"model", "result", "second"};
    static const int modes[] = {O_RDONLY, O_WRONLY, O_WRONLY};
    for (size_t i = 0; i < 3; i++) {
        cr_expect_str_eq(json_string_value(json_array_get(names, i)), wanted[i]);
        cr_expect_eq(fcntl(files[i], F_GETFL) & O_ACCMODE, modes[i]);
    }
    json_decref(names);
    char *path = path_of("model");
    (void)unlink(path);
    free(path);
    cr_expect_not(handover_add_input(handover, "model", path_of("missing")));
}
