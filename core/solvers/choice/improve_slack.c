/* The slack of all moments, and random numbers: see improve_internal.h. */
#include "solvers/choice/improve_internal.h"

#define FAR ((int64_t)1 << 60) /* more slack than any limit leaves; outside the moments */

static int64_t least_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

enum sp_status sp_slack_tree_init(struct sp_slack_tree *tree, struct sp_arena *arena, uint32_t moments)
{
    uint32_t size = 4;

    while (size < moments + 2)
        size *= 2;
    tree->size = size;
    tree->least = SP_NEW_ARRAY(arena, 2 * (size_t)size, int64_t);
    tree->mark = SP_NEW_ARRAY(arena, size, int64_t);
    return tree->least == NULL || tree->mark == NULL ? SP_ERR_MEMORY : SP_OK;
}

void sp_slack_tree_set(struct sp_slack_tree *tree, uint32_t moments, const int64_t *slack)
{
    uint32_t size = tree->size;

    for (uint32_t i = 0; i < size; i++) {
        tree->least[size + i] = i >= 1 && i <= moments ? slack[i - 1] : FAR;
        tree->mark[i] = 0;
    }
    for (uint32_t i = size - 1; i >= 1; i--)
        tree->least[i] = least_of(tree->least[2 * i], tree->least[2 * i + 1]);
}

/* Adds to a node that lies wholly inside. */
static void add_at(struct sp_slack_tree *tree, uint32_t node, int64_t amount)
{
    tree->least[node] += amount;
    if (node < tree->size)
        tree->mark[node] += amount;
}

void sp_slack_tree_add(struct sp_slack_tree *tree, uint32_t from, uint32_t to, int64_t amount)
{
    uint32_t left = from + tree->size, right = to + 1 + tree->size; /* both just outside: leaves begin at 1 */

    while ((left ^ right) != 1) {
        if ((left & 1) == 0)
            add_at(tree, left ^ 1, amount);
        if ((right & 1) != 0)
            add_at(tree, right ^ 1, amount);
        left /= 2;
        right /= 2;
        tree->least[left] = least_of(tree->least[2 * left], tree->least[2 * left + 1]) + tree->mark[left];
        tree->least[right] = least_of(tree->least[2 * right], tree->least[2 * right + 1]) + tree->mark[right];
    }
    for (left /= 2; left >= 1; left /= 2)
        tree->least[left] = least_of(tree->least[2 * left], tree->least[2 * left + 1]) + tree->mark[left];
}

int64_t sp_slack_tree_minimum(const struct sp_slack_tree *tree, uint32_t from, uint32_t to)
{
    uint32_t left = from + tree->size, right = to + 1 + tree->size;
    int64_t at_left = 2 * FAR, at_right = 2 * FAR;

    while ((left ^ right) != 1) {
        if ((left & 1) == 0)
            at_left = least_of(at_left, tree->least[left ^ 1]);
        if ((right & 1) != 0)
            at_right = least_of(at_right, tree->least[right ^ 1]);
        left /= 2;
        right /= 2;
        at_left += tree->mark[left];
        at_right += tree->mark[right];
    }
    at_left = least_of(at_left, at_right);
    for (left /= 2; left >= 1; left /= 2)
        at_left += tree->mark[left];
    return at_left;
}

uint32_t sp_slack_tree_worst(const struct sp_slack_tree *tree)
{
    uint32_t node = 1;

    while (node < tree->size)
        node = tree->least[2 * node] <= tree->least[2 * node + 1] ? 2 * node : 2 * node + 1;
    return node - tree->size - 1;
}
