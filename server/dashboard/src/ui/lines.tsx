// Lines over time: uPlot, fetched when the first one is shown.
import { useEffect, useRef } from 'preact/hooks';
import { colour, painted } from '../lib/theme';

const HEIGHT = 220;

export interface Line {
  label: string;
  values: (number | null)[];
  colour: string; // of the style sheet
  dashed?: boolean;
  filled?: boolean;
}

/** Lines over the same points, as steps: each value holds until the next point. */
export function Lines(props: {
  label: string;
  across: string;
  at: number[];
  lines: Line[];
  acrossText: (value: number) => string;
  text: (value: number) => string;
}) {
  const box = useRef<HTMLDivElement>(null);
  const { at, lines, across, acrossText, text } = props;
  const drawn = painted.value;
  useEffect(() => {
    let chart: { destroy: () => void; setSize: (size: { width: number; height: number }) => void } | undefined;
    let wanted = true;
    const element = box.current;
    if (element === null || at.length === 0) return;
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
            { ...axis, values: (_, ticks) => ticks.map(acrossText) },
            { ...axis, size: 80, values: (_, ticks) => ticks.map(text) },
          ],
          series: [
            { label: across },
            ...lines.map((line) => ({
              label: line.label,
              stroke: colour(line.colour),
              fill: line.filled ? `${colour(line.colour)}44` : undefined,
              width: 2,
              dash: line.dashed ? [6, 4] : undefined,
              paths,
              points: { show: !line.dashed && at.length < 40 },
            })),
          ],
        },
        [at, ...lines.map((line) => line.values)],
        element,
      );
      observer.observe(element);
    });
    return () => {
      wanted = false;
      observer.disconnect();
      chart?.destroy();
    };
  }, [at, lines, drawn]);
  return <div ref={box} class="chart" role="img" aria-label={`${props.label}; the table says the same.`} />;
}
