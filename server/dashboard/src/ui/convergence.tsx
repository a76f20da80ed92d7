// Best cost and proven bound over time.
import { useMemo } from 'preact/hooks';
import type { Point } from '../lib/course';
import { seconds } from '../lib/format';
import { Lines } from './lines';
import { figure, Table } from './table';

export function ConvergenceTable(props: { points: Point[] }) {
  return (
    <Table
      caption="Best cost and lower bound over time"
      rows={props.points}
      rowKey={(point) => point.seconds}
      columns={[
        { key: 'seconds', label: 'After', numeric: true, cell: (point) => seconds(point.seconds) },
        figure('best', 'Best', seconds),
        figure('bound', 'Lower bound', seconds),
      ]}
    />
  );
}

export function Convergence(props: { points: Point[] }) {
  const { points } = props;
  const at = useMemo(() => points.map((point) => point.seconds), [points]);
  const lines = useMemo(
    () => [
      { label: 'Best plan', colour: '--accent', values: points.map((point) => point.best ?? null) },
      { label: 'Lower bound', colour: '--good', dashed: true, values: points.map((point) => point.bound ?? null) },
    ],
    [points],
  );
  return <Lines label="Best cost and lower bound over time" across="After" at={at} lines={lines} acrossText={seconds} text={seconds} />;
}
