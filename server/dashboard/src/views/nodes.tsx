// Every node: where it runs, what it costs, and what its operands are on the devices.
import { query } from '../lib/api';
import { useFetched } from '../lib/fetched';
import { bytes, count, flops, seconds } from '../lib/format';
import { choose, chosen, link } from '../lib/route';
import type { CollectiveRow, NodeRow, Rows, TensorRow } from '../lib/types';
import { Choice, Chosen, Filters, Search } from '../ui/filters';
import { stageOptions, TensorLink } from '../ui/links';
import { Card, Exact, Facts, Shown, StageChip } from '../ui/parts';
import { figure, PagedTable, sortable, Table } from '../ui/table';
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
              figure('bytes', 'Bytes', bytes, (row: { name: string }) => rows.get(row.name)?.bytes),
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
              figure('seconds', 'Seconds', seconds),
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
                ['Time', <Exact name="node.seconds" value={node.seconds} as={seconds} />],
                ['Its collectives', <Exact value={node.collective_seconds} as={seconds} />],
                ['Work', <Exact value={node.flops} as={flops} />],
                ['Traffic', <Exact value={node.bytes} as={bytes} />],
                ['Weights', <Exact value={node.weights_bytes} as={bytes} />],
              ]}
            />
            {node.folded && <p>It depends on constants only: it runs once, when the model is loaded.</p>}
            <Operands id={id} node={node} />
            {node.more_operands !== undefined && <p class="muted">And {count(node.more_operands)} more: the table of tensors has them all.</p>}
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
      <Card title="Nodes" tools={<span class="muted small">Figures are of one device.</span>}>
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
            sortable(figure('seconds', 'Seconds', seconds)),
            figure('collective_seconds', 'Collectives', seconds),
            sortable(figure('flops', 'Work', flops)),
            sortable(figure('bytes', 'Traffic', bytes)),
            figure('weights_bytes', 'Weights', bytes),
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
