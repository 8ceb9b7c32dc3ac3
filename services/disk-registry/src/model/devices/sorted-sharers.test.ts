import { expect } from "chai";
import { aDevice, aHost, diskId, hostId, TestFleet } from "../../testing/fleet-fixture.js";
import type { Device } from "../store/schema.js";
import { NO_SHARED_SERIAL_NUMBERS, sharersIn, whoHasTheBytes } from "./same-bytes.js";
import { SortedSharers } from "./sorted-sharers.js";

/** Returns a generator of numbers from 0 to below `count`, determined by the seed. */
function numbers(seed: number): (count: number) => number {
  let state = seed;
  return (count) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * count);
  };
}

function aRandomDevice(id: string, below: (count: number) => number): Device {
  const pick = <T>(...items: readonly T[]): T => items[below(items.length)] as T;
  return aDevice(id, {
    hostId: hostId(pick("h1", "h1", "h1", "h2", "h3")),
    fileIdentity: pick("boot file 1", "boot file 1", "boot file 2", ""),
    serialNumber: pick("", "", "", "naa.1", "naa.2"),
    offsetBytes: below(24),
    sizeBytes: pick(0, 1, 2, 3, 4, 5, 8, 16),
    attachState: pick("UNKNOWN", "ATTACHING", "ATTACHED", "CLOSING", "DETACHED"),
    generation: below(6),
    ...pick({}, {}, { diskId: diskId("x") }, { missing: true as const }),
  });
}

describe("sharers of many devices", () => {
  it("equal those found by comparing each pair, after any puts and deletes", () => {
    for (let seed = 1; seed <= 200; seed++) {
      const below = numbers(seed);
      const ids = Array.from({ length: 1 + below(14) }, (_, index) => `d${index}`);
      const fleet = new TestFleet({
        hosts: ["h1", "h2", "h3"].map((id) => aHost(id)),
        devices: ids.map((id) => aRandomDevice(id, below)),
      });
      fleet.transact((tx) => {
        const sorted = new SortedSharers(tx, NO_SHARED_SERIAL_NUMBERS);
        const plain = sharersIn(tx, NO_SHARED_SERIAL_NUMBERS);
        for (let step = 0; step < 20; step++) {
          const id = ids[below(ids.length)] as string;
          const device = tx.devices.get(id) ?? aRandomDevice(id, below);
          const about = `seed ${seed}, step ${step}, device ${JSON.stringify(device)}`;
          const expected = [...plain(device)].map(({ other }) => other.deviceId);
          const found = [...sorted.find(device)].map(({ other }) => other.deviceId);
          expect(expected, about).to.include.members(found);
          expect(found.length > 0, about).to.equal(expected.length > 0);
          const [holder, plainHolder] = [sorted.find, plain].map((find) => whoHasTheBytes(find, device));
          expect(holder === undefined, about).to.equal(plainHolder === undefined);
          if (below(4) === 0) tx.devices.delete(id);
          else {
            const put = aRandomDevice(id, below);
            tx.devices.put(put);
            sorted.note(put);
          }
        }
      });
    }
  });

  it("are found among 4,096 devices on one file without comparing each pair", () => {
    const [count, sizeBytes] = [4_096, 4_096];
    const devices = Array.from({ length: count }, (_, index) =>
      aDevice(`d${index}`, { fileIdentity: "boot file 1", offsetBytes: index * sizeBytes, sizeBytes }),
    );
    const { tables } = new TestFleet({ devices });
    let looks = 0;
    const get = (key: string): Device | undefined => {
      looks++;
      return tables.devices.get(key);
    };
    const counting = { ...tables, devices: { by: tables.devices.by.bind(tables.devices), get } };
    const sharers = new SortedSharers(counting as unknown as typeof tables, NO_SHARED_SERIAL_NUMBERS);
    for (const device of devices) {
      expect([...sharers.find(device)]).to.deep.equal([]);
      sharers.note(device);
    }
    expect(looks).to.be.at.most(4 * count);
  });
});
