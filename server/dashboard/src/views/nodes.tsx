// Every node: where it runs, what it costs, and what its operands are on the devices.
import { query } from '../lib/api';
import { useFetched } from '../lib/fetched';
import { bytes, flops, seconds } from '../lib/format';
import { choose, chosen, link } from '../lib/route';
import type { CollectiveRow, NodeRow, Rows, TensorRow } from '../lib/types';
import { Choice, Chosen, Filters, Search } from '../ui/filters';
import { stageOptions, TensorLink } from '../ui/links';
import { Card, Exact, Facts, Shown, StageChip } from '../ui/parts';
import { PagedTable, Table } from '../ui/table';
import type { ViewProps } from './plan';

/** The operands of a node, each as the node has it. */
function Operands(props: { id: string; node: NodeRow }) {
  const { id, node } = props;
  const fetched = useFetched<Rows<TensorRow>>(query(`v1/plans/${id}/tensors`, { node: node.name, page_size: 500 }));
  return (
    <Shown fetched={fetched}>
      {(data) => {
        const rows = new Map(data.items.map((row) => [row.name, row]));
        // A node may take a tensor in another layout than it was made in.
        const spec = (name: string) => {
          const row = rows.get(name);
          return row?.uses?.find((use) => use.nodes.includes(node.name))?.spec.text ?? row?.spec.text;
        };
        const operands = [
          ...node.inputs.map((name) => ({ role: 'takes', name })),
          ...node.outputs.map((name) => ({ role: 'makes', name })),
        ];
        return (
          <Table
            caption={`Operands of ${node.name}`}
            rows={operands}
            rowKey={(row) => `${row.role} ${row.name}`}
            columns={[
              { key: 'role', label: '', cell: (row) => row.role },
              { key: 'name', label: 'Tensor', cell: (row) => <TensorLink id={id} name={row.name} /> },
              { key: 'spec', label: 'Sharding', cell: (row) => <code>{spec(row.name) || 'whole'}</code> },
              { key: 'bytes', label: 'Bytes', numeric: true, cell: (row) => <Exact value={rows.get(row.name)?.bytes} text={bytes(rows.get(row.name)?.bytes)} /> },
            ]}
          />
        );
      }}
    </Shown>
  );
}

function Exchanges(props: { id: string; node: string }) {
  const fetched = useFetched<Rows<CollectiveRow>>(query(`v1/plans/${props.id}/collectives`, { node: props.node, page_size: 100 }));
  return (
    <Shown fetched={fetched}>
      {(data) =>
        data.items.length > 0 && (
          <Table
            caption={`Exchanges around ${props.node}`}
            rows={data.items}
            rowKey={(row) => row.index}
            columns={[
              { key: 'when', label: '', cell: (row) => (row.before_node === props.node ? 'before' : 'after') },
              { key: 'kind', label: 'Exchange', cell: (row) => <a href={link(['plans', props.id, 'collectives'], { index: row.index })}>{row.kind}</a> },
              { key: 'tensor', label: 'Tensor', cell: (row) => <TensorLink id={props.id} name={row.tensor} /> },
              { key: 'seconds', label: 'Seconds', numeric: true, cell: (row) => <Exact value={row.seconds} text={seconds(row.seconds)} /> },
            ]}
          />
        )
      }
    </Shown>
  );
}

export function NodeDetails(props: { id: string; name: string; member: string }) {
  const { id, name } = props;
  const fetched = useFetched<Rows<NodeRow>>(query(`v1/plans/${id}/nodes`, { name }));
  return (
    <Shown fetched={fetched}>
      {({ items: [node] }) =>
        node === undefined ? (
          <p class="muted">The plan has no node of this name.</p>
        ) : (
          <Chosen title={node.name} member={props.member}>
            <Facts
              facts={[
                ['Operator', node.operator ?? '–'],
                ['Stage', <StageChip stage={node.stage} />],
                ['Time on one device', <Exact name="node.seconds" value={node.seconds} text={seconds(node.seconds)} />],
                ['Its collectives', <Exact value={node.collective_seconds} text={seconds(node.collective_seconds)} />],
                ['Work', <Exact value={node.flops} text={flops(node.flops)} />],
                ['Traffic', <Exact value={node.bytes} text={bytes(node.bytes)} />],
                ['Weights', <Exact value={node.weights_bytes} text={bytes(node.weights_bytes)} />],
              ]}
            />
            {node.folded && <p>It depends on constants only: it runs once, when the model is loaded.</p>}
            <Operands id={id} node={node} />
            <Exchanges id={id} node={node.name} />
          </Chosen>
        )
      }
    </Shown>
  );
}

export function NodesView(props: ViewProps) {
  const { id, summary } = props;
  const name = chosen('name');
  return (
    <>
      {name !== '' && <NodeDetails id={id} name={name} member="name" />}
      <Card title="Nodes">
        <Filters>
          <Search label="Name" />
          <Choice name="stage" label="Stage" options={stageOptions(summary)} />
        </Filters>
        <PagedTable<NodeRow>
          caption="Nodes"
          path={`v1/plans/${id}/nodes`}
          parameters={{ search: chosen('search'), stage: chosen('stage'), operator: chosen('operator'), path: chosen('path') }}
          isChosen={(row) => row.name === name}
          columns={[
            {
              key: 'name',
              label: 'Node',
              sortable: true,
              cell: (row) => (
                <button type="button" class="plain link name" onClick={() => choose({ name: row.name })}>
                  {row.name}
                </button>
              ),
            },
            {
              key: 'operator',
              label: 'Operator',
              cell: (row) => (
                <button type="button" class="plain" title="Only these" onClick={() => choose({ operator: row.operator })}>
                  {row.operator ?? '–'}
                </button>
              ),
            },
            { key: 'stage', label: 'Stage', cell: (row) => (row.folded ? <span class="muted">at load</span> : <StageChip stage={row.stage} />) },
            { key: 'seconds', label: 'Seconds', numeric: true, sortable: true, cell: (row) => <Exact value={row.seconds} text={seconds(row.seconds)} /> },
            { key: 'collective', label: 'Collectives', numeric: true, cell: (row) => <Exact value={row.collective_seconds} text={seconds(row.collective_seconds)} /> },
            { key: 'flops', label: 'Work', numeric: true, sortable: true, cell: (row) => <Exact value={row.flops} text={flops(row.flops)} /> },
            { key: 'bytes', label: 'Traffic', numeric: true, sortable: true, cell: (row) => <Exact value={row.bytes} text={bytes(row.bytes)} /> },
            { key: 'weights', label: 'Weights', numeric: true, cell: (row) => <Exact value={row.weights_bytes} text={bytes(row.weights_bytes)} /> },
          ]}
        />
        {chosen('operator') !== '' && (
          <p>
            <button type="button" onClick={() => choose({ operator: undefined })}>
              All operators, not only {chosen('operator')}
            </button>
          </p>
        )}
      </Card>
    </>
  );
}
