#pragma once
/*
 * blame - names the nodes at which runs go wrong; private to core/verify.
 *
 * An item of a rank's tensor is good where some value of the original has it, or where something good is computed of
 * it: partial sums are not the original's, but what a reduction makes of them is. A node goes wrong where all is good that
 * it reads, and its result is not. Where that is one of several ranks' (or one of several that are added up), the node is
 * looked for behind it at which they differ in form.
 *
 *   recognise   elements of the original, and of which of its values a rank's value is
 *   vouch       carries backwards what is good
 *   trace       wrong results; where what was moved comes from
 *   form        a node beside the original's, in words
 *   peers       a node beside those that do the same on other ranks
 *   blame       the failures
 */
#include "verify/programs.h"

/* Elements of the original: of which value first, and for each value where. */
struct sp_recognised {
    struct sp_hash_map values; /* element -> struct sp_value * */
    struct sp_hash_map good;   /* elements of ranks of which something good is made */
    struct sp_hash_map places; /* element and value -> 1 + place in the value; UINT64_MAX where there are several */
};

/* A value of a run on its way through movement and collectives. */
struct sp_run_place {
    const struct sp_verify_run *run;
    const struct sp_value *value;
};
#define SP_MAX_FOLLOWED 64

/* ---- recognise.c ------------------------------------------------------------------------------------------------ */

/* Sets sp_outcome.of and is_scattered of all values of ranks. */
enum sp_status sp_blame_recognise(struct sp_verification *all, struct sp_recognised *known, struct sp_error *err);
/* The value of the original that the items are of, when all are of some. */
const struct sp_value *sp_blame_find_items(const struct sp_recognised *known, const struct sp_numbers *x);
/* Whether all items are some of the value, or 0. */
bool sp_blame_is_within(const struct sp_recognised *known, const struct sp_value *value, const struct sp_numbers *x);
bool sp_blame_is_good_number(const struct sp_recognised *known, uint64_t field);
bool sp_blame_is_good(const struct sp_recognised *known, const struct sp_outcome *outcome); /* NULL is */

/* ---- vouch.c ---------------------------------------------------------------------------------------------------- */

bool sp_blame_moves(const struct sp_node *node);
bool sp_blame_reduces(const struct sp_node *node);
/* Carries backwards what is good, until nothing changes. */
void sp_blame_vouch(struct sp_verification *all, struct sp_recognised *known);

/* ---- trace.c ---------------------------------------------------------------------------------------------------- */

bool sp_blame_reads_well(const struct sp_recognised *known, const struct sp_verify_run *run,
                         const struct sp_node *node);
bool sp_blame_members_read_well(const struct sp_verification *all, const struct sp_recognised *known,
                                const struct sp_node *node);
/* The first of its results that is wrong, or NULL. */
const struct sp_value *sp_blame_wrong_result(const struct sp_verification *all, const struct sp_recognised *known,
                                             const struct sp_verify_run *run, const struct sp_node *node);
/*
 * Movement makes nothing wrong but order: where it moves items that are none of the value that its result is named
 * after, the node that made them is the one that is wrong. False where there is none.
 */
bool sp_blame_find_source(struct sp_verification *all, const struct sp_recognised *known,
                          const struct sp_run_place *moved, struct sp_run_place *ret);
/* The exchange that a collective takes part in, or NULL. */
const struct sp_verify_exchange *sp_blame_exchange_of(const struct sp_verification *all, const struct sp_node *node);

/* ---- form.c ----------------------------------------------------------------------------------------------------- */

/* The node of the original of which a node makes a part, by the name of its result or its own; or NULL. */
const struct sp_node *sp_blame_original_node(struct sp_verification *all, const struct sp_node *node,
                                             const struct sp_value *result);
/* "Add of 'a' and 'b'", by the values of the original; NULL without memory. */
const char *sp_blame_describe(struct sp_verification *all, const struct sp_verify_run *run, const struct sp_node *node);
/* Whether a node is surely another one than the original's: it reads the same variables, and another single number or
   by another operator of arithmetic. Such a difference may be too small to be seen in the outputs. */
bool sp_blame_differs_in_form(struct sp_verification *all, const struct sp_verify_run *run, const struct sp_node *node,
                              const struct sp_node *expected);
/* The numbers of a value that are not variables, or NULL. */
const struct sp_numbers *sp_blame_constant_of(const struct sp_verify_run *run, const struct sp_value *value);
#define SP_CONSTANT_TOLERANCE 1e-6 /* what rounding to float32 leaves */

/* What is computed, behind all that only moves it, in the run that hands it on, too. *ret_identity is what an Identity on
   the way makes of it, or the place itself; it may be NULL. */
struct sp_run_place sp_blame_behind_moves(struct sp_verification *all, struct sp_run_place place,
                                          struct sp_run_place *ret_identity);

/* ---- peers.c ---------------------------------------------------------------------------------------------------- */

/*
 * The node at which one of several that make parts of one tensor, or terms of one sum, differs in form from the others: by
 * its operator, a number, or the order of operands. What `suspect` makes is wrong. False where all are alike, or where
 * nothing says which is the wrong one. *ret_peer is what stands in its place beside it.
 */
bool sp_blame_odd_one(struct sp_verification *all, const struct sp_recognised *known, const struct sp_verify_run *run,
                      const struct sp_node *suspect, struct sp_run_place *ret_odd, struct sp_run_place *ret_peer);
