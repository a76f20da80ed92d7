// The frame: header, what stands below it by the address, and the question for a token.
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { needsToken, setToken, token } from './lib/api';
import { link, place } from './lib/route';
import { theme, type Theme } from './lib/theme';
import { title, useTitle } from './lib/title';
import { ComparePage } from './views/compare';
import { HomePage } from './views/home';
import { ModelPage } from './views/model';
import { NewPlanPage } from './views/new_plan';
import { PlanPage } from './views/plan';

function ThemeChoice() {
  return (
    <label class="theme">
      <span class="visually-hidden">Colours</span>
      <select
        value={theme.value}
        onChange={(event) => {
          theme.value = event.currentTarget.value as Theme;
        }}
      >
        <option value="system">Auto</option>
        <option value="light">Light</option>
        <option value="dark">Dark</option>
      </select>
    </label>
  );
}

function TokenForm() {
  const [text, setText] = useState('');
  return (
    <form
      class="card narrow"
      onSubmit={(event) => {
        event.preventDefault();
        setToken(text.trim());
      }}
    >
      <h1>Who asks?</h1>
      <p>
        {token.value === ''
          ? 'This daemon answers those who have a token.'
          : 'The daemon does not take this token: it may have ended, or may not be allowed to do this.'}{' '}
        It is kept in this tab and nowhere else.
      </p>
      <label>
        Token
        <input
          type="password"
          autocomplete="off"
          required
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      <button type="submit" class="primary">
        Use it
      </button>
    </form>
  );
}

/** Ids are digits of base 16. What else an address says there never gets into an address of the daemon. */
const isId = (text: string | undefined): text is string => /^[0-9a-f]+$/.test(text ?? '');

function page(segments: string[]): ComponentChildren {
  const [first, id, view] = segments;
  if (first === undefined) return <HomePage />;
  if (first === 'models' && isId(id)) return view === 'plan' ? <NewPlanPage model={id} /> : <ModelPage id={id} />;
  if (first === 'plans' && isId(id)) return <PlanPage key={id} id={id} view={view ?? 'overview'} />;
  if (first === 'compare' && isId(id) && isId(view)) return <ComparePage a={id} b={view} />;
  return <Nowhere />;
}

function Nowhere() {
  useTitle('Nothing here');
  return (
    <div class="card narrow">
      <h1>There is nothing here</h1>
      <p>
        The address names no view. <a href={link([])}>Models and plans</a> are a start.
      </p>
    </div>
  );
}

export function App() {
  const { segments } = place.value;
  const where = segments.slice(0, 3).join('/');
  // A new view begins at its top.
  useEffect(() => {
    scrollTo(0, 0);
  }, [where]);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => {
        event.preventDefault();
        document.getElementById('main')?.focus();
      }}>
        Skip to content
      </a>
      <header class="top">
        <a class="brand" href={link([])}>
          <span class="mark" aria-hidden="true" />
          Shardplan
        </a>
        <div class="tools">
          {token.value !== '' && (
            <button type="button" class="plain" onClick={() => setToken('')}>
              Forget token
            </button>
          )}
          <ThemeChoice />
        </div>
      </header>
      <p class="visually-hidden" role="status">
        {title.value}
      </p>
      <main id="main" tabIndex={-1}>
        {needsToken.value ? <TokenForm /> : page(segments)}
      </main>
    </>
  );
}
