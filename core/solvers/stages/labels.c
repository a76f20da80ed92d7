#include <math.h>
#include <string.h>

#include "base/array.h"
#include "solvers/stages/chain.h"

/* The search over chains of ideals (chain.h). */

/* What labels count is packed in words, each count with a free bit above it: one subtraction compares all of a word. */
#define WORDS 2

#define FEW_DEVICES 32 /* so many may be told apart by their place */

struct dimension {
    uint32_t word, shift, size;
};

struct label {
    double value;
    uint64_t used[WORDS];
    struct label *next;         /* of the same ideal, or of those thrown away */
    const struct label *parent; /* of the ideal that it was made from: its stage lies between */
    uint32_t ideal, option, replicas;
    bool is_near; /* its stage, or one behind it, has a quicker link to what is in front of it than the slowest */
};

struct search {
    struct sp_stages_run *run;
    const struct sp_stages_chain *chain;
    const struct sp_stages_prepared *prepared;
    const struct sp_stages_problem *problem;
    const struct sp_stages_lattice *lattice;
    struct sp_arena *arena;
    struct sp_stages_frame frame;
    struct dimension classes[SP_MAX_STAGE_CLASSES];
    struct dimension stages; /* size 0: not counted */
    uint64_t guard[WORDS], capacity[WORDS];
    bool counts_places; /* which devices are left matters, and they are few */
    /* Per ideal: sums of the rates of its units, of their time, or for a sum of their memory; of what adds up. */
    double *time, *extra;
    const double *price;   /* per class: of that time or memory */
    struct label **labels; /* per ideal */
    struct label *spare;
    struct label **here; /* those of the ideal under way */
    uint32_t here_count, here_room;
    uint32_t *most;                  /* per option: replicas for which any label has devices left */
    double *most_time;               /* per option: of what is below a stage under it; with more no label can end */
    uint32_t *ideal, *cursor, *last; /* of the walk, by level */
    double limit;
    uint32_t *block_of; /* per unit, where stages send to each that uses a tensor */
    struct label *best;
    uint64_t steps;
    bool is_out_of_memory;
};

static uint32_t bits_of(uint32_t size)
{
    uint32_t bits = 1;
    while (bits < 32 && size >> bits > 0)
        bits++;
    return bits;
}

static bool add_dimension(struct search *search, struct dimension *dimension, uint32_t size, uint32_t *word,
                          uint32_t *shift)
{
    uint32_t bits = bits_of(size) + 1;
    if (*shift + bits > 64) {
        *shift = 0;
        if (++*word == WORDS)
            return false;
    }
    *dimension = (struct dimension){*word, *shift, size};
    search->guard[*word] |= UINT64_C(1) << (*shift + bits - 1);
    search->capacity[*word] |= (uint64_t)size << *shift;
    *shift += bits;
    return true;
}

static uint64_t count_of(const uint64_t *used, const struct dimension *dimension)
{
    uint32_t bits = bits_of(dimension->size) + 1;
    return (used[dimension->word] >> dimension->shift) & ((UINT64_C(1) << bits) - 1);
}

static bool is_within(const struct search *search, const uint64_t *less, const uint64_t *more)
{
    for (uint32_t i = 0; i < WORDS; i++)
        if ((((more[i] | search->guard[i]) - less[i]) & search->guard[i]) != search->guard[i])
            return false;
    return true;
}

/* Devices by class; stages where a limit counts them. False where counts have no room. */
static bool set_dimensions(struct search *search)
{
    const struct sp_stages_problem *problem = search->problem;
    uint32_t word = 0, shift = 0;
    uint64_t devices = 0;
    for (uint32_t i = 0; i < problem->class_count; i++) {
        devices += problem->class_size[i];
        if (!add_dimension(search, &search->classes[i], problem->class_size[i], &word, &shift))
            return false;
    }
    if (problem->max_stages != 0 && problem->max_stages < devices &&
        !add_dimension(search, &search->stages, problem->max_stages, &word, &shift))
        return false;
    search->counts_places = problem->levels != NULL && devices <= FEW_DEVICES;
    return true;
}

/* Sums of rates by ideal: each from one step down. */
static bool sum_rates(struct search *search)
{
    const struct sp_stages_lattice *lattice = search->lattice;
    const struct sp_stages_rates *rates = search->chain->rates;
    const enum sp_stages_aim aim = search->chain->aim;
    const double *extra = aim == SP_STAGES_AIM_DEVICES || aim == SP_STAGES_AIM_SUM ? rates->least : NULL;
    const double *time = aim == SP_STAGES_AIM_SUM ? rates->memory : rates->time;
    search->price = aim == SP_STAGES_AIM_SUM ? rates->memory_price : rates->time_price;
    search->time = SP_NEW_ARRAY(search->arena, lattice->count, double);
    search->extra = SP_NEW_ARRAY(search->arena, lattice->count, double);
    if (search->time == NULL || search->extra == NULL)
        return false;
    for (uint32_t ideal = 1; ideal < lattice->count; ideal++) {
        uint32_t from = lattice->start[ideal], block = lattice->block[from];
        search->time[ideal] = search->time[lattice->target[from]];
        search->extra[ideal] = search->extra[lattice->target[from]];
        for (uint32_t i = lattice->first[block]; i < lattice->first[block + 1]; i++) {
            search->time[ideal] += time[lattice->units[i]];
            search->extra[ideal] += extra != NULL ? extra[lattice->units[i]] : 0;
        }
    }
    return true;
}

#define ROUNDING  1e-12
#define SET_STEPS 16 /* what a unit's links take where the problem counts memory itself */

/* How much of the priced time, or memory, a device may take whose price is 1. */
static double allowed(const struct search *search)
{
    switch (search->chain->aim) {
    case SP_STAGES_AIM_LOAD:
        return search->limit;
    case SP_STAGES_AIM_SUM:
        return 1 + SP_STAGES_SLACK;
    case SP_STAGES_AIM_DEVICES:
    case SP_STAGES_AIM_MEMORY:
        break;
    }
    return search->chain->load_limit * (1 + SP_STAGES_SLACK);
}

/* What the load of a stage behind one with so large a value must be below, or for a limit of loads within. */
static double allowed_load(const struct search *search, double value)
{
    return search->chain->aim == SP_STAGES_AIM_SUM ? search->limit - value : allowed(search);
}

/* Whether the units of `ideal` surely cannot be cut below the limit with what `used` leaves. */
static bool is_hopeless(const struct search *search, uint32_t ideal, double value, const uint64_t *used)
{
    double spare = 0;
    if (ideal == 0)
        return value >= search->limit;
    for (uint32_t i = 0; i < search->problem->class_count; i++)
        spare += search->price[i] * (double)(search->problem->class_size[i] - count_of(used, &search->classes[i]));
    if (search->chain->aim == SP_STAGES_AIM_LOAD)
        return value >= search->limit || search->time[ideal] * (1 - ROUNDING) >= search->limit * spare;
    double least = value + search->extra[ideal] * (1 - ROUNDING);
    if (search->chain->aim == SP_STAGES_AIM_DEVICES)
        least = ceil(least - 1e-6);
    return least >= search->limit || search->time[ideal] * (1 - ROUNDING) > allowed(search) * spare;
}

/* Whether a label that used the one is not worse off than with the other: it has the devices left, and where links
   differ the same ones. */
static bool is_as_good(const struct search *search, const uint64_t *less, const uint64_t *more)
{
    return search->counts_places ? memcmp(less, more, sizeof(uint64_t[WORDS])) == 0 : is_within(search, less, more);
}

static struct label *new_label(struct search *search)
{
    struct label *label = search->spare;
    if (label == NULL)
        return SP_NEW(search->arena, struct label);
    search->spare = label->next;
    return label;
}

/* Adds a label to its ideal unless one there is as good in everything; drops those that it is as good as. */
static void add_label(struct search *search, const struct label *made)
{
    struct label **at = &search->labels[made->ideal];
    for (const struct label *other = *at; other != NULL; other = other->next) {
        search->steps++;
        if (other->value <= made->value && is_as_good(search, other->used, made->used))
            return;
    }
    while (*at != NULL) {
        struct label *other = *at;
        if (made->value <= other->value && is_as_good(search, made->used, other->used)) {
            *at = other->next;
            other->next = search->spare;
            search->spare = other;
        } else {
            at = &other->next;
        }
    }
    struct label *label = new_label(search);
    if (label == NULL) {
        search->is_out_of_memory = true;
        return;
    }
    *label = *made;
    label->next = search->labels[made->ideal];
    search->labels[made->ideal] = label;
    if (made->ideal == 0) {
        search->best = label;
        search->limit = made->value;
    }
}

/* Where a label's stage begins in the row of devices. */
static uint64_t first_place(const struct search *search, const struct label *label)
{
    const uint32_t class = search->problem->options[label->option].device_class;
    const struct dimension *kind = &search->classes[class];
    return search->problem->class_first[class] + kind->size - count_of(label->used, kind);
}

/* Whether its stage has a quicker link from the device in front of it than over the outermost level. */
static bool is_near(const struct search *search, const struct label *label)
{
    if (search->problem->levels == NULL)
        return false;
    const uint64_t place = first_place(search, label);
    return place > 0 && sp_stages_level_of(search->problem, place - 1, place) > 0;
}

/* One label more below `parent`: the stage of the frame, in `replicas` replicas under `option`. `own` is what of the
   stage is compared: its load, or its part of the memory. */
static void try_label(struct search *search, const struct label *parent, uint32_t ideal, uint32_t option,
                      uint32_t replicas, double own)
{
    const struct sp_stages_option *by = &search->problem->options[option];
    struct label label = {.parent = parent, .ideal = ideal, .option = option, .replicas = replicas};
    memcpy(label.used, parent->used, sizeof label.used);
    const struct dimension *kind = &search->classes[by->device_class];
    label.used[kind->word] += ((uint64_t)by->devices * replicas) << kind->shift;
    if (search->stages.size > 0)
        label.used[search->stages.word] += UINT64_C(1) << search->stages.shift;
    switch (search->chain->aim) {
    case SP_STAGES_AIM_LOAD:
    case SP_STAGES_AIM_MEMORY:
        label.value = own > parent->value ? own : parent->value;
        break;
    case SP_STAGES_AIM_DEVICES:
        label.value = parent->value + (double)by->devices * replicas;
        break;
    case SP_STAGES_AIM_SUM:
        label.value = parent->value + own;
        break;
    }
    search->steps++;
    if (!is_within(search, label.used, search->capacity) || is_hopeless(search, ideal, label.value, label.used))
        return;
    label.is_near = parent->is_near || is_near(search, &label);
    add_label(search, &label);
}

/* ---- what a stage sends ----------------------------------------------------------------------------------------- */

static bool holds(const struct sp_stages_lattice *lattice, uint32_t ideal, uint32_t block)
{
    if (lattice->words == 0)
        return block < ideal;
    return (lattice->bits[(size_t)ideal * lattice->words + block / 64] >> (block % 64)) & 1;
}

/* The label whose stage a unit is in, that was cut off before the frame. */
static const struct label *stage_with(struct search *search, const struct label *label, uint32_t unit)
{
    for (; label->parent->parent != NULL; label = label->parent, search->steps++)
        if (holds(search->lattice, label->parent->ideal, search->block_of[unit]))
            break;
    return label;
}

/* What a stage sends: more than once the tensors and their bytes, to each stage but one that uses them; and where links
   differ what all sending takes. */
struct sent {
    double again, again_bytes, seconds;
    bool has_seconds;
};

#define MOST_STAGES 64 /* that one tensor goes to; more are not told apart */

/* Behind which place it ends. */
static uint64_t end_place(const struct search *search, const struct label *label)
{
    return first_place(search, label) + (uint64_t)search->problem->options[label->option].devices * label->replicas;
}

/* Whether what a stage that ends before `place` sends may go over links of several levels. */
static bool has_several_links(const struct search *search, uint64_t place, uint32_t class)
{
    const struct sp_stages_problem *problem = search->problem;
    const uint64_t end = (uint64_t)problem->class_first[class] + problem->class_size[class];
    const uint32_t level = sp_stages_level_of(problem, place - 1, place);
    if (level == 0 || (problem->class_count == 1 && place == end))
        return false;
    return problem->class_count > 1 || sp_stages_level_of(problem, place - 1, end - 1) != level;
}

/* What the frame sends as a stage under an option that is followed by those of `parent`. */
static struct sent list_sent(struct search *search, const struct label *parent, uint32_t option)
{
    const struct sp_stages_prepared *prepared = search->prepared;
    const struct sp_stages_problem *problem = search->problem;
    const struct sp_stages_option *by = &problem->options[option];
    struct sent sent = {0};
    uint64_t end = 0;
    if (search->block_of == NULL || parent->parent == NULL)
        return sent;
    if (problem->levels != NULL) {
        const struct dimension *kind = &search->classes[by->device_class];
        end = problem->class_first[by->device_class] + kind->size - count_of(parent->used, kind);
        sent.has_seconds = has_several_links(search, end, by->device_class);
    }
    for (uint32_t i = 0; i < search->frame.sending_count; i++) {
        const uint32_t link = search->frame.sending[i];
        const uint32_t first = prepared->users.start[link], last = prepared->users.start[link + 1];
        const double bytes = prepared->links[link].bytes;
        const struct label *stages[MOST_STAGES];
        uint32_t count = 0, at;
        if (!sent.has_seconds && last - first - search->frame.users[link] < 2)
            continue;
        for (uint32_t j = first; j < last; j++) {
            if (search->frame.inside[prepared->users.items[j]])
                continue;
            const struct label *stage = stage_with(search, parent, prepared->users.items[j]);
            for (at = 0; at < count && stages[at] != stage; at++)
                ;
            if (at < count || count == MOST_STAGES)
                continue;
            stages[count++] = stage;
            if (sent.has_seconds) {
                const struct sp_stages_level *level =
                    &problem->levels[sp_stages_level_of(problem, end - 1, first_place(search, stage))];
                sent.seconds += level->fixed + level->per_byte * (by->transfer_share * bytes);
            }
        }
        sent.again += count > 1 ? count - 1 : 0;
        sent.again_bytes += count > 1 ? (count - 1) * bytes : 0;
    }
    return sent;
}

/* The link over one border in the row of devices: between the devices before and behind it. */
static struct sp_stages_level border(const struct sp_stages_problem *problem, uint64_t place)
{
    return problem->levels[place == 0 ? 0 : sp_stages_level_of(problem, place - 1, place)];
}

/* What one of the stages of `parent` receives where a stage of units from `ideal` on begins at `begin`: the largest of
   all, each divided by its replicas. What is not cut yet is on the far side of that place. */
static double largest_receive(struct search *search, const struct label *parent, uint32_t ideal, uint64_t begin,
                              uint64_t end)
{
    const struct sp_stages_prepared *prepared = search->prepared;
    const struct sp_stages_problem *problem = search->problem;
    const struct label *stages[MOST_STAGES];
    double receive[MOST_STAGES], largest = 0;
    uint32_t count = 0, seen[MOST_STAGES];
    for (const struct label *label = parent; label->parent != NULL && count < MOST_STAGES; label = label->parent) {
        receive[count] = 0;
        seen[count] = UINT32_MAX;
        stages[count++] = label;
    }
    for (uint32_t link = 0; link < prepared->link_count; link++) {
        const uint32_t producer = prepared->links[link].producer;
        uint64_t from = UINT64_MAX;
        for (uint32_t j = prepared->users.start[link]; j < prepared->users.start[link + 1]; j++) {
            const uint32_t user = prepared->users.items[j];
            uint32_t at = 0;
            search->steps++;
            if (search->frame.inside[user] || holds(search->lattice, ideal, search->block_of[user]))
                continue;
            const struct label *stage = stage_with(search, parent, user);
            while (at < count && stages[at] != stage)
                at++;
            if (at == count || seen[at] == link)
                continue;
            seen[at] = link;
            if (from == UINT64_MAX)
                from = holds(search->lattice, ideal, search->block_of[producer]) ? begin
                       : search->frame.inside[producer]                          ? end
                                                        : end_place(search, stage_with(search, parent, producer));
            if (from == end_place(search, stage))
                continue; /* made there */
            const struct sp_stages_level *level =
                &problem->levels[sp_stages_level_of(problem, from - 1, first_place(search, stage))];
            receive[at] += level->fixed + level->per_byte * (problem->options[stage->option].transfer_share *
                                                             prepared->links[link].bytes);
        }
    }
    for (uint32_t i = 0; i < count; i++)
        largest = fmax(largest, receive[i] / stages[i]->replicas);
    return largest;
}

/* Over a slower border than there is between neighbours: what comes from behind it, whoever makes it, is late. Stages
   that nothing reaches but over the slowest links are known to wait so long. */
static double late_receive(struct search *search, const struct label *parent, uint32_t ideal, uint32_t option,
                           uint32_t replicas)
{
    const struct sp_stages_problem *problem = search->problem;
    const struct sp_stages_option *by = &problem->options[option];
    if (problem->levels == NULL || search->block_of == NULL || !parent->is_near || ideal == 0)
        return 0;
    const struct dimension *kind = &search->classes[by->device_class];
    const uint64_t end = problem->class_first[by->device_class] + kind->size - count_of(parent->used, kind);
    const uint64_t begin = end - (uint64_t)by->devices * replicas;
    if (begin == 0 || sp_stages_level_of(problem, begin - 1, begin) + 1 == problem->level_count)
        return 0;
    return largest_receive(search, parent, ideal, begin, end);
}

/* The load of the frame's stage before it is divided by its replicas. What it receives is counted as if it came from its
   neighbour: where else it is made is not known yet. */
static double load_of(const struct search *search, uint32_t option, const struct label *parent, uint32_t replicas,
                      double copies, const struct sent *sent)
{
    const struct sp_stages_frame *frame = &search->frame;
    const struct sp_stages_option *by = &search->problem->options[option];
    struct sp_stages_level before = {1, by->transfer_fixed, by->transfer_per_byte}, behind = before;
    if (search->problem->levels != NULL) {
        const struct dimension *kind = &search->classes[by->device_class];
        const uint64_t end = search->problem->class_first[by->device_class] + kind->size - count_of(parent->used, kind);
        behind = border(search->problem, end);
        before = border(search->problem, end - (uint64_t)by->devices * replicas);
        behind.per_byte *= by->transfer_share;
        before.per_byte *= by->transfer_share;
    }
    const bool is_sum = search->chain->aim == SP_STAGES_AIM_SUM; /* a latency sends once to all */
    const double again = is_sum ? 0 : sent->again, again_bytes = is_sum ? 0 : sent->again_bytes;
    const double receive = before.fixed * frame->received + before.per_byte * frame->received_bytes;
    const double send = behind.fixed * (frame->sent + again) + behind.per_byte * (frame->sent_bytes + again_bytes);
    return sp_stages_frame_load(frame, option, copies, receive, sent->has_seconds ? sent->seconds : send);
}

/* ---- stages ----------------------------------------------------------------------------------------------------- */

/* Of the memory there is, what `bytes` are. */
static double share_of(const struct search *search, uint32_t option, double bytes)
{
    const double room = search->problem->options[option].memory_bytes;
    return bytes == 0 || room == INFINITY ? 0 : bytes / room;
}

/* What the frame's stage takes. Where there is room for anything, nobody has to count. */
static double bytes_of(const struct search *search, uint32_t option, const struct sent *sent)
{
    const struct sp_stages_option *by = &search->problem->options[option];
    if (by->memory_bytes == INFINITY && by->copy_per_byte == 0)
        return 0;
    const double buffers = 2 * sent->again_bytes * by->transfer_share;
    return sp_stages_frame_bytes(&search->frame, option) + buffers;
}

/* What copies take; where memory itself is what is looked for nobody asks. */
static double copies_of(const struct search *search, uint32_t option, const struct sent *sent)
{
    if (search->problem->options[option].copy_per_byte == 0 || search->chain->aim == SP_STAGES_AIM_MEMORY)
        return 0;
    return sp_stages_copies(search->problem, option, search->frame.set, bytes_of(search, option, sent));
}

static bool fits(const struct search *search, double ratio)
{
    return search->chain->aim == SP_STAGES_AIM_MEMORY ? ratio < search->limit : ratio <= 1 + SP_STAGES_SLACK;
}

/* The numbers of replicas that are worth trying for one label: from the first that brings the load down to what is
   asked, to the first beyond which more change nothing. */
static void extend_label(struct search *search, const struct label *parent, uint32_t ideal, uint32_t option)
{
    const struct sp_stages_option *by = &search->problem->options[option];
    const struct dimension *kind = &search->classes[by->device_class];
    const enum sp_stages_aim aim = search->chain->aim;
    const bool is_below = aim == SP_STAGES_AIM_LOAD || aim == SP_STAGES_AIM_SUM;
    const uint64_t most = sp_stages_room(by, kind->size - count_of(parent->used, kind));
    const double limit = allowed_load(search, parent->value);
    const double enough = aim == SP_STAGES_AIM_LOAD ? fmax(parent->value, search->chain->rates->largest) : limit;
    struct sent sent = list_sent(search, parent, option);
    const double copies = copies_of(search, option, &sent);
    double least = limit > 0 && limit < INFINITY ? floor(fmax(search->frame.seconds[option], copies) / limit) : 1;
    if (copies == INFINITY)
        return;
    for (uint64_t replicas = least > 1 && least < 1e9 ? (uint64_t)least : 1; replicas <= most; replicas++) {
        double each = load_of(search, option, parent, (uint32_t)replicas, copies, &sent) / (double)replicas;
        search->steps++;
        if (is_below ? each >= limit : each > limit)
            continue;
        double ratio = share_of(search, option, bytes_of(search, option, &sent));
        if (!fits(search, ratio))
            continue;
        const double late = late_receive(search, parent, ideal, option, (uint32_t)replicas);
        if (late <= limit)
            try_label(search, parent, ideal, option, (uint32_t)replicas,
                      aim == SP_STAGES_AIM_MEMORY ? ratio : fmax(each, late));
        if (each <= enough)
            return;
    }
}

/* Seconds of the frame's stage, without transfers, and of each larger one, at least. */
static double least_seconds(const struct search *search, uint32_t option)
{
    const double seconds = search->frame.seconds[option];
    if (search->problem->options[option].copy_per_byte == 0 || search->chain->aim == SP_STAGES_AIM_MEMORY)
        return seconds;
    return fmax(seconds,
                sp_stages_copies(search->problem, option, NULL, sp_stages_frame_memory(&search->frame, option)));
}

/* The frame is a stage between the ideal under way and `ideal`. False where no larger one can be a stage either. */
static bool visit(struct search *search, uint32_t ideal)
{
    bool is_alive = false;
    const double limit = allowed_load(search, 0);
    search->steps += 1 + search->problem->option_count;
    for (uint32_t option = 0; option < search->problem->option_count; option++) {
        if (search->most[option] == 0 || search->frame.seconds[option] == INFINITY ||
            least_seconds(search, option) > limit * search->most[option] ||
            !fits(search, share_of(search, option, sp_stages_frame_memory(&search->frame, option))))
            continue;
        is_alive = true;
        if (search->time[ideal] > search->most_time[option])
            continue; /* only larger stages are of interest */
        for (uint32_t i = 0; i < search->here_count; i++)
            extend_label(search, search->here[i], ideal, option);
    }
    return is_alive;
}

/* How many replicas any label has devices for, and how much time of those left a stage must leave to what is below. */
static void measure_room(struct search *search)
{
    double spare = 0;
    for (uint32_t i = 0; i < search->here_count; i++) {
        double priced = 0;
        for (uint32_t j = 0; j < search->problem->class_count; j++)
            priced += search->price[j] *
                      (double)(search->problem->class_size[j] - count_of(search->here[i]->used, &search->classes[j]));
        spare = priced > spare ? priced : spare;
    }
    for (uint32_t option = 0; option < search->problem->option_count; option++) {
        const struct sp_stages_option *by = &search->problem->options[option];
        const struct dimension *kind = &search->classes[by->device_class];
        uint64_t most = 0;
        for (uint32_t i = 0; i < search->here_count; i++) {
            uint64_t room = sp_stages_room(by, kind->size - count_of(search->here[i]->used, kind));
            most = room > most ? room : most;
        }
        search->most[option] = (uint32_t)most;
        search->most_time[option] =
            allowed(search) * (spare - search->price[by->device_class] * by->devices) * (1 + 4 * ROUNDING);
        if (isnan(search->most_time[option]))
            search->most_time[option] = INFINITY; /* any load is allowed, and no time is left: nothing is known */
    }
}

/* Gathers the labels of an ideal; false without any. */
static bool gather(struct search *search, uint32_t ideal)
{
    search->here_count = 0;
    for (struct label *label = search->labels[ideal]; label != NULL; label = label->next) {
        if (is_hopeless(search, ideal, label->value, label->used))
            continue; /* the limit has come down since */
        if (!SP_MAKE_ROOM(search->arena, search->here, search->here_count, search->here_room, 1)) {
            search->is_out_of_memory = true;
            return false;
        }
        search->here[search->here_count++] = label;
    }
    measure_room(search);
    return search->here_count > 0;
}

static void enter(struct search *search, uint32_t level, uint32_t ideal, uint32_t last)
{
    search->ideal[level] = ideal;
    search->cursor[level] = search->lattice->start[ideal];
    search->last[level] = last;
}

/*
 * All ideals below one, each once: blocks are taken away the last first, and a block that comes later in the order than
 * the one taken away before is left to another way down.
 */
static bool walk(struct search *search, uint32_t from)
{
    const struct sp_stages_lattice *lattice = search->lattice;
    uint32_t level = 0;
    enter(search, 0, from, UINT32_MAX);
    for (;;) {
        if (search->cursor[level] == lattice->start[search->ideal[level] + 1]) {
            if (level == 0)
                return true;
            uint32_t block = search->last[level--], first = lattice->first[block];
            sp_stages_frame_pop(&search->frame, lattice->units + first, lattice->first[block + 1] - first);
            continue;
        }
        uint32_t step = search->cursor[level]++, block = lattice->block[step], ideal = lattice->target[step];
        search->steps++;
        if (block >= search->last[level])
            continue;
        sp_stages_frame_push(&search->frame);
        for (uint32_t i = lattice->first[block]; i < lattice->first[block + 1]; i++) {
            uint32_t unit = lattice->units[i];
            sp_stages_frame_put(&search->frame, unit);
            uint64_t steps = 1 + search->prepared->makes.start[unit + 1] - search->prepared->makes.start[unit] +
                             search->prepared->takes.start[unit + 1] - search->prepared->takes.start[unit];
            search->steps += search->frame.set != NULL ? SET_STEPS * steps : steps;
        }
        bool is_alive = visit(search, ideal);
        enter(search, ++level, ideal, block);
        if (!is_alive)
            search->cursor[level] = lattice->start[ideal + 1];
        bool goes_on = true;
        if (search->steps >= 65536) {
            goes_on = sp_stages_spend(search->run, search->steps);
            search->steps = 0;
        }
        if (!goes_on || search->is_out_of_memory || (search->chain->is_any && search->best != NULL))
            return false;
    }
}

static bool write_solution(struct search *search, struct sp_stages_solution *solution)
{
    const struct sp_stages_lattice *lattice = search->lattice;
    uint32_t count = 0;
    for (const struct label *label = search->best; label->parent != NULL; label = label->parent)
        count++;
    solution->choices = SP_NEW_ARRAY(search->run->scratch, count, struct sp_stages_choice);
    solution->stage_of = SP_NEW_ARRAY(search->run->scratch, search->prepared->unit_count, uint32_t);
    if (solution->choices == NULL || solution->stage_of == NULL)
        return false;
    uint32_t stage = 0;
    for (const struct label *label = search->best; label->parent != NULL; label = label->parent, stage++) {
        const struct dimension *kind = &search->classes[search->problem->options[label->option].device_class];
        solution->choices[stage] = (struct sp_stages_choice){label->option, label->replicas,
                                                             kind->size - (uint32_t)count_of(label->used, kind)};
        for (uint32_t block = 0; block < lattice->block_count; block++)
            if (holds(lattice, label->parent->ideal, block) && !holds(lattice, label->ideal, block))
                for (uint32_t i = lattice->first[block]; i < lattice->first[block + 1]; i++)
                    solution->stage_of[lattice->units[i]] = stage;
    }
    solution->stage_count = count;
    solution->is_feasible = true;
    solution->value = search->best->value;
    return true;
}

static bool init(struct search *search)
{
    uint32_t options = search->problem->option_count, levels = search->lattice->block_count + 1;
    search->labels = SP_NEW_ARRAY(search->arena, search->lattice->count, struct label *);
    search->most = SP_NEW_ARRAY(search->arena, options, uint32_t);
    search->most_time = SP_NEW_ARRAY(search->arena, options, double);
    search->ideal = SP_NEW_ARRAY(search->arena, levels, uint32_t);
    search->cursor = SP_NEW_ARRAY(search->arena, levels, uint32_t);
    search->last = SP_NEW_ARRAY(search->arena, levels, uint32_t);
    if (search->labels == NULL || search->most == NULL || search->most_time == NULL || search->ideal == NULL ||
        search->cursor == NULL || search->last == NULL ||
        !sp_stages_frame_init(search->arena, search->prepared, levels, &search->frame) || !sum_rates(search))
        return false;
    if (search->problem->sends_to_each) {
        const struct sp_stages_lattice *lattice = search->lattice;
        search->block_of = SP_NEW_ARRAY(search->arena, search->prepared->unit_count, uint32_t);
        if (search->block_of == NULL)
            return false;
        for (uint32_t block = 0; block < lattice->block_count; block++)
            for (uint32_t i = lattice->first[block]; i < lattice->first[block + 1]; i++)
                search->block_of[lattice->units[i]] = block;
    }
    return true;
}

/* The labels of all units: no device is used yet. Where links differ, the last ones of the row may stay free: what
   matters is where the stages lie in a group of the outermost level. */
static bool start(struct search *search)
{
    const struct sp_stages_problem *problem = search->problem;
    const bool moves = search->counts_places && problem->class_count == 1;
    const uint32_t top = search->lattice->count - 1, most = moves ? problem->levels[0].group : 1;
    uint32_t step = UINT32_MAX;
    for (uint32_t i = 0; i < problem->option_count; i++)
        if (problem->options[i].devices > 0 && problem->options[i].devices < step)
            step = problem->options[i].devices;
    for (uint32_t free = 0; free == 0 || (free < most && free < problem->class_size[0]); free += step) {
        struct label *all = SP_NEW(search->arena, struct label);
        if (all == NULL)
            return false;
        *all = (struct label){.ideal = top, .next = search->labels[top]};
        all->used[search->classes[0].word] += (uint64_t)free << search->classes[0].shift;
        search->labels[top] = all;
    }
    return true;
}

enum sp_status sp_stages_chain_search(struct sp_stages_run *run, const struct sp_stages_chain *chain,
                                      struct sp_stages_solution *solution, bool *ret_is_complete)
{
    struct search search = {.run = run,
                            .chain = chain,
                            .prepared = chain->prepared,
                            .problem = chain->prepared->problem,
                            .lattice = chain->lattice,
                            .limit = chain->limit};
    enum sp_status status = SP_OK;
    bool is_complete = false;
    *solution = (struct sp_stages_solution){0};
    search.arena = sp_arena_create(sp_arena_budget(run->scratch));
    if (search.arena == NULL || !init(&search)) {
        status = sp_fail_memory(run->err);
        goto end;
    }
    if (set_dimensions(&search)) {
        is_complete = start(&search);
        search.is_out_of_memory = !is_complete;
        for (uint32_t ideal = search.lattice->count - 1; is_complete && ideal > 0; ideal--)
            is_complete = !gather(&search, ideal) || walk(&search, ideal);
        sp_stages_spend(run, search.steps);
    }
    if (search.is_out_of_memory || (search.best != NULL && !write_solution(&search, solution)))
        status = sp_fail_memory(run->err);
    if (status == SP_OK)
        *ret_is_complete = is_complete;
end:
    sp_arena_destroy(search.arena);
    return status;
}
