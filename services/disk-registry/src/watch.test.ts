import { AttachState, type WatchDevicesRequest, type WatchDevicesResponse } from "@diskmesh/api/registry";
import { DomainError, ResourceExhaustedError } from "@diskmesh/domain";
import type { Change } from "@diskmesh/tablet";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { DeviceChanges } from "./device-changes.js";
import { TestRegistry } from "./testing/test-registry.js";

/** A watcher that keeps all it was sent, as text: "begin", "end", "d1 ATTACHED", "-d1". */
class Watcher {
  readonly seen: string[] = [];
  lastToken = "";
  failure: unknown;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;

  constructor(registry: TestRegistry, request: Partial<WatchDevicesRequest> = {}) {
    this.#running = this.#read(registry, request);
  }

  async #read(registry: TestRegistry, request: Partial<WatchDevicesRequest>): Promise<void> {
    try {
      for await (const message of registry.operator.watchDevices(request, { signal: this.#stop.signal })) {
        this.seen.push(text(message));
        if (message.resumeToken !== "") this.lastToken = message.resumeToken;
      }
    } catch (error) {
      if (!this.#stop.signal.aborted) this.failure = error;
    }
  }

  /** What was seen since the last time, once it is that much. */
  async next(count: number): Promise<string[]> {
    await eventually(() => this.seen.length >= count);
    return this.seen.splice(0);
  }

  async end(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }
}

function text({ update }: WatchDevicesResponse): string {
  switch (update?.$case) {
    case "snapshotBegin":
      return "begin";
    case "snapshotEnd":
      return "end";
    case "device":
      return `${update.value.deviceId} ${update.value.attachState.replace("ATTACH_STATE_", "")}`;
    case "removedDeviceId":
      return `-${update.value}`;
    default:
      return "nothing";
  }
}

describe("WatchDevices", () => {
  let registry: TestRegistry;
  const watchers: Watcher[] = [];

  const watch = (request: Partial<WatchDevicesRequest> = {}): Watcher => {
    const watcher = new Watcher(registry, request);
    watchers.push(watcher);
    return watcher;
  };
  const inState = (deviceId: string, state: AttachState) =>
    eventually(async () => expect((await registry.device(deviceId)).attachState).to.equal(state));

  /** A host whose devices nobody added, and whose agent has let go of them: nothing changes by itself any more. */
  const letGo = async (hostId: string, deviceIds: string[]) => {
    const agent = await registry.agent(hostId, deviceIds);
    await agent.register();
    for (const deviceId of deviceIds)
      await eventually(async () => expect((await registry.device(deviceId)).detachConfirmed).to.equal(true));
  };

  before(async () => {
    registry = await TestRegistry.start({ watch: { maxWatchers: 4 } });
  });
  afterEach(async () => {
    for (const watcher of watchers.splice(0)) await watcher.end();
    await registry.reset();
  });
  after(() => registry?.stop());

  it("first the devices as they are, then each change to its end", async () => {
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

  it("a filter -> only what matches, and word of what matches no more", async () => {
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

  it("resumed -> no snapshot, and what was missed in between; another leader's token -> a snapshot", async () => {
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

  it("one watcher too many, a malformed token -> refused, the others go on", async () => {
    const all = [watch(), watch(), watch(), watch()];
    for (const watcher of all) await watcher.next(2);
    const late = watch();
    await eventually(() => expect(late.failure).to.be.instanceOf(ResourceExhaustedError));
    await all[0]?.end();
    await eventually(async () => {
      const instead = watch();
      await instead.next(2);
    });
    await all[1]?.end();
    const malformed = watch({ resumeToken: "1.2.3" });
    await eventually(() =>
      expect((malformed.failure as DomainError | undefined)?.name).to.equal("InvalidArgumentError"),
    );
  });
});

describe("the list of changed devices", () => {
  const changesOf = (...keys: string[]): Change[] => keys.map((key) => ({ table: "devices", key, document: {} }));
  const listOf = (max: number) => {
    let tell: (changes: readonly Change[]) => void = () => {};
    const list = new DeviceChanges(
      {
        watch: (listener) => {
          tell = listener;
          return () => {};
        },
      },
      max,
    );
    return { list, tell: (...keys: string[]) => tell(changesOf(...keys)) };
  };

  it("each device once, from the position on, at most so many at once", () => {
    const { list, tell } = listOf(10);
    tell("a", "b", "a");
    expect(list.since(0, 10)).to.deep.equal({ deviceIds: ["a", "b"], position: 3 });
    expect(list.since(1, 1)).to.deep.equal({ deviceIds: ["b"], position: 2 });
    expect(list.since(3, 10)).to.deep.equal({ deviceIds: [], position: 3 });
  });

  it("a position that is forgotten or never was -> undefined, and the list stays bounded", () => {
    const { list, tell } = listOf(2);
    for (let index = 0; index < 100; index++) tell(`d${index}`);
    expect(list.since(0, 10)).to.equal(undefined);
    expect(list.since(101, 10)).to.equal(undefined);
    expect(list.since(98, 10)).to.deep.equal({ deviceIds: ["d98", "d99"], position: 100 });
  });

  it("waits for what comes after a position, and no longer than its signal", async () => {
    const { list, tell } = listOf(10);
    const waiting = list.beyond(0, new AbortController().signal);
    tell("a");
    await waiting;
    const stop = new AbortController();
    const ended = list.beyond(1, stop.signal).catch((error: Error) => error.message);
    stop.abort(new Error("enough"));
    expect(await ended).to.equal("enough");
  });
});
