// How the plan was found, and what else was found.
import { courses } from '../lib/course';
import { bytes, count, seconds } from '../lib/format';
import { Convergence, ConvergenceTable } from '../ui/convergence';
import { Card, Exact, Facts, Figure } from '../ui/parts';
import { figure, Table } from '../ui/table';
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
            ['Time', <Exact name="search.seconds" value={search.seconds} as={seconds} />],
            ['Explored', <Exact name="search.explored" value={search.explored} as={count} />],
            ['Accepted', <Exact name="search.accepted" value={search.accepted} as={count} />],
            ['Candidates', <Exact name="search.candidates" value={search.candidates} as={count} />],
            ['Subgraphs', <Exact name="search.subgraphs" value={search.subgraphs} as={count} />],
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
            figure('stages', 'Stages', count),
            figure('devices', 'Devices', count),
            figure('latency_seconds', 'Latency', seconds),
            figure('interval_seconds', 'Interval', seconds),
            figure('memory_bytes', 'Fullest device', bytes),
          ]}
        />
      </Card>
    </>
  );
}
