import { expect } from "chai";
import { aDevice, aHost, type DeviceFields, diskId, hostId, MIB, TestFleet } from "../../testing/fleet-fixture.js";
import type { Device, DiskRequest, Host } from "../store/schema.js";
import { allocate } from "./allocation.js";
import type { AllocationLimits } from "./candidates.js";

const request = (fields: Partial<DiskRequest> = {}): DiskRequest => ({
  sizeBytes: 64 * MIB,
  az: "z1",
  hostId: "",
  pool: "default",
  spreadRacks: false,
  ...fields,
});

/** Parses a fleet: "h1:a=64,b=64@/dev/p" is host h1 with devices h1-a of 64 MiB and h1-b of 64 MiB on path /dev/p. */
function fleetOf(hosts: readonly Host[], text: string): TestFleet {
  const devices: Device[] = [];
  for (const part of text.split(" ")) {
    const [host = "", list = ""] = part.split(":");
    for (const entry of list.split(",")) {
      const [name = "", rest = ""] = entry.split("=");
      const [size = "", path] = rest.split("@");
      const id = `${host}-${name}`;
      devices.push(aDevice(id, { hostId: hostId(host), sizeBytes: Number(size) * MIB, path: path ?? `/dev/${id}` }));
    }
  }
  return new TestFleet({ hosts, devices });
}

function chosen(fleet: TestFleet, wanted: DiskRequest, maxDevices = 16, draw = 0): string {
  const allocation = allocate(fleet.tables, wanted, { maxDevices, draw });
  return "spaces" in allocation ? allocation.spaces.map((device) => device.deviceId).join(" ") : "none";
}

const nothingElse = { awaitedHostIds: [], blocked: { heldByUnknownDisk: 0, saidUnwell: 0 } };
const three = [aHost("h1", { rack: "r1" }), aHost("h2", { rack: "r1" }), aHost("h3", { rack: "r2" })];

describe("allocation", () => {
  const cases: readonly [string, string, Partial<DiskRequest>, string][] = [
    ["one device suffices -> the smallest that does", "h1:a=64,b=32,c=128", { sizeBytes: 20 * MIB }, "h1-b"],
    ["none suffices alone -> the largest first", "h1:a=64,b=32,c=128", { sizeBytes: 180 * MIB }, "h1-c h1-a"],
    ["one host suffices -> no second host", "h1:a=64 h2:a=64,b=64", { sizeBytes: 128 * MIB }, "h2-a h2-b"],
    ["no host suffices -> several", "h1:a=64 h2:a=64,b=64", { sizeBytes: 192 * MIB }, "h2-a h2-b h1-a"],
    ["devices of one path are preferred", "h1:a=64,b=64@/p,c=64@/p", { sizeBytes: 128 * MIB }, "h1-b h1-c"],
    ["a host is named -> only that", "h1:a=64,b=64 h2:a=64", { hostId: hostId("h2") }, "h2-a"],
    ["too little -> nothing at all", "h1:a=64 h2:a=64", { sizeBytes: 129 * MIB }, "none"],
    ["another az -> nothing", "h1:a=64", { az: "z2" }, "none"],
    ["another pool -> nothing", "h1:a=64", { pool: "fast" }, "none"],
    [
      "racks spread -> one of each rack first",
      "h1:a=64,b=64 h2:a=64,b=64 h3:a=64",
      { sizeBytes: 192 * MIB, spreadRacks: true },
      "h2-a h3-a h1-a",
    ],
    [
      "racks spread, one rack used up -> the other gives more",
      "h1:a=64,b=64 h3:a=64",
      { sizeBytes: 192 * MIB, spreadRacks: true },
      "h1-a h3-a h1-b",
    ],
    ["racks spread, too little -> nothing", "h1:a=64 h3:a=64", { sizeBytes: 200 * MIB, spreadRacks: true }, "none"],
  ];
  for (const [title, fleet, wanted, expected] of cases) {
    it(title, () => expect(chosen(fleetOf(three, fleet), request(wanted))).to.equal(expected));
  }

  const limited: readonly [string, string, Partial<DiskRequest>, number, string][] = [
    [
      "many small devices on one host, one large on another -> the large one",
      "h1:a=8,b=8,c=8,d=8,e=8,f=8,g=8,h=8 h2:a=96",
      {},
      16,
      "h2-a",
    ],
    ["two small devices, or one of ten times the size -> the two", "h1:a=32,b=32,c=640", {}, 16, "h1-b h1-a"],
    [
      "the first devices would be too many -> fewer, larger ones",
      "h1:a=32,b=32,c=30,d=2 h2:a=48,b=48",
      { sizeBytes: 90 * MIB },
      2,
      "h2-a h2-b",
    ],
    [
      "no host has enough on so few -> the largest of several",
      "h1:a=48,b=8,c=8 h2:a=48,b=8,c=8",
      { sizeBytes: 96 * MIB },
      2,
      "h2-a h1-a",
    ],
    [
      "a rack of small devices -> racks spread, as far as so few devices can",
      "h1:a=8,b=8 h3:a=64,b=64",
      { sizeBytes: 128 * MIB, spreadRacks: true },
      2,
      "h3-a h3-b",
    ],
    [
      "racks spread, and room for a small one -> it is taken",
      "h1:a=8,b=8 h3:a=64,b=64",
      { sizeBytes: 130 * MIB, spreadRacks: true },
      3,
      "h1-a h3-a h3-b",
    ],
  ];
  for (const [title, fleet, wanted, maxDevices, expected] of limited) {
    it(title, () => expect(chosen(fleetOf(three, fleet), request(wanted), maxDevices)).to.equal(expected));
  }

  it("chooses each of equal hosts and devices by some draw", () => {
    const fleet = fleetOf(three, "h1:a=64,b=64 h2:a=64,b=64 h3:a=64,b=64");
    const seen = new Set(Array.from({ length: 60 }, (_, i) => chosen(fleet, request(), 16, i / 60)));
    expect([...seen].sort()).to.deep.equal(["h1-a", "h1-b", "h2-a", "h2-b", "h3-a", "h3-b"]);
  });

  const near: readonly [string, string, number, string][] = [
    ["equal ones elsewhere", "h1:a=64,b=64 h2:a=64 h3:a=64,b=64", 64, "h2-a"],
    ["smaller ones elsewhere that suffice", "h1:a=32 h2:a=64", 20, "h1-a"],
    ["larger ones elsewhere, and too small ones", "h1:a=128 h2:a=64", 100, "h1-a"],
    ["nothing free there", "h1:a=64", 64, "h1-a"],
  ];
  for (const [title, fleet, sizeMib, expected] of near)
    it(`near h2, with ${title} chooses ${expected}, whatever the draw`, () => {
      const { tables } = fleetOf(three, fleet);
      const wanted = request({ sizeBytes: sizeMib * MIB });
      const limits = { maxDevices: 16, nearHostId: hostId("h2") };
      for (const draw of [0, 0.3, 0.6, 0.9])
        expect(allocate(tables, wanted, { ...limits, draw })).to.have.nested.property("spaces[0].deviceId", expected);
    });

  it("skips devices with larger blocks than allowed", () => {
    const fleet = new TestFleet({ devices: [aDevice("d1", { blockSizeBytes: 8192 }), aDevice("d2")] });
    const limits = { maxDevices: 16, maxBlockSizeBytes: 4096, draw: 0 };
    expect(allocate(fleet.tables, request(), limits)).to.have.nested.property("spaces[0].deviceId", "d2");
    expect(allocate(fleet.tables, request({ sizeBytes: 128 * MIB }), limits)).to.have.nested.property(
      "shortage.usableBytes",
      64 * MIB,
    );
  });

  it("finds nothing for more devices than a disk may have", () => {
    const fleet = fleetOf(three, "h1:a=64,b=64,c=64");
    expect(chosen(fleet, request({ sizeBytes: 192 * MIB }), 2)).to.equal("none");
    expect(chosen(fleet, request({ sizeBytes: 192 * MIB, spreadRacks: true }), 2)).to.equal("none");
  });

  const unusable: readonly [string, DeviceFields, Partial<Host>][] = [
    ["ATTACHING", { attachState: "ATTACHING" }, {}],
    ["UNKNOWN", { attachState: "UNKNOWN" }, {}],
    ["CLOSING", { attachState: "CLOSING" }, {}],
    ["DETACHED", { attachState: "DETACHED" }, {}],
    ["dirty", { dirty: true }, {}],
    ["in WARNING", { health: "WARNING" }, {}],
    ["in ERROR", { health: "ERROR" }, {}],
    ["to be removed", { removalRequested: true }, {}],
    ["of another disk", { diskId: diskId("x") }, {}],
    ["of an UNAVAILABLE host", {}, { state: "UNAVAILABLE" }],
    ["of a host in WARNING", {}, { state: "WARNING" }],
    ["of a host to be removed", {}, { removalRequested: true }],
  ];
  for (const [title, device, host] of unusable) {
    it(`the only device is ${title} -> nothing`, () => {
      const fleet = new TestFleet({ hosts: [aHost("h1", host)], devices: [aDevice("d1", device)] });
      expect(chosen(fleet, request())).to.equal("none");
    });
  }

  it("counts dirty devices that are being erased in the shortage", () => {
    const fleet = new TestFleet({
      devices: [aDevice("d1"), aDevice("d2", { dirty: true }), aDevice("d3", { dirty: true, pool: "fast" })],
    });
    const wanted = allocate(fleet.tables, request({ sizeBytes: 128 * MIB }), { maxDevices: 16, draw: 0 });
    expect(wanted).to.deep.equal({
      shortage: {
        usableBytes: 64 * MIB,
        erasingDevices: 1,
        comingDevices: 0,
        sufficesSoon: true,
        ...nothingElse,
      },
    });
    const hopeless: readonly [number, number][] = [
      [129, 16],
      [128, 1],
    ];
    for (const [sizeMib, maxDevices] of hopeless) {
      const tooMuch = allocate(fleet.tables, request({ sizeBytes: sizeMib * MIB }), { maxDevices, draw: 0 });
      expect(tooMuch).to.deep.include({
        shortage: {
          usableBytes: 64 * MIB,
          erasingDevices: 1,
          comingDevices: 0,
          sufficesSoon: false,
          ...nothingElse,
        },
      });
    }
  });

  const coming: readonly [string, DeviceFields, Partial<Host>, number][] = [
    ["is being attached", { attachState: "ATTACHING" }, {}, 1],
    ["is free on a host suspected of silence", {}, { hostId: hostId("silent") }, 1],
    ["is being attached for another pool", { attachState: "ATTACHING", pool: "fast" }, {}, 0],
    ["is being attached, and broken", { attachState: "ATTACHING", health: "ERROR" }, {}, 0],
    ["is being detached", { attachState: "CLOSING" }, {}, 0],
    ["is free on a silent host that is to be removed", {}, { hostId: hostId("silent"), removalRequested: true }, 0],
  ];
  for (const [title, device, host, comingDevices] of coming)
    it(`the only device ${title} -> ${comingDevices} coming, and ${comingDevices > 0 ? "enough soon" : "never enough"}`, () => {
      const one = aHost("h1", host);
      const fleet = new TestFleet({ hosts: [one], devices: [aDevice("d1", { hostId: one.hostId, ...device })] });
      const whySuspected = (id: string) => (id === "silent" ? "2 heartbeats are missing" : undefined);
      expect(allocate(fleet.tables, request(), { maxDevices: 16, draw: 0, whySuspected })).to.deep.equal({
        shortage: {
          usableBytes: 0,
          erasingDevices: 0,
          comingDevices,
          sufficesSoon: comingDevices > 0,
          ...nothingElse,
        },
      });
    });

  const large: readonly [string, Partial<DiskRequest>, Partial<AllocationLimits>, number][] = [
    ["in an az", {}, {}, 10],
    ["near a host", {}, { nearHostId: hostId("h2000") }, 10],
    ["on a host", { hostId: hostId("h2000") }, {}, 10],
    ["of more than a host holds", { sizeBytes: 256 * MIB }, {}, 30],
    ["across racks", { sizeBytes: 256 * MIB, spreadRacks: true }, {}, 60],
    ["of large devices, where most are small", { sizeBytes: 280 * MIB, pool: "mixed" }, { maxDevices: 3 }, 2_000],
    ["of a pool that few hosts have", { pool: "rare" }, {}, 20],
  ];
  const hosts = Array.from({ length: 2_500 }, (_, i) => aHost(`h${i}`, { rack: `r${i % 100}` }));
  const devices = hosts.flatMap(({ hostId }, i) => [
    ...["a", "b", "c"].map((name) => aDevice(`${hostId}-${name}`, { hostId })),
    ...(i % 500 === 7
      ? [aDevice(`${hostId}-d`, { hostId, pool: "mixed", sizeBytes: 96 * MIB })]
      : ["d", "e", "f"].map((name) => aDevice(`${hostId}-${name}`, { hostId, pool: "mixed" }))),
    ...(i % 500 === 8 ? [aDevice(`${hostId}-h`, { hostId, pool: "rare" })] : []),
  ]);
  let tables: TestFleet["tables"];
  before(() => {
    tables = new TestFleet({ hosts, devices }).tables;
  });
  for (const [title, wanted, limits, maxRead] of large)
    it(`chooses devices ${title} of ${hosts.length} hosts, and reads at most ${maxRead} rows and devices`, () => {
      let read = 0;
      const counted = {
        ...tables,
        hosts: counting(tables.hosts, "rows", () => read++),
        devices: counting(tables.devices, "by", () => read++),
      };
      const allocation = allocate(counted, request(wanted), { maxDevices: 16, draw: 0.5, ...limits });
      expect(allocation).to.have.property("spaces");
      expect(read).to.be.within(1, maxRead);
    });

  const refused: readonly [string, Partial<DiskRequest>, Partial<AllocationLimits>][] = [
    ["of more than the largest devices hold", { sizeBytes: 1_025 * MIB }, {}],
    ["of a pool without devices", { pool: "none" }, {}],
    ["with an empty host near", { pool: "none" }, { nearHostId: hostId("h2000") }],
    ["across racks", { sizeBytes: 1_025 * MIB, spreadRacks: true }, {}],
  ];
  for (const [title, wanted, limits] of refused)
    it(`refuses a disk ${title} of ${hosts.length} hosts, and reads at most 200 rows, hosts and devices`, () => {
      let read = 0;
      const count = () => read++;
      const counted = {
        ...tables,
        hosts: counting(counting(tables.hosts, "rows", count), "by", count),
        devices: counting(tables.devices, "by", count),
      };
      const allocation = allocate(counted, request(wanted), { maxDevices: 16, draw: 0.5, ...limits });
      expect(allocation).to.have.property("shortage");
      expect(read).to.be.at.most(200);
    });

  it("asks for a retry when more devices are being erased than a refusal reads", () => {
    const dirty = Array.from({ length: 3_000 }, (_, i) => aDevice(`d${i}`, { dirty: true }));
    const fleet = new TestFleet({ devices: dirty });
    const allocation = allocate(fleet.tables, request({ sizeBytes: 2 ** 60 }), { maxDevices: 16, draw: 0 });
    expect(allocation).to.have.nested.property("shortage.sufficesSoon", true);
  });
});

/** Calls `onRead` for each item that the table's method returns. */
function counting<T extends object>(table: T, method: keyof T, onRead: () => void): T {
  return new Proxy(table, {
    get: (target, name) => {
      const found = Reflect.get(target, name, target);
      if (typeof found !== "function") return found;
      if (name !== method) return found.bind(target);
      return function* (...given: unknown[]) {
        for (const item of found.apply(target, given)) {
          onRead();
          yield item;
        }
      };
    },
  });
}
