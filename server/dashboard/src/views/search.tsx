// How the plan was found, and what else was found.
import { courses } from '../lib/course';
import { bytes, count, seconds } from '../lib/format';
import { Convergence, ConvergenceTable } from '../ui/convergence';
import { Card, Exact, Facts, Figure } from '../ui/parts';
import { Table } from '../ui/table';
import type { ViewProps } from './plan';

export function SearchView(props: ViewProps) {
  const { search } = props.summary;
  const points = courses.value[props.id] ?? [];
  return (
    <>
      <Card title="Search">
        <Facts
          facts={[
            ['Strategy', search.strategy],
            ['Time', <Exact name="search.seconds" value={search.seconds} text={seconds(search.seconds)} />],
            ['Explored', <Exact name="search.explored" value={search.explored} text={count(search.explored)} />],
            ['Accepted', <Exact name="search.accepted" value={search.accepted} text={count(search.accepted)} />],
            ['Candidates', <Exact name="search.candidates" value={search.candidates} text={count(search.candidates)} />],
            ['Subgraphs', <Exact name="search.subgraphs" value={search.subgraphs} text={count(search.subgraphs)} />],
            ['Seed', search.seed],
          ]}
        />
      </Card>
      {points.some((point) => point.best !== undefined) && (
        <Figure
          title="Best plan and bound over time"
          note="As this page was told while it looked on."
          picture={() => <Convergence points={points} />}
          table={() => <ConvergenceTable points={points} />}
        />
      )}
      <Card title="Plans that nothing beats in everything">
        <Table
          caption="Alternatives"
          rows={search.alternatives}
          rowKey={(plan) => plan.description}
          isChosen={(plan) => plan.chosen}
          columns={[
            {
              key: 'description',
              label: 'Plan',
              cell: (plan) => (
                <>
                  {plan.description} {plan.chosen && <span class="badge good">this one</span>}
                </>
              ),
            },
            { key: 'stages', label: 'Stages', numeric: true, value: (plan) => plan.stages, cell: (plan) => count(plan.stages) },
            { key: 'devices', label: 'Devices', numeric: true, value: (plan) => plan.devices, cell: (plan) => count(plan.devices) },
            { key: 'latency', label: 'Latency', numeric: true, value: (plan) => plan.latency_seconds, cell: (plan) => <Exact value={plan.latency_seconds} text={seconds(plan.latency_seconds)} /> },
            { key: 'interval', label: 'Interval', numeric: true, value: (plan) => plan.interval_seconds, cell: (plan) => <Exact value={plan.interval_seconds} text={seconds(plan.interval_seconds)} /> },
            { key: 'memory', label: 'Fullest device', numeric: true, value: (plan) => plan.memory_bytes, cell: (plan) => <Exact value={plan.memory_bytes} text={bytes(plan.memory_bytes)} /> },
          ]}
        />
      </Card>
    </>
  );
}
