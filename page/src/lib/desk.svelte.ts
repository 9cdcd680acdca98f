// What lies on the desk: one or two scenarios, the question asked of them, and the way back.
import * as lab from "./lab";
import { pack, unpack } from "./link";
import { empty, type Model } from "./model";

export interface Scenario {
  id: string;
  model: Model;
  /** The template and its dials, as long as the model is what they make. */
  made: { key: string; values: Record<string, number> } | null;
  /** Where stations were put by hand. */
  places: Record<string, { x: number; y: number }>;
}

export type Quantile = "mean" | "p50" | "p95" | "p99";

export interface Slo {
  what: Quantile;
  bound: number;
  unit: "us" | "ms" | "s";
}

interface Saved {
  scenarios: Scenario[];
  active: number;
  slo: Slo;
  className: string | null;
}

/** What is known of one scenario. */
export class Answer {
  view = $state.raw<lab.View | null>(null);
  problems = $state.raw<lab.Problems>([]);
  exact = $state.raw<lab.View | null>(null);
  simulated = $state.raw<lab.Simulated | null>(null);
  /** Whether the view is of what is on the desk now. */
  fresh = $state(false);
  working = $state<"" | "exact" | "simulating" | "failed">("");
  readonly behind = new lab.Behind();
}

let count = 0;

export function scenario(model: Model, made: Scenario["made"] = null): Scenario {
  count += 1;
  return { id: `${Date.now().toString(36)}${count}`, model, made, places: {} };
}

/** Services that one simulated answer takes. */
const EFFORT = 2_000_000;

/** How long nothing must change before the work behind begins. */
const PAUSE_MS = 350;

/** Changes of one thing within this time are one step back. */
const TOGETHER_MS = 900;

class Desk {
  scenarios = $state<Scenario[]>([]);
  active = $state(0);
  slo = $state<Slo>({ what: "p95", bound: 10, unit: "ms" });
  className = $state<string | null>(null);
  templates = $state.raw<lab.Template[]>([]);
  /** What is looked at: a station or a class of the active scenario. */
  selected = $state<{ kind: "centre" | "class"; name: string } | null>(null);
  answers = [new Answer(), new Answer()] as const;
  past = $state.raw<string[]>([]);
  future = $state.raw<string[]>([]);
  notice = $state("");
  private last = { key: "", at: 0 };
  private asked = [0, 0];
  private busy = [false, false];
  private timers: (number | undefined)[] = [undefined, undefined];

  get current(): Scenario {
    const found = this.scenarios[this.active];
    if (!found) throw new Error("the desk is empty");
    return found;
  }

  get sloText(): string {
    return `${this.slo.what} < ${this.slo.bound} ${this.slo.unit}`;
  }

  get sloSeconds(): number {
    return this.slo.bound / { us: 1e6, ms: 1e3, s: 1 }[this.slo.unit];
  }

  private save(): string {
    const { scenarios, active, slo, className } = this;
    return JSON.stringify({ scenarios, active, slo, className } satisfies Saved);
  }

  private restore(text: string): void {
    const saved = JSON.parse(text) as Saved;
    this.scenarios = saved.scenarios;
    this.active = Math.min(saved.active, saved.scenarios.length - 1);
    this.slo = saved.slo;
    this.className = saved.className;
    const { selected } = this;
    const names = this.current.model[selected?.kind === "class" ? "classes" : "centres"];
    if (selected && !names.some((one) => one.name === selected.name)) this.selected = null;
    this.changed();
  }

  /** Changes something in a way that can be taken back; changes under one key are one step. */
  change(key: string, how: () => void): void {
    const now = performance.now();
    const together = key !== "" && key === this.last.key && now - this.last.at < TOGETHER_MS;
    const before = this.save();
    how();
    if (this.save() === before) return;
    if (!together) this.past = [...this.past.slice(-199), before];
    this.future = [];
    this.last = { key, at: now };
    this.changed();
  }

  /** Changes the active model by hand: no template stands behind it any more. */
  edit(key: string, how: (model: Model) => void): void {
    this.change(key, () => {
      how(this.current.model);
      this.current.made = null;
    });
  }

  undo(): void {
    const before = this.past.at(-1);
    if (before === undefined) return;
    this.future = [...this.future, this.save()];
    this.past = this.past.slice(0, -1);
    this.last.key = "";
    this.restore(before);
  }

  redo(): void {
    const after = this.future.at(-1);
    if (after === undefined) return;
    this.past = [...this.past, this.save()];
    this.future = this.future.slice(0, -1);
    this.last.key = "";
    this.restore(after);
  }

  /** Puts a model in the place of the active one. */
  open(model: Model, made: Scenario["made"] = null): void {
    this.change("", () => {
      const fresh = scenario(model, made);
      if (this.scenarios.length === 0) this.scenarios.push(fresh);
      else this.scenarios[this.active] = fresh;
      this.className = null;
    });
    this.selected = null;
  }

  async openTemplate(key: string, values: Record<string, number> = {}): Promise<void> {
    this.open(await lab.template(key, values), { key, values });
  }

  /** Turns a dial of the template behind the active model. */
  async turnDial(key: string, value: number): Promise<void> {
    const { made, id } = this.current;
    if (!made) return;
    const values = { ...made.values, [key]: value };
    const model = await lab.template(made.key, values);
    if (this.current.id !== id) return;
    this.change(`${id} ${key}`, () => {
      this.current.model = model;
      this.current.made = { key: made.key, values };
    });
  }

  compare(): void {
    this.change("", () => {
      if (this.scenarios.length > 1) {
        this.scenarios = [this.current];
        this.active = 0;
      } else {
        const copy = JSON.parse(JSON.stringify(this.current)) as Scenario;
        this.scenarios.push({ ...copy, id: scenario(copy.model).id });
        this.active = 1;
      }
    });
  }

  /** Asks anew; a link in the address follows. */
  private changed(): void {
    this.scenarios.forEach((_, index) => this.ask(index));
    for (const index of [0, 1]) {
      if (index >= this.scenarios.length) this.quiet(index);
    }
    clearTimeout(this.linking);
    this.linking = window.setTimeout(() => void this.link(), 400);
  }

  private linking: number | undefined;

  private async link(): Promise<string> {
    const hash = await pack(JSON.parse(this.save()));
    // A page from a file may not be allowed to change its address.
    try {
      history.replaceState(null, "", hash);
    } catch {
      location.hash = hash;
    }
    return location.href;
  }

  share(): Promise<string> {
    return this.link();
  }

  private quiet(index: number): void {
    const answer = this.answers[index];
    clearTimeout(this.timers[index]);
    answer?.behind.stop();
    if (!answer) return;
    answer.exact = null;
    answer.simulated = null;
    answer.working = "";
  }

  private question(index: number): lab.Question {
    const model = this.scenarios[index]?.model ?? empty();
    const found = model.classes.findIndex((own) => own.name === this.className);
    return { text: JSON.stringify(model), slo: this.sloText, class: found < 0 ? null : found };
  }

  /** One question is on its way at a time; only the newest follows it. */
  private ask(index: number): void {
    this.asked[index] = (this.asked[index] ?? 0) + 1;
    this.quiet(index);
    const answer = this.answers[index];
    if (answer) answer.fresh = false;
    if (!this.busy[index]) void this.answerNewest(index);
  }

  private async answerNewest(index: number): Promise<void> {
    const answer = this.answers[index];
    if (!answer) return;
    this.busy[index] = true;
    let number = 0;
    while (number !== this.asked[index]) {
      number = this.asked[index] ?? 0;
      const model = this.scenarios[index]?.model;
      if (!model) break;
      if (model.centres.length === 0 || model.classes.length === 0) {
        answer.view = null;
        answer.problems = [];
        continue;
      }
      try {
        const view = await lab.view(this.question(index));
        if (number === this.asked[index]) {
          answer.view = view;
          answer.problems = [];
        }
      } catch (error) {
        if (number !== this.asked[index]) continue;
        answer.view = null;
        answer.problems = error instanceof lab.Wrong ? error.problems : [["", String(error)]];
      }
    }
    this.busy[index] = false;
    answer.fresh = true;
    if (answer.view && this.scenarios[index]) {
      clearTimeout(this.timers[index]);
      this.timers[index] = window.setTimeout(() => void this.workBehind(index), PAUSE_MS);
    }
  }

  /** Exact where the quick answer was not, then simulated. */
  private async workBehind(index: number): Promise<void> {
    const answer = this.answers[index];
    const view = answer?.view;
    if (!answer || !view) return;
    const number = this.asked[index];
    const current = () => number === this.asked[index];
    const question = this.question(index);
    try {
      if (view.method !== "exact") {
        answer.working = "exact";
        const exact = await answer.behind.exact(question);
        if (!current()) return;
        answer.exact = exact;
      }
      answer.working = "simulating";
      const curve = view.curve.map((point) => point.load);
      const last = curve.length - 1;
      const loads = [...new Set([0.15, 0.3, 0.5, 0.7, 0.85, 1].map((s) => curve[Math.round(s * last)]))];
      const wanted = loads.filter((load) => load !== undefined);
      const asked = { ...question, class: view.class };
      const done = await answer.behind.simulate(asked, wanted, EFFORT, (news) => {
        if (current()) answer.simulated = { ...news, points: news.points ?? [] };
      });
      if (!current()) return;
      answer.simulated = { ...done, done: 1 };
      answer.working = "";
    } catch (error) {
      if (!current()) return;
      answer.working = "failed";
      this.notice = String(error);
    }
  }

  /** What the address holds, or a system to begin with. */
  async begin(): Promise<void> {
    this.templates = await lab.templates();
    try {
      const held = await unpack(location.hash);
      if (held?.model !== undefined) return this.open(await lab.check(held.model));
      if (held?.packed) {
        const saved = held.packed as Saved;
        for (const one of saved.scenarios) {
          if (one.model.centres.length > 0) await lab.check(JSON.stringify(one.model));
        }
        return this.restore(JSON.stringify(saved));
      }
    } catch (error) {
      this.notice = `The link could not be opened: ${error instanceof Error ? error.message : error}`;
    }
    await this.openTemplate("server");
    this.past = [];
  }
}

export const desk = new Desk();
