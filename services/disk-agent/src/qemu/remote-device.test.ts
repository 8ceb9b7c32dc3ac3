import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { rejection } from "@diskmesh/domain/testing";
import { skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import { endBlockDevices } from "../block-device/block-devices.js";
import { ConnectionEndedError } from "../nbd/byte-reader.js";
import { NbdClient } from "../nbd/client.js";
import { keyOf } from "../testing/test-registry.js";
import { SIZE_BYTES, TwoAgents } from "../testing/two-agents.js";
import { killDaemons } from "./daemon.js";

const BLOCK_BYTES = 4096;

describe("a storage daemon for a device of another host", () => {
  before(function () {
    skipWithout(this, "qemu-storage-daemon");
  });
  const agents = TwoAgents.forAllTests({ engine: "qemu", remoteIoTimeoutMs: 60_000 });

  afterEach(async () => {
    const folder = join(agents.one.baseFolder, "exports");
    await endBlockDevices(folder, () => false);
    await killDaemons(folder, () => true);
  });

  const socketOn = (agent: { baseFolder: string }, diskId: string) =>
    join(agent.baseFolder, "exports", `${diskId}.sock`);
  const deviceFile = () => readFileSync(join(agents.folder, "host-2", "a"));

  it("reads and writes it, waits for a restart of its agent, and shows the key to nobody", async () => {
    const { number } = await agents.publishOne("disk-1", { on: agents.two, name: "a" }, agents.one);
    expect(agents.one.process.logs).to.match(/"engine":"qemu".*export started/);
    const client = await NbdClient.connect({ socketPath: socketOn(agents.one, "disk-1") });
    expect(client.sizeBytes).to.equal(SIZE_BYTES);
    await client.write(BLOCK_BYTES, Buffer.alloc(BLOCK_BYTES, 5), { fua: true });
    expect(
      deviceFile()
        .subarray(BLOCK_BYTES, 2 * BLOCK_BYTES)
        .equals(Buffer.alloc(BLOCK_BYTES, 5)),
    ).to.equal(true);
    const key = keyOf(number).toString("hex");
    const shown = readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && argumentsAndEnvironment(pid).includes(key));
    expect(shown).to.deep.equal([]);
    expect(agents.one.process.logs + agents.two.process.logs).not.to.include(key);

    await agents.two.process.kill();
    const writing = client.write(0, Buffer.alloc(BLOCK_BYTES, 6), { fua: true });
    await agents.two.process.start();
    await writing;
    expect(deviceFile().subarray(0, BLOCK_BYTES).equals(Buffer.alloc(BLOCK_BYTES, 6))).to.equal(true);
    agents.ordersTwo.client.close();
    agents.ordersTwo = await agents.ordersOf(agents.two, agents.registry.registrations.length - 1);

    // The holder's agent is killed, too: the daemon goes on.
    await agents.one.process.kill();
    await client.write(0, Buffer.alloc(BLOCK_BYTES, 7), { fua: true });
    await agents.one.process.start();
    await client.write(0, Buffer.alloc(BLOCK_BYTES, 8), { fua: true });
    expect(agents.one.process.logs).to.match(/export adopted/);
    agents.ordersOne.client.close();
    agents.ordersOne = await agents.ordersOf(agents.one, agents.registry.registrations.length - 1);
    await client.disconnect();
  });

  it("loses no I/O when both agents are killed", async () => {
    await agents.publishOne("disk-4", { on: agents.two, name: "a" }, agents.one);
    const client = await NbdClient.connect({ socketPath: socketOn(agents.one, "disk-4") });
    await client.write(0, Buffer.alloc(BLOCK_BYTES, 1), { fua: true });
    await Promise.all([agents.one.process.kill(), agents.two.process.kill()]);
    const reading = client.read(0, BLOCK_BYTES);
    const writing = client.write(BLOCK_BYTES, Buffer.alloc(BLOCK_BYTES, 2), { fua: true });
    await agents.one.process.start();
    await agents.two.process.start();
    expect((await reading).equals(Buffer.alloc(BLOCK_BYTES, 1))).to.equal(true);
    await writing;
    await client.disconnect();
    agents.ordersOne.client.close();
    agents.ordersTwo.client.close();
    agents.ordersOne = await agents.ordersOf(agents.one, agents.registry.registrations.length - 2);
    agents.ordersTwo = await agents.ordersOf(agents.two, agents.registry.registrations.length - 2);
  });

  it("is killed at its agent's next start when its folder was removed", async () => {
    await agents.publishOne("disk-5", { on: agents.two, name: "a" }, agents.one);
    const client = await NbdClient.connect({ socketPath: socketOn(agents.one, "disk-5") });
    await agents.one.process.kill();
    await endBlockDevices(join(agents.one.baseFolder, "exports"), () => false);
    rmSync(agents.one.baseFolder, { recursive: true });
    await agents.one.process.start();
    expect(await rejection(client.read(0, BLOCK_BYTES))).to.be.instanceOf(ConnectionEndedError);
    agents.ordersOne.client.close();
    agents.ordersOne = await agents.ordersOf(agents.one, agents.registry.registrations.length - 1);
  });

  it("is refused the device under the name of another start of its machine", async () => {
    const { number } = await agents.publishOne("disk-3", { on: agents.two, name: "a" }, agents.one);
    const client = await NbdClient.connect({ socketPath: socketOn(agents.one, "disk-3") });
    const [folder] = readdirSync(join(agents.one.baseFolder, "exports")).filter((name) => name.endsWith(".key"));
    expect(folder).to.equal(`session-${number}.key`);
    await client.disconnect();
    const pidFile = join(agents.one.baseFolder, "exports", `session-${number}.pid`);
    const text = argumentsAndEnvironment(readFileSync(pidFile, "utf8").trim());
    const exportName = /"export":"([^"]+)"/.exec(text)?.[1] ?? "";
    expect(exportName).to.match(new RegExp(`^host-2-a/${number}@[0-9a-f-]{36}$`));
    const [, port = ""] = /"port":"(\d+)"/.exec(text) ?? [];
    const connect = (name: string) =>
      NbdClient.connectOverTls(
        { host: "127.0.0.1", port: Number(port), identity: `host-2-a/${number}`, key: keyOf(number), exportName: name },
        { signal: AbortSignal.timeout(5_000), silenceTimeoutMs: 5_000 },
      );
    const other = exportName.replace(/@.*/, "@00000000-0000-0000-0000-000000000000");
    expect((await rejection(connect(other))).message).to.match(/serves the export .* alone/);
    (await connect(exportName)).destroy();
  });
});

function argumentsAndEnvironment(pid: string): string {
  try {
    return ["cmdline", "environ"].map((name) => readFileSync(`/proc/${pid}/${name}`, "utf8")).join(" ");
  } catch {
    return "";
  }
}
