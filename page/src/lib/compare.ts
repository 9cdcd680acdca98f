// Where the answers behind disagree with the answer at once.
import type { Answer } from "./desk.svelte";
import { percent, time } from "./format";
import type { Outcome, Simulated } from "./lab";

const TIMES = [
  ["response", "mean", "mean"],
  ["response_p50", "p50", "median"],
  ["response_p95", "p95", "p95"],
  ["response_p99", "p99", "p99"],
] as const;

/** A difference that a reader should know of. */
const WORTH_TELLING = 0.1;

export function outcome(simulated: Simulated | null, own: string, quantity: string, centre?: string): Outcome | undefined {
  return simulated?.outcomes.find(
    (one) => one.quantity === quantity && one.class === own && one.centre === centre,
  );
}

/** Sentences on what does not agree; empty when all does. */
export function disagreements(answer: Answer): string[] {
  const { view, exact, simulated } = answer;
  if (!view) return [];
  const said: string[] = [];
  const own = view.classes[view.class];
  const better = exact?.classes[view.class];
  if (own && better) {
    const off = own.mean / better.mean - 1;
    if (Math.abs(off) > 0.02) {
      said.push(
        `The exact mean of ${own.name} is ${time(better.mean)}; the approximation at once is ${percent(Math.abs(off))} ${off > 0 ? "above" : "below"}.`,
      );
    }
  }
  if (!simulated || simulated.done < 1) return said;
  if (simulated.shortfall) said.push(`The simulation ended before it was sure: ${simulated.shortfall}.`);
  const best = exact ?? view;
  for (const one of best.classes) {
    for (const [quantity, key, name] of TIMES) {
      const found = outcome(simulated, one.name, quantity);
      if (!found || found.mean === null || !(found.mean > 0)) continue;
      const width = found.half_width ?? 0;
      const off = one[key] - found.mean;
      if (Math.abs(off) > width && Math.abs(off) / found.mean > WORTH_TELLING) {
        said.push(
          `The simulated ${name} of ${one.name} is ${time(found.mean)} ± ${time(width)}; the estimate, ${time(one[key])}, is ${percent(Math.abs(off) / found.mean)} ${off > 0 ? "above" : "below"}.`,
        );
      }
    }
  }
  return said;
}
