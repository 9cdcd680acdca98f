// Numbers as people read them.

/** Three digits that tell something. */
export function number(value: number): string {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1e6) return value.toExponential(2);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  if (size >= 100) return value.toFixed(0);
  if (size >= 10) return trim(value.toFixed(1));
  if (size >= 0.001) return trim(value.toPrecision(3));
  return value.toExponential(1);
}

function trim(text: string): string {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** Seconds with the unit that suits their size. */
export function time(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  if (seconds === 0) return "0";
  if (seconds >= 1) return `${number(seconds)} s`;
  if (seconds >= 1e-3) return `${number(seconds * 1e3)} ms`;
  return `${number(seconds * 1e6)} µs`;
}

export function percent(share: number): string {
  if (!Number.isFinite(share)) return "–";
  const value = share * 100;
  return `${value >= 99.95 ? "100" : value >= 10 ? value.toFixed(0) : value.toFixed(1)} %`;
}
