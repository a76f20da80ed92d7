// How each tensor is cut, and why.
import { query } from '../lib/api';
import { useFetched } from '../lib/fetched';
import { bytes, shape } from '../lib/format';
import { choose, chosen, link } from '../lib/route';
import type { NodeRow, Rows, Summary, TensorRow } from '../lib/types';
import { Choice, Chosen, Filters, Search } from '../ui/filters';
import { explain, NodeLink, stageOptions } from '../ui/links';
import { Card, Exact, Facts, Shown, StageChip } from '../ui/parts';
import { figure, PagedTable, sortable, Table } from '../ui/table';
import type { ViewProps } from './plan';

/** The nodes that make and take a tensor. */
function Nodes(props: { id: string; tensor: string }) {
  const fetched = useFetched<Rows<NodeRow>>(
    query(`v1/plans/${props.id}/nodes`, { tensor: props.tensor, page_size: 100 }),
  );
  return (
    <Shown fetched={fetched}>
      {(data) => (
        <Table
          caption={`Nodes that make or take ${props.tensor}`}
          rows={data.items}
          rowKey={(row) => row.index}
          columns={[
            { key: 'role', label: '', cell: (row) => (row.outputs.includes(props.tensor) ? 'made by' : 'taken by') },
            { key: 'name', label: 'Node', cell: (row) => <NodeLink id={props.id} name={row.name} /> },
            { key: 'operator', label: 'Operator', cell: (row) => row.operator ?? '–' },
            { key: 'stage', label: 'Stage', cell: (row) => <StageChip stage={row.stage} /> },
          ]}
        />
      )}
    </Shown>
  );
}

/** The stage that a spec is of: that of its first device. */
function stageOf(summary: Summary, row: TensorRow): number | undefined {
  const first = (row.spec.onnx['device'] as number[] | undefined)?.[0];
  return first === undefined ? undefined : (summary.devices.find((device) => device.id === first)?.stage ?? undefined);
}

function Details(props: ViewProps & { name: string }) {
  const { id, summary, name } = props;
  const fetched = useFetched<Rows<TensorRow>>(query(`v1/plans/${id}/tensors`, { name }));
  return (
    <Shown fetched={fetched}>
      {({ items: [row] }) =>
        row === undefined ? (
          <p class="muted">The plan has no tensor of this name.</p>
        ) : (
          <Chosen title={row.name} member="name">
            <Facts
              facts={[
                ['Kind', row.kind],
                ['Type', row.dtype ?? '–'],
                ['Shape', shape(row.shape)],
                ['Bytes', <Exact name="tensor.bytes" value={row.bytes} as={bytes} />],
                ['On one device', <Exact value={row.bytes_per_device ?? row.bytes} as={bytes} />],
                ['Exchanges', <a href={link(['plans', id, 'collectives'], { tensor: row.name })}>of this tensor</a>],
              ]}
            />
            <p class="sentence">
              <code>{row.spec.text || 'whole'}</code>: {explain(row.spec.text, summary, stageOf(summary, row))}. {row.because}.
            </p>
            {row.uses !== undefined && (
              <Table
                caption="Other places of the tensor"
                rows={row.uses}
                rowKey={(use) => `${use.stage} ${use.node}`}
                columns={[
                  { key: 'stage', label: 'Used in stage', cell: (use) => <StageChip stage={use.stage} /> },
                  { key: 'spec', label: 'As', cell: (use) => <code title={explain(use.spec.text, summary, use.stage)}>{use.spec.text}</code> },
                  { key: 'node', label: 'By', cell: (use) => <NodeLink id={id} name={use.node} /> },
                  { key: 'nodes', label: '', cell: (use) => (use.nodes.length > 1 ? `and ${use.nodes.length - 1} more` : '') },
                ]}
              />
            )}
            <Nodes id={id} tensor={row.name} />
            <details>
              <summary>As ONNX has it</summary>
              <pre>{JSON.stringify(row.spec.onnx, null, 2)}</pre>
            </details>
          </Chosen>
        )
      }
    </Shown>
  );
}

export function ShardingView(props: ViewProps) {
  const { id, summary } = props;
  const name = chosen('name');
  return (
    <>
      {name !== '' && <Details {...props} name={name} />}
      <Card title="Tensors">
        <Filters>
          <Search label="Name" />
          <Choice name="kind" label="Kind" options={['activation', 'input', 'weight'].map((one) => [one, one])} />
          <Choice name="stage" label="Stage" options={stageOptions(summary)} />
          <Choice name="split" label="Split" options={[['true', 'split'], ['false', 'whole']]} />
        </Filters>
        <PagedTable<TensorRow>
          caption="Tensors and their shardings"
          path={`v1/plans/${id}/tensors`}
          parameters={{ search: chosen('search'), kind: chosen('kind'), stage: chosen('stage'), split: chosen('split') }}
          isChosen={(row) => row.name === name}
          columns={[
            {
              key: 'name',
              label: 'Tensor',
              sortable: true,
              cell: (row) => (
                <button type="button" class="plain link name" onClick={() => choose({ name: row.name })}>
                  {row.name}
                </button>
              ),
            },
            { key: 'kind', label: 'Kind', cell: (row) => row.kind },
            { key: 'shape', label: 'Shape', cell: (row) => <span class="nowrap">{row.dtype} {shape(row.shape)}</span> },
            { key: 'spec', label: 'Sharding', cell: (row) => <code>{row.spec.text || 'whole'}</code> },
            sortable(figure('bytes', 'Bytes', bytes)),
            sortable(figure('bytes_per_device', 'One device', bytes, (row) => row.bytes_per_device ?? row.bytes)),
            { key: 'because', label: 'Why', cell: (row) => <span class="why">{row.because}</span> },
          ]}
        />
      </Card>
    </>
  );
}
