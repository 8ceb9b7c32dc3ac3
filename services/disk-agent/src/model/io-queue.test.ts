import type { DeviceId } from "@diskmesh/domain";
import { expect } from "chai";
import { type IoQueue, queueOfBlockDevice, queueOfRequests, queueOnDevices } from "./io-queue.js";

const NOW_MS = 10_000.5;
const NONE = { count: 0, oldestSinceMs: undefined };
const since = (oldestSinceMs: number, count = 2) => ({ count, oldestSinceMs });
const at = (id: string, oldestSinceMs: number | undefined) => ({
  deviceId: id as DeviceId,
  count: oldestSinceMs === undefined ? 0 : 1,
  oldestSinceMs,
});
const queue = (fields: Partial<IoQueue> = {}): IoQueue => ({
  openRequests: 2,
  oldestAgeMs: 9_000,
  throttledRequests: 0,
  ...fields,
});
const d2 = "d2" as DeviceId;

describe("the open requests of a disk", () => {
  const ofRequests = (all: ReturnType<typeof since> | typeof NONE, isOldestThrottled = false, throttledCount = 0) =>
    queueOfRequests(
      { ...all, isOldestThrottled, throttledCount },
      [at("d1", 5_000), at("d2", 1_001), at("d3", undefined)],
      NOW_MS,
    );

  it("wait for the device whose request is the oldest; ages are whole milliseconds", () => {
    expect(ofRequests(since(1_000))).to.deep.equal(queue({ waitsForDeviceId: d2 }));
  });

  it("wait for the limits while these delay the oldest one", () => {
    expect(ofRequests(since(1_000), true, 1)).to.deep.equal(queue({ throttledRequests: 1 }));
  });

  it("have no age when none is open", () => {
    const none = queueOfRequests({ ...NONE, isOldestThrottled: false, throttledCount: 0 }, [], NOW_MS);
    expect(none).to.deep.equal(queue({ openRequests: 0, oldestAgeMs: 0 }));
  });

  it("of a block device wait for what the disk below waits for, or for the block device", () => {
    const below = queue({ openRequests: 1, oldestAgeMs: 100, waitsForDeviceId: d2 });
    const idle = queue({ openRequests: 0, oldestAgeMs: 0 });
    const of = (kernel: Parameters<typeof queueOfBlockDevice>[1], under: IoQueue | undefined) =>
      queueOfBlockDevice("/dev/loop3", kernel, under, NOW_MS);
    expect(of(since(1_000, 4), below)).to.deep.equal({ ...below, openRequests: 4, oldestAgeMs: 9_000 });
    expect(of(since(1_000), idle)).to.deep.equal(queue({ waitsForBlockDevice: "/dev/loop3" }));
    expect(of(since(1_000), undefined)).to.deep.equal(queue({ waitsForBlockDevice: "/dev/loop3" }));
    expect(of(NONE, below)).to.equal(below);
    expect(of(NONE, undefined)).to.equal(undefined);
  });

  it("of the kernel's device wait for the device that answers none of its own", () => {
    const of = (...devices: ReturnType<typeof at>[]) => queueOnDevices("/dev/dm-4", since(1_000), devices, NOW_MS);
    expect(of(at("d1", 6_000), at("d2", 2_000))).to.deep.equal(queue({ waitsForDeviceId: d2 }));
    expect(of(at("d1", undefined))).to.deep.equal(queue({ waitsForBlockDevice: "/dev/dm-4" }));
    expect(queueOnDevices("/dev/dm-4", NONE, [at("d1", 1)], NOW_MS)).to.deep.equal(
      queue({ openRequests: 0, oldestAgeMs: 0 }),
    );
  });
});
