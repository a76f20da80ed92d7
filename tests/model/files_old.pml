/*
 * files_old - the protocol before files had numbers, which loses a model: kept so that the check is seen to find that.
 *
 * The blob of a model was blobs/ab/cdef.., whoever stored it. An advisory lock of the session held off others: the lock ended
 * with the session when PostgreSQL was restarted, but the daemon that had it went on with what needs no store.
 *
 *   always      what the row names is there
 */
#define NONE 0

bool row, blob;
byte locked = NONE;   /* by which daemon: store_lock_model() */
bool session[3];      /* of each daemon, since it has the lock: calls fail when it is lost */
byte restarts = 0;

inline lock(me)
{
    atomic { locked == NONE -> locked = me; session[me] = true }
}

inline unlock(me)
{
    atomic { if :: locked == me -> locked = NONE :: else fi; session[me] = false }
}

proctype daemon(byte me)
{
    bool is_last;
    do
    :: lock(me); /* publish() in routes/ingest.c */
       blob = true;                                                                   /* files_publish(): rename() */
       atomic { if :: session[me] -> row = true; assert(blob) :: else fi };           /* store_add_model() */
       unlock(me)
    :: lock(me); /* model_delete_finish() in routes/models.c */
       atomic { is_last = session[me] && row; if :: is_last -> row = false :: else fi }; /* store_delete_model() */
       if
       :: is_last -> atomic { blob = false; is_last = false; assert(!row) }           /* files_remove_blob(): unlink() */
       :: else
       fi;
       unlock(me)
    :: lock(me); /* sweep_blob() in store/files.c */
       atomic { is_last = session[me] && !row };                                      /* store_find_model() */
       if
       :: is_last -> atomic { blob = false; is_last = false; assert(!row) }           /* unlink() */
       :: else
       fi;
       unlock(me)
    od
}

active proctype world()
{
    atomic { run daemon(1); run daemon(2) };
    do /* PostgreSQL is restarted: sessions end, and the locks with them */
    :: atomic { restarts < RESTARTS -> restarts++; locked = NONE; session[1] = false; session[2] = false }
    :: break
    od
}
