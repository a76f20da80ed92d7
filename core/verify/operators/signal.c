/*
 * STFT by its definition: the discrete Fourier transform of each frame of a signal.
 *
 *     y[b, f, k] = sum over n < N of x[b, f * step + n] * window[n] * exp(-2 pi i k n / N)
 *
 * Signals are real [b, length, 1], or complex [b, length, 2]; k goes up to N / 2 with onesided, else to N - 1. The factors
 * are constants, the float32 nearest to each cosine and sine.
 */
#include "base/limits.h"
#include "verify/operators/steps.h"

enum { IN_SIGNAL, IN_STEP, IN_WINDOW, IN_LENGTH };

struct frames {
    const struct sp_numbers *signal, *window; /* window: or NULL */
    int64_t length, step, size, bins, count;  /* of the signal; of the frames */
    uint32_t parts;                           /* of a number: 1 or 2 */
    struct sp_number *cosine, *sine;          /* of i / size of a turn */
};

static int64_t scalar_of(struct sp_call *call, uint32_t input, int64_t otherwise)
{
    const struct sp_numbers *x = sp_call_in(call, input);
    return x == NULL ? otherwise : x->is_known && x->count == 1 ? sp_numbers_int(x, 0) : -1;
}

/* Why it is not evaluated; NULL where it is. */
static const char *read_frames(struct sp_call *call, struct frames *ret)
{
    const struct sp_numbers *x = sp_call_in(call, IN_SIGNAL), *window = sp_call_in(call, IN_WINDOW);
    if (x == NULL || x->rank != 3 || (x->axes[2].extent != 1 && x->axes[2].extent != 2) ||
        x->axes[1].count != x->axes[1].extent || x->axes[2].count != x->axes[2].extent || !sp_dtype_is_float(x->dtype))
        return "not all of its signal is looked at";
    if (window != NULL && (window->rank != 1 || !sp_numbers_is_complete(window)))
        return "not all of its window is looked at";
    struct frames frames = {.signal = x, .window = window, .length = x->axes[1].extent, .parts = x->axes[2].count};
    frames.step = scalar_of(call, IN_STEP, -1);
    frames.size = scalar_of(call, IN_LENGTH, window != NULL ? window->axes[0].extent : -1);
    if (frames.step < 1 || frames.size < 1 || frames.size > frames.length)
        return "its frames are not known";
    if (window != NULL && window->axes[0].extent != frames.size)
        return "its window does not fit its frames";
    const bool is_onesided = sp_node_int(call->node, "onesided", 1) != 0;
    frames.bins = is_onesided ? frames.size / 2 + 1 : frames.size;
    frames.count = 1 + (frames.length - frames.size) / frames.step;
    *ret = frames;
    return NULL;
}

static enum sp_status make_turns(struct sp_call *call, struct frames *frames)
{
    frames->cosine = SP_NEW_ARRAY(call->arena, (size_t)frames->size, struct sp_number);
    frames->sine = SP_NEW_ARRAY(call->arena, (size_t)frames->size, struct sp_number);
    if (frames->cosine == NULL || frames->sine == NULL)
        return sp_fail_memory(call->err);
    for (int64_t i = 0; i < frames->size; i++) {
        const double turn = 2 * M_PI * (double)i / (double)frames->size;
        /* quarters of a turn exactly */
        const bool is_quarter = 4 * i % frames->size == 0;
        const double cosine = is_quarter ? nearbyint(cos(turn)) : cos(turn),
                     sine = is_quarter ? nearbyint(sin(turn)) : sin(turn);
        frames->cosine[i] = sp_number_of_real((double)(float)cosine);
        frames->sine[i] = sp_number_of_real((double)(float)sine);
    }
    return SP_OK;
}

/* Adds a number of the signal, times the window, to a bin: (re + i im) (cos - i sin). */
static void add_turned(struct sp_number *to, const struct frames *frames, const struct sp_number *from, int64_t n,
                       int64_t bin)
{
    const int64_t at = n * bin % frames->size;
    const struct sp_number cosine = frames->cosine[at], sine = frames->sine[at];
    struct sp_number re = from[0], im = frames->parts == 2 ? from[1] : (struct sp_number){0, 0};
    if (frames->window != NULL) {
        re = sp_number_multiply(re, frames->window->items[n]);
        im = sp_number_multiply(im, frames->window->items[n]);
    }
    to[0] = sp_number_add(to[0], sp_number_add(sp_number_multiply(re, cosine), sp_number_multiply(im, sine)));
    to[1] = sp_number_add(to[1], sp_number_subtract(sp_number_multiply(im, cosine), sp_number_multiply(re, sine)));
}

static enum sp_status evaluate_stft(struct sp_call *call)
{
    struct frames frames = {0};
    const char *reason = read_frames(call, &frames);
    if (reason != NULL)
        return sp_call_refuse(call, reason);
    if (frames.size > SP_MAX_EVALUATED_NUMBERS || frames.bins > SP_MAX_EVALUATED_NUMBERS)
        return sp_call_refuse(call, "its frames are too long");
    const struct sp_index_axis axes[] = {frames.signal->axes[0], sp_index_all(frames.count), sp_index_all(frames.bins),
                                         sp_index_all(2)};
    enum sp_status status = sp_numbers_create(call->arena, frames.signal->dtype, 4, axes, &call->out[0], call->err);
    if (status == SP_OK)
        status = make_turns(call, &frames);
    const uint64_t bins = (uint64_t)frames.bins, count = (uint64_t)frames.count;
    for (uint64_t i = 0; status == SP_OK && i < call->out[0]->count / 2; i++) {
        const uint64_t frame = i / bins % count, batch = i / bins / count;
        const uint64_t first = batch * (uint64_t)frames.length + frame * (uint64_t)frames.step;
        for (int64_t n = 0; n < frames.size; n++)
            add_turned(&call->out[0]->items[2 * i], &frames,
                       &frames.signal->items[(first + (uint64_t)n) * frames.parts], n, (int64_t)(i % bins));
    }
    return status;
}

const struct sp_evaluator_entry sp_evaluators_signal[] = {
    {"STFT", evaluate_stft},
    {NULL, NULL},
};
