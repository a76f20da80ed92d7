#include "service/requests.h"

#include <math.h>

#include "base/random.h"

static double draw_normal(uint64_t *random)
{
    const double radius = sqrt(-2 * log1p(-sp_random_fraction(random)));
    return radius * cos(2 * 3.14159265358979323846 * sp_random_fraction(random));
}

static uint32_t draw_length(const struct sp_lengths *lengths, uint64_t *random)
{
    double length = lengths->mean;
    if (lengths->count > 0) {
        length = lengths->list[sp_random_below(random, lengths->count)];
    } else if (lengths->variation > 0) {
        const double square = log1p(lengths->variation);
        length = lengths->mean * exp(sqrt(square) * draw_normal(random) - square / 2);
    }
    return (uint32_t)fmin(fmax(round(length), 1), SP_MAX_TRACE_TOKENS);
}

void sp_draw_requests(const struct sp_request_source *source, uint32_t count, struct sp_trace_request *requests)
{
    uint64_t random = sp_scramble(source->seed);
    double now = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (source->rate > 0)
            now -= log1p(-sp_random_fraction(&random)) / source->rate;
        requests[i].seconds = now;
        requests[i].input = draw_length(&source->input, &random);
        requests[i].output = draw_length(&source->output, &random);
    }
}
