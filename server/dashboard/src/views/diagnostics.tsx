// What is to be known about the plan: errors, warnings, notes, each with what it is about.
import { chosen } from '../lib/route';
import type { DiagnosticRow } from '../lib/types';
import { Choice, Filters } from '../ui/filters';
import { NodeLink, TensorLink } from '../ui/links';
import { Card } from '../ui/parts';
import { PagedTable } from '../ui/table';
import type { ViewProps } from './plan';

const BADGES = { error: 'bad', warning: 'warn', note: '' };

export function DiagnosticsView(props: ViewProps) {
  const { id, summary } = props;
  const counts = summary.counts.diagnostics;
  return (
    <Card title="Diagnostics">
      <Filters>
        <Choice
          name="severity"
          label="Severity"
          options={(['error', 'warning', 'note'] as const).map((one) => [one, `${one} (${counts[one]})`])}
        />
      </Filters>
      <PagedTable<DiagnosticRow>
        caption="Diagnostics"
        path={`v1/plans/${id}/diagnostics`}
        parameters={{ severity: chosen('severity') }}
        empty="Nothing was found to be said."
        columns={[
          {
            key: 'severity',
            label: 'Severity',
            cell: (row) => <span class={`badge ${BADGES[row.severity]}`}>{row.severity}</span>,
          },
          { key: 'code', label: 'Code', cell: (row) => <code>{row.code}</code> },
          {
            key: 'message',
            label: 'What',
            cell: (row) => (
              <span class="why">
                {row.message}
                {row.hint !== null && <span class="muted"> {row.hint}</span>}
              </span>
            ),
          },
          { key: 'node', label: 'Node', cell: (row) => <NodeLink id={id} name={row.node} /> },
          { key: 'tensor', label: 'Tensor', cell: (row) => <TensorLink id={id} name={row.tensor} /> },
        ]}
      />
    </Card>
  );
}
