// The laboratory in workers: one answers at once, one works behind and is thrown away when the
// question changes. Both run the same WebAssembly.
import type { Model } from "./model";
import LabWorker from "./worker?worker&inline";

export interface Times {
  mean: number;
  p50: number;
  p95: number;
  p99: number;
}

export interface CurvePoint extends Times {
  load: number;
  throughput: number;
  response_least: number | null;
  response_most: number | null;
  throughput_most: number;
  throughput_least: number | null;
}

export interface Slope {
  name: string;
  centres: number;
  utilisation: number;
  halved_response: number;
  halved_throughput: number;
  halved_clients: number;
  more_clients: number | null;
}

export interface View {
  verdict: string;
  clients: number;
  method: string;
  notes: string[];
  class: number;
  unit: string;
  load: number;
  bottleneck: string | null;
  classes: ({ name: string; throughput: number } & Times)[];
  centres: { name: string; utilisation: number[] | null; queue: number[] }[];
  curve: CurvePoint[];
  knee: number | null;
  sensitivity: Slope[];
}

export interface Dial {
  key: string;
  label: string;
  unit: string;
  least: number;
  most: number;
  step: number;
  value: number;
  logarithmic: boolean;
  about: string;
}

export interface Template {
  key: string;
  title: string;
  about: string;
  dials: Dial[];
}

export interface Outcome {
  quantity: string;
  class: string;
  centre?: string;
  mean: number | null;
  half_width: number | null;
}

export type Interval = [number, number] | null;

export interface SimulatedPoint {
  load: number;
  mean: Interval;
  p50: Interval;
  p95: Interval;
  p99: Interval;
  throughput: Interval;
}

export interface Simulated {
  done: number;
  outcomes: Outcome[];
  points: SimulatedPoint[];
  clients?: number;
  shortfall?: string | null;
}

export type Problems = [place: string, what: string][];

/** What the laboratory refuses, with the places. */
export class Wrong extends Error {
  constructor(readonly problems: Problems) {
    super(problems.map(([place, what]) => (place ? `${place}: ${what}` : what)).join("\n"));
  }
}

interface Waiting {
  tell?: (news: unknown) => void;
  done: (answer: unknown) => void;
  failed: (error: Error) => void;
}

let program: Promise<WebAssembly.Module> | undefined;

function module(): Promise<WebAssembly.Module> {
  program ??= (async () => {
    const text = document.getElementById("lab")?.textContent ?? "";
    const packed = Uint8Array.from(atob(text.trim()), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return WebAssembly.compile(await new Response(stream).arrayBuffer());
  })();
  return program;
}

/** One worker; questions are answered in turn. */
class Assistant {
  private worker: Worker | undefined;
  private waiting: Waiting[] = [];

  async ask<T>(question: object, tell?: (news: unknown) => void): Promise<T> {
    const compiled = await module();
    if (!this.worker) {
      this.worker = new LabWorker();
      this.worker.onmessage = ({ data }) => this.heard(data as { kind: number; text: string });
      this.worker.onerror = (event) => this.broke(event.message || "the laboratory stopped");
      this.worker.postMessage({ module: compiled });
    }
    const worker = this.worker;
    return new Promise<T>((resolve, reject) => {
      const done = (answer: unknown) => resolve(answer as T);
      this.waiting.push({ tell, done, failed: reject });
      worker.postMessage({ question: JSON.stringify(question) });
    });
  }

  /** Throws away what is being worked on. */
  stop(): void {
    this.worker?.terminate();
    this.worker = undefined;
    this.waiting = [];
  }

  private heard({ kind, text }: { kind: number; text: string }): void {
    if (kind === 2) return this.broke(text);
    const said = JSON.parse(text) as { ok?: unknown; wrong?: Problems };
    if (kind === 0) return this.waiting[0]?.tell?.(said);
    const first = this.waiting.shift();
    if (said.wrong) first?.failed(new Wrong(said.wrong));
    else first?.done(said.ok);
  }

  private broke(why: string): void {
    const waiting = this.waiting;
    this.stop();
    for (const one of waiting) one.failed(new Error(why));
  }
}

const quick = new Assistant();

export function templates(): Promise<Template[]> {
  return quick.ask({ ask: "templates" });
}

export function template(key: string, values: Record<string, number>): Promise<Model> {
  return quick.ask({ ask: "template", key, values });
}

/** The model in a text, or what is wrong with it. */
export function check(text: string): Promise<Model> {
  return quick.ask({ ask: "check", text });
}

export interface Question {
  text: string;
  slo: string;
  class: number | null;
}

export function view(question: Question): Promise<View> {
  return quick.ask({ ask: "view", ...question, thorough: false });
}

/** What works behind one scenario. */
export class Behind {
  private readonly assistant = new Assistant();

  stop(): void {
    this.assistant.stop();
  }

  exact(question: Question): Promise<View> {
    return this.assistant.ask({ ask: "view", ...question, thorough: true });
  }

  simulate(
    question: Question & { class: number },
    loads: number[],
    effort: number,
    tell: (news: Simulated) => void,
  ): Promise<Simulated> {
    const ask = { ask: "simulate", ...question, seed: 1, effort, loads };
    return this.assistant.ask(ask, (news) => tell(news as Simulated));
  }
}
