// What a running server counted, as `/live.json` says it, and what happened between two of them.

export interface Work {
  calls: number;
  failed: number;
  bytes_in: number;
  bytes_out: number;
  timed: number;
  waited_s: number;
  busy_s: number;
  latency: { buckets: [number, number][] };
}

export interface Snapshot {
  version: string;
  pid: number;
  uptime_s: number;
  durability: string;
  addresses: string[];
  total: Work;
  exports: (Work & { name: string; path: string; read_only: boolean })[];
  procedures: (Work & { program: string; version: number; name: string })[];
  clients: (Work & { address: string; connections: number; idle_s: number })[];
  others: Work;
  loops: { connections: number; parked: number; held_bytes: number; awake_s: number }[];
  silent_loops: number;
  events: Record<string, number>;
  replies: { entries: number; bytes: number; resent: number };
  syncs: { done: number; failed: number; time_s: number };
  /** The state of version 4, if the server serves the version. */
  nfs4?: Nfs4;
}

/** The clients, the state and the operations of version 4. */
export interface Nfs4 {
  clients: number;
  courteous: number;
  sessions: number;
  busy_slots: number;
  opens: number;
  locks: number;
  waiters: number;
  operations: (Work & { name: string })[];
}

/** A thing and what it did, a second; times in seconds, null where nothing was timed. */
export interface Line {
  name: string;
  busy: number;
  calls: number;
  failed: number;
  in: number;
  out: number;
  wait: number | null;
  p50: number | null;
  p95: number | null;
  p99: number | null;
}

export interface Happened {
  total: Line;
  clients: Line[];
  exports: Line[];
  operations: Line[];
  awake: number;
  syncs: number;
  /** Limits that were met, with how often since the start. */
  met: [string, number][];
}

/** The seconds at which a bucket ends: the first at 1024 ns, each four further ones double that. */
function endOf(bucket: number): number {
  const octave = 1024e-9 * 2 ** Math.floor(bucket / 4);
  return octave * (1 + (bucket % 4) / 4);
}

/** The time below which this share of the counts lies. */
export function quantile(counts: Map<number, number>, share: number): number | null {
  let all = 0;
  for (const count of counts.values()) all += count;
  if (all === 0) return null;
  let below = 0;
  for (const bucket of [...counts.keys()].sort((one, other) => one - other)) {
    const count = counts.get(bucket) ?? 0;
    if (count > 0 && below + count >= share * all) {
      const begin = bucket === 0 ? 0 : endOf(bucket - 1);
      return begin + ((endOf(bucket) - begin) * (share * all - below)) / count;
    }
    below += count;
  }
  return null;
}

/** What was added to work since before, as a line. */
function line(name: string, after: Work, before: Work | undefined, seconds: number, loops: number): Line {
  const added = (of: (work: Work) => number) => Math.max(0, of(after) - (before ? of(before) : 0));
  const counts = new Map(after.latency.buckets);
  for (const [bucket, count] of before?.latency.buckets ?? []) {
    counts.set(bucket, Math.max(0, (counts.get(bucket) ?? 0) - count));
  }
  const rate = (of: (work: Work) => number) => (seconds > 0 ? added(of) / seconds : 0);
  const calls = added((work) => work.calls);
  const timed = added((work) => work.timed);
  const busy = timed === 0 ? 0 : (added((work) => work.busy_s) * calls) / timed;
  return {
    name,
    busy: seconds > 0 ? Math.min(1, busy / (seconds * Math.max(1, loops))) : 0,
    calls: rate((work) => work.calls),
    failed: rate((work) => work.failed),
    in: rate((work) => work.bytes_in),
    out: rate((work) => work.bytes_out),
    wait: timed === 0 ? null : added((work) => work.waited_s) / timed,
    p50: quantile(counts, 0.5),
    p95: quantile(counts, 0.95),
    p99: quantile(counts, 0.99),
  };
}

/** What happened between two snapshots of a server; of one that was started anew, all. */
export function between(earlier: Snapshot | undefined, after: Snapshot): Happened {
  const same = earlier && earlier.pid === after.pid && earlier.uptime_s <= after.uptime_s;
  const before = same ? earlier : undefined;
  const seconds = after.uptime_s - (before?.uptime_s ?? 0);
  const loops = after.loops.length;
  const lines = <T extends Work>(name: (one: T) => string, now: T[], then: T[] | undefined) => {
    const known = new Map(then?.map((one) => [name(one), one]));
    return now.map((one) => line(name(one), one, known.get(name(one)), seconds, loops));
  };
  const clients = lines((one) => one.address, after.clients, before?.clients);
  if (after.others.calls > 0) clients.push(line("others", after.others, before?.others, seconds, loops));
  const awake = (one: Snapshot | undefined) => one?.loops.reduce((sum, loop) => sum + loop.awake_s, 0) ?? 0;
  const met = Object.entries(after.events).filter(([name, count]) => count > 0 && name !== "connections-accepted");
  if (after.syncs.failed > 0) met.push(["failed-syncs", after.syncs.failed]);
  return {
    total: line("all", after.total, before?.total, seconds, loops),
    clients,
    exports: lines((one) => one.name, after.exports, before?.exports),
    operations: [
      ...lines((one) => `${one.program} ${one.version || ""} ${one.name}`.trim(), after.procedures, before?.procedures),
      ...lines((one) => `NFS 4 ${one.name}`, after.nfs4?.operations ?? [], before?.nfs4?.operations),
    ],
    awake: seconds > 0 ? Math.min(1, (awake(after) - awake(before)) / (seconds * Math.max(1, loops))) : 0,
    syncs: seconds > 0 ? (after.syncs.done - (before?.syncs.done ?? 0)) / seconds : 0,
    met,
  };
}

/** Who keeps the server busy, and who waits for it. */
export function blame(clients: Line[]): string {
  const asking = clients.filter((one) => one.calls > 0);
  const most = (of: (one: Line) => number) => asking.reduce((best, one) => (of(one) > of(best) ? one : best));
  if (asking.length === 0) return "Nobody asks for anything.";
  const busiest = most((one) => one.busy);
  const waits = most((one) => one.wait ?? 0);
  const share = Math.round(100 * busiest.busy);
  const wait = ((waits.wait ?? 0) * 1e6).toFixed(0);
  return `${busiest.name} keeps ${share} % of the threads busy; ${waits.name} waits longest: ${wait} µs before a call.`;
}

/** Bytes with the unit that suits their size. */
export function bytes(count: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; count >= 1024 && unit + 1 < units.length; unit += 1) count /= 1024;
  return `${count >= 100 || unit === 0 ? Math.round(count) : count.toPrecision(3)} ${units[unit]}`;
}
