// The model file, format leasehold-model-1, as far as the page edits it. What it does not know
// stays as it is.

export type Origin = "measured" | "assumed" | "seed";
export type Unit = "" | "us" | "ms" | "s" | "min" | "h" | "1/s" | "B" | "KiB" | "Mbit/s";

export interface Quantity {
  value: number;
  unit?: Unit;
  from: Origin;
  where?: string;
}

export type Law =
  | "exponential"
  | "constant"
  | "uniform"
  | { erlang: { stages: number } }
  | { hyperexponential: { scv: number } }
  | { lognormal: { scv: number } }
  | { pareto: { tail: number } };

export interface Demand extends Quantity {
  law?: Law;
}

export type Kind =
  | "delay"
  | "queue"
  | { servers: { count: Quantity } }
  | { "load-dependent": { rates: number[]; from: Origin; where?: string } }
  | { ethernet: { frame: Quantity; bandwidth: Quantity; slot: Quantity } };

export interface Centre {
  name: string;
  kind: Kind;
  discipline?: "fcfs" | "processor-sharing" | "priority" | "preemptive-priority";
  capacity?: Quantity;
  loss?: Quantity;
  crashes?: { up: Quantity; down: Quantity };
}

export type Step = string | { fork: string[] };

export interface Cache {
  scope: "client" | "server";
  blocks: Quantity;
  objects: Quantity;
  zipf?: number;
  writes?: number;
  skips: string[];
  lease?: { term: Quantity; renewal: string[] };
}

export interface Class {
  name: string;
  kind:
    | { closed: { population: Quantity; think: Demand } }
    | { open: { rate: Quantity; arrivals?: unknown } };
  demands: Record<string, Demand>;
  route?: Step[];
  priority?: number;
  timeout?: unknown;
  try_again?: Quantity;
  cache?: Cache;
}

export interface Model {
  format: "leasehold-model-1";
  title: string;
  centres: Centre[];
  classes: Class[];
}

export function empty(): Model {
  return { format: "leasehold-model-1", title: "A new system", centres: [], classes: [] };
}

export function assumed(value: number, unit: Unit = ""): Quantity {
  return unit === "" ? { value, from: "assumed" } : { value, unit, from: "assumed" };
}

/** How many servers a centre has; none for a delay. */
export function servers(kind: Kind): number | null {
  if (kind === "delay") return null;
  if (typeof kind === "object" && "servers" in kind) return kind.servers.count.value;
  return 1;
}

export function kindName(kind: Kind): "delay" | "queue" | "servers" | "ethernet" | "load-dependent" {
  if (typeof kind === "string") return kind;
  return Object.keys(kind)[0] as "servers" | "ethernet" | "load-dependent";
}

/** The way of a class: its route, or the centres that it needs in the file's order. */
export function way(model: Model, own: Class): string[][] {
  if (own.route && own.route.length > 0) {
    return own.route.map((step) => (typeof step === "string" ? [step] : step.fork));
  }
  return model.centres.filter((c) => (own.demands[c.name]?.value ?? 0) > 0).map((c) => [c.name]);
}

/** A name that nobody has yet. */
export function freshName(stem: string, taken: string[]): string {
  if (!taken.includes(stem)) return stem;
  let number = 2;
  while (taken.includes(`${stem} ${number}`)) number += 1;
  return `${stem} ${number}`;
}

export function addCentre(model: Model, kind: Kind, stem: string): string {
  const name = freshName(stem, model.centres.map((c) => c.name));
  model.centres.push({ name, kind });
  return name;
}

export function addClass(model: Model, open: boolean): string {
  const name = freshName(open ? "requests" : "clients", model.classes.map((c) => c.name));
  const kind: Class["kind"] = open
    ? { open: { rate: assumed(10, "1/s") } }
    : { closed: { population: assumed(10), think: assumed(100, "ms") } };
  model.classes.push({ name, kind, demands: {} });
  return name;
}

/** Lets a class visit a centre, after another if one is named. */
export function visit(model: Model, className: string, centre: string, after?: string): void {
  const own = model.classes.find((c) => c.name === className);
  if (!own) return;
  own.demands[centre] ??= assumed(1, "ms");
  const steps: Step[] = own.route?.length ? own.route : way(model, own).flat();
  const has = (step: Step, name: string) =>
    typeof step === "string" ? step === name : step.fork.includes(name);
  const rest = steps.filter((step) => step !== centre);
  if (rest.some((step) => has(step, centre))) return;
  const at = after === undefined ? -1 : rest.findIndex((step) => has(step, after));
  if (after === undefined) rest.unshift(centre);
  else rest.splice(at < 0 ? rest.length : at + 1, 0, centre);
  setRoute(model, own, rest);
}

/** Keeps a route only where the file's order does not say the same. */
function setRoute(model: Model, own: Class, route: Step[]): void {
  const plain = model.centres.filter((c) => own.demands[c.name]).map((c) => c.name);
  const same = route.length === plain.length && route.every((step, index) => step === plain[index]);
  if (same) delete own.route;
  else own.route = route;
}

/** Takes a visit back. */
export function leave(model: Model, className: string, centre: string): void {
  const own = model.classes.find((c) => c.name === className);
  if (!own) return;
  delete own.demands[centre];
  if (own.route) {
    const route = own.route
      .map((step) =>
        typeof step === "string" ? step : { fork: step.fork.filter((name) => name !== centre) },
      )
      .filter((step) => (typeof step === "string" ? step !== centre : step.fork.length > 0));
    if (route.length === 0) delete own.route;
    else own.route = route;
  }
  if (own.cache) {
    own.cache.skips = own.cache.skips.filter((name) => name !== centre);
    if (own.cache.lease) {
      own.cache.lease.renewal = own.cache.lease.renewal.filter((name) => name !== centre);
    }
  }
}

export function removeCentre(model: Model, centre: string): void {
  for (const own of model.classes) leave(model, own.name, centre);
  model.centres = model.centres.filter((c) => c.name !== centre);
}

export function removeClass(model: Model, name: string): void {
  model.classes = model.classes.filter((c) => c.name !== name);
}

export function renameCentre(model: Model, from: string, to: string): void {
  const renamed = (name: string) => (name === from ? to : name);
  for (const centre of model.centres) centre.name = renamed(centre.name);
  for (const own of model.classes) {
    own.demands = Object.fromEntries(Object.entries(own.demands).map(([n, d]) => [renamed(n), d]));
    own.route = own.route?.map((step) =>
      typeof step === "string" ? renamed(step) : { fork: step.fork.map(renamed) },
    );
    if (!own.route) delete own.route;
    if (own.cache) {
      own.cache.skips = own.cache.skips.map(renamed);
      if (own.cache.lease) own.cache.lease.renewal = own.cache.lease.renewal.map(renamed);
    }
  }
}

/** Sets how many servers a centre has. */
export function setServers(centre: Centre, count: number): void {
  centre.kind = count === 1 ? "queue" : { servers: { count: assumed(count) } };
}
