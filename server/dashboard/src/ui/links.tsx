// Names of nodes, tensors and exchanges, each a link to what is known of it.
import { link } from '../lib/route';
import type { Summary } from '../lib/types';

const MOST_NAME = 511; // characters of the tensor of an edge, and an ellipsis

export function NodeLink(props: { id: string; name: string | null | undefined }) {
  if (!props.name) return <span class="muted">–</span>;
  return (
    <a class="name" href={link(['plans', props.id, 'nodes'], { name: props.name })}>
      {props.name}
    </a>
  );
}

/** Of a name that the daemon has cut, what stands before the ellipsis is searched for. */
export function TensorLink(props: { id: string; name: string | null | undefined }) {
  if (!props.name) return <span class="muted">–</span>;
  const query = props.name.length > MOST_NAME ? { search: props.name.slice(0, MOST_NAME) } : { name: props.name };
  return (
    <a class="name" href={link(['plans', props.id, 'sharding'], query)}>
      {props.name}
    </a>
  );
}

export function stageOptions(summary: Summary): [string, string][] {
  return summary.stages.map((stage) => [String(stage.index), `stage ${stage.index}`]);
}

/** "S[0]R" in words: what cuts each axis, by the names of the mesh of the stage. */
export function explain(text: string, summary: Summary, stage: number | undefined): string {
  const mesh = stage === undefined ? [] : (summary.stages[stage]?.mesh ?? []);
  const axes = [...text.matchAll(/S\[([\d,]+)\]|R/g)].map((match, at) => {
    const cut = match[1];
    if (cut === undefined) return `axis ${at} whole`;
    const names = cut.split(',').map((one) => {
      const axis = mesh[Number(one)];
      return axis === undefined ? `mesh axis ${one}` : `${axis.name} (${axis.size})`;
    });
    return `axis ${at} cut along ${names.join(' and ')}`;
  });
  return axes.some((axis) => axis.includes('cut')) ? axes.join('; ') : 'whole on each of its devices';
}
