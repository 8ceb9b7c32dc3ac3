import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { skipBecause, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";

const repository = fileURLToPath(new URL("../../..", import.meta.url));
const units = join(repository, "deploy/systemd");
const SERVICES = ["director", "cpi-dispatcher", "disk-registry", "disk-agent"];
const SHARED = "diskmesh-.service.d/10-hardening.conf";
/**
 * Maximum exposure level (0 to 10) by `systemd-analyze security`. systemd knows all used settings since version 252.
 */
const EXPOSURE: Record<string, number> = {
  director: 1.2,
  "cpi-dispatcher": 1.3,
  "disk-registry": 1.2,
  // Its child systemd-notify needs NotifyAccess=all.
  "disk-agent": 1.9,
};
/** Keys that may occur several times; the order of their lines does not matter. */
const LISTS = ["SystemCallFilter", "DeviceAllow", "SupplementaryGroups", "Wants"];

function read(file: string): string {
  return readFileSync(join(units, file), "utf8");
}

function keysOf(text: string): string[] {
  return [...text.matchAll(/^(\w+)=/gm)].map(([, key = ""]) => key);
}

describe("the systemd units", () => {
  for (const service of SERVICES) {
    const text = read(`diskmesh-${service}.service`);

    it(`of ${service} name files of a release and of an operator`, async () => {
      const { PROGRAMS } = await import(join(repository, "deploy/local/bootstrap/release.mjs"));
      const [, program = "", config] = /^ExecStart=\/opt\/diskmesh\/bin\/(\S+) --config (\S+)$/m.exec(text) ?? [];
      expect(PROGRAMS).to.have.property(program, service);
      expect(config).to.equal(`/etc/diskmesh/${service}.yaml`);
      expect(text).to.include(`LoadCredential=key.pem:/etc/diskmesh/keys/${service}-key.pem\n`);
      expect(text).to.include(`/run/credentials/diskmesh-${service}.service/key.pem`);
    });

    it(`of ${service} have a user of their own, which is created`, () => {
      expect(text).to.match(new RegExp(`^User=diskmesh-${service}$`, "m"));
      expect(read("diskmesh.sysusers.conf")).to.match(new RegExp(`^u diskmesh-${service} - `, "m"));
    });

    it(`of ${service} set nothing that the common file sets, which would override it`, () => {
      const shared = keysOf(read(SHARED));
      expect(keysOf(text).filter((key) => shared.includes(key) && !LISTS.includes(key))).to.deep.equal([]);
    });
  }

  it("give devices to the agent only, and capabilities to none", () => {
    for (const service of SERVICES) {
      const text = read(`diskmesh-${service}.service`);
      expect(text.includes("PrivateDevices=yes"), service).to.equal(service !== "disk-agent");
      expect(text, service).not.to.match(/^(?:Ambient|CapabilityBoundingSet)/m);
    }
    expect(read(SHARED))
      .to.match(/^CapabilityBoundingSet=$/m)
      .and.match(/^AmbientCapabilities=$/m);
    expect(read("diskmesh-disk-agent.service").match(/^DeviceAllow=.*/gm)).to.deep.equal(["DeviceAllow=block-* rw"]);
  });

  describe("as systemd reads them", () => {
    let folder: string;

    before(function () {
      if (spawnSync("systemd-analyze", ["--version"]).error) skipBecause(this, "systemd-analyze is not on PATH");
      folder = temporaryFolder();
      cpSync(units, folder, { recursive: true });
      mkdirSync(join(folder, "bin"));
      // `systemd-analyze verify` requires that the programs exist, so they are replaced. Another test checks the paths
      // in an unpacked release.
      for (const file of readdirSync(folder).filter((name) => name.endsWith(".service"))) {
        const text = readFileSync(join(folder, file), "utf8");
        writeFileSync(join(folder, file), text.replace("/opt/diskmesh", folder));
        writeFileSync(join(folder, "bin", file.replace(".service", "")), "#!/bin/sh\n", { mode: 0o755 });
      }
    });

    function analyze(...args: string[]) {
      return spawnSync("systemd-analyze", ["--no-pager", ...args], { cwd: folder, encoding: "utf8" });
    }

    for (const service of SERVICES) {
      const unit = `./diskmesh-${service}.service`;

      it(`${service} is correct`, () => {
        const { status, stdout, stderr } = analyze("--man=no", "--recursive-errors=one", "verify", unit);
        expect([status, stdout + stderr]).to.deep.equal([0, ""]);
      });

      it(`${service} has an exposure of at most ${EXPOSURE[service]} of ten`, () => {
        const { status, stdout, stderr } = analyze("security", "--offline=yes", unit);
        const exposed = Number(/exposure level for \S+: ([\d.]+)/.exec(stdout)?.[1]);
        expect(exposed, `${status} ${stderr}${stdout}`).to.be.at.most(EXPOSURE[service] as number);
      });
    }

    /** Returns what systemd finds in a unit with this drop-in, and the rights that it shows. */
    function analyzeWith(dropIn: string, service: string) {
      const dropIns = join(folder, `diskmesh-${service}.service.d`);
      const unit = `./diskmesh-${service}.service`;
      mkdirSync(dropIns);
      cpSync(join(units, dropIn), join(dropIns, dropIn));
      try {
        const { status, stdout, stderr } = analyze("--man=no", "--recursive-errors=one", "verify", unit);
        return { verified: [status, stdout + stderr], rights: analyze("security", "--offline=yes", unit).stdout };
      } finally {
        rmSync(dropIns, { recursive: true });
      }
    }

    for (const service of ["director", "disk-agent"])
      it(`${service} with rights to choose the users of drivers is correct`, () => {
        const { verified, rights } = analyzeWith("drivers.conf", service);
        expect(verified).to.deep.equal([0, ""]);
        expect(rights).to.match(/✗ .*CAP_SET\(UID\|GID\|PCAP\)|✗ .*CAP_SET/);
      });

    it("disk-agent with the rights of the engine kernel is correct, and has no others", () => {
      const { verified, rights } = analyzeWith("kernel-engine.conf", "disk-agent");
      expect(verified).to.deep.equal([0, ""]);
      const given = [...rights.matchAll(/^✗ .*~(CAP_\S+)/gm)].map(([, right]) => right);
      expect(given).to.have.members(["CAP_SYS_ADMIN", "CAP_MKNOD", "CAP_SYSLOG"]);
    });

    it("disk-agent with a trusted storage network is correct", () => {
      expect(analyzeWith("storage-network.conf", "disk-agent").verified).to.deep.equal([0, ""]);
    });

    it("disk-agent with WireGuard is correct, and has the rights for it", () => {
      const { verified, rights } = analyzeWith("wireguard.conf", "disk-agent");
      expect(verified).to.deep.equal([0, ""]);
      const given = [...rights.matchAll(/^✗ .*~(CAP_\S+)/gm)].map(([, right]) => right);
      expect(given).to.have.members(["CAP_NET_ADMIN"]);
    });

    it("the user of drivers is created, and is the one that services choose", () => {
      const chosen = readFileSync(join(repository, "packages/driver/src/host.ts"), "utf8");
      const [, user] = /DRIVER_USER = "(.+)"/.exec(chosen) ?? [];
      expect(read("diskmesh.sysusers.conf")).to.match(new RegExp(`^u ${user} - `, "m"));
      expect(readFileSync(join(repository, "deploy/container/Containerfile"), "utf8")).to.contain(`--gid ${user} `);
    });

    it("a mistake in the common file is found", () => {
      const shared = join(folder, SHARED);
      writeFileSync(shared, read(SHARED).replace("ProtectSystem=", "ProtectSistem="));
      try {
        expect(analyze("--man=no", "verify", "./diskmesh-director.service").stderr).to.match(/ProtectSistem/);
      } finally {
        writeFileSync(shared, read(SHARED));
      }
    });
  });
});
