// The model by its modules or stages: which devices run what, and what flows between them.
import { useEffect, useRef, useState } from 'preact/hooks';
import { query } from '../lib/api';
import { useFetched } from '../lib/fetched';
import { bytes, count, flops, seconds } from '../lib/format';
import { choose, chosen, link } from '../lib/route';
import type { Box, Edge, Graph } from '../lib/types';
import { Choice } from '../ui/filters';
import { stageOptions, TensorLink } from '../ui/links';
import { Card, Exact, Facts, Figure, Loading, Shown, StageChip } from '../ui/parts';
import { figure, Table } from '../ui/table';
import { BOX_HEIGHT, BOX_WIDTH, layout, type Placed } from './graph_layout';
import { NodeDetails } from './nodes';
import type { ViewProps } from './plan';

const MOST_BOXES = 100; // more cannot be taken in; below a box there are as many again
const MOST_LEVELS = 4;
const LEAST_SCALE = 0.05;
const MOST_SCALE = 3;
const LABEL_LETTERS = 22;

function short(text: string): string {
  return text.length <= LABEL_LETTERS ? text : `${text.slice(0, 8)}…${text.slice(-(LABEL_LETTERS - 9))}`;
}

function isOpenable(box: Box): boolean {
  return box.kind === 'module' || box.kind === 'run' || box.kind === 'stage';
}

/** What is in the box: its modules, or of a stage the model that is in it. */
function openBox(box: Box) {
  if (box.kind === 'stage') choose({ group: undefined, stage: box.stages[0]?.stage, path: undefined, box: undefined });
  else if (isOpenable(box)) choose({ path: box.path, box: undefined });
}

/** Neighbours in one box, since there are too many. */
function isJoined(box: Box): boolean {
  return box.kind === 'run' || (box.kind === 'stage' && box.stages.length > 1);
}

function boxLabel(box: Box): string {
  const stages = box.stages.map((one) => one.stage).join(', ');
  return box.kind === 'outside'
    ? `What is ${box.label}`
    : `${box.label}: ${count(box.nodes)} nodes, ${seconds(box.seconds)}, stage ${stages}`;
}

/** A part of the lower edge for each stage, as wide as its share of the time. */
function Stripes(props: { box: Box }) {
  const { stages } = props.box;
  const sum = stages.reduce((all, one) => all + one.seconds, 0);
  let x = 0;
  return (
    <>
      {stages.map((one) => {
        const width = BOX_WIDTH * (sum > 0 ? one.seconds / sum : 1 / stages.length);
        const at = x;
        x += width;
        return <rect key={one.stage} class={`stripe stage-${one.stage % 10}`} x={at} y={BOX_HEIGHT - 6} width={width} height={6} />;
      })}
    </>
  );
}

function Boxes(props: { graph: Graph; placed: Placed; chosenId: string; reveal: (place: { x: number; y: number }) => void }) {
  return (
    <>
      {props.graph.boxes.map((box, at) => {
        const place = props.placed.boxes[at];
        const isChosen = props.chosenId === String(box.id);
        return (
          place !== undefined && (
            <g
              key={box.id}
              class={`box ${box.kind} ${isChosen ? 'chosen' : ''}`}
              transform={`translate(${place.x} ${place.y})`}
              tabindex={box.kind === 'outside' ? -1 : 0} // SVG knows it in small letters only
              onFocus={(event) => event.currentTarget.matches(':focus-visible') && props.reveal(place)}
              role={box.kind === 'outside' ? 'img' : 'button'}
              aria-label={box.kind === 'outside' ? boxLabel(box) : undefined}
              aria-pressed={box.kind === 'outside' ? undefined : isChosen}
              onClick={() => box.kind !== 'outside' && choose({ box: box.id })}
              onDblClick={() => openBox(box)}
              onKeyDown={(event) => {
                if (event.key !== 'Enter' && event.key !== ' ') return;
                event.preventDefault();
                event.stopPropagation();
                if (chosen('box') === String(box.id)) openBox(box);
                else choose({ box: box.id });
              }}
            >
              <rect width={BOX_WIDTH} height={BOX_HEIGHT} rx={6}>
                <title>{boxLabel(box)}</title>
              </rect>
              <Stripes box={box} />
              <text x={10} y={20} class="label">
                {short(box.label)}
              </text>
              {box.kind !== 'outside' && (
                <text x={10} y={38}>
                  {box.kind === 'node' ? (box.operators[0]?.operator ?? 'node') : `${count(box.nodes)} nodes`} · {seconds(box.seconds)}
                </text>
              )}
            </g>
          )
        );
      })}
    </>
  );
}

function Edges(props: { graph: Graph; placed: Placed }) {
  const most = Math.max(1, ...props.graph.edges.map((edge) => edge.bytes));
  return (
    <>
      {props.graph.edges.map((edge, at) => {
        const points = props.placed.edges[at]?.points ?? [];
        const middle = points[Math.floor(points.length / 2)];
        const width = 1 + 5 * Math.max(0, 1 + Math.log10(Math.max(edge.bytes, 1) / most) / 6);
        return (
          points.length > 0 && (
            <g key={`${edge.from} ${edge.to}`} class={edge.crossing_bytes > 0 ? 'edge crossing' : 'edge'}>
              <title>
                {count(edge.tensors)} tensors, {bytes(edge.bytes)}; the largest is {edge.tensor}
              </title>
              <polyline points={points.map((point) => `${point.x},${point.y}`).join(' ')} stroke-width={width} />
              {edge.crossing_bytes > 0 && middle !== undefined && (
                <text x={middle.x + 6} y={middle.y}>
                  {bytes(edge.crossing_bytes)}
                </text>
              )}
            </g>
          )
        );
      })}
    </>
  );
}

interface View {
  x: number;
  y: number;
  scale: number;
}

function Picture(props: { graph: Graph }) {
  const { graph } = props;
  const [placed, setPlaced] = useState<Placed>();
  const [view, setView] = useState<View>({ x: 0, y: 0, scale: 1 });
  const box = useRef<HTMLDivElement>(null);
  const drag = useRef<{ x: number; y: number; view: View } | undefined>(undefined);
  const fit = (size: Placed) => {
    const width = box.current?.clientWidth ?? 800;
    const scale = Math.min(1, Math.max(0.35, width / size.width));
    const beside = width - size.width * scale;
    // What is wider than the frame is shown from its uppermost box on.
    const top = size.boxes.reduce((first, one) => (one.y < first.y ? one : first), { x: 0, y: Infinity });
    setView({ x: beside > 0 ? beside / 2 : Math.max(beside, Math.min(0, width / 2 - (top.x + BOX_WIDTH / 2) * scale)), y: 0, scale });
  };
  useEffect(() => {
    let wanted = true;
    void layout(graph).then((size) => wanted && setPlaced(size));
    return () => {
      wanted = false;
    };
  }, [graph]);
  useEffect(() => placed && fit(placed), [placed]); // once the frame is there, with its width
  const zoom = (factor: number, x = (box.current?.clientWidth ?? 0) / 2, y = (box.current?.clientHeight ?? 0) / 2) =>
    setView((old) => {
      const scale = Math.min(MOST_SCALE, Math.max(LEAST_SCALE, old.scale * factor));
      return { scale, x: x - ((x - old.x) * scale) / old.scale, y: y - ((y - old.y) * scale) / old.scale };
    });
  const pan = (x: number, y: number) => setView((old) => ({ ...old, x: old.x + x, y: old.y + y }));
  /** Brings the box that keys have come to into sight; the browser would scroll the frame, which moves by its own means. */
  const reveal = (place: { x: number; y: number }) => {
    const frame = box.current;
    if (frame === null) return;
    frame.scrollTo(0, 0);
    setView((old) => {
      const within = (at: number, size: number, most: number) => at >= 0 && at + size * old.scale <= most;
      const [x, y] = [old.x + place.x * old.scale, old.y + place.y * old.scale];
      if (within(x, BOX_WIDTH, frame.clientWidth) && within(y, BOX_HEIGHT, frame.clientHeight)) return old;
      return { ...old, x: (frame.clientWidth - BOX_WIDTH * old.scale) / 2 - place.x * old.scale, y: (frame.clientHeight - BOX_HEIGHT * old.scale) / 2 - place.y * old.scale };
    });
  };
  if (placed === undefined) return <Loading what="the layout" />;
  const keys: Record<string, () => void> = {
    ArrowLeft: () => pan(60, 0),
    ArrowRight: () => pan(-60, 0),
    ArrowUp: () => pan(0, 60),
    ArrowDown: () => pan(0, -60),
    '+': () => zoom(1.25),
    '-': () => zoom(0.8),
    '0': () => fit(placed),
  };
  return (
    <div
      ref={box}
      class="graph"
      onWheel={(event) => {
        event.preventDefault();
        const frame = event.currentTarget.getBoundingClientRect();
        zoom(Math.exp(-event.deltaY / 400), event.clientX - frame.left, event.clientY - frame.top);
      }}
      onPointerDown={(event) => {
        drag.current = { x: event.clientX, y: event.clientY, view };
      }}
      onPointerMove={(event) => {
        const from = drag.current;
        if (from === undefined || event.buttons === 0) return;
        setView({ ...from.view, x: from.view.x + event.clientX - from.x, y: from.view.y + event.clientY - from.y });
      }}
      onPointerUp={() => {
        drag.current = undefined;
      }}
      onKeyDown={(event) => {
        const act = keys[event.key];
        if (act === undefined) return;
        event.preventDefault();
        act();
      }}
    >
      <div class="zoom tools">
        <button type="button" aria-label="Larger" onClick={() => zoom(1.25)}>
          +
        </button>
        <button type="button" aria-label="Smaller" onClick={() => zoom(0.8)}>
          −
        </button>
        <button type="button" onClick={() => fit(placed)}>
          Fit
        </button>
      </div>
      <svg role="group" aria-label="Boxes and what flows between them">
        <g transform={`translate(${view.x} ${view.y}) scale(${view.scale})`}>
          <Edges graph={graph} placed={placed} />
          <Boxes graph={graph} placed={placed} chosenId={chosen('box')} reveal={reveal} />
        </g>
      </svg>
    </div>
  );
}

function GraphTables(props: { graph: Graph; id: string }) {
  const { graph, id } = props;
  const label = (box: number) => graph.boxes[box]?.label ?? '';
  return (
    <>
      <h3>Boxes</h3>
      <Table
        caption="Boxes of the graph"
        rows={graph.boxes.filter((box) => box.kind !== 'outside')}
        rowKey={(box) => box.id}
        columns={[
          {
            key: 'label',
            label: 'Box',
            value: (box) => box.label,
            cell: (box) =>
              isOpenable(box) ? (
                <button type="button" class="plain link name" onClick={() => openBox(box)}>
                  {box.label}
                </button>
              ) : (
                <a class="name" href={link(['plans', id, 'nodes'], { name: box.node })}>
                  {box.label}
                </a>
              ),
          },
          { key: 'stages', label: 'Stages', cell: (box) => box.stages.map((one) => <StageChip key={one.stage} stage={one.stage} />) },
          figure('nodes', 'Nodes', count),
          figure('seconds', 'Seconds', seconds),
          figure('weights_bytes', 'Weights', bytes),
        ]}
      />
      <h3>What flows</h3>
      <Table<Edge>
        caption="What flows between boxes"
        rows={graph.edges}
        rowKey={(edge) => `${edge.from} ${edge.to}`}
        columns={[
          { key: 'from', label: 'From', value: (edge) => label(edge.from), cell: (edge) => <span class="name">{label(edge.from)}</span> },
          { key: 'to', label: 'To', value: (edge) => label(edge.to), cell: (edge) => <span class="name">{label(edge.to)}</span> },
          figure('tensors', 'Tensors', count),
          figure('bytes', 'Bytes', bytes),
          figure('crossing_bytes', 'between stages', bytes),
          { key: 'tensor', label: 'Largest', cell: (edge) => <TensorLink id={id} name={edge.tensor} /> },
        ]}
      />
    </>
  );
}

function BoxDetails(props: { id: string; box: Box }) {
  const { box } = props;
  if (box.node !== undefined) return <NodeDetails id={props.id} name={box.node} member="box" />;
  return (
    <Card
      title={box.label}
      tools={
        <>
          <span class="muted small">Figures are of one device.</span>
          <button type="button" class="primary" onClick={() => openBox(box)}>
            Open
          </button>
          {box.kind === 'module' && <a class="button" href={link(['plans', props.id, 'nodes'], { path: box.path })}>Its nodes</a>}
        </>
      }
    >
      <Facts
        facts={[
          ['Nodes', count(box.nodes)],
          ['Time', <Exact value={box.seconds} as={seconds} />],
          ['Its collectives', <Exact value={box.collective_seconds} as={seconds} />],
          ['Work', <Exact value={box.flops} as={flops} />],
          ['Weights', <Exact value={box.weights_bytes} as={bytes} />],
          ['Operators', box.operators.map((one) => `${one.operator} (${one.nodes})`).join(', ') || '–'],
          ['Stages', box.stages.map((one) => `${one.stage}: ${count(one.nodes)} nodes, ${seconds(one.seconds)}`).join('; ')],
        ]}
      />
    </Card>
  );
}

export function GraphView(props: ViewProps) {
  const { id, summary } = props;
  const byStage = chosen('group') === 'stage';
  const fetched = useFetched<Graph>(
    query(`v1/plans/${id}/graph`, {
      path: byStage ? '' : chosen('path'),
      depth: byStage ? '' : chosen('depth') || MOST_LEVELS, // the daemon takes as many as fit
      stage: chosen('stage'),
      group: byStage ? 'stage' : '',
      limit: MOST_BOXES,
    }),
  );
  return (
    <Shown fetched={fetched} what="the graph">
      {(graph) => {
        const box = graph.boxes.find((one) => String(one.id) === chosen('box'));
        return (
          <>
            <Figure
              title="Graph"
              tools={
                <>
                  <Choice name="group" label="Boxes are" any="modules" options={[['stage', 'stages']]} />
                  {!byStage && <Choice name="depth" label="Levels" any="as many as fit" options={['1', '2', '3', '4'].map((one) => [one, one])} />}
                  {!byStage && <Choice name="stage" label="Of" any="all stages" options={stageOptions(summary)} />}
                </>
              }
              note={
                <span class="crumbs">
                  {graph.parents.map((parent) => (
                    <>
                      <button type="button" class="plain link" onClick={() => choose({ path: parent.path, box: undefined })}>
                        {parent.label}
                      </button>
                      {' / '}
                    </>
                  ))}
                  {count(graph.node_count)} nodes in {count(graph.boxes.filter((one) => one.kind !== 'outside').length)} boxes.
                  Lines in the colour of sends cross from one stage to another.
                  {graph.truncated && (chosen('depth') !== '' || graph.boxes.some(isJoined)) && ' Some boxes are several neighbours in one, or some levels or lines are left out: there are too many to show.'}
                </span>
              }
              picture={() => <Picture graph={graph} />}
              table={() => <GraphTables graph={graph} id={id} />}
            />
            {box !== undefined && box.kind !== 'outside' && <BoxDetails id={id} box={box} />}
          </>
        );
      }}
    </Shown>
  );
}
