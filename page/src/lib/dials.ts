// The sliders of a model that no template stands behind: one for each number that can be turned.
import type { Dial } from "./lab";
import { type Model, type Quantity, servers, setServers } from "./model";

export interface Turn extends Dial {
  set: (model: Model, value: number) => void;
}

/** The ends of a slider stay while one turns it: a decade down and a decade up. */
const ends = new Map<string, [number, number]>();

function around(key: string, value: number, whole: boolean): [number, number] {
  const known = ends.get(key);
  if (known && value >= known[0] && value <= known[1]) return known;
  const decade = 10 ** Math.floor(Math.log10(value > 0 ? value : 1));
  const found: [number, number] = whole
    ? [1, Math.max(64, decade * 20)]
    : [decade / 10, decade * 100];
  ends.set(key, found);
  return found;
}

function turn(
  id: string,
  key: string,
  label: string,
  unit: string,
  value: number,
  about: string,
  set: Turn["set"],
): Turn {
  const whole = unit === "" && key !== "hit";
  const [least, most] = around(`${id} ${key} ${unit}`, value, whole);
  const step = whole ? 1 : least / 100;
  return { key, label, unit, least, most, step, value, logarithmic: true, about, set };
}

function place(model: Model, name: string, change: (quantity: Quantity) => void, of: string): void {
  const own = model.classes.find((c) => c.name === of);
  const demand = own?.demands[name];
  if (demand) change(demand);
}

/** Every number of a model that a slider turns; `id` keeps the sliders' ends apart by scenario. */
export function turns(id: string, model: Model): Turn[] {
  const all: Turn[] = [];
  const several = model.classes.length > 1;
  for (const own of model.classes) {
    const of = several ? ` of ${own.name}` : "";
    const find = (m: Model) => m.classes.find((c) => c.name === own.name);
    const add = (key: string, label: string, unit: string, value: number, about: string, set: Turn["set"]) =>
      all.push(turn(id, `${own.name} ${key}`, label, unit, value, about, set));
    if ("closed" in own.kind) {
      const { population, think } = own.kind.closed;
      add("clients", several ? own.name : "clients", "", population.value, "How many there are.", (m, value) => {
        const kind = find(m)?.kind;
        if (kind && "closed" in kind) kind.closed.population.value = value;
      });
      if (think.value > 0) {
        add("think", `think time${of}`, think.unit ?? "", think.value, "From an answer to the next request.", (m, value) => {
          const kind = find(m)?.kind;
          if (kind && "closed" in kind) kind.closed.think.value = value;
        });
      }
    } else {
      const { rate } = own.kind.open;
      add("rate", `rate${of}`, rate.unit ?? "1/s", rate.value, "Requests from outside.", (m, value) => {
        const kind = find(m)?.kind;
        if (kind && "open" in kind) kind.open.rate.value = value;
      });
    }
    const cache = own.cache;
    if (cache && !(cache.zipf && cache.zipf > 0)) {
      const hits = Math.min(cache.blocks.value / cache.objects.value, 1);
      all.push({
        ...turn(id, `${own.name} hit`, `cache hits${of}`, "", hits, "Requests that a cache answers.", (m, value) => {
          const turned = find(m)?.cache;
          if (turned) turned.blocks.value = Math.max(1, Math.round(value * turned.objects.value));
        }),
        least: 0,
        most: 1,
        step: 0.01,
        logarithmic: false,
      });
    } else if (cache) {
      add("blocks", `cache blocks${of}`, "", cache.blocks.value, "Blocks that fit.", (m, value) => {
        const turned = find(m)?.cache;
        if (turned) turned.blocks.value = value;
      });
    }
    if (cache?.lease) {
      const { term } = cache.lease;
      const most = Math.max(120, term.value * 4);
      all.push({
        ...turn(id, `${own.name} term`, `lease term${of}`, term.unit ?? "s", term.value, "How long a block may be used without asking.", (m, value) => {
          const lease = find(m)?.cache?.lease;
          if (lease) lease.term.value = value;
        }),
        least: 0,
        most,
        step: most / 240,
        logarithmic: false,
      });
    }
  }
  for (const centre of model.centres) {
    const count = servers(centre.kind);
    const find = (m: Model) => m.centres.find((c) => c.name === centre.name);
    if (typeof centre.kind === "object" && "ethernet" in centre.kind) {
      const { frame } = centre.kind.ethernet;
      all.push(
        turn(id, `${centre.name} frame`, `packet on ${centre.name}`, frame.unit ?? "B", frame.value, "Bytes of a frame.", (m, value) => {
          const kind = find(m)?.kind;
          if (typeof kind === "object" && "ethernet" in kind) kind.ethernet.frame.value = value;
        }),
      );
    } else if (count !== null && typeof centre.kind !== "object" || count !== null && "servers" in (centre.kind as object)) {
      all.push(
        turn(id, `${centre.name} servers`, `servers at ${centre.name}`, "", count, "Cores, disks or links behind one queue.", (m, value) => {
          const found = find(m);
          if (found) setServers(found, value);
        }),
      );
    }
    for (const own of model.classes) {
      const demand = own.demands[centre.name];
      if (!demand || demand.value <= 0) continue;
      const of = several ? `, ${own.name}` : "";
      all.push(
        turn(id, `${own.name} at ${centre.name}`, `${centre.name}${of}`, demand.unit ?? "s", demand.value, "Service that one request needs.", (m, value) =>
          place(m, centre.name, (quantity) => (quantity.value = value), own.name),
        ),
      );
    }
  }
  return all;
}

/** Where a value stands on a slider of a thousand steps. */
export function toSlider(dial: Dial, value: number): number {
  const low = floor(dial);
  const share = dial.logarithmic
    ? Math.log(Math.max(value, low) / low) / Math.log(dial.most / low)
    : (value - dial.least) / (dial.most - dial.least);
  return Math.round(Math.min(Math.max(share, 0), 1) * 1000);
}

export function fromSlider(dial: Dial, position: number): number {
  const low = floor(dial);
  const share = position / 1000;
  if (position <= 0) return dial.least;
  if (position >= 1000) return dial.most;
  const value = dial.logarithmic
    ? low * (dial.most / low) ** share
    : dial.least + share * (dial.most - dial.least);
  return rounded(dial, value);
}

/** A value that the dial allows, with as many digits as one would write. */
export function rounded(dial: Dial, value: number): number {
  const kept = Math.min(Math.max(value, dial.least), dial.most);
  if (dial.step >= 1) return Math.round(kept);
  const digits = kept === 0 ? kept : Number(kept.toPrecision(3));
  const step = dial.logarithmic ? digits : Math.round(kept / dial.step) * dial.step;
  return Math.min(Math.max(Number(step.toPrecision(6)), dial.least), dial.most);
}

function floor(dial: Dial): number {
  return dial.least > 0 ? dial.least : dial.step;
}
