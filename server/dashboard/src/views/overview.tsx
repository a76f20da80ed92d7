// The plan in short: what it achieves, what keeps it from being better, which devices do what.
import type { ComponentChildren } from 'preact';
import { bytes, count, devices, dollars, flops, perSecond, seconds, share } from '../lib/format';
import { link } from '../lib/route';
import type { Stage, Summary } from '../lib/types';
import { Bar, Between, Card, Exact, Facts, StageChip } from '../ui/parts';
import { figure, Table } from '../ui/table';
import type { ViewProps } from './plan';
import { Service } from './service';

/** Devices of the same kind, "8 x a100-sxm4-80gb". */
function clusterText(summary: Summary): string {
  return summary.cluster.groups.map((group) => `${group.count} × ${group.device.name}`).join(', ');
}

function Estimate(props: { summary: Summary }) {
  const { estimate, objective, service, devices: all } = props.summary;
  return (
    <Card title={`Planned for ${service?.objective ?? objective}`}>
      <div class="big">
        <Facts
          facts={[
            [
              'Latency',
              <>
                <Exact name="latency_seconds" value={estimate.latency_seconds} as={seconds} />
                <Between range={estimate.latency_range} as={seconds} />
              </>,
            ],
            [
              'Throughput',
              <>
                <Exact name="throughput_per_second" value={estimate.throughput_per_second} as={perSecond} />
                <Between range={estimate.throughput_range} as={perSecond} />
              </>,
            ],
            ['Devices used', <><Exact name="devices_used" value={estimate.devices_used} as={count} /> of {count(all.length)}</>],
            ...(estimate.price_per_hour === undefined ? [] : [priceFact(estimate.price_per_hour)]),
            ['Gap to bound', <Exact name="gap" value={estimate.gap} as={share} />],
          ]}
        />
      </div>
      <p class="sentence">{estimate.bottleneck}</p>
      <Facts
        facts={[
          ['Between two requests', <Exact name="interval_seconds" value={estimate.interval_seconds} as={seconds} />],
          ['Proven lower bound', <Exact name="lower_bound_seconds" value={estimate.lower_bound_seconds} as={seconds} />],
          ['Sent for one request', <Exact name="communication_bytes" value={estimate.communication_bytes} as={bytes} />],
          [
            'Fullest device',
            <>
              <Exact value={Math.max(...all.map((device) => device.memory.total_bytes))} as={bytes} />
              <Between range={estimate.memory_range} as={bytes} />
            </>,
          ],
        ]}
      />
      {estimate.latency_range && <p class="muted small">Small figures: where 90 % of measurements are expected.</p>}
    </Card>
  );
}

function Why(props: { summary: Summary; id: string }) {
  const { why } = props.summary;
  if (why === undefined) return null;
  const { binding, second_best: second, best } = why;
  return (
    <Card title="Why not better?">
      <p>{binding.sentence}</p>
      {binding.node !== null && (
        <p class="small">
          Node: <a href={link(['plans', props.id, 'nodes'], { name: binding.node })} class="name">{binding.node}</a>
        </p>
      )}
      <h3>Second best</h3>
      <p>{second !== null ? second.sentence : (why.no_second_best ?? 'No other plan was found.')}</p>
      {best && (
        <>
          <h3>Best found</h3>
          <p>{best.sentence}</p>
        </>
      )}
    </Card>
  );
}

/** The runtime, what kernels reach, where the figures of the devices come from; and the member that changes each. */
function Assumptions(props: { summary: Summary }) {
  return (
    <Card title="Assumptions">
      <p class="muted small">With the member of the cluster that changes each.</p>
      <ul>
        {(props.summary.assumptions ?? []).map((one) => (
          <li>
            {one.device !== null && <strong>{one.device}: </strong>}
            {one.text} <code>{one.member}</code>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function About(props: { summary: Summary }) {
  const { model, search, proof, counts, options } = props.summary;
  return (
    <Card title="What was planned">
      <Facts
        facts={[
          ['Model', model.sha256 !== null ? <a href={link(['models', model.sha256])}>{model.name}</a> : model.name],
          ['Devices', clusterText(props.summary)],
          ['Nodes', <Exact value={model.node_count} as={count} />],
          ['Weights', <Exact value={model.weight_bytes} as={bytes} />],
          ['Work of one request', <Exact value={model.flops} as={flops} />],
          ['Tensors that are split', `${count(counts.split_tensors)} of ${count(counts.tensors)}`],
          ['Search', `${search.strategy}, ${seconds(search.seconds)}`],
          ...(proof ? [['Proof', proof.undecided[0] ?? `${proof.state}, ${seconds(proof.seconds)}`] as [string, string]] : []),
        ]}
      />
      <details class="options">
        <summary>Options</summary>
        <pre>{JSON.stringify(options, null, 2)}</pre>
      </details>
    </Card>
  );
}

function meshText(stage: Stage): string {
  return stage.mesh.map((axis) => `${axis.name} ${axis.size}`).join(' × ') || 'one device';
}

function Stages(props: { summary: Summary; id: string }) {
  const { stages, estimate } = props.summary;
  return (
    <Card title="Stages">
      <Table
        caption="Stages"
        rows={stages}
        rowKey={(stage) => stage.index}
        columns={[
          { key: 'index', label: 'Stage', value: (stage) => stage.index, cell: (stage) => <StageChip stage={stage.index} /> },
          {
            key: 'devices',
            label: 'Devices',
            cell: (stage) => (
              <a href={link(['plans', props.id, 'memory'], { stage: stage.index })}>{devices(stage.devices)}</a>
            ),
          },
          {
            key: 'mesh',
            label: 'Mesh',
            cell: (stage) => `${meshText(stage)}${stage.replicas > 1 ? `, ${stage.replicas} replicas` : ''}`,
          },
          {
            key: 'nodes',
            label: 'Nodes',
            numeric: true,
            value: (stage) => stage.node_count,
            cell: (stage) => (
              <a href={link(['plans', props.id, 'nodes'], { stage: stage.index })}>{count(stage.node_count)}</a>
            ),
          },
          figure('seconds', 'Interval', seconds),
          {
            key: 'busy',
            label: 'Of the slowest',
            cell: (stage) => (
              <Bar
                share={stage.seconds / estimate.interval_seconds}
                label={`${share(stage.seconds / estimate.interval_seconds)} of the interval of the plan`}
              />
            ),
          },
          figure('compute_seconds', 'Compute', seconds),
          figure('collective_seconds', 'of it collectives', seconds),
          { key: 'because', label: 'Why', cell: (stage) => <span class="why">{stage.because}</span> },
        ]}
      />
    </Card>
  );
}

/** Where requests take several routes: how many take which, and how busy each device is. The stages are those of the first. */
function Routes(props: { summary: Summary }) {
  const { routes, estimate } = props.summary;
  if (!routes) return null;
  return (
    <Card title="Routes">
      <p class="muted small">The stages above, and the other views, show the first route.</p>
      <Table
        caption="Routes"
        rows={routes.paths}
        rowKey={(path) => path.devices.join('-')}
        columns={[
          { key: 'path', label: 'Devices', cell: (path) => path.devices.join(' → ') },
          figure('share', 'Requests', share),
          figure('latency_seconds', 'Latency', seconds),
        ]}
      />
      <Table
        caption="Devices on routes"
        rows={routes.holders}
        rowKey={(holder) => holder.device}
        columns={[
          { key: 'device', label: 'Device', value: (holder) => holder.device, cell: (holder) => holder.device },
          { key: 'nodes', label: 'Nodes', cell: (holder) => `${holder.first} … ${holder.last}` },
          figure('share', 'Requests', share),
          figure('busy_seconds', 'Busy per request', seconds),
          {
            key: 'busy',
            label: 'Of the interval',
            cell: (holder) => (
              <Bar
                share={holder.busy_seconds / estimate.interval_seconds}
                label={`${share(holder.busy_seconds / estimate.interval_seconds)} of the interval of the plan`}
              />
            ),
          },
        ]}
      />
    </Card>
  );
}

/** Where copies of the whole plan take requests in turn: which devices each has. The stages are those of the first. */
function Copies(props: { summary: Summary }) {
  const { copies } = props.summary;
  if (!copies) return null;
  return (
    <Card title="Copies">
      <p class="muted small">
        {count(copies.count)} copies of the plan take requests in turn. The stages above, and the other views, show the first.
      </p>
      <Table
        caption="Copies"
        rows={copies.devices.map((of, index) => ({ of, index }))}
        rowKey={(copy) => copy.index}
        columns={[
          { key: 'copy', label: 'Copy', value: (copy) => copy.index, cell: (copy) => copy.index },
          { key: 'devices', label: 'Devices', cell: (copy) => devices(copy.of) },
        ]}
      />
    </Card>
  );
}

function priceFact(price: number): [string, ComponentChildren] {
  return ['Price', <><Exact name="price_per_hour" value={price} as={dollars} /> an hour</>];
}

/** What is moved, where the plan follows another one. */
function Moves(props: { summary: Summary }) {
  const { replan, moved_bytes: moved } = props.summary;
  return replan ? (
    <Card title="Moves">
      <Facts
        facts={[
          ['Moved', <Exact name="moved_bytes" value={moved} as={bytes} />],
          ['Kept', <Exact name="kept_bytes" value={replan.kept_bytes} as={bytes} />],
          ['Time', <Exact name="moving_seconds" value={replan.moving_seconds} as={seconds} />],
          ['Horizon', <Exact name="horizon_seconds" value={replan.horizon_seconds} as={seconds} />],
        ]}
      />
      <Table
        caption="Moves"
        rows={replan.sums}
        rowKey={(row) => `${row.from} ${row.to}`}
        columns={[
          { key: 'from', label: 'From', cell: (row) => row.from },
          figure('to', 'To', count),
          figure('bytes', 'Bytes', bytes),
          figure('moves', 'Moves', count),
        ]}
      />
    </Card>
  ) : null;
}

export function Overview(props: ViewProps) {
  const { summary, id } = props;
  const { error, warning, note } = summary.counts.diagnostics;
  return (
    <>
      {error + warning > 0 && (
        <p class="notice">
          <a href={link(['plans', id, 'diagnostics'])}>
            {error > 0 ? `${count(error)} errors, ` : ''}
            {count(warning)} {warning === 1 ? 'warning' : 'warnings'}
          </a>{' '}
          {note > 0 && `and ${count(note)} notes `}about this plan.
        </p>
      )}
      <div class="grid wide-first">
        <Estimate summary={summary} />
        <Why summary={summary} id={id} />
      </div>
      <Service summary={summary} />
      <Stages summary={summary} id={id} />
      <Moves summary={summary} />
      <Copies summary={summary} />
      <Routes summary={summary} />
      <Assumptions summary={summary} />
      <About summary={summary} />
    </>
  );
}
