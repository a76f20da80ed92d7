#pragma once
/*
 * any_sets - plans in which a device may hold any set of nodes: for the throughput of whole operators.
 *
 * The search for stages (solvers/stages, non_contiguous) chooses the sets. It knows what adds up: seconds, each tensor
 * that is sent and received, what nodes keep and the most that one of them holds. pieces.h cuts its sets into stages,
 * and evaluate.h counts what requests on their way hold beside that; where a device has too much, the search is
 * repeated with less memory. Clusters whose links differ are searched with the fastest link, for a bound that holds,
 * and with the slowest one; then equal devices change places while that helps.
 */
#include "search/joint/candidate.h"

#define SP_ANY_CANDIDATES 16

/*
 * Up to SP_ANY_CANDIDATES candidates, evaluated, which may or may not fit. No plan of whole operators
 * has a shorter interval than *ret_bound, whatever its sets; INFINITY: none fits.
 */
enum sp_status sp_joint_propose_any(struct sp_joint *joint, struct sp_joint_candidate **ret_candidates,
                                    uint32_t *ret_count, double *ret_bound, struct sp_error *err);
