// Small parts that all views are made of.
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import type { Problem } from '../lib/api';
import type { Fetched } from '../lib/fetched';
import type { Range, State } from '../lib/types';

/** A figure as people read it, and as it is: its `value` and title have the number of the plan itself. */
export function Exact(props: { value: number | null | undefined; as: (value: number) => string; name?: string }) {
  const { value } = props;
  if (value === null || value === undefined) return <span class="muted">–</span>;
  return (
    <data value={String(value)} title={String(value)} data-figure={props.name}>
      {props.as(value)}
    </data>
  );
}

/** Where nine of ten measurements are expected to be. */
export function Between(props: { range?: Range; as: (value: number) => string }) {
  const { range, as } = props;
  return range ? (
    <span class="range">
      <Exact value={range.low} as={as} /> to <Exact value={range.high} as={as} />
    </span>
  ) : null;
}

export function StateBadge(props: { state: State }) {
  return <span class={`badge state-${props.state}`}>{props.state}</span>;
}

export function StageChip(props: { stage: number | null | undefined }) {
  if (props.stage === null || props.stage === undefined) return <span class="muted">–</span>;
  return <span class={`chip stage-${props.stage % 10}`}>{props.stage}</span>;
}

export function ProblemBox(props: { problem: Problem; retry?: () => void }) {
  const { problem } = props;
  return (
    <div class="problem" role="alert">
      <p>
        <strong>{problem.message}</strong>
      </p>
      {problem.errors.length > 0 && (
        <ul>
          {problem.errors.map((error) => (
            <li>
              {error.pointer !== undefined && <code>{error.pointer}</code>} {error.message ?? error.detail ?? ''}
              {error.node !== undefined && <code>{error.node}</code>}
            </li>
          ))}
        </ul>
      )}
      <p class="muted small">
        {problem.code}
        {problem.requestId !== '' && ` · request ${problem.requestId}`}
      </p>
      {props.retry && (
        <button type="button" onClick={props.retry}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Loading(props: { what?: string }) {
  return (
    <p class="loading muted" role="status">
      Loading{props.what ? ` ${props.what}` : ''} …
    </p>
  );
}

/** What was asked for, once it is there. */
export function Shown<Answer>(props: {
  fetched: Fetched<Answer>;
  what?: string;
  children: (answer: Answer) => ComponentChildren;
}) {
  const { data, problem, loading, reload } = props.fetched;
  return (
    <>
      {problem !== undefined && <ProblemBox problem={problem} retry={reload} />}
      {data !== undefined ? props.children(data) : loading && problem === undefined && <Loading what={props.what} />}
    </>
  );
}

/** A picture with the table that says the same: either can be looked at. */
export function Figure(props: {
  title: string;
  note?: ComponentChildren;
  tools?: ComponentChildren;
  picture: () => ComponentChildren;
  table: () => ComponentChildren;
  id?: string;
}) {
  const [asTable, setAsTable] = useState(false);
  const title = useId();
  return (
    <section class="card figure" aria-labelledby={title} id={props.id}>
      <header class="card-head">
        <h2 id={title}>{props.title}</h2>
        <div class="tools">
          {!asTable && props.tools}
          <div class="switch" role="group" aria-label={`Show ${props.title} as`}>
            <button type="button" aria-pressed={!asTable} onClick={() => setAsTable(false)}>
              Picture
            </button>
            <button type="button" aria-pressed={asTable} onClick={() => setAsTable(true)}>
              Table
            </button>
          </div>
        </div>
      </header>
      {props.note !== undefined && <p class="muted">{props.note}</p>}
      {asTable ? props.table() : props.picture()}
    </section>
  );
}

export function Card(props: { title: string; tools?: ComponentChildren; children: ComponentChildren; id?: string }) {
  const title = useId();
  return (
    <section class="card" aria-labelledby={title} id={props.id}>
      <header class="card-head">
        <h2 id={title}>{props.title}</h2>
        {props.tools !== undefined && <div class="tools">{props.tools}</div>}
      </header>
      {props.children}
    </section>
  );
}

/** Names and figures. */
export function Facts(props: { facts: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {props.facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Bar(props: { share: number; label: string; kind?: string }) {
  const percent = Math.max(0, Math.min(1, Number.isFinite(props.share) ? props.share : 0)) * 100;
  return (
    <span class={`bar ${props.kind ?? ''}`} role="img" aria-label={props.label}>
      <span style={{ width: `${percent}%` }} />
    </span>
  );
}

export function Copy(props: { text: string; label: string }) {
  const [done, setDone] = useState(false);
  return (
    <button
      type="button"
      class="plain small"
      onClick={() => {
        void navigator.clipboard.writeText(props.text).then(() => {
          setDone(true);
          setTimeout(() => setDone(false), 1500);
        });
      }}
    >
      {done ? 'Copied' : props.label}
    </button>
  );
}

/** A window over the page; the browser keeps the focus in it and closes it with Escape. */
export function Dialog(props: { title: string; onClose: () => void; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const title = useId();
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby={title} onClose={props.onClose}>
      <header class="card-head">
        <h2 id={title}>{props.title}</h2>
        <button type="button" class="plain" aria-label="Close" onClick={() => dialog.current?.close()}>
          ✕
        </button>
      </header>
      {props.children}
    </dialog>
  );
}
