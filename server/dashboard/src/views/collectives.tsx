// What devices exchange: totals of each kind, then every exchange of one request.
import { bytes, count, devices, seconds } from '../lib/format';
import { choose, chosen } from '../lib/route';
import type { CollectiveRow, Rows } from '../lib/types';
import { useFetched } from '../lib/fetched';
import { query } from '../lib/api';
import { Choice, Chosen, Filters, Search } from '../ui/filters';
import { NodeLink, stageOptions, TensorLink } from '../ui/links';
import { Bar, Card, Exact, Facts, Shown, StageChip } from '../ui/parts';
import { figure, PagedTable, sortable, Table } from '../ui/table';
import { Download } from './downloads';
import type { ViewProps } from './plan';

function Totals(props: ViewProps) {
  const totals = props.summary.collectives;
  const most = Math.max(...totals.map((one) => one.seconds));
  return (
    <Card title="By kind">
      <Table
        caption="Exchanges by kind"
        empty="The devices exchange nothing."
        rows={totals}
        rowKey={(row) => row.kind}
        columns={[
          {
            key: 'kind',
            label: 'Kind',
            cell: (row) => (
              <button type="button" class="plain link" onClick={() => choose({ kind: row.kind })}>
                {row.kind}
              </button>
            ),
          },
          figure('count', 'Number', count),
          figure('bytes', 'Bytes', bytes),
          figure('seconds', 'Seconds', seconds),
          { key: 'bar', label: '', cell: (row) => <Bar share={row.seconds / most} label={`${seconds(row.seconds)} of ${row.kind}`} kind="collective" /> },
        ]}
      />
    </Card>
  );
}

function Where(props: { row: CollectiveRow }) {
  const { row } = props;
  if (row.from_stage === undefined) return <StageChip stage={row.stage} />;
  return (
    <span class="nowrap">
      <StageChip stage={row.from_stage} /> → <StageChip stage={row.to_stage} />
    </span>
  );
}

function Details(props: { id: string; index: string }) {
  const fetched = useFetched<Rows<CollectiveRow>>(query(`v1/plans/${props.id}/collectives`, { index: props.index }));
  return (
    <Shown fetched={fetched}>
      {({ items: [row] }) =>
        row !== undefined && (
          <Chosen title={`${row.kind} of ${row.tensor ?? 'a node'}`} member="index">
            <Facts
              facts={[
                ['Tensor', <TensorLink id={props.id} name={row.tensor} />],
                ['Stage', <Where row={row} />],
                ['Devices', devices(row.devices)],
                ['Groups of', row.group_size ?? '–'],
                ['Bytes, all devices', <Exact name="collective.bytes" value={row.bytes} as={bytes} />],
                ['Bytes, one device', <Exact value={row.bytes_per_device} as={bytes} />],
                ['Time', <Exact name="collective.seconds" value={row.seconds} as={seconds} />],
                ['After', <NodeLink id={props.id} name={row.after_node} />],
                ['Before', <NodeLink id={props.id} name={row.before_node} />],
              ]}
            />
          </Chosen>
        )
      }
    </Shown>
  );
}

export function CollectivesView(props: ViewProps) {
  const { id, summary } = props;
  const index = chosen('index');
  return (
    <>
      <Totals {...props} />
      {index !== '' && <Details id={id} index={index} />}
      <Card
        title="Every exchange of one request"
        tools={<Download path={`v1/plans/${id}/exports/csv-collectives`} name={`${summary.model.name}.collectives.csv`} label="CSV" />}
      >
        <Filters>
          <Search label="Tensor or node" />
          <Choice name="kind" label="Kind" options={summary.collectives.map((one) => [one.kind, one.kind])} />
          <Choice name="stage" label="Stage" options={stageOptions(summary)} />
        </Filters>
        <PagedTable<CollectiveRow>
          caption="Exchanges"
          path={`v1/plans/${id}/collectives`}
          parameters={{
            search: chosen('search'),
            kind: chosen('kind'),
            stage: chosen('stage'),
            tensor: chosen('tensor'),
            node: chosen('node'),
          }}
          first={{ key: 'seconds', descending: true }}
          isChosen={(row) => String(row.index) === index}
          columns={[
            {
              key: 'kind',
              label: 'Kind',
              cell: (row) => (
                <button type="button" class="plain link" onClick={() => choose({ index: row.index })}>
                  {row.kind}
                </button>
              ),
            },
            { key: 'tensor', label: 'Tensor', cell: (row) => <TensorLink id={id} name={row.tensor} /> },
            { key: 'stage', label: 'Stage', cell: (row) => <Where row={row} /> },
            { key: 'devices', label: 'Devices', cell: (row) => devices(row.devices) },
            sortable(figure('bytes', 'Bytes', bytes)),
            figure('bytes_per_device', 'One device', bytes),
            sortable(figure('seconds', 'Seconds', seconds)),
            { key: 'after', label: 'After', cell: (row) => <NodeLink id={id} name={row.after_node} /> },
          ]}
        />
      </Card>
    </>
  );
}
