import { execFileSync, spawnSync } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { cpSync, lstatSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { MIB_BYTES } from "@diskmesh/domain";
import { OWN_USER, SAMPLE_DRIVER } from "@diskmesh/driver/testing";
import { eventually, freePort, onExit, ServiceProcess, SmallDisk, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { makeDeviceFile } from "../mesh/device-files.js";
import { deleteDisk, detachDisk } from "../mesh/steps.js";
import type { Situation } from "./situation.js";
import type { StuckFleet } from "./stuck-fleet.js";

/** Restarts a host's agent with a changed config. Returns a function that restarts the agent as it was. */
async function changed({ mesh }: StuckFleet, hostId: string, change: object): Promise<() => Promise<unknown>> {
  const agent = mesh.process(hostId);
  const { config } = agent;
  await agent.restart({ ...config, ...change }, "nothing");
  return () => agent.restart(config);
}

/** Changes the config of nats-server, which reloads it. */
function changeNats({ mesh }: StuckFleet, change: (text: string) => string): void {
  const file = join(mesh.folder, `nats-${mesh.nats.port}.conf`);
  writeFileSync(file, change(readFileSync(file, "utf8")));
  mesh.nats.signal("SIGHUP");
}

/** Makes a file immutable. Returns a function that ends this, which the process's exit calls, too. */
function immutable(file: string): () => void {
  execFileSync("chattr", ["+i", file]);
  const forget = onExit(() => spawnSync("chattr", ["-i", file]));
  return () => {
    forget();
    execFileSync("chattr", ["-i", file]);
  };
}

function mayChangeFlags(): boolean {
  const file = join(temporaryFolder(), "file");
  writeFileSync(file, "");
  return ["+i", "-i"].every((flag) => spawnSync("chattr", [flag, file]).status === 0);
}

/** Creates a disk on a device of that host, published to the host. */
async function servedOn({ mesh }: StuckFleet, hostId: string, diskId: string): Promise<() => Promise<unknown>> {
  const { registry } = mesh.clients;
  await eventually(() => registry.createDisk({ diskId, hostId, sizeBytes: MIB_BYTES }));
  await registry.publishDisk({ diskId, hostId });
  return async () => {
    await eventually(() => registry.unpublishDisk({ diskId }));
    await eventually(() => registry.deleteDisk({ diskId }));
  };
}

/**
 * Situations on real meshes whose cause operators could not find with `why` alone. Each leaves the mesh as it found it.
 */
export const OPERATOR_SITUATIONS: readonly Situation[] = [
  {
    title: "disk type misspelt",
    async make(stuck) {
      const provide = `provide typo ${stuck.instanceIds[0]} --size 1MiB --disk-type`;
      expect((await stuck.typed(`${provide} defualt`)).code).to.equal(1);
      return {
        asked: ["task", await stuck.lastTask()],
        root: /has failed: could not find disk type `defualt`: .*default/,
        reasons: ["FAILED"],
        row: [`task ${await stuck.lastTask()}`, /could not find disk type `defualt`/],
        cure: /^repeat the request/,
        follow: () => stuck.done(`${provide} default`),
        cured: async () => {},
        after: async () => {
          await detachDisk(stuck.mesh, "typo");
          await deleteDisk(stuck.mesh, "typo");
        },
      };
    },
  },
  {
    title: "device replaced by a bigger one, with a disk on it",
    async make(stuck) {
      const { mesh } = stuck;
      const end = await servedOn(stuck, "host-4", "replaced");
      const file = mesh.deviceFile("host-4", 0);
      renameSync(file, `${file}.former`);
      makeDeviceFile(file, 2 * MIB_BYTES);
      await mesh.agentClient("host-4").rescanDevices({});
      return {
        asked: ["device", "host-4-device-1"],
        root: /disk replaced|is not the same|hardware|another file/,
        reasons: ["REPLACED"],
        row: ["device host-4-device-1", /host-4-device-1/],
        cure: /^put the former hardware back: disk replaced is on it/,
        refused: /diskmesh add-device/,
        follow: async () => {
          renameSync(`${file}.former`, file);
          await mesh.agentClient("host-4").rescanDevices({});
        },
        after: end,
      };
    },
  },
  {
    title: "device file that the agent may not open",
    problem: () => (mayChangeFlags() ? undefined : "no file can be made immutable here"),
    async make({ mesh }) {
      const agent = mesh.process("host-9");
      const file = mesh.deviceFile("host-9", 0);
      // Not even root may open an immutable file for writing.
      const mend = immutable(file);
      await agent.restart(agent.config, "nothing");
      return {
        asked: ["device", "host-9-device-1"],
        root: /cannot be used: the agent's user may not read and write it \(EPERM\): see its owner and mode, lsattr/,
        reasons: ["UNHEALTHY"],
        row: ["device host-9-device-1", /may not read and write it/],
        cure: /^correct the device file on host host-9, as the message says/,
        follow: async () => mend(),
      };
    },
  },
  {
    title: "registry that cannot reach an agent, which reaches the registry",
    async make(stuck) {
      const connections = new Set<Socket>();
      const hole: Server = createServer((socket) => connections.add(socket));
      await new Promise<void>((resolve) => hole.listen(0, "127.0.0.1", resolve));
      const { port } = hole.address() as { port: number };
      const back = await changed(stuck, "host-6", { advertisedAddress: `127.0.0.1:${port}` });
      await stuck.typed("remove-device host-6 host-6-device-1");
      return {
        asked: ["device", "host-6-device-1"],
        root: new RegExp(`has not yet confirmed the order to close device host-6-device-1 .*127.0.0.1:${port}`),
        reasons: ["ORDER_PENDING"],
        row: ["device host-6-device-1", /has not yet confirmed/],
        cure: /: repair the network to it/,
        follow: async () => {
          await back();
          hole.close();
          for (const socket of connections) socket.destroy();
        },
        after: () => stuck.done("add-device host-6 host-6-device-1 --wait"),
      };
    },
  },
  {
    title: "certificate revoked",
    async make({ mesh }) {
      const registry = mesh.process("disk-registry");
      const { config } = registry;
      const revokedFile = join(mesh.folder, "revoked");
      const { serialNumber } = new X509Certificate(readFileSync(mesh.certificates.files("disk-agent-host-7").certFile));
      writeFileSync(revokedFile, `${serialNumber} # stolen\n`);
      await registry.restart({ ...config, tls: { ...(config as { tls: object }).tls, revokedFile } });
      return {
        asked: ["host", "host-7"],
        root: /is refused: the certificate of disk-agent host-7 with the serial number \S+ is revoked/,
        reasons: ["AGENT_REFUSED"],
        row: ["host host-7", /is refused/],
        cure: /^if the client is the host's agent, replace the files under `tls`/,
        follow: async () => writeFileSync(revokedFile, ""),
        after: () => registry.restart(config),
      };
    },
  },
  {
    title: "certificate file torn while an agent runs",
    async make({ mesh }) {
      const { certFile } = mesh.certificates.files("disk-agent-host-4");
      const whole = readFileSync(certFile, "utf8");
      writeFileSync(certFile, whole.slice(0, 100));
      return {
        asked: ["host", "host-4"],
        root: /^host host-4 is ONLINE: the agent of host host-4 warns: TLS file change rejected, .*certFile/,
        reasons: ["AGENT_WARNS"],
        row: ["host host-4", /warns: TLS file change rejected/],
        cure: /^correct the file that the message names/,
        follow: async () => writeFileSync(certFile, whole),
      };
    },
  },
  {
    title: "two agents of one host id",
    async make({ mesh }) {
      const { config } = mesh.process("host-5");
      const port = await freePort();
      const second = new ServiceProcess({
        name: "host-5-again",
        mainFile: mesh.process("host-5").mainFile,
        folder: mesh.folder,
        config: {
          ...config,
          ...{
            listen: { host: "127.0.0.1", port },
            devices: [],
            metrics: undefined,
            baseFolder: join(mesh.folder, "host-5-again"),
          },
        },
        health: {
          ...{ address: `127.0.0.1:${port}`, tls: mesh.operatorFiles, serverRole: "disk-agent", serverName: "host-5" },
        },
        waitFor: "nothing",
      });
      await second.start();
      return {
        asked: ["host", "host-5"],
        root: /refuses the registration of the agent at .*: two agents run as host host-5: start .* at .* was replaced by start .*: stop one of the two agents/,
        reasons: ["REGISTRATION_REFUSED"],
        row: ["host host-5", /two agents run as host host-5/],
        cure: /^correct what the refusal names/,
        follow: async () => {
          await second.kill();
          await mesh.process("host-5").restart();
        },
      };
    },
  },
  {
    title: "wrong az in the config of an agent whose devices hold a disk",
    async make(stuck) {
      const end = await servedOn(stuck, "host-7", "in-z1");
      const back = await changed(stuck, "host-7", { az: "z9" });
      return {
        asked: ["host", "host-7"],
        root: /refuses the registration of the agent at .*z9/,
        reasons: ["REGISTRATION_REFUSED"],
        row: ["host host-7", /z9/],
        cure: /^correct what the refusal names, most often in the agent's config/,
        refused: /fence-host|set-host-state dead/,
        follow: back,
        after: end,
      };
    },
  },
  {
    title: "agent's folder full",
    problem: () => (SmallDisk.canMount() ? undefined : "no file system can be mounted here"),
    async make(stuck) {
      const agent = stuck.mesh.process("host-2");
      const folder = stuck.mesh.baseFolder("host-2");
      const disk = SmallDisk.mount(MIB_BYTES);
      if (disk === undefined) throw new Error("no file system was mounted");
      await agent.kill();
      copyFiles(folder, disk.folder);
      const back = await changed(stuck, "host-2", { baseFolder: disk.folder });
      disk.fill();
      return {
        asked: ["host", "host-2"],
        root: /its agent cannot accept orders: .*ENOSPC/,
        reasons: ["AGENT_TAKES_NOTHING_NEW"],
        row: ["host host-2", /ENOSPC/],
        cure: /^free space on the disk under its agent's baseFolder/,
        follow: async () => disk.makeRoom(),
        after: async () => {
          await agent.kill();
          copyFiles(disk.folder, folder);
          disk[Symbol.dispose]();
          await back();
        },
      };
    },
  },
  {
    title: "driver that cannot be loaded",
    async make(stuck) {
      const driver = join(stuck.mesh.folder, "light.mjs");
      const back = await changed(stuck, "host-6", { drivers: [{ package: driver, ...OWN_USER }] });
      const listed = new RegExp(`FAILED +${driver} +\\S`);
      await eventually(async () => expect(await stuck.done("drivers host-6")).to.match(listed));
      return {
        asked: ["host", "host-6"],
        root: new RegExp(`^host host-6 is ONLINE: the agent of host host-6 runs, but driver ${driver} has failed: `),
        reasons: ["DRIVER_FAILED"],
        row: ["host host-6", /light\.mjs has failed/],
        cure: /^repair what the message names: the driver's package/,
        follow: async () => writeFileSync(driver, `export { default } from ${JSON.stringify(SAMPLE_DRIVER)};`),
        after: back,
      };
    },
  },
  {
    title: "agent that hangs, asked of its VM",
    async make(stuck) {
      const agent = stuck.mesh.process("host-3");
      agent.signal("SIGSTOP");
      return {
        // The agent of a VM that is a host has the host's id.
        asked: ["vm", "host-3"],
        root: /is running: .*(host host-3 is (silent|suspected)|the agent of host host-3 is silent)/,
        reasons: [],
        row: ["host host-3", /host-3/],
        cure: /^start its agent, or repair the network to it if it runs/,
        follow: async () => agent.signal("SIGCONT"),
      };
    },
  },
  {
    title: "disk whose user exceeds its limits",
    async make(stuck) {
      const { clients } = stuck.mesh;
      await stuck.done(`provide slow ${stuck.instanceIds[1]} --size 1MiB`);
      await stuck.done("limits slow --read-iops 1");
      const { diskCid } = (await clients.disks.getDynamicDisk({ diskName: "slow" })).disk ?? {};
      const { disk } = await clients.registry.getDisk({ diskId: diskCid ?? "" });
      const user = await NbdClient.connect({ socketPath: disk?.publication?.exportPath ?? "" });
      const reads = Promise.all(Array.from({ length: 60 }, () => user.read(0, 4_096)));
      return {
        asked: ["disk", "slow"],
        root: /^disk slow .*limited to 1 reads\/s, for which \d+ requests wait.*: .* is throttled on host host-\d to 1 reads\/s: \d+ requests wait/,
        reasons: ["IO_STANDS"],
        row: [`disk ${diskCid}`, /is throttled/],
        cure: /^raise the limits, or lift them: diskmesh limits \S+ --none$/,
        follow: () => reads,
        after: async () => {
          await user.disconnect();
          await detachDisk(stuck.mesh, "slow");
          await deleteDisk(stuck.mesh, "slow");
        },
      };
    },
  },
  {
    title: "NATS refuses the subscription of an agent",
    async make(stuck) {
      changeNats(stuck, (text) => text.replaceAll('"agent.host-2"', '"nothing.host-2"'));
      await stuck.mesh.process("host-2").restart();
      return {
        asked: ["vm", "host-2"],
        root: /: the agent of host host-2 runs, but lacks nats: connected, but the server refuses the subscription to "agent\.host-2": permit it/,
        reasons: ["AGENT_LACKS"],
        row: ["host host-2", /lacks nats: connected, but the server refuses the subscription/],
        cure: /^do what the message says about NATS/,
        follow: async () => changeNats(stuck, (text) => text.replaceAll('"nothing.host-2"', '"agent.host-2"')),
      };
    },
  },
  {
    title: "NATS refuses an agent's user",
    async make(stuck) {
      changeNats(stuck, (text) => text.replaceAll('/disk-agent/host-1"', '/disk-agent/nobody"'));
      await stuck.mesh.process("host-1").restart();
      return {
        asked: ["host", "host-1"],
        root: /: the agent of host host-1 runs, but lacks nats: .*the server has no user for/,
        reasons: ["AGENT_LACKS"],
        row: ["host host-1", /lacks nats/],
        cure: /^do what the message says about NATS/,
        follow: async () => changeNats(stuck, (text) => text.replaceAll('/disk-agent/nobody"', '/disk-agent/host-1"')),
      };
    },
  },
];

/** Copies a folder without its sockets, which no copy can serve. */
function copyFiles(from: string, to: string): void {
  cpSync(from, to, { recursive: true, filter: (path) => !lstatSync(path).isSocket() });
}
