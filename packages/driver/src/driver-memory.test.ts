import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { DriverError, type JsonObject, ResourceExhaustedError, silentLogger } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { DriverMemory } from "./driver-memory.js";
import { DRIVER_LIMITS, DriverHost, driversConfig } from "./host.js";
import { OWN_USER } from "./testing/index.js";

const DRIVER = `
import { Driver, nodeMethod, z } from "@diskmesh/driver";
const post = (async, args) => ({ httpMethods: ["POST"], async, exclusiveLock: false, description: "", args });
export default class Keeper extends Driver {
  static driverName = "keeper";
  flash = nodeMethod(post(true, z.strictObject({ crashes: z.boolean() })), async ({ crashes }) => {
    await this.environment.state.set("block", { done: 3 });
    if (crashes) process.exit(3);
    await new Promise(() => {});
  });
  end = nodeMethod(post(true, z.strictObject({})), () => this.environment.state.set("block", undefined));
  told = nodeMethod(post(false, z.strictObject({})), () => ({
    block: this.environment.state.get("block") ?? null,
    cutOff: this.environment.cutOff.map(({ method, startedAt }) => [method, startedAt.getTime() <= Date.now()]),
  }));
  keep = nodeMethod(post(false, z.strictObject({ length: z.int() })), ({ length }) =>
    this.environment.state.set("much", "x".repeat(length)),
  );
}
`;

describe("the memory of a driver", () => {
  const stored = new Map<string, JsonObject>();
  const states = {
    read: async (driver: string) => stored.get(driver),
    write: async (driver: string, state: JsonObject) => void stored.set(driver, state),
  };
  let host: DriverHost | undefined;
  let file: string;

  before(() => {
    file = join(temporaryFolder(), "keeper.mjs");
    writeFileSync(file, DRIVER);
  });
  beforeEach(() => stored.clear());
  afterEach(() => host?.close());

  /** Starts the agent's part anew, as after a restart of the agent. */
  async function start(): Promise<void> {
    await host?.close();
    const offers = { devices: async () => [], probe: async () => 0, warnOf: async () => {}, states };
    const limits = { ...DRIVER_LIMITS, restart: { minDelayMs: 20, maxDelayMs: 50 } };
    const drivers = driversConfig.parse([{ package: file, ...OWN_USER }]);
    host = new DriverHost({ drivers, limits, offers, random: Math.random, log: silentLogger });
    await host.settled();
    expect(host.drivers()[0]?.problem).to.equal("");
  }

  const call = (method: string, args: JsonObject = {}): Promise<unknown> => {
    const rest = { httpMethod: "POST", nodeId: "host-1", validateOnly: false, signal: new AbortController().signal };
    if (host === undefined) throw new Error("no host");
    return host.call("keeper", { kind: "node", method, args, timeoutMs: 300_000, ...rest });
  };

  it("survives a restart of the agent, with the call that was cut off, which is told once", async () => {
    await start();
    expect(await call("told")).to.deep.equal({ block: null, cutOff: [] });
    const flashing = rejection(call("flash", { crashes: false }), DriverError, "outcome is not known");
    await eventually(async () => expect(await call("told")).to.deep.include({ block: { done: 3 } }));
    await start();
    await flashing;
    expect(await call("told")).to.deep.equal({ block: { done: 3 }, cutOff: [["flash", true]] });
    await start();
    expect(await call("told")).to.deep.equal({ block: { done: 3 }, cutOff: [] });
  });

  it("survives the driver's process, and forgets a call that has ended", async () => {
    await start();
    await rejection(call("flash", { crashes: true }), DriverError, "outcome is not known");
    await eventually(async () =>
      expect(await call("told")).to.deep.equal({ block: { done: 3 }, cutOff: [["flash", true]] }),
    );
    await call("end");
    await start();
    expect(await call("told")).to.deep.equal({ block: null, cutOff: [] });
  });

  it("has 64 KiB", async () => {
    await start();
    await call("keep", { length: 60_000 });
    await rejection(call("keep", { length: 70_000 }), DriverError, "up to 65536 bytes");
  });

  it("is not changed by a write that fails", async () => {
    const memory = new DriverMemory({
      read: async () => undefined,
      write: () => Promise.reject(new Error("disk full")),
    });
    await memory.open("keeper");
    await rejection(memory.set("a", 1), Error, "disk full");
    expect((await memory.open("keeper")).values).to.deep.equal({});
  });

  it("refuses values that are no JSON, long keys and too much", async () => {
    const memory = new DriverMemory(states);
    await memory.open("keeper");
    await rejection(memory.set("a", Number.NaN), TypeError, "the value of a is not JSON");
    await rejection(memory.set("a".repeat(101), 1), TypeError, "up to 100 characters");
    await rejection(memory.set("a", "x".repeat(65_536)), ResourceExhaustedError, "up to 65536 bytes");
  });

  it("cannot be set where there is no state, as in a director", async () => {
    const memory = new DriverMemory(undefined);
    await memory.open("keeper");
    await rejection(memory.set("a", 1), Error, "only in the agent of a node");
    await memory.begun({ method: "flash", atMs: 1 });
    expect((await memory.open("keeper")).cutOff).to.deep.equal([{ method: "flash", atMs: 1 }]);
  });
});
