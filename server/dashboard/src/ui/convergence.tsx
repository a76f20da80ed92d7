// Best cost and proven bound over time.
import { useMemo } from 'preact/hooks';
import type { Point } from '../lib/course';
import { seconds } from '../lib/format';
import { Lines } from './lines';
import { Exact } from './parts';
import { Table } from './table';

export function ConvergenceTable(props: { points: Point[] }) {
  return (
    <Table
      caption="Best cost and lower bound over time"
      rows={props.points}
      rowKey={(point) => point.seconds}
      columns={[
        { key: 'seconds', label: 'After', numeric: true, cell: (point) => seconds(point.seconds) },
        { key: 'best', label: 'Best', numeric: true, cell: (point) => <Exact value={point.best} text={seconds(point.best)} /> },
        { key: 'bound', label: 'Lower bound', numeric: true, cell: (point) => <Exact value={point.bound} text={seconds(point.bound)} /> },
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
