// Server-sent events read with fetch: unlike EventSource it can send a token. Reconnects where the stream breaks off.
import { address, authorization, Problem, problemOf } from './api';

export interface ServerEvent {
  id: string;
  event: string;
  data: string;
}

const PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 15000;

/** Splits a stream of text into events (WHATWG HTML, 9.2.6). */
export function eventReader(take: (event: ServerEvent) => void): (text: string) => void {
  let rest = '';
  let id = '';
  let event = '';
  let data: string[] = [];
  const line = (text: string) => {
    if (text === '') {
      if (data.length > 0) take({ id, event: event === '' ? 'message' : event, data: data.join('\n') });
      event = '';
      data = [];
      return;
    }
    const cut = text.indexOf(':');
    const field = cut < 0 ? text : text.slice(0, cut);
    const value = cut < 0 ? '' : text.slice(cut + 1).replace(/^ /, '');
    if (field === 'data') data.push(value);
    else if (field === 'event') event = value;
    else if (field === 'id') id = value;
  };
  return (text) => {
    rest += text;
    const lines = rest.split(/\r\n|\n|\r/);
    rest = lines.pop() ?? '';
    lines.forEach(line);
  };
}

/** Follows `path` until `take` says false or `signal` aborts. A problem that will not go away is given to `fail`. */
export async function follow(
  path: string,
  take: (event: ServerEvent) => boolean,
  fail: (problem: Problem) => void,
  signal: AbortSignal,
): Promise<void> {
  let last = '';
  let pause = PAUSE_MS;
  let wanted = true;
  while (wanted && !signal.aborted) {
    try {
      const response = await fetch(address(path), {
        signal,
        headers: { Accept: 'text/event-stream', ...authorization(), ...(last === '' ? {} : { 'Last-Event-ID': last }) },
      });
      if (!response.ok || response.body === null) {
        const problem = await problemOf(response);
        if (response.status < 500 && response.status !== 429) return fail(problem);
      } else {
        pause = PAUSE_MS;
        const read = eventReader((event) => {
          if (event.id !== '') last = event.id;
          wanted = wanted && take(event);
        });
        const text = response.body.pipeThrough(new TextDecoderStream()).getReader();
        for (let part = await text.read(); !part.done && wanted; part = await text.read()) read(part.value);
        if (!wanted) await text.cancel();
      }
    } catch {
      // The stream broke off: it is asked for again, from the event that came last.
    }
    if (wanted && !signal.aborted) {
      await new Promise((done) => setTimeout(done, pause));
      pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
    }
  }
}
