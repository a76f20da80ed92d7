// Where boxes and edges lie. dagre is fetched with the first graph that is shown.
import type { Graph } from '../lib/types';

export interface Placed {
  width: number;
  height: number;
  boxes: { x: number; y: number }[]; // of the upper left corner
  edges: { points: { x: number; y: number }[] }[];
}

export const BOX_WIDTH = 190;
export const BOX_HEIGHT = 54;
const MARGIN = 16;

export async function layout(graph: Graph): Promise<Placed> {
  const { Graph: Drawing, layout: place } = await import('@dagrejs/dagre');
  const drawn = new Drawing({ multigraph: false });
  drawn.setGraph({ rankdir: 'TB', nodesep: 26, ranksep: 44, marginx: MARGIN, marginy: MARGIN });
  drawn.setDefaultEdgeLabel(() => ({}));
  for (const box of graph.boxes) drawn.setNode(String(box.id), { width: BOX_WIDTH, height: BOX_HEIGHT });
  // Heavy edges are kept short and straight; what goes from a box to itself is within it.
  const most = Math.max(1, ...graph.edges.map((edge) => edge.bytes));
  for (const edge of graph.edges) {
    if (edge.from !== edge.to) drawn.setEdge(String(edge.from), String(edge.to), { weight: 1 + Math.round((4 * edge.bytes) / most) });
  }
  place(drawn);
  const size = drawn.graph();
  return {
    width: size.width ?? 0,
    height: size.height ?? 0,
    boxes: graph.boxes.map((box) => {
      const at = drawn.node(String(box.id));
      return { x: (at.x ?? 0) - BOX_WIDTH / 2, y: (at.y ?? 0) - BOX_HEIGHT / 2 };
    }),
    edges: graph.edges.map((edge) => ({
      points: edge.from === edge.to ? [] : (drawn.edge(String(edge.from), String(edge.to)).points ?? []),
    })),
  };
}
