// Best cost and proven bound over time, as steps: each holds until the next one is found.
import { useEffect, useRef } from 'preact/hooks';
import type { Point } from '../lib/course';
import { seconds } from '../lib/format';
import { colour, painted } from '../lib/theme';
import { Exact } from './parts';
import { Table } from './table';

const HEIGHT = 220;

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
  const box = useRef<HTMLDivElement>(null);
  const { points } = props;
  const drawn = painted.value;
  useEffect(() => {
    let chart: { destroy: () => void; setSize: (size: { width: number; height: number }) => void } | undefined;
    let wanted = true;
    const element = box.current;
    if (element === null || points.length === 0) return;
    const width = () => Math.max(element.clientWidth, 200);
    const observer = new ResizeObserver(() => chart?.setSize({ width: width(), height: HEIGHT }));
    void import('uplot').then(({ default: Plot }) => {
      if (!wanted) return;
      const axis = { stroke: colour('--muted'), grid: { stroke: colour('--line'), width: 1 }, ticks: { stroke: colour('--line') } };
      const paths = Plot.paths.stepped?.({ align: 1 });
      chart = new Plot(
        {
          width: width(),
          height: HEIGHT,
          scales: { x: { time: false } },
          legend: { live: false },
          axes: [
            { ...axis, values: (_, ticks) => ticks.map((tick) => seconds(tick)) },
            { ...axis, size: 80, values: (_, ticks) => ticks.map((tick) => seconds(tick)) },
          ],
          series: [
            { label: 'After' },
            { label: 'Best plan', stroke: colour('--accent'), width: 2, paths, points: { show: points.length < 40 } },
            { label: 'Lower bound', stroke: colour('--good'), width: 2, dash: [6, 4], paths, points: { show: false } },
          ],
        },
        [
          points.map((point) => point.seconds),
          points.map((point) => point.best ?? null),
          points.map((point) => point.bound ?? null),
        ],
        element,
      );
      observer.observe(element);
    });
    return () => {
      wanted = false;
      observer.disconnect();
      chart?.destroy();
    };
  }, [points, drawn]);
  return <div ref={box} class="chart" role="img" aria-label="Best cost and lower bound over time; the table says the same." />;
}
