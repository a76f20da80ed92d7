#pragma once
/*
 * simulation - what the files simulation*.c share: control flow that is split (partition/partition.h).
 *
 * `stack` is the control flow around what is told now, innermost first; NULL at first.
 */
#include "realize/program.h"

struct sp_simulated_control;

enum sp_status sp_simulation_control_begin(struct sp_program *program, struct sp_simulated_control **stack,
                                           const struct sp_part_control *control, struct sp_error *err);
enum sp_status sp_simulation_body_begin(struct sp_program *program, struct sp_simulated_control *own,
                                        const struct sp_part_body *body, struct sp_error *err);
enum sp_status sp_simulation_body_end(struct sp_program *program, struct sp_simulated_control *own,
                                      const struct sp_part_body *body, struct sp_error *err);
enum sp_status sp_simulation_control_end(struct sp_program *program, struct sp_simulated_control **stack,
                                         struct sp_error *err);
/* What was written so far becomes a function, which is called for each part of a request. */
enum sp_status sp_simulation_repeat(struct sp_program *program, const struct sp_request_cuts *cuts,
                                    struct sp_error *err);

/* After an error: drops what is open. */
void sp_simulation_control_release(struct sp_program *program, struct sp_simulated_control **stack);
