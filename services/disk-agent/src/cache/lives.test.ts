import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { RegisterAgentResponse, RememberedRun } from "@diskmesh/api/internal";
import { AbortedError, type DeviceId, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, leaveToVerify, spawnService } from "@diskmesh/testkit";
import { expect } from "chai";
import { diskDigest } from "../labels/disk-digest.js";
import { type DeviceLabel, LABEL_BYTES, labelWrites } from "../model/label.js";
import { decodeRecord } from "../model/run-record.js";
import { decodeTable, RUN_UNIT_BYTES } from "../model/run-table.js";
import { NbdClient } from "../nbd/client.js";
import { AgentScene, DEVICE_BYTES, DONE } from "../testing/agent-scene.js";
import { makeDeviceFile } from "../testing/device-fixture.js";
import { seal } from "./seal.js";
import { latestText } from "./slots.js";

/** Returns the latest contents of a cache file. */
const plainOf = (file: string): string => latestText(readFileSync(file, "utf8"));

describe("an agent's cache over restarts", () => {
  const scene = AgentScene.forEachTest();

  it("restores everything obeyed after a kill at any moment, without a registry", async () => {
    const { registry } = scene;
    await scene.start();
    for (let round = 0; round < 3; round += 1) {
      const order = await scene.orders(registry.registrations.length - 1);
      const under = Array.from({ length: 20 }, (_, index) => {
        const kind = index % 2 === 0 ? "detach" : "attach";
        return order[kind]("dev-a").then(
          () => undefined,
          () => undefined,
        );
      });
      await order.detach("dev-b");
      await scene.agent.process.kill();
      await Promise.all(under);
      await registry.stop();
      await scene.agent.process.start();
      const [deviceA, deviceB] = (await scene.list()).devices;
      expect(scene.held("b"), "an acknowledged detach").to.equal(0);
      expect(deviceB?.attached).to.equal(false);
      expect(scene.held("a")).to.equal(deviceA?.attached ? 1 : 0);
      await registry.start();
      await registry.registered("host-1", registry.registrations.length);
    }
  });

  /** Runs an agent in which dev-b is ordered detached, kills it, and applies `lose` to its cache. */
  const liveBefore = async (lose: (cacheFile: string) => void) => {
    await scene.start();
    const order = await scene.orders();
    expect(await order.detach("dev-b")).to.equal(DONE);
    await scene.agent.process.kill();
    await scene.registry.stop();
    lose(join(scene.agent.baseFolder, "agent-cache.json"));
  };
  const setAside = () =>
    readdirSync(scene.agent.baseFolder).filter((name) => name.startsWith("agent-cache.json.unusable-")).length;

  const losses: [string, (cacheFile: string) => void, RegExp | undefined][] = [
    ["torn", (file) => writeFileSync(file, readFileSync(file, "utf8").slice(0, 200)), /checksum/],
    ["torn in the middle", (file) => truncateSync(file, statSync(file).size / 2), /checksum|slot/],
    ["edited", (file) => writeFileSync(file, readFileSync(file, "utf8").replaceAll("detach", "attach")), /checksum/],
    ["edited without slots", (file) => writeFileSync(file, plainOf(file).replace('"detach"', '"attach"')), /checksum/],
    [
      "of a format to come",
      (file) => writeFileSync(file, seal('{"format":"diskmesh-agent-cache-9"}')),
      /agent-cache-9/,
    ],
    ["empty", (file) => writeFileSync(file, ""), /checksum/],
    ["gone", (file) => rmSync(file), undefined],
    [
      "torn, and the mark gone",
      (file) => {
        writeFileSync(file, "{");
        rmSync(join(file, "..", "agent-has-run"));
      },
      /checksum/,
    ],
  ];

  it("of a kill while a label is written has a whole label, or none before the first one", async () => {
    const { registry } = scene;
    const labelOf = (digit: string) => ({
      ...{ fleetId: registry.tabletId, deviceId: "dev-a", labelId: digit.repeat(32) },
      ...{ sizeBytes: DEVICE_BYTES, sliceBytes: 65_536, offsetBytes: 0 },
    });
    let known = "LABEL_STATE_NONE";
    await scene.start();
    for (let round = 1; round <= 6; round += 1) {
      const { bootId, client } = await scene.orders(registry.registrations.length - 1);
      const write = (sessionNumber: number, digit: string) => {
        const run = { deviceId: "dev-a", sizeBytes: 65_536, label: labelOf(digit) };
        return client.writeLabel({ bootId, stamp: registry.stamp(), sessionNumber, ...run });
      };
      const isAnswered = round % 2 === 0;
      const digit = `${round}`;
      const written = write(round, digit).catch(() => undefined);
      if (isAnswered) expect(await written).to.deep.include({ label: labelOf(digit) });
      await scene.agent.process.kill();
      await written;
      const before = registry.registrations.length;
      await scene.agent.process.start();
      const [device] = (await registry.registered("host-1", before)).devices;
      const found = device?.label?.labelId[0] ?? device?.labelState ?? "";
      expect(isAnswered ? [digit] : [digit, known], `round ${round}`).to.include(found);
      expect(device?.runsDigest, "no session is left").to.equal(createHash("sha256").update("").digest("hex"));
      known = found;
    }
  });

  it("knows the label of each device: bytes that were written over one while the agent was off are not served", async () => {
    const { registry } = scene;
    const SLICE = { offsetBytes: LABEL_BYTES, sizeBytes: LABEL_BYTES };
    const labelOf = (deviceId: string, digit: string) => ({
      ...{ fleetId: registry.tabletId, deviceId: deviceId as DeviceId, labelId: digit.repeat(32) },
      ...{ sizeBytes: DEVICE_BYTES, sliceBytes: LABEL_BYTES, offsetBytes: 0 },
    });
    /** Returns the bytes of a labelled drive, filled with a letter. */
    const bytesOf = (label: DeviceLabel, letter: string) => {
      const bytes = Buffer.alloc(DEVICE_BYTES, letter);
      for (const write of labelWrites(label, { state: "none" })) write.bytes.copy(bytes, write.offsetBytes);
      return bytes;
    };
    const [own, others] = [labelOf("dev-a", "a"), labelOf("dev-z", "b")];
    await scene.start({ remoteIoTimeoutMs: 1_000 });
    const order = await scene.orders();
    const { bootId, client } = order;
    const about = { bootId, stamp: registry.stamp() };
    const run = { deviceId: "dev-a", sizeBytes: LABEL_BYTES, label: own };
    expect(await client.writeLabel({ ...about, sessionNumber: 1, ...run })).to.deep.include({ label: own });
    const session = { sessionNumber: 2, diskId: "disk-1", holderHostId: "host-1" };
    await client.openSession({ ...about, ...session, runs: [{ deviceId: "dev-a", ...SLICE }] });
    const socketPath = await order.export("disk-1", 2, [{ deviceId: "dev-a", hostId: "host-1", ...SLICE }]);
    /** Returns the letter that the disk's first byte has; "" while it cannot be read. */
    const served = async () => {
      const disk = await NbdClient.connect({ socketPath });
      const letter = disk.read(0, 4_096).then(
        (bytes) => String.fromCharCode(bytes[0] ?? 0),
        () => "",
      );
      return letter.finally(() => disk.disconnect());
    };
    await registry.stop();
    for (const [bytes, letter, why] of [
      [bytesOf(own, "x"), "x"],
      [bytesOf(others, "y"), "", /another label.*dev-z/],
      [bytesOf(own, "x").fill(0, 0, LABEL_BYTES), "", /lost its label: zero/],
      [bytesOf(own, "x"), "x"],
    ] as const) {
      await scene.agent.process.kill();
      writeFileSync(scene.path("a"), bytes);
      await scene.agent.process.start();
      expect(await served()).to.equal(letter);
      const [device] = (await scene.list()).devices;
      expect(device?.attached).to.equal(letter !== "");
      if (why !== undefined) expect(device?.healthMessage).to.match(why);
    }
    await registry.start();
    await registry.registered("host-1", 1);
  });

  it("of a kill while a session is opened remembers no session of a run that lacks table or record", async () => {
    const { registry } = scene;
    const [headBytes, runBytes] = [RUN_UNIT_BYTES, 2 * RUN_UNIT_BYTES];
    const runAt = (index: number) => ({ offsetBytes: headBytes + index * runBytes, sizeBytes: runBytes });
    const path = makeDeviceFile(scene.folder, "a", headBytes + 6 * runBytes);
    const onDevice = () => {
      const bytes = readFileSync(path);
      const { entries } = decodeTable(bytes.subarray(0, LABEL_BYTES));
      return entries.map(({ offsetBytes, sizeBytes, disk }) => {
        const found = decodeRecord(bytes.subarray(offsetBytes));
        return { offsetBytes, sizeBytes, disk, session: found?.record.sessionNumber ?? 0 };
      });
    };
    await scene.start({}, [{ deviceId: "dev-a", path }]);
    for (let round = 0; round < 6; round += 1) {
      const { bootId, client } = await scene.orders(registry.registrations.length - 1);
      const record = { diskSizeBytes: headBytes, blockSizeBytes: 4096, partCount: 1, parts: [] };
      const place = { deviceId: "dev-a", ...runAt(round) };
      const sessionNumber = round + 1;
      const order = { sessionNumber, diskId: `disk-${round}`, holderHostId: "host-1", runs: [{ ...place, record }] };
      const opening = client.openSession({ bootId, stamp: registry.stamp(), ...order }).catch(() => undefined);
      const has = () => onDevice().find(({ offsetBytes }) => offsetBytes === place.offsetBytes);
      // The former one is killed before the session is remembered, or before its record is there.
      if (round % 2 === 0) while (has() === undefined) await new Promise(setImmediate);
      else expect((await opening)?.outcomes[0]?.outcome).to.equal(DONE);
      await scene.agent.process.kill();
      await opening;
      expect(has()).to.deep.include({ ...runAt(round), disk: diskDigest(order.diskId) });
      if (round % 2 === 1) expect(has()?.session).to.equal(sessionNumber);
      const before = registry.registrations.length;
      await scene.agent.process.start();
      await registry.registered("host-1", before);
      const { runs } = await scene.client("disk-registry").listRuns({ deviceId: "dev-a" });
      const entered = onDevice().map(({ offsetBytes, disk, session }) => `${offsetBytes} ${disk} ${session}`);
      const remembered = runs.map((run) => `${run.offsetBytes} ${diskDigest(run.diskId)} ${run.sessionNumber}`);
      expect(entered).to.include.members(remembered);
    }
  });

  it("gets floors and sessions of its devices back with the registration's answer", async () => {
    const { registry } = scene;
    await liveBefore((file) => rmSync(file));
    const [first, second] = [
      { offsetBytes: 0, sizeBytes: 4096, sessionNumber: 7, diskId: "disk-1", holderHostId: "host-1" },
      {
        offsetBytes: 8192,
        sizeBytes: 4096,
        sessionNumber: 8,
        diskId: "",
        holderHostId: "",
        ended: true,
        isErase: true,
      },
    ];
    registry.answer = (request) => {
      const answer = registry.allow(request);
      const allowedDevices = answer.allowedDevices.map((device) => ({ ...device, floor: 9, runs: [first, second] }));
      return RegisterAgentResponse.fromPartial({ ...answer, allowedDevices });
    };
    await registry.start();
    await scene.agent.process.start();
    const { bootId, client } = await scene.orders(1);
    const digestOf = (lines: string) => createHash("sha256").update(lines).digest("hex");
    const lost = { floor: 0, runsDigest: digestOf(""), sessionNumber: 0 };
    expect(registry.registrations.at(-1)).to.include({ knowsRuns: true });
    expect(registry.registrations.at(-1)?.devices[0]).to.include(lost);
    await eventually(() => scene.held("a") === 1);
    const page = await client.listRuns({ deviceId: "dev-a", pageSize: 1 });
    expect(page).to.deep.include({ floor: 9, nextOffsetBytes: 8192 });
    const rest = await client.listRuns({ deviceId: "dev-a", fromOffsetBytes: page.nextOffsetBytes });
    expect(rest.nextOffsetBytes).to.equal(0);
    expect([...page.runs, ...rest.runs]).to.deep.equal(
      [first, second].map((run) => RememberedRun.fromPartial(run ?? {})),
    );
    const open = async (sessionNumber: number, offsetBytes: number) => {
      const runs = [{ deviceId: "dev-a", offsetBytes, sizeBytes: 4096 }];
      const order = { bootId, stamp: registry.stamp(), sessionNumber, diskId: "disk-1", holderHostId: "host-1", runs };
      return (await client.openSession(order)).outcomes[0];
    };
    expect((await open(7, 0))?.outcome).to.equal("ORDER_OUTCOME_ALREADY");
    expect(await open(9, 16_384)).to.include({ outcome: "ORDER_OUTCOME_BELOW_FLOOR", floor: 9 });
    expect((await open(10, 16_384))?.outcome).to.equal(DONE);
    await scene.registerAnew();
    const told = {
      floor: 9,
      runsDigest: digestOf("0 4096 7 disk-1\n8192 4096 8 \n16384 4096 10 disk-1\n"),
      sessionNumber: 10,
    };
    expect(registry.registrations.at(-1)?.devices[0]).to.include(told);
  });

  const OFTENEST = ["torn", "gone"];
  for (const [what, lose, reason] of losses)
    it(`that is ${what} opens nothing and obeys no order before a registration, however often the agent starts`, async function () {
      if (!OFTENEST.includes(what)) leaveToVerify(this);
      const { registry } = scene;
      await liveBefore(lose);
      for (let starts = 0; starts < 2; starts += 1) {
        await scene.agent.process.start();
        expect(scene.bothHeld).to.deep.equal([0, 0]);
        expect(scene.agent.process.logs).to.match(/"cache lost, /);
        if (starts === 0) await scene.agent.process.kill();
      }
      expect(setAside()).to.equal(reason ? 1 : 0);
      if (reason) expect(scene.agent.process.logs).to.match(reason);
      registry.answer = () => {
        throw new AbortedError("not yet");
      };
      await registry.start();
      const { bootId, tabletId, devices } = await registry.registered("host-1", 1);
      expect(tabletId).to.equal("");
      expect(devices.map(({ deviceId, attached, sizeBytes }) => [deviceId, attached, sizeBytes])).to.deep.equal([
        ["dev-a", false, DEVICE_BYTES],
        ["dev-b", false, DEVICE_BYTES],
      ]);
      const late = scene.ordersOf("disk-registry", bootId);
      await rejection(late.attach("dev-b"), UnavailableError);
      expect(scene.bothHeld).to.deep.equal([0, 0]);
      registry.answer = (request) => registry.allow(request, ["dev-b"]);
      await eventually(() => scene.held("a") === 1);
      expect(scene.held("b")).to.equal(0);
      expect(await late.attach("dev-b")).to.equal(DONE);
    });

  it("of an agent killed before it registered lets the next start open all devices", async () => {
    await scene.registry.stop();
    await scene.start();
    await eventually(() => existsSync(join(scene.agent.baseFolder, "agent-cache.json")));
    await scene.agent.process.kill();
    await scene.agent.process.start();
    expect(scene.bothHeld).to.deep.equal([1, 1]);
    await scene.registry.start();
  });

  it("of 0.1.0 after a clean stop, without slots, is used", async () => {
    const { registry } = scene;
    await liveBefore((file) => writeFileSync(file, plainOf(file)));
    await scene.agent.process.start();
    expect(scene.bothHeld).to.deep.equal([1, 0]);
    expect(setAside()).to.equal(0);
    await registry.start();
    const { tabletId, incarnation } = await registry.registered("host-1", 1);
    expect([tabletId, incarnation]).to.deep.equal([registry.tabletId, registry.incarnation]);
  });

  it("of another host is renamed, and proves an earlier run", async () => {
    const { registry } = scene;
    mkdirSync(scene.path("base"));
    writeFileSync(
      join(scene.path("base"), "agent-cache.json"),
      seal(JSON.stringify({ format: "diskmesh-agent-cache-2", complete: true, hostId: "host-9" })),
    );
    registry.answer = () => {
      throw new AbortedError("not yet");
    };
    await scene.start();
    expect(scene.agent.process.logs).to.match(/belongs to host \\*"host-9/);
    expect(scene.held("a")).to.equal(0);
    registry.answer = (request) => registry.allow(request);
    await eventually(() => scene.held("a") === 1);
  });

  it("admits no second agent on the same base folder, and one after a SIGTERM", async () => {
    const { certs, registry, folder } = scene;
    await scene.start();
    const { agent } = scene;
    const second = await spawnService({
      name: "second",
      mainFile: fileURLToPath(new URL("../main.js", import.meta.url)),
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
    expect(scene.held("a")).to.equal(1);
  });
});
