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
 *   composed    what the original's operators compute on the way: means and roots of a norm, exponents of a Softmax
 *   partial     terms that add up to something of the original over the ranks
 *   vouch       carries backwards what is good
 *   trace       wrong results; where what was moved comes from
 *   form        a node beside the original's, in words
 *   misfit      shapes that cannot be joined, or that are larger than what they are parts of
 *   misordered  weights whose parts lie on other ranks than those of other weights do
 *   peers       a node beside those that do the same on other ranks
 *   blame       the failures
 */
#include "verify/programs.h"

/* Elements of the original: of which value first, and for each value where. */
struct sp_recognised {
    struct sp_hash_map values; /* element -> struct sp_value * */
    struct sp_hash_map good;   /* elements of ranks of which something good is made */
    struct sp_hash_map terms;  /* partial sums -> struct sp_partial_term * */
    struct sp_hash_map places; /* element and value -> 1 + place in the value; UINT64_MAX where there are several */
};

/* An element that is a term of a sum, or the sum of some of its terms. */
struct sp_partial_term {
    const struct sp_numbers *sum; /* the first of the terms: tells sums apart */
    const struct sp_value *whole; /* of which value all terms add up to a part, or NULL */
    uint64_t place;               /* of the element in each of the terms */
    uint64_t members;             /* a bit for each term that it has */
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
/* Whether a value is a step of an exchange of the value that it is named after ("X@0.12/3"), and not what the exchange hands
   on: steps may be packed in any order. */
bool sp_blame_is_step(const struct sp_value *value);
/* The device for which a node of a simulation computes a value ("X@3.17"), or 0. */
uint64_t sp_blame_device(const struct sp_value *value);
/* The place that an element has in a value of the original, or UINT64_MAX where it has none or several. */
uint64_t sp_blame_place_in(const struct sp_recognised *known, const struct sp_value *value, uint64_t field);
bool sp_blame_is_good_number(const struct sp_recognised *known, uint64_t field);
bool sp_blame_is_good(const struct sp_recognised *known, const struct sp_outcome *outcome); /* NULL is */

/* ---- composed.c ------------------------------------------------------------------------------------------------- */

/* Takes for good what operators of the original compute on the way to their results. */
enum sp_status sp_blame_add_steps(struct sp_verification *all, struct sp_recognised *known, struct sp_error *err);

/* ---- partial.c -------------------------------------------------------------------------------------------------- */

/* Takes terms for good that add up to something good over the ranks, and sums of some of them. */
enum sp_status sp_blame_add_partial(struct sp_verification *all, struct sp_recognised *known, struct sp_error *err);
/* The first item that is a part only of a sum; NULL where none is. */
const struct sp_partial_term *sp_blame_partial_term(const struct sp_recognised *known, const struct sp_numbers *x);

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

/* ---- misfit.c --------------------------------------------------------------------------------------------------- */

/* Where parts or members do not fit together, moves the failure to the one that has the odd shape. */
void sp_blame_name_misfit(struct sp_verification *all, struct sp_verify_failure *failure);
/* Names the first node of each run that makes more than the value has that it is named after. */
enum sp_status sp_blame_name_oversized(struct sp_verification *all, struct sp_error *err);

/* ---- misordered.c ----------------------------------------------------------------------------------------------- */

/*
 * A weight whose parts lie on the ranks in an order that no other weight has and that does not ascend, of which what a node
 * reads is made: the node that reads its first part out of order. Where many weights lie so, that is how the files are laid
 * out, and there is none.
 */
enum sp_status sp_blame_find_misordered(struct sp_verification *all, const struct sp_recognised *known,
                                        const struct sp_verify_run *run, const struct sp_node *node,
                                        const struct sp_value **ret_whole, struct sp_run_place *ret,
                                        struct sp_error *err);

/* ---- peers.c ---------------------------------------------------------------------------------------------------- */

/*
 * The node at which one of several that make parts of one tensor, or terms of one sum, differs in form from the others: by
 * its operator, a number, or the order of operands. What `suspect` makes is wrong. False where all are alike, or where
 * nothing says which is the wrong one. *ret_peer is what stands in its place beside it.
 */
bool sp_blame_odd_one(struct sp_verification *all, const struct sp_recognised *known, const struct sp_verify_run *run,
                      const struct sp_node *suspect, struct sp_run_place *ret_odd, struct sp_run_place *ret_peer);
