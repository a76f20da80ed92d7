// What devices hold: against what they have, and in the course of a request, with what is alive at the peak.
import { useMemo } from 'preact/hooks';
import { query } from '../lib/api';
import { useFetched } from '../lib/fetched';
import { bytes, count, dashed, devices, plural, seconds, share } from '../lib/format';
import { choose, chosen } from '../lib/route';
import type { Device, Memory, Summary } from '../lib/types';
import { Lines } from '../ui/lines';
import { NodeLink, TensorLink } from '../ui/links';
import { Card, Exact, Facts, Figure, Shown, StageChip } from '../ui/parts';
import { figure, Table } from '../ui/table';
import type { ViewProps } from './plan';

const PARTS = [
  ['weights_bytes', 'Weights', 'weights'],
  ['cache_bytes', 'Caches', 'cache'],
  ['activations_peak_bytes', 'Activations at the peak', 'activations'],
  ['communication_bytes', 'Buffers of exchanges', 'buffers'],
] as const;

const MOST_SCALE = 4; // as many times as high as what is held may a scale be

interface Group {
  ids: number[];
  device: Device;
}

/** Neighbours that hold the same. */
function grouped(devices: Device[]): Group[] {
  const groups: Group[] = [];
  for (const device of devices) {
    const last = groups[groups.length - 1];
    const same =
      last !== undefined &&
      last.device.stage === device.stage &&
      last.device.name === device.name &&
      JSON.stringify(last.device.memory) === JSON.stringify(device.memory);
    if (same) last.ids.push(device.id);
    else groups.push({ ids: [device.id], device });
  }
  return groups;
}

function Bars(props: { groups: Group[]; stage: number }) {
  const held = Math.max(...props.groups.map(({ device }) => device.memory.total_bytes), 1);
  const capacity = Math.max(...props.groups.map(({ device }) => device.memory.capacity_bytes));
  // A capacity far above all that is held would leave nothing to see of it.
  const isFar = capacity > MOST_SCALE * held;
  const most = isFar ? held : Math.max(capacity, held);
  return (
    <>
      <ul class="legend">
        {PARTS.map(([name, label, kind]) => (
          <li key={name}>
            <span class={`swatch ${kind}`} /> {label}
          </li>
        ))}
        <li>
          {isFar ? 'Capacity is far beyond these bars' : <><span class="swatch capacity" /> Capacity</>}
        </li>
      </ul>
      <div class="stacks">
        {props.groups.map((group) => {
          const { memory, stage } = group.device;
          return (
            <button
              key={group.ids[0]}
              type="button"
              class="stack-row plain"
              disabled={stage === null}
              aria-pressed={stage !== null && stage === props.stage}
              onClick={() => choose({ stage })}
            >
              <span class="stack-name">
                <span class="visually-hidden">device </span>
                {devices(group.ids)} <span class="visually-hidden">stage </span>
                <StageChip stage={stage} />
              </span>
              <span class="stack">
                {PARTS.map(([name, label, kind]) => (
                  <span key={name} class={kind} title={`${label}: ${bytes(memory[name])}`} style={{ width: `${(memory[name] / most) * 100}%` }} />
                ))}
                {!isFar && <span class="capacity" style={{ left: `${(memory.capacity_bytes / most) * 100}%` }} />}
              </span>
              <span class="stack-share">
                {share(memory.total_bytes / memory.capacity_bytes)}
                <span class="visually-hidden"> of {bytes(memory.capacity_bytes)}</span>
              </span>
            </button>
          );
        })}
      </div>
    </>
  );
}

function DeviceTable(props: { devices: Device[] }) {
  return (
    <Table
      caption="Memory of each device"
      rows={props.devices}
      rowKey={(device) => device.id}
      columns={[
        { key: 'id', label: 'Device', numeric: true, value: (device) => device.id, cell: (device) => device.id },
        { key: 'name', label: 'Kind', value: (device) => device.name, cell: (device) => device.name },
        { key: 'stage', label: 'Stage', value: (device) => device.stage, cell: (device) => <StageChip stage={device.stage} /> },
        ...(['weights_bytes', 'cache_bytes', 'activations_peak_bytes', 'communication_bytes', 'total_bytes', 'capacity_bytes'] as const).map((name) =>
          figure(
            name,
            { total_bytes: 'Total', capacity_bytes: 'Capacity' }[name as string] ?? PARTS.find(([part]) => part === name)?.[1] ?? '',
            bytes,
            (device: Device) => device.memory[name],
          ),
        ),
      ]}
    />
  );
}

function Course(props: { memory: Memory }) {
  const { memory } = props;
  const base = memory.weights_bytes + memory.cache_bytes + memory.communication_bytes;
  const at = useMemo(() => [...memory.course.map(([time]) => time), memory.seconds], [memory]);
  const lines = useMemo(() => {
    const held = memory.course.map(([, held]) => base + held);
    // A capacity far above would leave nothing to see of the rest.
    const isNear = memory.capacity_bytes < MOST_SCALE * memory.total_bytes;
    return [
      { label: 'In use', colour: '--activations', filled: true, values: [...held, base] },
      { label: 'Weights, caches, buffers', colour: '--weights', dashed: true, values: at.map(() => base) },
      ...(isNear ? [{ label: 'Capacity', colour: '--bad', dashed: true, values: at.map(() => memory.capacity_bytes) }] : []),
    ];
  }, [memory]);
  return (
    <Figure
      title={`Device ${dashed(memory.device_list)} in the course of a request`}
      note={`Most is in use ${seconds(memory.peak?.at_seconds)} after the request has come to the stage: ${bytes(memory.total_bytes)} of ${bytes(memory.capacity_bytes)}.`}
      picture={() => <Lines label="Memory over time" across="After" at={at} lines={lines} acrossText={seconds} text={bytes} />}
      table={() => (
        <Table
          caption="Memory over time"
          rows={memory.course}
          rowKey={(point) => point[0]}
          columns={[
            figure('at', 'After', seconds, (point: [number, number]) => point[0]),
            figure('bytes', 'Activations', bytes, (point: [number, number]) => point[1]),
          ]}
        />
      )}
    />
  );
}

function Alive(props: { id: string; memory: Memory }) {
  const { id, memory } = props;
  const more = memory.alive_more;
  return (
    <Card title="Alive at the peak">
      <Facts
        facts={[
          ['While this node runs', <NodeLink id={id} name={memory.peak?.node} />],
          ['Activations', <Exact name="activations_peak_bytes" value={memory.activations_peak_bytes} as={bytes} />],
          ['All together', <><Exact value={memory.total_bytes} as={bytes} /> of {bytes(memory.capacity_bytes)}</>],
        ]}
      />
      <Table
        caption="What is alive at the peak"
        rows={memory.alive.map((held, index) => ({ ...held, index }))}
        rowKey={(held) => held.index}
        empty="Nothing but weights, caches and buffers."
        columns={[
          { key: 'tensor', label: 'Tensor', value: (held) => held.tensor, cell: (held) => (held.what === 'workspace' ? <>workspace of <NodeLink id={id} name={held.node} /></> : held.what === 'waiting' ? 'of other requests, and for other stages' : <TensorLink id={id} name={held.tensor} />) },
          { key: 'what', label: 'What', value: (held) => held.what, cell: (held) => held.what },
          figure('bytes', 'Bytes', bytes),
          { key: 'share', label: 'Share', numeric: true, cell: (held) => share(held.bytes / memory.activations_peak_bytes) },
        ]}
      />
      {more !== undefined && (
        <p class="muted">
          And {plural(more.count, 'smaller one')}, {bytes(more.bytes)} together.
        </p>
      )}
    </Card>
  );
}

/** The stage whose devices are fullest. */
function fullest(summary: Summary): number {
  const used = summary.devices.filter((device) => device.stage !== null);
  const ratio = (device: Device) => device.memory.total_bytes / device.memory.capacity_bytes;
  return used.reduce<Device | undefined>((most, device) => (most === undefined || ratio(device) > ratio(most) ? device : most), undefined)?.stage ?? 0;
}

export function MemoryView({ id, summary }: ViewProps) {
  const groups = useMemo(() => grouped(summary.devices), [summary]);
  const stage = chosen('stage') === '' ? fullest(summary) : Number(chosen('stage'));
  const memory = useFetched<Memory>(query(`v1/plans/${id}/memory`, { stage }));
  return (
    <>
      <Figure
        title="Memory of devices"
        note={`${plural(summary.devices.length, 'device')} in ${count(groups.length)} ${groups.length === 1 ? 'row' : 'rows'}: neighbours that hold the same are one. Choose a row to see it over time.`}
        picture={() => <Bars groups={groups} stage={stage} />}
        table={() => <DeviceTable devices={summary.devices} />}
      />
      <Shown fetched={memory} what="the stage's memory">
        {(data) => (
          <>
            <Course memory={data} />
            <Alive id={id} memory={data} />
          </>
        )}
      </Shown>
    </>
  );
}
