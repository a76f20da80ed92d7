// Other clusters: those that were asked about, and what one change of this one would bring.
import { bytes, count, perSecond, seconds, share } from '../lib/format';
import { choose, chosen } from '../lib/route';
import type { SweepRow, WhatIf } from '../lib/types';
import { Card, Figure } from '../ui/parts';
import { Scatter } from '../ui/scatter';
import { figure, Table } from '../ui/table';
import type { ViewProps } from './plan';

type Measure = 'interval_seconds' | 'latency_seconds';

function fits(row: { fits: boolean | null }) {
  if (row.fits === null) return <span class="muted">not looked at</span>;
  return <span class={`badge ${row.fits ? 'good' : 'bad'}`}>{row.fits ? 'fits' : 'does not fit'}</span>;
}

function name(row: SweepRow): string {
  return `${row.devices_available} × ${row.device}`;
}

function SweepTable(props: { rows: SweepRow[] }) {
  return (
    <Table
      caption="Clusters that were asked about"
      rows={props.rows}
      rowKey={name}
      isChosen={(row) => row.chosen}
      columns={[
        { key: 'cluster', label: 'Cluster', value: name, cell: (row) => <>{name(row)} {row.chosen && <span class="badge good">chosen</span>}</> },
        { key: 'fits', label: '', cell: fits },
        { key: 'front', label: 'Nothing beats it', cell: (row) => (row.pareto ? 'yes' : '') },
        figure('devices_used', 'Devices used', count),
        figure('stages', 'Stages', count),
        figure('latency_seconds', 'Latency', seconds),
        figure('interval_seconds', 'Interval', seconds),
        figure('throughput_per_second', 'Throughput', perSecond),
        figure('memory_bytes', 'Fullest device', bytes),
        { key: 'description', label: 'Plan', cell: (row) => <span class="why">{row.message ?? row.description ?? ''}</span> },
      ]}
    />
  );
}

function SweepPicture(props: { rows: SweepRow[]; measure: Measure }) {
  const kinds = [...new Set(props.rows.map((row) => row.device))];
  const label = props.measure === 'latency_seconds' ? 'Latency' : 'Seconds between two requests';
  const dots = props.rows.flatMap((row) => {
    const value = row[props.measure];
    if (row.fits !== true || value === null || row.devices_used === null) return [];
    return [
      {
        key: name(row),
        x: row.devices_used,
        y: value,
        group: kinds.indexOf(row.device),
        isBest: row.pareto,
        isChosen: row.chosen,
        label: `${name(row)}: ${count(row.devices_used)} used, latency ${seconds(row.latency_seconds)}, interval ${seconds(row.interval_seconds)}${row.pareto ? '; nothing beats it' : ''}${row.chosen ? '; chosen' : ''}`,
      },
    ];
  });
  if (dots.length === 0) return <p class="muted">None of the clusters fits: the table says why.</p>;
  return (
    <>
      <Scatter
        title={`${label} by devices used`}
        dots={dots}
        xLabel="Devices used"
        yLabel={label}
        xText={(value) => (Number.isInteger(value) ? String(value) : '')}
        yText={seconds}
      />
      <p class="legend">
        {kinds.map((kind, at) => (
          <span key={kind} class={`chip stage-${at % 10}`}>
            {kind}
          </span>
        ))}
      </p>
    </>
  );
}

function WhatIfTable(props: { rows: WhatIf[] }) {
  return (
    <Table
      caption="What a change of the cluster would bring"
      rows={props.rows}
      rowKey={(row) => row.change}
      columns={[
        { key: 'change', label: 'Change', value: (row) => row.change, cell: (row) => row.change },
        figure('gain', 'Gain', (gain) => `${gain > 0 ? '+' : ''}${share(gain)}`),
        { key: 'fits', label: '', cell: fits },
        figure('devices', 'Devices', count),
        figure('latency_seconds', 'Latency', seconds),
        figure('throughput_per_second', 'Throughput', perSecond),
        { key: 'description', label: 'Plan', cell: (row) => <span class="why">{row.message ?? (row.kept ? 'Nothing better than this plan was found.' : (row.description ?? ''))}</span> },
      ]}
    />
  );
}

export function SweepView(props: ViewProps) {
  const { sweep = [], what_if: changes = [], objective } = props.summary;
  const measure: Measure =
    (chosen('measure') || (objective === 'latency' ? 'latency' : 'interval')) === 'latency' ? 'latency_seconds' : 'interval_seconds';
  return (
    <>
      {sweep.length > 0 && (
        <Figure
          title="Clusters that were asked about"
          tools={
            <label>
              Show
              <select
                value={measure === 'latency_seconds' ? 'latency' : 'interval'}
                onChange={(event) => choose({ measure: event.currentTarget.value })}
              >
                <option value="interval">interval</option>
                <option value="latency">latency</option>
              </select>
            </label>
          }
          picture={() => <SweepPicture rows={sweep} measure={measure} />}
          table={() => <SweepTable rows={sweep} />}
        />
      )}
      {changes.length > 0 && (
        <Card title="What one change would bring">
          <WhatIfTable rows={changes} />
        </Card>
      )}
    </>
  );
}
