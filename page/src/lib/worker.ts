// A worker around the laboratory: bytes in, bytes out.

interface Lab {
  memory: WebAssembly.Memory;
  reserve(length: number): number;
  ask(at: number, length: number): void;
}

let start: (lab: Lab) => void;
const ready = new Promise<Lab>((resolve) => (start = resolve));

async function load(module: WebAssembly.Module): Promise<void> {
  let lab: Lab | undefined;
  const say = (kind: number, at: number, length: number) => {
    if (!lab) return;
    const text = new TextDecoder().decode(new Uint8Array(lab.memory.buffer, at, length));
    postMessage({ kind, text });
  };
  const instance = await WebAssembly.instantiate(module, { page: { say } });
  lab = instance.exports as unknown as Lab;
  start(lab);
}

onmessage = async ({ data }: MessageEvent<{ module?: WebAssembly.Module; question?: string }>) => {
  try {
    if (data.module) await load(data.module);
    if (data.question !== undefined) {
      const lab = await ready;
      const bytes = new TextEncoder().encode(data.question);
      const at = lab.reserve(bytes.length);
      new Uint8Array(lab.memory.buffer, at, bytes.length).set(bytes);
      lab.ask(at, bytes.length);
    }
  } catch (error) {
    postMessage({ kind: 2, text: String(error) });
  }
};
