// Requests to the daemon that serves this page. Addresses are relative to the page, so that it may lie below any path.
import { signal } from '@preact/signals';
import type { Failure } from './types';

const TOKEN_KEY = 'shardplan-token';

/** The bearer token, kept for this tab only; "" when none was given. */
export const token = signal(sessionStorage.getItem(TOKEN_KEY) ?? '');
/** The daemon wants a token, or another one. */
export const needsToken = signal(false);

export function setToken(value: string) {
  token.value = value;
  needsToken.value = false;
  if (value === '') sessionStorage.removeItem(TOKEN_KEY);
  else sessionStorage.setItem(TOKEN_KEY, value);
}

/** What the daemon answered in place of what was asked for, or that it did not answer. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly requestId = '',
    readonly errors: NonNullable<Failure['errors']> = [],
  ) {
    super(detail);
  }
}

export function address(path: string): string {
  const page = new URL(document.baseURI);
  page.hash = page.search = '';
  return new URL(path.replace(/^\//, ''), new URL('.', page)).href;
}

export function authorization(): Record<string, string> {
  return token.value === '' ? {} : { Authorization: `Bearer ${token.value}` };
}

export async function problemOf(response: Response): Promise<Problem> {
  let body: Partial<Failure> & { request_id?: string } = {};
  try {
    body = (await response.json()) as typeof body;
  } catch {
    // An answer of a proxy, or of the HTTP library: its status is all there is to say.
  }
  if (response.status === 401) needsToken.value = true;
  return new Problem(
    response.status,
    body.code ?? `HTTP_${response.status}`,
    body.detail ?? `The server answered with status ${response.status}.`,
    body.request_id ?? response.headers.get('X-Request-Id') ?? '',
    body.errors ?? [],
  );
}

/** Sends a request; a Problem is thrown for anything but success. */
export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(address(path), {
      ...init,
      headers: { ...authorization(), ...(init.headers as Record<string, string> | undefined) },
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new Problem(0, 'NO_ANSWER', 'The daemon does not answer: it may be stopped, or the network is away.');
  }
  if (!response.ok) throw await problemOf(response);
  return response;
}

export async function get<Answer>(path: string, signal?: AbortSignal): Promise<Answer> {
  const response = await send(path, { signal, headers: { Accept: 'application/json' } });
  return (await response.json()) as Answer;
}

export async function post<Answer>(path: string, body?: unknown): Promise<Answer> {
  const response = await send(path, {
    method: 'POST',
    headers: { Accept: 'application/json', ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  return (response.status === 204 ? undefined : await response.json()) as Answer;
}

export async function remove(path: string): Promise<void> {
  await send(path, { method: 'DELETE' });
}

/** A path with a query; members that are undefined, null or "" are left out. */
export function query(path: string, parameters: Record<string, string | number | boolean | null | undefined>): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== null && value !== '') search.set(name, String(value));
  }
  const text = search.toString();
  return text === '' ? path : `${path}?${text}`;
}
