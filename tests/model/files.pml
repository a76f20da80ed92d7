/*
 * files - rows, reservations and files of one model: whoever sleeps, at whatever step, takes nothing from who is awake.
 *
 * Two daemons store and delete the same model for two tenants and sweep, all as often as they like; NUMBERS bounds how
 * often they store. Between two steps of one daemon anything may happen: it sleeps there as long as others like. The store is
 * restarted at any moment: sessions end, answers get lost after the commit, and whoever was away for long is taken for dead.
 * A daemon may also die at any step. At the end one that is left sweeps.
 *
 * NUMBERS is how many numbers there are, MOST at most; RESTARTS how many answers get lost.
 *
 * Each step says which function it is (server/). What is one step here is one transaction of the store or one system call.
 *
 *   always         what a row names is there; what was answered is in the store until somebody deletes it
 *   at the end     after a sweep no file is there that no row names
 */
#define NONE    0
#define DAEMONS 2
#define MOST    3

byte next = 1;                  /* the number that store_reserve() gives */
byte reserved[MOST + 1];     /* by which daemon: 1, 2; NONE */
bool blob[MOST + 1];         /* blobs/ab/cdef...N, or an object of this name */
bool inspection[MOST + 1];   /* blobs/ab/cdef...N.json */
byte row_blob[2];               /* of each tenant's row: models.blob; NONE: no row */
byte row_inspection[2];         /* models.inspection */
bool told[2];                   /* a client of this tenant was answered 201 or 200, and has not asked for the deletion since */
byte damaged = NONE;            /* a blob that a disk lost */
byte restarts = 0;
byte ended = 0;                 /* daemons that are dead or have stopped */
bool deaths[DAEMONS + 1];       /* of which daemon */

#define NAMED_BLOB(n)       (reserved[n] != NONE || row_blob[0] == n || row_blob[1] == n)
#define NAMED_INSPECTION(n) (reserved[n] != NONE || row_inspection[0] == n || row_inspection[1] == n)
#define WHOLE(t)                                                                                                       \
    (row_blob[t] == NONE ||                                                                                            \
     ((blob[row_blob[t]] || row_blob[t] == damaged) && inspection[row_inspection[t]]))

inline check()
{
    assert(WHOLE(0) && WHOLE(1));
    assert(!told[0] || row_blob[0] != NONE);
    assert(!told[1] || row_blob[1] != NONE);
}

/* The answer of the store to a transaction that is committed: it may not arrive. */
inline answer(ret)
{
    if
    :: ret = true
    :: restarts < RESTARTS -> restarts++; ret = false
    fi
}

/* A file that the store does not name at this moment. */
#define ASK(files, named, number) atomic { number <= NUMBERS && files[number] && !named(number) -> n = number }

/* files_tidy_model(), sweep_blob() in store/files.c; sweep_object() in store/blobs.c: any files of those that are not named.
   Between the question, store_names(), and the removal, unlink() or s3_delete(), anything may happen. */
inline tidy(n)
{
    do
    :: if
       :: ASK(blob, NAMED_BLOB, 1)
       :: ASK(blob, NAMED_BLOB, 2)
       :: ASK(blob, NAMED_BLOB, 3)
       fi;
       atomic { blob[n] = false; n = NONE; check() }
    :: if
       :: ASK(inspection, NAMED_INSPECTION, 1)
       :: ASK(inspection, NAMED_INSPECTION, 2)
       :: ASK(inspection, NAMED_INSPECTION, 3)
       fi;
       atomic { inspection[n] = false; n = NONE; check() }
    :: break
    od
}

/* publish() and add_files() in routes/ingest.c, from where the number is known */
inline store_model(me, t, number, n, replaces, ok)
{
    atomic { /* look_at_blob(): store_find_blob(); blobs_have(): what it sees may be old when it is used */
        if
        :: row_blob[0] != NONE -> replaces = !blob[row_blob[0]]
        :: row_blob[0] == NONE && row_blob[1] != NONE -> replaces = !blob[row_blob[1]]
        :: else
        fi
    };
    inspection[number] = true; /* files_publish(): rename() */
    blob[number] = true;       /* s3_put(), rename() */
    atomic { /* store_add_model() */
        if
#ifndef UNFENCED /* what goes wrong without this is a test of the model */
        :: reserved[number] != me -> ok = false /* store_overtaken() */
#endif
        :: else ->
            reserved[number] = NONE;
            if
            :: row_blob[0] == NONE && row_blob[1] == NONE -> row_blob[t] = number
            :: else ->
                if
                :: replaces ->
                    if :: row_blob[0] != NONE -> row_blob[0] = number :: else fi;
                    if :: row_blob[1] != NONE -> row_blob[1] = number :: else fi;
                    row_blob[t] = number
                :: else -> row_blob[t] = (row_blob[0] != NONE -> row_blob[0] : row_blob[1])
                fi
            fi;
            row_inspection[t] = number;
            check();
            answer(ok);
            if :: ok -> told[t] = true :: else fi
        fi;
        replaces = false
    };
    if
    :: ok
    :: else -> atomic { if :: reserved[number] == me -> reserved[number] = NONE :: else fi } /* store_unreserve() */
    fi;
    tidy(n) /* blobs_tidy() */
}

proctype daemon(byte me)
{
    byte number, n;
    bool t, replaces, ok;
    {
        do
        :: atomic { next <= NUMBERS -> number = next; next++; reserved[number] = me; answer(ok); if :: t = 0 :: t = 1 fi };
           /* store_reserve(); where the answer is lost, the number stays reserved until its daemon is taken for dead */
           if
           :: ok -> store_model(me, t, number, n, replaces, ok)
           :: else
           fi;
           atomic { number = NONE; t = 0; ok = false }
        :: atomic { if :: t = 0 :: t = 1 fi; row_blob[t] = NONE; row_inspection[t] = NONE; told[t] = false; t = 0; answer(ok) };
           /* store_delete_model() in model_delete_finish(), routes/models.c, and evict(), routes/room.c */
           if
           :: ok -> tidy(n)
           :: else
           fi;
           ok = false
        :: atomic { if :: skip :: atomic { n = 1; do :: n > NUMBERS -> break
                                                    :: n <= NUMBERS -> if :: reserved[n] != me -> reserved[n] = NONE
                                                                          :: else fi; n++ od; n = NONE } fi };
           /* files_sweep(): store_end_reservations() of whoever slept for ten leases */
           tidy(n)
        :: break
        od
    } unless { deaths[me] }; /* at any step */
    atomic { number = NONE; n = NONE; t = 0; ok = false; replaces = false; ended++ }
}

active proctype world()
{
    byte n;
    atomic { run daemon(1); run daemon(2) };
    if
    :: skip
    :: deaths[1] = true
    :: deaths[2] = true
    fi;
    if
    :: skip
    :: atomic { row_blob[0] != NONE && blob[row_blob[0]] -> damaged = row_blob[0]; blob[damaged] = false }
    fi;
    ended == DAEMONS;
    atomic { n = 1; do :: n > NUMBERS -> break :: n <= NUMBERS -> reserved[n] = NONE; n++ od; n = 0 };
    do /* a sweep that ends: files_sweep() */
    :: blob[1] && !NAMED_BLOB(1) -> blob[1] = false
    :: blob[2] && !NAMED_BLOB(2) -> blob[2] = false
    :: blob[3] && !NAMED_BLOB(3) -> blob[3] = false
    :: inspection[1] && !NAMED_INSPECTION(1) -> inspection[1] = false
    :: inspection[2] && !NAMED_INSPECTION(2) -> inspection[2] = false
    :: inspection[3] && !NAMED_INSPECTION(3) -> inspection[3] = false
    :: else -> break
    od;
    check();
    n = 1;
    do
    :: n > NUMBERS -> break
    :: n <= NUMBERS -> assert(!blob[n] || NAMED_BLOB(n)); assert(!inspection[n] || NAMED_INSPECTION(n)); n++
    od
}
