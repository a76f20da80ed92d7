// What users of a service see, where the request had a workload: figures, limits, phases, pools, and what no other one beats.
import type { ComponentChildren } from 'preact';
import { bytes, count, perSecond, seconds, share } from '../lib/format';
import type { Range, Service as Answer, ServicePoint, Summary } from '../lib/types';
import { Between, Card, Exact, Facts, Figure } from '../ui/parts';
import { Scatter } from '../ui/scatter';
import { figure, Table } from '../ui/table';

const rounded = (value: number) => count(Math.round(value));
const price = (value: number) => `$${value.toPrecision(3)}`;

/** A figure with its error bar, where the service has it. */
function fact(label: string, value: number | undefined, as: (value: number) => string, range?: Range): [string, ComponentChildren][] {
  return value === undefined ? [] : [[label, <><Exact value={value} as={as} /><Between range={range} as={as} /></>]];
}

function named(point: ServicePoint): string {
  return `${point.prefill_copies === undefined ? '' : `prompts ${point.prefill_copies} × ${point.devices_per_prefill_copy}, steps `}${point.copies} × ${point.devices_per_copy} devices`;
}

/** Services that nothing beats in both figures. */
function Front(props: { title: string; points: ServicePoint[]; x: 'tpot_seconds' | 'request_seconds'; y: 'tokens_per_second_per_device' | 'dollars_per_million_tokens' }) {
  const { title, points, x, y } = props;
  const yText = y === 'dollars_per_million_tokens' ? price : perSecond;
  const [xLabel, yLabel] = [x === 'tpot_seconds' ? 'Per token' : 'Request', y === 'dollars_per_million_tokens' ? 'A million tokens' : 'Tokens of a device'];
  return (
    <Figure
      title={title}
      picture={() => (
        <Scatter
          title={title}
          dots={points.map((point, at) => ({
            key: String(at),
            x: point[x],
            y: point[y] ?? 0,
            label: `${named(point)}, ${count(point.concurrency)} in flight: ${seconds(point[x])}, ${yText(point[y] ?? 0)}`,
            group: 0,
            isBest: true,
            isChosen: false,
          }))}
          {...{ xLabel, yLabel, yText }}
          xText={seconds}
        />
      )}
      table={() => (
        <Table
          caption={title}
          rows={points}
          rowKey={(point) => `${named(point)} ${point.concurrency}`}
          columns={[
            { key: 'devices', label: 'Copies', cell: named },
            { key: 'description', label: 'Plan of a copy', cell: (point) => point.description },
            figure('concurrency', 'In flight', count),
            figure('ttft_seconds', 'First token', seconds),
            figure(x, xLabel, seconds),
            figure(y, yLabel, yText),
          ]}
        />
      )}
    />
  );
}

function Pools(props: { pools: NonNullable<Answer['pools']> }) {
  const { prefill, decode, transfer } = props.pools;
  const rows = [
    { name: 'Prompts', busy: prefill.time_share, ...prefill },
    { name: 'Steps', busy: decode.place_share, ...decode },
  ];
  return (
    <Card title="Pools">
      <Table
        caption="Pools"
        rows={rows}
        rowKey={(row) => row.name}
        columns={[
          { key: 'name', label: 'Pool', cell: (row) => row.name },
          figure('copies', 'Copies', count),
          figure('devices_per_copy', 'Devices of a copy', count),
          { key: 'description', label: 'Plan of a copy', cell: (row) => row.description },
          figure('capacity_per_second', 'At most', perSecond),
          figure('busy', 'Busy', share),
        ]}
      />
      <p>
        <Exact value={transfer.bytes_per_request} as={bytes} /> of cache are sent for a request in{' '}
        <Exact value={transfer.seconds} as={seconds} />; the links are busy for <Exact value={transfer.link_share} as={share} /> of the time.
      </p>
    </Card>
  );
}

export function Service(props: { summary: Summary }) {
  const { service } = props.summary;
  if (!service) return null;
  const { front_by_tpot: byTpot, front_by_price: byPrice } = service;
  return (
    <>
      <Card title="Service">
        <Facts
          facts={[
            ...fact('First token', service.ttft_seconds, seconds, service.ttft_range),
            ...fact('Per token', service.tpot_seconds, seconds, service.tpot_range),
            ...fact('Request', service.request_seconds, seconds, service.request_range),
            ...fact('Requests', service.requests_per_second, perSecond, service.requests_range),
            ...fact('Tokens', service.tokens_per_second, perSecond, service.tokens_range),
            ...fact('Tokens of a device', service.tokens_per_second_per_device, perSecond),
            ...fact('Requests for a dollar', service.requests_per_dollar, rounded),
            ...fact('In flight', service.concurrency, count),
            ...fact('Memory allows', service.memory_concurrency, count),
            ...fact('Limits allow', service.limit_concurrency, count),
            ...fact('Caches', service.cache_bytes, bytes),
            ...fact('Micro-batches', service.micro_batches === 1 ? undefined : service.micro_batches, count),
          ]}
        />
        {(service.limits ?? []).map((limit) => (
          <p key={limit.name}>
            Limit <code>{limit.name}</code> {limit.limit}: {limit.state} (<Exact value={limit.value} as={(value) => value.toPrecision(4)} />)
          </p>
        ))}
      </Card>
      {service.pools && <Pools pools={service.pools} />}
      <Card title="Phases">
        <Table
          caption="Phases"
          rows={service.phases}
          rowKey={(phase) => phase.name}
          columns={[
            { key: 'name', label: 'Phase', cell: (phase) => phase.name },
            figure('runs_per_request', 'Runs per request', (runs) => runs.toPrecision(3)),
            figure('latency_seconds', 'Latency', seconds),
            figure('interval_seconds', 'Interval', seconds),
            figure('memory_bytes', 'Memory', bytes),
            figure('time_share', 'Of the time', share),
            { key: 'bottleneck', label: 'Bottleneck', cell: (phase) => <span class="why">{phase.bottleneck}</span> },
          ]}
        />
      </Card>
      {byTpot && byTpot.length > 1 && <Front title="Tokens of a device against the time per token" points={byTpot} x="tpot_seconds" y="tokens_per_second_per_device" />}
      {byPrice && byPrice.length > 1 && <Front title="Price against the time of a request" points={byPrice} x="request_seconds" y="dollars_per_million_tokens" />}
    </>
  );
}
