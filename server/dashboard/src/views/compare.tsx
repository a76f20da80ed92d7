// Two plans beside each other: figures, what was asked for, stages, and the tensors that they shard otherwise.
import type { ComponentChildren } from 'preact';
import { useFetched } from '../lib/fetched';
import { bytes, count, devices, perSecond, seconds, share } from '../lib/format';
import { link } from '../lib/route';
import { useTitle } from '../lib/title';
import type { Summary, TensorRow } from '../lib/types';
import { Card, Exact, Shown, StageChip } from '../ui/parts';
import { figure, PagedTable, sortable, Table } from '../ui/table';

interface Row {
  name: string;
  a: number | null;
  b: number | null;
  text: (value: number | null) => string;
  less: boolean | null; // less is better; null: neither is
}

function worst(summary: Summary): number {
  return Math.max(...summary.devices.map((device) => device.memory.total_bytes));
}

function figures(a: Summary, b: Summary): Row[] {
  const both = (name: string, pick: (summary: Summary) => number, text: (value: number | null) => string, less: boolean | null = true) => ({
    name,
    a: pick(a),
    b: pick(b),
    text,
    less,
  });
  return [
    both('Latency', (one) => one.estimate.latency_seconds, seconds),
    both('Between two requests', (one) => one.estimate.interval_seconds, seconds),
    both('Throughput', (one) => one.estimate.throughput_per_second, perSecond, false),
    both('Proven lower bound', (one) => one.estimate.lower_bound_seconds, seconds, null),
    both('Gap', (one) => one.estimate.gap, share),
    both('Devices used', (one) => one.estimate.devices_used, count),
    both('Sent for one request', (one) => one.estimate.communication_bytes, bytes),
    both('Fullest device', worst, bytes),
    both('Stages', (one) => one.stages.length, count, null),
    both('Tensors that are split', (one) => one.counts.split_tensors, count, null),
    both('Collectives', (one) => one.counts.collectives, count, null),
    both('Seconds of search', (one) => one.search.seconds, seconds, null),
  ];
}

function change(row: Row): ComponentChildren {
  if (row.a === null || row.b === null || row.a === row.b) return <span class="muted">the same</span>;
  const rating = row.less === null ? '' : row.b < row.a === row.less ? 'good' : 'warn';
  // Shares and what is counted from nothing are told by their difference, all else relative to A.
  const relative = row.a !== 0 && row.text !== share ? (row.b - row.a) / Math.abs(row.a) : null;
  return (
    <span class={`badge ${rating}`}>
      {row.b > row.a ? '+' : '−'}
      {relative === null ? row.text(Math.abs(row.b - row.a)) : share(Math.abs(relative))}
    </span>
  );
}

/** Members of the request that differ, as JSON: the innermost ones, "cluster.groups.0.count". */
function differences(a: unknown, b: unknown, name = ''): { name: string; a: string; b: string }[] {
  const [left, right] = [JSON.stringify(a) ?? '–', JSON.stringify(b) ?? '–'];
  if (left === right) return [];
  if (!isParts(a) || !isParts(b)) return [{ name, a: left, b: right }];
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].flatMap((key) => differences(a[key], b[key], name === '' ? key : `${name}.${key}`));
}

function isParts(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function asked(one: Summary): Record<string, unknown> {
  return { model: one.model.name, cluster: one.cluster, objective: one.objective, ...one.options };
}

function StageList(props: { summary: Summary; title: string }) {
  return (
    <Card title={props.title}>
      <Table
        caption={props.title}
        rows={props.summary.stages}
        rowKey={(stage) => stage.index}
        columns={[
          { key: 'index', label: 'Stage', cell: (stage) => <StageChip stage={stage.index} /> },
          { key: 'devices', label: 'Devices', cell: (stage) => devices(stage.devices) },
          { key: 'mesh', label: 'Mesh', cell: (stage) => stage.mesh.map((axis) => `${axis.name} ${axis.size}`).join(' × ') || '–' },
          figure('node_count', 'Nodes', count),
          figure('seconds', 'Interval', seconds),
        ]}
      />
    </Card>
  );
}

function Tensors(props: { a: string; b: string }) {
  return (
    <Card title="Tensors that are sharded otherwise">
      <PagedTable<TensorRow>
        caption="Tensors that are sharded otherwise"
        path={`v1/plans/${props.a}/tensors`}
        parameters={{ differs_from: props.b }}
        empty="None: every tensor has the same sharding in both."
        columns={[
          {
            key: 'name',
            label: 'Tensor',
            sortable: true,
            cell: (row) => <a class="name" href={link(['plans', props.a, 'sharding'], { name: row.name })}>{row.name}</a>,
          },
          { key: 'a', label: 'A', cell: (row) => <code>{row.spec.text}</code> },
          { key: 'b', label: 'B', cell: (row) => (row.other_text ? <code>{row.other_text}</code> : <span class="muted">not there</span>) },
          sortable(figure('bytes', 'Bytes', bytes)),
        ]}
      />
    </Card>
  );
}

function Both(props: { a: Summary; b: Summary; ids: [string, string] }) {
  const { a, b, ids } = props;
  const others = differences(asked(a), asked(b));
  return (
    <>
      <div class="grid">
        {[a, b].map((one, at) => (
          <Card key={ids[at]} title={`${'AB'[at]}: ${one.model.name}`}>
            <p>
              <a href={link(['plans', ids[at] ?? ''])}>Plan {ids[at]?.slice(0, 12)}</a>, for {one.objective}
            </p>
            <p class="sentence">{one.estimate.bottleneck}</p>
          </Card>
        ))}
      </div>
      <Card title="Figures">
        <Table
          caption="Figures of both plans"
          rows={figures(a, b)}
          rowKey={(row) => row.name}
          columns={[
            { key: 'name', label: 'Figure', cell: (row) => row.name },
            { key: 'a', label: 'A', numeric: true, cell: (row) => <Exact name={`a ${row.name}`} value={row.a} as={row.text} /> },
            { key: 'b', label: 'B', numeric: true, cell: (row) => <Exact name={`b ${row.name}`} value={row.b} as={row.text} /> },
            { key: 'change', label: 'B is', cell: change },
          ]}
        />
      </Card>
      {others.length > 0 && (
        <Card title="What was asked for otherwise">
          <Table
            caption="What was asked for otherwise"
            rows={others}
            rowKey={(row) => row.name}
            columns={[
              { key: 'name', label: 'Member', cell: (row) => row.name },
              { key: 'a', label: 'A', cell: (row) => <code>{row.a}</code> },
              { key: 'b', label: 'B', cell: (row) => <code>{row.b}</code> },
            ]}
          />
        </Card>
      )}
      <div class="grid">
        <StageList summary={a} title="Stages of A" />
        <StageList summary={b} title="Stages of B" />
      </div>
      {a.model.sha256 !== null && a.model.sha256 === b.model.sha256 ? (
        <Tensors a={ids[0]} b={ids[1]} />
      ) : (
        <p class="muted">They are plans of different models, so their tensors are not compared.</p>
      )}
    </>
  );
}

export function ComparePage(props: { a: string; b: string }) {
  const a = useFetched<Summary>(`v1/plans/${props.a}/summary`);
  const b = useFetched<Summary>(`v1/plans/${props.b}/summary`);
  useTitle(`Plans ${props.a.slice(0, 12)} and ${props.b.slice(0, 12)}`);
  return (
    <>
      <div class="title">
        <h1>Two plans</h1>
        <a class="button" href={link(['compare', props.b, props.a])}>
          Swap
        </a>
      </div>
      <Shown fetched={a} what="plan A">
        {(left) => (
          <Shown fetched={b} what="plan B">
            {(right) => <Both a={left} b={right} ids={[props.a, props.b]} />}
          </Shown>
        )}
      </Shown>
    </>
  );
}
