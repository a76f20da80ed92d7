// A plan that is not there yet: what its search does, told as it happens; or why it will never be there.
import { useEffect, useState } from 'preact/hooks';
import { post, Problem } from '../lib/api';
import { courses, note } from '../lib/course';
import { follow } from '../lib/events';
import { useFetched } from '../lib/fetched';
import { seconds, share } from '../lib/format';
import { link } from '../lib/route';
import { useTitle } from '../lib/title';
import type { PlanState, Progress, State } from '../lib/types';
import { Convergence, ConvergenceTable } from '../ui/convergence';
import { Card, Exact, Facts, Figure, ProblemBox, Shown, StateBadge } from '../ui/parts';

const PHASES: Record<string, string> = {
  queued: 'Waiting for a worker',
  start: 'Starting',
  read: 'Reading the model',
  shapes: 'Inferring shapes',
  search: 'Searching',
  stages: 'Searching for stages',
  sweep: 'Planning on each of the clusters',
  'what-if': 'Asking what a change of the cluster would bring',
  write: 'Writing the plan',
  store: 'Storing the plan',
};

function Live(props: { plan: PlanState; done: () => void; reload: () => void }) {
  const { plan } = props;
  const [state, setState] = useState<State>(plan.state);
  const [progress, setProgress] = useState<Progress>(plan.progress);
  const [asked, setAsked] = useState(plan.cancel_requested === true);
  const [problem, setProblem] = useState<Problem>();
  useEffect(() => {
    const abort = new AbortController();
    // Counted from when the search began, by the clocks of two machines: never less than nothing.
    const began = new Date(plan.started_at ?? plan.created_at).getTime();
    let latest = plan.progress; // an event tells what is new
    void follow(
      `v1/plans/${plan.id}/events`,
      (event) => {
        const data = JSON.parse(event.data) as Partial<Progress> & { state?: State; has_result?: boolean };
        if (event.event === 'progress' || event.event === 'improved') {
          if (data.state !== undefined) setState(data.state);
          latest = { ...latest, ...data };
          setProgress(latest);
          note(plan.id, {
            seconds: Math.max(0, (Date.now() - began) / 1000),
            best: latest.best_seconds,
            bound: latest.lower_bound_seconds,
          });
          return true;
        }
        if (event.event === 'done' && data.has_result === true) props.done();
        else props.reload();
        return false;
      },
      setProblem,
      abort.signal,
    );
    return () => abort.abort();
  }, [plan.id]);
  const cancel = () => {
    setAsked(true);
    post(`v1/plans/${plan.id}/cancel`).catch((error: unknown) => {
      setAsked(false);
      setProblem(error instanceof Problem ? error : new Problem(0, 'PAGE', String(error)));
    });
  };
  const points = courses.value[plan.id] ?? [];
  useTitle(`${PHASES[progress.phase] ?? progress.phase}, plan ${plan.id.slice(0, 12)}`);
  const gap =
    progress.best_seconds !== undefined && progress.lower_bound_seconds !== undefined
      ? (progress.best_seconds - progress.lower_bound_seconds) / progress.best_seconds
      : undefined;
  return (
    <>
      <div class="title">
        <h1>Plan {plan.id.slice(0, 12)}</h1>
        <StateBadge state={state} />
        <button type="button" class="danger" disabled={asked} onClick={cancel}>
          {asked ? 'Being cancelled …' : 'Cancel'}
        </button>
      </div>
      {problem !== undefined && <ProblemBox problem={problem} />}
      <Card title={PHASES[progress.phase] ?? progress.phase}>
        <progress class="wide" max={1} value={progress.fraction} aria-label="Progress of the search" />
        <p class="visually-hidden" role="status">
          {PHASES[progress.phase] ?? progress.phase}, {share(progress.fraction)}
        </p>
        <Facts
          facts={[
            ['Done', share(progress.fraction)],
            ['Best so far', <Exact name="best_seconds" value={progress.best_seconds} as={seconds} />],
            ['Proven lower bound', <Exact name="lower_bound_seconds" value={progress.lower_bound_seconds} as={seconds} />],
            ['Gap', share(gap)],
          ]}
        />
      </Card>
      {points.some((point) => point.best !== undefined) && (
        <Figure
          title="Best plan and bound over time"
          picture={() => <Convergence points={points} />}
          table={() => <ConvergenceTable points={points} />}
        />
      )}
      <p class="muted small">
        What is asked for: <code>{JSON.stringify(plan.request)}</code>
      </p>
    </>
  );
}

function Ended(props: { plan: PlanState }) {
  const { plan } = props;
  const { error } = plan;
  useTitle(`${plan.state}: plan ${plan.id.slice(0, 12)}`);
  return (
    <>
      <div class="title">
        <h1>Plan {plan.id.slice(0, 12)}</h1>
        <StateBadge state={plan.state} />
      </div>
      {error !== undefined ? (
        <ProblemBox problem={new Problem(error.status, error.code, error.detail, '', error.errors)} />
      ) : (
        <p>It was cancelled before a plan was found.</p>
      )}
      <p>
        <a class="button" href={link(['models', plan.model, 'plan'])}>
          Ask for another one
        </a>
      </p>
    </>
  );
}

export function RunningPlan(props: { id: string; done: () => void }) {
  const fetched = useFetched<PlanState>(`v1/plans/${props.id}`);
  return (
    <Shown fetched={fetched} what="the plan">
      {(plan) =>
        plan.state === 'queued' || plan.state === 'running' ? (
          <Live key={plan.state} plan={plan} done={props.done} reload={fetched.reload} />
        ) : plan.has_result ? (
          <Done done={props.done} />
        ) : (
          <Ended plan={plan} />
        )
      }
    </Shown>
  );
}

/** It has ended since it was asked for. */
function Done(props: { done: () => void }) {
  useEffect(props.done, []);
  return <p role="status">The plan is there.</p>;
}
