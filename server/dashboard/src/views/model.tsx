// One model: what it is, and the plans that were made of it.
import { address, query } from '../lib/api';
import { useFetched } from '../lib/fetched';
import { bytes, count, flops, seconds, shape } from '../lib/format';
import { link } from '../lib/route';
import { useTitle } from '../lib/title';
import { needsFetch, save } from '../lib/save';
import type { Inspection, PlanLine, Port } from '../lib/types';
import { Card, Copy, Exact, Facts, Shown, StateBadge } from '../ui/parts';
import { figure, Table } from '../ui/table';

function Ports(props: { title: string; ports: Port[] }) {
  return (
    <Card title={props.title}>
      <Table
        caption={props.title}
        empty="None."
        rows={props.ports}
        rowKey={(port) => port.name}
        columns={[
          { key: 'name', label: 'Name', cell: (port) => <span class="name">{port.name}</span> },
          { key: 'dtype', label: 'Type', cell: (port) => port.dtype ?? '–' },
          { key: 'shape', label: 'Shape', cell: (port) => shape(port.shape) },
        ]}
      />
    </Card>
  );
}

function Operators(props: { model: Inspection }) {
  const rows = Object.entries(props.model.operators ?? {}).map(([name, nodes]) => ({ name, nodes }));
  const unknown = props.model.unknown_operators ?? [];
  return (
    <Card title="Operators">
      <Table
        caption="Operators of the model"
        empty="A graph of costs has none."
        rows={rows}
        first={{ key: 'nodes', descending: true }}
        rowKey={(row) => row.name}
        columns={[
          {
            key: 'name',
            label: 'Operator',
            value: (row) => row.name,
            cell: (row) => (
              <>
                <span class="name">{row.name}</span>{' '}
                {unknown.includes(row.name) && <span class="badge warn">no rule</span>}
              </>
            ),
          },
          figure('nodes', 'Nodes', count),
        ]}
      />
    </Card>
  );
}

function PlansOf(props: { model: string }) {
  const plans = useFetched<{ plans: PlanLine[] }>(query('v1/summary', { model: props.model, page_size: 100 }));
  return (
    <Card title="Plans of it">
      <Shown fetched={plans}>
        {(data) => (
          <Table
            caption="Plans of this model"
            empty="None yet."
            rows={data.plans}
            rowKey={(plan) => plan.id}
            columns={[
              {
                key: 'id',
                label: 'Plan',
                cell: (plan) => <a href={link(['plans', plan.id])}>{plan.id.slice(0, 12)}</a>,
              },
              { key: 'state', label: 'State', cell: (plan) => <StateBadge state={plan.state} /> },
              { key: 'objective', label: 'Objective', cell: (plan) => plan.objective ?? '–' },
              figure('devices_used', 'Devices', count),
              figure('latency_seconds', 'Latency', seconds),
            ]}
          />
        )}
      </Shown>
    </Card>
  );
}

export function ModelPage(props: { id: string }) {
  const content = `v1/models/${props.id}/content`;
  const fetched = useFetched<Inspection>(`v1/models/${props.id}`);
  useTitle(fetched.data?.name || 'Model');
  return (
    <Shown fetched={fetched} what="the model">
      {(model) => (
        <>
          <div class="title">
            <h1>{model.name || 'Model'}</h1>
            <a class="button primary" href={link(['models', model.id, 'plan'])}>
              Plan it
            </a>
            {needsFetch() ? (
              <button type="button" onClick={() => void save(content, `${model.name || 'model'}.onnx`)}>
                Download
              </button>
            ) : (
              <a class="button" href={address(content)} download={`${model.name || 'model'}.onnx`}>
                Download
              </a>
            )}
          </div>
          <Card title="What it is">
            <Facts
              facts={[
                ['Size', <Exact value={model.bytes} as={bytes} />],
                ['Nodes', <Exact value={model.node_count} as={count} />],
                ['Parameters', <Exact value={model.parameters} as={count} />],
                ['Weights', <Exact value={model.parameter_bytes} as={bytes} />],
                ['Work of one request', <Exact value={model.flops} as={flops} />],
                ['IR version', model.ir_version ?? '–'],
                ['Opsets', Object.entries(model.opsets ?? {}).map(([name, version]) => `${name} ${version}`).join(', ') || '–'],
                ['Made by', [model.producer, model.producer_version].filter(Boolean).join(' ') || '–'],
                ['Symbols', model.symbols?.join(', ') || 'none'],
                ['Configurations', model.configurations?.map((one) => one.name).join(', ') || 'none'],
              ]}
            />
            <p class="small muted sha">
              SHA-256 <code>{model.id}</code> <Copy text={model.id} label="Copy" />
            </p>
          </Card>
          <div class="grid">
            <Ports title="Inputs" ports={model.inputs ?? []} />
            <Ports title="Outputs" ports={model.outputs ?? []} />
          </div>
          <div class="grid">
            <PlansOf model={model.id} />
            <Operators model={model} />
          </div>
        </>
      )}
    </Shown>
  );
}
