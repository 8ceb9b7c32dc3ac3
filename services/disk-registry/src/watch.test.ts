import { AttachState, HostState, type WatchDevicesRequest, type WatchDevicesResponse } from "@diskmesh/api/registry";
import { DomainError, ResourceExhaustedError } from "@diskmesh/domain";
import type { StoredChange } from "@diskmesh/tablet";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import type { RegistryTablet } from "./store/stored-schema.js";
import { SharedRegistry } from "./testing/shared-registry.js";
import { TestRegistry } from "./testing/test-registry.js";
import { Watcher } from "./testing/watcher.js";
import { devicesSeenOtherwise, disksSeenOtherwise, hostsSeenOtherwise, TableChanges } from "./workers/table-changes.js";

describe("WatchDevices", () => {
  let registry: TestRegistry;
  const watchers: Watcher[] = [];

  const watch = (request: Partial<WatchDevicesRequest> = {}): Watcher => {
    const watcher = new Watcher((options) => registry.operator.watchDevices(request, options));
    watchers.push(watcher);
    return watcher;
  };
  const inState = (deviceId: string, state: AttachState) =>
    eventually(async () => expect((await registry.device(deviceId)).attachState).to.equal(state));

  /** Returns a host whose devices are closed and were never added, so that nothing more changes by itself. */
  const letGo = async (hostId: string, deviceIds: string[]) => {
    const agent = await registry.agent(hostId, deviceIds);
    await agent.register();
    for (const deviceId of deviceIds)
      await eventually(async () => expect((await registry.device(deviceId)).detachConfirmed).to.equal(true));
  };

  before(async () => {
    registry = await TestRegistry.start({ tuning: { maxWatchers: 4 } });
  });
  afterEach(async () => {
    for (const watcher of watchers.splice(0)) await watcher.end();
    await registry.reset();
  });
  after(() => registry?.stop());

  it("sends the present devices, then each change", async () => {
    await letGo("h1", ["d1", "d2"]);
    const watcher = watch();
    expect(await watcher.next(4)).to.deep.equal(["begin", "d1 UNKNOWN", "d2 UNKNOWN", "end"]);
    await registry.operator.addDevice({ hostId: "h1", deviceId: "d1" });
    await eventually(() => watcher.seen.includes("d1 ATTACHED"));
    const order = watcher.seen.filter((one) => one.startsWith("d1"));
    expect(order.indexOf("d1 ATTACHING")).to.be.lessThan(order.indexOf("d1 ATTACHED"));
    await registry.operator.purgeHost({ hostId: "h1" });
    await eventually(() => watcher.seen.includes("-d1") && watcher.seen.includes("-d2"));
  });

  it("until now -> ends after what has changed since the token, and sends nothing without a change", async () => {
    await letGo("h1", ["d1"]);
    let resumeToken = "";
    const changed = async () => {
      const messages: WatchDevicesResponse[] = [];
      for await (const each of registry.operator.watchDevices({ resumeToken, untilNow: true })) messages.push(each);
      resumeToken = messages.at(-1)?.resumeToken ?? resumeToken;
      return messages.map(({ update }) => update?.$case);
    };
    expect(await changed()).to.deep.equal(["snapshotBegin", "device", "snapshotEnd"]);
    expect(await changed()).to.deep.equal([]);
    await registry.operator.purgeHost({ hostId: "h1" });
    expect(await changed()).to.deep.equal(["removedDeviceId"]);
  });

  it("sends only what matches a filter, and reports what no longer matches", async () => {
    await letGo("h1", ["d1"]);
    await letGo("h2", ["d2"]);
    const ofHost = watch({ hostId: "h2" });
    const attached = watch({ attachState: AttachState.ATTACHED });
    expect(await ofHost.next(3)).to.deep.equal(["begin", "d2 UNKNOWN", "end"]);
    expect(await attached.next(2)).to.deep.equal(["begin", "end"]);
    await registry.operator.addHost({ hostId: "h1" });
    await eventually(() => attached.seen.includes("d1 ATTACHED"));
    await registry.operator.removeHost({ hostId: "h1", keepData: true });
    await eventually(() => attached.seen.includes("-d1"));
    await inState("d1", AttachState.DETACHED);
    expect(attached.seen.filter((seen) => seen === "-d1").length).to.equal(1);
    expect(ofHost.seen.filter((seen) => seen.includes("d1"))).to.deep.equal([]);
  });

  it("resumes without a snapshot, and sends one for another leader's token", async () => {
    await letGo("h1", ["d1", "d2"]);
    const first = watch();
    await first.next(4);
    await first.end();
    await registry.operator.addDevice({ hostId: "h1", deviceId: "d2" });
    await inState("d2", AttachState.ATTACHED);
    const resumed = watch({ resumeToken: first.lastToken });
    await eventually(() => resumed.seen.includes("d2 ATTACHED"));
    expect(resumed.seen).not.to.include("begin");
    await registry.process.restart();
    await eventually(() => expect(resumed.failure).to.be.instanceOf(DomainError));
    expect((resumed.failure as DomainError).retryable).to.equal(true);
    const later = watch({ resumeToken: resumed.lastToken });
    expect((await later.next(4)).slice(0, 3)).to.deep.equal(["begin", "d1 UNKNOWN", "d2 ATTACHED"]);
  });

  it("refuses a watcher above the limit and a malformed token, and serves the others", async () => {
    const all = [watch(), watch(), watch(), watch()];
    for (const watcher of all) await watcher.next(2);
    const late = watch();
    await eventually(() => expect(late.failure).to.be.instanceOf(ResourceExhaustedError));
    await all[0]?.end();
    // A watcher's place becomes free a little after the watch ends, so a refused watch is retried.
    await eventually(async () => {
      const instead = watch();
      await eventually(() => instead.failure !== undefined || instead.seen.length >= 2);
      expect(instead.failure).to.equal(undefined);
    });
    await all[1]?.end();
    const malformed = watch({ resumeToken: "1.2.3" });
    await eventually(() =>
      expect((malformed.failure as DomainError | undefined)?.name).to.equal("InvalidArgumentError"),
    );
  });
});

describe("WatchHosts and WatchDisks", () => {
  const fleet = SharedRegistry.forAllTests();
  const watchers: Watcher[] = [];
  const watch = (open: ConstructorParameters<typeof Watcher>[0]): Watcher => {
    const watcher = new Watcher(open);
    watchers.push(watcher);
    return watcher;
  };
  const watchHosts = (request: object = {}) => watch((options) => fleet.registry.operator.watchHosts(request, options));
  const watchDisks = (request: object = {}) => watch((options) => fleet.registry.operator.watchDisks(request, options));
  const saysDead = (hostId: string, state: HostState) =>
    fleet.registry.operator.setHostState({ hostIds: [hostId], state, reason: "test" });

  // The shared registry deletes everything after each test; open watches would see that.
  afterEach(async () => {
    for (const watcher of watchers.splice(0)) await watcher.end();
  });

  it("send the present hosts by state, then each change, and resume without a snapshot", async () => {
    await fleet.readyAgent("h1", ["d1"]);
    await fleet.readyAgent("h2", ["e1"]);
    const all = watchHosts();
    const dead = watchHosts({ state: HostState.DEAD });
    expect(await all.next(4)).to.deep.equal(["begin", "h1 ONLINE", "h2 ONLINE", "end"]);
    expect(await dead.next(2)).to.deep.equal(["begin", "end"]);
    await saysDead("h1", HostState.DEAD);
    await eventually(() => all.seen.includes("h1 DEAD") && dead.seen.includes("h1 DEAD"));
    const { hosts } = await fleet.registry.operator.listHosts({ state: HostState.DEAD });
    expect(hosts.map((host) => host.hostId)).to.deep.equal(["h1"]);
    await dead.end();
    await saysDead("h1", HostState.ONLINE);
    const resumed = watchHosts({ state: HostState.DEAD, resumeToken: dead.lastToken });
    await eventually(() => resumed.seen.includes("-h1"));
    expect(resumed.seen).not.to.include("begin");
    await fleet.registry.operator.purgeHost({ hostId: "h2", force: true });
    await eventually(() => all.seen.includes("-h2"));
  });

  it("report a suspected host and the end of its suspicion, although nothing is stored", async () => {
    await fleet.startOwn({ heartbeat: { intervalMs: 100, timeoutMs: 600_000, missedUntilSuspected: 2 } });
    const agent = await fleet.readyAgent("h1", ["d1"]);
    const all = watchHosts();
    agent.stopHeartbeats();
    // A delayed heartbeat on a busy machine may have caused and ended an earlier suspicion.
    await eventually(() => all.seen.at(-1) === "h1 ONLINE, suspected");
    const seen = all.seen.length;
    await eventually(async () => {
      await agent.heartbeat();
      expect(all.seen.slice(seen)).to.include("h1 ONLINE");
    });
  });

  it("send disks by host, each publication, and changes of their health", async () => {
    await fleet.readyAgent("h1", ["d1"]);
    await fleet.readyAgent("h2", ["e1"]);
    const { operator } = fleet.registry;
    await fleet.createDisk("a", { hostId: "h1" });
    const all = watchDisks();
    const ofH2 = watchDisks({ hostId: "h2" });
    expect(await all.next(3)).to.deep.equal(["begin", "a ONLINE", "end"]);
    expect(await ofH2.next(2)).to.deep.equal(["begin", "end"]);
    await operator.publishDisk({ diskId: "a", hostId: "h2" });
    await eventually(() => ofH2.seen.includes("a ONLINE PUBLISHED"));
    // The host's state changes, and no stored field of the disk.
    await saysDead("h1", HostState.DEAD);
    await eventually(() => ofH2.seen.includes("a ERROR PUBLISHED"));
    await saysDead("h1", HostState.ONLINE);
    await operator.purgeHost({ hostId: "h1", force: true });
    await operator.unpublishDisk({ diskId: "a" });
    await eventually(() => ofH2.seen.includes("-a"));
    await operator.deleteDisk({ diskId: "a" });
    await eventually(() => all.seen.includes("-a"));
  });

  it("refuse the token of another kind, and count watchers of all kinds together", async () => {
    await fleet.startOwn({ tuning: { maxWatchers: 2 } });
    const hosts = watchHosts();
    await hosts.next(2);
    const mixed = watchDisks({ resumeToken: hosts.lastToken });
    await eventually(() => expect((mixed.failure as DomainError | undefined)?.name).to.equal("InvalidArgumentError"));
    const disks = watchDisks();
    await disks.next(2);
    const late = watchHosts();
    await eventually(() => expect(late.failure).to.be.instanceOf(ResourceExhaustedError));
  });
});

describe("the list of changes", () => {
  const NO_COMMIT = { transactions: 1, sizeBytes: 0, durationMs: 0 };
  const changesOf = (...keys: string[]): StoredChange[] =>
    keys.map((key) => ({ table: "devices", key, document: {}, version: 1, previous: null }));
  const listOf = (max: number) => {
    let tell: Parameters<RegistryTablet["watch"]>[0] = () => {};
    const list = new TableChanges(
      {
        watch: (listener) => {
          tell = listener;
          return () => {};
        },
      },
      max,
      devicesSeenOtherwise,
    );
    return { list, tell: (...keys: string[]) => tell(changesOf(...keys), NO_COMMIT) };
  };

  it("returns each device once, from the position on, up to the maximum", () => {
    const { list, tell } = listOf(10);
    tell("a", "b", "a");
    expect(list.since(0, 10)).to.deep.equal({ keys: ["a", "b"], position: 3 });
    expect(list.since(1, 1)).to.deep.equal({ keys: ["b"], position: 2 });
    expect(list.since(3, 10)).to.deep.equal({ keys: [], position: 3 });
  });

  it("returns undefined for a forgotten or invalid position, and stays bounded", () => {
    const { list, tell } = listOf(2);
    for (let index = 0; index < 100; index++) tell(`d${index}`);
    expect(list.since(0, 10)).to.equal(undefined);
    expect(list.since(101, 10)).to.equal(undefined);
    expect(list.since(98, 10)).to.deep.equal({ keys: ["d98", "d99"], position: 100 });
  });

  const of = (table: string, key: string, before: object | null, document: object | null): StoredChange => ({
    table,
    key,
    document,
    version: 1,
    previous: before && { document: before, version: 1 },
  });
  const device = { deviceId: "d", hostId: "h", runs: [{ first: 0, diskId: "x" }] };
  const host = { hostId: "h", state: "ONLINE" };
  for (const [what, change, hosts, devices, disks] of [
    ["a device", of("devices", "d", device, device), [], ["d"], ["x"]],
    [
      "a device that is to be removed",
      of("devices", "d", { ...device, removalRequested: true }, null),
      ["h"],
      ["d"],
      ["x"],
    ],
    ["a host's labels", of("hosts", "h", host, { ...host, az: "z2" }), ["h"], [], []],
    ["a host's state", of("hosts", "h", host, { ...host, state: "DEAD" }), ["h"], ["on host h"], ["on host h"]],
    [
      "a host must register",
      of("hosts", "h", host, { ...host, mustRegister: true }),
      ["h"],
      ["on host h"],
      ["on host h"],
    ],
    ["where a disk is published", of("disks", "x", {}, { publication: { hostId: "h" } }), ["h"], [], ["x"]],
    [
      "how far a publication is",
      of("disks", "x", { publication: { hostId: "h" } }, { publication: { hostId: "h" } }),
      [],
      [],
      ["x"],
    ],
  ] as const)
    it(`${what} changes -> hosts [${hosts}], devices [${devices}] and disks [${disks}] are updated`, () => {
      expect(hostsSeenOtherwise(change)).to.deep.equal(hosts);
      expect(devicesSeenOtherwise(change)).to.deep.equal(devices);
      expect(disksSeenOtherwise(change)).to.deep.equal(disks);
    });
});
