import { setTimeout as delay } from "node:timers/promises";
import { DiskAgentServiceDefinition } from "@diskmesh/api/internal";
import { AttachState, type Device } from "@diskmesh/api/registry";
import { TimeoutError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { createClient, waitForHealth } from "@diskmesh/rpc";
import { documentDatabase } from "@diskmesh/tablet/testing";
import { eventually, leaveToVerify, skipBecause } from "@diskmesh/testkit";
import { expect } from "chai";
import { type RegistryClient, TestRegistries } from "./testing/test-registries.js";

/** Much longer than a busy machine delays a renewal. */
const LEASE_TIME_MS = 4_000;

describe("two disk-registries on one database", () => {
  let serverUrl: string;
  let registries: TestRegistries;
  let operator: RegistryClient;

  before(async function () {
    const found = await documentDatabase();
    if (typeof found === "string") return skipBecause(this, found);
    serverUrl = found.url;
  });
  afterEach(() => registries?.stop());

  async function start(leaseTimeMs = LEASE_TIME_MS): Promise<void> {
    registries = await TestRegistries.start(serverUrl, leaseTimeMs);
    operator = registries.operator();
  }
  async function device(deviceId: string): Promise<Device> {
    return (await operator.getDevice({ deviceId })).device as Device;
  }
  const add = (hostId: string) => operator.addHost({ hostId });
  const inState = (deviceId: string, state: AttachState) =>
    eventually(async () => expect((await device(deviceId)).attachState).to.equal(state));
  const doesNotServe = (address: string | undefined) =>
    eventually(async () => {
      const asked = waitForHealth({
        address: address ?? "",
        tls: registries.certificates.files("operator"),
        serverRole: "disk-registry",
        timeoutMs: 300,
      });
      await rejection(asked, Error, "NOT_SERVING");
    });
  /** Returns the time from `sinceMs` until a client that knew the former leader gets an answer. */
  async function servedAfterMs(sinceMs: number): Promise<number> {
    await operator.listHosts({ pageSize: 1 }, { deadlineMs: 60_000 });
    return Math.round(performance.now() - sinceMs);
  }
  function print(what: string, ms: number): void {
    console.log(`      ${what}: ${ms} ms (the lease time is ${LEASE_TIME_MS} ms)`);
  }

  it("a standby is NOT_SERVING, and redirects its caller to the leader", async () => {
    // Long enough that leader and standby do not swap roles meanwhile.
    await start(120_000);
    await operator.listHosts({ pageSize: 1 });
    await doesNotServe(registries.addresses[1]);
    const asked = { tls: registries.certificates.files("operator"), serverRole: "disk-registry" } as const;
    const ofStandby = registries.operator(registries.addresses[1]);
    // The standby redirects the call once it knows the leader.
    const { hosts } = await eventually(() => ofStandby.listHosts({ pageSize: 1 }));
    expect(hosts).to.deep.equal([]);
    const standby = { ...asked, address: registries.addresses[1] ?? "", service: "standby", timeoutMs: 120_000 };
    await waitForHealth(standby);
    await rejection(
      waitForHealth({ ...standby, address: registries.addresses[0] ?? "", timeoutMs: 300 }),
      TimeoutError,
    );
    expect(registries.second.logs).to.contain("standby mode entered").and.not.to.contain("gRPC call failed");
  });

  it("the standby leads after a SIGKILL of the leader, with higher stamps, and real agents refuse the former ones", async () => {
    await start();
    const agentAddress = await registries.agentProcess("h1", ["d1", "d2"]);
    await registries.agentProcess("h2", ["d3"]);
    for (const hostId of ["h1", "h2"]) await eventually(() => isDone(add(hostId)));
    for (const deviceId of ["d1", "d2", "d3"]) await inState(deviceId, AttachState.ATTACHED);
    const noHistory = { changes: [], areKept: false, isComplete: false, nextPageToken: "" };
    expect(await operator.listChanges({ hostId: "h1" }), "a database keeps no commits").to.deep.include(noHistory);
    const before = await device("d1");
    const { tabletId, incarnation, tabletGeneration } = servesLine(registries.first.logs);

    await registries.first.kill();
    const takenMs = await servedAfterMs(performance.now());
    print("a call right after SIGKILL of the leader was answered after", takenMs);
    const after = await device("d1");
    expect(after.attachState).to.equal(AttachState.ATTACHED);
    expect(after.deviceGeneration).to.equal(before.deviceGeneration);
    expect(after.tabletGeneration).to.be.above(before.tabletGeneration);

    const remove = { hostId: "h1", deviceId: "d1" };
    await eventually(async () =>
      expect((await operator.removeDevice(remove)).result?.code).to.equal("ACTION_CODE_S_OK"),
    );
    const agent = createClient(DiskAgentServiceDefinition, {
      address: agentAddress,
      tls: registries.certificates.files("disk-registry"),
      serverRole: "disk-agent",
      defaultDeadlineMs: 60_000,
    });
    try {
      const { host } = await operator.getHost({ hostId: "h1" });
      const stamp = { tabletId, incarnation, tabletGeneration, deviceGeneration: 1_000_000 };
      const late = agent.attachDevices({
        bootId: host?.bootId ?? "",
        devices: [{ deviceId: "d1", stamp }],
      });
      expect((await rejection(late)).name).to.equal("OutdatedError");
    } finally {
      agent.close();
    }
    await inState("d1", AttachState.DETACHED);
  });

  it("every call that was not running at the kill succeeds later", async function () {
    leaveToVerify(this);
    await start();
    await registries.agent("h1", ["d1"]);
    await add("h1");
    let stopped = false;
    let isDead = false;
    let slowestMs = 0;
    let answered = 0;
    const failures: { readonly begunAfter: boolean; readonly outcome: unknown; readonly message: string }[] = [];
    const callers = Array.from({ length: 8 }, async () => {
      while (!stopped) {
        const begunAfter = isDead;
        const startMs = performance.now();
        try {
          await operator.addDevice({ hostId: "h1", deviceId: "d1" }, { deadlineMs: 60_000 });
          answered += 1;
          slowestMs = Math.max(slowestMs, performance.now() - startMs);
        } catch (error) {
          const { message, outcome } = error as Error & { outcome: unknown };
          failures.push({ begunAfter, outcome, message });
        }
        await delay(5);
      }
    });
    try {
      await eventually(() => answered > 50);
      await registries.first.kill();
      isDead = true;
      const answeredBefore = answered;
      await eventually(() => expect(answered, JSON.stringify(failures)).to.be.above(answeredBefore + 100));
    } finally {
      stopped = true;
      await Promise.all(callers);
    }
    print(
      `${answered} calls answered, ${failures.length} cut off by the kill, the slowest took`,
      Math.round(slowestMs),
    );
    expect(failures.filter(({ begunAfter, outcome }) => begunAfter || outcome !== "unknown")).to.deep.equal([]);
    // Each caller may fail at most once.
    expect(failures.length).to.be.below(9);
  });
});

async function isDone(action: ReturnType<RegistryClient["addHost"]>): Promise<boolean> {
  return (await action).result?.code.startsWith("ACTION_CODE_S_") ?? false;
}

interface ServesLine {
  readonly tabletId: string;
  readonly incarnation: string;
  readonly tabletGeneration: number;
}

/** Returns the log line of a registry that begins to serve. */
function servesLine(logs: string): ServesLine {
  const line = logs.split("\n").findLast((text) => text.includes("leadership gained")) ?? "{}";
  return JSON.parse(line);
}
