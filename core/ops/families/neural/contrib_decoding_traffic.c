/*
 * What the attention operators of contrib_decoding.c compute and move. Source: ONNX Runtime, ContribOperators.md.
 */
#include <math.h>

#include "ops/families/neural/contrib_decoding.h"
#include "ops/table/rule_text.h"
#include "ops/table/shape_helpers.h"
#include "ops/table/traffic.h"

/* ---- parts ------------------------------------------------------------------------------------------------------ */

/* The product of the factors of these names; what the rule does not have counts as 1. */
static struct sp_amount named(const struct sp_rule *rule, double times, const char *a, const char *b)
{
    const uint8_t factors[] = {sp_rule_named(rule, a), b != NULL ? sp_rule_named(rule, b) : SP_RULE_NO_FACTOR};
    struct sp_amount amount = sp_amount_of(2, factors);
    amount.times = times;
    return amount;
}

static struct sp_dim extent_of(const struct sp_rule *rule, const char *name)
{
    const uint8_t factor = sp_rule_named(rule, name);
    return factor != SP_RULE_NO_FACTOR ? rule->factors[factor].extent : sp_dim_unknown();
}

static bool has(const struct sp_rule *rule, const char *name)
{
    return sp_rule_named(rule, name) != SP_RULE_NO_FACTOR;
}

/* An attention in which every head of queries has its own keys and values. */
static struct sp_rule_attention even_heads(const struct sp_rule *rule, const char *queries, const char *keys)
{
    return (struct sp_rule_attention){.batch = named(rule, 1, "b", NULL),
                                      .heads = named(rule, 1, "h", NULL),
                                      .kv_heads = named(rule, 1, "h", NULL),
                                      .queries = named(rule, 1, queries, NULL),
                                      .keys = named(rule, 1, keys, NULL),
                                      .size = named(rule, 1, "d", NULL),
                                      .left = SP_UNBOUND,
                                      .right = SP_UNBOUND,
                                      .kept = 1};
}

/* A cache that comes in and goes out, of which `fresh` is new. The model may say that both are one buffer. */
static void continue_cache(const struct sp_op_context *context, struct sp_rule *rule, uint32_t past, uint32_t present,
                           double fresh)
{
    sp_rule_use_output(rule, present, fresh, NULL);
    if (sp_node_int(context->node, "past_present_share_buffer", 0) == 0)
        sp_rule_past(context, rule, past, present);
}

/* Rows of tables of sines and cosines: one for each token. */
static void turn_tokens(const struct sp_op_context *context, struct sp_rule *rule, uint32_t first_table,
                        const char *batch, const char *tokens)
{
    const struct sp_shape *table = sp_in_shape(context, first_table);
    const bool is_turned = sp_node_int(context->node, "do_rotary", 0) != 0;
    struct sp_factor_list rows = {0};
    if (batch != NULL && has(rule, batch))
        sp_factor_list_add(&rows, sp_rule_named(rule, batch));
    if (has(rule, tokens))
        sp_factor_list_add(&rows, sp_rule_named(rule, tokens));
    for (uint32_t i = first_table; table != NULL && table->rank > 0 && i < first_table + 2; i++)
        sp_rule_use_input(rule, i, is_turned ? sp_dim_share(sp_dim_known(1), table->dims[0]) : 0,
                          is_turned ? &rows : NULL);
}

/* ---- decoders --------------------------------------------------------------------------------------------------- */

void sp_traffic_decoder_attention(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_rule_attention attention = even_heads(rule, "s", "t");
    const double fresh = 1 - (has(rule, "p") ? sp_dim_share(extent_of(rule, "p"), extent_of(rule, "c")) : 0);
    sp_rule_attend(rule, &attention);
    for (uint32_t i = 0; i < 2; i++) {
        if (sp_has_input(context, 6 + i))
            continue_cache(context, rule, 6 + i, 1 + i, fresh);
    }
}

/* The cache has all keys where it goes out: c, which is p where one buffer serves both. */
static const char *keys_of_cache(const struct sp_rule *rule)
{
    return has(rule, "c") ? "c" : has(rule, "p") ? "p" : "s";
}

void sp_traffic_masked_self(struct sp_op_context *context, struct sp_rule *rule)
{
    struct sp_rule_attention attention = even_heads(rule, "s", keys_of_cache(rule));
    attention.right = 0;
    sp_rule_term_named(rule, 4, has(rule, "c") ? "b s h c d" : "b s h p d");
    sp_rule_attend(rule, &attention);
    continue_cache(context, rule, 4, 1, sp_dim_share(extent_of(rule, "s"), extent_of(rule, "c")));
}

void sp_traffic_masked_heads(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_shape *key = sp_in_shape(context, 1);
    const bool is_cross = key != NULL && key->rank == 4;
    struct sp_rule_attention attention = even_heads(rule, "s", is_cross ? "t" : keys_of_cache(rule));
    const char *terms = is_cross         ? "b s h t d"
                        : has(rule, "c") ? "b s h c d"
                        : has(rule, "p") ? "b s h p d"
                                         : "b s s h d";
    attention.right = is_cross ? SP_UNBOUND : 0;
    sp_rule_term_named(rule, 4, terms);
    sp_rule_attend(rule, &attention);
    for (uint32_t i = 0; i < 2 && !is_cross && sp_has_input(context, 5 + i); i++)
        continue_cache(context, rule, 5 + i, 1 + i, sp_dim_share(extent_of(rule, "s"), extent_of(rule, "c")));
}

/* ---- packed batches --------------------------------------------------------------------------------------------- */

/* Tokens of b sequences of at most s; sizes that differ come as one (e). */
void sp_traffic_packed(struct sp_op_context *context, struct sp_rule *rule)
{
    const double sequences = (double)sp_dim_estimate(extent_of(rule, "b"));
    const double heads = (double)sp_node_int(context->node, "num_heads", 1);
    struct sp_rule_attention attention = even_heads(rule, "n", "s");
    attention.queries.times = sequences > 0 ? 1 / sequences : 1;
    if (!has(rule, "h")) {
        attention.heads.times = attention.kv_heads.times = heads;
        attention.size = named(rule, 1 / heads, "e", NULL);
    }
    sp_rule_term_named(rule, 4, has(rule, "h") ? "n s h d" : "n s e");
    sp_rule_attend(rule, &attention);
}

enum { PAGED_KEY = 1, PAGED_CACHE = 3, PAGED_COS = 8 };

/* Keys are the m blocks of q positions that the table has for each of b sequences, whose n tokens are the last ones of
   them. Caches are written where they are. */
void sp_traffic_paged(struct sp_op_context *context, struct sp_rule *rule)
{
    const double sequences = (double)sp_dim_estimate(extent_of(rule, "b"));
    const int64_t window = sp_node_int(context->node, "local_window_size", -1);
    const bool is_latent = has(rule, "h"), is_packed = !sp_has_input(context, PAGED_KEY);
    struct sp_rule_attention attention = {.batch = named(rule, 1, "b", NULL),
                                          .heads = is_latent ? named(rule, 1, "h", NULL) : named(rule, 1, "kv", "g"),
                                          .kv_heads = named(rule, 1, "kv", NULL),
                                          .queries = named(rule, sequences > 0 ? 1 / sequences : 1, "n", NULL),
                                          .keys = named(rule, 1, "m", "q"),
                                          .size = named(rule, 1, has(rule, "d") ? "d" : "dc", NULL),
                                          .left = window > 0 ? (double)window - 1 : SP_UNBOUND,
                                          .right = sp_node_int(context->node, "is_causal", 1) != 0 ? 0 : SP_UNBOUND,
                                          .kept = 1};
    struct sp_factor_list blocks = {0}, tokens = {0};
    if (!has(rule, "m") || !has(rule, "b") || !has(rule, "n"))
        return;
    sp_rule_term_named(rule, 4, is_latent ? "n m q h d" : is_packed ? "n m q o" : "n m q kv g d");
    sp_rule_attend(rule, &attention);
    sp_factor_list_add(&blocks, sp_rule_named(rule, "b"));
    sp_factor_list_add(&blocks, sp_rule_named(rule, "m"));
    sp_factor_list_add(&tokens, sp_rule_named(rule, "n"));
    const double block = sp_dim_share(sp_dim_known(1), extent_of(rule, "p")),
                 place = block * sp_dim_share(sp_dim_known(1), extent_of(rule, "q"));
    for (uint32_t i = 0; i < 2; i++) {
        sp_rule_use_input(rule, PAGED_CACHE + i, block * sp_attention_part(rule, NULL).seen, &blocks);
        sp_rule_use_output(rule, 1 + i, place, &tokens);
    }
    turn_tokens(context, rule, PAGED_COS, NULL, "n");
}

/* ---- sparse attention ------------------------------------------------------------------------------------------- */

enum { SPARSE_CACHE = 3, SPARSE_TOTAL = 7, SPARSE_COS = 9 };

/* Layouts name at most z of the blocks at and below the diagonal. Past and present are one buffer, says the operator;
   an input says how much of it is filled. One block of queries reads what is in its row, a prompt all. */
void sp_traffic_sparse(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_shape *columns = sp_in_shape(context, 6), *rows = sp_in_shape(context, 5);
    const struct sp_data *total = sp_in_known_ints(context, SPARSE_TOTAL);
    const double blocks = rows != NULL && rows->rank == 2 ? (double)sp_dim_estimate(rows->dims[1]) - 1 : 0;
    const double named_blocks = columns != NULL && columns->rank == 2 ? (double)sp_dim_estimate(columns->dims[1]) : -1;
    const double filled = total != NULL && total->count == 1 ? sp_dim_share(total->ints[0], extent_of(rule, "c")) : 1;
    struct sp_rule_attention attention = {
        .batch = named(rule, 1, "b", NULL),
        .heads = named(rule, 1, "kv", "g"),
        .kv_heads = named(rule, 1, "kv", NULL),
        .queries = named(rule, 1, "s", NULL),
        .keys = named(rule, filled, "c", NULL),
        .size = named(rule, 1, "d", NULL),
        .left = SP_UNBOUND,
        .right = 0,
        .kept = blocks > 0 && named_blocks >= 0 ? fmin(1, named_blocks / (blocks * (blocks + 1) / 2)) : 1};
    sp_rule_term_named(rule, 4 * filled, "b s c kv g d");
    sp_rule_attend(rule, &attention);
    const struct sp_attention_part part = sp_attention_part(rule, NULL);
    const bool is_one_row = part.queries <= (double)sp_node_int(context->node, "sparse_block_size", 1);
    for (uint32_t i = 0; i < 2; i++) {
        sp_rule_use_input(rule, SPARSE_CACHE + i, filled * part.seen * (is_one_row ? attention.kept : 1), NULL);
        sp_rule_use_output(rule, 1 + i, sp_dim_share(extent_of(rule, "s"), extent_of(rule, "c")), NULL);
    }
    turn_tokens(context, rule, SPARSE_COS, "b", "s");
}

/* Every token sees `window` ones on each side of it; the few global ones are left out. */
void sp_traffic_longformer(struct sp_op_context *context, struct sp_rule *rule)
{
    const double heads = (double)sp_node_int(context->node, "num_heads", 1);
    struct sp_rule_attention attention = even_heads(rule, "s", "s");
    attention.heads.times = attention.kv_heads.times = heads;
    attention.size = named(rule, heads > 0 ? 1 / heads : 1, "i", NULL);
    attention.left = attention.right = (double)sp_node_int(context->node, "window", 0);
    sp_rule_term_named(rule, 4, "b s s i");
    sp_rule_attend(rule, &attention);
}

/* ---- quantized models ------------------------------------------------------------------------------------------- */

void sp_traffic_quantized(struct sp_op_context *context, struct sp_rule *rule)
{
    const char *keys = keys_of_cache(rule);
    struct sp_rule_attention attention = even_heads(rule, "s", keys);
    attention.right = sp_node_int(context->node, "unidirectional", 0) != 0 ? 0 : SP_UNBOUND;
    sp_rule_term_named(rule, 4, *keys == 'c' ? "b s c h d" : *keys == 'p' ? "b s p h d" : "b s s h d");
    sp_rule_attend(rule, &attention);
    if (sp_has_input(context, 8))
        continue_cache(context, rule, 8, 1, sp_dim_share(extent_of(rule, "s"), extent_of(rule, "c")));
}

void sp_traffic_ordered(struct sp_op_context *context, struct sp_rule *rule)
{
    const double heads = (double)sp_node_int(context->node, "num_heads", 1);
    struct sp_rule_attention attention = even_heads(rule, "s", "s");
    attention.heads.times = attention.kv_heads.times = heads;
    attention.size = named(rule, heads > 0 ? 1 / heads : 1, "k", NULL);
    attention.right = sp_node_int(context->node, "unidirectional", 0) != 0 ? 0 : SP_UNBOUND;
    sp_rule_attend(rule, &attention);
}
