import { Device, Host, type MassSilence } from "@diskmesh/api/registry";
import { UnavailableError } from "@diskmesh/domain";
import { ManualClock } from "@diskmesh/domain/testing";
import type { Rows } from "@diskmesh/page/rows";
import { expect } from "chai";
import { Fleet } from "./fleet.js";
import { RowCache } from "./row-cache.js";

const begin = { update: { $case: "snapshotBegin", value: {} }, resumeToken: "" };
const end = (resumeToken: string) => ({ update: { $case: "snapshotEnd", value: {} }, resumeToken });
const hostMessage = (hostId: string, more: object = {}, resumeToken = "") => ({
  update: { $case: "host", value: Host.fromPartial({ hostId, state: "HOST_STATE_ONLINE", ...more }) },
  resumeToken,
});
const removed = (hostId: string, resumeToken: string) => ({
  update: { $case: "removedHostId", value: hostId },
  resumeToken,
});
const deviceMessage = (deviceId: string, attachState: string, resumeToken = "") => ({
  update: {
    $case: "device",
    value: Device.fromPartial({ deviceId, hostId: "h", attachState: attachState as Device["attachState"] }),
  },
  resumeToken,
});

type Read = (resumeToken: string) => readonly unknown[];

describe("rows of a disk registry", () => {
  const { signal } = new AbortController();

  function followed(answers: {
    readonly hosts?: Read;
    readonly devices?: Read;
    readonly explain?: () => object;
    readonly read?: () => object;
  }) {
    const [rowCache, clock] = [new RowCache(), new ManualClock(10_000)];
    const watch = (read: Read = (token) => (token === "" ? [begin, end("t.1")] : [])) =>
      async function* ({ resumeToken = "" }) {
        for (const message of read(resumeToken)) {
          if (message instanceof Error) throw message;
          yield message;
        }
      };
    const registry = {
      watchHosts: watch(answers.hosts),
      watchDevices: watch(answers.devices),
      watchDisks: watch(),
      listHosts: async () => answers.read?.() ?? {},
      // An unread capacity hides nothing else.
      getCapacity: async () => Promise.reject(new Error("the answer cannot be decoded")),
    };
    const admin = { explain: async () => answers.explain?.() ?? { summary: "", causes: [] } };
    const fleet = new Fleet("disk-registry", { registry, admin } as never, rowCache, clock);
    const row = (name: string) =>
      [...rowCache.rows()].find(([kind, each]) => `${kind} ${each}` === name)?.[2] as Rows["source" | "host"];
    const source = () => row("source disk-registry") as Rows["source"];
    return { clock, row, source, read: () => fleet.read(signal), vmCids: () => fleet.vmCids() };
  }

  it("a host -> a row with a letter for each device, in order, brought up to date by what changes", async () => {
    const { read, row, source, vmCids } = followed({
      hosts: (token) =>
        token === "" ? [begin, hostMessage("h", { assignment: { vmCid: "vm-1" } }), end("hosts.1")] : [],
      devices: (token) => {
        if (token === "devices.2")
          return [{ update: { $case: "removedDeviceId", value: "d1" }, resumeToken: "devices.3" }];
        if (token === "devices.1") return [deviceMessage("d2", "ATTACH_STATE_CLOSING", "devices.2")];
        const attached = ["d3", "d1", "d2"].map((id) => deviceMessage(id, "ATTACH_STATE_ATTACHED"));
        return [begin, ...attached, end("devices.1")];
      },
    });
    expect(source()).to.deep.equal({ state: "reading" });
    expect(await vmCids()).to.equal(undefined);
    for (const devices of ["aaa", "aca", "ca"]) {
      await read();
      expect(row("host h")).to.include({ state: "online", devices, vm: "vm-1" });
    }
    expect(source()).to.deep.equal({ state: "live" });
    expect(await vmCids()).to.deep.equal(["vm-1"]);
  });

  it("a registry whose clock differs by more than a minute -> both times, since the first, until they agree", async () => {
    const time = { value: new Date(10_000 + 60_000) };
    const { read, source, clock } = followed({ read: () => ({ serverTime: time.value }) });
    await read();
    expect(source()).to.deep.equal({ state: "live" });
    time.value = new Date(3_610_000);
    await read();
    const told = source();
    expect(told.sinceMs).to.equal(10_000);
    expect(told.trouble).to.equal(
      "the clock of the disk-registry's machine showed 1970-01-01T01:00:10Z when this director's showed 1970-01-01T00:00:10Z: set the clock that is wrong",
    );
    await clock.advance(5_000);
    await read();
    expect(source()).to.deep.equal(told);
    time.value = new Date(15_000);
    await read();
    expect(source()).to.deep.equal({ state: "live" });
  });

  it("a registry without a leader -> its missing dependency, since when, and the remedy, until it is read again", async () => {
    let [isLed, isExplained] = [false, false];
    const since = new Date(7_000);
    const cures = [{ what: "start the database", command: "" }];
    const message = "the disk-registry that was asked lacks its database: it has not answered";
    const { read, source, vmCids } = followed({
      read: () => {
        if (!isLed) throw new UnavailableError("nobody leads");
        return {};
      },
      explain: () => ({ summary: "", causes: isExplained ? [{ message, startTime: since, cures }] : [] }),
    });
    await read();
    const { trouble, sinceMs } = source();
    expect(sinceMs).to.equal(10_000);
    expect(trouble).to.match(/^shown is what it said last; the disk-registry does not answer: nobody leads: start it/);
    isExplained = true;
    await read();
    expect(source()).to.deep.equal({
      state: "silent",
      trouble: `shown is what it said last; ${message}: start the database`,
      sinceMs: 7_000,
      cures,
    });
    expect(await vmCids()).to.equal(undefined);
    isLed = true;
    await read();
    expect(source()).to.deep.equal({ state: "live" });
  });

  it("a list breaks off -> read again from its last token; another leader's list -> what it lacks is gone", async () => {
    const tokens: string[] = [];
    const lists = [
      [begin, hostMessage("a"), hostMessage("b"), end("hosts.1")],
      [hostMessage("c", {}, "hosts.2"), new UnavailableError("the connection broke")],
      [removed("b", "hosts.3")],
      [begin, hostMessage("c"), end("hosts.4")],
    ];
    const { read, row, source } = followed({
      hosts: (token) => {
        tokens.push(token);
        return lists.shift() ?? [];
      },
    });
    const shown = () => ["a", "b", "c"].filter((hostId) => row(`host ${hostId}`)).join("");
    for (const [hosts, state] of [
      ["ab", "live"],
      ["abc", "silent"],
      ["ac", "live"],
      ["c", "live"],
    ]) {
      await read();
      expect([shown(), source().state]).to.deep.equal([hosts, state]);
    }
    expect(tokens).to.deep.equal(["", "hosts.1", "hosts.2", "hosts.3"]);
  });

  it("most hosts are silent -> their number, the start and the remedy, while all is live, until it is over", async () => {
    let massSilence: MassSilence | undefined = { startTime: new Date(7_000), silentHosts: 6, hosts: 10 };
    const { read, source } = followed({ read: () => ({ massSilence }) });
    await read();
    expect(source()).to.deep.equal({
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
    await read();
    expect(source()).to.deep.equal({ state: "live" });
  });
});
