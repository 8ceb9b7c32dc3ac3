import { readFileSync, rmSync } from "node:fs";
import { NbdRequestError } from "@diskmesh/disk-agent/nbd-client";
import { MIB_BYTES } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { createAuthority, issueCertificate, type KeyPair } from "@diskmesh/pki";
import { Drive, eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { deleteDisk, detachDisk, provideDisk } from "../mesh/steps.js";
import type { Situation } from "./situation.js";
import { FREE_MIB, NOT_ADDED, type StuckFleet } from "./stuck-fleet.js";

/** Number of failures after which an alert for failing calls and tasks must fire. */
const FAILURES = 3;

const MOST = ["host-1", "host-2", "host-3", "host-4", "host-5", "host-6"] as const;

const instanceOn = ({ instanceIds, mesh }: StuckFleet, hostId: string): string =>
  instanceIds[mesh.hostIds.indexOf(hostId)] ?? "";

/** Creates a certificate that the given authority signs. */
function certificateOf(hostId: string, authority: KeyPair): Promise<KeyPair> {
  const identity = { role: "disk-agent", name: hostId } as const;
  const names = { commonName: hostId, dnsNames: [], ipAddresses: ["127.0.0.1"] };
  return issueCertificate(authority, { identity, ...names, validDays: 1, usages: ["server", "client"] });
}

function rightCertificate({ mesh }: StuckFleet, hostId: string): KeyPair {
  const { certFile, keyFile } = mesh.certificates.files(`disk-agent-${hostId}`);
  return { certPem: readFileSync(certFile, "utf8"), keyPem: readFileSync(keyFile, "utf8") };
}

/** All situations. Each leaves the mesh as it found it. */
export const SITUATIONS: readonly Situation[] = [
  {
    title: "dead agent",
    async make({ mesh }) {
      const agent = mesh.process("host-3");
      await agent.kill();
      return {
        asked: ["host", "host-3"],
        root: /^host host-3 is UNAVAILABLE: the agent of host host-3 is silent.*no heartbeat for 3 s, since 20/,
        reasons: ["AGENT_SILENT"],
        row: ["host host-3", /UNAVAILABLE: no heartbeat/],
        cure: /^start its agent/,
        follow: () => agent.start(),
      };
    },
  },
  {
    title: "wrong certificate, of another authority",
    async make(stuck) {
      const another = await createAuthority({ commonName: "another", validDays: 1 });
      const tls = await stuck.withCertificate("host-3", await certificateOf("host-3", another));
      return {
        asked: ["host", "host-3"],
        root: /^host host-3 is UNAVAILABLE: the agent of host host-3 is silent, and a client at 127\.0\.0\.1 is refused: the certificate of disk-agent host-3 is refused: .*, since 20/,
        reasons: ["AGENT_REFUSED", "AGENT_SILENT"],
        row: ["host host-3", /the agent of host host-3 is silent, and a client at 127\.0\.0\.1 is refused/],
        cure: /^if the client is the host's agent, replace the files under `tls` .* certificate and key of disk-agent host-3 from an authority that the registry trusts/,
        // The agent continues to run, and loads the new files by itself.
        follow: async () => stuck.writeCertificate(tls, rightCertificate(stuck, "host-3")),
      };
    },
  },
  {
    title: "wrong certificate, of another host",
    async make(stuck) {
      const tls = await stuck.withCertificate("host-4", rightCertificate(stuck, "host-5"));
      return {
        asked: ["host", "host-4"],
        root: /^host host-4 is UNAVAILABLE: the agent of host host-4 is silent, and an agent is refused: disk-agent host-5 may not act for host host-4: its certificate names another host, since 20/,
        reasons: ["AGENT_REFUSED", "AGENT_SILENT"],
        row: ["host host-4", /the agent of host host-4 is silent, and an agent is refused/],
        cure: /certificate and key of disk-agent host-4.*; restart the agent if its old certificate had ended or named another host/,
        follow: async () => {
          stuck.writeCertificate(tls, rightCertificate(stuck, "host-4"));
          await stuck.mesh.process("host-4").restart();
        },
      };
    },
  },
  {
    title: "owed removal",
    async make(stuck) {
      const { mesh } = stuck;
      await provideDisk(mesh, "owed", instanceOn(stuck, "host-1"));
      const agent = mesh.process("host-1");
      await agent.kill();
      await detachDisk(mesh, "owed");
      return {
        asked: ["vm", "work/worker/0"],
        root: /^work\/worker\/.* is running: the agent of host host-1 is silent.*, since 20/,
        reasons: ["OWES_REMOVALS", "AGENT_SILENT"],
        row: [
          "vm work/worker/0",
          /^the agent of work\/worker\/0 (is silent; |was unreachable when disk owed was detached: the detach)/,
        ],
        cure: /^start its agent on host host-1/,
        follow: () => agent.start(),
        after: () => deleteDisk(mesh, "owed"),
      };
    },
  },
  {
    title: "host to be removed that serves a disk",
    async make(stuck) {
      const { mesh } = stuck;
      await provideDisk(mesh, "served", instanceOn(stuck, "host-2"));
      await stuck.typed("remove-host host-2");
      return {
        asked: ["host", "host-2"],
        root: /^host host-2 is ONLINE, to be removed: dynamic disk served \(disk-.*\) is attached to work\/worker\//,
        reasons: ["REMOVAL_WAITS", "IN_USE"],
        row: ["host host-2", /^host host-2 is being removed: 1 device is not out of operation, it serves 1 disk/],
        cure: /^detach it: diskmesh detach served$/,
        // The host is also a VM, which an operator would stop with the bosh CLI.
        follow: () => stuck.done("add-host host-2"),
        after: () => deleteDisk(mesh, "served"),
      };
    },
  },
  {
    title: "full pool",
    async make(stuck) {
      const most = { diskId: "most", az: "z1", sizeBytes: FREE_MIB * MIB_BYTES };
      // The devices of the disks that earlier situations deleted are erased first.
      await eventually(() => stuck.mesh.clients.registry.createDisk(most));
      const provide = `provide last ${instanceOn(stuck, "host-1")} --size 1MiB --disk-type default`;
      const failed = await stuck.typed(provide);
      expect(failed.code, failed.out).to.equal(1);
      return {
        asked: ["task", await stuck.lastTask()],
        root: /has failed: pool default: 0 bytes are free, .*1 MiB on devices that have not been added/,
        reasons: ["NO_SPACE", "POOL_ROOM"],
        row: [`task ${await stuck.lastTask()}`, /does not fit into pool default of az z1/],
        cure: new RegExp(`^add the host's devices: diskmesh add-host ${NOT_ADDED}$`),
        cured: async () => expect((await stuck.typed(provide)).code).to.equal(0),
        after: async () => {
          await detachDisk(stuck.mesh, "last");
          await deleteDisk(stuck.mesh, "last");
          await stuck.mesh.clients.registry.deleteDisk({ diskId: "most" });
        },
      };
    },
  },
  {
    title: "CPI that hangs",
    async make(stuck) {
      const taskId = await stuck.deploy("hangs", "az-hangs");
      return {
        asked: ["task", taskId],
        root: /is processing: CPI hangs has not answered createVm for agentId .* \(run by dispatcher 127.*\), since 20/,
        reasons: ["CPI_AT_WORK"],
        row: [`task ${taskId}`, /^CPI hangs has not answered createVm/],
        cure: new RegExp(`^cancel the task, which ends this call: diskmesh cancel ${taskId}$`),
      };
    },
  },
  {
    title: "lock held",
    async make(stuck) {
      const owner = await stuck.deploy("hangs", "az-hangs");
      await eventually(async () => expect((await stuck.why("task", owner)).causes[0]?.reason).to.equal("CPI_AT_WORK"));
      const taskId = await stuck.deploy("hangs", "az-hangs");
      return {
        asked: ["task", taskId],
        root: /is queued: CPI hangs has not answered createVm.*, since 20/,
        reasons: ["WAITS_FOR_LOCK", "LOCK_HELD", "CPI_AT_WORK"],
        row: [`task ${taskId}`, /^task \d+ waits for the lock of deployment hangs, which task \d+ \(.*\) holds$/],
        cure: new RegExp(`^cancel the task, which ends this call: diskmesh cancel ${owner}$`),
        cured: async () => {
          expect((await stuck.why("task", taskId)).causes.map(({ reason }) => reason)).not.to.include("WAITS_FOR_LOCK");
          await stuck.done(`cancel ${taskId}`);
        },
      };
    },
  },
  {
    title: "CPI missing",
    async make(stuck) {
      rmSync(stuck.cpiFile("gone"), { force: true });
      let taskId = "";
      for (let failure = 0; failure < FAILURES; failure++) taskId = await stuck.deploy("gone", "az-gone");
      return {
        asked: ["task", taskId],
        root: /has failed: CPI info failed: the CPI's executable .*gone cannot be run \(ENOENT\).*CPI 'gone'.*, since 20/,
        reasons: ["CPI_UNUSABLE"],
        row: ["cpi gone", /gone cannot be run \(ENOENT\): install it there/],
        cure: /^repair what the message names: the CPI's executable on the dispatcher's machine/,
        follow: async () => {
          expect(await stuck.done("get config cpi")).to.contain(stuck.cpiFile("gone"));
          stuck.writeCpi("gone", 'echo \'{"result":null,"error":null,"log":""}\'');
        },
        cured: async () => {
          const again = await stuck.deploy("gone", "az-gone");
          await eventually(async () => {
            const { summary, causes } = await stuck.why("task", again);
            expect(causes.map(({ reason }) => reason).join(), summary).to.match(/^(FAILED)?$/);
            expect(summary).not.to.match(/processing|queued/);
          });
        },
      };
    },
  },
  {
    title: "hung drive",
    problem: () => Drive.problem(),
    async make(stuck) {
      const { drive, hostId, deviceId } = await stuck.withDrive();
      drive.hang();
      await stuck.typed(`remove-host ${hostId}`);
      return {
        asked: ["device", deviceId],
        root: new RegExp(
          `^device ${deviceId} is ATTACHED, WARNING, free: device ${deviceId} of host ${hostId} has health WARNING: a read of device ${deviceId} has not returned within 2000 ms, since 20`,
        ),
        reasons: ["UNHEALTHY"],
        row: [`device ${deviceId}`, / has health WARNING: a read of device .* has not returned within/],
        cure: /^repair the drive on host host-8; the device recovers by itself/,
        follow: async () => {
          drive.resume();
          await stuck.done(`add-host ${hostId}`);
        },
      };
    },
  },
  {
    title: "failing drive",
    problem: () => Drive.problem(),
    async make(stuck) {
      const { drive, hostId, deviceId } = await stuck.withDrive();
      const { registry } = stuck.mesh.clients;
      const user = await stuck.openDiskOnDrive("failing");
      const fails = () => rejection(user.write(0, Buffer.alloc(4_096, 1), { fua: true }), NbdRequestError, "EIO");
      drive.fail();
      await fails();
      return {
        asked: ["device", deviceId],
        root: new RegExp(
          `^device ${deviceId} is ATTACHED, ERROR, .*device ${deviceId} of host ${hostId} has health ERROR: I/O on device ${deviceId} failed: EIO.*, since 20`,
        ),
        reasons: ["UNHEALTHY"],
        row: [`device ${deviceId}`, / has health ERROR: I\/O on device .* failed: EIO/],
        cure: new RegExp(`^once the device is repaired, trust it again: diskmesh set-device-state online ${deviceId}$`),
        meanwhile: fails,
        first: async () => drive.mend(),
        after: async () => {
          await user.write(0, Buffer.alloc(4_096, 2), { fua: true });
          await user.disconnect();
          await registry.unpublishDisk({ diskId: "failing" });
          await registry.deleteDisk({ diskId: "failing" });
          await stuck.withDrive();
        },
      };
    },
  },
  {
    title: "mass silence",
    async make({ mesh }) {
      for (const hostId of MOST) mesh.process(hostId).signal("SIGSTOP");
      return {
        asked: ["host", "host-2"],
        root: /^host host-2 is ONLINE: host host-2 is suspected: it missed \d+ heartbeats in a row; so are most other hosts.*, since 20/,
        reasons: ["MASS_SILENCE"],
        row: [
          "source disk-registry",
          /^6 of 10 hosts are silent: .* check the network and the power; or mark the dead hosts: diskmesh set-host-state dead HOST --reason WHY$/,
        ],
        cure: /^check the network and the power$/,
        follow: async () => {
          for (const hostId of MOST) mesh.process(hostId).signal("SIGCONT");
        },
      };
    },
  },
];
