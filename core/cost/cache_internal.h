#pragma once
/* What cache.c and cache_product.c share: of one node, what it keeps of one position of one sequence. */
#include "cost/cache.h"

struct sp_cache_half {
    double elements; /* 0: none */
    double bits;     /* of an element, unless the demand says */
    double held;     /* bytes in the model's own inputs or outputs */
};

struct sp_cached_operands {
    struct sp_cache_half key, value;
    bool is_product;
    int64_t heads; /* is_product */
};

/* Bytes of a value that the model takes in, or that is a result of it; else 0. */
double sp_cache_bytes_of_input(const struct sp_workload *workload, const struct sp_value *value);
double sp_cache_bytes_of_output(const struct sp_value *value);

/* Fills in what the MatMuls of an attention that is written out keep, if `softmax` is in the middle of one: entries of
   `cached`, by work node. */
void sp_cache_find_products(const struct sp_workload *workload, const struct sp_node *softmax,
                            struct sp_cached_operands *cached);
