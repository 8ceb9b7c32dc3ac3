import {
  Device,
  Host,
  HostState,
  type MassSilence,
  type WatchDevicesResponse,
  type WatchHostsResponse,
} from "@diskmesh/api/registry";
import { TimeoutError, UnavailableError } from "@diskmesh/domain";
import { ManualClock } from "@diskmesh/domain/testing";
import type { RowKind, Rows } from "@diskmesh/page/rows";
import { expect } from "chai";
import { Fleet } from "./fleet.js";
import { RowCache } from "./row-cache.js";

const DEVICES = 1_000;
const HOUR_MS = 3_600_000;

/** Counts the updates of host rows and records the source rows. */
class NotingRowCache extends RowCache {
  hostsSet = 0;
  readonly sources: Rows["source"][] = [];
  readonly last = new Map<string, unknown>();

  override set<Kind extends RowKind>(kind: Kind, name: string, row: Rows[Kind] | undefined): void {
    if (kind === "host") this.hostsSet++;
    if (kind === "source") this.sources.push(row as Rows["source"]);
    this.last.set(`${kind} ${name}`, row);
    super.set(kind, name, row);
  }
}

type Stream = (resumeToken: string) => AsyncIterable<unknown>;

async function* endless(...messages: readonly unknown[]): AsyncIterable<unknown> {
  yield* messages;
  await new Promise(() => {});
}

const begin = { update: { $case: "snapshotBegin", value: {} }, resumeToken: "" };
const end = (resumeToken: string) => ({ update: { $case: "snapshotEnd", value: {} }, resumeToken });
const hostMessage = (hostId: string): WatchHostsResponse => ({
  update: { $case: "host", value: Host.fromPartial({ hostId, state: "HOST_STATE_ONLINE" }) },
  resumeToken: "",
});
const deviceMessage = (deviceId: string, attachState = "ATTACH_STATE_ATTACHED"): WatchDevicesResponse => ({
  update: {
    $case: "device",
    value: Device.fromPartial({ deviceId, hostId: "h", attachState: attachState as Device["attachState"] }),
  },
  resumeToken: "",
});

describe("rows of a disk registry's hosts", () => {
  let ended: AbortController;
  beforeEach(() => {
    ended = new AbortController();
  });
  afterEach(() => ended.abort());

  function follow(streams: {
    readonly hosts?: Stream;
    readonly devices?: Stream;
    readonly explain?: () => unknown;
    readonly read?: () => unknown;
  }): {
    readonly rowCache: NotingRowCache;
    readonly clock: ManualClock;
  } {
    const [rowCache, clock] = [new NotingRowCache(), new ManualClock()];
    const all = () => endless(begin, end("t.1"));
    const watch =
      (stream: Stream = all) =>
      ({ resumeToken = "" }) =>
        stream(resumeToken);
    const registry = {
      watchHosts: watch(streams.hosts),
      watchDevices: watch(streams.devices),
      watchDisks: watch(),
      listHosts: async () => streams.read?.() ?? {},
    };
    const admin = { explain: async () => streams.explain?.() ?? { summary: "", causes: [] } };
    new Fleet("disk-registry", { registry, admin } as never, rowCache, clock, ended.signal).start();
    return { rowCache, clock };
  }

  it("changes of many devices of a host -> few updates of its row, with all of them, in order", async () => {
    const ids = Array.from({ length: DEVICES }, (_, index) => `d${String(DEVICES - index).padStart(5, "0")}`);
    const { rowCache, clock } = follow({
      hosts: () => endless(begin, hostMessage("h"), end("hosts.1")),
      devices: () =>
        endless(
          begin,
          ...ids.map((id) => deviceMessage(id, id === "d00002" ? "ATTACH_STATE_CLOSING" : undefined)),
          end("devices.1"),
        ),
    });
    await clock.advance(1);
    expect(clock.sleepers).to.be.below(10);
    await clock.advance(1_000);
    expect(rowCache.last.get("host h")).to.include({ state: "online", devices: `ac${"a".repeat(DEVICES - 2)}` });
    expect(rowCache.hostsSet).to.be.below(10);
  });

  it("a watch that reaches its own deadline -> resumed, and no source is shown as silent", async () => {
    const tokens: string[] = [];
    const { rowCache, clock } = follow({
      hosts: async function* (resumeToken) {
        tokens.push(resumeToken);
        if (resumeToken === "") yield* [begin, hostMessage("h"), end("hosts.1")];
        await clock.sleep(HOUR_MS, ended.signal);
        throw new TimeoutError("the deadline has passed");
      },
    });
    await clock.advance(3.5 * HOUR_MS);
    expect(tokens).to.deep.equal(["", "hosts.1", "hosts.1", "hosts.1"]);
    expect(rowCache.sources.map(({ state }) => state)).not.to.include("silent");
    expect(rowCache.sources.at(-1)).to.deep.equal({ state: "live" });
  });

  it("a registry without a leader -> its missing dependency, since when, and the remedy, until it is watched again", async () => {
    let isLed = false;
    const since = new Date(7_000);
    const cures = [{ what: "start the database", command: "" }];
    const message = "the disk-registry that was asked lacks its database: it has not answered";
    const { rowCache, clock } = follow({
      hosts: async function* () {
        if (!isLed) throw new UnavailableError("nobody leads");
        yield* endless(begin, end("hosts.1"));
      },
      explain: () => ({ summary: "", causes: [{ message, since, cures }] }),
    });
    await clock.advance(1_000);
    expect(rowCache.sources.at(-1)).to.deep.equal({
      state: "silent",
      trouble: `shown is what it said last; ${message}: start the database`,
      sinceMs: 7_000,
      cures,
    });
    isLed = true;
    await clock.advance(60_000);
    expect(rowCache.sources.at(-1)).to.deep.equal({ state: "live" });
  });

  it("open watches of a registry that cannot read its data -> shown likewise; live once it can", async () => {
    let canRead = true;
    const { rowCache, clock } = follow({
      read: () => {
        if (!canRead) throw new UnavailableError("the lease has ended");
        return {};
      },
    });
    await clock.advance(10_000);
    expect(rowCache.sources.at(-1)).to.deep.equal({ state: "live" });
    canRead = false;
    await clock.advance(10_000);
    const trouble = "shown is what it said last; reads: the lease has ended";
    expect(rowCache.sources.at(-1)).to.deep.equal({ state: "silent", trouble, sinceMs: 11_000 });
    canRead = true;
    await clock.advance(10_000);
    expect(rowCache.sources.at(-1)).to.deep.equal({ state: "live" });
  });

  it("most hosts are silent -> their number, the start and the remedy, while all is live, until it is over", async () => {
    let massSilence: MassSilence | undefined = { since: new Date(7_000), silentHosts: 6, hosts: 10 };
    const { rowCache, clock } = follow({ read: () => ({ massSilence }) });
    await clock.advance(2_000);
    expect(rowCache.sources.at(-1)).to.deep.equal({
      state: "live",
      trouble:
        "6 of 10 hosts are silent: none of them is marked UNAVAILABLE, and none gets new disks: check the network and the power; or mark the dead hosts: diskmesh set-host-state dead HOST --reason WHY",
      sinceMs: 7_000,
      cures: [
        { what: "check the network and the power", command: "" },
        { what: "mark the dead hosts", command: "diskmesh set-host-state dead HOST --reason WHY" },
      ],
    });
    massSilence = undefined;
    await clock.advance(2_000);
    expect(rowCache.sources.at(-1)).to.deep.equal({ state: "live" });
  });

  it("a suspected host -> shown with the registry's text; a dead host is shown as dead", async () => {
    const trouble = { code: "HEARTBEATS_MISSED", sentence: "two heartbeats are missing", since: new Date(5_000) };
    const message = (hostId: string, state: HostState): WatchHostsResponse => ({
      update: { $case: "host", value: Host.fromPartial({ hostId, state, suspected: true, trouble }) },
      resumeToken: "",
    });
    const { rowCache, clock } = follow({
      hosts: () => endless(begin, message("h", HostState.ONLINE), message("d", HostState.DEAD), end("hosts.1")),
    });
    await clock.advance(1_000);
    const suspected = { state: "suspected", trouble: trouble.sentence, sinceMs: 5_000 };
    expect(rowCache.last.get("host h")).to.include(suspected);
    expect(rowCache.last.get("host d")).to.include({ state: "dead" });
  });

  it("a host to be removed -> done once the registry reports no trouble", async () => {
    const message = (hostId: string, trouble: object | undefined): WatchHostsResponse => ({
      update: {
        $case: "host",
        value: Host.fromPartial({ hostId, state: "HOST_STATE_ONLINE", removalRequested: true, ...trouble }),
      },
      resumeToken: "",
    });
    const waits = { trouble: { code: "REMOVAL_WAITS", sentence: "it serves 1 disk" } };
    const { rowCache, clock } = follow({
      hosts: () => endless(begin, message("h", waits), message("left", undefined), end("hosts.1")),
    });
    await clock.advance(1_000);
    expect(rowCache.last.get("host h")).to.include({ removal: "wanted", trouble: "it serves 1 disk" });
    expect(rowCache.last.get("host left")).to.include({ removal: "done" }).and.not.to.have.property("trouble");
  });

  it("no process of the registry answers -> the reason", async () => {
    const { rowCache, clock } = follow({
      hosts: () => {
        throw new UnavailableError("no connection");
      },
      explain: () => {
        throw new UnavailableError("no connection");
      },
    });
    await clock.advance(1_000);
    expect(rowCache.sources.at(-1)?.trouble).to.match(/^shown is what it said last; hosts: no connection$/);
  });

  it("the registry goes away and comes back -> silent, then live without a change, and deleted objects are gone", async () => {
    let isThere = true;
    let breakIt = (): void => {};
    const { rowCache, clock } = follow({
      hosts: async function* (resumeToken) {
        if (!isThere) throw new UnavailableError("no connection");
        const broken = new Promise<void>((resolve) => {
          breakIt = resolve;
        });
        // A resumed watch sends nothing until a change.
        if (resumeToken === "") yield* [begin, hostMessage(rowCache.last.has("host a") ? "b" : "a"), end("hosts.1")];
        await broken;
        throw new UnavailableError("the connection broke");
      },
    });
    await clock.advance(1_000);
    expect(rowCache.last.get("host a")).to.include({ state: "online" });
    isThere = false;
    breakIt();
    await clock.advance(60_000);
    expect(rowCache.sources.at(-1)).to.include({ state: "silent" });
    isThere = true;
    await clock.advance(60_000);
    expect(rowCache.sources.at(-1)).to.deep.equal({ state: "live" });
    expect(rowCache.last.get("host b")).to.include({ state: "online" });
    expect(rowCache.last.get("host a")).to.equal(undefined);
  });
});
