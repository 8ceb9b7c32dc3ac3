import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { DiskAgentServiceDefinition } from "@diskmesh/api/agent";
import { AbortedError, NotFoundError, PermissionDeniedError, TimeoutError, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { createClient, waitForHealth } from "@diskmesh/rpc";
import { eventually, spawnService, type TestCertificates, temporaryFolder, testCertificates } from "@diskmesh/testkit";
import { expect } from "chai";
import { seal } from "./cache/seal.js";
import { countDescriptors, startTestAgent, type TestAgent } from "./testing/agent-process.js";
import { makeDeviceFile } from "./testing/device-fixture.js";
import { AgentOrders, TestRegistry } from "./testing/test-registry.js";

const SIZE = 64 * 4096;
const DONE = "ORDER_OUTCOME_DONE";
const ALREADY = "ORDER_OUTCOME_ALREADY";
const OUTDATED = "ORDER_OUTCOME_OUTDATED";
const IO_ERROR = "ORDER_OUTCOME_IO_ERROR";
const UNKNOWN_DEVICE = "ORDER_OUTCOME_UNKNOWN_DEVICE";

describe("the disk agent's process", () => {
  let certs: TestCertificates;
  let folder: string;
  let registry: TestRegistry;
  let agent: TestAgent;
  let a: string;
  let b: string;

  before(async () => {
    certs = await testCertificates({ hostIds: ["host-1", "host-2"] });
  });

  beforeEach(async () => {
    folder = temporaryFolder();
    a = makeDeviceFile(folder, "a", SIZE);
    b = makeDeviceFile(folder, "b", SIZE);
    registry = new TestRegistry(certs.files("disk-registry"));
    await registry.start();
  });

  afterEach(async () => {
    await agent?.process.kill();
    await registry.stop();
  });

  const start = async (devices: readonly object[], config = {}) => {
    agent = await startTestAgent({
      hostId: "host-1",
      folder,
      certs,
      registryAddress: registry.address,
      devices,
      config,
    });
    return agent;
  };

  const twoDevices = () => [
    { deviceId: "dev-a", path: a, sizeBytes: SIZE },
    { deviceId: "dev-b", path: b, sizeBytes: SIZE },
  ];

  const orders = async (after = 0) => {
    const { bootId } = await registry.registered("host-1", after);
    return new AgentOrders(registry, "host-1", agent.address, certs.files("disk-registry"), bootId);
  };

  const list = async () => {
    const client = createClient(DiskAgentServiceDefinition, {
      address: agent.address,
      tls: certs.files("operator"),
      serverRole: "disk-agent",
      defaultDeadlineMs: 60_000,
    });
    try {
      return (await client.listDevices({})).devices;
    } finally {
      client.close();
    }
  };

  const ready = (timeoutMs: number) => {
    const asked = { tls: certs.files("operator"), serverRole: "disk-agent", serverName: "host-1" } as const;
    return waitForHealth({ ...asked, address: agent.address, timeoutMs });
  };

  const held = (path: string) => countDescriptors(agent.process.pid, path);

  it("holds all its devices from the start, before any registry is there", async () => {
    await registry.stop();
    await start(twoDevices(), { registry: { address: ["127.0.0.1:1", registry.address] } });
    expect([held(a), held(b)]).to.deep.equal([1, 1]);
    expect((await list()).map(({ deviceId, attached }) => [deviceId, attached])).to.deep.equal([
      ["dev-a", true],
      ["dev-b", true],
    ]);
    await eventually(() => rejection(ready(1_000), TimeoutError, /NOT_SERVING, for want of: registered$/));
    await registry.start();
    const registration = await registry.registered("host-1");
    expect(registration).to.include({ az: "z1", address: agent.address, tabletId: "" });
    await ready(30_000);
    const told = agent.process.logs.split("\n").filter((line) => line.includes("a registry cannot be reached"));
    const ofNobody = told.filter((line) => line.includes('"address":"127.0.0.1:1"'));
    expect(ofNobody, "each reason once, at once").to.have.length(1);
    expect(ofNobody[0]).to.contain("nobody listens there");
    await registry.stop();
    await eventually(() => rejection(ready(1_000), TimeoutError, /NOT_SERVING, for want of: registered$/));
    expect((await list()).map(({ attached }) => attached)).to.deep.equal([true, true], "it serves all the same");
    expect(agent.process.logs).to.contain("not ready for want of registered: ");
  });

  it("devices that the registry does not want held -> logged with its reason, once; had again when it says so", async () => {
    let reason = "the device id belongs to host other";
    registry.answer = (request) => {
      const answer = registry.allow(request, reason === "" ? [] : ["dev-a"]);
      return { ...answer, unknownDevices: answer.unknownDevices.map((device) => ({ ...device, reason })) };
    };
    await start(twoDevices());
    await registry.registered("host-1");
    const logged = () => agent.process.logs.split("\n").filter((line) => line.includes("belongs to host other")).length;
    await eventually(() => expect(logged()).to.equal(1));
    const registerAnew = async () => {
      const before = registry.registrations.length;
      registry.onHeartbeat = () => {
        registry.onHeartbeat = () => {};
        throw new AbortedError("register again");
      };
      await registry.registered("host-1", before);
    };
    await registerAnew();
    reason = "";
    registry.nextGeneration("dev-a");
    await registerAnew();
    await eventually(() => expect(held(a)).to.equal(1));
    expect(logged()).to.equal(1);
  });

  it("an error of the hardware that no registry was told before the agent died -> told by the next one, once", async () => {
    await start(twoDevices());
    await (await orders()).attach("dev-a");
    await agent.process.kill();
    const cache = join(agent.baseFolder, "agent-cache.json");
    const { sha256: _, ...memory } = JSON.parse(readFileSync(cache, "utf8"));
    memory.devices["dev-a"].hardwareError = "EIO: i/o error";
    writeFileSync(cache, seal(`${JSON.stringify(memory)}\n`));
    const before = registry.registrations.length;
    await start(twoDevices());
    const told = ({ devices }: { devices: { deviceId: string; hardwareError: string; health: string }[] }) =>
      devices.map(({ hardwareError, health }) => `${health} ${hardwareError}`.trim());
    const failed = ["HEALTH_ERROR EIO: i/o error", "HEALTH_ONLINE"];
    expect(told(await registry.registered("host-1", before))).to.deep.equal(failed);
    const heard = registry.heartbeats.length;
    await eventually(() => expect(registry.heartbeats.length).to.be.above(heard + 1));
    expect(registry.heartbeats.slice(heard).flatMap(({ hardwareErrors }) => hardwareErrors)).to.deep.equal([]);
    expect((await list()).map(({ health }) => health)).to.deep.equal(["HEALTH_ONLINE", "HEALTH_ONLINE"]);
  });

  it("bad device files are reported as ERROR with the reason, and harm no other device", async () => {
    const named = (name: string) => join(folder, name);
    mkdirSync(named("directory"));
    execFileSync("mkfifo", [named("fifo")]);
    makeDeviceFile(folder, "short", SIZE - 1);
    writeFileSync(named("empty"), "");
    const bad: [string, object, RegExp][] = [
      ["missing", { path: named("missing"), sizeBytes: SIZE }, /missing.*there is no such file/],
      ["directory", { path: named("directory"), sizeBytes: SIZE }, /it is a directory/],
      ["fifo", { path: named("fifo"), sizeBytes: SIZE }, /it is a FIFO/],
      ["character", { path: "/dev/null", sizeBytes: SIZE }, /character device/],
      ["short", { path: named("short"), sizeBytes: SIZE }, /too short.*needed/],
      ["empty", { path: named("empty") }, /too short/],
      ["beyond", { path: a, offsetBytes: SIZE, sizeBytes: SIZE }, /too short/],
    ];
    await start([...twoDevices(), ...bad.map(([deviceId, device]) => ({ deviceId, ...device }))]);
    const devices = new Map((await list()).map((device) => [device.deviceId, device]));
    for (const [deviceId, , reason] of bad) {
      const device = devices.get(deviceId);
      expect(device, deviceId).to.include({ health: "HEALTH_ERROR", attached: false });
      expect(device?.healthMessage, deviceId).to.match(reason);
    }
    expect(devices.get("dev-a")).to.include({ health: "HEALTH_ONLINE", attached: true });
    // One that is too short is open while it is looked at.
    await eventually(() =>
      expect([held(a), held(b), held(named("short")), held(named("fifo"))]).to.deep.equal([1, 1, 0, 0]),
    );
    const order = await orders();
    expect(await order.attach("missing")).to.equal(IO_ERROR);
    expect(await order.attach("dev-a")).to.equal(ALREADY);
    makeDeviceFile(folder, "missing", SIZE);
    expect(await order.attach("missing")).to.equal(DONE);
    expect(held(named("missing"))).to.equal(1);
    // A file that came to be is worth a registration, not only a heartbeat.
    await eventually(
      () =>
        registry.registrations
          .at(-1)
          ?.devices.some(({ deviceId, health }) => deviceId === "missing" && health === "HEALTH_ONLINE") ?? false,
    );
  });

  it("closes on detach, opens on attach, and refuses what is outdated", async () => {
    await start(twoDevices());
    const order = await orders();
    const detach = registry.nextGeneration("dev-a");
    expect(await order.detach("dev-a", detach)).to.equal(DONE);
    expect([held(a), held(b)]).to.deep.equal([0, 1]);
    expect(await order.attach("dev-a", detach - 1)).to.equal(OUTDATED);
    expect(await order.attach("dev-a", detach)).to.equal(OUTDATED);
    expect(await order.detach("dev-a", detach)).to.equal(ALREADY);
    expect(await order.detach("nobody")).to.equal(UNKNOWN_DEVICE);
    expect(held(a)).to.equal(0);
    expect(await order.attach("dev-a")).to.equal(DONE);
    expect(held(a)).to.equal(1);
  });

  it("refuses whole requests: another start, another tablet, a replaced leader", async () => {
    await start(twoDevices());
    const { client, bootId } = await orders();
    const generation = registry.nextGeneration("dev-a") + 10;
    const send = (boot: string, change: object) => {
      const stamp = { ...registry.stamp(generation), ...change };
      const request = { bootId: boot, devices: [{ deviceId: "dev-a", stamp, expected: undefined }] };
      return client.detachDevices(request).then(
        () => "obeyed",
        (error: Error) => error.name,
      );
    };
    expect(await send("another-boot", {})).to.equal("OutdatedError");
    expect(await send(bootId, { tabletId: "foreign" })).to.equal("InvalidStateError");
    expect(await send(bootId, { tabletGeneration: 0 })).to.equal("InvalidArgumentError");
    expect(held(a)).to.equal(1);
    registry.tabletGeneration = 5;
    const order = await orders();
    expect(await order.attach("dev-b")).to.equal(ALREADY);
    expect(await send(bootId, { tabletGeneration: 4 })).to.equal("OutdatedError");
    expect(held(a)).to.equal(1);
    expect(await send(bootId, { tabletGeneration: 5 })).to.equal("obeyed");
    expect(held(a)).to.equal(0);
  });

  it("orders come from the registry alone", async () => {
    await start(twoDevices());
    const { bootId } = await orders();
    for (const who of ["operator", "director", "disk-agent-host-2"]) {
      const order = new AgentOrders(registry, "host-1", agent.address, certs.files(who), bootId);
      await rejection(order.detach("dev-a"), PermissionDeniedError);
      order.client.close();
    }
    expect(held(a)).to.equal(1);
  });

  it("an operator and the registry may have the devices looked at, nobody else", async () => {
    await start(twoDevices());
    for (const [who, allowed] of [
      ["operator", true],
      ["disk-registry", true],
      ["director", false],
      ["disk-agent-host-2", false],
    ] as const) {
      const client = createClient(DiskAgentServiceDefinition, {
        address: agent.address,
        tls: certs.files(who),
        serverRole: "disk-agent",
        defaultDeadlineMs: 60_000,
      });
      const looking = client.rescanDevices({});
      if (allowed) expect((await looking).changedDeviceIds, who).to.deep.equal([]);
      else await rejection(looking, PermissionDeniedError);
      client.close();
    }
  });

  it("a registration's answer attaches and detaches; a refused one changes nothing", async () => {
    let refusals = 0;
    registry.answer = () => {
      refusals += 1;
      throw new AbortedError("not now");
    };
    await start(twoDevices());
    await eventually(() => refusals >= 2);
    expect([held(a), held(b)]).to.deep.equal([1, 1]);
    registry.answer = (request) => registry.allow(request, ["dev-b"]);
    await eventually(() => held(b) === 0);
    expect(held(a)).to.equal(1);
  });

  it("registers again when the registry forgot it", async () => {
    await start(twoDevices());
    await orders();
    registry.onHeartbeat = () => {
      throw new NotFoundError("no such host");
    };
    const before = registry.registrations.length;
    await eventually(() => registry.registrations.length > before);
  });

  it("killed at any moment, it comes back with what it had obeyed, without a registry", async () => {
    await start(twoDevices());
    for (let round = 0; round < 3; round += 1) {
      const order = await orders(registry.registrations.length - 1);
      const under = Array.from({ length: 20 }, (_, index) => {
        const kind = index % 2 === 0 ? "detach" : "attach";
        return order[kind]("dev-a").then(
          () => undefined,
          () => undefined,
        );
      });
      await order.detach("dev-b");
      await agent.process.kill();
      await Promise.all(under);
      order.client.close();
      await registry.stop();
      await agent.process.start();
      const [deviceA, deviceB] = await list();
      expect(held(b), "an acknowledged detach").to.equal(0);
      expect(deviceB?.attached).to.equal(false);
      expect(held(a)).to.equal(deviceA?.attached ? 1 : 0);
      await registry.start();
      await registry.registered("host-1", registry.registrations.length);
    }
  });

  /** Leaves an agent's folder as after a life in which dev-b was ordered detached; then whatever `lose` does to it. */
  const liveBefore = async (lose: (cacheFile: string) => void) => {
    await start(twoDevices());
    const order = await orders();
    expect(await order.detach("dev-b")).to.equal(DONE);
    await agent.process.kill();
    order.client.close();
    await registry.stop();
    lose(join(agent.baseFolder, "agent-cache.json"));
  };
  const setAside = () =>
    readdirSync(agent.baseFolder).filter((name) => name.startsWith("agent-cache.json.unusable-")).length;

  const losses: [string, (cacheFile: string) => void, RegExp | undefined][] = [
    ["torn", (file) => writeFileSync(file, readFileSync(file, "utf8").slice(0, 200)), /checksum/],
    ["edited", (file) => writeFileSync(file, readFileSync(file, "utf8").replace('"detach"', '"attach"')), /checksum/],
    [
      "of a format to come",
      (file) => writeFileSync(file, seal('{"format":"diskmesh-agent-cache-9"}')),
      /agent-cache-9/,
    ],
    ["empty", (file) => writeFileSync(file, ""), /JSON/],
    ["gone", (file) => rmSync(file), undefined],
    [
      "torn, and the mark gone",
      (file) => {
        writeFileSync(file, "{");
        rmSync(join(file, "..", "agent-has-run"));
      },
      /JSON/,
    ],
  ];
  for (const [what, lose, reason] of losses)
    it(`a cache that is ${what} -> nothing is opened, and no order obeyed, until it has registered; however often it starts`, async () => {
      await liveBefore(lose);
      for (let starts = 0; starts < 2; starts += 1) {
        await agent.process.start();
        expect([held(a), held(b)]).to.deep.equal([0, 0]);
        expect(agent.process.logs).to.match(/the cache is lost/);
        if (starts === 0) await agent.process.kill();
      }
      expect(setAside()).to.equal(reason ? 1 : 0);
      if (reason) expect(agent.process.logs).to.match(reason);
      registry.answer = () => {
        throw new AbortedError("not yet");
      };
      await registry.start();
      const { bootId, tabletId, devices } = await registry.registered("host-1", 1);
      expect(tabletId).to.equal("");
      expect(devices.map(({ deviceId, attached, sizeBytes }) => [deviceId, attached, sizeBytes])).to.deep.equal([
        ["dev-a", false, SIZE],
        ["dev-b", false, SIZE],
      ]);
      const late = new AgentOrders(registry, "host-1", agent.address, certs.files("disk-registry"), bootId);
      await rejection(late.attach("dev-b"), UnavailableError);
      expect([held(a), held(b)]).to.deep.equal([0, 0]);
      registry.answer = (request) => registry.allow(request, ["dev-b"]);
      await eventually(() => held(a) === 1);
      expect(held(b)).to.equal(0);
      expect(await late.attach("dev-b")).to.equal(DONE);
      late.client.close();
    });

  it("killed before it ever registered -> its next start still opens all", async () => {
    await registry.stop();
    await start(twoDevices());
    await eventually(() => existsSync(join(agent.baseFolder, "agent-cache.json")));
    await agent.process.kill();
    await agent.process.start();
    expect([held(a), held(b)]).to.deep.equal([1, 1]);
    await registry.start();
  });

  it("the cache of the release before, without a checksum or a mark -> it goes on as it was", async () => {
    await liveBefore((file) => {
      const {
        sha256: _,
        incarnation: __,
        formerIncarnations: ___,
        ...contents
      } = JSON.parse(readFileSync(file, "utf8"));
      writeFileSync(file, JSON.stringify({ ...contents, format: "diskmesh-agent-cache-1" }));
      rmSync(join(file, "..", "agent-has-run"));
    });
    await agent.process.start();
    expect([held(a), held(b)]).to.deep.equal([1, 0]);
    expect(setAside()).to.equal(0);
    await registry.start();
    const { tabletId, incarnation } = await registry.registered("host-1", 1);
    expect([tabletId, incarnation]).to.deep.equal([registry.tabletId, ""]);
    await eventually(() => expect(registry.heartbeats.at(-1)).to.include({ incarnation: registry.incarnation }));
  });

  it("another host's cache is set aside too, and shows an earlier life", async () => {
    mkdirSync(join(folder, "base"));
    writeFileSync(
      join(folder, "base", "agent-cache.json"),
      JSON.stringify({ format: "diskmesh-agent-cache-1", complete: true, hostId: "host-9" }),
    );
    registry.answer = () => {
      throw new AbortedError("not yet");
    };
    await start(twoDevices());
    expect(agent.process.logs).to.match(/belongs to host \\*"host-9/);
    expect(held(a)).to.equal(0);
    registry.answer = (request) => registry.allow(request);
    await eventually(() => held(a) === 1);
  });

  it("a second agent on the same base folder is kept out; one after a SIGTERM is not", async () => {
    await start(twoDevices());
    const second = await spawnService({
      name: "second",
      mainFile: fileURLToPath(new URL("./main.js", import.meta.url)),
      folder,
      config: {
        hostId: "host-1",
        az: "z1",
        listen: { host: "127.0.0.1", port: 0 },
        tls: certs.files("disk-agent-host-1"),
        registry: { address: registry.address },
        baseFolder: agent.baseFolder,
        devices: [],
      },
      health: { address: "127.0.0.1:1", tls: certs.files("operator"), serverRole: "disk-agent" },
      waitFor: "nothing",
    });
    await eventually(() => second.exit !== undefined);
    expect(second.exit?.code).to.equal(1);
    expect(second.logs).to.contain(`is in use by process ${agent.process.pid} (`);
    expect(await agent.process.stop()).to.include({ code: 0 });
    await agent.process.start();
    expect(held(a)).to.equal(1);
  });

  it("a config with overlapping or repeated devices is refused in one line", async () => {
    const failed = await start([
      { deviceId: "dev-a", path: a, sizeBytes: 8192 },
      { deviceId: "dev-b", path: a, offsetBytes: 4096, sizeBytes: 8192 },
      { deviceId: "dev-a", path: b, sizeBytes: 4096 },
    ]).catch((error: Error) => error.message);
    expect(failed).to.match(/overlaps dev-a/);
    expect(failed).to.match(/dev-a is used twice/);
    rmSync(b);
  });
});
