#include "base/shortage.h"

#include <stdatomic.h>

static atomic_bool noted;

void sp_shortage_note(void)
{
    atomic_store(&noted, true);
}

bool sp_shortage_noted(void)
{
    return atomic_exchange(&noted, false);
}
