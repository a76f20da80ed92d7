/*
 * Names of states, as the exporters' sources have them: optimum (exporters/onnx/config.py, base.py), transformers.js
 * (src/models.js), onnxruntime (transformers/convert_to_onnx.py, models/whisper, models/t5), onnxruntime-genai
 * (src/models/kv_cache.cpp, test/models), torch.onnx (_internal/exporter), sherpa-onnx (online-*-model.cc), silero-vad
 * (utils_vad.py), RobustVideoMatting (documentation/inference.md), NeMo (parts/mixins/streaming.py).
 */
#include <criterion/criterion.h>

#include "build_model.h"
#include "graph/states.h"

struct pair {
    const char *past, *present;
};

/* Inputs and outputs of these names and types. */
static void make(struct build *build, const struct pair *pairs, size_t count, const char *past, const char *present)
{
    build_init(build, 17);
    for (size_t i = 0; i < count; i++) {
        char constant[64];
        (void)build_input(build, pairs[i].past, SP_DTYPE_FLOAT, past);
        if (pairs[i].present == NULL)
            continue;
        (void)snprintf(constant, sizeof constant, "made%zu", i);
        (void)build_input(build, constant, SP_DTYPE_FLOAT, present);
        (void)build_node(build, "Identity", constant, pairs[i].present);
        build_outputs(build, pairs[i].present);
    }
    cr_assert_eq(build_infer(build), SP_OK, "%s", build->err.message);
}

static struct sp_states find(struct build *build)
{
    struct sp_states states = {0};
    cr_assert_eq(sp_model_states(build->arena, build->model, &states, &build->err), SP_OK, "%s", build->err.message);
    return states;
}

/* Each alone, and all in one model. */
static void expect_pairs(const struct pair *pairs, size_t count)
{
    struct build build;
    for (size_t i = 0; i <= count; i++) {
        const size_t first = i < count ? i : 0, most = i < count ? 1 : count;
        make(&build, pairs + first, most, "2,4,n,8", "2,4,n,8");
        const struct sp_states states = find(&build);
        cr_assert_eq(states.count, most, "%s: %u", pairs[first].past, states.count);
        for (size_t k = 0; k < most; k++) {
            cr_expect_str_eq(states.items[k].past->name, pairs[first + k].past);
            cr_expect_str_eq(states.items[k].present->name, pairs[first + k].present, "%s: %s", pairs[first + k].past,
                             states.items[k].present->name);
            cr_expect_eq(states.items[k].axis, SP_STATE_FIXED);
            cr_expect_eq(states.items[k].origin, SP_STATE_BY_NAME);
        }
        build_release(&build);
    }
}

#define EXPECT(list) expect_pairs(list, sizeof list / sizeof *list)

Test(states, caches_of_exporters_are_known_by_their_names)
{
    static const struct pair optimum[] = {{"past_key_values.0.key", "present.0.key"},
                                          {"past_key_values.0.value", "present.0.value"},
                                          {"past_key_values.11.key", "present.11.key"},
                                          {"past_key_values.11.value", "present.11.value"}};
    static const struct pair newer[] = {{"past_key_values.0.key", "present_key_values.0.key"},
                                        {"past_key_values.1.value", "present_key_values.1.value"}};
    static const struct pair whisper[] = {{"past_key_values.0.decoder.key", "present.0.decoder.key"},
                                          {"past_key_values.0.encoder.key", "present.0.encoder.key"},
                                          {"past_key_values.0.decoder.value", "present.0.decoder.value"},
                                          {"past_key_values.0.encoder.value", "present.0.encoder.value"}};
    static const struct pair runtime[] = {{"past_0", "present_0"},
                                          {"past_1", "present_1"},
                                          {"past_key_self_0", "present_key_self_0"},
                                          {"past_key_cross_0", "present_key_cross_0"},
                                          {"past_self_value_1", "present_self_value_1"}};
    static const struct pair torch[] = {{"cache_k_0", "new_cache_k_0"},
                                        {"cache_v_0", "new_cache_v_0"},
                                        {"cache_k_1", "new_cache_k_1"},
                                        {"past_key_values_key_cache_0", "present_key_values_key_cache_0"}};
    static const struct pair others[] = {
        {"keyCache", "updatedKeyCache"}, {"kv_cache_3", "kv_cache_3_out"},
        {"past.2.key", "present.2.key"}, {"cached_key_0", "new_cached_key_0"},
        {"att_cache", "r_att_cache"},    {"cache_last_channel", "cache_last_channel_next"}};
    EXPECT(optimum);
    EXPECT(newer);
    EXPECT(whisper);
    EXPECT(runtime);
    EXPECT(torch);
    EXPECT(others);
}

Test(states, recurrent_states_are_known_by_their_names)
{
    static const struct pair lstm[] = {{"h0", "hn"}, {"c0", "cn"}};
    static const struct pair named[] = {{"h_0", "h_n"}, {"c_0", "c_n"}};
    static const struct pair onnx[] = {{"initial_h", "Y_h"}, {"initial_c", "Y_c"}};
    static const struct pair ends[] = {{"initial_h", "final_h"}, {"initial_c", "final_c"}};
    static const struct pair silero[] = {{"h", "hn"}, {"c", "cn"}};
    static const struct pair states[] = {{"state", "stateN"}, {"rnn_states_prev", "rnn_states"}};
    static const struct pair nemo[] = {{"input_states_1", "output_states_1"}, {"input_states_2", "output_states_2"}};
    static const struct pair video[] = {{"r1i", "r1o"}, {"r2i", "r2o"}, {"r3i", "r3o"}, {"r4i", "r4o"}};
    static const struct pair mamba[] = {{"cache_params.past.conv.0", "cache_params.present.conv.0"},
                                        {"cache_params.past.ssm.0", "cache_params.present.ssm.0"},
                                        {"past_conv.1", "present_conv.1"},
                                        {"past_key_values.2.conv_state", "present.2.conv_state"},
                                        {"past_key_values.2.recurrent_state", "present.2.recurrent_state"}};
    EXPECT(lstm);
    EXPECT(named);
    EXPECT(onnx);
    EXPECT(ends);
    EXPECT(silero);
    EXPECT(states);
    EXPECT(nemo);
    EXPECT(video);
    EXPECT(mamba);
}

/* Inputs and outputs of models without a state, whose names are alike. */
Test(states, names_of_other_tensors_make_none)
{
    static const struct pair none[] = {{"input", "output"},
                                       {"input_ids", "output_ids"},
                                       {"x_in", "x_out"},
                                       {"input_hidden_states", "output_hidden_states"},
                                       {"hidden_states", "new_hidden_states"},
                                       {"key", "present_key"},
                                       {"tokens", "next_tokens"},
                                       {"past_key_values.0.key", "present.1.key"},
                                       {"past_key_values.0.key", "present.0.value"},
                                       {"image0", "imageN"},
                                       {"state_dict_a", "state_dict_b"},
                                       {"state", "state_1"}};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        struct build build;
        make(&build, &none[i], 1, "2,4,n,8", "2,4,n,8");
        cr_expect_eq(find(&build).count, 0, "%s", none[i].past);
        build_release(&build);
    }
}

/* Of an attention with a cache, the keys that come in are no state: the past is. */
Test(states, the_better_name_counts)
{
    struct build build;
    static const struct pair pairs[] = {{"cache_key", NULL}, {"past_cache_key", "present_cache_key"}};
    make(&build, pairs, 2, "2,4,n,8", "2,4,n,8");
    const struct sp_states states = find(&build);
    cr_assert_eq(states.count, 1);
    cr_expect_str_eq(states.items[0].past->name, "past_cache_key");
    build_release(&build);
}

Test(states, types_confirm_a_pair)
{
    static const struct {
        const char *past, *present;
        bool is_state;
        uint32_t axis;
    } cases[] = {
        {"2,4,6,8", "2,4,7,8", true, 2},
        {"2,4,0,8", "2,4,5,8", true, 2},
        {"2,4,6,8", "2,4,6,8", true, SP_STATE_FIXED},
        {"2,4,6,8", "2,4,5,8", false, 0},
        {"2,4,6,8", "2,5,7,8", false, 0},
        {"2,4,6,8", "2,4,6", false, 0},
        {"b,4,p,8", "b,4,t,8", true, 2},
        {"b,4,p,8", "c,4,t,8", true, SP_STATE_FIXED},
        {"b,4,p,8", "b,5,t,8", true, 1},
        {"b,4,p,8", "b,3,t,8", false, 0},
        {"2,4,?,8", "2,4,7,8", true, 2},
    };
    static const struct pair pair = {"past_key_values.0.key", "present.0.key"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct build build;
        make(&build, &pair, 1, cases[i].past, cases[i].present);
        const struct sp_states states = find(&build);
        cr_assert_eq(states.count, cases[i].is_state, "%s to %s", cases[i].past, cases[i].present);
        if (cases[i].is_state)
            cr_expect_eq(states.items[0].axis, cases[i].axis, "%s to %s: %u", cases[i].past, cases[i].present,
                         states.items[0].axis);
        build_release(&build);
    }
    struct build build;
    make(&build, &pair, 1, "2,8", "2,8");
    build_value(&build, "present.0.key")->type.dtype = SP_DTYPE_FLOAT16;
    cr_expect_eq(find(&build).count, 0);
    build_value(&build, "present.0.key")->type = (struct sp_type){.kind = SP_TYPE_TENSOR, .dtype = SP_DTYPE_FLOAT};
    cr_expect_eq(find(&build).count, 0, "nothing is known of the shape");
    build_release(&build);
}

/* ---- what the caller says ---------------------------------------------------------------------------------------- */

static enum sp_status give(struct build *build, bool are_all, const char *past, const char *present,
                           uint32_t *ret_count)
{
    const struct sp_given_state item = {past, present, NULL};
    const struct sp_given_states given = {are_all, 1, &item};
    struct sp_states states = {0};
    sp_error_clear(&build->err);
    build->model->given_states = &given;
    enum sp_status status = sp_model_states(build->arena, build->model, &states, &build->err);
    build->model->given_states = NULL;
    *ret_count = states.count;
    for (uint32_t i = 0; status == SP_OK && i < states.count; i++)
        cr_expect_eq(states.items[i].origin, states.items[i].past->name[0] == 'a' ? SP_STATE_GIVEN : SP_STATE_BY_NAME);
    return status;
}

Test(states, the_caller_may_name_them)
{
    static const struct pair pairs[] = {{"a.0.x", "b.0.y"}, {"a.1.x", "b.1.y"}, {"past_0", "present_0"}};
    struct build build;
    uint32_t count;
    make(&build, pairs, 3, "2,6,8", "2,7,8");
    cr_expect_eq(give(&build, true, "a.*.x", "b.*.y", &count), SP_OK);
    cr_expect_eq(count, 2, "these and no others");
    cr_expect_eq(give(&build, false, "a.*.x", "b.*.y", &count), SP_OK);
    cr_expect_eq(count, 3);
    cr_expect_eq(give(&build, true, "a.1.x", "b.0.y", &count), SP_OK);
    cr_expect_eq(count, 1);
    cr_expect_eq(give(&build, false, "a.*.z", "b.*.y", &count), SP_OK);
    cr_expect_eq(count, 1, "what a file lists need not be there");
    cr_expect_eq(give(&build, true, "a.*.z", "b.*.y", &count), SP_ERR_REQUEST);
    cr_expect_str_eq(build.err.code, "STATE_UNKNOWN");
    cr_expect_eq(give(&build, true, "a.*.x", "b.*.z", &count), SP_ERR_REQUEST);
    cr_expect_str_eq(build.err.code, "STATE_UNKNOWN");
    cr_expect_str_eq(build.err.where, "/options/state");
    build_value(&build, "b.1.y")->type.shape.dims[0].value = 3;
    cr_expect_eq(give(&build, true, "a.*.x", "b.*.y", &count), SP_ERR_REQUEST);
    cr_expect_str_eq(build.err.code, "STATE_CONTRADICTED");
    build_release(&build);
}
