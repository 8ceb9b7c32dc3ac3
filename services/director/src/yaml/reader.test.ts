import { readdirSync } from "node:fs";
import { InvalidArgumentError, ResourceExhaustedError, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { collectGarbage, eventually, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { NO_YAML_LIMITS } from "./limits.js";
import { YamlReader, type YamlReaderOptions } from "./reader.js";

const OPTIONS: YamlReaderOptions = {
  maxEventLoopBytes: 100,
  threads: 1,
  maxWaiting: 2,
  timeoutMs: 60_000,
  storedTimeoutMs: 60_000,
  maxThreadMemoryMib: 256,
};
const LIMITS = { what: "cloud config `default`", sizeBytes: 64 * 1024 * 1024, yaml: NO_YAML_LIMITS };
const SMALL = "azs: [{name: z1}]\n";
const LARGE = `azs:\n${Array.from({ length: 20 }, (_, index) => `- name: z${index}\n`).join("")}`;

/** Takes a thread far longer than any limit that a test sets. */
const SLOW = `a: [${"1,".repeat(8_000_000)}]\n`;

describe("YAML reader", () => {
  const readers: YamlReader[] = [];
  const newReader = (change: Partial<YamlReaderOptions> = {}): YamlReader => {
    const reader = new YamlReader({ ...OPTIONS, ...change });
    readers.push(reader);
    return reader;
  };
  afterEach(() => {
    for (const reader of readers.splice(0)) reader.close();
  });
  const read = (reader: YamlReader, text: string, options: { stored?: boolean; signal?: AbortSignal } = {}) =>
    reader.read({ format: "cloud_config", text, limits: LIMITS }, options);

  it("a small text and a large one -> both are read, and wrong ones refused with the line", async () => {
    const reader = newReader();
    expect((await read(reader, SMALL)).azs).to.have.length(1);
    expect((await read(reader, LARGE)).azs.at(-1)?.name).to.equal("z19");
    for (const text of ["azs: 1\n", `${LARGE}vm_types: 1\n`]) {
      await rejection(
        read(reader, text),
        InvalidArgumentError,
        /the cloud config `default` is not as expected: line (1|22): /,
      );
    }
  });

  it("threads are ended as they start -> no descriptor stays open", async function () {
    leaveToVerify(this);
    const reader = newReader();
    const startedMs = performance.now();
    await read(reader, LARGE);
    const tookMs = performance.now() - startedMs;
    const open = () => readdirSync("/proc/self/fd").length;
    const before = open();
    for (const share of [0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.8]) {
      const impatient = new AbortController();
      setTimeout(() => impatient.abort(new UnavailableError("its caller has gone")), share * tookMs);
      await read(reader, LARGE, { signal: impatient.signal }).catch(() => undefined);
    }
    await eventually(() => expect(open()).to.be.at.most(before));
  });

  it("a thread takes too long -> an error that names the limit; the next text has its place", async () => {
    const reader = newReader({ timeoutMs: 1, maxThreadMemoryMib: 2_048 });
    // A text that is read sooner than its time is looked at is taken.
    await rejection(
      read(reader, SLOW),
      InvalidArgumentError,
      /`default` takes longer to read than 1 ms \(limits\.yaml\.timeoutMs\)/,
    );
    expect((await read(reader, LARGE, { stored: true })).azs).to.have.length(20);
  });

  it("a thread reads for long -> ended after its time, even though nothing interrupts it from within", async () => {
    const reader = newReader({ timeoutMs: 300, maxThreadMemoryMib: 2_048 });
    const error = await rejection(read(reader, SLOW));
    expect(error.message).to.match(/takes longer to read than 300 ms \(limits\.yaml\.timeoutMs\)/);
  });

  it("a thread takes too much memory -> an error that names the limit, and nothing else ends", async function () {
    leaveToVerify(this);
    const reader = newReader({ maxThreadMemoryMib: 32 });
    await rejection(
      read(reader, SLOW),
      InvalidArgumentError,
      /takes more memory to read than 32 MiB \(limits\.yaml\.maxThreadMemoryMib\)/,
    );
    expect((await read(reader, LARGE)).azs).to.have.length(20);
  });

  it("all threads busy -> small texts are read, new ones wait, too many are refused, stored ones are not", async () => {
    const reader = newReader({ maxWaiting: 1, maxThreadMemoryMib: 2_048 });
    const stop = new AbortController();
    const slow = rejection(read(reader, SLOW, { signal: stop.signal }));
    const waits = read(reader, LARGE);
    await rejection(read(reader, LARGE), ResourceExhaustedError, "limits.yaml.maxWaiting");
    const stored = read(reader, LARGE, { stored: true });
    expect((await read(reader, SMALL)).azs).to.have.length(1);
    stop.abort(new UnavailableError("the caller left"));
    expect((await slow).message).to.equal("the caller left");
    expect((await waits).azs).to.have.length(20);
    expect((await stored).azs).to.have.length(20);
  });

  it("the caller leaves while it waits -> its place is the next one's", async () => {
    const reader = newReader({ maxThreadMemoryMib: 2_048 });
    const stop = new AbortController();
    const slow = rejection(read(reader, SLOW, { signal: stop.signal }));
    const left = new AbortController();
    const leaving = rejection(read(reader, LARGE, { signal: left.signal }));
    const waits = read(reader, LARGE);
    left.abort(new UnavailableError("gone"));
    expect((await leaving).message).to.equal("gone");
    stop.abort(new UnavailableError("gone, too"));
    await slow;
    expect((await waits).azs).to.have.length(20);
  });

  it("large texts, by callers who stay -> nothing of them is kept", async function () {
    leaveToVerify(this);
    const reader = newReader();
    const caller = new AbortController();
    const fill = `azs: [{name: z1}]\n#${"x".repeat(1024 * 1024)}`;
    const readOne = (count: number) =>
      // Made flat, as one that came over the network: parts that are shared would not count.
      read(reader, Buffer.from(`${fill} ${count}`).toString(), { signal: caller.signal });
    const usedBytes = (): number => {
      collectGarbage();
      return process.memoryUsage().heapUsed;
    };
    await readOne(0);
    const beforeBytes = usedBytes();
    for (let count = 1; count <= 12; count++) await readOne(count);
    await eventually(() => expect(usedBytes() - beforeBytes).to.be.below(4 * 1024 * 1024));
  });

  it("closed -> who is served and who waits hear of it", async () => {
    const reader = newReader({ maxThreadMemoryMib: 2_048 });
    const all = [SLOW, LARGE, LARGE].map((text) => rejection(read(reader, text)));
    reader.close();
    for (const error of await Promise.all(all)) expect(error.message).to.equal("the director stops");
    expect((await rejection(read(reader, LARGE))).message).to.equal("the director stops");
  });
});
