/*
 * The exponential, with the one law that models use of it: exp(a - b) = exp(a) / exp(b).
 *
 * In the field exp is a hash of which nothing is known but exp(0) = 1 and exp(-inf) = 0. Of a tensor that was made as a
 * difference it is the quotient of the two hashes. So what all exponents are shifted by before they are added up cancels
 * in a softmax: it may be the largest of all, the largest of a device's part, or anything else. An equality that follows
 * from such quotients follows from the law, whatever function has it.
 *
 * Where a part is infinite there is no such quotient, and the hash is of the difference.
 */
#include "verify/combine.h"

static uint64_t exp_of(uint64_t tag, uint64_t a)
{
    return a == 0 ? 1 : a == SP_FIELD_LEAST ? 0 : sp_field_hash(tag, a);
}

/* One of two hashes by the other, where both operands of the difference are numbers, or the first one is -inf. */
static struct sp_number quotient(struct sp_number a, struct sp_number b)
{
    const bool has_law = sp_field_is_finite(b.field) && b.field != 0 && sp_field_is_finite(a.field);
    return (struct sp_number){has_law ? sp_field_multiply(a.field, b.field) : SP_FIELD_GREATEST, 0};
}

/* The hashes of a tensor, or their inverses; SP_FIELD_GREATEST where there is none. */
static enum sp_status hashes_of(struct sp_arena *arena, const struct sp_numbers *x, bool is_inverse,
                                struct sp_numbers **ret, struct sp_error *err)
{
    const uint64_t tag = sp_tag("Exp");
    enum sp_status status = sp_numbers_create(arena, x->dtype, x->rank, x->axes, ret, err);
    for (uint64_t i = 0; status == SP_OK && i < x->count; i++) {
        const uint64_t a = x->items[i].field, own = exp_of(tag, a);
        const bool has_one = sp_field_is_finite(a) || (a == SP_FIELD_LEAST && !is_inverse);
        (*ret)->items[i].field = !has_one ? SP_FIELD_GREATEST : is_inverse ? sp_field_inverse(own) : own;
    }
    return status;
}

enum sp_status sp_numbers_exp(struct sp_arena *arena, const struct sp_numbers *x, struct sp_numbers **ret,
                              struct sp_error *err)
{
    const uint64_t tag = sp_tag("Exp");
    struct sp_numbers *out = NULL, *above = NULL, *below = NULL, *parts = NULL;
    enum sp_status status = sp_numbers_create(arena, x->dtype, x->rank, x->axes, &out, err);
    if (status == SP_OK && x->minuend != NULL && !x->is_known) {
        status = hashes_of(arena, x->minuend, false, &above, err);
        if (status == SP_OK)
            status = hashes_of(arena, x->subtrahend, true, &below, err);
        if (status == SP_OK)
            status = sp_numbers_binary(arena, above, below, x->dtype, quotient, &parts, err);
    }
    if (status != SP_OK)
        return status;
    for (uint64_t i = 0; i < x->count; i++) {
        const struct sp_number a = x->items[i];
        const bool has_law = parts != NULL && parts->count == x->count && parts->items[i].field != SP_FIELD_GREATEST;
        out->items[i] = x->is_known
                            ? sp_number_of_real(exp(a.real))
                            : (struct sp_number){has_law ? parts->items[i].field : exp_of(tag, a.field), exp(a.real)};
    }
    out->is_known = x->is_known;
    *ret = out;
    return SP_OK;
}
