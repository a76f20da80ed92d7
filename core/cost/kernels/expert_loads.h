#pragma once
/*
 * expert_loads - what a caller says of how often experts are chosen, and its way to the nodes of a model.
 *
 * A list of shares holds for the layer of its node, or without a node for all layers that no list names. Layers are
 * nodes of the model's graph whose rules say that they draw (sp_rule_draw_each()): operators that compute the experts
 * that tokens are sent to. A model that computes every expert for every token, as batched products over the experts do,
 * has no load: it takes as long whatever is chosen.
 *
 * Once attached, a load is a part of its node's rule (ops/table/load.h), so all costs know it. Equal shares attach
 * nothing: what is there is the formula of equal shares.
 */
#include "graph/model.h"

#define SP_MAX_LOAD_LISTS 4096
#define SP_MAX_EXPERTS    4096 /* of a list */
#define SP_MAX_ZIPF       16.0
#define SP_MAX_LOAD_SHARE 1e15

struct sp_load_list {
    const char *node; /* NULL: all other layers */
    uint32_t count;   /* 0: a distribution, of any number of experts */
    const double *shares;
    double zipf; /* share of expert e, from 0: 1 / (e + 1)^zipf */
};

struct sp_given_loads {
    const char *where; /* a JSON pointer, for errors */
    bool is_balanced;  /* experts lie in the order that balances the shards (ops/table/load.h) */
    uint32_t count;
    const struct sp_load_list *lists;
};

/*
 * Gives nodes their load; after shapes are inferred. Nothing where model->loads is NULL. SP_ERR_REQUEST: NO_EXPERTS, no
 * node draws; UNKNOWN_EXPERTS, a list's node is none of them; EXPERT_LOAD_COUNT, a list has more or fewer shares than
 * its layer has experts. Else errors are those of sp_op_rule().
 */
enum sp_status sp_expert_loads_attach(struct sp_model *model, struct sp_error *err);
