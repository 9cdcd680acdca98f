// A scenario as a part of the page's address, and back.

function toText(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function toBytes(text: string): Uint8Array<ArrayBuffer> {
  const plain = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(plain, (c) => c.charCodeAt(0));
}

async function through(
  bytes: Uint8Array<ArrayBuffer>,
  stream: CompressionStream | DecompressionStream,
) {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}

/** `#s=...`: deflated JSON. */
export async function pack(value: unknown): Promise<string> {
  const bytes = new TextEncoder().encode(JSON.stringify(value)) as Uint8Array<ArrayBuffer>;
  return `#s=${toText(await through(bytes, new CompressionStream("deflate-raw")))}`;
}

/** The largest text that a link may unfold to. */
const LIMIT = 4_000_000;

/** What an address holds: a scenario of ours (`s`), or the bare text of a model (`m`). */
export async function unpack(hash: string): Promise<{ packed?: unknown; model?: string } | null> {
  const found = /^#([sm])=([\w-]+)$/.exec(hash);
  if (!found) return null;
  const bytes = toBytes(found[2] ?? "");
  if (found[1] === "m") return { model: new TextDecoder().decode(bytes) };
  const open = await through(bytes, new DecompressionStream("deflate-raw"));
  if (open.length > LIMIT) throw new Error("the link holds too much");
  return { packed: JSON.parse(new TextDecoder().decode(open)) };
}
