#pragma once
/* state_names - the words of a tensor's name, with and without those that say of which side of a step it is; for
   states.h, which has the table of roles. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SP_STATE_WORDS      32  /* of a name; one with more is no state's */
#define SP_STATE_NAME_BYTES 256 /* likewise */
#define SP_STATE_READINGS   4   /* of one name: as it is, and without a role */

enum sp_state_role { SP_ROLE_NONE, SP_ROLE_WEAK, SP_ROLE_STRONG };

struct sp_state_reading {
    enum sp_state_role role; /* of the word that is left out */
    bool names_state;        /* the words say that it is a state */
    char words[SP_STATE_NAME_BYTES * 2];
};

/* The ways to read a name, of an output or of an input; their number. */
uint32_t sp_state_read_name(const char *name, bool is_output, struct sp_state_reading ret_readings[SP_STATE_READINGS]);

/* How well an input and an output of these readings, whose words are equal, make a state: 0 best; SP_STATE_RANKS: they
   make none. */
#define SP_STATE_RANKS 3
uint32_t sp_state_rank(const struct sp_state_reading *input, const struct sp_state_reading *output);
