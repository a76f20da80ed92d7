/*
 * leases - one plan, its lease, its attempts and their files: it ends once, and the files of its end stay.
 *
 * Two daemons take the plan, work and end it; whoever sleeps loses the lease, at any step, and goes on later. Answers of the
 * store get lost after the commit. At the end one that is left sweeps.
 *
 * Each step says which function it is (server/). What is one step here is one transaction of the store or one system call.
 *
 *   always         a plan that has ended stays as it is; one that succeeded has the files of its last attempt
 *   at the end     the plan has ended, and no other files of it are there
 */
mtype = { queued, running, succeeded, failed };

mtype state = queued;
byte attempts = 0;            /* plans.attempts: each claim counts it up */
byte ends = 0;                /* how often a transaction ended the plan */
bool files[ATTEMPTS + 1];     /* plans/ID/N */
byte lost = 0;
byte stopped = 0;

inline check()
{
    assert(ends <= 1);
    assert(state != succeeded || files[attempts])
}

inline answer(ret)
{
    if
    :: ret = true
    :: lost < LOST -> lost++; ret = false
    fi
}

/* tidy() in jobs/ledger.c: asks, and removes an attempt that does not count any more. */
inline tidy(mine)
{
    if
    :: atomic { attempts > mine -> skip } /* store_get_plan() */
       atomic { files[mine] = false; check() } /* remove_attempt() */
    :: else
    fi
}

proctype daemon()
{
    byte mine, n;
    bool ok;
    do
    :: atomic { state == queued && attempts < ATTEMPTS -> state = running; attempts++; mine = attempts; answer(ok) }; /* store_claim() */
       if
       :: !ok -> skip /* nobody knows: store_beat() gives it back, which is the end of a lease */
       :: ok ->
          files[mine] = true; /* the worker writes its results, and goes on doing so when its lease is over */
          do /* tell_end(): again until the store says what became of it */
          :: skip; atomic { /* store_finish() */
                 if
#ifndef UNFENCED
                 :: !(state == running && attempts == mine) -> n = 2 /* STORE_LOST */
#else
                 :: state != running -> n = 2
#endif
                 :: else -> state = succeeded; ends++; check(); n = 1
                 fi;
                 answer(ok)
             };
             if
             :: !ok -> skip
             :: ok && n == 1 -> /* files_remove_attempts() */
                n = 1;
                do
                :: n >= mine -> break
                :: n < mine -> atomic { files[n] = false; check(); n++ }
                od;
                break
             :: ok && n == 2 -> tidy(mine); break
             fi
          :: skip; atomic { /* store_requeue(), after a crash of the worker */
                 if
                 :: state == running && attempts == mine && attempts < ATTEMPTS -> state = queued; n = 1
                 :: state == running && attempts == mine && attempts == ATTEMPTS -> state = failed; ends++; check(); n = 3
                 :: else -> n = 2
                 fi;
                 answer(ok)
             };
             if
             :: !ok -> skip
             :: ok && n == 1 -> atomic { files[mine] = false; check() }; break /* remove_attempt() */
             :: ok && n == 2 -> tidy(mine); break
             :: ok && n == 3 -> /* remove_plan() */
                atomic { files[1] = false; files[ATTEMPTS] = false; n = 1;
                         do :: n > ATTEMPTS -> break :: n <= ATTEMPTS -> files[n] = false; n++ od; check() };
                break
             fi
          od
       fi;
       atomic { mine = 0; n = 0; ok = false }
    :: atomic { /* store_reclaim(): the lease has ended, however alive its daemon is */
           state == running ->
           if
           :: attempts < ATTEMPTS -> state = queued
           :: else -> state = failed; ends++
           fi;
           check()
       }
    :: break
    od;
    atomic { mine = 0; stopped++ }
}

active proctype world()
{
    byte n = 1;
    atomic { run daemon(); run daemon() };
    stopped == 2;
    atomic { if :: state == queued || state == running -> state = failed; ends++ :: else fi }; /* another daemon goes on */
    do /* sweep_plan() in store/files.c */
    :: n > ATTEMPTS -> break
    :: n <= ATTEMPTS -> atomic { if :: n < attempts || state != succeeded -> files[n] = false :: else fi; n++ }
    od;
    check();
    n = 1;
    do
    :: n > ATTEMPTS -> break
    :: n <= ATTEMPTS -> assert(!files[n] || (state == succeeded && n == attempts)); n++
    od;
    assert(ends == 1)
}
