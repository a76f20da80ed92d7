/* Looking signatures up: in the table that the build makes, and among the entries that state their own. */
#include "ops/table/signature.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"
#include "ops/table/signature_internal.h"
#include "ops/table/signature_table.h"

/* Entries with a signature of their own; built once, by whoever asks first, and read-only from then on. */
static pthread_once_t built = PTHREAD_ONCE_INIT;
static struct sp_arena *memory; /* of the process, as the table is */
static struct sp_signature *stated;
static uint32_t stated_count;

static int compare_names(const char *domain, const char *name, const struct sp_signature *signature)
{
    int order = strcmp(domain, signature->domain);
    return order != 0 ? order : strcmp(name, signature->name);
}

static int compare_signatures(const void *a, const void *b)
{
    const struct sp_signature *left = a, *right = b;
    int order = compare_names(left->domain, left->name, right);
    return order != 0 ? order : (left->since > right->since) - (left->since < right->since);
}

static void build(void)
{
    uint32_t count;
    const struct sp_op *const *ops = sp_op_all(&count);
    memory = sp_arena_create(NULL);
    stated = memory == NULL ? NULL : SP_NEW_ARRAY(memory, count, struct sp_signature);
    for (uint32_t i = 0; stated != NULL && i < count; i++) {
        if (ops[i]->signature != NULL && sp_signature_parse(ops[i], memory, &stated[stated_count]))
            stated_count++;
    }
    if (stated != NULL)
        qsort(stated, stated_count, sizeof *stated, compare_signatures);
}

/* The first of the sorted signatures that is not before (domain, name). */
static uint32_t lower_bound(const struct sp_signature *all, uint32_t count, const char *domain, const char *name)
{
    uint32_t at;
    SP_LOWER_BOUND(at, count, compare_names(domain, name, &all[at]) > 0);
    return at;
}

const struct sp_signature *sp_signature_find(const char *domain, const char *name, int64_t version)
{
    (void)pthread_once(&built, build);
    domain = sp_op_domain(domain);
    const bool is_published = sp_signature_domain(domain);
    const struct sp_signature *all = is_published ? sp_signature_table : stated, *found = NULL;
    const uint32_t count = is_published ? sp_signature_table_count : stated_count;
    for (uint32_t i = lower_bound(all, count, domain, name); i < count; i++) {
        if (compare_names(domain, name, &all[i]) != 0 || all[i].since > version)
            break;
        found = &all[i];
    }
    return found;
}

int64_t sp_signature_first(const char *domain, const char *name)
{
    (void)pthread_once(&built, build);
    domain = sp_op_domain(domain);
    const bool is_published = sp_signature_domain(domain);
    const struct sp_signature *all = is_published ? sp_signature_table : stated;
    const uint32_t count = is_published ? sp_signature_table_count : stated_count;
    uint32_t i = lower_bound(all, count, domain, name);
    return i < count && compare_names(domain, name, &all[i]) == 0 ? all[i].since : 0;
}

bool sp_signature_domain(const char *domain)
{
    domain = sp_op_domain(domain);
    for (const char *const *known = sp_signature_domains; *known != NULL; known++) {
        if (strcmp(domain, *known) == 0)
            return true;
    }
    return false;
}

const struct sp_signature *sp_signature_all(uint32_t *ret_count)
{
    *ret_count = sp_signature_table_count;
    return sp_signature_table;
}
