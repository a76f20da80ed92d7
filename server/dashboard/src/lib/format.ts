// Figures for people. What is exact stands in a title or a table: see Exact in ui/parts.tsx.

const SMALL = ['', 'm', 'µ', 'n', 'p'];
const LARGE = ['', 'k', 'M', 'G', 'T', 'P', 'E'];

function digits(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
}

function scaled(value: number, names: string[], unit: string): string {
  let at = 0;
  let size = value;
  while (Math.abs(size) >= 999.5 && at < names.length - 1) {
    size /= 1000;
    at++;
  }
  return `${at === 0 && Number.isInteger(value) ? value : digits(size)} ${names[at]}${unit}`.trimEnd();
}

export function seconds(value: number | null | undefined): string {
  if (value === null || value === undefined) return '–';
  if (value === 0) return '0 s';
  if (Math.abs(value) >= 0.9995) return value < 600 ? `${digits(value)} s` : `${Math.round(value / 60)} min`;
  let at = 0;
  let size = value;
  while (Math.abs(size) < 0.9995 && at < SMALL.length - 1) {
    size *= 1000;
    at++;
  }
  return `${digits(size)} ${SMALL[at]}s`;
}

/** Decimal units, as data sheets and the plan's sentences have them. */
export function bytes(value: number | null | undefined): string {
  return value === null || value === undefined ? '–' : scaled(value, LARGE, 'B');
}

export function flops(value: number | null | undefined): string {
  return value === null || value === undefined ? '–' : scaled(value, LARGE, 'FLOP');
}

export function perSecond(value: number | null | undefined): string {
  return value === null || value === undefined ? '–' : `${scaled(value, LARGE, '')}/s`;
}

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? '–' : value.toLocaleString('en');
}

export function dollars(value: number | null | undefined): string {
  return value === null || value === undefined ? '–' : `$${value.toFixed(2)}`;
}

export function share(value: number | null | undefined): string {
  if (value === null || value === undefined) return '–';
  const percent = value * 100;
  return `${percent !== 0 && Math.abs(percent) < 10 ? percent.toFixed(1) : Math.round(percent)} %`;
}

export function shape(dims: (number | string | null)[] | null): string {
  return dims === null ? '–' : dims.length === 0 ? 'scalar' : dims.map((dim) => dim ?? '?').join(' × ');
}

/** "0–7", "3", "0–3, 8–11". */
export function devices(list: number[]): string {
  const parts: string[] = [];
  for (let at = 0; at < list.length; ) {
    let end = at;
    while (end + 1 < list.length && list[end + 1] === (list[end] ?? 0) + 1) end++;
    parts.push(end > at ? `${list[at]}–${list[end]}` : `${list[at]}`);
    at = end + 1;
  }
  return parts.join(', ');
}

/** A list of the daemon's, "0-3, 8". */
export function dashed(list: string): string {
  return list.replaceAll('-', '–');
}

export function time(stamp: string | null | undefined): string {
  if (!stamp) return '–';
  const date = new Date(stamp);
  return Number.isNaN(date.getTime()) ? stamp : date.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
}

export function plural(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}
