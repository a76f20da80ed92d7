// Where in the page the reader is: "#/plans/ID/timeline?from=0". Every view, with what was chosen in it, is a link.
import { computed, signal } from '@preact/signals';

const hash = signal(location.hash);
addEventListener('hashchange', () => {
  hash.value = location.hash;
});

export interface Place {
  segments: string[];
  query: URLSearchParams;
}

export const place = computed<Place>(() => {
  const text = hash.value.replace(/^#\/?/, '');
  const cut = text.indexOf('?');
  const path = cut < 0 ? text : text.slice(0, cut);
  return {
    segments: path
      .split('/')
      .filter((segment) => segment !== '')
      .map(decode),
    query: new URLSearchParams(cut < 0 ? '' : text.slice(cut + 1)),
  };
});

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

export type Query = Record<string, string | number | undefined | null>;

/** The address of a view: href of links. */
export function link(segments: (string | number)[], query: Query = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== '') search.set(name, String(value));
  }
  const text = search.toString();
  return `#/${segments.map((segment) => encodeURIComponent(segment)).join('/')}${text === '' ? '' : `?${text}`}`;
}

export function go(segments: (string | number)[], query: Query = {}) {
  location.hash = link(segments, query);
}

/** Changes what is chosen in this view; the others stay. Without a new entry in the history. */
export function choose(changes: Query) {
  if (location.hash !== hash.peek()) return; // the reader has gone on already: this view is about to be left
  const query: Query = Object.fromEntries(place.peek().query);
  history.replaceState(null, '', link(place.peek().segments, { ...query, ...changes }));
  hash.value = location.hash;
}

export function chosen(name: string): string {
  return place.value.query.get(name) ?? '';
}
