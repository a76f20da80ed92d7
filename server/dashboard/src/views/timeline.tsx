// What each device does when: computes, exchanges, waits. A picture to go about in, and tables that say the same.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { get, Problem, query } from '../lib/api';
import { count, dashed, devices, plural, seconds, share } from '../lib/format';
import { choose, chosen, link } from '../lib/route';
import { painted } from '../lib/theme';
import type { CriticalStep, Lane, RowName, Slice, Stage, Timeline } from '../lib/types';
import { Card, Exact, Facts, Figure, Loading, ProblemBox, StageChip } from '../ui/parts';
import { figure, Table } from '../ui/table';
import type { ViewProps } from './plan';
import { AXIS_HEIGHT, draw, LANE_HEIGHT, NAMES_WIDTH, ROW_NAMES, rowAt, type Chosen, type Span } from './timeline_canvas';

const PAUSE = 120; // milliseconds without a change before finer slices are asked for
const MOST_LANES = 128;
const SHOWN_LANES = 12;

interface Hit {
  lane: Lane;
  row: RowName;
  slice: Slice;
}

function find(timelines: Timeline[], number: number, row: RowName, at: number, slack = 0): Hit | undefined {
  for (const timeline of [...timelines].reverse()) {
    const lane = timeline.lanes.find((one) => one.lane === number);
    const slice = lane?.rows.find((one) => one.row === row)?.slices.find((one) => one[0] - slack <= at && one[1] + slack > at);
    if (lane !== undefined && slice !== undefined) return { lane, row, slice };
  }
  return undefined;
}

/** "MatMul_3, 1.2 ms, compute of request 0" */
function tell(hit: Hit): string {
  const [begin, end, request, , slices, busy, name] = hit.slice;
  const what = slices > 1 ? `${count(slices)} slices, longest ${name}, ${seconds(busy)} within ${seconds(end - begin)}` : `${name}, ${seconds(end - begin)}`;
  return `${what}: ${hit.row} of request ${request} from ${seconds(begin)} on`;
}

function Details(props: { id: string; hit: Hit }) {
  const { id, hit } = props;
  const [begin, end, request, item, slices, busy, name] = hit.slice;
  const view = hit.row === 'compute' ? 'nodes' : 'collectives';
  return (
    <Card title={slices > 1 ? `${count(slices)} slices` : name}>
      <Facts
        facts={[
          ['What', hit.row],
          ['Devices', dashed(hit.lane.device_list)],
          ['Stage', <StageChip stage={hit.lane.stage} />],
          ['Request', request],
          ['Begins', <Exact value={begin} as={seconds} />],
          ['Ends', <Exact value={end} as={seconds} />],
          ['Busy', <Exact value={busy} as={seconds} />],
          [slices > 1 ? 'The longest' : view === 'nodes' ? 'Node' : 'Exchange', <a class="name" href={link(['plans', id, view], { index: item })}>{name || `number ${item}`}</a>],
        ]}
      />
    </Card>
  );
}

/** Slices of a row that the span shows, of the finest timeline. */
function LaneTable(props: { lane: Lane; span: Span }) {
  const rows = props.lane.rows.flatMap(({ row, slices }) =>
    slices.filter((slice) => slice[1] > props.span.from && slice[0] < props.span.to).map((slice, index) => ({ row, slice, key: `${row}${index}` })),
  );
  return (
    <Table
      caption={`What device ${dashed(props.lane.device_list)} does within the span`}
      rows={rows}
      rowKey={(one) => one.key}
      columns={[
        { key: 'row', label: 'What', value: (one) => one.row, cell: (one) => one.row },
        { key: 'name', label: 'Name', value: (one) => one.slice[6], cell: (one) => `${one.slice[6]}${one.slice[4] > 1 ? ` and ${count(one.slice[4] - 1)} more` : ''}` },
        { key: 'request', label: 'Request', numeric: true, value: (one) => one.slice[2], cell: (one) => one.slice[2] },
        figure('begin', 'Begins', seconds, (one: { slice: Slice }) => one.slice[0]),
        figure('busy', 'Busy', seconds, (one: { slice: Slice }) => one.slice[5]),
      ]}
    />
  );
}

function StageTable(props: { stages: Stage[]; interval: number }) {
  const figures = ['compute_seconds', 'collective_seconds', 'send_seconds', 'receive_seconds', 'start_seconds'] as const;
  const labels = ['Busy', 'Exchanges within', 'Sends', 'Receives', 'First request comes'];
  return (
    <Table
      caption="What the devices of each stage do for one request"
      rows={props.stages}
      rowKey={(stage) => stage.index}
      columns={[
        { key: 'index', label: 'Stage', value: (stage) => stage.index, cell: (stage) => <StageChip stage={stage.index} /> },
        { key: 'devices', label: 'Devices', numeric: true, value: (stage) => stage.devices[0], cell: (stage) => devices(stage.devices) },
        figure('replicas', 'Replicas', count),
        ...figures.map((name, at) => figure<Stage>(name, labels[at] ?? '', seconds)),
        { key: 'idle', label: 'Idle', numeric: true, cell: (stage) => share(Math.max(0, 1 - stage.compute_seconds / (props.interval * stage.replicas))) },
      ]}
    />
  );
}

/** Slices for what is shown, and of the same lanes for the whole time, which is drawn until finer ones are there. */
function useTimelines(id: string, span: Span | undefined, first: number, lanes: number, width: number) {
  const [state, setState] = useState<{ whole?: Timeline; fine?: Timeline; problem?: Problem }>({});
  const path = `v1/plans/${id}/timeline`;
  const failed = (error: unknown) => setState((old) => ({ ...old, problem: error instanceof Problem ? error : undefined }));
  useEffect(() => {
    const abort = new AbortController();
    get<Timeline>(query(path, { first_lane: first, lanes }), abort.signal).then((whole) => setState((old) => ({ ...old, whole, problem: undefined })), failed);
    return () => abort.abort();
  }, [id, first, lanes]);
  const end = state.whole?.end ?? 0;
  useEffect(() => {
    if (span === undefined || end === 0) return;
    const abort = new AbortController();
    const size = span.to - span.from;
    const from = Math.max(0, span.from - size / 2);
    const to = Math.min(end, span.to + size / 2);
    const timer = setTimeout(() => {
      get<Timeline>(query(path, { from, to, resolution: (size / width) * 1.5, first_lane: first, lanes }), abort.signal).then(
        (fine) => setState((old) => ({ ...old, fine, problem: undefined })),
        failed,
      );
    }, PAUSE);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [id, span?.from, span?.to, first, lanes, width, end]);
  return { ...state, timelines: [state.whole, state.fine].filter((one) => one !== undefined) };
}

function chosenText(): string {
  return `${chosen('from')} ${chosen('to')}`;
}

function chosenSpan(): Span | undefined {
  return chosen('to') === '' ? undefined : { from: Number(chosen('from')), to: Number(chosen('to')) };
}

function Picture(props: ViewProps & { onHit: (hit: Hit | undefined) => void; onSpan: (span: Span, lane: Lane | undefined) => void }) {
  const { id } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const pointers = useRef(new Map<number, { x: number; y: number }>());
  const moved = useRef(0);
  const frame = useRef(0);
  const [top, setTop] = useState(0);
  const [width, setWidth] = useState(800);
  const [span, setSpan] = useState<Span | undefined>(chosenSpan);
  const address = chosenText();
  const written = useRef(address); // by this view; where another one stands in the address, the reader has followed a link
  useEffect(() => {
    if (address !== written.current) setSpan(chosenSpan());
    written.current = address;
  }, [address]);
  const [hovered, setHovered] = useState<{ hit: Hit; x: number; y: number }>();
  const first = Math.max(0, Math.floor(top / LANE_HEIGHT / 32) * 32 - 32);
  const { timelines, whole, problem } = useTimelines(id, span, first, MOST_LANES, width);
  const end = whole?.end ?? 0;
  const shown = span ?? { from: 0, to: end || 1 };
  const lanes = whole?.lane_count ?? 0;
  const [lane, row, begin] = chosen('slice').split(':');
  const choice: Chosen | undefined = begin === undefined ? undefined : { lane: Number(lane), row: row as RowName, begin: Number(begin) };
  const hit = choice === undefined ? undefined : find(timelines, choice.lane, choice.row, choice.begin);

  // Only a frame draws, at most once for all that has changed before it.
  useEffect(() => {
    cancelAnimationFrame(frame.current);
    frame.current = requestAnimationFrame(() => {
      if (canvas.current !== null) draw(canvas.current, { timelines, span: shown, top, chosen: choice, text: seconds });
    });
  });
  void painted.value;
  useEffect(() => {
    const element = canvas.current;
    if (element === null) return;
    const observer = new ResizeObserver(() => setWidth(Math.max(100, element.clientWidth - NAMES_WIDTH)));
    observer.observe(element);
    return () => observer.disconnect();
  }, [lanes > 0]);
  useEffect(() => props.onHit(hit), [hit?.slice, hit?.lane]);
  useEffect(() => {
    props.onSpan(shown, timelines[timelines.length - 1]?.lanes.find((one) => one.lane === (choice?.lane ?? Math.floor(top / LANE_HEIGHT))));
  }, [span?.from, span?.to, timelines.length, whole, choice?.lane]);
  useEffect(() => {
    const text = `${span?.from ?? ''} ${span?.to ?? ''}`;
    if (text === written.current) return;
    const timer = setTimeout(() => {
      if (chosenText() !== written.current) return; // a link was followed meanwhile
      written.current = text;
      choose({ from: span?.from, to: span?.to });
    }, 400);
    return () => clearTimeout(timer);
  }, [span?.from, span?.to]);

  const timeAt = (x: number) => shown.from + ((x - NAMES_WIDTH) / width) * (shown.to - shown.from);
  function move(from: number, size: number) {
    const kept = Math.min(Math.max(size, end * 1e-7), end);
    const begin = Math.min(Math.max(from, 0), end - kept);
    setSpan(kept >= end ? undefined : { from: begin, to: begin + kept });
  }
  const pan = (part: number) => move(shown.from + part * (shown.to - shown.from), shown.to - shown.from);
  function zoom(factor: number, at = (shown.from + shown.to) / 2) {
    move(at - (at - shown.from) * factor, (shown.to - shown.from) * factor);
  }
  function hitAt(event: { offsetX: number; offsetY: number }): Hit | undefined {
    const place = rowAt(event.offsetY, top);
    const slack = ((shown.to - shown.from) / width) * 2;
    return place && event.offsetX > NAMES_WIDTH ? find(timelines, place.lane, place.row, timeAt(event.offsetX), slack) : undefined;
  }
  function select(one: Hit | undefined) {
    choose({ slice: one && `${one.lane.lane}:${one.row}:${(one.slice[0] + one.slice[1]) / 2}` });
  }
  /** The slice before or behind the chosen one, of the finest timeline. */
  function step(direction: number) {
    const current = hit ?? ROW_NAMES.map((name) => find(timelines, Math.floor(top / LANE_HEIGHT), name, (shown.from + shown.to) / 2, shown.to - shown.from)).find((one) => one !== undefined);
    const slices = current?.lane.rows.find((one) => one.row === current.row)?.slices ?? [];
    const slice = hit === undefined ? current?.slice : slices[slices.indexOf(hit.slice) + direction];
    if (current === undefined || slice === undefined) return;
    select({ ...current, slice });
    if (slice[0] < shown.from || slice[1] > shown.to) move(slice[0] - (shown.to - shown.from) / 2, shown.to - shown.from);
  }
  function stepLane(direction: number) {
    const number = Math.min(Math.max((choice?.lane ?? -1) + direction, 0), lanes - 1);
    scroller.current?.scrollTo({ top: Math.max(0, (number - 4) * LANE_HEIGHT) });
    const at = choice?.begin ?? (shown.from + shown.to) / 2;
    select(find(timelines, number, choice?.row ?? 'compute', at, shown.to - shown.from));
  }
  const keys: Record<string, () => void> = {
    ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), a: () => pan(-0.2), d: () => pan(0.2),
    ArrowUp: () => stepLane(-1), ArrowDown: () => stepLane(1),
    '+': () => zoom(0.6), '=': () => zoom(0.6), w: () => zoom(0.6), '-': () => zoom(1 / 0.6), s: () => zoom(1 / 0.6),
    Home: () => move(0, shown.to - shown.from), End: () => move(end, shown.to - shown.from), '0': () => setSpan(undefined),
    '.': () => step(1), ',': () => step(-1), Escape: () => select(undefined),
  };
  function onKey(event: KeyboardEvent) {
    const action = event.ctrlKey || event.metaKey || event.altKey ? undefined : keys[event.key];
    if (action === undefined) return;
    event.preventDefault();
    action();
  }
  function onWheel(event: WheelEvent) {
    if (event.ctrlKey || event.metaKey || event.shiftKey) {
      event.preventDefault();
      zoom(Math.exp((event.deltaY || event.deltaX) / 300), timeAt(event.offsetX));
    } else if (event.deltaX !== 0) {
      event.preventDefault();
      pan(event.deltaX / width);
    }
  }
  function onPointerMove(event: PointerEvent) {
    const before = pointers.current.get(event.pointerId);
    if (before === undefined) {
      const one = hitAt(event);
      setHovered(one && { hit: one, x: event.offsetX, y: event.offsetY });
      return;
    }
    const other = [...pointers.current.entries()].find(([key]) => key !== event.pointerId)?.[1];
    const now = { x: event.offsetX, y: event.offsetY };
    moved.current += Math.abs(now.x - before.x);
    pointers.current.set(event.pointerId, now);
    if (other !== undefined) zoom(Math.abs(before.x - other.x + 0.1) / Math.max(Math.abs(now.x - other.x), 1), timeAt((now.x + other.x) / 2));
    else pan((before.x - now.x) / width);
  }
  function onPointerUp(event: PointerEvent) {
    pointers.current.delete(event.pointerId);
    if (moved.current < 4 && event.type === 'pointerup') select(hitAt(event));
  }
  if (problem !== undefined && timelines.length === 0) return <ProblemBox problem={problem} />;
  if (whole === undefined) return <Loading what="the timeline" />;
  const told = hovered?.hit ?? hit;
  return (
    <>
      <div class="buttons" role="group" aria-label="What is shown">
        <button type="button" onClick={() => zoom(0.6)}>Zoom in</button>
        <button type="button" onClick={() => zoom(1 / 0.6)}>Zoom out</button>
        <button type="button" onClick={() => pan(-0.5)}>Earlier</button>
        <button type="button" onClick={() => pan(0.5)}>Later</button>
        <button type="button" onClick={() => setSpan(undefined)}>Whole</button>
        <span class="muted small">{seconds(shown.from)} to {seconds(shown.to)}</span>
      </div>
      <div class="timeline" ref={scroller} onScroll={(event) => setTop(event.currentTarget.scrollTop)} style={{ height: `${AXIS_HEIGHT + Math.min(lanes, SHOWN_LANES) * LANE_HEIGHT}px` }}>
        <div style={{ height: `${AXIS_HEIGHT + lanes * LANE_HEIGHT}px` }}>
          <canvas
            ref={canvas}
            tabIndex={0}
            role="application"
            aria-label={`Timeline of ${plural(lanes, 'lane')} from ${seconds(shown.from)} to ${seconds(shown.to)}. Left and right go about, plus and minus zoom, up and down change the lane, comma and point the slice.`}
            onKeyDown={onKey}
            onWheel={onWheel}
            onPointerDown={(event) => {
              event.currentTarget.setPointerCapture(event.pointerId);
              pointers.current.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
              moved.current = 0;
            }}
            onPointerMove={onPointerMove}
            onPointerUp={onPointerUp}
            onPointerCancel={onPointerUp}
            onPointerLeave={() => setHovered(undefined)}
          />
        </div>
      </div>
      <p class="told small" aria-live="polite">{told !== undefined ? tell(told) : 'Drag to go about; pinch, or hold Ctrl and turn the wheel, to zoom; click a slice for more.'}</p>
    </>
  );
}

export function TimelineView(props: ViewProps) {
  const { id, summary } = props;
  const [hit, setHit] = useState<Hit>();
  const [span, setSpan] = useState<{ span: Span; lane: Lane | undefined }>();
  const path = useMemo(() => summary.critical_path.filter((one) => one.stage !== undefined), [summary]);
  return (
    <>
      <Figure
        title="Timeline"
        note="Each lane is one block of devices, which do the same at the same time. A line at its left: on the longest path of a request. ◆: the bottleneck."
        picture={() => (
          <>
            <ul class="legend">
              <li><span class="swatch stage-colours" /> computes, in the colour of its stage</li>
              <li><span class="swatch collective" /> exchanges within the block</li>
              <li><span class="swatch send" /> sends</li>
              <li><span class="swatch receive" /> receives</li>
              <li><span class="swatch idle" /> idle</li>
            </ul>
            <Picture {...props} onHit={setHit} onSpan={(one, lane) => setSpan({ span: one, lane })} />
          </>
        )}
        table={() => (
          <>
            <StageTable stages={summary.stages} interval={summary.estimate.interval_seconds * (summary.copies?.count ?? 1)} />
            {span?.lane !== undefined && <LaneTable lane={span.lane} span={span.span} />}
          </>
        )}
      />
      {hit !== undefined && <Details id={id} hit={hit} />}
      <Card title="Critical path">
        <p class="muted">What the latency of a request is made of: {plural(path.length, 'stage')}, one after the other.</p>
        <Table
          caption="Critical path"
          rows={summary.critical_path}
          rowKey={(one) => `${one.begin_seconds} ${one.stage ?? ''}`}
          columns={[
            { key: 'what', label: 'What', cell: (one) => (one.stage !== undefined ? <>stage <StageChip stage={one.stage} /></> : <>send of {one.tensor} from <StageChip stage={one.from_stage} /> to <StageChip stage={one.to_stage} /></>) },
            figure('begin_seconds', 'Begins', seconds),
            figure('took', 'Takes', seconds, (one: CriticalStep) => one.end_seconds - one.begin_seconds),
          ]}
        />
      </Card>
    </>
  );
}
