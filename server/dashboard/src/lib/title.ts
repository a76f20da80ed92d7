// What the page shows now: in the browser's tab, its history and bookmarks, and told to readers of screens.
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';

export const title = signal('');

export function useTitle(text: string) {
  useEffect(() => {
    title.value = text;
    document.title = `${text} · Shardplan`;
  }, [text]);
}
