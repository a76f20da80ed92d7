// The timeline's picture: lanes of devices over time, drawn from slices that are already here.
import { dashed } from '../lib/format';
import { colour, stageColour } from '../lib/theme';
import type { Lane, RowName, Timeline } from '../lib/types';

export const LANE_HEIGHT = 36;
export const AXIS_HEIGHT = 22;
export const NAMES_WIDTH = 84;

export interface Span {
  from: number;
  to: number;
}
export interface Chosen {
  lane: number;
  row: RowName;
  begin: number;
}

// Top and height within a lane.
const ROWS: Record<RowName, [number, number]> = { compute: [3, 14], collective: [18, 6], send: [25, 4], receive: [30, 4] };
export const ROW_NAMES: RowName[] = ['compute', 'collective', 'send', 'receive'];
const COLOURS: Record<RowName, string> = { compute: '', collective: '--collective', send: '--send', receive: '--receive' };

/** Times at which the axis has marks: 1, 2 or 5 times a power of ten, at most one in 90 pixels. */
export function marks(span: Span, width: number): number[] {
  const least = ((span.to - span.from) * 90) / Math.max(width, 1);
  if (!(least > 0)) return [];
  const power = 10 ** Math.floor(Math.log10(least));
  const step = power * ([1, 2, 5].find((one) => one * power >= least) ?? 10);
  const times: number[] = [];
  for (let at = Math.ceil(span.from / step); at * step <= span.to; at++) times.push(at * step);
  return times;
}

function drawLane(context: CanvasRenderingContext2D, lane: Lane, top: number, span: Span, width: number) {
  const scale = width / (span.to - span.from);
  for (const { row, slices } of lane.rows) {
    const [offset, height] = ROWS[row];
    context.fillStyle = colours[COLOURS[row] || stageColour(lane.stage)] ?? '';
    let until = -1; // pixels that are already covered
    for (const slice of slices) {
      if (slice[1] < span.from || slice[0] > span.to) continue;
      const left = Math.max((slice[0] - span.from) * scale, 0);
      const right = Math.min((slice[1] - span.from) * scale, width);
      if (right <= until) continue;
      const from = Math.max(left, until);
      context.fillRect(NAMES_WIDTH + from, top + offset, Math.max(right - from, 0.6), height);
      // A border between slices that are wide enough to tell apart.
      if (right - left > 3) context.clearRect(NAMES_WIDTH + right - 0.5, top + offset, 0.5, height);
      until = row === 'compute' || row === 'collective' ? right : -1;
    }
  }
}

let colours: Record<string, string> = {};

/** Colours are looked up once for a picture: the style sheet may have changed. */
function readColours(lanes: Lane[]) {
  const names = ['--collective', '--send', '--receive', '--idle', '--text', '--muted', '--line', '--critical', '--surface', '--accent', ...lanes.map((lane) => stageColour(lane.stage))];
  colours = Object.fromEntries([...new Set(names)].map((name) => [name, colour(name)]));
}

function drawAxis(context: CanvasRenderingContext2D, span: Span, width: number, height: number, text: (seconds: number) => string) {
  context.fillStyle = colours['--surface'] ?? '';
  context.fillRect(0, 0, NAMES_WIDTH + width, AXIS_HEIGHT);
  for (const at of marks(span, width)) {
    const x = NAMES_WIDTH + ((at - span.from) / (span.to - span.from)) * width;
    context.fillStyle = colours['--line'] ?? '';
    context.fillRect(x, 0, 1, height);
    context.fillStyle = colours['--muted'] ?? '';
    context.fillText(text(at), x + 3, 14);
  }
}

export interface Picture {
  timelines: Timeline[]; // the coarsest first: what is finer is drawn over it
  span: Span;
  top: number; // pixels that are scrolled away
  chosen: Chosen | undefined;
  text: (seconds: number) => string;
}

/** Draws a frame; the canvas has the size that it is to be shown in. */
export function draw(canvas: HTMLCanvasElement, picture: Picture) {
  const context = canvas.getContext('2d');
  if (context === null) return;
  const ratio = devicePixelRatio || 1;
  const [full, height] = [canvas.clientWidth, canvas.clientHeight];
  const width = full - NAMES_WIDTH;
  if (canvas.width !== Math.round(full * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(full * ratio);
    canvas.height = Math.round(height * ratio);
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, full, height);
  context.font = '12px system-ui, sans-serif';
  const lanes = new Map<number, Lane>();
  for (const timeline of picture.timelines) for (const lane of timeline.lanes) lanes.set(lane.lane, lane);
  readColours([...lanes.values()]);
  const first = Math.floor(picture.top / LANE_HEIGHT);
  for (let number = first; number <= first + height / LANE_HEIGHT; number++) {
    const lane = lanes.get(number);
    if (lane === undefined) continue;
    const top = AXIS_HEIGHT + number * LANE_HEIGHT - picture.top;
    context.fillStyle = colours['--idle'] ?? '';
    context.fillRect(NAMES_WIDTH, top + 3, width, 14);
    drawLane(context, lane, top, picture.span, width);
    context.fillStyle = colours[lane.critical ? '--critical' : '--text'] ?? '';
    context.fillText(`${dashed(lane.device_list)}${lane.bottleneck ? ' ◆' : ''}`, 4, top + 14, NAMES_WIDTH - 8);
    if (lane.critical) context.fillRect(0, top + 2, 2, LANE_HEIGHT - 4);
    context.fillStyle = colours['--line'] ?? '';
    context.fillRect(0, top + LANE_HEIGHT - 1, full, 1);
    if (picture.chosen?.lane === number) drawChosen(context, lane, top, picture, width);
  }
  drawAxis(context, picture.span, width, height, picture.text);
}

function drawChosen(context: CanvasRenderingContext2D, lane: Lane, top: number, picture: Picture, width: number) {
  const { chosen, span } = picture;
  const slice = lane.rows.find((row) => row.row === chosen?.row)?.slices.find((one) => one[0] <= (chosen?.begin ?? 0) && one[1] > (chosen?.begin ?? 0));
  if (chosen === undefined || slice === undefined) return;
  const [offset, height] = ROWS[chosen.row];
  const scale = width / (span.to - span.from);
  const left = Math.max((slice[0] - span.from) * scale, 0);
  const right = Math.min((slice[1] - span.from) * scale, width);
  context.strokeStyle = colours['--text'] ?? '';
  context.lineWidth = 2;
  context.strokeRect(NAMES_WIDTH + left, top + offset - 1, Math.max(right - left, 2), height + 2);
}

/** The lane and row at a place of the canvas, in pixels. */
export function rowAt(y: number, top: number): { lane: number; row: RowName } | undefined {
  const at = y - AXIS_HEIGHT + top;
  if (y < AXIS_HEIGHT || at < 0) return undefined;
  const within = at % LANE_HEIGHT;
  const row = ROW_NAMES.find((name) => within < ROWS[name][0] + ROWS[name][1] + 1);
  return { lane: Math.floor(at / LANE_HEIGHT), row: row ?? 'receive' };
}
