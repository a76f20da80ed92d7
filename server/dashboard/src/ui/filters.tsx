// What a table shows: each filter stands in the page's address.
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { choose, chosen } from '../lib/route';

const PAUSE_MS = 250;

/** Part of a name; the table follows when the reader pauses. */
export function Search(props: { label: string }) {
  const now = chosen('search');
  const [text, setText] = useState(now);
  useEffect(() => setText(now), [now]);
  useEffect(() => {
    if (text === now) return;
    const timer = setTimeout(() => choose({ search: text, name: undefined, index: undefined }), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <label>
      {props.label}
      <input type="search" value={text} onInput={(event) => setText(event.currentTarget.value)} />
    </label>
  );
}

/** One of several values, or any. */
export function Choice(props: { name: string; label: string; options: [value: string, label: string][]; any?: string }) {
  return (
    <label>
      {props.label}
      <select
        value={chosen(props.name)}
        onChange={(event) => choose({ [props.name]: event.currentTarget.value, index: undefined })}
      >
        <option value="">{props.any ?? 'any'}</option>
        {props.options.map(([value, label]) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
      </select>
    </label>
  );
}

export function Filters(props: { children: ComponentChildren }) {
  return (
    <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
      {props.children}
    </form>
  );
}

/** What one row of a table is, beside it; closing it forgets the choice. */
export function Chosen(props: { title: string; member: string; children: ComponentChildren }) {
  return (
    <section class="card details" aria-label={props.title}>
      <header class="card-head">
        <h2 class="name">{props.title}</h2>
        <button type="button" class="plain" aria-label="Close" onClick={() => choose({ [props.member]: undefined })}>
          ✕
        </button>
      </header>
      {props.children}
    </section>
  );
}
