// The active scenario as one drawing: the sentence, the system, and the curve.
import type { Quantile } from "./desk.svelte";
import { number, percent, time } from "./format";
import type { View } from "./lab";
import { classId, centreId, CUSTOMERS, layout, links, STATION } from "./layout";
import type { Model } from "./model";

const INK = "#16202c";
const SOFT = "#5a6776";
const LINE = "#dde3ea";
const BLUE = "#1764ab";
const HOT = "#e2650f";
const FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif";

const safe = (text: string) =>
  text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c] ?? c);

function words(text: string, x: number, y: number, size: number, more = ""): string {
  return `<text x="${x}" y="${y}" font-size="${size}" ${more}>${safe(text)}</text>`;
}

/** Lines of at most so many letters. */
function wrapped(text: string, letters: number): string[] {
  const lines = [""];
  for (const word of text.split(" ")) {
    const last = lines.length - 1;
    if ((lines[last] + word).length > letters) lines.push(`${word} `);
    else lines[last] += `${word} `;
  }
  return lines.map((line) => line.trim());
}

export interface Drawing {
  svg: string;
  width: number;
  height: number;
}

export function draw(model: Model, places: Record<string, { x: number; y: number }>, view: View | null, what: Quantile): Drawing {
  const spots = layout(model, false);
  const size = (id: string) => (id.startsWith("class ") ? CUSTOMERS : STATION);
  const corner = (id: string) => {
    const { width, height } = size(id);
    const spot = spots.get(id) ?? { x: 0, y: 0 };
    return places[id] ?? { x: spot.x - width / 2, y: spot.y - height / 2 };
  };
  const ids = [...model.classes.map((c) => classId(c.name)), ...model.centres.map((c) => centreId(c.name))];
  const corners = ids.map((id) => ({ id, ...corner(id), ...size(id) }));
  const left = Math.min(0, ...corners.map((c) => c.x));
  const up = Math.min(0, ...corners.map((c) => c.y));
  const right = Math.max(0, ...corners.map((c) => c.x + c.width));
  const down = Math.max(0, ...corners.map((c) => c.y + c.height));
  const width = Math.max(760, right - left + 48);
  const parts: string[] = [words(model.title, 24, 36, 19, 'font-weight="650"')];
  let y = 62;
  for (const line of wrapped(view?.verdict ?? "", Math.floor((width - 48) / 7.4))) {
    parts.push(words(line, 24, y, 14, `fill="${SOFT}"`));
    y += 20;
  }
  y += 8;
  const at = (id: string) => {
    const found = corner(id);
    return { x: found.x - left + 24, y: found.y - up + y };
  };
  for (const link of links(model)) {
    const [a, b] = [at(link.from), at(link.to)];
    const [x1, y1] = [a.x + size(link.from).width, a.y + size(link.from).height / 2];
    const [x2, y2] = [b.x, b.y + size(link.to).height / 2];
    const half = (x2 - x1) / 2;
    parts.push(`<path d="M${x1} ${y1}C${x1 + half} ${y1} ${x2 - half} ${y2} ${x2 - 3} ${y2}" fill="none" stroke="${BLUE}" stroke-width="1.5" marker-end="url(#end)"/>`);
  }
  for (const own of model.classes) {
    const { x, y: top } = at(classId(own.name));
    const load = "closed" in own.kind ? number(own.kind.closed.population.value) : `${number(own.kind.open.rate.value)} a second`;
    parts.push(`<rect x="${x}" y="${top}" width="${CUSTOMERS.width}" height="66" rx="33" fill="#eef4fa" stroke="${BLUE}"/>`);
    parts.push(words(own.name, x + CUSTOMERS.width / 2, top + 30, 13.5, 'text-anchor="middle" font-weight="600"'));
    parts.push(words(load, x + CUSTOMERS.width / 2, top + 48, 12, `text-anchor="middle" fill="${SOFT}"`));
  }
  for (const centre of model.centres) {
    const { x, y: top } = at(centreId(centre.name));
    const used = view?.centres.find((c) => c.name === centre.name)?.utilisation?.reduce((a, b) => a + b, 0);
    const hot = view?.bottleneck === centre.name;
    parts.push(`<rect x="${x}" y="${top}" width="${STATION.width}" height="78" rx="12" fill="#fff" stroke="${hot ? HOT : LINE}" stroke-width="${hot ? 2.5 : 1.5}"/>`);
    parts.push(words(centre.name, x + 14, top + 28, 13.5, 'font-weight="600"'));
    if (used === undefined) continue;
    parts.push(words(percent(used), x + STATION.width - 14, top + 48, 12, `text-anchor="end" fill="${SOFT}"`));
    parts.push(`<rect x="${x + 14}" y="${top + 56}" width="${STATION.width - 28}" height="5" rx="2.5" fill="#e6ebf1"/>`);
    parts.push(`<rect x="${x + 14}" y="${top + 56}" width="${(STATION.width - 28) * Math.min(used, 1)}" height="5" rx="2.5" fill="${hot ? HOT : BLUE}"/>`);
  }
  y += down - up + 34;
  if (view) {
    parts.push(curve(view, what, y, width));
    y += 250;
  }
  const head = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${y}" viewBox="0 0 ${width} ${y}" font-family="${FONT}" fill="${INK}">`;
  const end = `<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="${BLUE}"/></marker></defs>`;
  return { svg: `${head}${end}<rect width="100%" height="100%" fill="#fff"/>${parts.join("")}</svg>`, width, height: y };
}

function curve(view: View, what: Quantile, top: number, width: number): string {
  const [left, high] = [78, 190];
  const wide = width - left - 24;
  const last = view.curve.at(-1)?.load ?? 1;
  const most = Math.max(...view.curve.map((p) => Math.max(p.mean, p[what]))) * 1.06 || 1;
  const x = (load: number) => left + (load / last) * wide;
  const y = (value: number) => top + high - (value / most) * high;
  const line = (key: Quantile, more: string) =>
    `<path d="${view.curve.map((p, i) => `${i === 0 ? "M" : "L"}${x(p.load).toFixed(1)} ${y(p[key]).toFixed(1)}`).join("")}" fill="none" ${more}/>`;
  const parts = [`<path d="M${left} ${top}V${top + high}H${left + wide}" fill="none" stroke="${LINE}"/>`];
  for (const share of [0, 0.5, 1]) {
    parts.push(words(time(most * share), left - 8, y(most * share) + 4, 11, `text-anchor="end" fill="${SOFT}"`));
    parts.push(words(number(last * share), x(last * share), top + high + 18, 11, `text-anchor="middle" fill="${SOFT}"`));
  }
  parts.push(line("mean", `stroke="#9db8d2" stroke-width="1.5"`), line(what, `stroke="${BLUE}" stroke-width="2.4"`));
  parts.push(`<path d="M${x(view.load)} ${top}V${top + high}" stroke="${SOFT}" stroke-dasharray="3 4"/>`);
  parts.push(words(`response time, ${what}, against ${view.unit}`, left + wide / 2, top + high + 36, 12, `text-anchor="middle" fill="${SOFT}"`));
  return parts.join("");
}
