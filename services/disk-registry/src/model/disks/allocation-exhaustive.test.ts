import { randomOf } from "@diskmesh/tablet/testing";
import { leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { aDevice, aHost, hostId, TestFleet } from "../../testing/fleet-fixture.js";
import type { Space } from "../store/slices.js";
import { allocate } from "./allocation.js";
import { totalBytes } from "./candidates.js";

const FLEETS = 400;
const REQUESTS_PER_FLEET = 50;
const HOSTS_MAX = 3;
const DEVICES_MAX = 7;

interface Best {
  readonly hosts: number;
  readonly cost: number;
}

describe("allocation, compared with all possible choices", () => {
  it(`finds a choice for ${FLEETS * REQUESTS_PER_FLEET} requests whenever there is one, on one host where one suffices`, function () {
    leaveToVerify(this);
    const random = randomOf(1);
    const below = (limit: number): number => Math.floor(random() * limit);
    const seen = { oneHost: 0, cheapest: 0 };
    for (let n = 0; n < FLEETS; n++) {
      const devices = Array.from({ length: 1 + below(DEVICES_MAX) }, (_, i) =>
        aDevice(`d${i}`, {
          hostId: hostId(`h${below(HOSTS_MAX)}`),
          path: `/dev/p${below(4)}`,
          sizeBytes: 1 + below(12),
        }),
      );
      const hosts = Array.from({ length: HOSTS_MAX }, (_, i) => aHost(`h${i}`, { rack: `r${i % 2}` }));
      const { tables } = new TestFleet({ hosts, devices });
      const choices = subsets(devices);
      for (let m = 0; m < REQUESTS_PER_FLEET; m++) {
        const request = {
          sizeBytes: 1 + below(40),
          az: "z1",
          hostId: "",
          pool: "default",
          spreadRacks: m % 4 === 0,
        } as const;
        const maxDevices = 1 + below(5);
        const allocation = allocate(tables, request, { maxDevices, draw: random() });
        const best = bestOf(choices, request.sizeBytes, maxDevices);
        const told = JSON.stringify({ request, maxDevices, devices: devices.map(brief) });
        expect("spaces" in allocation, told).to.equal(best !== undefined);
        if (!("spaces" in allocation) || best === undefined) continue;
        const chosen = allocation.spaces;
        expect(new Set(chosen).size, told).to.equal(chosen.length).and.to.be.at.most(maxDevices);
        expect(totalBytes(chosen), told).to.be.at.least(request.sizeBytes);
        if (!request.spreadRacks && best.hosts === 1) {
          seen.oneHost++;
          expect(hostsOf(chosen), told).to.equal(1);
          if (costOf(chosen, request.sizeBytes) === best.cost) seen.cheapest++;
          expect(costOf(chosen, request.sizeBytes), told).to.be.at.most(best.cost * 1.5);
        }
      }
    }
    expect(seen.cheapest / seen.oneHost).to.be.above(0.98);
  });
});

function subsets(devices: readonly Space[]): readonly (readonly Space[])[] {
  return Array.from({ length: 2 ** devices.length }, (_, mask) => devices.filter((_, i) => mask & (1 << i)));
}

function bestOf(choices: readonly (readonly Space[])[], sizeBytes: number, maxDevices: number): Best | undefined {
  let best: Best | undefined;
  for (const choice of choices) {
    if (choice.length > maxDevices || totalBytes(choice) < sizeBytes) continue;
    const found = { hosts: hostsOf(choice), cost: costOf(choice, sizeBytes) };
    if (best === undefined || found.hosts < best.hosts || (found.hosts === best.hosts && found.cost < best.cost))
      best = found;
  }
  return best;
}

function costOf(devices: readonly Space[], sizeBytes: number): number {
  const paths = new Set(devices.map((device) => device.path)).size;
  return totalBytes(devices) + (devices.length + paths - 2) * sizeBytes;
}

const hostsOf = (devices: readonly Space[]): number => new Set(devices.map((device) => device.hostId)).size;
const brief = ({ deviceId, hostId, path, sizeBytes }: Space): string => `${deviceId} ${hostId} ${path} ${sizeBytes}`;
