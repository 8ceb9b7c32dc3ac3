import { randomOf } from "@diskmesh/tablet/testing";
import { expect } from "chai";
import { aDevice, aHost, hostId, TestFleet } from "../../testing/fleet-fixture.js";
import { allDirty } from "../store/runs.js";
import type { Device, DiskRequest, Host } from "../store/schema.js";
import type { Space } from "../store/slices.js";
import { allocate } from "./allocation.js";
import { type AllocationLimits, totalBytes } from "./candidates.js";

const FLEETS = 400;
const REQUESTS_PER_FLEET = 10;

type Request = DiskRequest &
  Pick<AllocationLimits, "maxDevices" | "nearHostId" | "draw"> & {
    readonly maxBlockSizeBytes?: number | undefined;
  };
type Random = (limit: number) => number;

/** Rules of the choice without indexes: each step looks at all hosts and devices. */
describe("the rules of allocation, compared with a look at every device", () => {
  it(`hold for ${FLEETS * REQUESTS_PER_FLEET} requests while devices come and go`, () => {
    const random = randomOf(3);
    const below: Random = (limit) => Math.floor(random() * limit);
    const seen = { refused: 0, packed: 0, filled: 0, spread: 0, near: 0 };
    for (let n = 0; n < FLEETS; n++) {
      const hosts = Array.from({ length: 1 + below(8) }, (_, i) => someHost(`h${i}`, below));
      const devices = Array.from({ length: 1 + below(24) }, (_, i) => someDevice(`d${i}`, hosts.length, below));
      const fleet = new TestFleet({ hosts, devices });
      const suspected = below(3) === 0 ? hostId(`h${below(8)}`) : undefined;
      for (let m = 0; m < REQUESTS_PER_FLEET; m++) {
        const request = someRequest(below, random());
        const whySuspected = (id: string): string | undefined => (id === suspected ? "silent" : undefined);
        const allocation = allocate(fleet.tables, request, { ...request, whySuspected });
        const chosen = "spaces" in allocation ? allocation.spaces : undefined;
        const usable = usableDevices(fleet, request, suspected);
        const told = JSON.stringify({ request, suspected, usable: usable.map(brief), chosen: chosen?.map(brief) });
        const ofAnyBlockSize = usableDevices(fleet, { ...request, maxBlockSizeBytes: undefined }, suspected);
        const rule = new Rules(fleet, request, { usable, ofAnyBlockSize }, told);
        if (chosen === undefined) rule.expectTooLittle();
        else if (request.spreadRacks) rule.expectGathered(chosen, (device, taken) => rule.rackRank(device, taken));
        else if (rule.fittingHostIds.length > 0) rule.expectCheapest(chosen, (id) => hostChoice(fleet, request, id));
        else rule.expectGathered(chosen, (device, taken, left) => rule.fillRank(device, taken, left));
        seen[rule.kindOf(chosen)]++;
        if (request.nearHostId === chosen?.[0]?.hostId) seen.near++;
        // The next request meets other free devices, and other hosts.
        fleet.transact((tx) => {
          for (const device of chosen ?? [])
            if (below(2) === 0) tx.devices.put(allDirty(fleet.device(device.deviceId)));
          tx.devices.put(someDevice(`d${below(24)}`, hosts.length, below));
          if (below(4) === 0) tx.hosts.put(someHost(`h${below(hosts.length)}`, below));
        });
      }
    }
    for (const [kind, count] of Object.entries(seen)) expect(count, kind).to.be.above(50);
  });
});

class Rules {
  readonly #rackOf: (device: Space) => string;
  readonly #usable: readonly Space[];
  readonly #ofAnyBlockSize: readonly Space[];

  constructor(
    fleet: TestFleet,
    private readonly request: Request,
    devices: { readonly usable: readonly Space[]; readonly ofAnyBlockSize: readonly Space[] },
    private readonly told: string,
  ) {
    this.#usable = devices.usable;
    this.#ofAnyBlockSize = devices.ofAnyBlockSize;
    this.#rackOf = (device) => fleet.host(device.hostId).rack;
  }

  /** Hosts that hold the whole disk on as many devices as it may have. */
  get fittingHostIds(): readonly string[] {
    const hostIds = [...new Set(this.#usable.map((device) => device.hostId))];
    return hostIds.filter((id) => this.#largestBytes(this.#of(id, this.#usable)) >= this.request.sizeBytes);
  }

  kindOf(chosen: readonly Space[] | undefined): "refused" | "spread" | "packed" | "filled" {
    if (chosen === undefined) return "refused";
    if (this.request.spreadRacks) return "spread";
    return this.fittingHostIds.length > 0 ? "packed" : "filled";
  }

  expectTooLittle(): void {
    expect(this.#largestBytes(this.#usable), this.told).to.be.below(this.request.sizeBytes);
  }

  /** Expects the cheapest choice; of equal ones that of the near host, or else of a host with the most free devices. */
  expectCheapest(chosen: readonly Space[], choiceOn: (hostId: string) => readonly Space[]): void {
    const { sizeBytes, nearHostId } = this.request;
    const costs = new Map(this.fittingHostIds.map((id) => [id, costOf(choiceOn(id), sizeBytes)]));
    const best = Math.min(...costs.values());
    const equal = [...costs].filter(([, cost]) => cost === best).map(([id]) => id);
    const most = Math.max(...equal.map((id) => this.#of(id, this.#ofAnyBlockSize).length));
    const id = chosen[0]?.hostId ?? "";
    expect(new Set(chosen.map((device) => device.hostId)).size, this.told).to.equal(1);
    expect(costOf(chosen, sizeBytes), this.told).to.equal(best);
    if (equal.includes(nearHostId ?? "")) expect(id, this.told).to.equal(nearHostId);
    else expect(this.#of(id, this.#ofAnyBlockSize).length, this.told).to.equal(most);
  }

  /** Expects each device in turn to be of the host with the lowest rank that has a suitable one. */
  expectGathered(
    chosen: readonly Space[],
    rankOf: (device: Space, taken: readonly Space[], left: readonly Space[]) => number,
  ): void {
    let restBytes = this.request.sizeBytes;
    for (const [at, device] of chosen.entries()) {
      const taken = chosen.slice(0, at);
      const left = this.#usable.filter((each) => !taken.includes(each));
      const devicesLeft = this.request.maxDevices - at;
      const suits = (each: Space): boolean => {
        const others = largestFirst(left.filter((other) => other !== each)).slice(0, devicesLeft - 1);
        return this.#isBestOfHost(each, left, restBytes) && each.sizeBytes + totalBytes(others) >= restBytes;
      };
      const suitable = left.filter(suits);
      const ranks = suitable.map((each) => rankOf(each, taken, left));
      expect(suitable.map(brief), this.told).to.include(brief(device));
      expect(rankOf(device, taken, left), this.told).to.equal(Math.min(...ranks));
      restBytes -= device.sizeBytes;
    }
    expect(restBytes, this.told).to.be.at.most(0);
    expect(chosen.length, this.told).to.be.at.most(this.request.maxDevices);
  }

  /** Racks that were used least come first, and in them the hosts that were used least. */
  rackRank(device: Space, taken: readonly Space[]): number {
    const inRack = taken.filter((each) => this.#rackOf(each) === this.#rackOf(device)).length;
    return inRack + this.#of(device.hostId, taken).length / 1_000;
  }

  /** The hosts that are used already come first, then those that hold the most. */
  fillRank(device: Space, taken: readonly Space[], left: readonly Space[]): number {
    if (this.#of(device.hostId, taken).length > 0) return Number.NEGATIVE_INFINITY;
    return -this.#largestBytes(this.#of(device.hostId, left), this.request.maxDevices - taken.length);
  }

  /** The smallest device that holds the rest is the best one of its host; if there is none, the largest. */
  #isBestOfHost(device: Space, left: readonly Space[], restBytes: number): boolean {
    const sizes = this.#of(device.hostId, left).map(({ sizeBytes }) => sizeBytes);
    const holding = sizes.filter((sizeBytes) => sizeBytes >= restBytes);
    return device.sizeBytes === (holding.length > 0 ? Math.min(...holding) : Math.max(...sizes));
  }

  #of(id: string, devices: readonly Space[]): readonly Space[] {
    return devices.filter((device) => device.hostId === id);
  }

  #largestBytes(devices: readonly Space[], count = this.request.maxDevices): number {
    return totalBytes(largestFirst(devices).slice(0, count));
  }
}

function usableDevices(fleet: TestFleet, request: Request, suspected: string | undefined): readonly Space[] {
  const { maxBlockSizeBytes = Number.POSITIVE_INFINITY } = request;
  return [...fleet.tables.devices.entries()].filter((device) => {
    const host = fleet.host(device.hostId);
    const isHostUsable = host.state === "ONLINE" && !host.removalRequested && host.hostId !== suspected;
    const isHostAllowed =
      request.hostId === "" ? host.az === request.az : host.hostId === request.hostId && host.az === request.az;
    const isFree = device.runs.length === 0 && device.health === "ONLINE";
    const fits = device.pool === request.pool && device.blockSizeBytes <= maxBlockSizeBytes;
    return isHostUsable && isHostAllowed && isFree && fits;
  });
}

/** Returns the choice for a request that names the host. */
function hostChoice(fleet: TestFleet, request: Request, id: string): readonly Space[] {
  const allocation = allocate(fleet.tables, { ...request, hostId: hostId(id) }, request);
  return "spaces" in allocation ? allocation.spaces : [];
}

function someHost(id: string, below: Random): Host {
  return aHost(id, {
    az: below(5) === 0 ? "z2" : "z1",
    rack: `r${below(3)}`,
    state: below(8) === 0 ? "WARNING" : "ONLINE",
    removalRequested: below(12) === 0,
  });
}

function someDevice(id: string, hosts: number, below: Random): Device {
  return aDevice(id, {
    hostId: hostId(`h${below(hosts)}`),
    path: `/dev/p${below(4)}`,
    sizeBytes: 1 + below(12),
    blockSizeBytes: below(4) === 0 ? 8192 : 4096,
    pool: below(6) === 0 ? "fast" : "default",
    dirty: below(8) === 0,
    health: below(12) === 0 ? "WARNING" : "ONLINE",
  });
}

function someRequest(below: Random, draw: number): Request {
  return {
    sizeBytes: 1 + below(below(2) === 0 ? 12 : 60),
    az: "z1",
    hostId: below(6) === 0 ? hostId("h0") : "",
    pool: below(6) === 0 ? "fast" : "default",
    spreadRacks: below(2) === 0,
    maxDevices: 1 + below(8),
    ...(below(3) === 0 ? { maxBlockSizeBytes: 4096 } : {}),
    nearHostId: below(2) === 0 ? hostId(`h${below(8)}`) : "",
    draw,
  };
}

function costOf(devices: readonly Space[], sizeBytes: number): number {
  const paths = new Set(devices.map((device) => device.path)).size;
  return totalBytes(devices) + (devices.length + paths - 2) * sizeBytes;
}

const largestFirst = (devices: readonly Space[]): readonly Space[] =>
  [...devices].sort((a, b) => b.sizeBytes - a.sizeBytes);
const brief = ({ deviceId, hostId, path, sizeBytes }: Space): string => `${deviceId} ${hostId} ${path} ${sizeBytes}`;
