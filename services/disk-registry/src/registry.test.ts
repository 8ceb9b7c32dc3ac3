import { rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { OrderOutcome } from "@diskmesh/api/agent";
import { AttachState, CreateDiskRequest, HostState, PublicationState } from "@diskmesh/api/registry";
import { DeviceIoError, UnavailableError } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import type { TestAgent } from "./testing/test-agent.js";
import { TestRegistry } from "./testing/test-registry.js";

const MIB = 1024 * 1024;

describe("disk-registry, as a process with real agents' connections", function () {
  this.timeout(30_000);
  let shared: TestRegistry;
  /** The shared one, or one that a test started with a configuration of its own. */
  let registry: TestRegistry;

  before(async () => {
    shared = await TestRegistry.start();
  });
  beforeEach(() => {
    registry = shared;
  });
  afterEach(async () => {
    if (registry === shared) await shared.reset();
    else await registry.stop();
  });
  after(async () => shared?.stop());

  const add = async (hostId = "h1"): Promise<string | undefined> =>
    (await registry.operator.addHost({ hostId, dryRun: false })).result?.code;
  const remove = async (hostId = "h1") => (await registry.operator.removeHost({ hostId, dryRun: false })).result;
  const inState = (deviceId: string, state: AttachState) =>
    eventually(async () => {
      const device = await registry.device(deviceId);
      expect(device.attachState, device.lastError).to.equal(state);
      return device;
    });
  const clean = (...deviceIds: string[]) =>
    eventually(async () => {
      for (const deviceId of deviceIds) expect((await registry.device(deviceId)).dirty, deviceId).to.equal(false);
    });
  const readyAgent = async (hostId: "h1" | "h2" | "h3", deviceIds: string[]): Promise<TestAgent> => {
    const agent = await registry.agent(hostId, deviceIds);
    await agent.register();
    agent.startHeartbeats(50);
    await add(hostId);
    await clean(...deviceIds);
    return agent;
  };
  const create = (diskId: string, change: Partial<CreateDiskRequest> = {}) =>
    registry.operator.createDisk(CreateDiskRequest.fromPartial({ diskId, sizeBytes: MIB, az: "z1", ...change }));

  it("register -> UNKNOWN and let go; AddHost -> one order for all; RemoveHost -> E_TRY_AGAIN, then S_OK", async () => {
    const agent = await registry.agent("h1", ["d1", "d2", "d3"]);
    const answer = await agent.register();
    expect(answer.allowedDevices).to.deep.equal([]);
    expect(answer.unknownDevices.map((device) => device.deviceId)).to.deep.equal(["d1", "d2", "d3"]);
    expect(answer.unknownDevices[0]?.stamp?.tabletId).to.equal(answer.tabletId);
    expect(agent.held.size).to.equal(0);
    await eventually(async () => expect((await registry.device("d1")).detachConfirmed).to.equal(true));
    agent.received.length = 0;
    const unknownGeneration = answer.unknownDevices.at(-1)?.stamp?.deviceGeneration ?? 0;

    expect(await add()).to.equal("ACTION_CODE_S_OK");
    const attached = await inState("d3", AttachState.ATTACHED);
    expect(agent.received).to.deep.equal([
      {
        kind: "attach",
        deviceIds: ["d1", "d2", "d3"],
        generations: [1, 2, 3].map((step) => unknownGeneration + step),
        tabletGeneration: answer.tabletGeneration,
      },
    ]);
    expect(attached.deviceGeneration).to.equal(unknownGeneration + 3);
    expect([...agent.held]).to.deep.equal(["d1", "d2", "d3"]);
    expect(await add()).to.equal("ACTION_CODE_S_ALREADY");

    const first = await remove();
    expect(first?.code).to.equal("ACTION_CODE_E_TRY_AGAIN");
    expect(first?.retryAfterMs).to.be.above(0);
    await eventually(async () => expect((await remove())?.code).to.equal("ACTION_CODE_S_OK"));
    expect(agent.held.size).to.equal(0);
    expect((await inState("d1", AttachState.DETACHED)).detachConfirmed).to.equal(true);
  });

  it("an attach that fails -> tried again until it works, with attempts and error to be seen", async () => {
    const agent = await registry.agent("h1", ["d1", "d2"]);
    await agent.register();
    let failing = true;
    agent.before = async (kind) => (kind === "attach" && failing ? OrderOutcome.IO_ERROR : undefined);
    await add();
    const seen = await eventually(async () => {
      const device = await registry.device("d1");
      // By then the longest delay is reached.
      expect(device.attempts).to.be.at.least(5);
      return device;
    });
    expect(seen).to.include({ attachState: AttachState.ATTACHING, lastError: "IO_ERROR: as told by the test" });
    const ordersBefore = agent.received.length;
    // Callers who ask again and again do not make the tries come faster.
    for (let i = 0; i < 20; i++) {
      await add();
      await delay(30);
    }
    const ordersMeanwhile = agent.received.length - ordersBefore;
    expect(ordersMeanwhile, "tries back off, here to 100 ms at least").to.be.within(1, 12);
    failing = false;
    expect(await inState("d1", AttachState.ATTACHED)).to.include({ attempts: 0, lastError: "" });
    const attaches = agent.received.filter((order) => order.kind === "attach");
    expect(
      new Set(attaches.map((order) => order.deviceIds.join())).size,
      "what fails together is tried together",
    ).to.equal(1);
    expect(
      new Set(attaches.flatMap((order) => order.generations)).size,
      "all tries carry one generation each",
    ).to.equal(2);
  });

  it("an agent that is down -> attached by itself once it is back, under the same generation", async () => {
    const agent = await registry.agent("h1", ["d1"]);
    await agent.register();
    await agent.stop();
    await add();
    const waiting = await eventually(async () => {
      const device = await registry.device("d1");
      expect(device.attempts).to.be.at.least(1);
      return device;
    });
    expect(waiting.lastError).to.contain("127.0.0.1");
    await agent.start();
    await agent.register();
    expect((await inState("d1", AttachState.ATTACHED)).deviceGeneration).to.equal(waiting.deviceGeneration);
  });

  it("killed in the middle of an attach -> goes on after the restart, with a higher tablet generation", async () => {
    const agent = await registry.agent("h1", ["d1", "d2"]);
    await agent.register();
    let hang = true;
    const reached = new Promise<void>((resolve) => {
      agent.before = async (kind) => {
        if (kind === "attach" && hang) {
          resolve();
          await new Promise((_, reject) => setTimeout(() => reject(new UnavailableError("gone")), 500));
        }
        return undefined;
      };
    });
    await add();
    await reached;
    const before = await registry.device("d1");
    await registry.process.kill();
    hang = false;
    await registry.process.start();
    // Nobody registers: what was pending goes on from the registry's own state.
    const after = await inState("d1", AttachState.ATTACHED);
    expect(after.deviceGeneration).to.equal(before.deviceGeneration);
    expect(after.tabletGeneration).to.equal(before.tabletGeneration + 1);
    expect(agent.orders.get("d1")?.stamp.tabletGeneration).to.equal(after.tabletGeneration);
  });

  it("a confirmation that comes after RemoveDevice -> changes nothing; the detach follows", async () => {
    const agent = await registry.agent("h1", ["d1"]);
    await agent.register();
    let release: () => void = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const reached = new Promise<void>((resolve) => {
      agent.before = async (kind) => {
        if (kind === "attach") {
          resolve();
          await released;
        }
        return undefined;
      };
    });
    await add();
    await reached;
    const request = { hostId: "h1", deviceId: "d1", path: "", dryRun: false };
    expect((await registry.operator.removeDevice(request)).result?.code).to.equal("ACTION_CODE_E_TRY_AGAIN");
    const states: string[] = [];
    const watching = setInterval(async () => states.push((await registry.device("d1")).attachState), 5);
    release();
    await inState("d1", AttachState.DETACHED);
    clearInterval(watching);
    expect(states).not.to.include(AttachState.ATTACHED);
    expect(agent.held.has("d1")).to.equal(false);
    expect(agent.received.map((order) => order.kind).slice(-2)).to.deep.equal(["attach", "detach"]);
  });

  it("an answer that carries another stamp -> not believed", async () => {
    const agent = await registry.agent("h1", ["d1"]);
    await agent.register();
    let lying = true;
    agent.before = async (kind, request) => {
      // Reaches into the request that is answered: the stamp of the answer becomes an older one.
      const stamp = request.devices[0]?.stamp;
      if (kind === "attach" && lying && stamp) stamp.deviceGeneration -= 1;
      return undefined;
    };
    await add();
    await eventually(async () => {
      const device = await registry.device("d1");
      expect(device.attempts).to.be.at.least(2);
      expect(device).to.include({ attachState: AttachState.ATTACHING });
      expect(device.lastError).to.contain("does not name the attach");
    });
    lying = false;
    await inState("d1", AttachState.ATTACHED);
  });

  it("registers without holding an ATTACHED device -> attached again under the next generation", async () => {
    const agent = await readyAgent("h1", ["d1"]);
    const before = await registry.device("d1");
    agent.held.clear();
    const answer = await agent.register();
    expect(answer.allowedDevices.map((device) => device.stamp?.deviceGeneration)).to.deep.equal([
      before.deviceGeneration + 1,
    ]);
    await inState("d1", AttachState.ATTACHED);
  });

  it("a device id of another host -> not taken over, and the agent is told whose it is", async () => {
    await readyAgent("h1", ["d1"]);
    const second = await registry.agent("h2", ["d1"]);
    const answer = await second.register();
    expect(answer.unknownDevices[0]?.reason).to.contain("belongs to host h1");
    expect(second.held.size).to.equal(0);
    expect((await registry.device("d1")).hostId).to.equal("h1");
    const request = { hostId: "h2", deviceId: "d1", path: "", dryRun: false };
    const { result } = await registry.operator.addDevice(request);
    expect(result?.code).to.equal("ACTION_CODE_E_ARGUMENT");
    expect(result?.message).to.contain("belongs to host h1");
  });

  it("dry run -> the same answer, and nothing happens", async () => {
    const agent = await registry.agent("h1", ["d1"]);
    await agent.register();
    expect((await registry.operator.addHost({ hostId: "h1", dryRun: true })).result?.code).to.equal("ACTION_CODE_S_OK");
    expect((await registry.device("d1")).attachState).to.equal(AttachState.UNKNOWN);
    await add();
    await inState("d1", AttachState.ATTACHED);
    expect((await registry.operator.removeHost({ hostId: "h1", dryRun: true })).result?.code).to.equal(
      "ACTION_CODE_E_TRY_AGAIN",
    );
    expect((await registry.device("d1")).attachState).to.equal(AttachState.ATTACHED);
    expect((await registry.operator.purgeHost({ hostId: "h1", dryRun: true, force: false })).result?.code).to.equal(
      "ACTION_CODE_S_OK",
    );
    expect((await registry.device("d1")).attachState).to.equal(AttachState.ATTACHED);
  });

  it("purged host -> its agent's heartbeat says NOT_FOUND; registered again, everything is UNKNOWN and let go", async () => {
    const agent = await readyAgent("h1", ["d1"]);
    const { deviceGeneration } = await registry.device("d1");
    await registry.operator.purgeHost({ hostId: "h1", dryRun: false, force: false });
    await rejected(agent.heartbeat(), "NotFoundError");
    await agent.register();
    expect(agent.held.size).to.equal(0);
    const device = await registry.device("d1");
    expect(device.attachState).to.equal(AttachState.UNKNOWN);
    expect(device.deviceGeneration).to.be.above(deviceGeneration);
  });

  it("silence -> UNAVAILABLE, a heartbeat -> ONLINE; removal of a silent host -> DETACHED unconfirmed after the timeout, let go when it is back", async () => {
    registry = await TestRegistry.start({
      heartbeat: { intervalMs: 50, timeoutMs: 1_000, probationMs: 0 },
      unavailableRemovalTimeoutMs: 1_500,
    });
    const agent = await registry.agent("h1", ["d1"]);
    agent.startHeartbeats(50);
    await agent.register();
    await add();
    await inState("d1", AttachState.ATTACHED);
    const hostState = async () => (await registry.operator.getHost({ hostId: "h1" })).host?.state;
    agent.stopHeartbeats();
    await eventually(async () => expect(await hostState()).to.equal(HostState.UNAVAILABLE));
    await agent.heartbeat();
    expect(await hostState()).to.equal(HostState.ONLINE);
    await eventually(async () => expect(await hostState()).to.equal(HostState.UNAVAILABLE));
    const waiting = await remove();
    expect(waiting?.code).to.equal("ACTION_CODE_E_TRY_AGAIN");
    expect(waiting?.message).to.contain("UNAVAILABLE");
    const removed = await eventually(async () => {
      const result = await remove();
      expect(result?.code).to.equal("ACTION_CODE_S_OK");
      return result;
    });
    expect(removed?.message).to.contain("may still hold: d1");
    expect(agent.held.has("d1")).to.equal(true);
    await agent.register();
    expect(agent.held.has("d1")).to.equal(false);
    await eventually(async () => expect((await registry.device("d1")).detachConfirmed).to.equal(true));
  });

  it("an earlier start of the agent -> ABORTED, and orders to it are refused until it registers", async () => {
    const agent = await readyAgent("h1", ["d1"]);
    await rejected(agent.heartbeat("h1", "some-other-boot"), "AbortedError");
    await agent.stop();
    await agent.start();
    await rejected(agent.heartbeat(), "AbortedError");
    await remove();
    await eventually(async () => expect((await registry.device("d1")).lastError).to.contain("is over"));
    await agent.register();
    await inState("d1", AttachState.DETACHED);
  });

  it("a disk -> erased devices, published, fenced, freed dirty, erased under a higher session", async () => {
    const one = await readyAgent("h1", ["d1"]);
    const two = await readyAgent("h2", ["d2"]);
    const erased = one.sessions.get("d1")?.sessionNumber ?? 0;
    expect(erased, "the first erase had its own session").to.be.above(0);

    const { disk } = await create("x", { sizeBytes: 100 * MIB, labels: [{ name: "app", value: "db" }] });
    expect(disk).to.deep.include({
      sizeBytes: 128 * MIB,
      requestedSizeBytes: 100 * MIB,
      deviceIds: ["d1", "d2"],
      health: "HEALTH_ONLINE",
    });
    expect((await create("x", { sizeBytes: 100 * MIB })).disk?.deviceIds).to.deep.equal(["d1", "d2"]);
    await rejected(create("x", { sizeBytes: 1 }), "AlreadyExistsError");

    const published = (await registry.operator.publishDisk({ diskId: "x", hostId: "h2" })).disk?.publication;
    expect(published).to.include({ state: PublicationState.PUBLISHED, hostId: "h2", exportPath: "/run/x.sock" });
    const session = published?.sessionNumber ?? 0;
    expect(session).to.be.above(erased);
    for (const granted of [one.sessions.get("d1"), two.sessions.get("d2")]) {
      expect(granted).to.deep.equal({ sessionNumber: session, holderHostId: "h2" });
    }
    expect(two.exports.get("x")).to.equal(session);
    expect(
      (await registry.operator.publishDisk({ diskId: "x", hostId: "h2" })).disk?.publication?.sessionNumber,
    ).to.equal(session);
    await rejected(registry.operator.publishDisk({ diskId: "x", hostId: "h1" }), "InvalidStateError");
    await rejected(registry.operator.deleteDisk({ diskId: "x" }), "InvalidStateError");
    expect(
      (await registry.operator.listDisks({ hostId: "h2", pageSize: 0, pageToken: "" })).disks.map((d) => d.diskId),
    ).to.deep.equal(["x"]);

    expect((await registry.operator.unpublishDisk({ diskId: "x", hostId: "h1" })).disk?.publication?.hostId).to.equal(
      "h2",
    );
    expect((await registry.operator.unpublishDisk({ diskId: "x", hostId: "" })).disk?.publication).to.equal(undefined);
    const fence = one.sessions.get("d1");
    expect(fence?.holderHostId).to.equal("");
    expect(fence?.sessionNumber).to.be.above(session);
    expect(two.exports.has("x")).to.equal(false);

    await registry.operator.deleteDisk({ diskId: "x" });
    await registry.operator.deleteDisk({ diskId: "x" });
    await clean("d1", "d2");
    expect(one.sessions.get("d1")?.sessionNumber).to.be.above(fence?.sessionNumber ?? 0);
    expect((await registry.device("d1")).diskId).to.equal("");
  });

  it("only dirty devices -> RESOURCE_EXHAUSTED that says when to ask again", async () => {
    const agent = await registry.agent("h1", ["d1"]);
    agent.beforeErase = async () => OrderOutcome.PENDING;
    await agent.register();
    await add();
    await inState("d1", AttachState.ATTACHED);
    const error = await rejected(create("x"), "ResourceExhaustedError");
    expect(error.message).to.contain("1 devices are being erased");
    expect(error.retryAfterMs).to.equal(1_000);
    agent.beforeErase = async () => undefined;
    await clean("d1");
    await create("x");
  });

  it("an erase that fails, then is outdated -> tried again under a new session; its error is to be seen", async () => {
    const agent = await registry.agent("h1", ["d1"]);
    agent.beforeErase = async () => {
      throw new DeviceIoError("EIO on /dev/d1");
    };
    await agent.register();
    await add();
    await eventually(async () => expect((await registry.device("d1")).lastError).to.contain("erase: EIO on /dev/d1"));
    const before = agent.sessions.get("d1")?.sessionNumber ?? 0;
    let outdated = 2;
    agent.beforeErase = async () => (outdated-- > 0 ? OrderOutcome.OUTDATED : undefined);
    await clean("d1");
    expect(agent.sessions.get("d1")?.sessionNumber).to.be.above(before + 1);
    expect((await registry.device("d1")).lastError).to.equal("");
  });

  it("an erase that the device fails -> tried again under a new session", async () => {
    const agent = await registry.agent("h1", ["d1"]);
    const sessions: number[] = [];
    agent.beforeErase = async (request) => {
      sessions.push(request.sessionNumber);
      return sessions.length === 1 ? OrderOutcome.IO_ERROR : undefined;
    };
    await agent.register();
    await add();
    await clean("d1");
    expect(sessions[1]).to.be.above(sessions[0] ?? 0);
  });

  it("the publishing host restarts -> published again under a new session, by itself", async () => {
    const agent = await readyAgent("h1", ["d1"]);
    await create("x");
    const first =
      (await registry.operator.publishDisk({ diskId: "x", hostId: "h1" })).disk?.publication?.sessionNumber ?? 0;
    await agent.stop();
    await agent.start();
    await agent.register();
    await eventually(async () => {
      const { publication } = await registry.disk("x");
      expect(publication?.state).to.equal(PublicationState.PUBLISHED);
      expect(publication?.sessionNumber).to.be.above(first);
    });
    expect(agent.exports.get("x")).to.be.above(first);
  });

  it("registers with an export that nobody wants -> ended", async () => {
    const agent = await readyAgent("h1", ["d1"]);
    agent.exports.set("ghost", 3);
    await agent.register();
    await eventually(() => expect(agent.exports.has("ghost")).to.equal(false));
  });

  it("a device's host is away -> unpublish waits, says for whom, and completes when it is back; publish elsewhere only then", async () => {
    registry = await TestRegistry.start({ heartbeat: { intervalMs: 50, timeoutMs: 3_000 } });
    const one = await readyAgent("h1", ["d1"]);
    await readyAgent("h2", []);
    await create("x");
    await registry.operator.publishDisk({ diskId: "x", hostId: "h2" });
    await one.stop();
    const error = await rejected(
      registry.operator.unpublishDisk({ diskId: "x", hostId: "" }, { deadlineMs: 8_000 }),
      "UnavailableError",
    );
    expect(error.message).to.contain("disk x is still UNPUBLISHING").and.to.contain("h1");
    expect((await registry.disk("x")).publication?.lastError).to.contain("host h1 of device d1 is UNAVAILABLE");
    await rejected(registry.operator.deleteDisk({ diskId: "x" }), "InvalidStateError");
    const later = registry.operator.publishDisk({ diskId: "x", hostId: "h2" });
    await one.start();
    await one.register();
    one.startHeartbeats(50);
    expect((await later).disk?.publication?.state).to.equal(PublicationState.PUBLISHED);
    expect(one.sessions.get("d1")?.holderHostId).to.equal("h2");
  });

  it("a session that an agent calls outdated -> published under a newer one", async () => {
    const agent = await readyAgent("h1", ["d1"]);
    await create("x");
    const seen = (agent.sessions.get("d1")?.sessionNumber ?? 0) + 4;
    agent.sessions.set("d1", { sessionNumber: seen, holderHostId: "" });
    const { disk } = await registry.operator.publishDisk({ diskId: "x", hostId: "h1" });
    expect(disk?.publication?.state).to.equal(PublicationState.PUBLISHED);
    expect(disk?.publication?.sessionNumber).to.be.at.least(seen);
    expect(agent.sessions.get("d1")?.sessionNumber).to.equal(disk?.publication?.sessionNumber);
  });

  it("killed while publishing -> goes on after the restart; acknowledged disks are all there", async () => {
    const agent = await readyAgent("h1", ["d1", "d2"]);
    await create("x");
    await create("y");
    const reached = new Promise<void>((resolve) => {
      agent.beforeExport = async () => {
        resolve();
        await new Promise((_, reject) => setTimeout(() => reject(new UnavailableError("slow")), 300));
      };
    });
    const lost = registry.operator.publishDisk({ diskId: "x", hostId: "h1" }).catch(() => {});
    await reached;
    await registry.process.kill();
    await lost;
    agent.beforeExport = async () => {};
    await registry.process.start();
    await eventually(async () =>
      expect((await registry.disk("x")).publication?.state).to.equal(PublicationState.PUBLISHED),
    );
    expect((await registry.disk("y")).deviceIds).to.deep.equal(["d2"]);
  });

  it("unpublish while publishing hangs -> the late export is not believed", async () => {
    const agent = await readyAgent("h1", ["d1"]);
    await create("x");
    let release: () => void = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const reached = new Promise<void>((resolve) => {
      agent.beforeExport = async () => {
        resolve();
        await released;
      };
    });
    const publishing = rejected(registry.operator.publishDisk({ diskId: "x", hostId: "h1" }), "AbortedError");
    await reached;
    const unpublishing = registry.operator.unpublishDisk({ diskId: "x", hostId: "" });
    await publishing;
    release();
    expect((await unpublishing).disk?.publication).to.equal(undefined);
    await eventually(() => expect(agent.exports.has("x")).to.equal(false));
  });

  it("assigned hosts -> one per VM, given back", async () => {
    await readyAgent("h1", ["d1"]);
    const dispatcher = registry.client("cpi-dispatcher");
    const assign = (vmCid: string) => dispatcher.assignHost({ vmCid, az: "z1", diskIds: [] });
    expect((await assign("vm-1")).host).to.deep.include({ hostId: "h1" });
    expect((await assign("vm-1")).host?.assignment?.vmCid).to.equal("vm-1");
    await rejected(assign("vm-2"), "ResourceExhaustedError");
    await dispatcher.unassignHost({ vmCid: "vm-1" });
    expect((await assign("vm-2")).host?.hostId).to.equal("h1");
  });

  it("lists -> pages by key, with filters; every page token leads on", async () => {
    const deviceIds = Array.from({ length: 7 }, (_, i) => `d${i}`);
    await readyAgent("h1", deviceIds);
    await readyAgent("h2", ["e1"]);
    const seen: string[] = [];
    let pageToken = "";
    do {
      const page = await registry.operator.listDevices({
        hostId: "h1",
        attachState: AttachState.ATTACHED,
        pool: "default",
        pageSize: 3,
        pageToken,
      });
      seen.push(...page.devices.map((device) => device.deviceId));
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
    expect(seen).to.deep.equal(deviceIds);
    const hosts = await registry.operator.listHosts({ az: "", vmCid: "", pageSize: 0, pageToken: "" });
    expect(hosts.hosts.map((host) => host.hostId)).to.deep.equal(["h1", "h2"]);
    expect(hosts.nextPageToken).to.equal("");
    const none = await registry.operator.listHosts({ az: "z9", vmCid: "", pageSize: 1, pageToken: "" });
    expect(none.hosts).to.deep.equal([]);
  });

  it("a second process on the same state -> one clear line, and the first goes on", async () => {
    await readyAgent("h1", ["d1"]);
    const second = await TestRegistry.start({ tablet: (registry.config as { tablet: object }).tablet }).then(
      () => "it started",
      (error: Error) => error.message,
    );
    expect(second).to.contain("did not start").and.to.contain(String(registry.process.pid));
    expect((await registry.device("d1")).attachState).to.equal(AttachState.ATTACHED);
  });

  it("another process has claimed the state -> the fenced one answers no more and ends with exit code 1", async () => {
    registry = await TestRegistry.start();
    const { tablet } = registry.config as { tablet: { storage: string } };
    // Without its lock nothing but the claim keeps two leaders apart.
    rmSync(join(tablet.storage, "registry", "owner.lock"));
    const second = await TestRegistry.start({ tablet });
    try {
      await eventually(() => expect(registry.process.exit?.code).to.equal(1), { timeoutMs: 10_000 });
      expect(registry.process.logs).to.contain("disk-registry has failed");
      await second.operator.listHosts({ az: "", vmCid: "", pageSize: 0, pageToken: "" });
    } finally {
      await second.stop();
    }
  });

  it("an agent that has obeyed a later leader -> refused, and it is said what to do; no value it has seen is given out again", async () => {
    const agent = await registry.agent("h1", ["d1"]);
    const { tabletId, tabletGeneration } = await agent.register();
    const stamp = { tabletId, tabletGeneration: tabletGeneration + 9, deviceGeneration: 5_000 };
    agent.report = (device) => ({ ...device, stamp });
    const change = { tabletId, highestTabletGeneration: tabletGeneration + 9 };
    const error = await rejected(agent.register(change), "InvalidStateError");
    expect(error.message).to.contain(`obeyed tablet generation ${tabletGeneration + 9}`);
    agent.report = (device) => device;
    const second = await registry.agent("h2", ["d2"]);
    const answer = await second.register();
    expect(answer.unknownDevices[0]?.stamp?.deviceGeneration).to.be.above(5_000);
  });

  it("stopped by SIGTERM -> exit code 0, and all state is there after the next start", async () => {
    await readyAgent("h1", ["d1"]);
    expect((await registry.process.stop()).code).to.equal(0);
    await registry.process.start();
    expect((await registry.device("d1")).attachState).to.equal(AttachState.ATTACHED);
  });
});

async function rejected(promise: Promise<unknown>, name: string): Promise<Error & { retryAfterMs?: number }> {
  try {
    await promise;
  } catch (error) {
    expect((error as Error).name, (error as Error).message).to.equal(name);
    return error as Error;
  }
  throw new Error(`it was not rejected with ${name}`);
}
