// Points of two figures, those that nothing beats joined by a line. As SVG: points are links, told to readers of screens.
import { useState } from 'preact/hooks';

export interface Dot {
  key: string;
  x: number;
  y: number;
  label: string; // all of what is known of it
  group: number; // colour
  isBest: boolean; // on the front
  isChosen: boolean;
}

const WIDTH = 720;
const HEIGHT = 320;
const LEFT = 78;
const RIGHT = 36;
const TOP = 14;
const BOTTOM = 46;

/** Round numbers from 0 to at least `most`, about `wanted` of them. */
export function ticks(most: number, wanted = 5): number[] {
  if (!(most > 0)) return [0, 1];
  const raw = most / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= raw) ?? raw;
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, at) => at * step);
}

export function Scatter(props: {
  title: string;
  dots: Dot[];
  xLabel: string;
  yLabel: string;
  xText: (value: number) => string;
  yText: (value: number) => string;
}) {
  const [shown, setShown] = useState<string>();
  const xs = ticks(Math.max(...props.dots.map((dot) => dot.x)));
  const ys = ticks(Math.max(...props.dots.map((dot) => dot.y)));
  const x = (value: number) => LEFT + ((WIDTH - LEFT - RIGHT) * value) / (xs[xs.length - 1] ?? 1);
  const y = (value: number) => HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * value) / (ys[ys.length - 1] ?? 1);
  const front = props.dots.filter((dot) => dot.isBest).sort((a, b) => a.x - b.x || a.y - b.y);
  return (
    <div class="scroll">
      <svg class="scatter" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="group" aria-label={props.title}>
        {xs.map((value) => (
          <g key={`x${value}`}>
            <line class="rule" x1={x(value)} x2={x(value)} y1={TOP} y2={HEIGHT - BOTTOM} />
            <text x={x(value)} y={HEIGHT - BOTTOM + 18} text-anchor="middle">
              {props.xText(value)}
            </text>
          </g>
        ))}
        {ys.map((value) => (
          <g key={`y${value}`}>
            <line class="rule" x1={LEFT} x2={WIDTH - RIGHT} y1={y(value)} y2={y(value)} />
            <text x={LEFT - 8} y={y(value) + 4} text-anchor="end">
              {props.yText(value)}
            </text>
          </g>
        ))}
        <text x={(LEFT + WIDTH - RIGHT) / 2} y={HEIGHT - 8} text-anchor="middle" class="axis">
          {props.xLabel}
        </text>
        <text x={-(TOP + HEIGHT - BOTTOM) / 2} y={14} text-anchor="middle" class="axis" transform="rotate(-90)">
          {props.yLabel}
        </text>
        <polyline class="front" points={front.map((dot) => `${x(dot.x)},${y(dot.y)}`).join(' ')} />
        {props.dots.map((dot) => (
          <g
            key={dot.key}
            class={`dot stage-${dot.group % 10} ${dot.isBest ? 'best' : ''}`}
            tabindex={0} // SVG knows it in small letters only
            role="img"
            aria-label={dot.label}
            onFocus={() => setShown(dot.label)}
            onMouseEnter={() => setShown(dot.label)}
          >
            <title>{dot.label}</title>
            <circle cx={x(dot.x)} cy={y(dot.y)} r={dot.isBest ? 7 : 5} />
            {dot.isChosen && <circle class="ring" cx={x(dot.x)} cy={y(dot.y)} r={11} />}
          </g>
        ))}
      </svg>
      <p class="muted small" aria-hidden="true">
        {shown ?? 'Point at a plan to read its figures; the ringed one is chosen.'}
      </p>
    </div>
  );
}
