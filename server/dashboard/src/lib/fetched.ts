// What a view has asked the daemon for: the answer, a problem, or neither yet.
import { useEffect, useRef, useState } from 'preact/hooks';
import { get, needsToken, Problem, token } from './api';

export interface Fetched<Answer> {
  data: Answer | undefined; // of the latest request that was answered: it stays while the next one is under way
  problem: Problem | undefined;
  loading: boolean;
  reload: () => void;
}

/** Asks for `path` (null: for nothing), and again when it changes. An answer that is no longer wanted is dropped. */
export function useFetched<Answer>(path: string | null): Fetched<Answer> {
  const [state, setState] = useState<{ path: string | null; data?: Answer; problem?: Problem; loading: boolean }>({
    path: null,
    loading: path !== null,
  });
  const [round, setRound] = useState(0);
  const latest = useRef(path);
  latest.current = path;
  const bearer = token.value;
  useEffect(() => {
    if (path === null) return;
    const abort = new AbortController();
    setState((old) => ({ ...old, loading: true }));
    get<Answer>(path, abort.signal).then(
      (data) => {
        if (!abort.signal.aborted) setState({ path, data, loading: false });
      },
      (error: unknown) => {
        if (abort.signal.aborted) return;
        const problem = error instanceof Problem ? error : new Problem(0, 'PAGE', String(error));
        setState((old) => ({ path, data: old.path === path ? old.data : undefined, problem, loading: false }));
      },
    );
    return () => abort.abort();
  }, [path, round, bearer]);
  return {
    data: path === null ? undefined : state.data,
    problem: needsToken.value ? undefined : state.problem,
    loading: path !== null && (state.loading || state.path !== path),
    reload: () => setRound(round + 1),
  };
}
