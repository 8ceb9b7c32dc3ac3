import { existsSync, readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { InvalidArgumentError } from "@diskmesh/domain";
import { leaveToVerify, skipBecause } from "@diskmesh/testkit";
import { expect } from "chai";
import { ordinaryManifest, SLOW_YAML } from "../testing/slow-yaml.js";
import { TestDirector } from "../testing/test-director.js";
import type { Reading } from "./formats.js";
import { YamlReader } from "./reader.js";

const MIB_BYTES = 1024 * 1024;
const SMALL_BYTES = MIB_BYTES / 64;
/** Maximum CPU time of the director's main thread during another client's request. */
const WAIT_CPU_MS = 100;
/** Pause between two requests of the other client, which leaves most of the CPU to the text under test. */
const PAUSE_MS = 10;

/**
 * Returns the CPU time of a process's main thread, which runs its event loop. Load of other processes does not count.
 */
function cpuMsOf(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ")[0]) / 1e6;
}

describe("reading of slow YAML in a worker", function () {
  this.timeout(600_000);
  const entries = Object.entries(SLOW_YAML);
  const limits = { what: "text", sizeBytes: MIB_BYTES, instances: 1_000, ignoreJobs: true };
  let reader: YamlReader;
  const start = (timeoutMs: number): void => {
    reader = new YamlReader({ timeoutMs });
  };
  afterEach(() => reader.close());

  /** Fails unless the text is read or refused as invalid. */
  async function expectTakenOrRefused(name: string, text: string, index: number): Promise<void> {
    const readings: Reading[] = [
      { format: "manifest", text, limits },
      { format: "cloud_config", text, limits },
      { format: "cpi_config", text, limits },
      { format: "config_diff", from: "vm_types: []\n", text, redact: true },
    ];
    const error = await reader.read(readings[index % readings.length] as Reading).catch((error: unknown) => error);
    if (error instanceof Error) expect(error, name).to.be.instanceOf(InvalidArgumentError);
  }

  it("a small text of each kind -> accepted or refused", async () => {
    start(60_000);
    for (const [index, [name, textOf]] of entries.entries())
      await expectTakenOrRefused(name, textOf(SMALL_BYTES), index);
  });

  it("a MiB of each kind -> accepted or refused, within the timeout", async function () {
    leaveToVerify(this);
    start(500);
    for (const [index, [name, textOf]] of entries.entries()) await expectTakenOrRefused(name, textOf(MIB_BYTES), index);
  });
});

describe("slow YAML in requests", function () {
  this.timeout(600_000);
  let director: TestDirector;
  let pid: number;

  type Send = (content: string) => Promise<unknown>;
  const deploy: Send = (manifest) => director.deployments.deploy({ manifest }, { deadlineMs: 120_000 });
  const update =
    (type: string): Send =>
    (content) =>
      director.configs.updateConfig({ type, content }, { deadlineMs: 120_000 });
  const diff: Send = (content) => director.configs.diffConfig({ type: "cloud", content }, { deadlineMs: 120_000 });
  const WAYS: readonly (readonly [string, Send])[] = [
    ["manifest", deploy],
    ["cloud config", update("cloud")],
    ["cpi config", update("cpi")],
    ["diff", diff],
  ];

  before(async function () {
    if (!existsSync(`/proc/${process.pid}/schedstat`)) skipBecause(this, "/proc does not say how long a thread ran");
    director = await TestDirector.start({ deployments: { ignoreJobs: true } });
    pid = director.process.pid;
    // Warms up, because the first run is slower than later runs.
    for (const [, send] of WAYS) await outcomeOf(send, "- 1\n");
  });
  after(() => director?.stop());

  /** Returns "taken" or the reason of the refusal. Errors for other reasons than the text fail the test. */
  async function outcomeOf(send: Send, text: string): Promise<string> {
    try {
      await send(text);
      return "taken";
    } catch (error) {
      if (error instanceof InvalidArgumentError) return error.message;
      throw error;
    }
  }

  /**
   * Runs `work` while another client sends requests. Returns the longest CPU time of the director's main thread during
   * a request.
   */
  async function longestWaitMs(work: () => Promise<unknown>): Promise<number> {
    let longestMs = 0;
    let done = false;
    const working = work().finally(() => {
      done = true;
    });
    while (!done) {
      const beforeMs = cpuMsOf(pid);
      await director.configs.listConfigs({});
      longestMs = Math.max(longestMs, cpuMsOf(pid) - beforeMs);
      await delay(PAUSE_MS);
    }
    await working;
    return longestMs;
  }

  async function expectNoWait(what: string, work: () => Promise<unknown>): Promise<void> {
    const waitMs = await longestWaitMs(work);
    expect(waitMs, what).to.be.below(WAIT_CPU_MS);
    expect(director.process.exit).to.equal(undefined);
  }

  it("a MiB of a typical manifest -> accepted, and no other request waits", async () => {
    await director.deploy("first", 0);
    await expectNoWait("an ordinary manifest", () => deploy(ordinaryManifest(MIB_BYTES)));
    // The task reads the manifest, too. It creates nothing, because the groups have no instances.
    const { tasks } = await director.tasks.listTasks({
      deployment: "ordinary",
      pageSize: 1,
    });
    expect((await director.ended(tasks[0]?.taskId ?? 0)).result).to.equal("/deployments/ordinary");
  });

  it("a diff of short texts without common lines -> answered, and no other request waits", async () => {
    const ofLines = (line: string): string => vmType(`[${counted(1_000, () => line, ",")}]`);
    await update("cloud")(ofLines("1"));
    await expectNoWait("a diff of short texts", async () =>
      expect(await outcomeOf(diff, ofLines("2"))).to.equal("taken"),
    );
  });

  // The director's main thread receives the parsed content of these texts and merges it with other configs.
  const KEPT: [string, Send, string][] = [
    ["a property with very many keys", update("cloud"), vmType(`{${counted(29_000, (i) => `key-${i}: ${i}`)}}`)],
    ["very many CPIs", update("cpi"), `cpis: [${counted(1_000, (i) => `{name: cpi-${i}, type: c}`)}]\n`],
    [
      "aliases of properties",
      update("cloud"),
      `${vmType(`&a {${counted(2_000, (i) => `key-${i}: 1`)}}`)}vm_extensions: [${counted(18, (i) => `{name: e${i}, cloud_properties: *a }`)}]\n`,
    ],
    [
      "a diff of 50,000 lines",
      async (content) => {
        await update("cloud")("vm_types: []\n");
        await diff(content);
      },
      vmType(`[${counted(49_990, (i) => `value-${1e11 + i}`)}]`),
    ],
  ];
  for (const [what, send, text] of KEPT)
    it(`${what} -> accepted, and no other request waits`, async () =>
      expectNoWait(what, async () => expect(await outcomeOf(send, text)).to.equal("taken")));
});

function counted(count: number, make: (index: number) => string, between = ", "): string {
  return Array.from({ length: count }, (_, index) => make(index)).join(between);
}

function vmType(properties: string): string {
  return `vm_types: [{name: default, cloud_properties: {all: ${properties}}}]\n`;
}
