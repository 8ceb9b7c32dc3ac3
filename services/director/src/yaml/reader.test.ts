import { InvalidArgumentError, ResourceExhaustedError, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { collectGarbage, eventually, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { YamlReader, type YamlReaderOptions } from "./reader.js";

const LIMITS = { what: "cloud config `default`", sizeBytes: 64 * 1024 * 1024 };
const SMALL = "azs: [{name: z1}]\n";
const LARGE = `azs:\n${Array.from({ length: 20 }, (_, index) => `- name: z${index}\n`).join("")}`;

/** Takes far longer to parse than any timeout of these tests. */
const SLOW = `a: [${"1,".repeat(8_000_000)}]\n`;

describe("YAML reader", () => {
  const readers: YamlReader[] = [];
  const newReader = (options: YamlReaderOptions = {}): YamlReader => {
    const reader = new YamlReader(options);
    readers.push(reader);
    return reader;
  };
  afterEach(() => {
    for (const reader of readers.splice(0)) reader.close();
  });
  const read = (reader: YamlReader, text: string, options: { stored?: boolean; signal?: AbortSignal } = {}) =>
    reader.read({ format: "cloud_config", text, limits: LIMITS }, options);

  it("a small and a large text -> both are read, and faulty texts refused with the line", async () => {
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

  it("a text beyond the time limit -> an error with the reason; a new worker reads the next texts", async () => {
    const reader = newReader({ timeoutMs: 300, maxMemoryMib: 2_048 });
    const slow = rejection(read(reader, SLOW), InvalidArgumentError, /`default` takes longer to read than 300 ms/);
    const behind = [1, 2, 3].map(() => read(reader, LARGE, { stored: true }));
    await slow;
    for (const config of await Promise.all(behind)) expect(config.azs).to.have.length(20);
  });

  it("a text beyond the memory limit -> an error with the reason, and no other text fails", async function () {
    leaveToVerify(this);
    const reader = newReader({ maxMemoryMib: 32 });
    await rejection(read(reader, SLOW), InvalidArgumentError, /takes more memory to read than 32 MiB/);
    expect((await read(reader, LARGE)).azs).to.have.length(20);
  });

  it("too many waiting texts -> a further text is refused, unless it is stored", async () => {
    const reader = newReader({ maxWaiting: 1 });
    const waiting = [read(reader, LARGE), read(reader, LARGE)];
    await rejection(read(reader, LARGE), ResourceExhaustedError, "1 YAML texts already wait to be read");
    for (const config of await Promise.all([...waiting, read(reader, LARGE, { stored: true })]))
      expect(config.azs).to.have.length(20);
  });

  it("callers leave, one while its text is read and one in the queue -> both are answered; the next text is read", async () => {
    const reader = newReader();
    const callers = [new AbortController(), new AbortController()];
    const left = callers.map(({ signal }) => rejection(read(reader, LARGE, { signal })));
    const stays = read(reader, LARGE);
    for (const caller of callers) caller.abort(new UnavailableError("gone"));
    for (const error of await Promise.all(left)) expect(error.message).to.equal("gone");
    expect((await stays).azs).to.have.length(20);
  });

  it("large texts of waiting callers -> no memory of them is kept", async function () {
    leaveToVerify(this);
    const reader = newReader();
    const caller = new AbortController();
    const fill = `azs: [{name: z1}]\n#${"x".repeat(1024 * 1024)}`;
    const readOne = (count: number) =>
      // Copied into a flat string, as from the network: a concatenation would share the fill, and its memory would not
      // count.
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

  it("closed -> current and waiting callers are answered", async () => {
    const reader = newReader({ maxMemoryMib: 2_048 });
    const all = [SLOW, LARGE, LARGE].map((text) => rejection(read(reader, text)));
    reader.close();
    for (const error of await Promise.all(all)) expect(error.message).to.equal("the director stops");
    expect((await rejection(read(reader, LARGE))).message).to.equal("the director stops");
  });
});
