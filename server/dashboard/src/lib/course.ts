// How a search went, as far as this page was told of it: kept while the page is open, also when the plan is there.
import { signal } from '@preact/signals';

export interface Point {
  seconds: number; // since this page began to look, or the search began
  best?: number;
  bound?: number;
}

export const courses = signal<Record<string, Point[]>>({});
const MOST_POINTS = 2000;

/** Adds a point, unless nothing changed: the last one then moves on. */
export function note(plan: string, point: Point) {
  const old = courses.peek()[plan] ?? [];
  const last = old[old.length - 1];
  const same = old.length > 1 && last !== undefined && last.best === point.best && last.bound === point.bound;
  const before = old[old.length - 2];
  const moves = same && before !== undefined && before.best === point.best && before.bound === point.bound;
  const points = [...(moves ? old.slice(0, -1) : old), point];
  courses.value = { ...courses.peek(), [plan]: points.length > MOST_POINTS ? points.filter((_, at) => at % 2 === 0) : points };
}
