// Light, dark, or as the system has it.
import { effect, signal } from '@preact/signals';

export type Theme = 'system' | 'light' | 'dark';
const KEY = 'shardplan-theme';
const dark = matchMedia('(prefers-color-scheme: dark)');

function stored(): Theme {
  const value = localStorage.getItem(KEY);
  return value === 'light' || value === 'dark' ? value : 'system';
}

export const theme = signal<Theme>(stored());
/** Counts changes of what is shown: pictures that were drawn with the colours of before are drawn again. */
export const painted = signal(0);

effect(() => {
  if (theme.value === 'system') localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, theme.value);
  document.documentElement.dataset['theme'] = theme.value;
  painted.value = painted.peek() + 1;
});
dark.addEventListener('change', () => {
  painted.value++;
});

/** A colour of the style sheet, for pictures: "--stage-3". */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export const STAGE_COLOURS = 10;
/** Stages take turns with the colours, so neighbours differ; pictures say the number, too. */
export function stageColour(stage: number): string {
  return `--stage-${stage % STAGE_COLOURS}`;
}
