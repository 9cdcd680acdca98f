// Where stations lie: layers from the customers on, by dagre.
import dagre from "@dagrejs/dagre";
import { type Model, way } from "./model";

export const STATION = { width: 158, height: 78 };
export const CUSTOMERS = { width: 144, height: 66 };

export interface Link {
  id: string;
  from: string;
  to: string;
  /** The position of the class whose way this is. */
  class: number;
}

/** Ids of nodes: classes and centres may share names. */
export const classId = (name: string) => `class ${name}`;
export const centreId = (name: string) => `centre ${name}`;

export function links(model: Model): Link[] {
  const all: Link[] = [];
  model.classes.forEach((own, index) => {
    let before = [classId(own.name)];
    for (const step of way(model, own)) {
      const here = step.map(centreId);
      for (const from of before) {
        for (const to of here) {
          const id = `${index} ${from} ${to}`;
          if (!all.some((link) => link.id === id)) all.push({ id, from, to, class: index });
        }
      }
      before = here;
    }
  });
  return all;
}

/** The middle of each node, left to right or top to bottom. */
export function layout(model: Model, down: boolean): Map<string, { x: number; y: number }> {
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: down ? "TB" : "LR", nodesep: 22, ranksep: down ? 30 : 40 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const own of model.classes) graph.setNode(classId(own.name), { ...CUSTOMERS });
  for (const centre of model.centres) graph.setNode(centreId(centre.name), { ...STATION });
  for (const link of links(model)) graph.setEdge(link.from, link.to, {}, link.id);
  dagre.layout(graph);
  const spot = (id: string) => graph.node(id) as { x: number; y: number };
  const spots = new Map(graph.nodes().map((id: string) => [id, spot(id)]));
  // The parts of a fork lie in the order of their names in the file.
  const along = down ? "x" : "y";
  for (const step of model.classes.flatMap((own) => way(model, own))) {
    const free = step.flatMap((name) => spots.get(centreId(name)) ?? []);
    free.sort((a, b) => a[along] - b[along]);
    step.forEach((name, index) => spots.set(centreId(name), free[index] ?? { x: 0, y: 0 }));
  }
  return spots;
}
